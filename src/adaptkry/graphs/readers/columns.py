"""Tables as named columns: CSV through the standard library, Parquet through pyarrow."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

UNKNOWN = {"", "-1", "nan"}  # labels that say nothing
Columns = dict[str, np.ndarray]


def read_columns(path: Path) -> Columns:
    """Every column by its name: text from CSV and TSV, what the file says from Parquet."""
    columns = _parquet(path) if path.suffix == ".parquet" else _csv(path, "\t" if path.suffix == ".tsv" else ",")
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{path} must have a line of column names and rows below it, but no row came.")
    return columns


def _csv(path: Path, delimiter: str) -> Columns:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file, delimiter=delimiter) if row] or [[]]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, but {error.reason} at byte {error.start}. Convert it.") from None
    if len(header) == 1 and (found := next((mark for mark in ";\t|" if mark in header[0]), None)):
        raise ValueError(f"{path} looks separated by {found!r}. Separate its values by commas (or tabs, as .tsv).")
    if len(set(header)) < len(header):
        raise ValueError(f"{path}: column names must differ, but {', '.join(header)} came.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}: every row must have {len(header)} values ({', '.join(header)}), but row {number} has "
                f"{len(row)}. Quote values that contain the separator {delimiter!r}."
            )
    return {name: np.array([row[place] for row in rows], dtype=object) for place, name in enumerate(header)}


def _parquet(path: Path) -> Columns:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError(f"{path}: Parquet needs pyarrow. Install it: pip install 'adaptkry[files]'.") from None
    try:
        table = parquet.ParquetFile(path).read()
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file that can be read ({error}).") from None
    return {name: table[name].to_numpy() for name in table.column_names if not name.startswith("__index_level")}


def pick_column(path: Path, columns: Columns, name: str, what: str) -> np.ndarray:
    """One column, or an error that shows which there are."""
    if name not in columns:
        raise ValueError(
            f"{path} has no column {name!r} for {what}. Its columns are {_some(list(columns))}: "
            f"rename the one that holds them to {name!r}."
        )
    return columns[name]


def texts(column: np.ndarray) -> list[str]:
    """Ids and labels as text: 7, 7.0 and "7" are the same, None and NaN are empty."""
    return [_text(value) for value in column.tolist()]


def _text(value) -> str:
    if value is None or value != value:  # NaN
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def keys(path: Path, columns: Columns, name: str, what: str) -> list[str]:
    """A column of node ids; a blank one is refused."""
    found = texts(pick_column(path, columns, name, what))
    if "" in found:
        raise ValueError(
            f"{path}: column {name!r} must name a node in every row, but row {found.index('') + 1} is blank."
        )
    return found


def numbers(path: Path, columns: Columns, names: Sequence[str], whose: Callable[[int], str], advice: str) -> np.ndarray:
    """Columns of numbers side by side as float32 [n, d].

    Text and missing values are refused: the message says `whose` they are, by row, and ends with the advice.
    """
    matrix = np.empty((len(columns[names[0]]), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        column = columns[name]
        try:
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, and is refused below
                matrix[:, place] = np.where(column == "", "nan", column) if column.dtype == object else column
        except (TypeError, ValueError):
            row = next(row for row, value in enumerate(column.tolist()) if not _is_number(value))
            raise ValueError(
                f"{path}: column {name!r} must hold numbers, but {whose(row)} has {column[row]!r}. {advice}"
            ) from None
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, place = bad[0]
        raise ValueError(
            f"{path}: column {names[place]!r} must hold finite numbers, but {whose(row)} has {matrix[row, place]} "
            f"({len(bad)} such values in the file). Fill missing values in, or delete those rows."
        )
    return matrix


def _is_number(value) -> bool:
    try:
        float("nan" if value in ("", None) else value)
    except (TypeError, ValueError):
        return False
    return True


def encode(labels: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers [n], -1 where the label is missing, and the names of the classes in order.

    Names that are all whole numbers are ordered as numbers, others as text.

    >>> encode(["10", "9", "", "10"])
    (array([ 1,  0, -1,  1]), ('9', '10'))
    """
    known = {label for label in labels if label.lower() not in UNKNOWN}
    names = sort_names(known)
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(label, -1) for label in labels], dtype=np.int64), tuple(names)


def sort_names(names: set[str]) -> list[str]:
    """Numbers by value, anything else as text."""
    whole = all(name.removeprefix("-").isdecimal() for name in names)
    return sorted(names, key=lambda name: (int(name), name) if whole else (0, name))


def index(path: Path, ids: Sequence[str], known: Sequence[str], column: str) -> np.ndarray:
    """Position of each id among the known ones; strangers are refused, and shown."""
    position = {name: place for place, name in enumerate(known)}
    found = np.array([position.get(one, -1) for one in ids], dtype=np.int64)
    if (found < 0).any():
        strangers = list(dict.fromkeys(one for one in ids if one not in position))
        raise ValueError(
            f"{path}: column {column!r} names nodes that the nodes file does not have: {_some(strangers)}. "
            f"Add them there, or drop their edges. Ids there look like {_some(known, 3)}."
        )
    return found


def _some(values: Sequence[str], count: int = 12) -> str:
    shown = ", ".join(map(repr, values[:count]))
    return shown if len(values) <= count else f"{shown} and {len(values) - count} more"
