import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.report import inspection


@pytest.mark.parametrize("labels", [None, [0, 1] * 10])
def test_an_inspection_has_facts_density_and_warnings(labels):
    found = inspection.inspect_graph(Graph(np.stack([np.arange(19), np.arange(1, 20)]), torch.ones(20, 2), labels))
    assert found["facts"]["nodes"] == 20
    assert ("homophily, edge" in found["facts"]) == (labels is not None)
    assert np.isclose(found["density"]["mass"].sum(), 1, atol=0.05)
    assert found["suggested"][2]["settings"]["hidden"] == 64
    assert ("12 training labels" if labels else "0 training labels") in found["suggested"][2]["why"]
    assert found["published"] is False
    assert any("fewer than 10" in text for text in inspection.inspect_graph(csbm(nodes=12))["warnings"])
