"""What commands write, and what they never overwrite: one row per (command, situation, expected)."""

import errno
import json
import shutil
import sys
import tempfile

import pytest

from adaptkry.graphs.load import NAMES
from adaptkry.graphs.synthetic import csbm

QUICK = ("--epochs", 2, "--splits", 2)
COMMANDS = {  # the beginning of each command line that ends with its output
    "fit": ("fit", "csbm", *QUICK, "--out"),
    "tune": ("tune", "csbm", *QUICK, "--trials", 1, "--out"),
    "auto": ("auto", "csbm", *QUICK, "--time", "1s", "--out"),
    "compare": ("compare", "csbm", *QUICK, "--methods", "mlp", "--out"),
}


@pytest.mark.parametrize(
    "words",
    [
        *(words for words in COMMANDS.values()),
        ("fit",),
        ("fit", "edges.csv"),
        ("fit", "csbm", "--settings"),
        ("fit", "csbm", "--data-root"),
        ("predict",),
        ("predict", "run"),
        ("predict", "run", "edges.csv", "nodes.csv", "--out"),
        ("report",),
        ("report", "run", "--out"),
        ("report", "run", "--figures"),
        ("demo", "--out"),
        ("inspect",),
        ("generate", "--nodes", 10, "--entries", 10),
        ("propagate", "csbm", "--taus", "1", "--degree", "1", "--out"),
        ("propagate", "csbm", "--taus", "1", "--degree", "1", "--out", "b", "--features"),
        ("reproduce", "angles", "--out"),
        ("reproduce", "angles", "--docs"),
        ("reproduce", "angles", "--data-root"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_path_is_an_error_of_every_command(words, empty, command, tmp_path):
    printed = command(*words, empty, code=2, cwd=tmp_path)
    assert f"must not be empty; got {empty!r}. Is a shell variable unset?" in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["rows.jsonl", "curves.csv", "report.html", "run.json", "comparison.json", "notes.txt"]
)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_folder_with_files_of_the_user_is_refused_before_training(words, name, command, tmp_path):
    (tmp_path / name).write_text("mine")
    printed = command(*words, tmp_path, code=2)
    assert "Use another output folder" in printed.err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}


@pytest.fixture
def own(ring, tmp_path):
    """A folder of the user: the files of the small graph, the run trained on them, and links to the nodes file."""
    for name in ("edges.csv", "nodes.csv"):
        (tmp_path / name).write_bytes((ring / name).read_bytes())
    shutil.copytree(ring / "run", tmp_path / "run")
    (tmp_path / "soft.csv").symlink_to(tmp_path / "nodes.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "nodes.csv")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "predictions.csv").write_text("node,class\nn0,even\n")
    return tmp_path


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "run", "edges.csv", "nodes.csv", "--out", "nodes.csv"), "the output must not be an input"),
        (("predict", "run", "edges.csv", "nodes.csv", "--out", "./edges.csv"), "the output must not be an input"),
        (("predict", "run", "edges.csv", "nodes.csv", "--out", "soft.csv"), "the output must not be an input"),
        (("predict", "run", "edges.csv", "soft.csv", "--out", "hard.csv"), "the output must not be an input"),
        (("predict", "run", ".", "--out", "nodes.csv"), "the output must not be an input"),
        (("predict", "run", "edges.csv", "nodes.csv"), "predictions.csv exists, and is no earlier output"),
        (("predict", "run", "edges.csv", "nodes.csv", "--out", "notes.txt"), "is no earlier output"),
        (("predict", "run", "edges.csv", "nodes.csv", "--out", "run/rows.jsonl"), "is no earlier output"),
        (("predict", "run", "edges.csv", "nodes.csv", "--out", "run/weights.safetensors"), "is no earlier output"),
        (("predict", "run", "--out", "p.csv"), "was trained on files or on a graph of your own"),
        (("report", "run", "--out", "notes.txt"), "is no earlier output"),
        (("report", "run", "--out", "run/facts.json"), "is no earlier output"),
        (("report", "run/facts.json", "--out", "run/facts.json"), "is no earlier output"),
        (("report", "run", "--out", "run/run.json"), "is no earlier output"),
        (("report", "run", "--figures", "."), "must be new, empty or hold figures; . holds edges.csv"),
        (("fit", "edges.csv", "nodes.csv", "--out", "."), "the output folder must be new, empty or of an earlier"),
        (("fit", "edges.csv", "nodes.csv", "--out", "nodes.csv"), "the output folder must be writable"),
        (("fit", ".", "--out", "."), "the output folder must be new, empty or of an earlier"),
        (("tune", "csbm", *QUICK, "--out", "run"), "run holds a run, not a search"),
        (("auto", "csbm", *QUICK, "--out", "run"), "run holds a run, not an automatic search"),
        (("compare", "csbm", *QUICK, "--methods", "mlp", "--out", "run"), "run holds a run, not a comparison"),
        (
            ("predict", "run", "edges.csv", "nodes.csv", "--out", "p.csv.gz"),
            "predictions are written as CSV or Parquet",
        ),
        (("demo", "--out", "."), "must be new, empty or of an earlier demo; . holds edges.csv"),
        (("demo", "--out", "run"), "must be new, empty or of an earlier demo; run holds"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_inputs_and_files_of_the_user_are_not_overwritten(words, message, command, own):
    before = contents(own)
    assert message in " ".join(command(*words, code=2, cwd=own).err.split())
    assert contents(own) == before


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("docs/reproduction.md", "docs/reproduction.md exists, and is no earlier output"),
        ("docs/methods.md", "docs/methods.md exists, and is no earlier output"),
        ("docs/reproduction/report.html", "report.html exists, and is no earlier output"),
        ("docs/reproduction/thesis.tex", "must hold files of the reproduction only; got thesis.tex"),
        ("rows/figure-1.jsonl", "rows/figure-1.jsonl exists, and is no earlier output"),
    ],
)
def test_reproduce_overwrites_no_document_and_extends_no_file_of_the_user(file, message, command, tmp_path):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("mine")
    printed = command("reproduce", "figure-1", "--quick", "--out", "rows", "--docs", "docs", code=2, cwd=tmp_path)
    assert message in " ".join(printed.err.split())
    assert list(contents(tmp_path).values()) == [b"mine"]


