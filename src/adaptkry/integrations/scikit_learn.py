"""AdaptKry as a scikit-learn estimator, which is fitted on node numbers of a graph, or on the features of its nodes."""

import json
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from adaptkry.common import checks
from adaptkry.common.files import checked_path, read_signed, signed, visible_names, write
from adaptkry.common.lookup import pick
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph, row_count
from adaptkry.integrations.estimator_inputs import as_column, class_labels, edge_graph, feature_graph, node_numbers
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.models.suggest import by_features, merged
from adaptkry.selection.auto import auto
from adaptkry.training.data import open_graph
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import fit
from adaptkry.training.run import Run
from adaptkry.training.run_folder import load_run, run_digest

SETTING_NAMES = (
    "taus", "degree", "directions", "structure", "hidden", "layers", "mlp_lr", "filter_lr", "mlp_decay", "filter_decay",
    "mlp_dropout", "filter_dropout", "epochs", "patience",
)  # fmt: skip
ESTIMATOR = "estimator.json"  # what `save` writes besides the run
ESTIMATOR_REMEDY = "Save the estimator again."


class AdaptKryClassifier(ClassifierMixin, BaseEstimator):
    """Node classification with a learned polynomial filter.

    There are two forms. With `graph`, X is an array of node numbers, which `cross_val_score`, `GridSearchCV` and
    `CalibratedClassifierCV` can split; features are scaled as the graph needs it:

    >>> from sklearn.model_selection import cross_val_score
    >>> from adaptkry.graphs.synthetic import csbm
    >>> graph = csbm(nodes=200, seed=0)
    >>> classifier = AdaptKryClassifier(graph, degree=3, hidden=16, epochs=60)
    >>> bool(cross_val_score(classifier, np.arange(200), graph.y, cv=3).mean() > 0.8)
    True

    With `edges`, X [n, d] holds the features of all nodes, in `fit` as in `predict`, and y the labels, with -1 for
    unknown ones (text labels: an array of objects). Transformers of features come first in a pipeline:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, edges = graph.x.numpy(), np.stack(graph.adjacency.nonzero())
    >>> y = np.where(np.arange(200) < 100, graph.y, -1)                        # the second half is unknown
    >>> pipeline = make_pipeline(StandardScaler(), AdaptKryClassifier(edges=edges, degree=3, hidden=16, epochs=60))
    >>> predicted = pipeline.fit(X, y).predict(X)
    >>> bool((predicted == graph.y.numpy())[100:].mean() > 0.8)
    True

    Rows of X cannot be split in this form, since a part of them has other edges; use node numbers for that.

    Args:
        graph: the whole graph, or everything else that `adaptkry.load` accepts; X is then an array of node numbers.
        edges: [2, m], or a SciPy adjacency matrix [n, n]; X then holds features. They can also be passed to `fit`.
        method: the name of a method, which trains one model; or "auto", which searches for the best ensemble within
            `time_limit`, as `adaptkry.auto` does. With "auto" and with methods other than "adaptkry", only settings
            that differ from the defaults below are used, in all trainings.
        time_limit: seconds, or a text such as "5min", that `fit` may take with method "auto".
        taus, degree, directions, structure, hidden, layers, mlp_lr, filter_lr, mlp_decay, filter_decay, mlp_dropout,
            filter_dropout, epochs, patience: as in `Recipe`.
        validation: share of the training nodes that is held out to choose the best epoch.
        random_state: an integer, a NumPy `RandomState` or None: decides which nodes are held out, and the search of
            method "auto".
        seed: another name of `random_state`; None: `random_state` is used.
        device: "auto", "cpu" or "cuda".

    Attributes:
        classes_: the labels, sorted.
        n_features_in_: number of columns of X, 1 for node numbers.
        feature_names_in_: names of the columns of X, if it was a data frame.
        run_: the `Run`, or the `Ensemble` of method "auto".
    """

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        graph: Any = None,
        *,
        edges: Any = None,
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
        self.edges = edges
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

    def fit(self, X, y, edges=None, **unknown) -> "AdaptKryClassifier":
        """Train the classifier.

        Args:
            X: node numbers [k] or [k, 1] of `graph`; with edges, features [n, d].
            y: labels [k], or [n] with edges; -1 for unknown ones.
            edges: those of the constructor, if they were not passed to it.
            unknown: not accepted; scikit-learn has further arguments, such as sample_weight, for some estimators.
        """
        if unknown:
            raise TypeError(
                f"fit takes X, y and edges; got {', '.join(unknown)}. All labelled nodes have the same weight."
            )
        pick(dict.fromkeys((*METHODS, "auto")), self.method, "method")
        edges = self._edges(edges)
        y, known = class_labels(y)
        self.classes_, coded = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"fit needs at least 2 classes among the known labels; got {len(self.classes_)} class"
                f"{'' if len(self.classes_) else 'es'}, since -1 is unknown. Add labels of another class."
            )
        if edges is None:
            X = self._validated(as_column(X), dtype=None)
            self.graph_ = open_graph(self.graph, "AdaptKryClassifier").graph
            nodes = node_numbers(X, self.graph_.nodes)
        else:
            X = self._validated(X)
            self.graph_ = feature_graph(X, edges, getattr(self, "feature_names_in_", None))
            nodes = np.arange(self.graph_.nodes)
        if len(nodes) != len(known):
            raise ValueError(f"X and y must have the same length; got {len(nodes)} rows and {len(known)} labels.")
        seed = self._drawn_seed()
        labels = self._labels(nodes[known], coded)
        held_out = self._splits(torch.from_numpy(labels), seed)
        labelled = self.graph_.relabelled(labels)
        is_auto = self.method == "auto"
        self.run_ = self._search(labelled, held_out, seed) if is_auto else self._train(labelled, held_out)
        self.probabilities_ = self.run_.probabilities(labelled).numpy()
        self.on_nodes_ = edges is None
        return self

    def _edges(self, edges: Any) -> Any:
        """Return the edges of the constructor or of `fit`; None if there is a graph."""
        given = [value for value in (self.graph, self.edges, edges) if value is not None]
        if len(given) != 1:
            raise ValueError(
                "fit needs edges or a graph; got "
                + ("neither. Use AdaptKryClassifier(graph)" if not given else "both, or edges twice. Pass one of them")
                + ", or AdaptKryClassifier(edges=edges)."
            )
        return self.edges if edges is None else edges

    def _validated(self, X: Any, **options) -> Any:
        """Return X after the checks of scikit-learn, whose messages are put on one line."""
        try:
            accept_sparse = False if self.graph is not None else "csr"
            return validate_data(self, X, accept_sparse=accept_sparse, **options)
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(" ".join(str(error).split()).rstrip(".") + ".") from None

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
        if self.method != "adaptkry":
            return fit(graph, self.method, held_out, device=self.device, test=False, **self._changed())
        settings = {name: getattr(self, name) for name in SETTING_NAMES if name != "structure" or self.structure}
        scaling = merged(by_features(graph))  # columns may have any scale
        return fit(graph, recipe("adaptkry", **scaling | settings), held_out, device=self.device, test=False)

    def _search(self, graph: Graph, held_out: splits.Splits, seed: int) -> Ensemble:
        """Search for the best ensemble; settings that the user changed are fixed."""
        options = {"time_limit": self.time_limit, "device": self.device, "seed": seed, "test": False}
        return auto(graph, held_out, **options, **self._changed()).ensemble

    def _changed(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults."""
        defaults = signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in SETTING_NAMES}
        return {name: value for name, value in given.items() if value != defaults[name].default}

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
            X: node numbers [k]; after `fit` with edges, features of all nodes [n, d].
            edges: [2, m], if the features are those of another graph than in `fit`.
        """
        check_is_fitted(self, "run_")
        if self.on_nodes_:
            if edges is not None:
                raise ValueError(
                    "edges are for an estimator that was fitted on features and edges; this one was fitted on node "
                    "numbers of its graph. Leave edges out."
                )
            X = self._validated(as_column(X), reset=False, dtype=None, ensure_min_samples=0)
            return self.probabilities_[node_numbers(X, len(self.probabilities_))]
        X = self._validated(X, reset=False)
        if edges is None and row_count(X) != self.graph_.nodes:
            raise ValueError(
                f"X must have {self.graph_.nodes} rows, one for every node of the graph in fit; got {row_count(X)}. "
                "For another graph use predict(X, edges); to predict some of the nodes, use AdaptKryClassifier(graph) "
                "and node numbers."
            )
        names = getattr(self, "feature_names_in_", None)
        graph = feature_graph(X, self.graph_ if edges is None else edges, names)
        if edges is None and self.graph_.features is not None and torch.equal(graph.x, self.graph_.x):
            return self.probabilities_
        return self.run_.probabilities(graph).numpy()

    def predict(self, X, edges=None) -> np.ndarray:
        """Predict the most probable class of every row of X [k]; arguments as in `predict_proba`."""
        probabilities = self.predict_proba(X, edges)
        return self.classes_[probabilities.argmax(1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.graph is None
        return tags

    def save(self, folder: Path | str) -> Path:
        """Write the fitted estimator to a new or empty folder, without its graph, and return the path of the folder.

        Nothing is pickled: it holds a run folder, `run`, and `estimator.json`.
        """
        check_is_fitted(self, "run_")
        folder = checked_path(folder, "the folder of an estimator")
        if names := visible_names(folder):
            raise ValueError(f"an estimator is saved to a new or empty folder; {folder} holds {names[0]}. Use another.")
        run = self.run_.save(folder / "run")
        settings = {name: value for name, value in self.get_params().items() if name not in ("graph", "edges")}
        if isinstance(self.random_state, np.random.RandomState):
            settings["random_state"] = None
        document = {
            "settings": settings | {"device": str(self.device)},
            "classes": self.classes_.tolist(),
            "columns": self.n_features_in_,
            "names": list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
            "nodes": self.graph_.nodes,
            "on_nodes": self.on_nodes_,
            "run": run_digest(run),
        }
        write(folder / ESTIMATOR, json.dumps(signed(document), indent=1))
        return folder

    @classmethod
    def load(cls, folder: Path | str, graph: Any = None, edges: Any = None) -> "AdaptKryClassifier":
        """Read what `save` wrote.

        Args:
            folder: the folder.
            graph: the graph of `fit`, if X are node numbers; it may have new nodes after the others.
            edges: the edges of `fit`, if X are features.
        """
        folder = checked_path(folder, "the folder of an estimator")
        if not (folder / ESTIMATOR).is_file():
            raise ValueError(f"an estimator must be a folder that `save` wrote; {folder} has no {ESTIMATOR}.")
        saved = read_signed(folder / ESTIMATOR, ESTIMATOR_REMEDY)
        if run_digest(folder / "run") != saved["run"]:
            raise ValueError(f"{folder} must hold the run it was saved with; it holds another. {ESTIMATOR_REMEDY}")
        name, needed, other = ("graph", graph, edges) if saved["on_nodes"] else ("edges", edges, graph)
        if needed is None or other is not None:
            raise ValueError(
                f"this estimator was fitted with {name}, so load needs them again, and nothing else; got "
                f"{'nothing' if other is None else 'another argument'}. Use load(folder, {name}=...)."
            )
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in saved["settings"].items()
        }
        loaded = cls(graph, edges=edges, **settings)
        loaded.run_, loaded.classes_ = load_run(folder / "run"), np.array(saved["classes"])
        loaded.n_features_in_, loaded.on_nodes_ = saved["columns"], saved["on_nodes"]
        if saved["names"] is not None:
            loaded.feature_names_in_ = np.array(saved["names"], dtype=object)
        if loaded.on_nodes_:
            loaded.graph_ = open_graph(graph, "AdaptKryClassifier").graph
            loaded.probabilities_ = loaded.run_.probabilities(loaded.graph_).numpy()
        else:
            loaded.graph_ = edge_graph(edges, saved["nodes"])
        return loaded
