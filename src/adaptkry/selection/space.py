"""Search spaces: the settings that `tune` varies and their ranges, read from the TOML file of each method.

A sampler draws parameters, which are numbers in a range or the index of an option. Most settings are one parameter;
taus are several: one for their number, and one for each of them.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included; integers if `low` is an integer."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    def contains(self, value: float) -> bool:
        """Return whether the value can be drawn."""
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return self.low <= value <= self.high and abs(steps - round(steps)) < 1e-8


@dataclass(frozen=True)
class Choice:
    """One of several options without an order."""

    options: tuple


@dataclass(frozen=True)
class SortedSubset:
    """Between one and `at_most` different numbers in a range, in ascending order."""

    at_most: int
    each: Range


Space = Mapping[str, Range | Choice | SortedSubset]
Parameters = dict[str, float]

DEFAULT_SPACE: Space = {
    "mlp_lr": Range(1e-3, 0.2, log=True),
    "mlp_decay": Range(1e-6, 1e-2, log=True),
    "mlp_dropout": Range(0.0, 0.9, step=0.1),
}


def parse_space(table: Mapping[str, Mapping[str, Any]]) -> Space:
    """Read a search space from the table of a TOML file.

    >>> parse_space({"taus": {"low": 0.1, "high": 1.9, "at_most": 2}, "hidden": {"choices": [64, 128]}})["hidden"]
    Choice(options=(64, 128))
    """
    return {name: _parse(entry) for name, entry in table.items()}


def _parse(entry: Mapping[str, Any]) -> Range | Choice | SortedSubset:
    if "choices" in entry:
        return Choice(tuple(tuple(option) if isinstance(option, list) else option for option in entry["choices"]))
    numbers = Range(**{name: value for name, value in entry.items() if name != "at_most"})
    return SortedSubset(entry["at_most"], numbers) if "at_most" in entry else numbers


def space_of(recipe: Recipe, fixed: Collection[str], is_directed: bool) -> Space:
    """Return the search space of the recipe's method, without settings that are fixed or have no effect."""
    method = METHODS[recipe.method]
    grid = {name: Choice(options) for name, options in method.fallback_grid.items()}
    space = parse_space(method.search_space) or grid or DEFAULT_SPACE
    excluded = set(fixed) | ({"directions"} if not is_directed else set())
    if recipe.combine_hops == "concat" and (
        "combine_hops" in excluded or "combine_hops" not in space
    ):  # there is no filter
        excluded |= {"filter_lr", "filter_decay", "filter_dropout"}
    return {name: kind for name, kind in space.items() if name not in excluded and _accepts(recipe, name, kind)}


def _accepts(recipe: Recipe, name: str, kind: Range | Choice | SortedSubset) -> bool:
    """Return whether a recipe accepts every value of a setting; with batch norm, for example, it refuses layer norm."""
    numbers = kind.each if isinstance(kind, SortedSubset) else kind
    values = numbers.options if isinstance(numbers, Choice) else (numbers.low, numbers.high)
    try:
        for value in values:
            replace(recipe, **{name: (value,) if isinstance(kind, SortedSubset) else value})
    except ValueError:
        return False
    return True


def parameters_of(space: Space) -> dict[str, Range | Choice]:
    """Return all parameters that a sampler draws.

    >>> list(parameters_of({"taus": SortedSubset(2, Range(0.1, 1.9)), "layers": Range(1, 4)}))
    ['taus_count', 'taus_1', 'taus_2', 'layers']
    """
    parameters: dict[str, Range | Choice] = {}
    for name, kind in space.items():
        if isinstance(kind, SortedSubset):
            parameters[f"{name}_count"] = Range(1, kind.at_most)
            parameters |= {f"{name}_{i}": kind.each for i in range(1, kind.at_most + 1)}
        else:
            parameters[name] = kind
    return parameters


def to_settings(space: Space, parameters: Mapping[str, float]) -> dict[str, Any]:
    """Convert parameters to settings.

    >>> space = {"taus": SortedSubset(2, Range(0.1, 1.9, step=0.1)), "hop_norm": Choice((False, True))}
    >>> to_settings(space, {"taus_count": 2, "taus_1": 0.7, "taus_2": 0.1 + 0.2, "hop_norm": 1})
    {'taus': (0.3, 0.7), 'hop_norm': True}
    """
    return {name: _value(name, kind, parameters) for name, kind in space.items()}


def _value(name: str, kind: Range | Choice | SortedSubset, parameters: Mapping[str, float]) -> Any:
    """Convert the parameters of one setting; numbers are rounded to three significant digits, for readability."""
    if isinstance(kind, Choice):
        return kind.options[int(parameters[name])]
    if isinstance(kind, SortedSubset):
        count = int(parameters[f"{name}_count"])
        return tuple(sorted({_value(f"{name}_{i}", kind.each, parameters) for i in range(1, count + 1)}))
    return int(parameters[name]) if isinstance(kind.low, int) else float(f"{parameters[name]:.3g}")


def to_parameters(space: Space, settings: Mapping[str, Any]) -> Parameters:
    """Convert settings to parameters, leaving out values that the space does not contain."""
    parameters: Parameters = {}
    for name, kind in space.items():
        value = settings[name]
        if isinstance(kind, Choice):
            parameters |= {name: kind.options.index(value)} if value in kind.options else {}
        elif isinstance(kind, Range):
            parameters |= {name: value} if kind.contains(value) else {}
        elif len(value) <= kind.at_most and all(map(kind.each.contains, value)):
            parameters |= {f"{name}_count": len(value)} | {f"{name}_{i}": part for i, part in enumerate(value, 1)}
    return parameters


def around(space: Space, settings: Mapping[str, Any]) -> Space:
    """Return the part of a space that is close to these settings.

    A range on a logarithmic scale is limited to a third and three times the value, another range to a quarter of its
    width on both sides. Choices and settings outside their range are not limited.

    >>> around({"mlp_lr": Range(0.001, 0.1, log=True)}, {"mlp_lr": 0.02})
    {'mlp_lr': Range(low=0.00667, high=0.06, step=None, log=True)}
    """
    return {name: _limited(kind, settings[name]) for name, kind in space.items()}


def _limited(kind: Range | Choice | SortedSubset, value: Any) -> Range | Choice | SortedSubset:
    if not isinstance(kind, Range) or not kind.contains(value):
        return kind
    quarter = (kind.high - kind.low) / 4
    low, high = (value / 3, value * 3) if kind.log else (value - quarter, value + quarter)
    if kind.step is not None or isinstance(kind.low, int):
        step = kind.step or 1
        low = round(kind.low + step * math.ceil((max(low, kind.low) - kind.low) / step - 1e-9), 10)
        high = round(kind.low + step * math.floor((min(high, kind.high) - kind.low) / step + 1e-9), 10)
    whole = int if isinstance(kind.low, int) else float
    low, high = max(whole(low), kind.low), min(whole(high), kind.high)
    return replace(kind, low=float(f"{low:.3g}") if whole is float else low, high=high)
