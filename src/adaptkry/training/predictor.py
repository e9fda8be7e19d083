"""A predictor: a run with the basis of one graph, which answers for some nodes and follows changes of the graph.

The basis is computed once. A call sends the rows of the nodes in question through the model; an update with new nodes
and edges computes the rows of the basis within K hops of the changes (`spectral/local_update.py`) and no others. Models
for which that is impossible are computed again as a whole; `Predictor.recomputes` says why.

Shapes: v models, b members, n nodes, m rows, T terms, d features, c classes, r taus.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import some
from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import Scaling, input_columns, model_inputs, propagation
from adaptkry.models.recipe import Recipe
from adaptkry.spectral.bases import running_mean, stack
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.local_update import GraphOperator, Reach, reach, update_terms
from adaptkry.spectral.signal_bases import ALL_BASES
from adaptkry.training.batches import CHUNK_ROWS, take_rows, term_chunks
from adaptkry.training.calibration import checked_kind, checked_level
from adaptkry.training.data import open_graph
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.losses import chunk_logits
from adaptkry.training.predict import node_numbers, node_places, predict_frame
from adaptkry.training.run import Run
from adaptkry.training.trained_model import averaged, require_calibration

SPARE = 8  # room for one more node per this number of nodes, so that updates need not copy the basis


class Predictor:
    """A run or an ensemble with the basis of one graph; `run.predictor(graph)` returns one.

    Args:
        run: the run or ensemble.
        data: a graph in memory, or anything else that `fit` accepts except basis folders.

    >>> import adaptkry as ak
    >>> graph = ak.csbm(nodes=200, seed=0)
    >>> run = ak.fit(graph, count=2, epochs=10, device="cpu")
    >>> predictor = run.predictor(graph)
    >>> predictor([5, 7]).shape
    torch.Size([2, 2])
    >>> rows = predictor.update(graph.x[:1], new_edges=[[200, 200], [3, 4]])     # node 200, a neighbour of 3 and 4
    >>> predictor([200]).shape
    torch.Size([1, 2])
    """

    def __init__(self, run: Run | Ensemble, data: Any):
        if run.task != "classification":
            raise ValueError(f"a predictor is for classes; got a run of the task {run.task}. Use run.predict(graph).")
        self.run, self._graph = run, open_graph(data, "a predictor", run.info.layout).graph
        self._new_rows: list[Any] = []  # features of nodes that `_graph` lacks
        self._places = node_places(self._graph.info)
        self._parts = []
        stores: dict[Any, TermStore] = {}  # members with the same basis share it
        for number, (part, weights) in enumerate(run.weighted_parts()):
            ordered, scaling = part.checked(self._graph)
            recipe = part.shape.recipe
            if update_obstacle(recipe):
                self._parts.append((FixedTerms(part, ordered, scaling), weights))
                continue
            key = basis_key(recipe, number)
            if key not in stores:
                stores[key] = TermStore(ordered, recipe, scaling, part)
            self._parts.append((UpdatedTerms(part, stores[key]), weights))
        self._stores = list(stores.values())

    @property
    def graph(self) -> Graph:
        """The graph with all updates."""
        if self._new_rows:
            rows, first = self._new_rows, self._graph.features
            if sp.issparse(first):
                self._graph.features = sp.csr_array(sp.vstack(rows, format="csr"))
            elif first is not None:
                self._graph.features = torch.cat(rows)
            self._new_rows = []
        return self._graph

    @property
    def recomputes(self) -> list[str]:
        """Why an update computes some models again as a whole; [] if it computes changed rows only."""
        parts = [part.part.shape.recipe for part, _ in self._parts if isinstance(part, FixedTerms)]
        return list(dict.fromkeys(update_obstacle(recipe) or "" for recipe in parts))

    def __call__(self, nodes: Sequence[str | int] | None = None, *, calibrated: bool = True) -> Tensor:
        """Predict the class probabilities of some nodes, given by id (or number, if there are no ids): [m, c].

        Args:
            nodes: the nodes; None: all of them.
            calibrated: whether to apply temperature scaling, if the run has it.
        """
        return averaged(self.models(self._numbers(nodes)), self.run.calibration, calibrated)

    def sets(self, nodes: Sequence[str | int] | None = None, level: float = 0.9, kind: str = "threshold") -> Tensor:
        """Predict a set of classes for some nodes: bool [m, c]; see `Run.prediction_sets`."""
        level, kind = checked_level(level), checked_kind(kind)
        numbers = self._numbers(nodes)
        return require_calibration(self.run.calibration).sets(self.models(numbers), numbers, level, kind)

    def frame(self, nodes: Sequence[str | int] | None = None, **options: Any) -> Any:
        """Return a pandas DataFrame of predictions; `options` are those of `predict.prediction_columns`."""
        return predict_frame(self.run, self.graph, models=self.models, nodes=nodes, **options)

    @torch.no_grad()
    def models(self, numbers: Tensor) -> Tensor:
        """Predict with every model for nodes that are given by number, uncalibrated: [v, m, c]."""
        checks.node_numbers(numbers, self._graph.nodes)
        return torch.stack([torch.einsum("vb,bmc->vmc", w, part.members(numbers)) for part, w in self._parts]).sum(0)

    def _numbers(self, nodes: Sequence[str | int] | None) -> Tensor:
        return node_numbers(self._graph.info, self._graph.nodes, nodes, self._places)

    @torch.no_grad()
    def update(
        self,
        new_nodes: Any = None,
        new_edges: Any = None,
        removed_edges: Any = None,
        *,
        ids: Sequence[str] | None = None,
        weights: Any = None,
    ) -> Tensor:
        """Add nodes and edges, remove edges, and compute what changes; return the numbers of the rows that changed.

        Args:
            new_nodes: features of new nodes [m, d], or a DataFrame with the feature columns; they are numbered after
                the others. Their labels are unknown.
            new_edges: two lists of equal length, sources and targets, by id (or number, if there are no ids). The
                weight of an edge that is there already grows.
            removed_edges: edges of the graph in the same form.
            ids: ids of the new nodes, if the graph has ids.
            weights: of the new edges, if the graph has weights; by default 1.
        """
        old = self._graph
        rows = None if new_nodes is None else self._row_graph(new_nodes)
        count = 0 if rows is None else rows.nodes
        info = replace(old.info, masks=None, known_as=None, node_ids=self._new_ids(ids, count))
        places = self._places
        if places is not None and ids is not None:
            places = places | {str(one): old.nodes + i for i, one in enumerate(ids)}

        def ends(edges: Any) -> Tensor:
            return edge_numbers(edges, info, old.nodes + count, places)

        added, removed = ends(new_edges), ends(removed_edges)
        graph = edited(old, old.nodes + count, added, removed, weights, info)
        changed = torch.zeros(graph.nodes, dtype=torch.bool)
        changed[old.nodes :] = changed[added.flatten()] = changed[removed.flatten()] = True
        # Whatever can be refused is refused before anything changes.
        ordered = None if rows is None or not self._stores else self._stores[0].part.matched(rows)[0]
        prepared = [store.prepare(graph, ordered) for store in self._stores]
        if rows is not None and old.features is not None:
            self._new_rows = [*(self._new_rows or [old.features]), rows.features]
        graph.features, self._graph, self._places = old.features, graph, places
        fixed = [i for i, (part, _) in enumerate(self._parts) if isinstance(part, FixedTerms)]
        whole = self.graph if fixed or any(one is None for one in prepared) else None
        found = changed
        for store, parts in zip(self._stores, prepared, strict=True):
            if parts is None:
                assert whole is not None
                store.compute(store.part.checked(whole)[0])
                found = torch.ones_like(found)
            else:
                found = found | store.update(*parts, changed)
        for i, (part, weights_of_part) in enumerate(self._parts):
            if i in fixed:
                assert whole is not None
                self._parts[i] = (FixedTerms(part.part, *part.part.checked(whole)), weights_of_part)
                found = torch.ones_like(found)
            else:
                part.measure(found.nonzero()[:, 0])
        return found.nonzero()[:, 0]

    def _row_graph(self, rows: Any) -> Graph:
        """Return the new nodes as a graph without edges, with columns in the order of the graph."""
        graph, names = self._graph, self._graph.info.feature_names
        if graph.features is None:
            raise ValueError("new nodes need a graph with features; this one has none. Leave new_nodes out.")
        columns = None if not hasattr(rows, "columns") else [str(column) for column in rows.columns]  # of a DataFrame
        try:
            values = rows if isinstance(rows, Tensor) or sp.issparse(rows) else np.asarray(rows, dtype=np.float64)
        except (ValueError, TypeError):
            raise ValueError(
                "new_nodes must hold numbers, one row per node and one column per feature; got other values. Convert "
                "them as the training data were."
            ) from None
        if columns is not None and names is not None:
            missing, unknown = sorted(set(names) - set(columns)), sorted(set(columns) - set(names))
            if missing or unknown or len(columns) != len(names):
                texts = [f"{what}: {some(of)}" for what, of in (("missing", missing), ("unknown", unknown)) if of]
                raise ValueError(
                    f"new_nodes must have the {len(names)} feature columns of the graph; got {len(columns)} columns "
                    f"({'; '.join(texts) or 'one name is repeated'}). Use the same columns."
                )
            values = values[:, [columns.index(name) for name in names]]
        width = graph.features.shape[1]
        if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] != width:
            raise ValueError(
                f"new_nodes must be features with one row per node and {width} columns; got the shape "
                f"{list(values.shape)}. Use the columns of the graph."
            )
        info = replace(graph.info, node_ids=None, masks=None, class_names=None)
        found = Graph(np.zeros((2, 0), dtype=np.int64), values, nodes=values.shape[0], info=info)
        if sp.issparse(graph.features):
            found.features = sp.csr_array(found.features).astype(graph.features.dtype)
        else:
            found.features = found.x.to(graph.features.dtype)
        return found

    def _new_ids(self, ids: Sequence[str] | None, count: int) -> Sequence[str] | None:
        """Return the ids of all nodes; refuse missing, superfluous and repeated ones."""
        known = self._graph.info.node_ids
        given = [] if ids is None else [str(one) for one in ids]
        if known is None and given:
            raise ValueError("ids are for graphs with node ids; this one has none. Leave them out.")
        if known is not None and len(given) != count:
            raise ValueError(f"ids must name each new node, {count} in all; got {len(given)}. Pass ids=[...].")
        if known is None:
            return None
        assert self._places is not None
        twice = [one for i, one in enumerate(given) if one in self._places or one in given[:i]]
        if twice:
            raise ValueError(f"ids of new nodes must be new; got {twice[0]!r} again. Use another id.")
        return [*known, *given] if given else known


def update_obstacle(recipe: Recipe) -> str | None:
    """Return why an update must compute a model again as a whole; None if it can be updated row by row."""
    basis = ALL_BASES[recipe.basis]
    if recipe.similar_nodes:
        return "similar nodes depend on all edges"
    if recipe.needs_operator or recipe.structure_layer:
        return f"{recipe.method} multiplies by the graph inside the model"
    if recipe.structure:
        return "structure columns depend on all edges"
    if not (basis.multiplies_terms or basis.expands_in or recipe.uses_features_only):
        return f"the basis {recipe.basis} depends on all nodes"
    return None


def basis_key(recipe: Recipe, part: int) -> tuple:
    """Return what decides the stored terms of a recipe; a reduction is that of its part."""
    names = ("taus", "directions", "self_loops", "normalisation", "isolated", "basis", "basis_options", "degree")
    names += ("normalise", "standardise", "uses_features_only")
    return (*(getattr(recipe, name) for name in names), part if recipe.reduce else None)


class FixedTerms:
    """The terms of one part, or the probabilities of all nodes if its model needs all of them at once."""

    def __init__(self, part: Run, graph: Graph, scaling: Scaling | None):
        self.part = part
        inputs = model_inputs(graph, part.shape.recipe, scaling=scaling, saved=dict(part.saved_inputs))
        self.terms: Tensor | None = inputs.terms.float()
        self.probabilities: Tensor | None = None
        if inputs.operator is not None:
            chunks = term_chunks(self.terms, inputs.operator, "cpu")
            weights = part.weights_at(graph)
            parts = [logits for logits, _ in chunk_logits(part.shape, weights, chunks, inputs.operator)]
            self.probabilities, self.terms = torch.cat(parts, 1).softmax(-1), None

    def members(self, numbers: Tensor) -> Tensor:
        """Predict with every member: [b, m, c]."""
        if self.probabilities is not None:
            return self.probabilities[:, numbers]
        assert self.terms is not None
        return row_probabilities(self.part, lambda rows: take_rows(self.terms, rows), numbers)  # type: ignore[arg-type]


class UpdatedTerms:
    """The stored terms of one part, combined as its recipe says for the rows that are asked for."""

    def __init__(self, part: Run, store: "TermStore"):
        self.part, self.store, self.recipe = part, store, part.shape.recipe
        self.squares = torch.zeros(1 + part.shape.terms, 0, dtype=torch.float64)  # of x and of each term, node by node
        self.scale: Tensor | None = None  # of each term [T, 1, 1], with hop normalisation
        self.measure(torch.arange(store.nodes))

    def measure(self, rows: Tensor) -> None:
        """Compute the scale of every hop, which hop normalisation needs, after these rows changed."""
        if not self.recipe.hop_norm or self.recipe.uses_features_only:
            return
        self.squares = torch.nn.functional.pad(self.squares, (0, self.store.nodes - self.squares.shape[1]))
        for chunk in rows.split(CHUNK_ROWS):
            x, k = take_rows(self.store.blocks[0][2][:1], chunk), 0
            for terms in (x, *self.pieces(chunk)):
                norms = torch.linalg.vector_norm(terms, dim=2, dtype=torch.float64)
                self.squares[k : k + len(terms), chunk] = norms.square()
                k += len(terms)
        x, *norms = self.squares.sum(1).sqrt()
        self.scale = torch.stack([x / norm if norm > 0 else torch.zeros_like(norm) for norm in norms])[:, None, None]

    def members(self, numbers: Tensor) -> Tensor:
        """Predict with every member: [b, m, c]."""
        return row_probabilities(self.part, self.rows, numbers)

    def rows(self, numbers: Tensor) -> Tensor:
        """Return the terms of the model at some nodes: [T, m, d]."""
        terms = self.combined(numbers)
        return terms if self.scale is None else terms * self.scale.to(terms.dtype)

    def combined(self, numbers: Tensor) -> Tensor:
        """Combine stored terms into those of the recipe, without hop normalisation: [T, m, d]."""
        return torch.cat(list(self.pieces(numbers)))

    def pieces(self, numbers: Tensor) -> Iterator[Tensor]:
        """Yield the terms of `combined` a few at a time: those of one tau, or of one direction if taus are tied."""
        recipe, store = self.recipe, self.store
        if recipe.uses_features_only:
            yield take_rows(store.blocks[0][2][:1], numbers)
            return
        r = len(recipe.taus) if recipe.tied else 1
        for i in range(0, len(store.blocks), r):
            parts = [store.expanded(take_rows(terms, numbers)) for _, _, terms in store.blocks[i : i + r]]
            block = running_mean(torch.stack(parts)) if recipe.tied else parts[0]
            yield block if recipe.terms == "all" else block[-1:]


class TermStore:
    """The terms of a basis for each direction and tau, [K + 1, at least n, d] each, with room for more nodes."""

    def __init__(self, graph: Graph, recipe: Recipe, scaling: Scaling | None, part: Run):
        self.recipe, self.scaling, self.part = recipe, scaling, part
        basis, degree = ALL_BASES[recipe.basis], recipe.degree
        other, matrix = basis.expands_in or (None, None)
        self.basis = ALL_BASES[other] if other else basis
        self.expansion = None if matrix is None else torch.from_numpy(matrix(degree))  # [K + 1, K + 1]
        self.options = {} if other else dict(recipe.basis_options)
        self.compute(graph)

    def compute(self, graph: Graph) -> None:
        """Compute all terms."""
        x = input_columns(graph, self.recipe, self.scaling, dict(self.part.saved_inputs))[0]
        self.nodes, lowest = graph.nodes, None
        if self.recipe.normalise:  # rows are shifted by the lowest of all features: keep a row that has it
            lowest = int(graph.features.argmin()) // graph.features.shape[1]
        self.lowest = None if lowest is None else graph.features[[lowest]]
        self.blocks: list[tuple[str, float, Tensor]] = []
        hops = 0 if self.recipe.uses_features_only else self.recipe.degree
        for direction in self.recipe.directions:
            for tau in self.recipe.taus:
                terms = kernels.empty(hops + 1, graph.nodes + graph.nodes // SPARE + 1, x.shape[1], dtype=x.dtype)
                if hops:
                    P = propagation(graph, self.recipe, tau, direction)
                    stack(self.basis(P, x, hops, **self.options), out=terms[:, : graph.nodes].transpose(0, 1))
                else:
                    terms[0, : graph.nodes] = x
                self.blocks.append((direction, tau, terms))

    def expanded(self, terms: Tensor) -> Tensor:
        """Return the terms of the recipe's basis from the stored ones [K + 1, m, d]."""
        if self.expansion is None:
            return terms
        return torch.einsum("kl,lmd->kmd", self.expansion.to(terms.dtype), terms)

    def prepare(self, graph: Graph, rows: Graph | None) -> tuple[list[GraphOperator], Tensor | None] | None:
        """Return the operators of a changed graph and the inputs of new nodes; None if all inputs change.

        Args:
            graph: the changed graph; it need not have features.
            rows: the new nodes as a graph without edges.
        """
        x = None
        if rows is not None and self.lowest is not None:
            if float(rows.features.min()) < float(self.lowest.min()):
                return None
            join = sp.vstack if sp.issparse(rows.features) else torch.cat
            features = join([self.lowest, rows.features])
            rows = Graph(np.zeros((2, 0), dtype=np.int64), features, info=rows.info)
        if rows is not None:
            x = input_columns(rows, self.recipe, self.scaling, dict(self.part.saved_inputs))[0]
            x = x if self.lowest is None else x[1:]
        if self.recipe.uses_features_only:
            return [], x
        return [
            operator
            for direction in self.recipe.directions
            for operator in propagation(graph, self.recipe, self.recipe.taus, direction).singles()
        ], x

    def update(self, operators: list[GraphOperator], x: Tensor | None, changed: Tensor) -> Tensor:
        """Compute the rows that change, and return their mask [n]."""
        found, old, self.nodes = changed.clone(), self.nodes, len(changed)
        near: dict[str, Reach] = {}  # of each direction; it does not depend on tau
        for i, (direction, tau, terms) in enumerate(self.blocks):
            if self.nodes > terms.shape[1]:
                room = self.nodes + self.nodes // SPARE + 1
                larger = kernels.empty(len(terms), room, terms.shape[2], dtype=terms.dtype)
                larger[:, :old] = terms[:, :old]
                self.blocks[i], terms = (direction, tau, larger), larger
            if x is not None:
                terms[0, old : self.nodes] = x
            if operators:
                if direction not in near:
                    near[direction] = reach(operators[i], changed, len(terms) - 1)
                update_terms(self.basis, operators[i], terms[:, : self.nodes], near[direction], self.options)
                found[near[direction].rows] = True
        return found


