"""Settings of a recipe as text: `name=value` on the command line, or a TOML file."""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from adaptkry.common.lookup import pick
from adaptkry.models.recipe import HINTS, NAMED_VALUES, Recipe
from adaptkry.models.stages import stage_from_dict


def finite_number(text: str) -> float:
    """Parse a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def true_or_false(text: str) -> bool:
    """Parse "true" or "false"."""
    return pick({"true": True, "false": False}, text.lower())


PARSERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (finite_number, "a number"),
    bool: (true_or_false, "true or false"),
    str: (str, "a name"),
}


def element_type(hint: Any) -> Any:
    """Return the type of a setting, or of the entries of a tuple."""
    if get_origin(hint) is Literal:
        return str
    return next((part for part in get_args(hint) if part is not ...), hint)


# Settings that `name=value` can set; stages and basis options need a file.
SETTABLE = {name: hint for name, hint in HINTS.items() if name != "method" and element_type(hint) in PARSERS}


def parse(text: str) -> tuple[str, Any]:
    """Parse the name and value of one setting.

    >>> parse("mlp_lr=0.05"), parse("taus=0.5,1")
    (('mlp_lr', 0.05), ('taus', (0.5, 1.0)))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"a setting must be given as name=value, such as hidden=128; got {text!r}.")
    if name in ("stages", "basis_options"):
        raise ValueError(f"the setting {name} must be given in a TOML file (--settings FILE); got {text!r}.")
    hint = pick(SETTABLE, name, "setting")
    if value in NAMED_VALUES[name]:
        return name, value
    parser, expected = PARSERS[element_type(hint)]
    expected = ", ".join([*NAMED_VALUES[name], expected])
    is_list = get_origin(hint) is tuple
    try:
        values = [parser(part.strip()) for part in (value.split(",") if is_list else [value])]
    except ValueError:
        listed = ", or several separated by commas" if is_list else ""
        raise ValueError(f"the setting {name} must be {expected}{listed}; got {value!r}.") from None
    return name, tuple(values) if is_list else values[0]


def merge(options: Mapping[str, Any], texts: Iterable[str]) -> dict[str, Any]:
    """Combine options that are not None with settings from text; refuse a setting that is given both ways."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    given = {name: value for name, value in given.items() if value is not None}
    for text in texts:
        name, value = parse(text)
        if name in given:
            raise ValueError(f"each setting must be given once; got {name} twice. Use the option, or {name}=value.")
        given[name] = value
    return given


def to_toml(recipe: Recipe, heading: str) -> str:
    """Write every setting of a recipe as TOML, one per line, below a comment.

    >>> to_toml(Recipe(), "An example.").splitlines()[:3]
    ['# An example.', 'method = "adaptkry"', 'stages = [{stage = "CombineHops"}, {stage = "ResidualMLP"}]']
    """
    lines = [f"# {line}" for line in heading.splitlines()]
    lines += [f"{name} = {_toml_value(name, value)}" for name, value in recipe.to_dict().items()]
    return "\n".join(lines) + "\n"


def _toml_value(name: str, value: Any) -> str:
    """Write one value as TOML, which is JSON except for tables."""
    if name == "basis_options":
        return _toml_value("", dict(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml_value('', part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value("", part) for part in value) + "]"
    return json.dumps(value)


def from_toml(path: Path) -> dict[str, Any]:
    """Read settings, and possibly the method, from a file such as `tune` writes."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # neither TOML nor UTF-8, or nested too deeply
        raise ValueError(f"{path} must hold settings in TOML; got a file that cannot be read ({error}).") from None
    try:
        return {name: _from_toml_value(name, value) for name, value in document.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _from_toml_value(name: str, value: Any) -> Any:
    """Convert one setting to the type of the field in `Recipe`."""
    hint = pick(HINTS, name, "setting")
    if name == "basis_options":
        if not isinstance(value, dict):
            raise ValueError(f"the setting {name} must be a table such as {{a = 1.0}}; got {value!r}.")
        return tuple(value.items())
    if name == "stages":
        if not isinstance(value, list):
            raise ValueError(f"the setting {name} must be a list of stages; got {value!r}.")
        return tuple(map(stage_from_dict, value))
    kind, is_list = element_type(hint), get_origin(hint) is tuple
    values = value if is_list else [value]
    if not isinstance(values, list) or not all(_has_type(item, kind) for item in values):
        expected = PARSERS[kind][1] + " or several in a list" * is_list
        raise ValueError(f"the setting {name} must be {expected}; got {value!r}.")
    return tuple(map(kind, values)) if is_list else kind(value)


def _has_type(value: Any, kind: type) -> bool:
    """Return whether a value from a file has that type; an integer is a number too, but a bool is not."""
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind
