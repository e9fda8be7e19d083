"""Look up an entry by its name; an unknown name is an error that shows the nearest ones."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

Entry = TypeVar("Entry")


def pick(table: Mapping[str, Entry], name: str, what: str = "name") -> Entry:
    """Return `table[name]`; the error for an unknown name shows the nearest known ones.

    >>> pick({"krylov": 1, "chebyshev": 2}, "chebishev", "basis")
    Traceback (most recent call last):
    ...
    ValueError: unknown basis 'chebishev'. Did you mean 'chebyshev'? Known: chebyshev, krylov.
    """
    if name in table:
        return table[name]
    near = get_close_matches(str(name), table, n=3, cutoff=0.5)
    between = "; " if any("," in known for known in table) else ", "
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"unknown {what} {name!r}. {hint}Known: {between.join(sorted(table))}.")
