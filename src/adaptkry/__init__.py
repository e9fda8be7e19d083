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

from adaptkry.about import VERSION
from adaptkry.bases import BASES as BASES
from adaptkry.bases import average as average
from adaptkry.bases import bernstein as bernstein
from adaptkry.bases import chebyshev as chebyshev
from adaptkry.bases import jacobi as jacobi
from adaptkry.bases import krylov as krylov
from adaptkry.bases import legendre as legendre
from adaptkry.bases import orthonormal as orthonormal
from adaptkry.bases import recurrence as recurrence
from adaptkry.bases import stack as stack
from adaptkry.datasets import load as load
from adaptkry.datasets.synthetic import csbm as csbm
from adaptkry.datasets.synthetic import directed_csbm as directed_csbm
from adaptkry.filters import Filter as Filter
from adaptkry.filters import fit_response as fit_response
from adaptkry.fitting import fit as fit
from adaptkry.from_disk import fit as fit_from_disk  # noqa: F401
from adaptkry.graph import Graph as Graph
from adaptkry.homophily import homophily as homophily
from adaptkry.operators import Diagonal as Diagonal
from adaptkry.operators import Laplacian as Laplacian
from adaptkry.operators import Propagation as Propagation
from adaptkry.outofcore import BasisFolder as BasisFolder
from adaptkry.outofcore import propagate as propagate
from adaptkry.recipes import Recipe as Recipe
from adaptkry.recipes import recipe as recipe
from adaptkry.runs import Run as Run
from adaptkry.runs import load_run as load_run
from adaptkry.search import tune as tune
from adaptkry.spectrum import angles as angles
from adaptkry.spectrum import density_of_states as density_of_states
from adaptkry.spectrum import eigenvalues as eigenvalues
from adaptkry.spectrum import extremes as extremes
from adaptkry.spectrum import grade as grade
from adaptkry.spectrum import lambda_star as lambda_star
from adaptkry.splits import Split as Split
from adaptkry.splits import class_balanced as class_balanced
from adaptkry.splits import from_masks as from_masks
from adaptkry.splits import stratified as stratified
from adaptkry.splits import uniform as uniform
from adaptkry.theory import check_all as check_all

__version__ = VERSION


def __getattr__(name: str):
    """Doors to scikit-learn and PyG open when they are used, so that the core needs neither."""
    if name == "AdaptKryClassifier":
        from adaptkry.estimator import AdaptKryClassifier

        return AdaptKryClassifier
    if name in ("KrylovBasis", "KrylovConv"):
        from adaptkry import pyg

        return getattr(pyg, name)
    raise AttributeError(f"module 'adaptkry' has no attribute {name!r}")
