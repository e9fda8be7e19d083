"""Read a graph from two tables, one of edges and one of nodes: CSV, TSV, Parquet files or data frames."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adaptkry.common.lookup import pick, shortened, some
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.columns import DescribeRow, apply_columns, as_number, as_numbers, encode_columns
from adaptkry.graphs.readers.layout import MISSING, Layout
from adaptkry.graphs.readers.paths import error_prefix, graph_name
from adaptkry.graphs.readers.table_files import Table, in_both, open_table
from adaptkry.graphs.readers.texts import encode, sorted_names, texts

logger = logging.getLogger(__name__)

LABEL_LIKE = ("label", "class", "labels", "y", "category")  # columns that look like labels: never silently features
WEIGHT_LIKE = ("weight", "weights", "edge_weight")
ROW_NUMBERS = re.compile(r"|Unnamed: \d+")  # names that pandas gives to its row numbers in CSV files
NODE_OPTIONS = ("label_column", "features", "ignore", "categories")
OLD_AND_NEW = (  # how new nodes are predicted; for messages
    "Give old and new nodes together, with all their edges; to output only some of them, use --nodes FILE (nodes=[...] "
    "in Python)."
)
ENDS = "the ends of edges (pass the edges file first, then the nodes file)"


def read_tables(
    edges: Any,
    *more: Any,
    nodes: Any = None,
    source: str | None = None,
    target: str | None = None,
    weight_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: str | None = None,
    directed: bool | None = None,
    name: str | None = None,
    metric: str = "accuracy",
    task: str = "classification",
    layout: Layout | Mapping[str, Any] | None = None,
) -> Graph:
    """Read a table of edges and a table of nodes; without the latter, the nodes are those in the edges.

    For other tasks than classification `label_column` may be a comma-separated list of columns of numbers.
    """
    node_tables = [*more, *([] if nodes is None else [nodes])]
    if len(node_tables) > 1:
        raise ValueError(
            f"a graph in tables has one file of edges and one of nodes; got {len(node_tables) + 1} files or data "
            f"frames. Concatenate those of each kind."
        )
    layout = Layout.from_dict(layout) if isinstance(layout, Mapping) else layout
    if missing is not None:
        pick(dict.fromkeys(MISSING), missing, "way to replace missing values")
        if missing == "flag" and layout is not None and layout.missing != "flag":
            raise ValueError("the run has no columns for missing values, so missing must be mean; got flag. Use mean.")
    names = {"source": source, "target": target, "id_column": id_column, "missing": missing, "directed": directed}
    used = replace(layout or Layout(), **{key: value for key, value in names.items() if value is not None})
    table = open_table(edges, "edges")
    used = replace(used, weight_column=_weight_name(table, weight_column, layout))
    _check_distinct(table, {"source": used.source, "target": used.target, "weight_column": used.weight_column})
    ends = {"--source": used.source, "--target": used.target}
    found = [table.ids(end, ENDS, option) for option, end in ends.items()]
    choice = ColumnChoice(label_column, features, ignore, categories, is_fixed=layout is not None, task=task)
    if node_tables:
        ids, x, labels, used = _nodes(open_table(node_tables[0], "nodes"), used, choice)
    else:
        _check_no_nodes(table, used, choice, id_column)
        ids, x, labels = sorted_names({*found[0], *found[1]}), None, None
    hint = "" if layout is None else f" {OLD_AND_NEW}"
    pairs = np.stack([_positions(table, *end, ids, hint) for end in zip(ends.values(), found, strict=True)])
    columns = [name for column in used.columns for name in column.feature_names]
    title = name or (graph_name(edges) if isinstance(edges, Path) else "graph")
    classes = None if labels is None else used.classes
    info = Info(title, metric, None, classes, tuple(ids), columns or None, dtype=torch.float32, layout=used)
    weights = None if used.weight_column is None else _weights(table, used.weight_column)
    log_unused(
        table.where, "columns", [key for key in table.columns if key not in {*ends.values(), used.weight_column}]
    )
    with error_prefix(table.where):
        return Graph(pairs, x, labels, nodes=len(ids), weights=weights, directed=used.directed, info=info, task=task)


@dataclass(frozen=True)
class ColumnChoice:
    """What a user says about the columns of a nodes table, and whether a run has fixed its features."""

    label_column: str | None = None
    features: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    categories: Sequence[str] = ()
    is_fixed: bool = False
    task: str = "classification"


def _check_no_nodes(table: Table, used: Layout, choice: ColumnChoice, id_column: str | None) -> None:
    """Refuse options about a table of nodes, or a run that needs one, if there is none."""
    if used.columns:
        raise ValueError(
            f"the run needs the columns of a nodes file that it was trained on "
            f"({some((column.name for column in used.columns), 5)}); got only {table.where}. Pass the nodes file, too."
        )
    given = {"id_column": id_column, **{name: getattr(choice, name) for name in NODE_OPTIONS}}
    names = [name for name, value in given.items() if value]
    if names:
        raise ValueError(
            f"{', '.join(names)} are about the columns of a nodes file; got only {table.where}. Pass the nodes file, "
            "too."
        )


def _weights(table: Table, weight: str) -> np.ndarray:
    """The column of weights [m]."""
    column = table.columns[weight]
    numbers = as_numbers(column)
    is_bad = np.array([as_number(v) is None for v in column.tolist()]) if numbers is None else ~np.isfinite(numbers)
    if is_bad.any():
        row = int(is_bad.argmax())
        value = f"{column[row]!r:.60}" if numbers is None else numbers[row]
        raise ValueError(
            f"{table.where}: column {weight!r} must hold finite numbers; the edge in row {row + 1} has {value} "
            f"({is_bad.sum()} such values in the file). Give every edge a weight, or delete the column."
        )
    assert numbers is not None
    return numbers


def log_unused(where: Path | str, what: str, names: Iterable[str]) -> None:
    """List columns or arrays that are not used, since one of them may be misspelled."""
    if names := list(names):
        logger.warning("%s: these %s are not used: %s", where, what, some(names))


def _nodes(
    table: Table, used: Layout, choice: ColumnChoice
) -> tuple[list[str], np.ndarray | None, np.ndarray | None, Layout]:
    """Ids, features [n, d] and labels [n] (or [n, t]) of the nodes, None for missing ones, and the layout found."""
    key = used.id_column
    ids = table.ids(key, "node ids", "--id-column")
    repeated, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{table.where}: node ids must differ; {repeated!r} occurs {times} times. Delete other rows.")
    of_labels = _label_names(table, used, choice)
    labelled = {f"label_column {i}" if i > 1 else "label_column": name for i, name in enumerate(of_labels, 1)}
    _check_distinct(table, {"id_column": key, **labelled})
    names = _feature_names(table, used, choice, {key, *of_labels})
    used_names = {key, *of_labels, *names, *choice.ignore}
    log_unused(table.where, "columns", [name for name in table.columns if name not in used_names])

    def describe_row(row: int) -> str:
        return f"node {ids[row]!r}"

    x = None
    if choice.is_fixed and names:
        x = apply_columns(table, used.columns, used.missing, describe_row)
    elif names:
        x, columns = encode_columns(table, names, choice.categories, used.missing, describe_row)
        used = replace(used, columns=columns)
    labels = None
    if of_labels and choice.task == "classification":
        labels, classes = encode(texts(table.columns[of_labels[0]]), used.classes)
        used = replace(used, label_column=of_labels[0], classes=classes)
    elif of_labels:
        labels = np.stack([_targets(table, name, choice.task, describe_row) for name in of_labels], 1)
        used = replace(used, label_column=",".join(of_labels), classes=tuple(of_labels))
    return ids, x, labels, used


def _targets(table: Table, name: str, task: str, describe_row: DescribeRow) -> np.ndarray:
    """A column of targets, or of one label as 0 and 1 [n]; NaN if missing."""
    column = table.columns[name]
    numbers = as_numbers(column)
    if numbers is None:
        row, value = next((i, v) for i, v in enumerate(column.tolist()) if as_number(v) is None)
        remedy = "Use 1 for yes and 0 for no, a column per label." if task == "multilabel" else "Correct it."
        raise ValueError(
            f"{table.where}: column {name!r} must hold numbers for the task {task}; {describe_row(row)} has "
            f"{value!r:.60}. {remedy}"
        )
    return numbers


def _feature_names(table: Table, used: Layout, choice: ColumnChoice, others: Iterable[str | None]) -> list[str]:
    """The columns that are features: those that the user lists or, by default, all that are nothing else."""
    if choice.is_fixed:
        if choice.features is not None or choice.ignore or choice.categories:
            raise ValueError("the features are those of the run; got features, ignore or categories. Leave them out.")
        return [column.name for column in used.columns]
    for what, names in (
        ("features", choice.features or ()),
        ("ignore", choice.ignore),
        ("categories", choice.categories),
    ):
        taken = {*others}
        if what == "ignore":  # a column that only looks like labels may be left out
            taken = {used.id_column, choice.label_column, *(choice.features or ())}
        _check_names(table, what, names, taken)
    if choice.features is not None:
        names = list(choice.features)
    else:
        names = [name for name in table.columns if name not in {*others, *choice.ignore}]
        numbered = next((name for name in names if ROW_NUMBERS.fullmatch(name)), None)
        if numbered is not None:
            raise ValueError(
                f"{table.where}: every column must have a name; got {numbered!r}, which looks like row numbers written "
                f"by pandas. Delete the column, or write the file with index=False."
            )
    unused = [name for name in choice.categories if name not in names]
    if unused:
        raise ValueError(f"{table.where}: categories must be features; got {some(unused)}, which are not. Add them.")
    return names


def _check_names(table: Table, what: str, names: Any, others: set[str | None]) -> None:
    """Refuse what is no list of distinct columns, and columns that serve as something else."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a list of names of columns; got {shortened(names)}. Use for example ['age'].")
    for name in names:
        table.column(name, what, f"--{what}")
    wrong = [name for name in names if name in others or list(names).count(name) > 1]
    if wrong:
        raise ValueError(
            f"{table.where}: {what} must be different columns, without the ids and the labels of nodes; got "
            f"{wrong[0]!r}. Leave it out."
        )