def test_predictions_and_reports_of_adaptkry_are_replaced(command, own):
    for _ in range(2):
        command("predict", "run", "edges.csv", "nodes.csv", "--out", "p.csv", cwd=own)
        command("report", "run", "--out", "page.html", "--figures", "figures", cwd=own)
    command("predict", "run", "edges.csv", "nodes.csv", "--out", "/dev/null", cwd=own)
    assert (own / "p.csv").read_text().startswith("id,class,probability,p(")


def test_predict_without_files_uses_the_data_of_the_run_only_if_they_are_unchanged(command, ring, tmp_path):
    (tmp_path / "csbm").mkdir()
    for name in ("edges.csv", "nodes.csv"):
        (tmp_path / "csbm" / name).write_bytes((ring / name).read_bytes())
    command("fit", "csbm/edges.csv", "csbm/nodes.csv", *QUICK, "--out", "mine", "--no-report", cwd=tmp_path)
    printed = command("predict", "mine", "--out", "p.csv", code=2, cwd=tmp_path)
    assert "was trained on files or on a graph of your own ('csbm')" in printed.err
    command("fit", "csbm", *QUICK, "--out", "built-in", "--no-report", cwd=tmp_path)
    command("predict", "built-in", "--out", "p.csv", cwd=tmp_path)
    with pytest.MonkeyPatch.context() as patch:  # as if another version had another built-in graph
        patch.setitem(NAMES, "csbm", lambda: csbm(seed=7))
        printed = command("predict", "built-in", "--out", "q.csv", code=2, cwd=tmp_path)
    assert "csbm is not what built-in was trained on" in printed.err
    assert not (tmp_path / "q.csv").exists()


