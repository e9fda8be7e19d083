"""AdaptKry as a scikit-learn estimator.

Pass the graph to the constructor; X is then an array of node numbers, which `cross_val_score` and `GridSearchCV` can
split. Or call `fit(X, y, edges)` with features and edges, and y = -1 for unknown labels; `predict(X)` then needs a row
for every node of that graph, or edges of its own.
"""

from inspect import signature
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adaptkry.common import checks
from adaptkry.common.lookup import pick, shortened
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph, Info, row_count
from adaptkry.models.recipe import recipe
from adaptkry.models.suggest import by_features, merged
from adaptkry.selection.auto import auto
from adaptkry.training.data import open_graph
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import fit
from adaptkry.training.run import Run

SETTING_NAMES = (
    "taus", "degree", "directions", "structure", "hidden", "layers", "mlp_lr", "filter_lr", "mlp_decay", "filter_decay",
    "mlp_dropout", "filter_dropout", "epochs", "patience",
)  # fmt: skip


class AdaptKryClassifier(ClassifierMixin, BaseEstimator):
    """Node classification with a learned polynomial filter.

    Args:
        graph: the whole graph, or everything else that `adaptkry.load` accepts; X is then an array of node numbers.
            None: pass features and edges to `fit`.
        method: "adaptkry" trains one model. "auto" searches for the best ensemble within `time_limit`, as
            `adaptkry.auto` does; settings that differ from their defaults are the same in all its trainings.
        time_limit: seconds, or a text such as "5min", that `fit` may take with method "auto".
        taus, degree, directions, structure, hidden, layers, mlp_lr, filter_lr, mlp_decay, filter_decay, mlp_dropout,
            filter_dropout, epochs, patience: as in `Recipe`.
        validation: share of the training nodes that is held out to choose the best epoch.
        random_state: an integer, a NumPy `RandomState` or None: decides which nodes are held out, and the search of
            method "auto".
        seed: another name of `random_state`; None: `random_state` is used.
        device: "auto", "cpu" or "cuda".
    """

    def __init__(
        self,
        graph: Any = None,
        *,
        method: str = "adaptkry",
        time_limit: float | str = 60.0,
        taus: tuple[float, ...] = (0.5,),
        degree: int = 10,
        directions: tuple[str, ...] = ("both",),
        structure: int = 0,
        hidden: int = 64,
        layers: int = 2,
        mlp_lr: float = 0.01,
        filter_lr: float = 0.01,
        mlp_decay: float = 5e-4,
        filter_decay: float = 0.0,
        mlp_dropout: float = 0.5,
        filter_dropout: float = 0.0,
        epochs: int = 500,
        patience: int = 100,
        validation: float = 0.2,
        random_state: int | np.random.RandomState | None = 0,
        seed: int | None = None,
        device: str | torch.device = "cpu",
    ):
        self.graph = graph
        self.method = method
        self.time_limit = time_limit
        self.taus = taus
        self.degree = degree
        self.directions = directions
        self.structure = structure
        self.hidden = hidden
        self.layers = layers
        self.mlp_lr = mlp_lr
        self.filter_lr = filter_lr
        self.mlp_decay = mlp_decay
        self.filter_decay = filter_decay
        self.mlp_dropout = mlp_dropout
        self.filter_dropout = filter_dropout
        self.epochs = epochs
        self.patience = patience
        self.validation = validation
        self.random_state = random_state
        self.seed = seed
        self.device = device

    def fit(self, X, y, edges=None) -> "AdaptKryClassifier":
        """Train the classifier.

        Args:
            X: node numbers [k] or [k, 1] of `graph`; with `edges`, features [n, d].
            y: labels [k]; -1 for unknown ones, if they are numbers. With `edges`, labels of all nodes [n].
            edges: [2, m].
        """
        pick(dict.fromkeys(("adaptkry", "auto")), self.method, "method")
        y = class_labels(y)
        known = y != -1 if np.issubdtype(y.dtype, np.number) else np.ones(len(y), dtype=bool)
        self.classes_, coded = np.unique(y[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"fit needs at least 2 classes among the known labels; got {len(self.classes_)}. "
                "Add labels of another class."
            )
        if edges is not None and self.graph is not None:
            raise ValueError("fit needs edges or a graph; got both. Leave edges out, or use AdaptKryClassifier().")
        if edges is not None:
            self.graph_ = feature_graph(X, edges)
            nodes = np.arange(self.graph_.nodes)
        elif self.graph is not None:
            self.graph_ = open_graph(self.graph, "AdaptKryClassifier").graph
            nodes = node_numbers(X, self.graph_.nodes)
        else:
            raise ValueError(
                "fit needs edges or a graph; got neither. Use fit(X, y, edges), or AdaptKryClassifier(graph)."
            )
        if len(nodes) != len(y):
            raise ValueError(f"X and y must have the same length; got {len(nodes)} rows and {len(y)} labels.")
        seed = self._drawn_seed()
        labels = self._labels(nodes[known], coded)
        held_out = self._splits(torch.from_numpy(labels), seed)
        labelled = self.graph_.relabelled(labels)
        is_auto = self.method == "auto"
        self.run_ = self._search(labelled, held_out, seed) if is_auto else self._train(labelled, held_out)
        self.probabilities_ = self.run_.probabilities(labelled).numpy()
        self.n_features_in_ = 1 if edges is None else self.run_.features
        self.on_nodes_ = edges is None
        return self

    def _labels(self, nodes: np.ndarray, coded: np.ndarray) -> np.ndarray:
        """Return the class of every node [n], -1 if it is unknown; a node with two labels is refused."""
        labels = np.full(self.graph_.nodes, -1)
        labels[nodes] = coded
        is_other = labels[nodes] != coded
        if is_other.any():
            node = nodes[is_other][0]
            first, second = self.classes_[np.unique(coded[nodes == node])][:2].tolist()
            raise ValueError(f"a node must have one label; node {node} has {first!r} and {second!r}. Keep one of them.")
        return labels

    def _drawn_seed(self) -> int:
        """Return the seed of this fit; it is drawn if `random_state` is not an integer."""
        given = self.random_state if self.seed is None else self.seed
        if given is None or isinstance(given, np.random.RandomState):
            return int(check_random_state(given).randint(2**31 - 1))
        return checks.count(given, "random_state")

    def _train(self, graph: Graph, held_out: splits.Splits) -> Run:
        """Train one model with the settings of the constructor."""
        settings = {name: getattr(self, name) for name in SETTING_NAMES if name != "structure" or self.structure}
        scaling = merged(by_features(graph))  # columns may have any scale
        return fit(graph, recipe("adaptkry", **scaling | settings), held_out, device=self.device, test=False)

    def _search(self, graph: Graph, held_out: splits.Splits, seed: int) -> Ensemble:
        """Search for the best ensemble; settings that the user changed are fixed."""
        defaults = signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in SETTING_NAMES}
        fixed = {name: value for name, value in given.items() if value != defaults[name].default}
        found = auto(graph, held_out, time_limit=self.time_limit, device=self.device, seed=seed, test=False, **fixed)
        return found.ensemble

    def _splits(self, labels: torch.Tensor, seed: int) -> splits.Splits:
        """Hold out some labelled nodes of each class for validation. Nodes without a label are the unused test part."""
        if not 0 < checks.number(self.validation, "validation") < 1:
            raise ValueError(f"validation must be between 0 and 1; got {self.validation}. Try 0.2.")
        generator = torch.Generator().manual_seed(seed)
        held_out = torch.zeros(len(labels), dtype=torch.bool)
        for c in range(int(labels.max()) + 1):
            nodes = (labels == c).nonzero()[:, 0]
            count = max(1, round(self.validation * len(nodes))) if len(nodes) > 1 else 0
            held_out[nodes[torch.randperm(len(nodes), generator=generator)[:count]]] = True
        if not held_out.any():
            raise ValueError(
                "fit needs a class with at least 2 labelled nodes, one of which is held out for validation; got one "
                "node of each class. Label more nodes."
            )
        rest = labels < 0
        if not rest.any():  # every label is known, but a split needs a test part: one node, which is not evaluated
            spare = held_out if held_out.sum() > 1 else ~held_out
            rest = spare & (torch.cumsum(spare, 0) == 1)
        return splits.from_masks((labels >= 0) & ~held_out & ~rest, held_out & ~rest, rest)

    def predict_proba(self, X, edges=None) -> np.ndarray:
        """Predict class probabilities [k, c].

        Args:
            X: node numbers [k]; after `fit(X, y, edges)`, features of all nodes [n, d].
            edges: [2, m], if the features are those of another graph than in `fit`.
        """
        check_is_fitted(self, "probabilities_")
        if self.on_nodes_:
            if edges is not None:
                raise ValueError(
                    "edges are for an estimator that was fitted on features and edges; this one was fitted on node "
                    "numbers of its graph. Leave edges out."
                )
            return self.probabilities_[node_numbers(X, len(self.probabilities_))]
        rows, nodes = row_count(X), len(self.probabilities_)
        if edges is None and rows != nodes:
            raise ValueError(
                f"X must have {nodes} rows, one for every node of the graph in fit; got {rows}. For another graph use "
                "predict(X, edges); to predict some of the nodes, use AdaptKryClassifier(graph) and node numbers."
            )
        graph = feature_graph(X, self.graph_ if edges is None else edges)
        if edges is None and graph.info == self.graph_.info and torch.equal(graph.x, self.graph_.x):
            return self.probabilities_
        return self.run_.probabilities(graph).numpy()

    def predict(self, X, edges=None) -> np.ndarray:
        """Predict the most probable class of every row of X [k]; arguments as in `predict_proba`."""
        probabilities = self.predict_proba(X, edges)
        return self.classes_[probabilities.argmax(1)]