def _check_distinct(table: Table, names: Mapping[str, str | None]) -> None:
    """Refuse a column that would serve two purposes."""
    given = [name for name in names.values() if name is not None]
    if len(set(given)) < len(given):
        text = " and ".join(f"{what}={name!r}" for what, name in names.items() if name is not None)
        raise ValueError(f"{table.where}: these must be different columns; got {text}. Correct one of them.")


def _weight_name(table: Table, given: str | None, layout: Layout | None) -> str | None:
    """The column of edge weights; None if there is none. A run decides it, unless the user does."""
    name = given if given is not None or layout is None else layout.weight_column
    if name is not None:
        table.column(name, "edge weights", "--weight-column")
    is_known = name is not None or layout is not None
    return name if is_known else _column_called(table, "weight", WEIGHT_LIKE, "edge weights", "--weight-column")


def _label_names(table: Table, used: Layout, choice: ColumnChoice) -> list[str]:
    """The columns of labels, one for classification; none if there are none, as in files of new nodes."""

    def listed(text: str) -> list[str]:
        return [text] if choice.task == "classification" else [name.strip() for name in text.split(",")]

    if choice.label_column is not None:
        names = listed(choice.label_column)
        for name in names:
            table.column(name, "labels", "--label-column")
        return names
    if choice.is_fixed and used.label_column is not None:
        names = listed(used.label_column)
        return names if {*names} <= table.columns.keys() else []
    others = {used.id_column, *choice.ignore, *(choice.features or ())}
    name = _column_called(table, "label", LABEL_LIKE, "labels", "--label-column", others)
    return [] if name is None else [name]


