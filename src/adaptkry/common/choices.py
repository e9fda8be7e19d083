"""Names that options and arguments choose from, importable without torch.

The tables of the library have exactly these keys (tests/cli/test_options.py compares them).
"""

from typing import Literal, get_args

Scheme = Literal["class_balanced", "class_balanced_bernnet", "class_permuted", "stratified", "uniform", "fixed"]
Direction = Literal["both", "out", "in"]  # which edges of a directed graph are used
MixedDirection = Literal["out-in", "in-out"]  # products of the matrices of two directions
Normalisation = Literal["symmetric", "row", "column"]  # of the propagation matrix
ExecutorName = Literal["inline", "processes", "dask"]
StoredDtype = Literal["float32", "bfloat16"]
SetKind = Literal["threshold", "adaptive", "randomised"]  # of prediction sets
Task = Literal["classification", "multilabel", "regression"]

SCHEMES: tuple[str, ...] = get_args(Scheme)  # how nodes are divided into train, validation and test
STORED_DIRECTIONS: tuple[str, ...] = get_args(Direction)  # directions that a basis folder can hold
MIXED_DIRECTIONS: tuple[str, ...] = get_args(MixedDirection)
DIRECTIONS: tuple[str, ...] = STORED_DIRECTIONS + MIXED_DIRECTIONS  # directions of a recipe
EXECUTORS: tuple[str, ...] = get_args(ExecutorName)  # what computes the blocks of a basis folder
STORED_DTYPES: tuple[str, ...] = get_args(StoredDtype)  # types of the numbers in a basis folder
SET_KINDS: tuple[str, ...] = get_args(SetKind)
TASKS: tuple[str, ...] = get_args(Task)  # what is predicted: a class, several labels, or numbers
METRICS: dict[str, tuple[str, ...]] = {  # of each task; the first is its default
    "classification": ("accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "average_precision"),
    "multilabel": ("micro_f1", "macro_f1", "average_precision", "roc_auc", "subset_accuracy"),
    "regression": ("r2", "mae", "rmse"),
}
