"""Random graphs with edge cases: isolated nodes, several components, self-loops, repeated edges.

>>> random_graph(seed=0, weighted=True)
Graph(nodes=20, entries=..., features=3, classes=3, undirected, weighted)
"""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph

# No deadline: the first example includes imports. Derandomized: a failure is reproducible.
settings.register_profile("adaptkry", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("adaptkry")


def random_edges(seed: int, n: int, m: int) -> np.ndarray:
    """Edges [2, m]: one node in eight is isolated, and the others form two halves without edges between them."""
    random = np.random.default_rng(seed)
    connected = random.permutation(n)[: n - n // 8]
    middle = (len(connected) + 1) // 2
    half = random.integers(0, min(2, len(connected)), m)
    return connected[random.integers(half * middle, np.where(half, len(connected), middle), (2, m))]


def random_weights(seed: int, m: int, lightest: float = 1.0, heaviest: float = 3.0) -> np.ndarray:
    """Edge weights [m]."""
    return np.random.default_rng([seed, 1]).uniform(lightest, heaviest, m)


def random_graph(
    seed: int,
    n: int = 20,
    m: int = 40,
    *,
    directed: bool = False,
    weighted: bool = False,
    lightest: float = 1.0,
    connected: bool = False,
    self_loops: bool = True,
    features: int = 3,
    classes: int = 3,
) -> Graph:
    """A graph of `m` random edges, with float64 features and some unknown labels, determined by the seed.

    Degrees are 0 or at least `lightest`, the smallest weight: pass less than 1 for degrees below 1. `connected` adds a
    cycle through all nodes, in one direction if the graph is directed.
    """
    random = np.random.default_rng([seed, 2])
    edges = random_edges(seed, n, m)
    if connected:
        edges = np.hstack([edges, np.stack([np.arange(n), np.roll(np.arange(n), -1)])])
    return Graph(
        edges,
        random.standard_normal((n, features)),
        random.integers(-1, classes, n),
        weights=random_weights(seed, edges.shape[1], lightest) if weighted else None,
        directed=directed,
        self_loops=self_loops,
    )


def complete(n: int) -> Graph:
    """The complete graph of n nodes."""
    return Graph(np.stack(np.triu_indices(n, 1)))


def cycle(n: int) -> Graph:
    """The cycle of n nodes."""
    return Graph([np.arange(n), (np.arange(n) + 1) % n])


def star(leaves: int) -> Graph:
    """The star with centre 0 and leaves 1 .. leaves."""
    return Graph([[0] * leaves, range(1, leaves + 1)])


@st.composite
def graphs(
    draw,
    directed: bool | None = None,
    weighted: bool | None = None,
    min_nodes: int = 1,
    max_nodes: int = 24,
    **options,
) -> Graph:
    """Small random graphs; with None the property is random; `options` are passed to `random_graph`."""
    n = draw(st.integers(min_nodes, max_nodes))
    return random_graph(
        draw(st.integers(0, 2**16)),
        n,
        draw(st.integers(0, 3 * n)),
        directed=draw(st.booleans()) if directed is None else directed,
        weighted=draw(st.booleans()) if weighted is None else weighted,
        **options,
    )
