import pytest
import torch

from adaptkry.outofcore import write_graph
from adaptkry.outofcore.edge_runs import StoredAdjacency
from adaptkry.spectral.propagation_matrix import Propagation
from basis_on_disk import small_graph
from contracts import assert_same_bits, random_signal


@pytest.mark.parametrize("width", [1, 5, 16, 33])
@pytest.mark.parametrize("entries_in_memory", [1, 50, 400, None])
def test_runs_of_rows_have_the_bits_of_the_whole_product(tmp_path, entries_in_memory, width):
    graph = small_graph(1, 200, 900, weighted=True, d=width)
    stored = StoredAdjacency(write_graph(graph, tmp_path), entries_in_memory)
    assert (stored.loaded is None) == (entries_in_memory is not None)
    x = random_signal(200, width, dtype=torch.float32)
    out = torch.empty_like(x)
    stored.propagate(x.clone(), stored.factors(0.8), out, run_bytes=4 * width * 7)  # seven rows per run
    assert_same_bits(out, Propagation(graph, 0.8) @ x)
