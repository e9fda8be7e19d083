"""Data frames of pandas, polars, pyarrow and every other library that narwhals understands, as columns of arrays."""

from typing import Any

import numpy as np


def is_frame(data: Any) -> bool:
    """Whether an object looks like a data frame; nothing is imported."""
    return any(hasattr(type(data), name) for name in ("__dataframe__", "columns", "column_names"))


def columns_of(data: Any, where: str) -> list[tuple[str, np.ndarray]]:
    """Names and values of the columns; those with missing values, text or dates are arrays of objects.

    The named index of a pandas data frame is a column, too.
    """
    import narwhals as nw  # noqa: TID251  the only import of narwhals

    names = getattr(getattr(data, "index", None), "names", None) or ()
    try:
        data = data if all(name is None for name in names) else data.reset_index()
        frame = nw.from_native(data, eager_only=True)
    except Exception as error:  # libraries raise errors of their own, for example if two columns have one name
        reason = (str(error).splitlines() or [""])[0]
        raise TypeError(
            f"{where} must be a data frame in memory, with distinct names of columns; got {type(data).__name__} "
            f"({reason:.200}). Use .collect() for a lazy one, or rename columns."
        ) from None
    return [(str(name), _values(frame.get_column(name))) for name in frame.columns]


def _values(series: Any) -> np.ndarray:
    """The values of a column [n]; integers with missing values, dates and text as objects, to keep all digits."""
    is_plain = series.dtype.is_numeric() or str(series.dtype) == "Boolean"
    if is_plain and (series.dtype.is_float() or not series.null_count()):
        values = np.asarray(series.to_numpy())
        if values.dtype.kind in "biuf":
            return values
    return np.fromiter(series.to_list(), dtype=object, count=len(series))
