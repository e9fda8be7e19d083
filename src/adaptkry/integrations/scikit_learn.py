"""AdaptKry as a scikit-learn estimator.

The graph is given once, at construction; X is then a column of node numbers, so that `cross_val_score` and
`GridSearchCV` can split it. Or call `fit(X, y, edges)` with features and edges, y = -1 for unknown.
"""

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import recipe
from adaptkry.training.fit import fit


class AdaptKryClassifier(ClassifierMixin, BaseEstimator):
    """Node classification with a learned polynomial filter.

    Args:
        graph: the whole graph; then X in fit, predict and score is an array of node numbers. None: pass edges to fit.
        taus, degree, directions, hidden, layers, mlp_lr, filter_lr, mlp_decay, filter_decay, mlp_dropout,
            filter_dropout, epochs, patience: as in `Recipe`.
        validation: share of the training nodes that is held out to choose the epoch.
        seed: of the split and the weights.
        device: "auto", "cpu" or "cuda".
    """

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        taus: tuple[float, ...] = (0.5,),
        degree: int = 10,
        directions: tuple[str, ...] = ("both",),
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
        self.taus = taus
        self.degree = degree
        self.directions = directions
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
        """Train. X: node numbers [k] (or [k, 1]) of `graph`, or features [n, d] together with `edges` [2, m]."""
        y = np.asarray(y)
        known = y != -1 if np.issubdtype(y.dtype, np.number) else np.ones(len(y), dtype=bool)
        self.classes_, coded = np.unique(y[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"fit needs at least 2 classes among the known labels; got {len(self.classes_)}.")
        if edges is not None:
            self.graph_, nodes = Graph(edges, X), np.arange(len(y))
        elif self.graph is not None:
            self.graph_, nodes = self.graph, self._nodes(X, self.graph.nodes)
        else:
            raise ValueError(
                "fit needs edges or a graph; got neither. Use fit(X, y, edges), or AdaptKryClassifier(graph)."
            )
        if len(nodes) != len(y):
            raise ValueError(f"X and y must agree in length; got {len(nodes)} rows and {len(y)} labels.")
        labels = np.full(self.graph_.nodes, -1)
        labels[nodes[known]] = coded
        split = self._split(torch.from_numpy(labels))
        names = ("taus", "degree", "directions", "hidden", "layers", "mlp_lr", "filter_lr", "mlp_decay", "filter_decay",
                 "mlp_dropout", "filter_dropout", "epochs", "patience")  # fmt: skip
        settings = recipe("adaptkry", **{name: getattr(self, name) for name in names})
        self.run_ = fit(self.graph_.relabelled(labels), settings, split, device=self.device, test=False)
        self.probabilities_ = self.run_.probabilities(self.graph_.relabelled(labels)).numpy()
        self.n_features_in_ = 1 if edges is None else self.run_.shape.features
        self.on_nodes_ = edges is None
        return self

    def _split(self, labels: torch.Tensor) -> splits.Splits:
        """Hold out some training nodes of each class for validation. The rest is the test part, which is not used."""
        if not 0 < self.validation < 1:
            raise ValueError(f"validation must lie between 0 and 1; got {self.validation}.")
        generator = torch.Generator().manual_seed(self.seed)
        held_out = torch.zeros(len(labels), dtype=torch.bool)
        for c in range(int(labels.max()) + 1):
            nodes = (labels == c).nonzero()[:, 0]
            count = max(1, round(self.validation * len(nodes))) if len(nodes) > 1 else 0
            held_out[nodes[torch.randperm(len(nodes), generator=generator)[:count]]] = True
        rest = labels < 0
        if not rest.any():  # every label is known: a split still needs a third part
            rest = held_out & (torch.cumsum(held_out, 0) == 1)
        return splits.from_masks((labels >= 0) & ~held_out, held_out & ~rest, rest)

    @staticmethod
    def _nodes(X, nodes: int) -> np.ndarray:
        found = np.asarray(X).reshape(len(X), -1)
        if found.shape[1] != 1 or not np.issubdtype(found.dtype, np.integer):
            raise ValueError(f"X must hold node numbers [k], as integers; got {found.dtype} of shape {found.shape}.")
        found = found[:, 0]
        if len(found) and (found.min() < 0 or found.max() >= nodes):
            raise ValueError(f"node numbers must be 0 .. {nodes - 1}; got {found.min()} .. {found.max()}.")
        return found

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities: of the nodes named in X, or of all nodes after fit(X, y, edges)."""
        check_is_fitted(self, "probabilities_")
        return self.probabilities_[self._nodes(X, len(self.probabilities_))] if self.on_nodes_ else self.probabilities_

    def predict(self, X) -> np.ndarray:
        """The most probable class."""
        return self.classes_[self.predict_proba(X).argmax(1)]
