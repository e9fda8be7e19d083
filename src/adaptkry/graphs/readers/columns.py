"""Columns of a nodes table as features: numbers, true and false as 1 and 0, texts one-hot, missing values.

A column of texts becomes one column per category. What cannot be a feature is refused with what to do: dates, numbers
in another notation, numbers mixed with texts, texts that differ for nearly every node, and, unless `missing` says how
to replace them, missing values.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta

import numpy as np

from adaptkry.common.lookup import some
from adaptkry.common.memory import check_memory
from adaptkry.graphs.readers.layout import Column
from adaptkry.graphs.readers.table_files import Table, in_both
from adaptkry.graphs.readers.texts import is_integer, is_null, sorted_names, text_of

logger = logging.getLogger(__name__)

MAX_CATEGORIES = 1000
FEW_CATEGORIES = 20  # up to which texts may differ for nearly every node, in a small graph
EXACT = 2**53  # integers up to here are exact in float64
NOT_AVAILABLE = ("na", "n/a", "#n/a", "<na>", "nan", "null", "none")  # missing values, in columns of numbers
TRUTH = {"true": 1.0, "false": 0.0}
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([ T].*)?|\d{1,2}:\d\d(:\d\d.*)?"
    r"|-?\d+ (s|ms|us|ns)"
)
OTHER_NOTATION = re.compile(r"[-+$€£]?\s*\d+([.,_' ]\d+)*\s*[%$€£]?")  # 1,5 and 1_000 and 5 %
DescribeRow = Callable[[int], str]


@dataclass
class _Parsed:
    """A column, and its values [n]: numbers, or the numbers of categories; NaN is missing, -1 another category."""

    column: Column
    values: np.ndarray

    @property
    def is_missing(self) -> np.ndarray:
        return np.isnan(self.values)


def encode_columns(
    table: Table, names: Sequence[str], codes: Sequence[str], missing: str | None, describe_row: DescribeRow
) -> tuple[np.ndarray, tuple[Column, ...]]:
    """Features [n, d] in float64, and how each column became features.

    Args:
        table: the table of nodes.
        names: the columns to encode.
        codes: those whose values are categories even if they are numbers.
        missing: "mean" replaces missing values by the mean of their column; "flag" also adds a column that is 1 where
            a value was missing; None refuses them.
        describe_row: returns the text for a row in messages.
    """
    parsed = [_parse(table, name, name in codes, describe_row) for name in names]
    _check_missing(table, parsed, missing)
    for part in parsed:
        part.column = replace(part.column, means=_means(part), flag=missing == "flag" and bool(part.is_missing.any()))
    one_hot = [f"{part.column.name} ({len(part.column.categories)})" for part in parsed if part.column.categories]
    if one_hot:
        logger.info("%s: one column per category for %s", table.where, some(one_hot))
    return _assembled(table, parsed), tuple(part.column for part in parsed)


def apply_columns(
    table: Table, columns: Sequence[Column], missing: str | None, describe_row: DescribeRow
) -> np.ndarray:
    """Features [n, d] of other nodes, encoded as those of the training graph; missing values get its means."""
    absent = [column.name for column in columns if column.name not in table.columns]
    if absent:
        raise ValueError(
            f"{table.where} must have the columns that the run was trained on; {some(absent)} not found. Its columns "
            f"are {some(table.columns)}. Add the missing ones."
        )
    parsed = [_parse_as(table, column, describe_row) for column in columns]
    _check_missing(table, parsed, missing)
    return _assembled(table, parsed)


def _assembled(table: Table, parsed: Sequence[_Parsed]) -> np.ndarray:
    """The feature columns of all columns side by side [n, d]."""
    width, n = sum(len(part.column.feature_names) for part in parsed), len(parsed[0].values)
    check_memory(8 * n * width, f"{table.where}: its feature columns")
    matrix, start = np.empty((n, width)), 0
    for part in parsed:
        column, values, gaps = part.column, part.values, part.is_missing
        for c in range(len(column.means)):
            matrix[:, start + c] = values == c if column.categories else values
            matrix[gaps, start + c] = column.means[c]
        start += len(column.means)
        if column.flag:
            matrix[:, start] = gaps
            start += 1
    return matrix


def _means(part: _Parsed) -> tuple[float, ...]:
    """The mean of each feature column of a column, over the nodes that have a value."""
    known = part.values[~part.is_missing]
    if not part.column.categories:
        return (float((known / len(known)).sum()),)  # in this order the sum of large numbers is in range
    counts = np.bincount(known.astype(np.int64), minlength=len(part.column.categories))
    return tuple((counts / len(known)).tolist())


def _check_missing(table: Table, parsed: Sequence[_Parsed], missing: str | None) -> None:
    """Refuse missing values, or say which ones are replaced."""
    counts = {part.column.name: int(part.is_missing.sum()) for part in parsed if part.is_missing.any()}
    if not counts:
        return
    text = ", ".join(f"{count} in column {name!r}" for name, count in list(counts.items())[:12])
    text += f" and more in {len(counts) - 12} other columns" if len(counts) > 12 else ""
    if missing is None:
        raise ValueError(
            f"{table.where}: every node must have a value in every feature column; missing are {text}. Fill them in, "
            "or use --missing mean or --missing flag (missing='mean' in Python)."
        )
    logger.info("%s: missing values are replaced by the mean of their column: %s", table.where, text)


def _parse(table: Table, name: str, is_code: bool, describe_row: DescribeRow) -> _Parsed:
    """A column, and what kind of column it is."""
    column = table.columns[name]
    known = [value for value in column.tolist() if not _is_empty(value)]
    if not known:
        raise ValueError(f"{table.where}: column {name!r} has no values. Leave it out: {in_both('--ignore', [name])}.")
    if not is_code and (numbers := as_numbers(column)) is not None:
        _check_finite(table, name, numbers, describe_row)
        _log_rounded(table, name, column, numbers)
        return _Parsed(Column(name), numbers)
    if not is_code and None not in [_truth(value) for value in known]:
        truths = _truths(column)
        assert truths is not None
        return _Parsed(Column(name, "boolean"), truths)
    _check_categories(table, name, column, is_code, describe_row)
    categories = tuple(sorted_names({text_of(value) for value in known}))
    _check_count(table, name, len(categories), len(known))
    return _Parsed(Column(name, "categories", categories), _category_numbers(column, categories))


def _parse_as(table: Table, column: Column, describe_row: DescribeRow) -> _Parsed:
    """A column of the kind that it had in the training graph."""
    name, given = column.name, table.columns[column.name]
    if column.kind == "categories":
        values = _category_numbers(given, column.categories)
        other = [text_of(value) for value in given[values == -1].tolist()]
        if other:
            logger.warning(
                "%s: column %r has categories that the run was not trained on (%s); they are 0 in all its columns for "
                "%d nodes", table.where, name, some(sorted(set(other)), 5), len(other),
            )  # fmt: skip
        return _Parsed(column, values)
    is_number = column.kind == "number"
    numbers = as_numbers(given) if is_number else _truths(given)
    if numbers is None:
        convert = as_number if is_number else _bit
        row = next(row for row, value in enumerate(given.tolist()) if not _is_empty(value) and convert(value) is None)
        what = "numbers" if is_number else "true and false"
        raise ValueError(
            f"{table.where}: column {name!r} must hold {what}, as in the training; {describe_row(row)} has "
            f"{given[row]!r:.60}. Correct it, or leave it empty if it is unknown."
        )
    _check_finite(table, name, numbers, describe_row)
    return _Parsed(column, numbers)


def as_numbers(column: np.ndarray) -> np.ndarray | None:
    """A column as float64 [n], NaN if missing; None if some values are no numbers, or all are true or false."""
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    if column.dtype != object:
        return None
    try:  # fast, for texts
        if "_" not in "".join(column):
            return column.astype(np.float64)
    except (TypeError, ValueError):
        pass
    values = [as_number(value) for value in column.tolist()]
    return None if None in values else np.array(values, dtype=np.float64)


def as_number(value) -> float | None:
    """A number from text or a Python object; NaN if it is missing, None if it is no number.

    Underscores, which Python allows, are refused.

    >>> as_number("1e3"), as_number("NA"), as_number("1_000"), as_number(True)
    (1000.0, nan, None, None)
    """
    if isinstance(value, bool | timedelta) or (isinstance(value, str) and "_" in value):
        return None
    if _is_empty(value) or (isinstance(value, str) and value.strip().lower() in NOT_AVAILABLE):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _is_empty(value) -> bool:
    return is_null(value) or (isinstance(value, str) and not value.strip())


def _truth(value) -> float | None:
    """1 or 0 for true or false; None for everything else."""
    return TRUTH.get(str(value).strip().lower())


def _bit(value) -> float | None:
    """1 or 0 for true or false, or for 1 or 0."""
    found = _truth(value)
    number = as_number(value) if found is None else found
    return number if number in (0.0, 1.0) else None


def _truths(column: np.ndarray) -> np.ndarray | None:
    """A column of true and false as 1 and 0 [n], NaN if missing; None if it holds something else."""
    values = [float("nan") if _is_empty(value) else _bit(value) for value in column.tolist()]
    return None if None in values else np.array(values, dtype=np.float64)


def _category_numbers(column: np.ndarray, categories: Sequence[str]) -> np.ndarray:
    """The number of each value's category [n]: NaN if it is missing, -1 if it is another one."""
    number = {category: float(i) for i, category in enumerate(categories)}
    values = column.tolist()
    return np.array([float("nan") if _is_empty(v) else number.get(text_of(v), -1.0) for v in values])