def _column_called(
    table: Table, default: str, similar: Sequence[str], what: str, option: str, others: Iterable[str] = ()
) -> str | None:
    """Name of an optional column, or None if there is none; a column whose name is only similar is refused."""
    names = [name for name in table.columns if name not in others]
    other_case = [name for name in names if name != default and name.strip().lower() == default]
    likely = other_case or [name for name in names if name.strip().lower() in similar and default not in table.columns]
    if likely:
        remedy = (
            f"or leave it out with {in_both('--ignore', likely[:1])}"
            if option == "--label-column"
            else "or delete the column"
        )
        raise ValueError(
            f"{table.where}: {what} must be in a column called {default}; column {likely[0]!r} looks like {what}, "
            f"which must neither be left out nor used as a feature. Use {in_both(option, likely[0])}, {remedy}."
        )
    return default if default in names else None


def _positions(table: Table, column: str, ids: Sequence[str], known: Sequence[str], hint: str) -> np.ndarray:
    """Position of each id among the known ones; unknown ids are refused and listed in the error, before a hint."""
    position = {name: i for i, name in enumerate(known)}
    found = np.array([position.get(node, -1) for node in ids], dtype=np.int64)
    if (found < 0).any():
        unknown = list(dict.fromkeys(node for node in ids if node not in position))
        raise ValueError(
            f"{table.where}: column {column!r} must hold ids of the nodes file ({some(known, 3)}); got {some(unknown)}"
            f". Add these nodes to the nodes file, or delete their edges.{hint}"
        )
    return found