def class_labels(y: Any) -> np.ndarray:
    """Return labels as an array [k]; missing values and numbers that are not whole are refused."""
    labels = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)  # text would swallow NaN
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise ValueError(f"y must be labels [k], one per row of X; got {shortened(y)}. Pass a list or an array.")
    if labels.dtype == object:
        missing = [row for row, label in enumerate(labels) if label is None or label != label]
        is_text = {isinstance(label, str) for label in labels}
        if not missing and len(is_text) > 1:
            raise TypeError("y must be all text or all numbers; got both. Convert it.")
        labels = labels if missing else np.array(labels.tolist())
    else:
        missing = np.flatnonzero(~np.isfinite(labels)).tolist() if labels.dtype.kind == "f" else []
    if labels.dtype.kind == "U":
        missing = np.flatnonzero(np.char.strip(labels) == "").tolist()
    if missing:
        raise ValueError(
            f"y must not have missing values; row {missing[0]} has {labels.tolist()[missing[0]]!r}. Leave the row out, "
            "or use -1 if labels are numbers."
        )
    if labels.dtype.kind == "f" and (labels != np.rint(labels)).any():
        raise ValueError(
            f"y must be classes; got the number {labels[labels != np.rint(labels)][0]}, which is not whole. Divide "
            "numbers into classes first."
        )
    return labels