def _check_categories(table: Table, name: str, column: np.ndarray, is_code: bool, describe_row: DescribeRow) -> None:
    """Refuse values that are no categories: dates, lists, and numbers mixed with texts or in another notation."""
    start, out = f"{table.where}: column {name!r} must hold", f"leave the column out: {in_both('--ignore', [name])}"
    known = [(row, value) for row, value in enumerate(column.tolist()) if not _is_empty(value)]
    others = [(row, value) for row, value in known if as_number(value) is None]  # that are no numbers
    dates = [(row, value) for row, value in others if _is_date(value)]
    if others and 2 * len(dates) >= len(others):
        raise ValueError(
            f"{start} numbers or categories; {describe_row(dates[0][0])} has {str(dates[0][1])!r:.60}, a date or time. "
            f"Convert it to a number, for example to the year or to days since a date, or {out}."
        )
    odd = next(((row, value) for row, value in others if not isinstance(value, str | bool)), None)
    if odd is not None:
        raise ValueError(
            f"{start} numbers, texts, or true and false; {describe_row(odd[0])} has {odd[1]!r:.60}. Write its parts as "
            f"columns, or {out}."
        )
    if is_code:
        return
    numeric = [(row, value) for row, value in others if OTHER_NOTATION.fullmatch(str(value).strip())]
    if 2 * len(numeric) >= len(others):
        raise ValueError(
            f"{start} numbers such as 1000.5; {describe_row(numeric[0][0])} has {numeric[0][1]!r:.60}. Write them with "
            f"a point and without separators or units, use {in_both('--categories', [name])} if they are codes, or "
            f"{out}."
        )
    if len(others) < len(known):
        raise ValueError(
            f"{start} numbers only, or texts only; {len(known) - len(others)} of {len(known)} values are numbers, and "
            f"{describe_row(others[0][0])} has {others[0][1]!r:.60}. Correct it (empty if it is unknown), use "
            f"{in_both('--categories', [name])} if all are codes, or {out}."
        )


