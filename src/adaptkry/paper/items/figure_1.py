"""Figure 1: the four polynomials that the paper draws, and polynomial fits of the filters that they stand for."""

import numpy as np
import torch

from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.report import elements
from adaptkry.spectral.bases import BASES, stack
from adaptkry.spectral.filters import FIGURE_1
from adaptkry.spectral.operators import Diagonal

FREQUENCIES = np.linspace(0, 2, 201)  # 1 - lambda
IDENTITY = np.polynomial.Polynomial([0, 1])  # the frequency itself: a response of it is a list of coefficients
PRINTED = {f"{name}-pass": response(IDENTITY).coef for name, response in FIGURE_1.items()}  # of 1, x, x^2, ...
COMMON_FILTERS = {
    "low-pass": lambda x: np.exp(-10 * x**2),
    "band-pass": lambda x: np.exp(-10 * (x - 1) ** 2),
    "comb-pass": lambda x: np.abs(np.sin(np.pi * x)),
    "high-pass": lambda x: 1 - np.exp(-10 * x**2),
}
FITTED_BASES = ("krylov", "chebyshev", "bernstein", "jacobi")


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """One measurement per filter; no graph is needed."""
    return [Measurement(None, name, "", lambda _, name=name: errors(item, name)) for name in PRINTED]


def errors(item: dict, name: str) -> list[dict]:
    """The largest difference of each basis's fit to the printed polynomial, and to the common filter of that name."""
    targets = {"printed": (4, polynomial(name)), "common": (item["ours"]["fit_degree"], common(name))}
    return [
        {"row": name, "column": f"{what}, {basis}", "value": float(np.abs(fit(basis, *target) - target[1]).max())}
        for basis in FITTED_BASES for what, target in targets.items()
    ]  # fmt: skip


def polynomial(name: str) -> np.ndarray:
    """The printed polynomial on the grid of frequencies."""
    return np.polynomial.polynomial.polyval(FREQUENCIES, PRINTED[name])


def common(name: str) -> np.ndarray:
    """The common filter on the grid of frequencies."""
    return COMMON_FILTERS[name](FREQUENCIES)


def fit(basis: str, degree: int, target: np.ndarray) -> np.ndarray:
    """The least-squares fit of a response by a basis: applied to a spectrum, a basis gives its responses."""
    ones = torch.ones(len(FREQUENCIES), 1, dtype=torch.float64)
    columns = stack(list(BASES[basis](Diagonal(torch.from_numpy(1 - FREQUENCIES)), ones, degree)))[:, :, 0].numpy()
    return columns @ np.linalg.lstsq(columns, target, rcond=None)[0]


def section(cells: Cells, item: dict) -> dict:
    """The largest differences, and the four curves."""
    columns = [f"{what}, {basis}" for what in ("printed", "common") for basis in FITTED_BASES]
    found = [[cells.get((name, column)) for column in columns] for name in PRINTED]
    shown = [[None if one is None else elements.cell(f"{one.mean:.1e}", one.mean) for one in row] for row in found]
    rows = [[name, *row] for name, row in zip(PRINTED, shown, strict=True)]
    exact = [own.mean <= item["margin"] for (_, column), own in cells.items() if column.startswith("printed")]
    note = (
        f"{sum(exact)} of {len(exact)} fits of the printed polynomials are exact to {item['margin']:.0e}: all bases "
        f"span the same Krylov space. The common filters (Gaussians, |sin|) are not polynomials; their "
        f"differences are the error of degree {item['ours']['fit_degree']}."
    )
    return {
        "tables": [elements.table("largest difference of the fit", ["", *columns], rows)],
        "charts": [curves(item, name) for name in PRINTED],
        "notes": [note],
    }


def curves(item: dict, name: str) -> dict:
    """The printed polynomial, the common filter and its fit."""
    degree = item["ours"]["fit_degree"]
    lines = [
        elements.series("printed polynomial", FREQUENCIES, polynomial(name)),
        elements.series("common filter", FREQUENCIES, common(name), dashed=True),
        elements.series(f"its fit of degree {degree}", FREQUENCIES, fit("chebyshev", degree, common(name))),
    ]
    return elements.chart(name, lines, x="frequency 1 - λ", y="g(λ)")
