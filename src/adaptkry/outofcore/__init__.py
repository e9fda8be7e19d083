"""Graphs and bases larger than memory: they are stored in folders and computed block by block, inline or by workers.

>>> from adaptkry.outofcore import propagate
>>> basis = propagate("graph-folder", "basis-folder", taus=[0.5, 1.0], degree=10)  # doctest: +SKIP
>>> basis.slab(0, 100_000)                                                         # doctest: +SKIP
"""

from adaptkry.outofcore.basis_folder import BasisFolder as BasisFolder
from adaptkry.outofcore.graph_folder import GraphFolder as GraphFolder
from adaptkry.outofcore.graph_folder import finalise as finalise
from adaptkry.outofcore.graph_folder import write_graph as write_graph
from adaptkry.outofcore.propagate import propagate as propagate
from adaptkry.outofcore.random_graph import generate as generate
