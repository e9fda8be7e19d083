"""Careless and hostile calls of every entry point, in Python and on the command line.

One row per call: what is called, and what must come of it. A refused call raises an error of the expected type that the
package declares (`errors.is_declared`), with a message on one line that contains the expected words; an exception of
torch, NumPy or Python that escapes the package fails the test. To add an entry point, add a row to `CALLS` (accepted),
`REFUSED` (in Python) or `COMMANDS` (on the command line).
"""

import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data, HeteroData

import adaptkry as ak
from adaptkry.common import errors
from adaptkry.graphs.graph import Info
from adaptkry.models import stages as s
from adaptkry.outofcore.graph_folder import write_graph

GRAPH = ak.csbm(nodes=60, seed=0)
X, Y, NODES = GRAPH.x, GRAPH.y, np.arange(60)
EDGES = torch.from_numpy(np.stack(GRAPH.adjacency.nonzero())).long()
INNER = EDGES[:, (EDGES < 20).all(0)]
WEIGHTS = torch.ones(EDGES.shape[1])
DATA = Data(x=X, edge_index=EDGES, y=Y)
PARTS = [torch.arange(60) % 3 == part for part in range(3)]
SPLITS = ak.from_masks(*PARTS)
QUICK: dict[str, Any] = {"epochs": 2, "device": "cpu"}
NAN = float("nan")
TEXT: Any = "no"  # where True or False is expected
HUGE = 2**70
P = ak.Propagation(GRAPH)
SPARSE = torch.sparse_coo_tensor(EDGES.flip(0), WEIGHTS, (60, 60), check_invariants=True)
LAYER = ak.KrylovConv(16, 4)
NUMBERS = ak.Graph(EDGES, X, X[:, 0], task="regression")


def unlabelled(part: int) -> ak.Graph:
    """The graph without the label of the first node of a part: 0 train, 1 validation, 2 test."""
    return GRAPH.relabelled(torch.where(torch.arange(60) == part, -1, Y))


def one_class(part: int) -> ak.Graph:
    """The graph, where all nodes of a part have class 0."""
    return GRAPH.relabelled(torch.where(PARTS[part], 0, Y))


def with_masks(graph: ak.Graph) -> ak.Graph:
    other = copy.copy(graph)
    other.info = Info("g", masks=dict(zip(("train", "validation", "test"), [m[None] for m in PARTS], strict=True)))
    return other


def data_with(**attributes) -> Data:
    return Data(**{"x": X, "edge_index": EDGES, "y": Y, **attributes})


def fit(data: Any = GRAPH, *words, **options) -> Any:
    return ak.fit(data, *words, **{**QUICK, **options})


def layer(**options) -> Any:
    return ak.KrylovConv(**{"in_channels": 16, "out_channels": 4, **options})


def density(**options) -> Any:
    return ak.density_of_states(P, **options)


def classifier(**options) -> Any:
    return ak.AdaptKryClassifier(GRAPH, **{"epochs": 2, "degree": 2, "hidden": 8, **options})


def on_features(**options) -> Any:
    return ak.AdaptKryClassifier(**{"epochs": 2, "degree": 2, "hidden": 8, **options}).fit(X.numpy(), Y, EDGES)


