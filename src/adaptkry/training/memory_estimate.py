"""The peak memory of a training or a prediction, estimated before anything is allocated, and batches that fit.

`estimate` counts what stays (terms; weights with their best copies, moments and gradients) and what one step needs at
its peak (activations that the backward pass reads, and temporary arrays). Tests compare it with the real peak.
"""

import logging
from dataclasses import dataclass, replace

import scipy.sparse as sp
import torch

from adaptkry.common.memory import NotEnoughMemoryError, available_bytes, format_bytes
from adaptkry.graphs.graph import Graph
from adaptkry.models.batched import least_weights, members_per_part
from adaptkry.models.inputs import column_count
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import (
    ARMA,
    BasisTerms,
    CombineHops,
    Dropout,
    LinearPerHop,
    MessagePassing,
    ModelShape,
    PolynomialFilter,
    ResidualMLP,
    SelectRows,
    Stage,
)
from adaptkry.models.stages.propagation import STACKS
from adaptkry.spectral.similarity import SHARPNESS
from adaptkry.spectral.structure import OVERSAMPLING
from adaptkry.training.state import CURVES

logger = logging.getLogger(__name__)

MEMBER_BYTES = 500  # of the Python objects of a training
ROW_BYTES = 40  # of row numbers, classes and masks, while they are computed, for each training node of a member
WEIGHT_COPIES = {"cpu": 5, "cuda": 8}  # weights, the best ones, two moments, gradients, and arrays of the optimiser
NORM_COPIES = {"batch": 5.0, "layer": 2.5, None: 0.0}  # arrays that the backward pass of a norm reads
MASK = 0.25  # of a dropout: one byte for four of the signal
TEMPORARY = 1.5  # arrays of the widest layer that exist for a moment
HEAP = 2.0  # memory on the CPU in proportion to the arrays in it: freed blocks stay with each thread
SVD_COPIES = 5.0  # arrays of the singular vectors that exist at once
SPARSE_COPIES = 40.0  # bytes per entry of a sparse matrix and its scaled copies
BATCH_SHARE = 0.5  # of the memory that is left, for mini-batches
SUM_COPIES = 2 + 2 * len(SHARPNESS)  # of the classes of all nodes: labels, and for each sharpness sums and shares
TABLE_BYTES = 8 * (1 + 3 * len(SHARPNESS))  # of a similar node: its number, and its weights with temporary copies
PROBABILITY_COPIES = 3  # of the probabilities of all nodes
LEAST_BATCH = 64  # rows of the smallest mini-batch that is chosen
USED_SHARE = {"cpu": 1.0, "cuda": 0.9}  # of the available memory


@dataclass(frozen=True)
class Workload:
    """What decides how much memory a training or a prediction needs."""

    shape: ModelShape
    members: int
    nodes: int
    entries: int
    rows: int  # most nodes of a member that are computed at once, if they are selected
    input_bytes: float  # while the terms are computed, with the terms
    term_bytes: float  # afterwards
    item: int = 4  # bytes of a number
    batch_size: int | None = None
    device: str = "cpu"  # type of the device

    @property
    def members_at_once(self) -> int:
        """Number of members whose activations are in memory at the same time."""
        rows = min(self.rows, self.batch_size or self.rows)
        return min(self.members, members_per_part(self.shape, rows)) if self.is_divided else self.members

    @property
    def is_divided(self) -> bool:
        """Whether members are computed in parts, as `batched.member_parts` does."""
        recipe = self.shape.recipe
        return self.device == "cpu" and not (recipe.needs_operator or recipe.structure_layer)


@dataclass(frozen=True)
class Needs:
    """Estimated bytes, by what needs them."""

    inputs: float  # the terms, and what is needed to compute them
    terms: float
    weights: float
    activations: float

    @property
    def total(self) -> float:
        """Bytes at the peak: while the terms are computed, or in a training step."""
        return max(self.inputs, self.terms + self.weights + self.activations)

    def __str__(self) -> str:
        parts = {"terms": max(self.terms, self.inputs), "weights": self.weights, "activations": self.activations}
        return ", ".join(f"{name} {format_bytes(size)}" for name, size in parts.items())