# The report is a second step: one row per (command, what fails while it is made).

SMALL = {  # quick commands on the small graph; each ends with its output
    "fit": ("fit", "edges.csv", "nodes.csv", *QUICK, "--degree", 2, "--out", "out"),
    "tune": ("tune", "edges.csv", "nodes.csv", *QUICK, "--trials", 1, "--set", "degree=1", "--out", "out"),
    "auto": ("auto", "edges.csv", "nodes.csv", *QUICK, "--set", "hidden=4", "--time", "0.01s", "--out", "out"),
    "compare": ("compare", "edges.csv", "nodes.csv", *QUICK, "--methods", "mlp", "--out", "out"),
}
RESULTS = ("run.json", "comparison.json")
FAILURES = {
    "facts": ("adaptkry.report.html.write_facts", OSError(errno.ENOSPC, "No space left on device", "facts.json")),
    "picture": ("adaptkry.report.html.write_picture", MemoryError("no memory")),
    "page": ("adaptkry.report.html.page", KeyError("a bug")),
    "lock": ("adaptkry.report.html.exclusive_lock", ValueError("another command is writing to out.")),
}


@pytest.fixture
def no_charts(monkeypatch):
    """Charts are files without content: drawing them takes a second."""
    monkeypatch.setattr("adaptkry.report.html.write_charts", lambda path, *_, **__: path.write_bytes(b"png"))


@pytest.mark.usefixtures("no_charts")
@pytest.mark.usefixtures("same_origin")
@pytest.mark.parametrize(
    ("name", "failure"),
    [*((name, failure) for name in SMALL for failure in ("facts", "page")), ("fit", "picture"), ("fit", "lock")],
)
def test_a_failing_report_loses_nothing_and_is_made_later(name, failure, command, own, monkeypatch):
    target, error = FAILURES[failure]
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(own))  # for the traceback of a bug
        patch.setattr(target, lambda *_, **__: (_ for _ in ()).throw(error))
        printed = command(*SMALL[name], cwd=own)
    assert "the report could not be made: " in printed.err
    assert "the results in out are complete; `adaptkry report out` makes the report" in printed.err
    assert "accuracy" in printed.out
    assert "report: " not in printed.out
    results = {path: content for path, content in contents(own / "out").items() if path.name in RESULTS}
    assert results
    resumed = command(*SMALL[name], "--resume", cwd=own)
    assert "report: out/report.html" in resumed.out
    facts = json.loads((own / "out" / "facts.json").read_text())
    for file in ("facts.json", "report.html", "picture.png"):
        (own / "out" / file).unlink(missing_ok=True)
    assert "report: out/report.html" in command("report", "out", cwd=own).out
    assert {path: (own / "out" / path).read_bytes() for path in results} == results
    again = json.loads((own / "out" / "facts.json").read_text())
    assert [again["title"], again["lead"]] == [facts["title"], facts["lead"]]
    assert not list((own / "out").glob(".*.part"))


@pytest.mark.usefixtures("no_charts")
@pytest.mark.parametrize("name", SMALL)
def test_the_score_is_printed_before_the_report_is_made_and_ctrl_c_ends_the_report_only(
    name, command, own, monkeypatch
):
    printed_before = []

    def interrupted(*_, **__):
        printed_before.append(sys.stdout.getvalue())  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("adaptkry.report.html.write_facts", interrupted)
        printed = command(*SMALL[name], code=130, cwd=own)
    assert "accuracy" in printed_before[0]
    assert "interrupted; the results in out are complete" in printed.err
    assert "report: out/report.html" in command("report", "out", cwd=own).out


@pytest.mark.parametrize("name", SMALL)
def test_no_report_is_made_if_none_is_wanted(name, command, own):
    printed = command(*SMALL[name], "--no-report", "--json", cwd=own)
    assert json.loads(printed.out)["report"] is None
    assert not {"facts.json", "report.html", "picture.png"} & {path.name for path in (own / "out").iterdir()}


