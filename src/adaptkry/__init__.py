"""adaptkry: learning with polynomial graph filters.

>>> import adaptkry as ak
>>> graph = ak.csbm(nodes=200, seed=0)
>>> P = ak.Propagation(graph, tau=0.8)
>>> ak.stack(ak.krylov(P, graph.x, degree=10)).shape
torch.Size([200, 11, 16])
"""

import os

# Threads that spin while they wait starve each other where cores are shared with other programs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from adaptkry.common.version import VERSION
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
from adaptkry.models.recipe import Recipe as Recipe
from adaptkry.models.recipe import recipe as recipe
from adaptkry.outofcore import BasisFolder as BasisFolder
from adaptkry.outofcore import propagate as propagate
from adaptkry.selection.tune import tune as tune
from adaptkry.spectral.bases import BASES as BASES
from adaptkry.spectral.bases import average as average
from adaptkry.spectral.bases import bernstein as bernstein
from adaptkry.spectral.bases import chebyshev as chebyshev
from adaptkry.spectral.bases import jacobi as jacobi
from adaptkry.spectral.bases import krylov as krylov
from adaptkry.spectral.bases import legendre as legendre
from adaptkry.spectral.bases import stack as stack
from adaptkry.spectral.density import density_of_states as density_of_states
from adaptkry.spectral.filters import Filter as Filter
from adaptkry.spectral.filters import fit_response as fit_response
from adaptkry.spectral.lanczos import orthonormal as orthonormal
from adaptkry.spectral.lanczos import recurrence as recurrence
from adaptkry.spectral.operators import Diagonal as Diagonal
from adaptkry.spectral.propagation import Laplacian as Laplacian
from adaptkry.spectral.propagation import Propagation as Propagation
from adaptkry.spectral.spectrum import angles as angles
from adaptkry.spectral.spectrum import eigenvalues as eigenvalues
from adaptkry.spectral.spectrum import extremes as extremes
from adaptkry.spectral.spectrum import grade as grade
from adaptkry.spectral.spectrum import lambda_star as lambda_star
from adaptkry.spectral.theory import check_all as check_all
from adaptkry.training.fit import fit as fit
from adaptkry.training.folder_fit import fit as fit_from_disk  # noqa: F401
from adaptkry.training.run import Run as Run
from adaptkry.training.run import load_run as load_run

__version__ = VERSION


def __getattr__(name: str):
    """Doors to scikit-learn and PyG open when they are used, so that the core needs neither."""
    if name == "AdaptKryClassifier":
        from adaptkry.integrations.scikit_learn import AdaptKryClassifier

        return AdaptKryClassifier
    if name in ("KrylovBasis", "KrylovConv"):
        from adaptkry.integrations import pyg

        return getattr(pyg, name)
    raise AttributeError(f"module 'adaptkry' has no attribute {name!r}")