# Calls that work: (call, property of the result).
CALLS: dict[str, tuple[Callable[[], Any], Callable[[Any], bool]]] = {
    "fit: method by name": (lambda: fit(method="gcn"), lambda run: run.recipes[0].method == "gcn"),
    "fit: name of a graph": (lambda: fit("csbm", count=1), lambda run: run.info.graph == "csbm"),
    "fit: PyG data": (lambda: fit(DATA), lambda run: len(run.results) == 5),
    "fit: data without features": (lambda: fit(data_with(x=None, num_nodes=60)), lambda run: run.features == 0),
    "fit: a torch device": (lambda: fit(device=torch.device("cpu")), lambda run: len(run.results) == 5),
    "fit: device with a number": (lambda: fit(device="cpu:0"), lambda run: len(run.results) == 5),
    "fit: NumPy numbers": (
        lambda: fit(hidden=np.int64(8), mlp_lr=np.float32(0.5), tied=np.bool(True)),
        lambda run: [type(getattr(run.recipes[0], n)) for n in ("hidden", "mlp_lr", "tied")] == [int, float, bool],
    ),
    "load: a graph": (lambda: ak.load(GRAPH), lambda graph: graph is GRAPH),
    "fit: one tau": (lambda: fit(taus=0.5), lambda run: run.recipes[0].taus == (0.5,)),
    "fit: one direction": (lambda: fit(directions="both"), lambda run: run.recipes[0].directions == ("both",)),
    "fit: None keeps a setting": (lambda: fit(hidden=None), lambda run: run.recipes[0].hidden == 64),
    "fit: options of the basis as a dict": (
        lambda: fit(basis="jacobi", basis_options={"a": 1, "b": 2}),
        lambda run: run.recipes[0].basis_options == (("a", 1), ("b", 2)),
    ),
    "fit: untested nodes need no labels": (
        lambda: fit(unlabelled(2), splits=SPLITS, test=False),
        lambda run: [result.test for result in run.results] == [None],
    ),
    **{
        f"fit: {method} of degree {degree}": (
            lambda method=method, degree=degree: fit(method=method, degree=degree, count=1),
            lambda run: run.results[0].validation is not None,
        )
        for method, degree in (("arma", 0), ("arma", 1), ("favardgnn", 0), ("jacobiconv", 0))
    },
    "fit: masks without a class": (
        lambda: fit(one_class(2), splits=SPLITS),
        lambda run: run.info.warnings == ["test lacks class 1 in every split."],
    ),
    "fit: untested masks without a class": (
        lambda: fit(one_class(2), splits=SPLITS, test=False),
        lambda run: run.info.warnings == [],
    ),
    "classifier: no warnings of test nodes": (
        lambda: classifier().fit(NODES, Y), lambda c: c.run_.info.warnings == []
    ),
    "compare: one method": (lambda: ak.compare(GRAPH, "mlp", **QUICK), lambda found: found[0]["method"] == "mlp"),
    "compare: a torch device": (
        lambda: ak.compare(GRAPH, ["mlp"], epochs=2, device=torch.device("cpu")),
        lambda found: found[0]["failed"] is None,
    ),
    "tune: a torch device": (
        lambda: ak.tune(GRAPH, trials=1, epochs=2, device=torch.device("cpu")),
        lambda found: len(found.trials) == 1,
    ),
    "suggest: a name": (lambda: ak.suggest("csbm"), lambda found: found == ak.suggest(ak.csbm())),
    "suggest: PyG data": (lambda: ak.suggest(DATA), lambda found: found.hidden == 64),
    "explain: a name": (lambda: ak.explain("csbm"), lambda found: len(found) > 2),
    "KrylovBasis: one tau": (lambda: ak.KrylovBasis(taus=0.5)(data_with()).basis, lambda b: b.shape == (60, 11, 16)),
    "KrylovBasis: label of the graph": (
        lambda: ak.KrylovBasis(degree=2)(data_with(y=torch.tensor([1]))).basis,
        lambda basis: torch.equal(basis, ak.KrylovBasis(degree=2)(data_with()).basis),
    ),
    "KrylovBasis: targets are numbers": (
        lambda: ak.KrylovBasis(degree=2)(data_with(y=torch.rand(60))).basis,
        lambda basis: basis.shape == (60, 3, 16),
    ),
    "KrylovBasis: features with gradients": (
        lambda: ak.KrylovBasis(degree=2)(data_with(x=X.clone().requires_grad_())).basis,
        lambda basis: basis.shape == (60, 3, 16),
    ),
    "KrylovBasis: repr": (lambda: repr(ak.KrylovBasis(0.5, 2)), lambda t: t.startswith("KrylovBasis(taus=(0.5,), de")),
    "KrylovBasis: adj_t": (
        lambda: ak.KrylovBasis(degree=2)(Data(x=X, adj_t=SPARSE)).basis,
        lambda basis: torch.equal(basis, ak.KrylovBasis(degree=2)(data_with(edge_weight=WEIGHTS)).basis),
    ),
    "KrylovConv: double": (lambda: layer().double()(X.double(), EDGES), lambda y: y.dtype == torch.float64),
    "KrylovConv: weights": (
        lambda: (LAYER(X, EDGES, WEIGHTS) - LAYER(X, EDGES)).detach(),
        lambda difference: float(difference.norm()) < 1e-5,
    ),
    "KrylovConv: weights with gradients": (
        lambda: layer()(X, EDGES, WEIGHTS.clone().requires_grad_()), lambda y: y.requires_grad
    ),
    "KrylovConv: edges of a list": (lambda: layer()(X, [[0, 1], [1, 2]]), lambda y: y.shape == (60, 4)),
    "KrylovConv: no edges": (lambda: layer()(X, EDGES[:, :0]), lambda y: y.shape == (60, 4)),
    "KrylovConv: degree 0": (lambda: layer(degree=0)(X, EDGES), lambda y: y.shape == (60, 4)),
    "classifier: seed None": (lambda: classifier(seed=None).fit(NODES, Y), lambda c: len(c.predict(NODES)) == 60),
    "classifier: random_state None": (
        lambda: classifier(random_state=None).fit(NODES, Y),
        lambda c: len(c.predict(NODES)) == 60,
    ),
    "classifier: name of a graph": (
        lambda: ak.AdaptKryClassifier("csbm", epochs=1).fit([0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 0, 1, 0, 1, 0, 1, 0]),
        lambda c: len(c.predict([5, 6])) == 2,
    ),
    "classifier: PyG data": (
        lambda: ak.AdaptKryClassifier(DATA, epochs=1).fit(NODES, Y), lambda c: len(c.predict([5])) == 1
    ),
    "classifier: edges of a matrix": (
        lambda: ak.AdaptKryClassifier(edges=GRAPH.adjacency, epochs=2).fit(X.numpy(), Y),
        lambda c: c.graph_.weights is None and c.graph_.entries == GRAPH.entries,
    ),
    "classifier: text and -1": (
        lambda: classifier().fit(NODES, [-1, *"ab" * 29, "a"]), lambda c: c.classes_.tolist() == ["a", "b"]
    ),
    "classifier: numbers of nodes in a list": (
        lambda: classifier().fit(NODES.tolist(), Y.tolist()), lambda c: len(c.predict([[5], [6]])) == 2
    ),
    "classifier: objects that are numbers": (
        lambda: classifier().fit(NODES, np.array([-1, *Y[1:].tolist()], dtype=object)),
        lambda c: c.classes_.tolist() == [0, 1],
    ),
    "classifier: equal duplicates": (
        lambda: classifier().fit(np.r_[NODES, 0], np.r_[Y, Y[0]]), lambda c: len(c.predict(NODES)) == 60
    ),
    "classifier: no nodes": (lambda: classifier().fit(NODES, Y).predict([]), lambda found: found.shape == (0,)),
    "classifier: all labels but two known": (
        lambda: classifier().fit(NODES[:3], [0, 1, 0]),
        lambda c: c.run_.results[0].validation is not None,
    ),
    "classifier: structure is used": (
        lambda: classifier(structure=4).fit(NODES, Y), lambda c: c.run_.recipes[0].structure == 4
    ),
    "classifier: another graph": (lambda: on_features().predict(X[:20].numpy(), INNER), lambda y: y.shape == (20,)),
    "classifier: sparse features": (
        lambda: on_features().predict(sp.csr_array(X.numpy())), lambda found: found.shape == (60,)
    ),
    "stratified: a graph": (lambda: ak.stratified(GRAPH, count=2), lambda found: len(found) == 2),
    "names": (lambda: {*ak.__all__} - {*dir(ak)}, lambda missing: not missing and "KrylovConv" in ak.__all__),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_look_odd_but_are_right_work(name):
    call, is_right = CALLS[name]
    assert is_right(call())


# Calls that are refused: (call, type of the error, words of its message).
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # arguments that would be ignored, or mean the opposite
    (lambda: fit(data_with(train_mask=PARTS[0])), ValueError, "masks must all be present; got only train"),
    (lambda: fit(splits=SPLITS, count=3), ValueError, "count is for a scheme of splits; got 3 and 1 splits"),
    (lambda: fit(test=TEXT), TypeError, "test must be True or False; got 'no'"),
    (lambda: fit(predict=TEXT), TypeError, "predict must be True or False"),
    (lambda: fit(resume=TEXT, out="x"), TypeError, "resume must be True or False"),
    (lambda: ak.auto(GRAPH, test=TEXT), TypeError, "test must be True or False"),
    (lambda: ak.Graph(EDGES, directed=TEXT), TypeError, "directed must be True or False"),
    (lambda: ak.Graph(EDGES, self_loops=TEXT), TypeError, "self_loops must be True or False"),
    (lambda: ak.load("csbm", normalise=TEXT), TypeError, "normalise must be True or False"),
    (lambda: classifier().fit(X.numpy(), Y, EDGES), ValueError, "needs edges or a graph; got both"),
    (lambda: classifier(edges=EDGES).fit(X.numpy(), Y), ValueError, "needs edges or a graph; got both"),
    (lambda: on_features(edges=EDGES), ValueError, "edges twice"),
    (lambda: classifier().fit(NODES, Y, sample_weight=NODES), TypeError, "got sample_weight. All labelled nodes have"),
    (lambda: classifier().fit(NODES, np.array(["a", "", "b"] * 20)), ValueError, "row 1 has"),
    # nodes without labels, whatever the origin of masks, splits and labels
    *(
        (lambda part=part, call=call: call(unlabelled(part)), ValueError, message)
        for part, name in enumerate(("train", "validation", "test"))
        for call, message in (
            (lambda g: fit(g, splits=SPLITS), f"{name} nodes must have labels; got node {part}"),
            (lambda g: fit(g, ak.recipe("mlp"), SPLITS), f"{name} nodes must have labels; got node {part}"),
            (lambda g: fit(with_masks(g), splits="fixed"), f"node {part} in the {name} mask has none"),
            (lambda g: fit(with_masks(g)), f"node {part} in the {name} mask has none"),
            (lambda g: ak.compare(g, ["mlp"], SPLITS, **QUICK), f"{name} nodes must have labels"),
            (lambda g: ak.tune(g, "mlp", SPLITS, trials=1, **QUICK), f"{name} nodes must have labels"),
            (lambda g: ak.auto(g, SPLITS, time_limit=1, **QUICK), f"{name} nodes must have labels"),
            (
                lambda g: fit(data_with(y=g.y, train_mask=PARTS[0], val_mask=PARTS[1], test_mask=PARTS[2])),
                f"node {part} in the {name} mask has none",
            ),
        )
    ),
    # data
    (lambda: fit(None), TypeError, "a graph must be a name, a path"),
    (lambda: fit(3), TypeError, "a graph must be a name, a path"),
    (lambda: fit(""), ValueError, "got an empty path"),
    (lambda: ak.load(), TypeError, "a graph must be a name, a path"),
    (lambda: ak.load(edges=5), TypeError, "a graph must be a name, a path"),
    (lambda: ak.load("csbm", edges="e.csv"), ValueError, "got data and edges. Leave one of them out"),
    (lambda: ak.load(edges={"source": [1], "target": [2]}), TypeError, "data frames, a PyG Data or a NetworkX"),
    (lambda: ak.load(DATA, id_column="id"), ValueError, "id_column: these options are for tables"),
    (lambda: ak.load("csbm", id_column="id"), ValueError, "unknown option of csbm 'id_column'"),
    (lambda: fit([]), ValueError, "got an empty list"),
    (lambda: fit(X.numpy()), TypeError, "Use Graph(edges, features, labels) for arrays"),
    (lambda: fit(HeteroData()), TypeError, "Use data.to_homogeneous()"),
    (lambda: fit("csbmm"), ValueError, "Did you mean 'csbm'"),
    (lambda: fit(data_with(y=None)), ValueError, "none of 60 nodes has a label"),
    (lambda: fit(data_with(y=torch.rand(60))), TypeError, "labels must be integers"),
    (lambda: fit(data_with(y=torch.tensor([1]))), ValueError, "labels must have shape [60]"),
    (lambda: fit(data_with(x=X.clone().requires_grad_())), ValueError, "features must not require gradients"),
    (lambda: fit(data_with(edge_weight=WEIGHTS.clone().requires_grad_())), ValueError, "Use detach()"),
    # method and splits
    (lambda: fit(GRAPH, SPLITS), TypeError, "Pass splits by name: splits="),
    (lambda: fit(GRAPH, []), TypeError, "a list of recipes; got []"),
    (lambda: fit(GRAPH, None), TypeError, "got None. Use for example 'adaptkry'"),
    (lambda: fit(GRAPH, GRAPH), TypeError, "method must be the name of a method"),
    (lambda: fit(GRAPH, ""), ValueError, "unknown method ''"),
    (lambda: fit(method=["gcn"]), TypeError, "a list of recipes; got ['gcn']"),
    (lambda: fit(splits=""), ValueError, "unknown split scheme ''"),
    (lambda: fit(splits=tuple(PARTS)), TypeError, "See adaptkry.from_masks"),
    (lambda: fit(splits=3), TypeError, "use count=3"),
    (lambda: fit(ak.csbm(nodes=70), splits=SPLITS), ValueError, "cover all 70 rows; got splits of 60"),
    (lambda: ak.compare(ak.csbm(nodes=70), ["mlp"], SPLITS, **QUICK), ValueError, "cover all 70 rows"),
    (lambda: ak.tune(ak.csbm(nodes=70), splits=SPLITS, **QUICK), ValueError, "cover all 70 rows"),
    (lambda: ak.auto(ak.csbm(nodes=70), SPLITS, **QUICK), ValueError, "cover all 70 rows"),
    # numbers of things
    *(
        (lambda name=name, value=value: fit(**{name: value}), error, f"{name} must be {message}")
        for name in ("seeds", "restarts", "batch_size", "count")
        for value, error, message in (
            (0, ValueError, "1 or more; got 0"),
            (-1, ValueError, "1 or more; got -1"),
            (1.5, TypeError, "an integer; got 1.5"),
            ("a", TypeError, "an integer; got 'a'"),
            (HUGE, ValueError, "at most"),
        )
    ),
    (lambda: fit(restarts=10**8), ValueError, "500000000 trainings with hidden 64"),
    (lambda: fit(seeds=10**8), ValueError, "must fit in memory"),
    (lambda: fit(count=10**8), ValueError, "the number of splits must be at most 10000"),
    (lambda: fit(splits="uniform", count=10**8), ValueError, "the number of splits must be at most 10000"),
    # metrics
    (lambda: fit(metrics="f1"), ValueError, "unknown metric 'f1'"),
    (lambda: fit(metrics="accuracy,"), ValueError, "unknown metric ''"),
    (lambda: fit(metrics=[]), TypeError, "metrics must be names, of which the first chooses"),
    (lambda: fit(metrics=3), TypeError, "metrics must be names"),
    (lambda: fit(metrics=[3]), TypeError, "metrics must be names"),
    (lambda: fit(metrics="r2"), ValueError, "unknown metric 'r2'"),
    (lambda: fit(one_class(2), splits=SPLITS, metrics="accuracy,roc_auc"), ValueError, "roc_auc needs test nodes"),
    (lambda: ak.tune(one_class(1), splits=SPLITS, metrics="roc_auc"), ValueError, "roc_auc needs validation nodes"),
    (lambda: ak.auto(GRAPH, metrics="f1"), ValueError, "unknown metric 'f1'"),
    (lambda: ak.compare(GRAPH, metrics="f1"), ValueError, "unknown metric 'f1'"),
    # settings
    *(
        (lambda name=name, value=value: fit(**{name: value}), error, f"{name} must be {message}")
        for name in ("epochs", "hidden", "degree", "layers", "similar_nodes")
        for value, error, message in (
            (10**9, ValueError, "at most"),
            (HUGE, ValueError, "at most"),
            (-1, ValueError, ""),
            (1.5, TypeError, "an integer; got 1.5"),
            ("3", TypeError, "an integer; got '3'"),
            (True, TypeError, "an integer; got True"),
            (NAN, TypeError, "an integer; got nan"),
            ([1], TypeError, "an integer; got [1]"),
        )
    ),
    *(
        (lambda name=name: fit(**{name: HUGE}), ValueError, f"{name} must be at most")
        for name in ("patience", "min_epochs", "heads", "structure", "reduce")
    ),
    (lambda: fit(reduce=17), ValueError, "reduce must be at most the number of feature columns, 16, and of nodes, 60"),
    (lambda: ak.tune(GRAPH, reduce=17, trials=1), ValueError, "reduce must be at most the number of feature columns"),
    (lambda: ak.auto(GRAPH, reduce=17, time_limit=1), ValueError, "reduce must be at most the number of feature"),
    (lambda: fit(reduce="all"), TypeError, "reduce must be an integer; got 'all'"),
    (lambda: fit(dtype="bfloat16", combine_hops="sum"), ValueError, "dtype bfloat16 needs a CUDA GPU with Triton"),
    (lambda: fit(method="gcn", dtype="bfloat16"), ValueError, "dtype bfloat16 is for methods that sum hops"),
    (lambda: fit(dtype="float16"), ValueError, "float16"),
    (lambda: fit(hidden=10**6, layers=1000), ValueError, "trainings with hidden 1000000, layers 1000"),
    (lambda: fit(epochs=10**7, count=1000), ValueError, "must fit in memory"),
    (lambda: fit(ak.csbm(nodes=10**4, features=999), degree=10**4), ValueError, "terms of 999 columns for 10000 nodes"),
    (lambda: classifier(hidden=10**9).fit(NODES, Y), ValueError, "hidden must be at most"),
    (lambda: ak.auto(GRAPH, hidden=10**9, time_limit=1), ValueError, "hidden must be at most"),
    (lambda: ak.tune(GRAPH, hidden=10**9), ValueError, "hidden must be at most"),
    *(
        (lambda name=name, value=value: fit(**{name: value}), error, f"{name} must be {message}")
        for name in ("mlp_lr", "mlp_dropout", "isolated", "alpha", "label_smoothing")
        for value, error, message in (
            ("a", TypeError, "a number; got 'a'"),
            ([1], TypeError, "a number; got [1]"),
            (True, TypeError, "a number; got True"),
            (NAN, ValueError, "finite; got nan"),
            (10**400, ValueError, "finite; got 1000"),
        )
    ),
    (lambda: fit(tied="false"), TypeError, "tied must be True or False; got 'false'"),
    (lambda: fit(hop_norm=2), TypeError, "hop_norm must be True or False; got 2"),
    (lambda: fit(basis=[]), ValueError, "unknown basis []"),
    (lambda: fit(combine_hops=["sum"]), ValueError, "unknown combine_hops ['sum']"),
    (lambda: fit(loss=3), ValueError, "unknown loss 3"),
    (lambda: fit(directions=[]), ValueError, "directions must have at least one entry"),
    (lambda: fit(directions=3), TypeError, "directions must be a list; got 3"),
    (lambda: fit(directions=[["both"]]), ValueError, "unknown direction ['both']"),
    (lambda: fit(taus=[]), ValueError, "got an empty list"),
    (lambda: fit(taus="0.5"), TypeError, "tau must be a positive number; got '0.5'"),
    (lambda: fit(taus=[0.5] * 10**5), ValueError, "tau must be at most 1000 numbers; got 100000"),
    (lambda: fit(basis_options=3), TypeError, "basis_options must be a list; got 3"),
    (lambda: fit(basis_options="a"), ValueError, "basis_options must be pairs of name and value"),
    (lambda: fit(basis_options=[("a",)]), ValueError, "basis_options must be pairs of name and value"),
    (lambda: fit(basis_options={"a": 1}), ValueError, "unknown option of the basis krylov 'a'. There is none."),
    (lambda: fit(basis="jacobi", basis_options={"a": "x"}), TypeError, "the basis option a must be a number; got 'x'"),
    # names that do not exist: similar ones are suggested
    (lambda: ak.fit(GRAPH, hiden=3), ValueError, "unknown setting 'hiden'. Did you mean 'hidden'"),
    (lambda: ak.fit(GRAPH, sed=0), ValueError, "Did you mean 'seed'"),
    (lambda: ak.fit(GRAPH, tau=0.5), ValueError, "Did you mean 'taus'"),
    (lambda: ak.fit(GRAPH, made="gcn"), ValueError, "unknown setting 'made'"),
    (lambda: ak.fit([1, 2], source="payer"), ValueError, "Load the graph first, graph = ak.load(data, source=...)"),
    (lambda: ak.auto([1, 2], id_column="k"), ValueError, "it is an option of load. Load the graph first"),
    (lambda: ak.tune([1, 2], features=["a"]), ValueError, "graph = ak.load(data, features=...), and pass the graph"),
    (lambda: ak.compare([1, 2], directed=True), ValueError, "graph = ak.load(data, directed=...), and pass the graph"),
    (lambda: ak.auto(GRAPH, time=5), ValueError, "Did you mean 'time_limit'"),
    (lambda: ak.tune(GRAPH, n_trials=5), ValueError, "Did you mean"),
    (lambda: ak.compare(GRAPH, method="gcn"), ValueError, "Did you mean 'methods'"),
    (lambda: ak.suggest(GRAPH, hiden=3), ValueError, "Did you mean 'hidden'"),
    (lambda: ak.suggest("csbmm"), ValueError, "Did you mean 'csbm'"),
    (lambda: ak.suggest(GRAPH, "gcm"), ValueError, "unknown method 'gcm'"),
    (lambda: ak.suggest(GRAPH, train=[1]), ValueError, "train must be a bool mask [60]"),  # type: ignore
    (lambda: ak.recipe("gcn", hiden=1), ValueError, "Did you mean 'hidden'"),
    (lambda: ak.load("csbm", foo=1), ValueError, "unknown option of csbm 'foo'"),
    (lambda: list(ak.krylov(P, X, 2, foo=1)), ValueError, "unknown option of the basis krylov 'foo'"),
    (lambda: ak.Filter(2, foo=1), ValueError, "unknown option of the basis krylov 'foo'"),
    # stages that do not fit
    *(
        (lambda given=given: fit(method="mlp", combine_hops="sum", **{"stages": given()}), ValueError, message)
        for given, message in (
            (lambda: [], "stages must begin with"),
            (lambda: [s.Linear("classes")], "got Linear. Put Input() first"),
            (lambda: [s.Input(), s.Linear("classes")], "Add SelectRows() after the last stage"),
            (lambda: [s.CombineHops(), s.SelectRows()], "SelectRows needs the signal at all nodes"),
            (lambda: [s.CombineHops(), s.LinearPerHop("classes")], "LinearPerHop needs the signal at all nodes"),
            (lambda: [s.Input(), s.SelectRows(), s.Propagate()], "Propagate needs the signal at all nodes"),
            (lambda: [s.CombineHops(), s.PolynomialFilter()], "PolynomialFilter needs the signal at all nodes"),
            (lambda: [s.CombineHops(), s.Linear("hidden")], "a model must end with 2 columns"),
            (lambda: [s.CombineHops(), s.Dropout("x")], "unknown rate of the stage Dropout 'x'"),  # type: ignore
            (lambda: [s.CombineHops(), s.Linear("many")], "unknown size of the stage Linear 'many'"),  # type: ignore
            (lambda: [{"stage": "Linear", "size": "classes", "init": "x"}], "unknown init of the stage Linear 'x'"),
            (lambda: [{"stage": "Lineer"}], "Did you mean 'Linear'"),
            (lambda: "Input", "a stage must be a table"),
            (lambda: [3], "a stage must be a table"),
        )
    ),
    (lambda: fit(stages=3), TypeError, "stages must be a list; got 3"),
    # devices
    *(
        (lambda name=name: fit(device=name), ValueError, "the device must be auto, cpu or cuda")
        for name in ("cpu:abc", "cpu:1", "cpu:-1", "cpu:", "cuda:abc", "cuda:", "", "CPU", "meta", None, 0)
    ),
    (lambda: ak.compare(GRAPH, ["mlp"], device="x"), ValueError, "the device must be"),
    (lambda: ak.tune(GRAPH, device="x"), ValueError, "the device must be"),
    (lambda: ak.auto(GRAPH, device="x"), ValueError, "the device must be"),
    # other arguments
    (lambda: fit(combine="x"), ValueError, "unknown way to combine trainings 'x'"),
    (lambda: fit(callbacks=3), TypeError, "callbacks must be a list of functions; got 3"),
    (lambda: fit(callbacks=print), TypeError, "Put it in a list"),
    (lambda: fit(callbacks=[3]), TypeError, "callbacks must be functions"),
    (lambda: fit(resume=True), ValueError, "resume needs the folder"),
    (lambda: ak.tune(GRAPH, resume=True), ValueError, "resume needs the folder"),
    (lambda: ak.compare(GRAPH, resume=True), ValueError, "resume needs the folder"),
    (lambda: ak.auto(GRAPH, resume=True), ValueError, "resume needs the folder"),
    (lambda: ak.compare(GRAPH, []), ValueError, "methods must be a list of names; got []"),
    (lambda: ak.compare(GRAPH, 3), ValueError, "methods must be a list of names; got 3"),  # type: ignore
    (lambda: ak.compare(GRAPH, ["gcm"]), ValueError, "unknown method 'gcm'"),
    (lambda: ak.compare(GRAPH, [None]), ValueError, "unknown method None"),  # type: ignore
    (lambda: ak.compare(GRAPH, ["mlp"], baseline="gcn"), ValueError, "unknown baseline among the methods"),
    (lambda: ak.compare([GRAPH, GRAPH], ["mlp"]), ValueError, "must have different names; got csbm 2 times"),
    (lambda: ak.compare([GRAPH, None], ["mlp"]), TypeError, "a graph must be a name, a path"),
    (lambda: ak.compare(["csbm", "csbmm"], ["mlp"]), ValueError, "Did you mean 'csbm'"),
    (lambda: ak.compare(["csbm-directed", GRAPH], ["mlp"], SPLITS), ValueError, "got one Splits"),
    (lambda: ak.compare([GRAPH, ak.directed_csbm()], ["mlp"], [SPLITS]), ValueError, "got a list of 1"),
    (lambda: ak.compare([], ["mlp"]), ValueError, "got an empty list"),
    (lambda: ak.compare(ak.Graph(EDGES, X), ["mlp"]), ValueError, "none of 60 nodes has a label"),
    (lambda: ak.tune(GRAPH, trials=0), ValueError, "trials must be 1 or more; got 0"),
    (lambda: ak.tune(GRAPH, together=10**8), ValueError, "together must be at most 1000"),
    (lambda: ak.tune(GRAPH, trials=HUGE), ValueError, "trials must be at most"),
    (lambda: ak.tune(GRAPH, seed=-1), ValueError, "seed must be 0 or more; got -1"),
    (lambda: ak.auto(GRAPH, time_limit=0), ValueError, "a time limit must be a positive number"),
    (lambda: ak.auto(GRAPH, time_limit=None), ValueError, "a time limit must be a positive number"),  # type: ignore
    (lambda: ak.auto(GRAPH, time_limit=1, seed=-1), ValueError, "seed must be 0 or more; got -1"),
    # PyG
    (lambda: ak.KrylovBasis(taus="0.5"), TypeError, "tau must be a positive number; got '0.5'"),
    (lambda: ak.KrylovBasis(taus=[]), ValueError, "got an empty list"),
    (lambda: ak.KrylovBasis(degree=-1), ValueError, "degree must be 0 or more; got -1"),
    (lambda: ak.KrylovBasis(degree=10**9), ValueError, "degree must be at most 10000"),
    (lambda: ak.KrylovBasis(direction="up"), ValueError, "unknown direction 'up'"),
    (lambda: ak.KrylovBasis()(3), TypeError, "KrylovBasis needs a PyG Data; got int"),
    (lambda: ak.KrylovBasis()(HeteroData()), TypeError, "Use to_homogeneous()"),
    (lambda: ak.KrylovBasis()(data_with(x=None)), ValueError, "Set data.x"),
    (lambda: ak.KrylovBasis()(Data(x=X)), ValueError, "Set data.edge_index"),
    (lambda: ak.KrylovBasis()(data_with(x=torch.ones(60))), ValueError, "features must have shape [60, d]"),
    (lambda: ak.KrylovBasis()(Data(x=X, adj_t=torch.ones(60, 3).to_sparse())), ValueError, "must be a square matrix"),
    (lambda: ak.KrylovConv(0, 4), ValueError, "in_channels must be 1 or more; got 0"),
    (lambda: layer(out_channels=0.5), TypeError, "out_channels must be an integer; got 0.5"),
    (lambda: layer(in_channels=(16, 8)), TypeError, "in_channels must be an integer; got (16, 8)"),
    (lambda: layer(tau=0), ValueError, "tau must be positive and finite"),
    (lambda: layer(tau=[0.5, 1]), ValueError, "KrylovConv needs one tau; got [0.5, 1]"),
    (lambda: layer(degree=-1), ValueError, "degree must be 0 or more; got -1"),
    (lambda: layer(learn_tau=1), TypeError, "learn_tau must be True or False"),
    (lambda: layer(per_channel=TEXT), TypeError, "per_channel must be True or False"),
    (lambda: layer(bias=None), TypeError, "bias must be True or False"),
    (lambda: layer(basis="chebyshev"), ValueError, "unknown option of KrylovConv 'basis'"),
    (lambda: layer(initial_weights="x"), ValueError, "unknown initial weights 'x'"),
    (lambda: layer()(X.numpy(), EDGES), TypeError, "acts on a torch tensor; got ndarray"),
    (lambda: layer()(X.long(), EDGES), TypeError, "float32 or float64; got torch.int64"),
    (lambda: layer()(X.double(), EDGES), TypeError, "the dtype of the layer, torch.float32; got torch.float64"),
    (lambda: layer()(X[:, :3], EDGES), ValueError, "x must have shape [n, 16]; got [60, 3]"),
    (lambda: layer()(X[:, 0], EDGES), ValueError, "x must have shape [n, 16]; got [60]"),
    (lambda: layer()(X[None], EDGES), ValueError, "the signal must have shape [1] or [1, d]"),
    (lambda: layer()(torch.tensor(1.0), EDGES), ValueError, "the signal must have shape"),
    (lambda: layer()((X, X), EDGES), TypeError, "KrylovConv needs one signal x [n, d]; got a pair"),
    (lambda: layer()(X, EDGES.T), ValueError, "Transpose it: edges.T"),
    (lambda: layer()(X, None), TypeError, "edges must be numbers in an array"),
    (lambda: layer()(X, EDGES + 9), ValueError, "edge ids must be 0 .. 59"),
    (lambda: layer()(X, EDGES.float()), TypeError, "edges must be integers"),
    (lambda: layer()(X, torch.eye(60)), TypeError, "edges must be integers"),
    (lambda: layer()(X, SPARSE, WEIGHTS), ValueError, "Put the weights into the matrix"),
    (lambda: layer()(X, torch.ones(60, 3).to_sparse()), ValueError, "must be a square matrix of 60 rows"),
    (lambda: layer()(X, -SPARSE), ValueError, "weights must not be negative"),
    (lambda: layer()(X, EDGES, WEIGHTS[:3]), ValueError, "one per edge; got shape [3]"),
    (lambda: layer()(X, EDGES, WEIGHTS * NAN), ValueError, "weights must be finite"),
    (lambda: layer(tau=5.0)(X, EDGES, WEIGHTS / 99), ValueError, "tau must be small enough for every degree"),
    # scikit-learn
    (lambda: classifier().fit(NODES, np.where(NODES == 3, NAN, Y)), ValueError, "row 3 has nan. Leave the row out"),
    (lambda: classifier().fit(NODES, [None, *"ab" * 29, "a"]), ValueError, "row 0 has None"),
    (lambda: classifier().fit(NODES, [*"ab" * 29, "a", NAN]), ValueError, "row 59 has nan"),
    (lambda: classifier().fit(NODES, np.where(NODES == 3, np.inf, Y)), ValueError, "row 3 has inf"),
    (lambda: classifier().fit(NODES, np.full(60, 0.5)), ValueError, "y must be classes; got the number 0.5"),
    (lambda: classifier().fit(NODES, [*"ab" * 29, "a", 3]), TypeError, "all text or all numbers"),
    (lambda: classifier().fit(NODES, np.stack([Y, Y], 1)), ValueError, "y must be labels [k]"),
    (lambda: classifier().fit(NODES, None), ValueError, "the target y is None"),
    (lambda: classifier().fit(NODES, -Y), ValueError, "got 1 class, since -1 is unknown"),
    (lambda: classifier().fit(np.ones(60), Y), ValueError, "as integers; got float64 of shape (60, 1)"),
    (lambda: classifier().fit(sp.csr_array(np.eye(60)), Y), TypeError, "Sparse data was passed"),
    (lambda: classifier().fit(NODES, Y).predict(X.numpy()), ValueError, "X has 16 features, but"),
    (lambda: classifier(method="gcm").fit(NODES, Y), ValueError, "unknown method 'gcm'"),
    (lambda: ak.AdaptKryClassifier(edges=EDGES).fit(X[:30].numpy(), Y[:30]), ValueError, "To split nodes"),
    (lambda: ak.AdaptKryClassifier(edges=GRAPH.adjacency).fit(X[:30].numpy(), Y[:30]), ValueError, "To split nodes"),
    (lambda: ak.AdaptKryClassifier(edges="x").fit(X.numpy(), Y), TypeError, "edges must be numbers in an array"),
    (lambda: ak.AdaptKryClassifier(edges=EDGES.T).fit(X.numpy(), Y), ValueError, "Transpose it: edges.T"),
    (lambda: ak.AdaptKryClassifier.load("no-folder", GRAPH), ValueError, "no-folder has no estimator.json"),
    (lambda: ak.AdaptKryClassifier.load("", GRAPH), ValueError, "must not be empty"),
    (lambda: classifier().fit(NODES, 3), ValueError, "y must be labels [k]"),
    (lambda: classifier().fit([], []), ValueError, "at least 2 classes among the known labels; got 0 classes"),
    (lambda: classifier().fit(np.r_[NODES, 7], np.r_[Y, 1 - Y[7]]), ValueError, "node 7 has 0 and 1. Keep one"),
    (lambda: classifier().fit([0, 1], [0, 1]), ValueError, "a class with at least 2 labelled nodes"),
    (lambda: classifier().fit(3, Y), ValueError, "Expected 2D array, got scalar array instead: array=3"),
    (lambda: classifier().fit(NODES, Y).predict(3), ValueError, "Expected 2D array, got scalar array instead: array=3"),
    (lambda: classifier().fit(NODES, Y).predict([1.0]), ValueError, "X must hold node numbers [k]"),
    (lambda: classifier().fit(NODES, Y).predict(NODES, EDGES), ValueError, "Leave edges out"),
    (lambda: classifier(validation="a").fit(NODES, Y), TypeError, "validation must be a number; got 'a'"),
    (lambda: classifier(validation=NAN).fit(NODES, Y), ValueError, "validation must be finite"),
    (lambda: classifier(random_state=-1).fit(NODES, Y), ValueError, "random_state must be 0 or more; got -1"),
    (lambda: classifier(random_state="a").fit(NODES, Y), TypeError, "random_state must be an integer; got 'a'"),
    (lambda: ak.AdaptKryClassifier(3).fit(NODES, Y), TypeError, "a graph must be a name, a path"),
    (lambda: on_features().predict(X[:3].numpy()), ValueError, "X must have 60 rows"),
    (lambda: on_features().predict(NODES[:3]), ValueError, "Expected 2D array, got 1D array instead"),
    (lambda: on_features().predict(X.numpy() * NAN), ValueError, "Input X contains NaN"),
    (lambda: on_features().predict(X[:, :3].numpy()), ValueError, "X has 3 features, but AdaptKryClassifier is"),
    # graphs, splits and operators
    (lambda: ak.csbm(nodes=10**15), ValueError, "must fit in memory"),
    (lambda: ak.csbm(features=10**12), ValueError, "must fit in memory"),
    (lambda: ak.csbm(nodes=HUGE), ValueError, "nodes must be at most"),
    (lambda: ak.csbm(seed=-1), ValueError, "the seed must be 0 or more; got -1"),
    (lambda: ak.csbm(phi="a"), TypeError, "phi must be a number; got 'a'"),  # type: ignore
    (lambda: ak.Graph([[0], [10**12]]), ValueError, "node ids must be 0 .. n - 1"),
    (lambda: ak.Graph([[0], [1]], nodes=10**15), ValueError, "must fit in memory"),
    (lambda: ak.Graph([[0], [1]], labels=[0, 10**9]), ValueError, "labels must be class numbers"),
    (lambda: ak.stratified(Y, fractions="abc"), ValueError, "three positive numbers"),  # type: ignore
    (lambda: ak.stratified(3), TypeError, "splits need the labels of all nodes; got 3"),
    (lambda: ak.class_balanced(Y, 3), TypeError, "seeds must be a list of integers"),  # type: ignore
    (lambda: ak.class_balanced(Y, [-1]), ValueError, "a seed of class_balanced must be 0 or more; got -1"),
    (lambda: ak.class_balanced(Y, [2**40]), ValueError, "must be at most 4294967295"),
    (lambda: ak.Propagation("csbm"), TypeError, "a propagation matrix needs a Graph; got str"),  # type: ignore
    (lambda: ak.Laplacian(DATA), TypeError, "a propagation matrix needs a Graph; got Data"),  # type: ignore
    (lambda: ak.homophily("csbm"), TypeError, "homophily needs a Graph; got str"),  # type: ignore
    (lambda: ak.check_all("csbm"), TypeError, "the paper's theory needs a Graph; got str"),  # type: ignore
    (lambda: ak.angles(GRAPH), TypeError, "angles need terms"),  # type: ignore
    (lambda: ak.krylov(P, X, 10**9), ValueError, "degree must be at most 10000"),
    (lambda: ak.Filter(10**10), ValueError, "degree must be at most 10000"),
    (lambda: ak.Filter(2, 3), TypeError, "a basis must be a generator of terms; got 3"),  # type: ignore
    (lambda: ak.average("krylov", P, X, 2), TypeError, "a generator of terms; got 'krylov'"),  # type: ignore
    (lambda: ak.fit_response(3, 2), TypeError, "must be a name or a function; got 3"),  # type: ignore
    (lambda: ak.jacobi(P, X, 2, a="x"), TypeError, "the basis option a must be a number; got 'x'"),
    (lambda: ak.recurrence(P, 3, 1), TypeError, "a signal must be a tensor or a SciPy sparse"),  # type: ignore
    (lambda: ak.Propagation(GRAPH, isolated="x"), TypeError, "isolated must be a number; got 'x'"),  # type: ignore
    (lambda: ak.Graph(EDGES, info="x"), TypeError, "info must be an Info; got str"),  # type: ignore
    (lambda: ak.Recipe(method=3), TypeError, "method must be a name; got 3"),  # type: ignore
    (lambda: replace(SPLITS, seeds=(1, 2)), ValueError, "one seed per split, 1 in all; got 2"),
    (lambda: ak.stack([]), TypeError, "stack needs a basis or a list of tensors; got []"),
    (lambda: ak.stack(3), TypeError, "stack needs a basis or a list of tensors; got 3"),  # type: ignore
    # predictions
    (lambda: fit().predict(ak.Graph(EDGES, X[:, :3])), ValueError, "trained on 16 features; got a graph with 3"),
    (lambda: fit(named("a", "b")).predict(named("a", "c")), ValueError, "(missing: 'b'; unknown: 'c')"),
    (lambda: fit(named("a", "b")).predict(named("a")), ValueError, "got 1 columns (missing: 'b')"),
    (lambda: fit(named("a", "b")).predict(ak.Graph(EDGES, X)), ValueError, "trained on 2 features ('a', 'b'); got"),
    (lambda: fit().predict(None), TypeError, "a graph must be a name, a path"),
    (lambda: fit().prediction_sets(GRAPH, "x"), TypeError, "the level of prediction sets must be a number; got 'x'"),
    (lambda: fit().prediction_sets(GRAPH, 1), ValueError, "must lie between 0 and 1; got 1. Try 0.9"),
    (lambda: fit().prediction_sets(GRAPH, kind="x"), ValueError, "unknown kind of prediction sets 'x'"),
    (lambda: fit().prediction_sets(GRAPH, kind=3), ValueError, "unknown kind of prediction sets 3"),
    (lambda: fit().predict_frame(GRAPH, nodes=3), TypeError, "nodes must be a list of ids; got 3"),
    (lambda: fit().predict_frame(GRAPH, nodes=[-1]), ValueError, "nodes must be numbers from 0 to"),
    (lambda: fit().predict_frame(GRAPH, nodes=[0.5]), ValueError, "got '0.5'. Correct them"),
    (lambda: fit().predict_frame(GRAPH, unlabelled_only="no"), TypeError, "unlabelled_only"),
    (lambda: fit().predictor(None), TypeError, "a graph must be a name, a path"),
    (lambda: fit().predictor(ak.Graph(EDGES, X[:, :3])), ValueError, "trained on 16 features; got a graph with 3"),
    (lambda: fit().predictor(GRAPH)(3), TypeError, "nodes must be a list of ids; got 3"),
    (lambda: fit().predictor(GRAPH)([10**30]), ValueError, "nodes must be numbers from 0 to"),
    (lambda: fit().predictor(GRAPH).update("x"), ValueError, "new_nodes must hold numbers"),
    (lambda: fit().predictor(GRAPH).update(X[0]), ValueError, "got the shape [16]"),
    (lambda: fit().predictor(GRAPH).update(new_edges=[[0], [60]]), ValueError, "got '60'. Correct them"),
    (lambda: fit().predictor(GRAPH).update(new_edges=[[0], [0.5]]), ValueError, "got '0.5'. Correct them"),
    (lambda: fit().predictor(GRAPH).update(new_edges="ab"), ValueError, "two lists of equal length"),
    (lambda: fit().predictor(GRAPH).update(X[:1], ids=["x"]), ValueError, "ids are for graphs with node ids"),
    (lambda: fit().predictor(GRAPH).sets(level=2), ValueError, "must lie between 0 and 1; got 2"),
    # tasks and class weights
    (lambda: fit(class_weight="even"), ValueError, "class_weight must be balanced, a positive number for each class"),
    (lambda: fit(class_weight=[1, 2, 3]), ValueError, "one number for each of the 2 classes; got 3"),
    (lambda: fit(class_weight=[1, 0]), ValueError, "class_weight must be balanced, a positive number"),
    (lambda: fit(class_weight=[1, NAN]), ValueError, "a class weight must be finite"),
    (lambda: fit(class_weight={5: 2}), ValueError, "unknown class in class_weight '5'"),
    (lambda: fit(method="asgc", class_weight="balanced"), ValueError, "methods that train by gradient descent"),
    (lambda: fit(task="regresion"), ValueError, "unknown task 'regresion'. Did you mean 'regression'"),
    (lambda: fit(task="regression"), ValueError, "was loaded for the task classification; got regression"),
    (lambda: fit(ak.Graph(EDGES, X), task="multilabel"), ValueError, "was loaded for the task classification"),
    (lambda: fit("csbm", task="regression"), ValueError, "are for your own data; csbm has classes"),
    (lambda: ak.Graph(EDGES, X, Y, task="multilabel"), ValueError, "must have shape [60, c], with a column per label"),
    (lambda: ak.Graph(EDGES, X, Y[:9], task="regression", nodes=60), ValueError, "must have shape [60] or [60, t]"),
    (lambda: ak.Graph(EDGES, X, Y[:, None] * 2, task="multilabel"), ValueError, "must be 0 and 1; node"),
    (lambda: ak.Graph(EDGES, X, Y / 0, task="regression"), ValueError, "must be finite numbers; node"),
    (lambda: ak.Graph(EDGES, X, X[:, 0]), TypeError, "For targets that are numbers use task='regression'"),
    (lambda: ak.Graph(EDGES, X, Y, task=3), ValueError, "unknown task 3"),  # type: ignore
    (lambda: fit(ak.Graph(EDGES, X, task="regression")), ValueError, "every split needs train nodes; split 0"),
    (lambda: fit(ak.Graph(EDGES, X, Y * NAN, task="regression")), ValueError, "every split needs train nodes"),
    (lambda: fit(ak.Graph(EDGES, X, task="multilabel"), splits=SPLITS), ValueError, "train nodes must have labels"),
    (lambda: fit(NUMBERS, class_weight="balanced"), ValueError, "class_weight is for the task classification"),
    (lambda: fit(NUMBERS, loss="cross_entropy"), ValueError, "the loss of the task regression must be mse or mae"),
    (lambda: fit(NUMBERS, metrics="accuracy"), ValueError, "unknown metric of the task regression 'accuracy'"),
    (lambda: fit(NUMBERS, "asgc"), ValueError, "solves a logistic regression of classes; got the task regression"),
    (lambda: fit(NUMBERS, task="multilabel"), ValueError, "was loaded for the task regression; got multilabel"),
    (lambda: fit(NUMBERS).probabilities(NUMBERS), ValueError, "got a run of the task regression. Use predict"),
    (lambda: fit(NUMBERS).prediction_sets(NUMBERS), ValueError, "prediction sets are sets of classes; got a run"),
    (lambda: fit(NUMBERS).predict_frame(NUMBERS, sets=0.9), ValueError, "prediction sets are sets of classes"),
    (lambda: fit(NUMBERS).predictor(NUMBERS), ValueError, "a predictor is for classes; got a run of the task"),
    (lambda: ak.auto(NUMBERS), ValueError, "auto combines probabilities of classes; got the task regression"),
    (lambda: ak.compare(NUMBERS, ["mlp"]), ValueError, "compare ranks shares such as accuracy; got the task"),
    (lambda: write_graph(NUMBERS, "numbers"), ValueError, "graph folders hold classes; got a graph of the task"),
    # export
    (lambda: fit().export(""), ValueError, "the output file must not be empty"),
    (lambda: fit().export(3), TypeError, "the output file must be a path; got 3"),
    (lambda: fit().export("head.pt"), ValueError, "unknown kind of file '.pt'. Did you mean '.pt2'"),
    (lambda: fit(method="gcn").export("head.pt2"), ValueError, "gcn propagates its hidden units over the edges"),
    (lambda: fit(similar_nodes=2).head_inputs(GRAPH), ValueError, "uses the labels of training nodes as inputs"),
    (lambda: fit().head_inputs(ak.Graph(EDGES, X[:, :3])), ValueError, "trained on 16 features; got a graph with 3"),
    (lambda: fit().head_inputs("csbmm"), ValueError, "Did you mean 'csbm'"),
    # graphs, operators, filters and spectra with values of another kind, size or range
    (lambda: ak.stack(ak.krylov(P, X, 3), 3), ValueError, "out must be torch.float32 of shape [60, 4, 16]; got 3"),  # type: ignore
    (lambda: ak.stack([X, X[:3]]), ValueError, "stack needs terms of one shape; got [60, 16], [3, 16]"),
    (lambda: ak.average(ak.krylov, [P, ak.Propagation(ak.csbm(nodes=70))], X, 2), ValueError, "rows; got 60, 70"),
    (lambda: ak.Propagation(GRAPH, isolated=1e300), ValueError, "isolated must be in the range of float32"),
    (lambda: ak.Propagation(GRAPH, 1e300), ValueError, "tau must be positive and finite; got 1e+300"),
    (lambda: P.to("no"), ValueError, "a device must be one of torch, such as cpu or cuda; got 'no'"),
    (lambda: P.to(3.5), ValueError, "a device must be one of torch"),  # type: ignore
    (lambda: P.to_csr(7), ValueError, "the number of the tau must be at most 0; got 7"),
    (lambda: ak.Propagation(ak.Graph([[0], [1]], nodes=10**6)).to_dense(), ValueError, "matrix of 1000000 rows"),
    (lambda: ak.Filter(2, alpha=NAN), ValueError, "alpha must be finite; got nan"),
    (lambda: ak.Filter(2, alpha="a"), TypeError, "alpha must be a number; got 'a'"),  # type: ignore
    (lambda: ak.Filter(2, channels=10**12), ValueError, "a filter of degree 2 for 1000000000000 channels must fit"),
    (lambda: ak.Filter(2).apply(P), TypeError, "without a signal, the argument of apply must be a function; got"),
    (lambda: ak.Filter(2).apply(P, X.numpy()), TypeError, "the signal must be a torch tensor; got ndarray"),  # type: ignore
    (lambda: ak.Filter(2).exact(P, [1]), TypeError, "the signal must be a torch tensor; got list"),  # type: ignore
    (lambda: ak.Filter(2)(None), TypeError, "a filter combines terms [n, K + 1, d] of floats; got NoneType"),
    (lambda: ak.Filter(2)(Y), TypeError, "a filter combines terms [n, K + 1, d] of floats; got torch.int64"),
    (lambda: ak.Filter(2).from_krylov("a"), TypeError, "weights must be numbers in an array; got str"),  # type: ignore
    (lambda: ak.Filter(2).from_krylov([NAN] * 3), ValueError, "weights must be finite"),  # type: ignore
    (lambda: ak.fit_response("high", 4, eigenvalues=NAN * X[0]), ValueError, "eigenvalues must be finite"),
    (lambda: ak.eigenvalues(P, "x"), TypeError, "limit must be an integer; got 'x'"),  # type: ignore
    (lambda: ak.eigenvalues(P, -1), ValueError, "limit must be 0 or more; got -1"),
    (lambda: ak.lambda_star(torch.eye(3)), TypeError, "lambda* needs a Propagation; got Tensor"),  # type: ignore
    *(
        (lambda name=name, value=value: density(**{name: value}), error, message)
        for name, value, error, message in (
            ("moments", 1, ValueError, "moments must be 2 or more; got 1"),
            ("moments", 1.5, TypeError, "moments must be an integer; got 1.5"),
            ("moments", 10**9, ValueError, "moments must be at most 100000"),
            ("probes", 0, ValueError, "probes must be 2 or more; got 0"),
            ("probes", 10**12, ValueError, "1000000000000 probes of 60 rows must fit in memory"),
            ("bins", 0, ValueError, "bins must be 1 or more; got 0"),
            ("bins", 10**12, ValueError, "bins must be at most 100000"),
            ("seed", -1, ValueError, "seed must be 0 or more; got -1"),
            ("seed", HUGE, ValueError, "seed must be at most"),
            ("on_progress", 3, TypeError, "on_progress must be a function; got 3"),
        )
    ),
    (lambda: ak.Graph(EDGES, np.ma.masked_less(X.numpy(), 0)), ValueError, "got a masked array without some"),
    (lambda: ak.Graph(EDGES, weights=WEIGHTS.double() * 1e300), ValueError, "weights must be in the range of float32"),
    (lambda: ak.Graph.from_scipy(GRAPH.adjacency, foo=1), ValueError, "unknown option of Graph 'foo'"),
    (lambda: ak.Graph.from_scipy(GRAPH.adjacency, weighted=TEXT), TypeError, "weighted must be True or False"),
    (lambda: ak.Graph.from_pyg(DATA, foo=1), ValueError, "unknown option of Graph 'foo'"),
    (lambda: ak.Graph.from_pyg(None), ValueError, "from_pyg needs a Data with edge_index; None has none"),
    (lambda: ak.Graph.from_networkx(None), TypeError, "from_networkx needs a NetworkX graph; got NoneType"),
    (lambda: GRAPH.with_columns([99]), ValueError, "a column must be at most 15; got 99"),
    (lambda: GRAPH.with_columns([-1]), ValueError, "a column must be 0 or more; got -1"),
    (lambda: GRAPH.with_columns("ab"), TypeError, "a column must be an integer; got 'a'"),  # type: ignore
    (lambda: GRAPH.with_columns([]), ValueError, "columns are chosen among those of features; got []"),
    (lambda: ak.homophily(NUMBERS), ValueError, "homophily needs classes; got a graph of the task regression"),
    (lambda: SPLITS.sizes(99), ValueError, "the number of a split must be at most 0; got 99"),
    (lambda: SPLITS.only([-1]), ValueError, "the number of a split must be 0 or more; got -1"),
    (lambda: replace(SPLITS, scheme=3), TypeError, "the scheme of splits must be a name; got 3"),
    (lambda: ak.class_balanced(Y, names=["a"]), ValueError, "names must have one for each of the 2 classes; got ['a']"),
    (lambda: ak.stratified(Y, names=3), ValueError, "names must have one for each of the 2 classes; got 3"),
    # runs, predictors, rows and basis folders
    (lambda: fit().probabilities(GRAPH, calibrated=TEXT), TypeError, "calibrated must be True or False; got 'no'"),
    (lambda: fit().predictor(GRAPH)(calibrated=TEXT), TypeError, "calibrated must be True or False"),
    (lambda: fit().predict_frame(GRAPH, calibrated=TEXT), TypeError, "calibrated must be True or False; got 'no'"),
    (lambda: fit().predict_frame(GRAPH, foo=1), ValueError, "unknown option of prediction_columns 'foo'"),
    (lambda: fit().summary(TEXT), TypeError, "warnings must be True or False; got 'no'"),
    (lambda: fit().only([99]), ValueError, "the number of a training must be at most 4; got 99"),
    (lambda: fit().only("ab"), TypeError, "members are chosen by a list of numbers; got 'ab'"),  # type: ignore
    (lambda: fit().only(3), TypeError, "members are chosen by a list of numbers; got 3"),  # type: ignore
    (lambda: fit().save("a\0b"), ValueError, "must not have NUL characters; got 'a\\x00b'"),
    (lambda: fit(out="a\0b"), ValueError, "the output folder must not have NUL characters"),
    (lambda: fit(isolated=1e300), ValueError, "isolated must be in the range of float32"),
    (lambda: fit(class_weight=[1, 1e300]), ValueError, "class_weight must be balanced, a positive number for each"),
    (lambda: fit(class_weight=["0=1", "0=2"]), ValueError, "class_weight must have one weight per class; got 0 twice"),
    (lambda: fit().predictor(GRAPH).models(torch.tensor([99])), ValueError, "numbers of nodes must be 0 .. 59; got 99"),
    (lambda: fit().predictor(GRAPH).models([0]), TypeError, "the numbers of nodes must be a torch tensor; got list"),
    (lambda: ak.Recipe.from_dict(3), TypeError, "settings must be a mapping of names to values; got 3"),  # type: ignore
    (lambda: ak.Recipe.from_dict({"hiden": 3}), ValueError, "unknown setting 'hiden'. Did you mean 'hidden'"),
    (lambda: ak.Result.from_row(None), TypeError, "a row must be a mapping of columns to values; got None"),  # type: ignore
    (lambda: ak.Result.from_row({}), ValueError, "a row must have the columns of results; it lacks 'graph', 'split'"),
    (lambda: ak.tune(GRAPH, on_trial=3), TypeError, "on_trial must be a function; got 3"),  # type: ignore
    (lambda: ak.compare(GRAPH, ["mlp"], on_entry=3), TypeError, "on_entry must be a function; got 3"),  # type: ignore
    (lambda: ak.auto(GRAPH, on_progress=3), TypeError, "on_progress must be a function; got 3"),  # type: ignore
    (lambda: ak.auto(GRAPH, should_stop=3), TypeError, "should_stop must be a function; got 3"),  # type: ignore
    (lambda: ak.propagate(GRAPH, "b", taus=1, degree=1, executor="processes", workers=-1), ValueError, "workers must"),
    (lambda: basis_folder().slab("a", 2), TypeError, "a bound of rows must be an integer; got 'a'"),  # type: ignore
    (lambda: basis_folder().node_ids(torch.tensor([99])), ValueError, "numbers of nodes must be 0 .. 59; got 99"),
    (lambda: basis_folder().verify((0, 0)), ValueError, "processes must be 1 or more; got 0"),
    (lambda: basis_folder().verify((3, 2)), ValueError, "the number of a process must be at most 1; got 3"),
    (lambda: ak.KrylovConv(10**9, 10**9), ValueError, "a layer from 1000000000 to 1000000000 channels must fit"),
    (lambda: LAYER.filter(X), ValueError, "terms must have shape [n, 11, d]; got [60, 16]"),
]  # fmt: skip


