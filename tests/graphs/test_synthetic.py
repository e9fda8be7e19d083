import pytest
import torch

from adaptkry.graphs.homophily import edge
from adaptkry.graphs.synthetic import csbm


def test_the_same_seed_gives_the_same_graph_and_another_seed_another():
    one, same, other = (csbm(nodes=200, phi=0.3, seed=seed) for seed in (4, 4, 5))
    for part in ("indptr", "indices", "x", "y"):
        assert getattr(one, part).equal(getattr(same, part))
        assert not getattr(one, part).equal(getattr(other, part))


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("phi", "expected"), [(1.0, lambda _: 1), (-1.0, lambda _: 0), (0.0, lambda c: 1 / c)])
def test_homophily_is_none_random_or_full_by_phi(phi, expected, classes):
    found = edge(csbm(nodes=2000, phi=phi, classes=classes))
    assert found == pytest.approx(expected(classes), abs=0.02 if phi == 0 else 0)


def test_homophily_grows_with_phi():
    found = [edge(csbm(nodes=2000, phi=phi)) for phi in (-1, -0.5, 0, 0.5, 1)]
    assert found == sorted(found)


def test_features_separate_the_classes_only_if_the_edges_do_not():
    def gap(phi: float) -> float:
        graph = csbm(nodes=2000, phi=phi, information=2.0)
        return float((graph.x[graph.y == 0].mean(0) - graph.x[graph.y == 1].mean(0)).norm())

    assert gap(0.0) > 1
    assert gap(1.0) < 0.1
    assert gap(-1.0) < 0.1


@pytest.mark.parametrize("degree", [2.0, 10.0, 30.0])
def test_the_average_degree_is_about_as_requested(degree):
    graph = csbm(nodes=2000, phi=0.5, degree=degree)
    assert float(graph.degree().mean()) == pytest.approx(degree, rel=0.05)


def test_sizes_are_as_requested_and_classes_as_equal_as_possible():
    graph = csbm(nodes=100, classes=3, features=5)
    assert graph.x.shape == (100, 5)
    assert graph.x.dtype == torch.float32
    assert sorted(graph.y.bincount().tolist()) == [33, 33, 34]
    assert graph.without_self_loops().entries == graph.entries


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"phi": 1.5}, ValueError, r"phi must be between -1 and 1; got 1\.5\.( |$)"),
        ({"phi": float("nan")}, ValueError, r"phi must be between -1 and 1; got nan"),
        ({"classes": 1}, ValueError, "at least 2 classes .* got 1 classes"),
        ({"nodes": 2, "classes": 3}, ValueError, "a node for each; got 3 classes and 2 nodes"),
        ({"nodes": -5}, ValueError, r"nodes must be 0 or more; got -5\.( |$)"),
        ({"nodes": 10.5}, TypeError, r"nodes must be an integer; got 10\.5\.( |$)"),
        ({"features": 0}, ValueError, r"at least 1 feature; got 0\.( |$)"),
        ({"features": 2.5}, TypeError, r"features must be an integer; got 2\.5\.( |$)"),
        ({"degree": 0}, ValueError, r"degree must be above 0 and below .*got 0\.( |$)"),
        ({"nodes": 50, "degree": 50}, ValueError, r"degree must be above 0 and below .*got 50\.( |$)"),
        ({"degree": float("nan")}, ValueError, "degree must be above 0 and below .*got nan"),
        ({"information": float("inf")}, ValueError, "features must be finite"),
    ],
)
def test_bad_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        csbm(**options)
