"""Tables: CSV, TSV, Parquet (with pyarrow) and data frames, as named columns."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common.lookup import similar, some
from adaptkry.common.memory import check_memory
from adaptkry.graphs.readers.frames import columns_of
from adaptkry.graphs.readers.paths import check_file, parsing
from adaptkry.graphs.readers.texts import texts

ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zX")  # how .zip and .xlsx, .gz, .bz2 and .xz begin


@dataclass(frozen=True)
class Table:
    """Columns by name: text from CSV and TSV files, typed values from Parquet files and data frames."""

    where: str  # the path, or what the data frame holds; for messages
    columns: Mapping[str, np.ndarray]

    def column(self, name: str, what: str, option: str) -> np.ndarray:
        """A column; the error for a missing one lists the columns, and the option that chooses another one."""
        if name not in self.columns:
            same = [known for known in self.columns if known.strip().lower() == name.lower()]
            near = (same or similar(name, self.columns))[:1]
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"{self.where} has no column {name!r} for {what}. {hint}Its columns are {some(self.columns)}: name the "
                f"right one with {option} ({option[2:].replace('-', '_')} in Python), or rename it to {name!r}."
            )
        return self.columns[name]

    def ids(self, name: str, what: str, option: str) -> list[str]:
        """A column of node ids; a blank id is refused."""
        found = texts(self.column(name, what, option))
        if "" in found:
            raise ValueError(
                f"{self.where}: column {name!r} must have a node id in every row; row {found.index('') + 1} is blank. "
                f"Fill it in, or delete the row."
            )
        return found


def in_both(option: str, value: str | Sequence[str]) -> str:
    """An option with a value, or a list of one, on the command line and in Python.

    >>> in_both("--label-column", "y"), in_both("--ignore", ["age"])
    ("--label-column 'y' (label_column='y' in Python)", "--ignore 'age' (ignore=['age'] in Python)")
    """
    shown = value if isinstance(value, str) else value[0]
    return f"{option} {shown!r} ({option[2:].replace('-', '_')}={value!r} in Python)"


def open_table(data: Any, what: str) -> Table:
    """Read the file, or the data frame, of `what`: "edges" or "nodes"."""
    if isinstance(data, Path):
        where, suffix = str(data), check_file(data).suffix.lower()
        columns = _parquet(data) if suffix == ".parquet" else _csv(data, "\t" if suffix == ".tsv" else ",")
    else:
        where = f"the data frame of {what}"
        columns = _distinct(where, columns_of(data, where))
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{where} must have a line of column names and rows below it; got no rows. Add rows.")
    return Table(where, columns)


def _csv(path: Path, delimiter: str) -> dict[str, np.ndarray]:
    """Columns of text from a CSV or TSV file."""
    lines = 0
    with path.open("rb") as file:
        if file.read(4).startswith(ARCHIVES):
            raise ValueError(
                f"{path} must be text; got a compressed file, such as .gz, .zip or .xlsx. Unpack it, or "
                "save the sheet as CSV (UTF-8)."
            )
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
        raise ValueError(
            f"{path} must be UTF-8 text; got {error.reason} at byte {error.start}. Convert it, for "
            "example with `iconv -f latin1 -t utf-8`, or save it as CSV (UTF-8)."
        ) from None
    header, *rows = table or [[]]
    if len(header) == 1 and (found := next((mark for mark in ";\t|" if mark in header[0]), None)):
        expected = "tabs" if delimiter == "\t" else "commas"
        raise ValueError(
            f"{path} must be separated by {expected}; it looks separated by {found!r}. Write it with {expected}."
        )
    header = [name.strip() for name in header]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}: every row must have {len(header)} values ({', '.join(header)}); row {number} has "
                f"{len(row)}. Quote values that contain the separator {delimiter!r}."
            )
    columns = zip(*rows, strict=True) if rows else ([] for _ in header)
    arrays = (np.fromiter(values, dtype=object, count=len(rows)) for values in columns)
    return _distinct(str(path), zip(header, arrays, strict=True))


def _parquet(path: Path) -> dict[str, np.ndarray]:
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
    names = [name for name in table.column_names if not name.startswith("__index_level")]
    _distinct(str(path), ((name, np.empty(0)) for name in names))
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


def _distinct(where: str, columns: Iterable[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Columns by name; repeated names are refused."""
    columns = list(columns)
    repeated = [name for name, count in Counter(name for name, _ in columns).items() if count > 1]
    if repeated:
        raise ValueError(f"{where}: column names must differ; got {some(repeated)} more than once. Rename some.")
    return dict(columns)
