from adaptkry.report import charts as plots
from adaptkry.report import demo


def test_pictures_of_the_demo_tell_which_graph_they_are_of(tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(demo, "CONTENDERS", {"mlp": "features alone"})
    monkeypatch.setattr(plots, "run_picture", lambda path, *, title, **_: titles.append(title) or path)
    rows = demo.contest(tmp_path)
    assert [row["graph"] for row in rows] == ["homophilous", "heterophilous"]
    assert [title.partition(":")[0] for title in titles] == ["mlp on homophilous graph", "mlp on heterophilous graph"]
