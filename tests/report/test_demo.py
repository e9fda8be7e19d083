from adaptkry.graphs.synthetic import csbm
from adaptkry.report import demo, html


def test_titles_of_the_demo_contain_the_name_of_the_graph(tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(demo, "DEMO_METHODS", {"mlp": "features only"})
    monkeypatch.setattr(demo, "csbm", lambda **options: csbm(**options | {"nodes": 100}))
    monkeypatch.setattr(html, "write_charts", lambda path, *_, title, **__: titles.append(title) or path)
    rows = demo.train_demo(tmp_path)
    assert [row["graph"] for row in rows] == ["homophilous", "heterophilous"]
    assert [title.partition(":")[0] for title in titles] == ["mlp on homophilous graph", "mlp on heterophilous graph"]
