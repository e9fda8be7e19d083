"""adaptkry: learning with polynomial graph filters.

>>> import adaptkry as ak
>>> graph = ak.csbm(nodes=200, seed=0)
>>> P = ak.Propagation(graph, tau=0.8)
>>> ak.stack(ak.krylov(P, graph.x, degree=10)).shape
torch.Size([200, 11, 16])

Public names are imported when they are first used (PEP 562), so that `import adaptkry` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names for editors and type checkers; tests/test_api.py compares the two lists
    from adaptkry.common.version import __version__ as __version__
    from adaptkry.graphs.graph import Graph as Graph
    from adaptkry.graphs.homophily import homophily as homophily
    from adaptkry.graphs.load import load as load
    from adaptkry.graphs.splits import Splits as Splits
    from adaptkry.graphs.splits import class_balanced as class_balanced
    from adaptkry.graphs.splits import from_masks as from_masks
    from adaptkry.graphs.splits import stratified as stratified
    from adaptkry.graphs.splits import uniform as uniform
    from adaptkry.graphs.synthetic import csbm as csbm
    from adaptkry.graphs.synthetic import directed_csbm as directed_csbm
    from adaptkry.integrations.pyg import KrylovBasis as KrylovBasis
    from adaptkry.integrations.pyg import KrylovConv as KrylovConv
    from adaptkry.integrations.scikit_learn import AdaptKryClassifier as AdaptKryClassifier
    from adaptkry.models.recipe import Recipe as Recipe
    from adaptkry.models.recipe import recipe as recipe
    from adaptkry.models.suggest import explain as explain
    from adaptkry.models.suggest import suggest as suggest
    from adaptkry.outofcore import BasisFolder as BasisFolder
    from adaptkry.outofcore import propagate as propagate
    from adaptkry.selection.auto import auto as auto
    from adaptkry.selection.auto_result import AutoResult as AutoResult
    from adaptkry.selection.compare import compare as compare
    from adaptkry.selection.comparison_table import Comparison as Comparison
    from adaptkry.selection.tune import tune as tune
    from adaptkry.spectral.bases import BASES as BASES
    from adaptkry.spectral.bases import average as average
    from adaptkry.spectral.bases import bernstein as bernstein
    from adaptkry.spectral.bases import chebyshev as chebyshev
    from adaptkry.spectral.bases import jacobi as jacobi
    from adaptkry.spectral.bases import krylov as krylov
    from adaptkry.spectral.bases import legendre as legendre
    from adaptkry.spectral.bases import stack as stack
    from adaptkry.spectral.basis_function import Basis as Basis
    from adaptkry.spectral.density import density_of_states as density_of_states
    from adaptkry.spectral.filters import Filter as Filter
    from adaptkry.spectral.filters import fit_response as fit_response
    from adaptkry.spectral.lanczos import orthonormal as orthonormal
    from adaptkry.spectral.lanczos import recurrence as recurrence
    from adaptkry.spectral.operators import Diagonal as Diagonal
    from adaptkry.spectral.operators import Operator as Operator
    from adaptkry.spectral.propagation_matrix import Laplacian as Laplacian
    from adaptkry.spectral.propagation_matrix import Propagation as Propagation
    from adaptkry.spectral.spectrum import angles as angles
    from adaptkry.spectral.spectrum import eigenvalues as eigenvalues
    from adaptkry.spectral.spectrum import extremes as extremes
    from adaptkry.spectral.spectrum import grade as grade
    from adaptkry.spectral.spectrum import lambda_star as lambda_star
    from adaptkry.spectral.theory import check_all as check_all
    from adaptkry.training.data import open_data as open_data
    from adaptkry.training.ensemble import Ensemble as Ensemble
    from adaptkry.training.fit import fit as fit
    from adaptkry.training.results import Result as Result
    from adaptkry.training.run import Run as Run
    from adaptkry.training.run import RunInfo as RunInfo
    from adaptkry.training.run_folder import load_run as load_run

_MODULES = {
    "__version__": "common.version",
    # graphs
    "Graph": "graphs.graph",
    "homophily": "graphs.homophily",
    "load": "graphs.load",
    "csbm": "graphs.synthetic",
    "directed_csbm": "graphs.synthetic",
    "Splits": "graphs.splits",
    "class_balanced": "graphs.splits",
    "stratified": "graphs.splits",
    "uniform": "graphs.splits",
    "from_masks": "graphs.splits",
    # operators, bases, filters, spectra
    "Operator": "spectral.operators",
    "Propagation": "spectral.propagation_matrix",
    "Laplacian": "spectral.propagation_matrix",
    "Diagonal": "spectral.operators",
    "Basis": "spectral.basis_function",
    "BASES": "spectral.bases",
    "krylov": "spectral.bases",
    "chebyshev": "spectral.bases",
    "legendre": "spectral.bases",
    "jacobi": "spectral.bases",
    "bernstein": "spectral.bases",
    "orthonormal": "spectral.lanczos",
    "recurrence": "spectral.lanczos",
    "average": "spectral.bases",
    "stack": "spectral.bases",
    "Filter": "spectral.filters",
    "fit_response": "spectral.filters",
    "eigenvalues": "spectral.spectrum",
    "extremes": "spectral.spectrum",
    "lambda_star": "spectral.spectrum",
    "angles": "spectral.spectrum",
    "grade": "spectral.spectrum",
    "density_of_states": "spectral.density",
    "check_all": "spectral.theory",
    # training and selection
    "Recipe": "models.recipe",
    "recipe": "models.recipe",
    "suggest": "models.suggest",
    "explain": "models.suggest",
    "open_data": "training.data",
    "fit": "training.fit",
    "Run": "training.run",
    "Result": "training.results",
    "RunInfo": "training.run",
    "load_run": "training.run_folder",
    "Ensemble": "training.ensemble",
    "auto": "selection.auto",
    "AutoResult": "selection.auto_result",
    "tune": "selection.tune",
    "compare": "selection.compare",
    "Comparison": "selection.comparison_table",
    # graphs larger than memory
    "BasisFolder": "outofcore",
    "propagate": "outofcore",
    # other libraries
    "AdaptKryClassifier": "integrations.scikit_learn",
    "KrylovBasis": "integrations.pyg",
    "KrylovConv": "integrations.pyg",
}
__all__ = [*_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def _import(name: str):
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'adaptkry' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"adaptkry.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Every public name, whether it has been imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # with __getattr__, a type checker would accept every name
    __getattr__ = _import
