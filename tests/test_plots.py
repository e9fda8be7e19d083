import matplotlib.pyplot as plt
import numpy as np
import pytest

from adaptkry import plots
from adaptkry.datasets.synthetic import csbm
from adaptkry.operators import Propagation
from adaptkry.spectrum import density_of_states


@pytest.mark.parametrize("learned", [True, False])
def test_neighbouring_panels_of_a_picture_stand_apart(tmp_path, monkeypatch, learned):
    close = plt.close
    monkeypatch.setattr(plt, "close", lambda _: None)
    grid = np.linspace(-1, 1, 11)
    path = plots.run_picture(
        tmp_path / "picture.png",
        title="a title",
        grid=grid,
        responses=grid[:, None] * 1234.5 if learned else None,
        density=density_of_states(Propagation(csbm(nodes=50)), moments=50, probes=4),
        curves={"loss": np.ones((5, 2)), "validation": np.ones((5, 2))},
        confusion=np.eye(3),
        names=["a", "rather long", "c"],
    )
    ends = [(box.x0, box.x1) for axes in plt.gcf().axes if (box := axes.get_tightbbox())]
    left, middle, right, behind_left, behind_middle = ends  # a panel's second axes come last
    assert middle[0] - max(left[1], behind_left[1]) > 15
    assert right[0] - max(middle[1], behind_middle[1]) > 15
    close("all")
    assert path.read_bytes().startswith(b"\x89PNG")
