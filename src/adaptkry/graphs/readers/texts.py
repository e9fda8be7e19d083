"""Ids, labels and categories as text: what counts as missing, and how names are numbered."""

from collections.abc import Sequence

import numpy as np

DIGITS = 4000  # Python refuses to convert longer text to an integer


def texts(column: np.ndarray) -> list[str]:
    """Values as text: 7, 7.0 and "7" are the same, None and NaN are empty."""
    return [text_of(value) for value in column.tolist()]


def text_of(value) -> str:
    """One value as text."""
    if is_null(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def is_null(value) -> bool:
    """Whether a value is None, NaN, or what pandas has in their place."""
    is_missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return is_missing or (isinstance(value, float | np.floating) and bool(value != value))


def encode(labels: Sequence[str], known: Sequence[str] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers [n], -1 for missing labels (empty text), and the names of the classes in order.

    If all names are integers they are sorted as numbers, otherwise as text. Classes that are known already, such as
    those of a run, come first and keep their numbers.

    >>> encode(["10", "9", "", "10"])
    (array([ 1,  0, -1,  1]), ('9', '10'))
    >>> encode(["10", "9"], known=["10"])
    (array([0, 1]), ('10', '9'))
    """
    names = [*known, *sorted_names({*labels} - {"", *known})]
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(label, -1) for label in labels], dtype=np.int64), tuple(names)


def sorted_names(names: set[str]) -> list[str]:
    """Sort names as numbers if all are integers, otherwise as text."""
    are_integers = all(is_integer(name) for name in names)
    return sorted(names, key=lambda name: (int(name), name) if are_integers else (0, name))


def is_integer(text: str) -> bool:
    """Whether a text is an integer."""
    return text.removeprefix("-").isdecimal() and len(text) < DIGITS
