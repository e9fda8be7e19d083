"""Settings of a recipe from text: `name=value`, read as the kind of value that the setting holds."""

import math
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from adaptkry.lookup import pick
from adaptkry.recipes import Recipe


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
