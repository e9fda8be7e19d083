"""Look up an entry by its name; the error for an unknown name shows similar ones. Lists in messages."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


def pick(table: Mapping[str, T], name: str, what: str = "name") -> T:
    """Return `table[name]`; the error for an unknown name shows similar ones.

    >>> pick({"krylov": 1, "chebyshev": 2}, "chebishev", "basis")
    Traceback (most recent call last):
    ...
    ValueError: unknown basis 'chebishev'. Did you mean 'chebyshev'? Known: chebyshev, krylov.
    """
    if name in table:
        return table[name]
    near = get_close_matches(str(name), table, n=3, cutoff=0.5)
    separator = "; " if any("," in known for known in table) else ", "
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"unknown {what} {name!r}. {hint}Known: {separator.join(sorted(table))}.")


def some(values: Iterable, count: int = 12) -> str:
    """The first values in quotation marks, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    values = list(values)
    shown = ", ".join(map(repr, values[:count]))
    return shown if len(values) <= count else f"{shown} and {len(values) - count} more"
