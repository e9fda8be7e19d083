"""AdaptKry as a scikit-learn estimator.

Pass the graph to the constructor; X is then an array of node numbers, which `cross_val_score` and `GridSearchCV` can
split. Or call `fit(X, y, edges)` with features and edges, and y = -1 for unknown labels.
"""

from inspect import signature

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from adaptkry.common.lookup import pick
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import recipe
from adaptkry.models.suggest import by_features, merged
from adaptkry.selection.auto import auto
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import fit
from adaptkry.training.run import Run

SETTING_NAMES = (
    "taus", "degree", "directions", "hidden", "layers", "mlp_lr", "filter_lr", "mlp_decay", "filter_decay",
    "mlp_dropout", "filter_dropout", "epochs", "patience",
)  # fmt: skip


class AdaptKryClassifier(ClassifierMixin, BaseEstimator):
    """Node classification with a learned polynomial filter.

    Args:
        graph: the whole graph, with which X is an array of node numbers. None: pass features and edges to `fit`.
        method: "adaptkry" trains one model. "auto" searches for the best ensemble within `time_limit`, as
            `adaptkry.auto` does; settings that differ from their defaults are the same in all its trainings.
        time_limit: seconds, or a text such as "5min", that `fit` may take with method "auto".
        taus, degree, directions, structure, hidden, layers, mlp_lr, filter_lr, mlp_decay, filter_decay, mlp_dropout,
            filter_dropout, epochs, patience: as in `Recipe`.
        validation: share of the training nodes that is held out to choose the best epoch.
        seed: seed of the validation split.
        device: "auto", "cpu" or "cuda".
    """

    def __init__(
        self,
        graph: Graph | None = None,
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
        seed: int = 0,
        device: str = "cpu",
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
        y = np.asarray(y)
        known = y != -1 if np.issubdtype(y.dtype, np.number) else np.ones(len(y), dtype=bool)
        self.classes_, coded = np.unique(y[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"fit needs at least 2 classes among the known labels; got {len(self.classes_)}. "
                "Add labels of another class."
            )
        if edges is not None:
            self.graph_, nodes = Graph(edges, X), np.arange(len(y))
        elif self.graph is not None:
            self.graph_, nodes = self.graph, self._nodes(X, self.graph.nodes)
        else:
            raise ValueError(
                "fit needs edges or a graph; got neither. Use fit(X, y, edges), or AdaptKryClassifier(graph)."
            )
        if len(nodes) != len(y):
            raise ValueError(f"X and y must have the same length; got {len(nodes)} rows and {len(y)} labels.")
        labels = np.full(self.graph_.nodes, -1)
        labels[nodes[known]] = coded
        held_out = self._splits(torch.from_numpy(labels))
        labelled = self.graph_.relabelled(labels)
        self.run_ = self._search(labelled, held_out) if self.method == "auto" else self._train(labelled, held_out)
        self.probabilities_ = self.run_.probabilities(labelled).numpy()
        self.n_features_in_ = 1 if edges is None else self.run_.features
        self.on_nodes_ = edges is None
        return self

    def _train(self, graph: Graph, held_out: splits.Splits) -> Run:
        """Train one model with the settings of the constructor."""
        settings = {name: getattr(self, name) for name in SETTING_NAMES}
        scaling = merged(by_features(graph))  # columns may have any scale
        return fit(graph, recipe("adaptkry", **scaling | settings), held_out, device=self.device, test=False)

    def _search(self, graph: Graph, held_out: splits.Splits) -> Ensemble:
        """Search for the best ensemble; settings that the user changed are fixed."""
        defaults = signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in SETTING_NAMES}
        fixed = {name: value for name, value in given.items() if value != defaults[name].default}
        found = auto(
            graph, held_out, time_limit=self.time_limit, device=self.device, seed=self.seed, test=False, **fixed
        )
        return found.ensemble

    def _splits(self, labels: torch.Tensor) -> splits.Splits:
        """Hold out some labelled nodes of each class for validation. Nodes without a label are the unused test part."""
        if not 0 < self.validation < 1:
            raise ValueError(f"validation must be between 0 and 1; got {self.validation}. Try 0.2.")
        generator = torch.Generator().manual_seed(self.seed)
        held_out = torch.zeros(len(labels), dtype=torch.bool)
        for c in range(int(labels.max()) + 1):
            nodes = (labels == c).nonzero()[:, 0]
            count = max(1, round(self.validation * len(nodes))) if len(nodes) > 1 else 0
            held_out[nodes[torch.randperm(len(nodes), generator=generator)[:count]]] = True
        rest = labels < 0
        if not rest.any():  # every label is known, but a split needs a test part: one node, which is not evaluated
            rest = held_out & (torch.cumsum(held_out, 0) == 1)
        return splits.from_masks((labels >= 0) & ~held_out, held_out & ~rest, rest)

    @staticmethod
    def _nodes(X, nodes: int) -> np.ndarray:
        """Return X as node numbers [k], all below `nodes`."""
        numbers = np.asarray(X).reshape(len(X), -1)
        if numbers.shape[1] != 1 or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(
                f"X must hold node numbers [k], as integers; got {numbers.dtype} of shape {numbers.shape}. "
                "For features use fit(X, y, edges)."
            )
        numbers = numbers[:, 0]
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= nodes):
            raise ValueError(f"node numbers must be 0 .. {nodes - 1}; got {numbers.min()} .. {numbers.max()}.")
        return numbers

    def predict_proba(self, X) -> np.ndarray:
        """Predict class probabilities [k, c] of the nodes in X, or [n, c] of all nodes after `fit(X, y, edges)`."""
        check_is_fitted(self, "probabilities_")
        return self.probabilities_[self._nodes(X, len(self.probabilities_))] if self.on_nodes_ else self.probabilities_

    def predict(self, X) -> np.ndarray:
        """Predict the most probable class of the nodes in X [k], or of all nodes [n] after `fit(X, y, edges)`."""
        return self.classes_[self.predict_proba(X).argmax(1)]
