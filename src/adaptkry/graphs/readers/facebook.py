"""Read a graph of the Facebook-100 collection: a MATLAB file with the matrices `A` and `local_info`.

As in PyG's LINKXDataset, the label is the gender (0 means unknown), and each value of the other columns of `local_info`
is a feature column.
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.arrays import graph_of_matrix
from adaptkry.graphs.readers.matlab import read_matlab
from adaptkry.graphs.readers.paths import error_prefix, graph_name, parsing
from adaptkry.graphs.readers.tables import log_unused

VARIABLES = ("A", "local_info")
INFO_COLUMNS = ("status", "gender", "major", "second_major", "dorm", "year", "high_school")  # of local_info
GENDER = 1


def read_facebook(path: Path, *more: Path, directed: bool | None = None, name=None, metric="accuracy") -> Graph:
    """Read the adjacency matrix A, and labels and features from local_info."""
    with parsing(path, "a MATLAB file of version 5 to 7.2", "Save it with -v7."):
        found = read_matlab(path)
    with error_prefix(path):
        if more:
            raise ValueError(f"a .mat must hold the whole graph; got {more[0]} as well. Leave it out.")
        for part in VARIABLES:
            if part not in found:
                near = [variable for variable in found if variable.lower() == part.lower()]
                hint = f"Rename {near[0]!r}." if near else "Save other graphs as .npz, .mtx or .csv."
                raise ValueError(f"a .mat must hold A and local_info; {part} is not among {', '.join(found)}. {hint}")
        log_unused(path, "variables", sorted({*found} - {*VARIABLES}))
        A, info = (found[part] for part in VARIABLES)
        if A is None or A.ndim != 2:
            raise ValueError(
                "A must be an adjacency matrix of numbers; got something else. Save it as a sparse matrix."
            )
        if not isinstance(info, np.ndarray) or info.shape[1:] != (len(INFO_COLUMNS),) or (info != np.rint(info)).any():
            shape = "something else" if info is None else f"{info.dtype} {list(info.shape)}"
            raise ValueError(
                f"local_info must have the {len(INFO_COLUMNS)} columns {', '.join(INFO_COLUMNS)} of whole numbers; "
                f"got {shape}. Save other graphs as .npz, .mtx or .csv."
            )
        features, names = one_hot(info)
        about, matrix = Info(name or graph_name(path), metric, feature_names=names), sp.csr_array(A)
        labels, weighted = info[:, GENDER].astype(np.int64) - 1, not bool(np.all(matrix.data == 1))
        return graph_of_matrix(matrix, features, labels, weighted=weighted, directed=directed, info=about)


def one_hot(values: np.ndarray) -> tuple[sp.csr_array, list[str]]:
    """A column per value of every column but the gender, sparse [n, d], and the names of these columns."""
    parts, names = [], []
    for c, column in enumerate(INFO_COLUMNS):
        if c != GENDER:
            found, position = np.unique(values[:, c], return_inverse=True)
            rows = (np.ones(len(values), np.float32), (np.arange(len(values)), position))
            parts.append(sp.csr_array(rows, shape=(len(values), len(found))))
            names += [f"{column}={int(value)}" for value in found.tolist()]
    return sp.csr_array(sp.hstack(parts, format="csr")), names
