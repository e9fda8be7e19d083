"""Figure 1: four filters, the polynomials the paper draws, and polynomial fits of what they stand for."""

import numpy as np
import torch

from adaptkry.paper.cells import Cell, Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.report import elements as experiments
from adaptkry.spectral.bases import BASES, stack
from adaptkry.spectral.operators import Diagonal

GRID = np.linspace(0, 2, 201)  # frequencies 1 - lambda
TARGETS = {
    "low-pass": lambda x: np.exp(-10 * x**2),
    "band-pass": lambda x: np.exp(-10 * (x - 1) ** 2),
    "comb-pass": lambda x: np.abs(np.sin(np.pi * x)),
    "high-pass": lambda x: 1 - np.exp(-10 * x**2),
}
FITTED = ("krylov", "chebyshev", "bernstein", "jacobi")


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """One job a filter; no graph is needed."""
    return [Job(None, name, "", lambda _, name=name: measured(item, name)) for name in item["paper"]]


def measured(item: dict, name: str) -> list[dict]:
    """How exactly each basis gives the printed polynomial, and the common filter of that name."""
    printed = np.polynomial.polynomial.polyval(GRID, item["paper"][name])
    rows = []
    for basis in FITTED:
        rows.append({"row": name, "column": f"printed, {basis}", "value": worst(basis, 4, printed)})
        error = worst(basis, item["ours"]["fit_degree"], TARGETS[name](GRID))
        rows.append({"row": name, "column": f"common, {basis}", "value": error})
    return rows


def worst(basis: str, degree: int, wanted: np.ndarray) -> float:
    """Largest difference of the best fit in the least-squares sense."""
    return float(np.abs(fit(basis, degree, wanted) - wanted).max())


def fit(basis: str, degree: int, wanted: np.ndarray) -> np.ndarray:
    """The best fit of a response on the grid by a basis: the basis on a spectrum is its responses."""
    ones = torch.ones(len(GRID), 1, dtype=torch.float64)
    columns = stack(list(BASES[basis](Diagonal(torch.from_numpy(1 - GRID)), ones, degree)))[:, :, 0].numpy()
    return columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0]


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """Largest differences, and the four curves."""
    columns = [f"{what}, {basis}" for what in ("printed", "common") for basis in FITTED]
    rows = [[name, *(shown(cells.get((name, column))) for column in columns)] for name in item["paper"]]
    exact = [own.mean <= item["margin"] for (_, column), own in cells.items() if column.startswith("printed")]
    degree = item["ours"]["fit_degree"]
    return {
        "tables": [experiments.table("largest difference of the fit", ["", *columns], rows)],
        "charts": [drawn(item, name) for name in item["paper"]],
        "notes": [
            f"{sum(exact)} of {len(exact)} fits of the printed polynomials are exact to {item['margin']:.0e}: one "
            f"Krylov space, whatever the basis. The common filters (Gaussians, |sin|) are no polynomials; the rest is "
            f"what degree {degree} leaves."
        ],
    }


def shown(cell: Cell | None) -> dict | None:
    """A difference as it is written, and what it sorts by."""
    return None if cell is None else experiments.cell(f"{cell.mean:.1e}", cell.mean)


def drawn(item: dict, name: str) -> dict:
    """The printed polynomial, the common filter and its fit."""
    common = TARGETS[name](GRID)
    lines = [
        experiments.series("printed polynomial", GRID, np.polynomial.polynomial.polyval(GRID, item["paper"][name])),
        experiments.series("common filter", GRID, common, dashed=True),
        experiments.series("its fit of degree 10", GRID, fit("chebyshev", item["ours"]["fit_degree"], common)),
    ]
    return experiments.chart(name, lines, x="frequency 1 - λ", y="g(λ)")
