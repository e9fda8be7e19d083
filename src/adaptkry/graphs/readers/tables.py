"""Read a graph from two tables, one of edges and one of nodes: CSV, TSV or (with pyarrow) Parquet."""

import csv
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adaptkry.common.lookup import some
from adaptkry.common.memory import check_memory
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.paths import check_file, error_prefix, graph_name, parsing

logger = logging.getLogger(__name__)

LABEL_LIKE = ("label", "class", "labels", "y", "category")  # columns that look like labels: never silently features
WEIGHT_LIKE = ("weight", "weights", "edge_weight")
ROW_NUMBERS = re.compile(r"|Unnamed: \d+")  # names that pandas gives to its row numbers in CSV files
EXACT = 2**53  # integers up to here are exact in float64
DIGITS = 4000  # Python refuses to convert longer text to an integer
Columns = dict[str, np.ndarray]
Nodes = tuple[list[str], np.ndarray | None, np.ndarray | None, tuple[str, ...] | None, list[str] | None]


def read_tables(
    path: Path,
    *more: Path,
    nodes: str | Path | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    key: str = "id",
    label: str | None = None,
    ignore: Sequence[str] = (),
    directed: bool | None = None,
    name: str | None = None,
    metric: str = "accuracy",
) -> Graph:
    """Read a table of edges and a table of nodes; without the latter, the nodes are those in the edges."""
    node_files = [*more, *([] if nodes is None else [Path(nodes)])]
    if len(node_files) > 1:
        raise ValueError(
            f"a graph in tables has one file of edges and one of nodes; got "
            f"{', '.join(map(str, (path, *node_files)))}. Concatenate the files of each kind."
        )
    table = read_columns(path)
    what = "the ends of edges (pass the edges file first, then the nodes file)"
    weight = _column_called(path, table, "weight", weight, WEIGHT_LIKE, "edge weights")
    ends = {end: _ids(path, table, end, what) for end in (source, target)}
    if node_files:
        ids, features, labels, classes, names = _nodes(check_file(node_files[0].expanduser()), key, label, ignore)
    else:
        ids, names = _sorted_names({*ends[source], *ends[target]}), None
        features = labels = classes = None
    pairs = np.stack([_positions(path, ends[end], ids, end) for end in (source, target)])
    info = Info(name or graph_name(path), metric, None, classes, tuple(ids), names, dtype=torch.float32)
    weights = _weights(path, table, weight)
    log_unused(path, "columns", [column for column in table if column not in {source, target, weight}])
    with error_prefix(path):
        return Graph(pairs, features, labels, nodes=len(ids), weights=weights, directed=bool(directed), info=info)


def _weights(path: Path, table: Columns, weight: str | None) -> np.ndarray | None:
    """The column of weights [m], or None if there is none."""
    if weight is None:
        return None
    remedy = "Give every edge a weight, or delete the column."
    return _numbers(path, table, [weight], lambda row: f"the edge in row {row + 1}", remedy)[:, 0]


def log_unused(where: Path | str, what: str, names: Iterable[str]) -> None:
    """List columns or arrays that are not used, since one of them may be misspelled."""
    if names := list(names):
        logger.warning("%s: these %s are not used: %s", where, what, some(names))


def _nodes(path: Path, key: str, label: str | None, ignore: Sequence[str]) -> Nodes:
    """Ids, features [n, d], labels [n], class names and feature names of a nodes file; None for missing ones."""
    table = read_columns(path)
    ids = _ids(path, table, key, "node ids")
    repeated, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{path}: node ids must differ; {repeated!r} occurs {times} times. Delete the other rows.")
    for name in ignore:
        if name not in table:
            raise ValueError(f"{path}: ignore must list columns ({some(table)}); got {name!r}. Leave it out.")
    label = _column_called(path, table, "label", label, LABEL_LIKE, "labels", {key, *ignore})
    names = [name for name in table if name not in {key, label, *ignore}]
    numbered = next((name for name in names if ROW_NUMBERS.fullmatch(name)), None)
    if numbered is not None:
        raise ValueError(
            f"{path}: every column must have a name; got {numbered!r}, which looks like row numbers written by pandas. "
            f"Delete the column, or write the file with index=False."
        )
    remedy = (
        f"Convert it to numbers (dates for example to days), or delete the column; labels go in a column called "
        f"{label or 'label'}."
    )
    features = _numbers(path, table, names, lambda row: f"node {ids[row]!r}", remedy) if names else None
    labels, classes = encode(texts(table[label])) if label else (None, None)
    return ids, features, labels, classes, names or None


