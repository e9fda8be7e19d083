"""Tables of columns as pandas DataFrames and Parquet files. The only module that imports pandas, when it is needed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

Columns = Mapping[str, list]  # name -> values, of equal length
FRAMES_MISSING = "needs {0}, which is not installed. Install it with: pip install 'adaptkry[files]'"


def to_frame(columns: Columns) -> Any:
    """Return a pandas DataFrame of the columns."""
    try:
        import pandas as pd  # noqa: TID251  the only import of pandas
    except ImportError:
        raise ImportError(f"a DataFrame {FRAMES_MISSING.format('pandas')}") from None
    return pd.DataFrame(dict(columns))


def write_parquet(file: BinaryIO, chunks: Iterable[Columns]) -> None:
    """Write chunks of the same columns to a Parquet file, one after another."""
    pa, pq = _pyarrow()
    writer = None
    for columns in chunks:
        table = pa.table(dict(columns))
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file; [] if it is damaged."""
    pa, pq = _pyarrow()
    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return []


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"a Parquet file {FRAMES_MISSING.format('pyarrow')}") from None
    return pyarrow, pyarrow.parquet