def feature_graph(X: Any, edges: Any) -> Graph:
    """Return a graph of features X [n, d], with the names of its columns if it is a data frame.

    Args:
        X: features [n, d].
        edges: [2, m], or a graph with the same edges.
    """
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    values, info = X if names is None else X.to_numpy(), Info(feature_names=names)
    return (
        Graph.from_scipy(edges.adjacency, values, info=info)
        if isinstance(edges, Graph)
        else Graph(edges, values, info=info)
    )


def node_numbers(X: Any, nodes: int) -> np.ndarray:
    """Return X as node numbers [k], all below `nodes`."""
    numbers = np.asarray(X)
    if numbers.ndim == 1 and not len(numbers):
        return np.zeros(0, dtype=np.int64)
    numbers = numbers.reshape(len(numbers), -1) if numbers.ndim else numbers
    if numbers.ndim != 2 or numbers.shape[1] != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            f"X must hold node numbers [k], as integers; got {numbers.dtype} of shape {numbers.shape}. "
            "For features use fit(X, y, edges)."
        )
    numbers = numbers[:, 0]
    if numbers.min() < 0 or numbers.max() >= nodes:
        raise ValueError(f"node numbers must be 0 .. {nodes - 1}; got {numbers.min()} .. {numbers.max()}.")
    return numbers
