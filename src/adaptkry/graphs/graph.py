"""A graph: edges, features and labels, validated and copied in the constructor and not changed afterwards.

`Graph` stores its adjacency matrix `A` as CSR: row i lists the nodes that i points to. An unweighted graph stores no
values: every entry is 1.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import WeakSet

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.choices import TASKS, Direction
from adaptkry.common.lookup import check_options, pick, shortened, some
from adaptkry.common.memory import check_memory

logger = logging.getLogger(__name__)
MAX_ROUNDING = 0.01  # share of the range of a column that rounding may change without a warning


@dataclass(frozen=True)
class Info:
    """Name, metric, fixed splits and the names of classes, nodes and features of a graph."""

    name: str = "graph"
    metric: str = "accuracy"  # the metric of the task classification, unless a training names others
    masks: Mapping[str, Tensor] | None = None  # fixed splits: train, validation, test as bool [s, n]
    class_names: Sequence[str] | None = None
    node_ids: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    known_as: str | None = None  # the name by which `load` finds this graph; None for a user's graph, whatever its name
    dtype: torch.dtype | None = None  # in which models compute after scaling; None: that of the features
    layout: Any = field(default=None, compare=False)  # the `readers.layout.Layout` of the tables it was read from


class Graph:
    """Nodes with features and labels, and edges between them.

    Args:
        edges: node ids [2, m], integers: a row of sources and a row of targets.
        features: [n, d], dense or SciPy sparse; optional.
        labels: class of each node [n], -1 = unknown; optional. For other tasks: which labels each node has, as 0 and 1
            [n, c], or targets [n] or [n, t]; rows of NaN (or, for labels, -1) are unknown.
        task: what labels are: "classification", "multilabel" or "regression".
        nodes: number of nodes; by default that of features or labels, or the highest id plus one.
        weights: non-negative edge weights [m]; without them every edge has weight 1.
        directed: keep the direction of edges. Otherwise each edge is stored in both directions.
        self_loops: keep edges from a node to itself (one diagonal entry each), or drop them.
        info: name, metric, fixed splits and the names of classes, nodes and features.

    Repeated edges are merged into one entry; weights are added. An undirected weighted edge that is listed in both
    directions with different weights gets the larger one.

    >>> path = Graph([[0, 1, 1], [1, 2, 0]], labels=[0, 0, -1])
    >>> path
    Graph(nodes=3, entries=4, features=0, classes=1, undirected)
    >>> path.degree()
    tensor([1., 2., 1.], dtype=torch.float64)
    """

    indptr: Tensor  # [n + 1]
    indices: Tensor  # [nnz]
    weights: Tensor | None  # [nnz] float64
    features: Any  # [n, d] tensor, SciPy CSR, or None
    y: Tensor  # [n] int64; all -1 for other tasks than classification
    targets: Tensor | None  # [n, t] float64 for these tasks, NaN where unknown; None for classification
    edge_results: dict[Any, Any]  # results computed from the edges; copies with the same edges share them

    def __init__(
        self,
        edges,
        features=None,
        labels=None,
        *,
        nodes: int | None = None,
        weights=None,
        directed: bool = False,
        self_loops: bool = True,
        info: Info | None = None,
        task: str = "classification",
    ):
        if nodes is None:
            nodes = next((row_count(rows) for rows in (features, labels) if rows is not None), None)
        directed, self_loops = checks.flag(directed, "directed"), checks.flag(self_loops, "self_loops")
        checks.without_gradients(features, "features")
        pairs, n = checks.edges(edges, nodes)
        values = None if weights is None else checks.weights(weights, pairs.shape[1]).numpy()
        matrix = merge(pairs.numpy(), values, n, directed=directed, self_loops=self_loops)
        self.is_directed = directed
        self._set_matrix(matrix, weighted=weights is not None)
        self.features = None if features is None else copied(checks.features(features, n), features)
        self.task, self.targets = pick(dict.fromkeys(TASKS, task), task, "task"), None
        if task == "classification" or labels is None:
            self.y = torch.full((n,), -1) if labels is None else copied(checks.labels(labels, n), labels)
        else:
            self.y, self.targets = torch.full((n,), -1), checks.targets(labels, n, task)
        if info is not None and not isinstance(info, Info):
            raise TypeError(f"info must be an Info; got {type(info).__name__}. Use Info(name=...), or leave it out.")
        self.info = self._checked(info or Info())
        self.edge_results = {}

    def _set_matrix(self, matrix: sp.csr_array, *, weighted: bool) -> None:
        """Set the edges to those of a matrix whose entries are merged and sorted."""
        self.indptr, self.indices = compact(matrix.indptr), compact(matrix.indices)
        if len(self.indptr) and self.indptr.dtype != self.indices.dtype:  # kernels need one index type
            self.indptr, self.indices = self.indptr.long(), self.indices.long()
        self.weights = torch.from_numpy(matrix.data) if weighted else None

    def _checked(self, info: Info) -> Info:
        """Refuse names that are fewer or more than what they name, and copy the masks."""
        width = None if self.features is None else self.features.shape[1]
        for attribute, count, what in (("node_ids", self.nodes, "node"), ("feature_names", width, "feature column")):
            names = getattr(info, attribute)
            if names is not None and len(names) != count:
                raise ValueError(
                    f"{attribute} must have one name per {what}, {count or 0} in all; got {len(names)}. Correct them, "
                    "or leave them out."
                )
        if info.class_names is not None and len(info.class_names) < self.outputs:
            counted = "the highest label plus one" if self.targets is None else "one per column"
            raise ValueError(
                f"class_names must have a name for each of the {self.outputs} classes, {counted}; got "
                f"{len(info.class_names)}: {', '.join(map(str, info.class_names[:5]))}. Add names, or leave them out."
            )
        if info.masks is None:
            return info
        return replace(info, masks={part: copied(checks.tensor(m, "masks"), m) for part, m in info.masks.items()})

    @classmethod
    def from_scipy(cls, adjacency, features=None, labels=None, *, weighted: bool = False, **options) -> "Graph":
        """From a square SciPy sparse matrix; `weighted` keeps its values, otherwise every entry is 1."""
        if not sp.issparse(adjacency):
            raise TypeError(f"from_scipy needs a SciPy sparse matrix; got {type(adjacency).__name__}. Convert it.")
        if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
            raise ValueError(
                f"an adjacency matrix must be square; got shape {list(adjacency.shape)}. Pass one row and one column "
                f"per node."
            )
        check_options(cls, options)
        weighted = checks.flag(weighted, "weighted")
        matrix = sp.csr_array(adjacency).tocoo()  # adds repeated entries of a COO matrix
        matrix.eliminate_zeros()
        pairs = np.stack([matrix.row, matrix.col]).astype(np.int64)
        values = matrix.data if weighted else None
        return cls(pairs, features, labels, nodes=adjacency.shape[0], weights=values, **options)

    @classmethod
    def from_pyg(cls, data, **options) -> "Graph":
        """From a PyG `Data`: edge_index, num_nodes and, if present, x, y and edge_weight."""
        check_options(cls, options)
        if getattr(data, "edge_index", None) is None:
            raise ValueError(f"from_pyg needs a Data with edge_index; {data!r} has none. Set data.edge_index.")
        options.setdefault("directed", bool(data.is_directed()))
        x, y, weights = (getattr(data, name, None) for name in ("x", "y", "edge_weight"))
        return cls(data.edge_index, x, y, nodes=data.num_nodes, weights=weights, **options)

    @classmethod
    def from_networkx(cls, graph, features=None, labels=None, *, weight: str | None = None, **options) -> "Graph":
        """From a NetworkX graph, with nodes in its order; `weight` is the name of an edge attribute."""
        import networkx as nx  # noqa: TID251  the only import of NetworkX

        if not isinstance(graph, nx.Graph):
            raise TypeError(f"from_networkx needs a NetworkX graph; got {type(graph).__name__}. Convert it.")
        if graph.number_of_nodes() == 0:
            raise ValueError("a graph needs at least one node; got an empty NetworkX graph. Add nodes.")
        if weight is not None and not any(weight in attributes for *_, attributes in graph.edges(data=True)):
            raise ValueError(f"weight must be the name of an edge attribute; no edge has {weight!r}. Correct it.")
        matrix = nx.to_scipy_sparse_array(graph, weight=weight, format="coo")  # type: ignore[arg-type]
        options.setdefault("directed", graph.is_directed())
        return cls.from_scipy(matrix, features, labels, weighted=weight is not None, **options)

    @property
    def nodes(self) -> int:
        """Number of nodes n."""
        return len(self.indptr) - 1

    @property
    def entries(self) -> int:
        """Number of stored adjacency entries: an undirected edge counts twice, a self-loop once."""
        return len(self.indices)

    @property
    def classes(self) -> int:
        """Number of classes: the highest known label plus one."""
        return int(self.y.max()) + 1

    @property
    def outputs(self) -> int:
        """Number of columns that a model predicts: classes, labels or targets."""
        return self.classes if self.targets is None else self.targets.shape[1]

    @property
    def known(self) -> Tensor:
        """The classes [n], or for other tasks 0 for nodes whose labels or targets are known; -1 for other nodes."""
        return self.y if self.targets is None else torch.where(self.targets.isnan().any(1), -1, 0)

    @property
    def x(self) -> Tensor:
        """Features as a dense tensor [n, d]."""
        if self.features is None:
            raise ValueError(
                "features are needed here; this graph has no features. Pass features=..., such as torch.eye(n); in a "
                "nodes file they are columns of numbers."
            )
        if not sp.issparse(self.features):
            return self.features
        n, d = self.features.shape
        what = f"a dense matrix of {d:,} sparse feature columns for {n:,} nodes"
        check_memory(self.features.dtype.itemsize * n * d, what, remedy="Use reduce=256, or fewer columns.")
        return torch.from_numpy(self.features.toarray())

    def in_model_dtype(self, x: Tensor) -> Tensor:
        """Scaled features [n, d] in `info.dtype`, with a warning of columns that lose most of their digits.

        Numbers above the range of the type are refused.
        """
        dtype, names = self.info.dtype, self.info.feature_names
        if dtype is None or x.dtype == dtype:
            return x
        converted = x.to(dtype)
        too_large = ~torch.isfinite(converted).all(0)  # [d]
        columns = (too_large if too_large.any() else loses_digits(x, converted)).nonzero()[:, 0].tolist()
        shown = some((names[i] if names else i for i in columns), 5)
        if too_large.any():
            raise ValueError(
                f"features must be below 3e38 after scaling, the range of float32; got larger ones in the columns "
                f"{shown}. Standardise them (standardise=true), or use other units."
            )
        if columns and self not in WARNED:
            WARNED.add(self)
            logger.warning(
                "%s: values in the columns %s are too close to each other or too small for float32, and become equal "
                "or 0; standardise them (standardise=true), or use other units", self.info.name, shown,
            )  # fmt: skip
        return converted

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """A as a SciPy matrix of float64."""
        values = np.ones(self.entries) if self.weights is None else self.weights.numpy()
        return sp.csr_array((values, self.indices.numpy(), self.indptr.numpy()), shape=(self.nodes, self.nodes))

    def degree(self, direction: Direction = "both") -> Tensor:
        """Sum of edge weights of each node as float64 [n]: outgoing, incoming, or those of the undirected graph."""
        if direction == "both" and self.is_directed:
            return self.undirected().degree()
        if direction not in ("both", "out", "in"):
            raise ValueError(f'direction must be "both", "out" or "in"; got {direction!r}.')
        if self.weights is None and (direction == "out" or not self.is_directed):
            return self.indptr.diff().double()  # every entry is 1
        sums = self.adjacency.sum(axis=0 if direction == "in" else 1)
        return torch.from_numpy(np.asarray(sums, dtype=np.float64).ravel())

    def isolated(self) -> Tensor:
        """Mask of the nodes without any edge, also without a self-loop: bool [n]."""
        return (self.degree("out") == 0) & (self.degree("in") == 0)

    def components(self) -> tuple[int, Tensor]:
        """Number of (weakly) connected components, and the component of each node [n]."""
        found, member = sp.csgraph.connected_components(self.adjacency, directed=self.is_directed, connection="weak")
        return int(found), torch.from_numpy(member).long()

    def undirected(self) -> "Graph":
        """The same graph with each edge in both directions; the graph itself if it is undirected."""
        return self._rebuilt(self.adjacency, directed=False) if self.is_directed else self

    def transposed(self) -> "Graph":
        """The same graph with every edge reversed; the graph itself if it is undirected."""
        return self._rebuilt(self.adjacency.T, directed=True) if self.is_directed else self

    def without_self_loops(self) -> "Graph":
        """The same graph without edges from a node to itself."""
        return self._rebuilt(self.adjacency, directed=self.is_directed, self_loops=False)

    def with_self_loops(self) -> "Graph":
        """The same graph with a self-loop of weight 1 added to each node that has none."""
        missing = sp.diags_array((self.adjacency.diagonal() == 0).astype(np.float64))
        return self._rebuilt(self.adjacency + missing, directed=self.is_directed)

    def with_columns(self, order: Sequence[int]) -> "Graph":
        """The same graph with its feature columns in another order."""
        if self.features is None or not len(order):
            raise ValueError(f"columns are chosen among those of features; got {shortened(order)} for {self!r}.")
        for column in order:
            checks.count(column, "a column", self.features.shape[1] - 1)
        other = object.__new__(Graph)
        other.__dict__.update(self.__dict__, features=self.features[:, list(order)])
        return other

    def edited(self, nodes: int, added: Tensor, removed: Tensor, weights: Tensor, info: Info) -> "Graph":
        """The graph without features, with more nodes of unknown class, and with some edges added and some removed.

        Only the edges that are added are sorted; those that are there stay in their order.

        Args:
            nodes: number of nodes, at least that of the graph; the new ones are the last.
            added: edges [2, m]; the weight of one that is there already grows.
            removed: edges of the graph [2, r].
            weights: of the added edges as float64 [m]; not used by a graph without weights.
            info: of the new graph.

        >>> path = Graph([[0, 1], [1, 2]])
        >>> cut = path.edited(4, torch.tensor([[3], [0]]), torch.tensor([[1], [2]]), torch.ones(1), path.info)
        >>> cut.indptr.tolist(), cut.indices.tolist()
        ([0, 2, 3, 3, 4], [1, 3, 0, 0])
        """
        A, more = self.adjacency, (0, nodes - self.nodes)
        A = sp.csr_array((A.data, A.indices, np.pad(A.indptr, more, mode="edge")), shape=(nodes, nodes))
        A = without_edges(A, removed.numpy(), directed=self.is_directed) if removed.shape[1] else A
        new = merge(added.numpy(), weights.numpy(), nodes, directed=self.is_directed, self_loops=True)
        found = object.__new__(Graph)
        found.is_directed, found.task, found.info, found.edge_results = self.is_directed, self.task, info, {}
        found._set_matrix(A + new, weighted=self.weights is not None)
        found.features, found.targets = None, None
        found.y = torch.cat([self.y, self.y.new_full((nodes - self.nodes,), -1)])
        return found

    def relabelled(self, labels) -> "Graph":
        """The same graph with other classes; nothing else is copied."""
        other = object.__new__(Graph)
        other.__dict__.update(self.__dict__, y=copied(checks.labels(labels, self.nodes), labels))
        other.task, other.targets = "classification", None
        return other

    def _rebuilt(self, adjacency, **options) -> "Graph":
        other = Graph.from_scipy(adjacency, weighted=self.weights is not None, **options)
        other.features, other.y, other.info = self.features, self.y, self.info  # shared: graphs do not change
        other.task, other.targets = self.task, self.targets
        return other

    def __repr__(self) -> str:
        width = 0 if self.features is None else self.features.shape[1]
        kind = "directed" if self.is_directed else "undirected"
        weighted = "" if self.weights is None else ", weighted"
        columns = {"classification": "classes", "multilabel": "labels", "regression": "targets"}[self.task]
        return (
            f"Graph(nodes={self.nodes}, entries={self.entries}, features={width}, "
            f"{columns}={self.outputs}, {kind}{weighted})"
        )


WARNED: WeakSet[Graph] = WeakSet()  # graphs whose rounding was reported: a search uses one graph many times


def loses_digits(x: Tensor, converted: Tensor) -> Tensor:
    """Mask [d] of the columns of x [n, d] whose values become equal or 0, or nearly so, in another dtype."""
    span = x.amax(0) - x.amin(0)  # 0 for a constant column, which has nothing to lose
    return ((converted.to(x.dtype) - x).abs().amax(0) > MAX_ROUNDING * span) & (span > 0)


def copied(values: Any, given: Any) -> Any:
    """A copy of a tensor or SciPy matrix that was converted from `given`, if it may share memory with it."""
    if isinstance(given, list | tuple):
        return values
    return values.copy() if sp.issparse(values) else values.clone()


def require_graph(graph: Any, what: str) -> Graph:
    """Return a graph; refuse everything else."""
    if not isinstance(graph, Graph):
        raise TypeError(f"{what} needs a Graph; got {type(graph).__name__}. Use adaptkry.load or Graph(edges).")
    return graph


def row_count(rows) -> int:
    """Number of rows of an array, a tensor, a SciPy matrix or a list."""
    if not (rows.shape if hasattr(rows, "shape") else hasattr(rows, "__len__")):
        raise TypeError(f"features and labels must be arrays with one row per node; got {rows!r}. Pass an array.")
    return rows.shape[0] if hasattr(rows, "shape") else len(rows)


def merge(pairs: np.ndarray, values: np.ndarray | None, n: int, *, directed: bool, self_loops: bool) -> sp.csr_array:
    """Edges as a CSR matrix: repeated edges merged, in both directions and without self-loops if requested."""
    if not pairs.shape[1]:
        return sp.csr_array((n, n), dtype=np.int64 if values is None else values.dtype)
    if not self_loops:
        kept = pairs[0] != pairs[1]
        pairs, values = pairs[:, kept], values if values is None else values[kept]
    data = np.ones(pairs.shape[1], dtype=np.int64) if values is None else values
    matrix = sp.coo_array((data, (pairs[0], pairs[1])), shape=(n, n)).tocsr()
    if not directed:
        matrix = matrix.maximum(matrix.T).tocsr()
    matrix.eliminate_zeros()  # edges of weight 0 are dropped
    matrix.sort_indices()
    return matrix


def without_edges(A: sp.csr_array, edges: np.ndarray, *, directed: bool) -> sp.csr_array:
    """A matrix without some of its entries [2, r], which must be there."""
    n = len(A.indptr) - 1
    keys = np.repeat(np.arange(n), np.diff(A.indptr)) * n + A.indices
    gone = edges[0] * n + edges[1]
    gone = gone if directed else np.concatenate([gone, edges[1] * n + edges[0]])
    is_missing = ~np.isin(gone, keys)
    if is_missing.any():
        u, v = divmod(int(gone[is_missing.argmax()]), n)
        raise ValueError(f"removed_edges must be edges of the graph; got {u} to {v}, which is none. Leave it out.")
    kept = ~np.isin(keys, gone)
    indptr = np.concatenate([[0], kept.cumsum()])[A.indptr]
    return sp.csr_array((A.data[kept], A.indices[kept], indptr), shape=(n, n))


def compact(index: np.ndarray | Sequence[int]) -> Tensor:
    """Indices as int32 if they fit, otherwise int64: half the memory, the same speed."""
    array = np.asarray(index)
    fits = array.size == 0 or array.max() < 2**31
    return torch.from_numpy(array.astype(np.int32 if fits else np.int64))