def _is_date(value) -> bool:
    is_typed = isinstance(value, date | time | timedelta)
    return is_typed or (isinstance(value, str) and DATE.fullmatch(value.strip()) is not None)


def _check_count(table: Table, name: str, categories: int, known: int) -> None:
    """Refuse a column with absurdly many categories, such as names or descriptions."""
    if categories > MAX_CATEGORIES or categories > max(FEW_CATEGORIES, known / 2):
        raise ValueError(
            f"{table.where}: column {name!r} must have at most {MAX_CATEGORIES} categories that several nodes share; "
            f"got {categories} different texts for {known} nodes. Leave the column out: "
            f"{in_both('--ignore', [name])}, or list the others with --features (features=[...] in Python)."
        )


def _check_finite(table: Table, name: str, numbers: np.ndarray, describe_row: DescribeRow) -> None:
    """Refuse infinite numbers."""
    bad = np.flatnonzero(np.isinf(numbers))
    if len(bad):
        raise ValueError(
            f"{table.where}: column {name!r} must hold finite numbers; {describe_row(bad[0])} has {numbers[bad[0]]} "
            f"({len(bad)} such values in the column). Correct them, or leave them empty if they are unknown."
        )


def _log_rounded(table: Table, name: str, column: np.ndarray, numbers: np.ndarray) -> None:
    """Warn of integers above 2^53, which float64 rounds."""
    large = np.flatnonzero((np.abs(numbers) >= EXACT) & np.isfinite(numbers)).tolist()
    texts_of = ((row, text_of(column[row])) for row in large)
    rounded = [text for row, text in texts_of if is_integer(text) and int(text) != int(numbers[row])]
    if rounded:
        message = "%s: column %r has integers above 2^53, which are rounded: %s. Codes belong in several columns."
        logger.warning(message, table.where, name, some(rounded, 3))
