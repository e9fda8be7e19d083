"""What a model is made of. A model is a sentence of stages, such as "input drop linear:hidden relu linear:classes".

A stage takes the signal of all members [b, m, h] and gives the next one. Members share sizes and nothing else, and
every product is a batched one, so what happens to one member never touches another. Stages before "rows" see all
nodes; "combine", "each_hop" and "rows" leave each member with the rows it is asked about.
"""

from adaptkry.stages import dense, perceptron, propagating, sources  # noqa: F401  they enter themselves into the table
from adaptkry.stages.core import STAGES, Here, Layout, Stage, Weights
from adaptkry.stages.propagating import coefficients

__all__ = ["STAGES", "Here", "Layout", "Stage", "Weights", "coefficients"]