def test_a_resumed_report_has_the_same_bytes(command, own):
    command(*SMALL["fit"], cwd=own)
    before = contents(own / "out")
    for file in ("facts.json", "report.html", "picture.png"):
        (own / "out" / file).unlink()
    command(*SMALL["fit"], "--resume", cwd=own)
    assert contents(own / "out") == before


@pytest.mark.usefixtures("no_charts")
def test_the_report_of_a_replaced_run_is_made_again(command, own):
    command(*SMALL["fit"], cwd=own)
    before = (own / "out" / "report.html").read_bytes()
    assert "--overwrite" in command(*SMALL["fit"], "--set", "hidden=5", cwd=own, code=2).err
    assert (own / "out" / "report.html").read_bytes() == before
    command(*SMALL["fit"], "--set", "hidden=5", "--overwrite", cwd=own)
    assert (own / "out" / "report.html").read_bytes() != before
    assert '"hidden", 5' in (own / "out" / "facts.json").read_text()
    command(*SMALL["fit"], "--set", "hidden=6", "--overwrite", "--no-report", cwd=own)
    assert not [name for name in ("report.html", "facts.json", "picture.png") if (own / "out" / name).exists()]


def test_an_unfinished_run_and_a_comparison_are_not_replaced_unasked(command, own):
    for name in ("fit", "compare"):
        command(*SMALL[name], cwd=own)
        if name == "fit":
            (own / "out" / "checkpoint.safetensors").write_bytes(b"of a killed run")
        assert "--overwrite" in command(*SMALL[name], cwd=own, code=2).err
        shutil.rmtree(own / "out")


@pytest.mark.parametrize(
    ("labels", "edges", "folder"),
    [
        (("$x_1^2$", r"$\frac{$"), [], "plain"),  # once taken for formulas
        (("$", "_^\\"), [], "a $ _ ^ \\ b"),
        (("a", "b"), "unlabelled", "plain"),  # no edge joins two labelled nodes: homophily is not defined
        (("a" * 300, "ü\u2028☃"), [], "plain"),
    ],
)
def test_names_and_edges_that_once_broke_reports(labels, edges, folder, command, tmp_path):
    folder = tmp_path / folder
    folder.mkdir()
    joined = edges == "unlabelled"
    lines = [f"n{i},n{(i + 1) % 80}" if not joined else f"n{i},m{i}" for i in range(80)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    rows = [f"n{i},{labels[i % 2]},{i % 3},{i % 2}" for i in range(80)] + [f"m{i},,0,1" for i in range(80) if joined]
    (folder / "nodes.csv").write_text("id,label,$x,y_1\n" + "\n".join(rows) + "\n", encoding="utf-8")
    printed = command("fit", folder, *QUICK, "--degree", 2, "--out", folder / "out")
    assert "could not be made" not in printed.err
    assert (folder / "out" / "report.html").exists()


def test_resume_refuses_a_finished_run_if_labels_edges_or_settings_changed(command, own):
    command(*SMALL["fit"], "--no-report", cwd=own)
    edges, nodes = (own / "edges.csv").read_text(), (own / "nodes.csv").read_text()
    changes = [
        ("nodes.csv", nodes.replace("n0,even", "n0,<b>odd</b>"), ()),
        ("nodes.csv", nodes.replace("n0,even,0,0", "n0,even,0,1"), ()),
        ("edges.csv", edges.replace("n0,n2\n", "n0,n3\n"), ()),
        ("edges.csv", edges, ("--split", "uniform")),
        ("edges.csv", edges, ("--set", "hidden=9")),
    ]
    for file, text, words in changes:
        before = (own / file).read_text()
        (own / file).write_text(text)
        printed = command(*SMALL["fit"], "--resume", *words, code=2, cwd=own)
        assert "was started with other settings" in printed.err
        assert "accuracy" not in printed.out
        (own / file).write_text(before)
    assert "already complete" in command(*SMALL["fit"], "--resume", "--no-report", cwd=own).err
