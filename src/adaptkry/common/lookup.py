"""Look up an entry by its name; the error for an unknown name shows similar ones."""

from collections.abc import Mapping
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