def row_probabilities(part: Run, rows_of, numbers: Tensor) -> Tensor:
    """Send the terms of some nodes through the model of every member, a few at a time: [b, m, c]."""
    chunks = ((rows_of(chunk).float(), chunk) for chunk in numbers.split(CHUNK_ROWS))
    return torch.cat([logits for logits, _ in chunk_logits(part.shape, part.weights, chunks)], 1).softmax(-1)


def edge_numbers(edges: Any, info: Any, nodes: int, places: dict[str, int] | None) -> Tensor:
    """Return edges that are given by ids or numbers as node numbers [2, m]."""
    if edges is None:
        return torch.zeros(2, 0, dtype=torch.long)
    if info.node_ids is None and (numbers := numbers_in_range(edges, nodes)) is not None:
        return numbers
    edges = edges.tolist() if isinstance(edges, Tensor | np.ndarray) else edges
    is_pair = isinstance(edges, list | tuple) and len(edges) == 2 and all(isinstance(e, list | tuple) for e in edges)
    if is_pair and all(isinstance(e, tuple) and len(e) == 2 for e in edges):
        raise ValueError(
            f"edges must be two lists of equal length, sources and targets; got two tuples {edges[0]} and {edges[1]}, "
            "which look like two pairs. Use lists: [[source, source], [target, target]]."
        )
    if not is_pair or len(edges[0]) != len(edges[1]):
        raise ValueError(
            "edges must be two lists of equal length, sources and targets; got something else. Use [[3], [4]] for the "
            "edge from 3 to 4."
        )
    if not edges[0]:
        return torch.zeros(2, 0, dtype=torch.long)
    return node_numbers(info, nodes, [*edges[0], *edges[1]], places).view(2, -1)


def numbers_in_range(edges: Any, nodes: int) -> Tensor | None:
    """Return an array [2, m] of node numbers as a tensor; None for anything else, which is checked one by one."""
    if not isinstance(edges, Tensor | np.ndarray) or edges.ndim != 2 or len(edges) != 2 or not edges.shape[1]:
        return None
    found = torch.as_tensor(edges)
    if found.dtype not in (torch.int32, torch.int64) or int(found.min()) < 0 or int(found.max()) >= nodes:
        return None
    return found.long()


def edited(graph: Graph, nodes: int, added: Tensor, removed: Tensor, weights: Any, info: Any) -> Graph:
    """Return the graph without its features, with more nodes and edges and without the removed edges."""
    if weights is not None and graph.weights is None:
        raise ValueError("weights are for graphs with weights; this one has none. Leave them out.")
    count = added.shape[1]
    new = torch.ones(count, dtype=torch.float64) if weights is None else checks.weights(weights, count)
    return graph.edited(nodes, added, removed, new, info)