def basis_folder() -> ak.BasisFolder:
    """A basis of the graph on disk."""
    with tempfile.TemporaryDirectory() as folder:
        return ak.propagate(GRAPH, f"{folder}/basis", taus=1, degree=1)


def named(*names: str) -> ak.Graph:
    """The graph with one feature column for each name."""
    return ak.Graph(EDGES, X[:, : len(names)], Y, info=replace(GRAPH.info, feature_names=names, known_as=None))


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[f"{i} {row[2]}" for i, row in enumerate(REFUSED)])
def test_wrong_calls_are_refused_with_a_sentence(call, kind, words):
    with pytest.raises(kind) as raised:
        call()
    assert errors.is_declared(raised.value), f"{raised.value!r} escaped from a library or from Python itself"
    message = str(raised.value)
    assert words in message
    assert "\n" not in message
    assert message.rstrip().endswith((".", "...", "...)"))


def test_an_estimator_that_was_not_fitted_says_so():
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        classifier().predict(NODES)


# Commands that are refused: (words, message).
COMMANDS = [
    ("fit csbm --device cpu:abc", "the device must be auto, cpu or cuda"),
    ("fit csbm --device cuda:abc", "the device must be auto, cpu or cuda"),
    ("compare csbm --methods mlp --device cpu:abc", "the device must be auto, cpu or cuda"),
    ("tune csbm --device cpu:abc", "the device must be auto, cpu or cuda"),
    ("auto csbm --device cpu:abc", "the device must be auto, cpu or cuda"),
    ("fit csbm --epochs 1000000000", "epochs must be at most 10000000; got 1000000000"),
    (f"fit csbm --epochs {HUGE}", "epochs must be at most 10000000"),
    (f"auto csbm --epochs {HUGE}", "epochs must be at most 10000000"),
    (f"tune csbm --epochs {HUGE}", "epochs must be at most 10000000"),
    (f"compare csbm --methods mlp,gcn --epochs {HUGE}", "epochs must be at most 10000000"),
    ("compare csbm --methods mlp --degree 3", "No such option: --degree"),
    ("compare csbm --methods mlp --set degree=3", "mlp uses no edges, so its degree must be 0; got 3"),
    ("fit csbm --method bernnet --degree 1030", "Bernstein polynomials need a degree of at most 1000; got 1030"),
    ("fit csbm --restarts 100000000", "must fit in memory"),
    (f"fit csbm --restarts {HUGE}", "restarts must be at most"),
    ("fit csbm --set hidden=1000000000", "hidden must be at most 1000000; got 1000000000"),
    ("fit csbm --set hidden=1000000 --set layers=1000", "must fit in memory"),
    ("fit csbm --set layers=1000000000", "layers must be at most 1000"),
    ("fit csbm --degree 100000", "degree must be at most 10000; got 100000"),
    (f"fit csbm --degree {10**19}", "degree must be at most 10000"),
    ("fit csbm --splits 100000000", "the number of splits must be at most 10000"),
    (f"fit csbm --batch-size {HUGE}", "batch_size must be at most"),
    ("fit csbm --task text", "Invalid value for '--task'"),
    ("fit csbm --task regression", "are for your own data; csbm has classes"),
    ("tune csbm --task multilabel", "are for your own data; csbm has classes"),
    ("compare csbm --task multilabel", "are for your own data; csbm has classes"),
    ("auto csbm --task regression", "No such option: --task"),
    ("fit csbm --class-weight=", "--class-weight must not be empty"),
    ("fit csbm --class-weight 1,2,3", "one number for each of the 2 classes; got 3"),
    ("tune csbm --class-weight 1,-2", "class_weight must be balanced, a positive number for each class"),
    ("fit csbm --class-weight two=2", "unknown class in class_weight 'two'"),
    ("fit csbm --metrics f1", "unknown metric 'f1'"),
    ("fit csbm --metrics=", "--metrics must not be empty"),
    ("tune csbm --metrics rmse", "unknown metric 'rmse'"),
    ("fit csbm --method=", "--method must not be empty"),
    ("tune csbm --method=", "--method must not be empty"),
    ("compare csbm --methods=", "--methods must not be empty"),
    ("compare csbm --methods mlp,", "unknown method ''"),
    ("compare csbm --methods mlp --baseline gcn", "unknown baseline among the methods of the comparison 'gcn'"),
    ("compare csbm --methods mlp --format docx", "unknown format of tables 'docx'"),
    ("compare csbm,csbmm --methods mlp", "Did you mean 'csbm'"),
    ("compare csbm,csbm --methods mlp", "must have different names; got csbm 2 times"),
    ("compare csbm, --methods mlp", "every graph must have a name or a path; got 'csbm,'"),
    ("compare csbm,csbm-directed cora --methods mlp", "several graphs must be one comma-separated list"),
    ("compare csbm cora --methods mlp", "Give one graph, and separate lists by commas"),
    ("compare csbm,csbm-directed --methods mlp --directed", "Leave the option out"),
    ("fit csbm --split=", "--split must not be empty"),
    ("fit csbm --combine=", "--combine must not be empty"),
    ("fit csbm --taus=", "--taus must not be empty"),
    ("fit csbm --directions=", "--directions must not be empty"),
    ("fit csbm --set=", "--set must not be empty"),
    ("fit csbm --set hidden=", "the setting hidden must be a whole number"),
    ("fit csbm --set tied=maybe", "the setting tied must be true or false"),
    ("fit csbm --device=", "--device must not be empty"),
    ("tune csbm --trials 0", "trials must be 1 or more"),
    (f"tune csbm --trials {HUGE}", "trials must be at most"),
    (f"tune csbm --together {HUGE}", "together must be at most"),
    ("tune csbm --seed -1", "seed must be 0 or more"),
    ("auto csbm --time=", "--time must not be empty"),
    ("auto csbm --time nan", "a time limit must be a positive number"),
    ("fit csbm --taus 1e300", "must be positive and finite"),
    ("fit csbm --set isolated=1e300", "isolated must be in the range of float32"),
    ("fit csbm --class-weight 0=1,0=2", "class_weight must have one weight per class; got 0 twice"),
    ("fit . csbm", "data must be one name, or paths of the files of one graph"),
    ("fit . nodes.csv", "a folder holds the whole graph; got . and nodes.csv. Pass one of them."),
    ("inspect . .", "a folder holds the whole graph; got . and .. Pass one of them."),
    ("predict no-run --set-kind adaptive", "--set-kind is about prediction sets; got adaptive without --sets"),
    ("tour --nodes 10", "Invalid value for '--nodes'"),
    ("export no-run", "no-run"),
    ("export no-run --out=", "--out must not be empty"),
    ("export no-run --out head.txt", "no-run"),
]


@pytest.mark.parametrize(("words", "message"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_wrong_commands_end_with_one_sentence_and_exit_code_2(words, message, command, tmp_path):
    printed = command(*words.split(" "), code=2, cwd=tmp_path)
    assert message in " ".join(printed.err.split())
    assert printed.out == ""
    assert list(tmp_path.rglob("run.json")) == []
