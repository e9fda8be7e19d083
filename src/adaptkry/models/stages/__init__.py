"""What a model is made of. A model is a sentence of stages, such as "input drop linear:hidden relu linear:classes".

A stage takes the signal of all members [b, m, h] and gives the next one. Members share sizes and nothing else, and
every product is a batched one, so what happens to one member never touches another. Stages before "rows" see all
nodes; "combine", "each_hop" and "rows" leave each member with the rows it is asked about.
"""

from adaptkry.models.stages import dense, propagation, residual_mlp, sources  # noqa: F401
from adaptkry.models.stages.base import STAGES, ModelShape, Stage, StageContext, Weights
from adaptkry.models.stages.propagation import coefficients

__all__ = ["STAGES", "ModelShape", "Stage", "StageContext", "Weights", "coefficients"]
