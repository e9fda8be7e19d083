"""Settings of a recipe as text: `name=value` on the command line, or a TOML file that holds all of them."""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from adaptkry.common.lookup import pick
from adaptkry.models.recipe import Recipe


def number(text: str) -> float:
    """A finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def truth(text: str) -> bool:
    """True or false."""
    return pick({"true": True, "false": False}, text.lower())


READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (number, "a number"),
    bool: (truth, "true or false"),
    str: (str, "a word"),
}


def part_of(kind: Any) -> Any:
    """What a value consists of: the kind itself, that of a tuple's entries, or that of an optional value."""
    if get_origin(kind) is Literal:
        return str
    return next((part for part in get_args(kind) if part not in (NoneType, ...)), kind)


KINDS = {
    name: kind for name, kind in get_type_hints(Recipe).items() if name != "method" and part_of(kind) in READERS
}  # fmt: skip


def read(text: str) -> tuple[str, Any]:
    """Name and value of one setting.

    >>> read("mlp_lr=0.05"), read("taus=0.5,1")
    (('mlp_lr', 0.05), ('taus', (0.5, 1.0)))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"a setting is given as name=value, such as hidden=128, but {text!r} came.")
    kind = pick(KINDS, name, "setting")
    reader, wanted = READERS[part_of(kind)]
    try:
        found = [reader(part.strip()) for part in (value.split(",") if get_origin(kind) is tuple else [value])]
    except ValueError:
        raise ValueError(f"the setting {name} wants {wanted}, but {value!r} came.") from None
    return name, tuple(found) if get_origin(kind) is tuple else found[0]


def merged(options: Mapping[str, Any], texts: Iterable[str]) -> dict[str, Any]:
    """Options that were given (not None) and settings from text; what comes both ways is refused."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    given = {name: value for name, value in given.items() if value is not None}
    for text in texts:
        name, value = read(text)
        if name in given:
            raise ValueError(f"the setting {name} came twice. Give it once, as an option or as {name}=value.")
        given[name] = value
    return given


def as_toml(made: Recipe, heading: str) -> str:
    """Every setting of a recipe, one a line, below a comment.

    >>> as_toml(Recipe(), "An example.").splitlines()[:4]
    ['# An example.', 'method = "adaptkry"', 'stages = ["combine", "mlp"]', 'taus = [0.5]']
    """
    lines = [f"# {line}" for line in heading.splitlines()]
    return "\n".join([*lines, *(f"{name} = {toml_value(name, value)}" for name, value in asdict(made).items())]) + "\n"


def toml_value(name: str, value: Any) -> str:
    """One value in TOML's words, which are JSON's but for tables."""
    if name == "basis_options":
        return "{" + ", ".join(f"{key} = {json.dumps(part)}" for key, part in value) + "}"
    return json.dumps(value)


def from_toml(path: Path) -> dict[str, Any]:
    """Settings from a file such as `tune` writes; it may hold all or some of them, and the method."""
    try:
        page = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not TOML, or not even text
        raise ValueError(f"{path} holds no settings in TOML ({error}).") from None
    try:
        return {name: from_toml_value(name, value) for name, value in page.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_toml_value(name: str, value: Any) -> Any:
    """One setting as the kind of value that it holds."""
    kind = pick(get_type_hints(Recipe), name, "setting")
    if name == "basis_options":
        if not isinstance(value, dict):
            raise ValueError(f"the setting {name} wants a table such as {{a = 1.0}}, but {value!r} came.")
        return tuple(value.items())
    part, many = part_of(kind), get_origin(kind) is tuple
    found = value if many else [value]
    if not isinstance(found, list) or not all(fits(one, part) for one in found):
        raise ValueError(
            f"the setting {name} wants {READERS[part][1]}{' or more in a list' * many}, but {value!r} came."
        )
    return tuple(map(part, found)) if many else part(value)


def fits(value: Any, kind: type) -> bool:
    """Whether a value from a file is of that kind; a whole number is a number too, but true is not."""
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind
