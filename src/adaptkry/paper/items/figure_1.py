"""Figure 1: the four polynomial filters that the paper shows, and polynomial fits of common filters of that kind."""

import numpy as np
import torch

from adaptkry.paper.cells import Cells, MeasuredCell
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.report import elements
from adaptkry.spectral.bases import BASES, stack
from adaptkry.spectral.filters import FIGURE_1
from adaptkry.spectral.operators import Diagonal

FREQUENCIES = np.linspace(0, 2, 201)  # 1 - lambda
IDENTITY = np.polynomial.Polynomial([0, 1])  # a response applied to this polynomial gives its coefficients
PRINTED = {f"{name}-pass": response(IDENTITY).coef for name, response in FIGURE_1.items()}  # of 1, x, x^2, ...
COMMON_FILTERS = {
    "low-pass": lambda x: np.exp(-10 * x**2),
    "band-pass": lambda x: np.exp(-10 * (x - 1) ** 2),
    "comb-pass": lambda x: np.abs(np.sin(np.pi * x)),
    "high-pass": lambda x: 1 - np.exp(-10 * x**2),
}
FITTED_BASES = ("krylov", "chebyshev", "bernstein", "jacobi")


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per filter; no graph is needed."""
    return [Measurement(None, name, "", lambda _, name=name: errors(item, name)) for name in PRINTED]


def errors(item: dict, name: str) -> list[dict]:
    """Measure the largest difference between each fit and the printed polynomial or the common filter of that name."""
    targets = {"printed": (4, polynomial(name)), "common": (item["ours"]["fit_degree"], common(name))}
    return [
        {"row": name, "column": f"{what}, {basis}", "value": float(np.abs(fit(basis, *target) - target[1]).max())}
        for basis in FITTED_BASES for what, target in targets.items()
    ]  # fmt: skip


def polynomial(name: str) -> np.ndarray:
    """Evaluate the printed polynomial on the grid of frequencies."""
    return np.polynomial.polynomial.polyval(FREQUENCIES, PRINTED[name])


def common(name: str) -> np.ndarray:
    """Evaluate the common filter on the grid of frequencies."""
    return COMMON_FILTERS[name](FREQUENCIES)


def fit(basis: str, degree: int, target: np.ndarray) -> np.ndarray:
    """Fit a response by least squares in a basis; a basis applied to a spectrum gives its responses."""
    ones = torch.ones(len(FREQUENCIES), 1, dtype=torch.float64)
    columns = stack(list(BASES[basis](Diagonal(torch.from_numpy(1 - FREQUENCIES)), ones, degree)))[:, :, 0].numpy()
    return columns @ np.linalg.lstsq(columns, target, rcond=None)[0]


def section(cells: Cells, item: dict) -> dict:
    """Return the table of largest differences, and one chart per filter."""
    columns = [f"{what}, {basis}" for what in ("printed", "common") for basis in FITTED_BASES]
    rows = [[name, *(error_cell(cells.get((name, column))) for column in columns)] for name in PRINTED]
    exact = [cell.mean <= item["margin"] for (_, column), cell in cells.items() if column.startswith("printed")]
    note = (
        f"{sum(exact)} of {len(exact)} fits of the printed polynomials are exact to {item['margin']:.0e}: all bases "
        f"span the same Krylov space. The common filters (Gaussians, |sin|) are not polynomials; their "
        f"differences are the approximation error of degree {item['ours']['fit_degree']}."
    )
    return {
        "tables": [elements.table("largest difference of the fit", ["", *columns], rows)],
        "charts": [curves(item, name) for name in PRINTED],
        "notes": [note],
    }


def error_cell(cell: MeasuredCell | None) -> dict | None:
    """Return a largest difference with two digits; None if it was not measured."""
    return None if cell is None else elements.cell(f"{cell.mean:.1e}", cell.mean)


def curves(item: dict, name: str) -> dict:
    """Return the chart of the printed polynomial, the common filter and its fit."""
    degree = item["ours"]["fit_degree"]
    lines = [
        elements.series("printed polynomial", FREQUENCIES, polynomial(name)),
        elements.series("common filter", FREQUENCIES, common(name), dashed=True),
        # The last digits of a least-squares fit depend on the processor; documents must not.
        elements.series(f"its fit of degree {degree}", FREQUENCIES, fit("chebyshev", degree, common(name)).round(9)),
    ]
    return elements.chart(name, lines, x="frequency 1 - λ", y="g(λ)")