def estimate(work: Workload) -> Needs:
    """Estimate the peak memory of a training, or of a prediction."""
    shape, recipe = work.shape, work.shape.recipe
    fixed = MEMBER_BYTES + ROW_BYTES * work.rows + 4 * len(CURVES) * recipe.epochs
    weights = work.members * (WEIGHT_COPIES[work.device] * work.item * least_weights(shape) + fixed)
    rows = work.nodes if recipe.propagates else min(work.rows, work.batch_size or work.rows)
    columns = step_columns(shape, work.nodes / max(rows, 1), work.entries / work.nodes)
    activations = work.members_at_once * rows * columns * work.item * (HEAP if work.is_divided else 1)
    if recipe.similar_nodes:  # labels of all nodes for all members, their sums and the table of similar nodes
        sums = work.members * shape.classes * SUM_COPIES * work.item
        activations += work.nodes * (sums + recipe.similar_nodes * TABLE_BYTES)
    if work.batch_size:  # the terms of a batch are copied, for all members together
        activations += min(work.nodes, work.batch_size) * shape.terms * shape.features * work.item
    return Needs(work.input_bytes, work.term_bytes, weights, activations)


def step_columns(shape: ModelShape, nodes_per_row: float, degree: float) -> float:
    """Return the number of columns of all arrays of one member at the peak of a step, for each of its rows.

    Args:
        shape: the model.
        nodes_per_row: all nodes for each row of the member, for stages that compute all nodes.
        degree: entries per node.
    """
    width, kept, widest = shape.features, 0.0, 0.0
    for position, stage in enumerate(shape.recipe.stages):
        output = stage.width(shape, width)
        kept += stage_columns(stage, shape, width, output, nodes_per_row, degree)
        is_source = stage.is_source and not isinstance(stage, CombineHops | LinearPerHop | ARMA)
        widest = max(widest, 0 if is_source else output, widest_layer(stage, shape, width if position else 0))
        width = output
    return kept + TEMPORARY * widest


def widest_layer(stage: Stage, shape: ModelShape, width: int) -> float:
    """Return the number of columns of the widest array inside a stage whose input has `width` columns."""
    if isinstance(stage, ResidualMLP):
        return max(width, shape.recipe.hidden if shape.recipe.layers > 1 else 0)
    return shape.recipe.hidden if isinstance(stage, MessagePassing) else 0


def stage_columns(
    stage: Stage, shape: ModelShape, width: int, output: int, nodes_per_row: float, degree: float
) -> float:
    """Return the number of columns of all arrays of a stage that its backward pass reads."""
    recipe = shape.recipe
    hidden = recipe.hidden * (recipe.layers - 1)
    norm = NORM_COPIES[recipe.norm]
    if isinstance(stage, CombineHops):
        return {"maps": shape.terms * recipe.hidden * (2.0 + norm), "concat": 1.0 * output}.get(
            recipe.combine_hops, 1.0 * output
        )
    if isinstance(stage, LinearPerHop):
        return output * (1 + nodes_per_row / shape.terms)
    if isinstance(stage, ResidualMLP):
        dropped = 1 + MASK if recipe.mlp_dropout else 0.0
        return dropped * width + (1 + dropped + norm) * hidden + 2 * shape.classes
    if isinstance(stage, MessagePassing):
        attention = 6 * degree * recipe.heads if stage.kind == "gat" else 0.0
        return (3 + norm) * (hidden + 2 * recipe.hidden * recipe.layers * recipe.residual) + attention * recipe.layers
    if isinstance(stage, PolynomialFilter | BasisTerms):
        return 1.0 * (recipe.degree + 1) * width
    if isinstance(stage, ARMA):
        return recipe.degree * (3.0 * STACKS * output + (1 + MASK) * shape.features)
    if isinstance(stage, Dropout):
        return (1 + MASK) * width if getattr(recipe, f"{stage.rate}_dropout") else 0.0
    return 0.0 if stage.is_source or isinstance(stage, SelectRows) else 1.0 * output


def graph_workload(
    graph: Graph, recipe: Recipe, members: int, rows: int, device: torch.device, batch_size: int | None = None
) -> Workload:
    """Return the workload of training `members` members with at most `rows` training nodes each on a graph."""
    columns, terms, n = column_count(graph, recipe), recipe.term_count, graph.nodes
    item = 8 if model_dtype(graph) == torch.float64 else 4
    term_bytes = float(terms * columns * n * item)
    shape = ModelShape(recipe, terms, columns, max(graph.outputs, 1), n if recipe.structure_layer else 0)
    inputs = input_bytes(graph, recipe, columns, item)
    if recipe.uses_features_only and inputs == 0:  # the only term is the graph's own array
        term_bytes = 0.0
    return Workload(
        shape, members, n, graph.entries, rows, inputs + term_bytes, term_bytes, item, batch_size, device.type
    )


