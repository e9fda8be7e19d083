"""The direction of edges is chosen on validation nodes."""

from adaptkry.paper.cells import MeasuredCell
from adaptkry.paper.items import direction
from adaptkry.paper.published import PAPER


def test_the_direction_is_chosen_on_validation_nodes_even_if_another_is_better_on_test_nodes(row):
    scores = {"both": (0.5, 0.5), "out": (0.8, 0.6), "in": (0.7, 0.9), "out and in": (0.1, 0.1)}
    cells = {
        (name, "actor"): MeasuredCell(
            tuple(row("direction", split=s, validation=validation, test=test + 0.01 * s) for s in range(2))
        )
        for name, (validation, test) in scores.items()
    }
    assert direction.chosen_direction(cells, PAPER["direction"], "actor") == "out"
    assert direction.chosen_direction(cells, PAPER["direction"], "squirrel") is None
    (note,) = direction.section(cells, PAPER["direction"])["notes"]
    assert note.startswith("actor: 'out' is best on validation nodes: +10.00 ± 0.00 points on test nodes")