def _column_called(
    path: Path,
    table: Columns,
    default: str,
    given: str | None,
    similar: Sequence[str],
    what: str,
    others: Iterable[str] = (),
) -> str | None:
    """Name of an optional column, or None if there is none; a column whose name is only similar is refused."""
    if given is not None:
        _column(path, table, given, what)
        return given
    names = [name for name in table if name not in others]
    other_case = [name for name in names if name != default and name.strip().lower() == default]
    likely = other_case or [name for name in names if name.strip().lower() in similar and default not in table]
    if likely:
        raise ValueError(
            f"{path}: {what} must be in a column called {default}; column {likely[0]!r} looks like {what}, which must "
            f"neither be left out nor used as a feature. Rename the column, or delete it."
        )
    return default if default in names else None


def read_columns(path: Path) -> Columns:
    """Every column by its name: text from CSV and TSV, typed columns from Parquet."""
    suffix = check_file(path).suffix.lower()
    columns = _parquet(path) if suffix == ".parquet" else _csv(path, "\t" if suffix == ".tsv" else ",")
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{path} must have a line of column names and rows below it; got no rows. Add rows.")
    return columns


def _csv(path: Path, delimiter: str) -> Columns:
    """Columns of text from a CSV or TSV file."""
    lines = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            table = []
            for row in reader:
                lines = reader.line_num
                table += [row] if row else []
    except csv.Error as error:
        raise ValueError(
            f"{path} must be a table of text in which quotation marks come in pairs; line {lines + 1} cannot be "
            f"read ({error}). Correct the quotation marks before or in that line."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text; got {error.reason} at byte {error.start}. Convert it.") from None
    header, *rows = table or [[]]
    if len(header) == 1 and (found := next((mark for mark in ";\t|" if mark in header[0]), None)):
        expected = "tabs" if delimiter == "\t" else "commas"
        raise ValueError(
            f"{path} must be separated by {expected}; it looks separated by {found!r}. Write it with {expected}."
        )
    header = _distinct(path, [name.strip() for name in header])
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}: every row must have {len(header)} values ({', '.join(header)}); row {number} has "
                f"{len(row)}. Quote values that contain the separator {delimiter!r}."
            )
    return {name: np.array([row[i] for row in rows], dtype=object) for i, name in enumerate(header)}


