"""Look up an entry by its name; the error for an unknown name shows similar ones. Lists in messages."""

import inspect
from collections.abc import Callable, Iterable, Mapping
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
    if isinstance(name, str) and name in table:
        return table[name]
    near = similar(str(name), table)
    separator = "; " if any("," in known for known in table) else ", "
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    known = f"Known: {separator.join(sorted(table))}." if table else "There is none."
    raise ValueError(f"unknown {what} {shortened(name)}. {hint}{known}")


def check_options(function: Callable, options: Iterable[str]) -> None:
    """Refuse options that are no arguments of a function with a default.

    >>> check_options(sorted, ["revers"])
    Traceback (most recent call last):
    ...
    ValueError: unknown option of sorted 'revers'. Did you mean 'reverse'? Known: key, reverse.
    """
    parameters = inspect.signature(function).parameters.values()
    known = dict.fromkeys(p.name for p in parameters if p.default is not p.empty)
    for option in options:
        pick(known, option, f"option of {function.__name__}")


def similar(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that begin with this name, or that are spelt almost like it.

    >>> similar("time", ["ties", "tied", "time_limit"]), similar("n_trials", ["trials"]), similar("", ["a"])
    (['time_limit', 'ties', 'tied'], ['trials'], [])
    """
    names = list(names)
    longer = [known for known in names if name and known.startswith((f"{name}_", f"{name}-"))]
    return list(dict.fromkeys([*longer, *get_close_matches(name, names, n=3, cutoff=0.5)]))[:3]


def shortened(value: object) -> str:
    """Return a value as it appears in a message: on one line of at most 80 characters.

    >>> shortened("a"), shortened(list(range(100)))
    ("'a'", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 2...')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def some(values: Iterable, count: int = 12) -> str:
    """The first values in quotation marks, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    values = list(values)
    shown = ", ".join(map(repr, values[:count]))
    return shown if len(values) <= count else f"{shown} and {len(values) - count} more"