def input_bytes(graph: Graph, recipe: Recipe, columns: int, item: int) -> float:
    """Return the bytes at the peak while the input columns [n, d] of a recipe are computed, besides the terms."""
    x, n = graph.features, graph.nodes
    structure = 3.0 * SVD_COPIES * n * recipe.structure
    if x is None:
        return structure
    is_sparse, width = sp.issparse(x), x.shape[1]
    own = (1.0 if is_sparse else 0.0) + (2.0 if recipe.normalise or recipe.standardise else 0.0)
    dense = own * n * width * (8 if graph.info.dtype or item == 8 else 4)
    if not recipe.reduce or width <= recipe.reduce:
        kept = n * columns * item if own or recipe.structure else 0
        return max(dense, kept + structure)
    svd = SVD_COPIES * 4.0 * (n + width) * (recipe.reduce + OVERSAMPLING)
    if is_sparse and not recipe.standardise:
        return max(svd + SPARSE_COPIES * x.nnz, 2.0 * n * recipe.reduce * item)
    return dense + svd


def model_dtype(graph: Graph) -> torch.dtype:
    """Return the type of numbers that models of a graph compute with."""
    if graph.info.dtype is not None or graph.features is None:
        return graph.info.dtype or torch.float32
    return torch.float64 if "64" in str(graph.features.dtype) else torch.float32


def fits(work: Workload, device: torch.device, limit: float = float("inf")) -> bool:
    """Return whether a workload is estimated to fit in the available memory of a device, and in `limit` bytes."""
    return estimate(work).total <= usable_bytes(device, limit)


def usable_bytes(device: torch.device, limit: float = float("inf")) -> float:
    """Return the bytes that a workload may use: a GPU needs some for itself."""
    return min(limit, USED_SHARE[device.type] * available_bytes(device))


def batch_size_that_fits(work: Workload, device: torch.device, limit: float = float("inf")) -> int | None:
    """Return the batch size of a workload, or the size of mini-batches if all rows at once do not fit in memory.

    What cannot fit is refused with the figures. The terms of mini-batches are in the memory of the machine.
    """
    usable, needs = usable_bytes(device, limit), estimate(work)
    host, is_gpu = usable_bytes(torch.device("cpu"), limit), device.type != "cpu"
    stays = 0.0 if is_gpu else needs.terms  # the terms of mini-batches are in the memory of the machine
    total = needs.weights + needs.activations if work.batch_size and is_gpu else needs.total
    if total <= usable and (needs.inputs <= host or not (is_gpu and work.batch_size)):
        return work.batch_size
    if work.batch_size is None and not work.shape.recipe.needs_all_nodes and needs.inputs <= host:
        each = estimate(replace(work, batch_size=1)).activations
        rows = min(work.nodes, int(BATCH_SHARE * (usable - needs.weights - stays) / each))
        if rows >= LEAST_BATCH:
            logger.info(
                "mini-batches of %s nodes: all at once would need about %s, and %s are available",
                f"{rows:,}", format_bytes(total), format_bytes(usable),
            )  # fmt: skip
            return rows
    raise NotEnoughMemoryError(refusal(work, needs, min(usable, host)))


def refusal(work: Workload, needs: Needs, usable: float) -> str:
    """Return what does not fit in memory, with the figures and what to do."""
    shape, recipe = work.shape, work.shape.recipe
    if max(needs.terms, needs.inputs) > needs.total / 2:
        reduced = "reduce=256, or " if shape.features > 256 and not recipe.reduce else ""
        remedy = f"Use {reduced}a smaller degree; or write the basis to disk with `adaptkry propagate`, and fit that."
    else:
        remedy = "Use fewer splits or restarts, or a smaller hidden or number of epochs."
    what = f"{work.members} trainings with hidden {recipe.hidden}, layers {recipe.layers} and epochs {recipe.epochs}"
    return (
        f"{what} on {shape.terms} terms of {shape.features} columns for {work.nodes} nodes must fit in memory: about "
        f"{format_bytes(needs.total)} are needed ({needs}), and {format_bytes(usable)} are available. {remedy}"
    )


def check_prediction(graph: Graph, recipe: Recipe, members: int) -> None:
    """Refuse a prediction of all nodes with so many members that does not fit in memory."""
    work = graph_workload(graph, recipe, members, 1, torch.device("cpu"))
    needed = work.input_bytes + PROBABILITY_COPIES * work.item * members * graph.nodes * work.shape.classes
    if recipe.propagates:
        needed += TEMPORARY * work.item * members * graph.nodes * max(recipe.hidden, work.shape.classes)
    available = available_bytes()
    if needed > available:
        raise NotEnoughMemoryError(
            f"predictions of {members} trainings for {graph.nodes} nodes must fit in memory: about "
            f"{format_bytes(needed)} are needed, and {format_bytes(available)} are available. Predict for a smaller "
            f"graph, or from a basis folder (`adaptkry propagate`)."
        )
