"""Read a graph from two tables, one of edges and one of nodes: CSV, TSV or (with pyarrow) Parquet."""

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.paths import check_file, error_prefix, graph_name

UNKNOWN_LABELS = {"", "-1", "nan"}
LABEL_LIKE = ("class", "labels", "y", "category")  # columns that look like labels: never silently used as features
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
    ends = {end: _ids(path, table, end, what) for end in (source, target)}
    if node_files:
        ids, features, labels, classes, names = _nodes(check_file(node_files[0].expanduser()), key, label, ignore)
    else:
        ids, names = _sorted_names({*ends[source], *ends[target]}), None
        features = labels = classes = None
    pairs = np.stack([_positions(path, ends[end], ids, end) for end in (source, target)])
    info = Info(name or graph_name(path), metric, None, classes, tuple(ids), names)
    weights = _weights(path, table, weight)
    with error_prefix(path):
        return Graph(pairs, features, labels, nodes=len(ids), weights=weights, directed=bool(directed), info=info)


def _weights(path: Path, table: Columns, weight: str | None) -> np.ndarray | None:
    """The column of weights [m], or None if there is none."""
    if weight is None and "weight" not in table:
        return None
    name = weight or "weight"
    _column(path, table, name, "edge weights")
    remedy = "Give every edge a weight, or delete the column."
    return _numbers(path, table, [name], lambda row: f"the edge in row {row + 1}", remedy)[:, 0]


def _nodes(path: Path, key: str, label: str | None, ignore: Sequence[str]) -> Nodes:
    """Ids, features [n, d], labels [n], class names and feature names of a nodes file; None for missing ones."""
    table = read_columns(path)
    ids = _ids(path, table, key, "node ids")
    repeated, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{path}: node ids must differ; {repeated!r} occurs {times} times. Delete the other rows.")
    for name in ignore:
        if name not in table:
            raise ValueError(f"{path}: ignore must list columns ({_some(list(table))}); got {name!r}. Leave it out.")
    label = _label_column(path, table, label, {key, *ignore})
    names = [name for name in table if name not in {key, label, *ignore}]
    remedy = f"Convert it to numbers, or delete the column; labels go in a column called {label or 'label'}."
    features = _numbers(path, table, names, lambda row: f"node {ids[row]!r}", remedy) if names else None
    labels, classes = encode(texts(table[label])) if label else (None, None)
    return ids, features, labels, classes, names or None


def _label_column(path: Path, table: Columns, label: str | None, other_columns: set[str]) -> str | None:
    """Name of the column of labels, or None; a column of another name that looks like labels is refused."""
    if label is not None:
        _column(path, table, label, "labels")
        return label
    likely = [name for name in table if name.lower() in LABEL_LIKE and name not in other_columns]
    if "label" not in table and likely:
        raise ValueError(
            f"{path}: labels must be in a column called label; column {likely[0]!r} looks like labels, which must not "
            f"be used as a feature. Rename the column, or delete it."
        )
    return "label" if "label" in table else None


def read_columns(path: Path) -> Columns:
    """Every column by its name: text from CSV and TSV, typed columns from Parquet."""
    columns = _parquet(path) if path.suffix == ".parquet" else _csv(path, "\t" if path.suffix == ".tsv" else ",")
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{path} must have a line of column names and rows below it; got no rows. Add rows.")
    return columns


def _csv(path: Path, delimiter: str) -> Columns:
    """Columns of text from a CSV or TSV file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file, delimiter=delimiter) if row] or [[]]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text; got {error.reason} at byte {error.start}. Convert it.") from None
    if len(header) == 1 and (found := next((mark for mark in ";\t|" if mark in header[0]), None)):
        expected = "tabs" if delimiter == "\t" else "commas"
        raise ValueError(
            f"{path} must be separated by {expected}; it looks separated by {found!r}. Write it with {expected}."
        )
    if len(set(header)) < len(header):
        raise ValueError(f"{path}: column names must differ; got {', '.join(header)}. Rename some.")
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
    try:
        table = parquet.ParquetFile(path).read()
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} must be a Parquet file; it cannot be read ({error}). Write it again.") from None
    return {name: table[name].to_numpy() for name in table.column_names if not name.startswith("__index_level")}


def _column(path: Path, columns: Columns, name: str, what: str) -> np.ndarray:
    """Return a column; the error for a missing one lists the columns of the file."""
    if name not in columns:
        raise ValueError(
            f"{path} has no column {name!r} for {what}. Its columns are {_some(list(columns))}: "
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
    """Columns of numbers as one matrix, float32 [n, d].

    Text and missing values are refused; `describe_row` returns the text for a row in the message.
    """
    matrix = np.empty((len(columns[names[0]]), len(names)), dtype=np.float32)
    for i, name in enumerate(names):
        column = columns[name]
        try:
            with np.errstate(over="ignore"):  # numbers above the range of float32 become inf, which is refused below
                matrix[:, i] = np.where(column == "", "nan", column) if column.dtype == object else column
        except (TypeError, ValueError):
            row = next(row for row, value in enumerate(column.tolist()) if not _is_number(value))
            raise ValueError(
                f"{path}: column {name!r} must hold numbers; {describe_row(row)} has {column[row]!r}. {remedy}"
            ) from None
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, i = bad[0]
        raise ValueError(
            f"{path}: column {names[i]!r} must hold finite numbers; {describe_row(row)} has {matrix[row, i]} "
            f"({len(bad)} such values in the file). Fill in missing values, or delete those rows."
        )
    return matrix


def _is_number(value) -> bool:
    try:
        float("nan" if value in ("", None) else value)
    except (TypeError, ValueError):
        return False
    return True


def _positions(path: Path, ids: Sequence[str], known: Sequence[str], column: str) -> np.ndarray:
    """Position of each id among the known ones; unknown ids are refused and listed in the error."""
    position = {name: i for i, name in enumerate(known)}
    found = np.array([position.get(node, -1) for node in ids], dtype=np.int64)
    if (found < 0).any():
        unknown = list(dict.fromkeys(node for node in ids if node not in position))
        raise ValueError(
            f"{path}: column {column!r} must hold ids of the nodes file ({_some(known, 3)}); got {_some(unknown)}. "
            f"Add these nodes to the nodes file, or delete their edges."
        )
    return found


def _some(values: Sequence[str], count: int = 12) -> str:
    shown = ", ".join(map(repr, values[:count]))
    return shown if len(values) <= count else f"{shown} and {len(values) - count} more"


def texts(column: np.ndarray) -> list[str]:
    """Ids and labels as text: 7, 7.0 and "7" are the same, None and NaN are empty."""
    return [_text(value) for value in column.tolist()]


def _text(value) -> str:
    if value is None or value != value:  # NaN
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def encode(labels: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers [n], -1 for missing labels, and the names of the classes in order.

    If all names are integers they are sorted as numbers, otherwise as text.

    >>> encode(["10", "9", "", "10"])
    (array([ 1,  0, -1,  1]), ('9', '10'))
    """
    known = {label for label in labels if label.lower() not in UNKNOWN_LABELS}
    names = _sorted_names(known)
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(label, -1) for label in labels], dtype=np.int64), tuple(names)


def _sorted_names(names: set[str]) -> list[str]:
    """Sort names as numbers if all are integers, otherwise as text."""
    are_integers = all(name.removeprefix("-").isdecimal() for name in names)
    return sorted(names, key=lambda name: (int(name), name) if are_integers else (0, name))