def _parquet(path: Path) -> Columns:
    """Columns of a Parquet file, without the row numbers that pandas adds."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError(f"{path}: Parquet needs pyarrow. Install it: pip install 'adaptkry[files]'.") from None
    with path.open("rb") as stream, parsing(path, "a Parquet file", "Write it again."):
        file = parquet.ParquetFile(stream)
        groups = (file.metadata.row_group(i) for i in range(file.num_row_groups))
        check_memory(sum(group.total_byte_size for group in groups), "its columns")
        table = file.read()
    names = _distinct(path, [name for name in table.column_names if not name.startswith("__index_level")])
    with parsing(path, "a Parquet file", "Write it again."):
        return {name: _arrow_values(pyarrow, table[name]) for name in names}


def _arrow_values(pyarrow: Any, column: Any) -> np.ndarray:
    """The values of a column [n]; integers with missing values, dates and text as objects, to keep all digits."""
    kind = column.type
    if pyarrow.types.is_duration(kind):
        values = (None if value is None else f"{value} {kind.unit}" for value in column.cast("int64").to_pylist())
        return np.fromiter(values, dtype=object, count=len(column))
    if pyarrow.types.is_temporal(kind) or pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
        column = column.cast(pyarrow.string())
    elif pyarrow.types.is_floating(kind) or (pyarrow.types.is_primitive(kind) and not column.null_count):
        return column.to_numpy()
    return np.fromiter(column.to_pylist(), dtype=object, count=len(column))


def _distinct(path: Path, names: list[str]) -> list[str]:
    """Return the names of columns; refuse repeated ones."""
    if len(set(names)) < len(names):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        raise ValueError(f"{path}: column names must differ; got {some(repeated)} more than once. Rename some.")
    return names


def _column(path: Path, columns: Columns, name: str, what: str) -> np.ndarray:
    """Return a column; the error for a missing one lists the columns of the file."""
    if name not in columns:
        raise ValueError(
            f"{path} has no column {name!r} for {what}. Its columns are {some(columns)}: "
            f"rename the one that holds them to {name!r}."
        )
    return columns[name]


def _ids(path: Path, columns: Columns, name: str, what: str) -> list[str]:
    """A column of node ids; a blank id is refused."""
    found = texts(_column(path, columns, name, what))
    if "" in found:
        raise ValueError(
            f"{path}: column {name!r} must have a node id in every row; row {found.index('') + 1} is blank. "
            f"Fill it in, or delete the row."
        )
    return found


def _numbers(
    path: Path, columns: Columns, names: Sequence[str], describe_row: Callable[[int], str], remedy: str
) -> np.ndarray:
    """Columns of numbers as one matrix, float64 [n, d].

    Text and missing values are refused; `describe_row` returns the text for a row in the message.
    """
    matrix = np.empty((len(columns[names[0]]), len(names)))
    for i, name in enumerate(names):
        column = columns[name]
        try:
            matrix[:, i] = [_number(value) for value in column] if column.dtype == object else column
        except (TypeError, ValueError, OverflowError):
            row = next(row for row, value in enumerate(column.tolist()) if not _is_number(value))
            raise ValueError(
                f"{path}: column {name!r} must hold numbers; {describe_row(row)} has {column[row]!r:.60}. {remedy}"
            ) from None
        _log_rounded(path, name, column, matrix[:, i])
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, i = bad[0]
        raise ValueError(
            f"{path}: column {names[i]!r} must hold finite numbers; {describe_row(row)} has {matrix[row, i]} "
            f"({len(bad)} such values in the file). Fill in missing values, or delete those rows."
        )
    return matrix


def _number(value) -> float:
    """A number from text or a Python object; NaN if it is missing. Underscores, which Python allows, are refused."""
    if value is None or value == "":
        return float("nan")
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    return float(value)


def _is_number(value) -> bool:
    try:
        _number(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _log_rounded(path: Path, name: str, column: np.ndarray, numbers: np.ndarray) -> None:
    """Warn of integers above 2^53, which float64 rounds."""
    large = np.flatnonzero((np.abs(numbers) >= EXACT) & np.isfinite(numbers)).tolist()
    texts_of = ((row, _text(column[row])) for row in large)
    rounded = [text for row, text in texts_of if _is_integer(text) and int(text) != int(numbers[row])]
    if rounded:
        message = "%s: column %r has integers above 2^53, which are rounded: %s. Codes belong in several columns."
        logger.warning(message, path, name, some(rounded, 3))


def _positions(path: Path, ids: Sequence[str], known: Sequence[str], column: str) -> np.ndarray:
    """Position of each id among the known ones; unknown ids are refused and listed in the error."""
    position = {name: i for i, name in enumerate(known)}
    found = np.array([position.get(node, -1) for node in ids], dtype=np.int64)
    if (found < 0).any():
        unknown = list(dict.fromkeys(node for node in ids if node not in position))
        raise ValueError(
            f"{path}: column {column!r} must hold ids of the nodes file ({some(known, 3)}); got {some(unknown)}. "
            f"Add these nodes to the nodes file, or delete their edges."
        )
    return found


def texts(column: np.ndarray) -> list[str]:
    """Ids and labels as text: 7, 7.0 and "7" are the same, None and NaN are empty."""
    return [_text(value) for value in column.tolist()]


def _text(value) -> str:
    is_missing = value is None or type(value).__name__ in ("NAType", "NaTType")  # of pandas
    if is_missing or (isinstance(value, float | np.floating) and value != value):  # NaN
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def encode(labels: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers [n], -1 for missing labels (empty text), and the names of the classes in order.

    If all names are integers they are sorted as numbers, otherwise as text.

    >>> encode(["10", "9", "", "10"])
    (array([ 1,  0, -1,  1]), ('9', '10'))
    """
    names = _sorted_names({*labels} - {""})
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(label, -1) for label in labels], dtype=np.int64), tuple(names)


def _sorted_names(names: set[str]) -> list[str]:
    """Sort names as numbers if all are integers, otherwise as text."""
    are_integers = all(_is_integer(name) for name in names)
    return sorted(names, key=lambda name: (int(name), name) if are_integers else (0, name))


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < DIGITS
