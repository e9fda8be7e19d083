"""What a run learned, as numbers to draw: the learned filter over the density of states, and the picture of a run."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import features_of, propagation
from adaptkry.models.stages import coefficients
from adaptkry.report import charts as plots
from adaptkry.spectral.bases import BASES, stack
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.lanczos import recurrence, replay
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation import Propagation
from adaptkry.training.run import Run

# These bases are other polynomials for every signal or every channel: no one curve stands for them.
NO_RESPONSE = ("optbasis", "favard", "unifilter", "gaussian", "asgc")


def learned_response(run: Run, graph: Graph | None, grid: Tensor) -> Tensor | None:
    """The learned filter g of each member at operator eigenvalues `grid` [m], of the first direction: [m, b].

    Several tied taus share the weights of one polynomial, which is what is drawn, as in the paper. An orthonormal
    basis has polynomials of its own for every column; the mean over columns is drawn.
    """
    made = run.recipes[0]
    if "filter" not in run.weights or made.degree == 0 or made.basis in NO_RESPONSE:
        return None
    grid, ones = grid.double(), torch.ones(len(grid), 1, dtype=torch.float64)
    if made.terms == "last":
        return grid[:, None] ** made.degree * run.weights["filter"].T.double()
    w = coefficients(made, {name: weight.double() for name, weight in run.weights.items()})  # [b, K + 1] or [b, h, ...]
    w = w * torch.tensor(run.about["hop_scale"]) if len(run.about["hop_scale"]) == w.shape[-1] else w
    w = w.reshape(len(w), -1, w.shape[-1]).mean(1)[:, : made.degree + 1].T  # [K + 1, b]
    if made.basis != "orthonormal":
        make = BASES["chebyshev" if made.basis == "bernstein" else made.basis]
        return stack(list(make(Diagonal(grid), ones, made.degree, **dict(made.basis_options))))[:, :, 0] @ w
    if graph is None:
        return None
    P = propagation(graph, made, made.taus[0], made.directions[0])
    x = features_of(graph, made)[:, :64].double()
    known = recurrence(P, x, made.degree)
    found = stack(list(replay(Diagonal(grid), ones.expand(-1, x.shape[1]), made.degree, recurrence=known)))
    return (found * known.norm if dict(made.basis_options).get("keep_norm") else found).mean(2) @ w


def picture(run: Run, graph: Graph | None, folder: Path | str, split: Splits) -> Path:
    """Draw what the run learned into the run folder; without the graph there is no density of states."""
    low, high, density = -1.0, 1.0, None
    if graph is not None:
        density = density_of_states(Propagation(graph, run.recipes[0].taus[0]), moments=200, probes=16)
        low, high = float(density.edges[0]), float(density.edges[-1])
    grid = torch.linspace(low, high, 201)
    responses = learned_response(run, graph, grid)
    return plots.run_picture(
        Path(folder) / "picture.png",
        title=run.summary().splitlines()[-1],
        grid=grid.numpy(),
        responses=None if responses is None else responses.numpy(),
        density=density,
        curves=run.curves,
        confusion=confusion(run, graph, split),
        names=run.about["class_names"] or range(run.layout.classes),
    )


def confusion(run: Run, graph: Graph | None, split: Splits) -> np.ndarray:
    """Counts [c, c], true class down, predicted class across; each member is asked about its own test nodes only."""
    c = run.layout.classes
    if graph is None:  # counted when the run was tested
        return np.array(run.about["confusion"], dtype=np.int64).reshape(c, c)
    guess = run.each_probability(graph).argmax(-1)[run.chosen]
    test = split.test[torch.tensor([run.members[i].split for i in run.chosen])]
    pairs = (graph.y.expand_as(guess) * c + guess)[test]
    return torch.bincount(pairs, minlength=c * c).reshape(c, c).numpy()
