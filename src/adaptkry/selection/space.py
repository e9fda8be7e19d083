"""What `tune` searches: for every method the settings that vary and how far. Data, and how it is read.

A sampler turns dials: numbers in a range, or the number of an option. Most settings are one dial; several taus are a
dial each and one for how many of them count.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from adaptkry.models.methods import FALLBACK_GRID
from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included; whole ones if `low` is."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    def holds(self, value: float) -> bool:
        """Whether the value can be reached."""
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return self.low <= value <= self.high and abs(steps - round(steps)) < 1e-8


@dataclass(frozen=True)
class Choice:
    """One of these, in no order."""

    options: tuple


@dataclass(frozen=True)
class Several:
    """One to `most` different numbers of a range, in rising order."""

    most: int
    each: Range


Space = Mapping[str, Range | Choice | Several]
Dials = dict[str, float]

RATE, DECAY, DROPOUT = Range(1e-3, 0.2, log=True), Range(1e-6, 1e-2, log=True), Range(0.0, 0.9, step=0.1)
RATES: Space = dict(mlp_lr=RATE, mlp_decay=DECAY, mlp_dropout=DROPOUT)
KRYLOV: Space = RATES | dict(
    taus=Several(3, Range(0.1, 1.9, step=0.1)), degree=Range(2, 10, step=2), hop_norm=Choice((False, True)),
    directions=Choice((("both",), ("out",), ("in",), ("out", "in"))), hidden=Choice((64, 128, 256)),
    layers=Range(1, 4), filter_lr=Range(5e-4, 0.2, log=True), filter_decay=DECAY, filter_dropout=DROPOUT,
)  # fmt: skip
PERSONAL: Space = RATES | dict(alpha=Range(0.05, 0.95, step=0.05))  # personalised PageRank's alpha

# Methods that are not here choose among `methods.FALLBACK_GRID`; those that are not there either vary their rates.
SPACES: dict[str, Space] = {
    "adaptkry": KRYLOV,
    "orthkry": KRYLOV,
    "mlp": RATES | dict(hidden=Choice((64, 128, 256)), layers=Range(1, 4)),
    "lowpass": RATES | dict(taus=Several(1, Range(0.1, 1.9, step=0.1)), degree=Range(1, 8)),
    "arma": RATES | dict(input_dropout=DROPOUT, degree=Range(1, 4)),
    "gnn-lf": PERSONAL,
    "gnn-hf": PERSONAL,
    "g2cn": dict(mlp_lr=RATE, mlp_decay=DECAY, filter_lr=RATE),
    "asgc": dict(mlp_decay=Range(1e-3, 1e2, log=True)),
}


def space_of(made: Recipe, fixed: Collection[str], directed: bool) -> Space:
    """What varies around a recipe: its method's table, without settings that are fixed or would change nothing."""
    listed = {name: Choice(options) for name, options in FALLBACK_GRID.get(made.method, {}).items()}
    whole = SPACES.get(made.method) or listed or RATES
    idle = set(fixed) | ({"directions"} if not directed else set())
    if made.combine == "concat":  # hops side by side have no filter
        idle |= {"filter_lr", "filter_decay", "filter_dropout"}
    return {name: kind for name, kind in whole.items() if name not in idle}


def dials_of(space: Space) -> dict[str, Range | Choice]:
    """Every dial there is: a space with its several numbers taken apart.

    >>> list(dials_of({"taus": Several(2, Range(0.1, 1.9)), "layers": Range(1, 4)}))
    ['taus_count', 'taus_1', 'taus_2', 'layers']
    """
    dials: dict[str, Range | Choice] = {}
    for name, kind in space.items():
        if isinstance(kind, Several):
            dials[f"{name}_count"] = Range(1, kind.most)
            dials |= {f"{name}_{i}": kind.each for i in range(1, kind.most + 1)}
        else:
            dials[name] = kind
    return dials


def settings_at(space: Space, dials: Mapping[str, float]) -> dict[str, Any]:
    """The settings that the dials point to.

    >>> space = {"taus": Several(2, Range(0.1, 1.9, step=0.1)), "hop_norm": Choice((False, True))}
    >>> settings_at(space, {"taus_count": 2, "taus_1": 0.7, "taus_2": 0.1 + 0.2, "hop_norm": 1})
    {'taus': (0.3, 0.7), 'hop_norm': True}
    """
    return {name: value_at(name, kind, dials) for name, kind in space.items()}


def value_at(name: str, kind: Range | Choice | Several, dials: Mapping[str, float]) -> Any:
    """One setting; numbers keep three digits, which are easier to write down and lose nothing."""
    if isinstance(kind, Choice):
        return kind.options[int(dials[name])]
    if isinstance(kind, Several):
        count = int(dials[f"{name}_count"])
        return tuple(sorted({value_at(f"{name}_{i}", kind.each, dials) for i in range(1, count + 1)}))
    return int(dials[name]) if isinstance(kind.low, int) else float(f"{dials[name]:.3g}")


def dials_at(space: Space, settings: Mapping[str, Any]) -> Dials:
    """Where the dials stand for these settings; those that cannot reach a setting are left out."""
    dials: Dials = {}
    for name, kind in space.items():
        value = settings[name]
        if isinstance(kind, Choice):
            dials |= {name: kind.options.index(value)} if value in kind.options else {}
        elif isinstance(kind, Range):
            dials |= {name: value} if kind.holds(value) else {}
        elif len(value) <= kind.most and all(map(kind.each.holds, value)):
            dials |= {f"{name}_count": len(value)} | {f"{name}_{i}": part for i, part in enumerate(value, 1)}
    return dials
