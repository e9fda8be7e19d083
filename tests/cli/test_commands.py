"""Commands as users run them, called in the test process."""

import csv
import json
import re
from pathlib import Path

import pytest

from adaptkry.cli.fit import is_complete
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.arrays import write_npz
from adaptkry.graphs.synthetic import csbm
from adaptkry.training.fit import fit
from adaptkry.training.predict import training_data


@pytest.fixture
def run(command, tmp_path):
    """Run a command in the temporary folder of the test; returns what it printed, on one line."""

    def call(*words, code=0) -> str:
        printed = command(*words, code=code, cwd=tmp_path)
        return " ".join((printed.err if code else printed.out).split())

    return call


@pytest.fixture
def files(ring):
    """The files of the small graph."""
    return ring / "edges.csv", ring / "nodes.csv"


def test_fit_writes_a_run_folder_named_after_the_folder_of_the_files(ring):
    assert {path.name for path in (ring / "run").iterdir()} == {
        "journal.jsonl",
        "run.json",
        "weights.safetensors",
        "calibration.safetensors",
        "rows.jsonl",
        "curves.csv",
        "picture.png",
        "facts.json",
        "report.html",
    }
    assert json.loads((ring / "run" / "run.json").read_text())["info"]["graph"] == ring.name


def test_predict_writes_class_names_and_probabilities_for_every_node(ring, files, run, tmp_path):
    run("predict", ring / "run", *files, "--out", "p.csv")
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["id"] for row in rows[:2]] == ["n0", "n1"]
    right = sum(row["class"] == ("<b>odd</b>" if i % 2 else "even") for i, row in enumerate(rows))
    assert right > 55
    assert sum(float(value) for name, value in rows[0].items() if name.startswith("p(")) == pytest.approx(1, abs=1e-4)


def test_a_run_on_own_data_called_csbm_is_not_predicted_on_the_built_in_graph(tmp_path):
    settings = {"splits": "stratified", "count": 1, "degree": 1, "epochs": 1, "device": "cpu"}
    assert training_data(fit("csbm", out=tmp_path / "run", **settings), "run").name == "csbm"
    with pytest.raises(ValueError, match="must have a checksum of its data"):
        training_data(fit("csbm", **settings), "run")
    for own in (csbm(), load("csbm", nodes=100), load(write_npz(csbm(), tmp_path / "csbm.npz"))):
        with pytest.raises(ValueError, match=r"trained on files or on a graph of your own \('csbm'\)\. Pass the graph"):
            training_data(fit(own, **settings), tmp_path)


def test_if_all_trainings_fail_one_line_is_printed(files, run, tmp_path):
    rows = "".join(f"n{i},{'odd' if i % 2 else 'even'}{',3e38' * 50}\n" for i in range(60))
    (tmp_path / "huge.csv").write_text("id,label," + ",".join(f"x{i}" for i in range(50)) + "\n" + rows)
    words = [files[0], "huge.csv", "--splits", 2, "--epochs", 3, "--set", "standardise=false"]
    assert "all 2 trainings failed" in run("fit", *words, "--out", "huge", code=1)
    run("compare", *words, "--methods", "mlp", "--json", code=1)


def test_a_folder_of_another_kind_is_not_written_to(ring, run):
    words = ["compare", "csbm", "--methods", "mlp", "--out", ring / "run"]
    assert "holds a run, not a comparison" in run(*words, code=2)
    assert "holds a run" in run("generate", ring / "run", "--nodes", 100, "--entries", 200, code=2)


def test_folders_for_large_graphs_are_refused_with_the_command_to_use(run, tmp_path):
    run("generate", "big", "--nodes", 200, "--entries", 800, "--features", 4)
    printed = run("inspect", "big", code=2)
    assert "got the graph folder big. Write its basis first" in printed
    assert "adaptkry propagate big" in printed
    run("propagate", "big", "--taus", "1", "--degree", "1", "--out", "big-basis")
    assert "got the basis folder big-basis" in run("compare", "big-basis", "--methods", "mlp", code=2)
    block = next((tmp_path / "big-basis").glob("block*.npy"))
    block.write_bytes(block.read_bytes()[:-4] + b"\x00\x00\x80\x3f")
    assert f"is damaged: {block.name}. Repair it with:" in run("fit", "big-basis", code=2)


def test_fit_uses_its_options_and_a_report_can_show_several_runs(ring, run):
    before = (ring / "run" / "report.html").read_bytes()
    words = ["fit", "csbm", "--epochs", 2, "--splits", 2, "--out", "other/second", "--json", "--restarts", 2]
    found = json.loads(run(*words, "--set", "hidden=7", "--taus", "0.5, 1", "--batch-size", 100))
    assert [len(found["rows"]), sum(row["chosen"] for row in found["rows"])] == [4, 2]
    assert (found["rows"][0]["settings"]["hidden"], found["rows"][0]["settings"]["taus"]) == (7, [0.5, 1.0])
    assert "report: other/report.html" in run("report", "other/second", ring / "run")
    assert (ring / "run" / "report.html").read_bytes() == before


def test_json_of_commands_that_describe_graphs(files, run):
    assert json.loads(run("inspect", *files, "--json"))["facts"]["nodes"] == 60
    assert {"csbm", "cora"} <= {row["name"] for row in json.loads(run("datasets", "--json"))}


def test_fit_names_suggested_settings_in_one_line_and_inspect_gives_the_reasons(files, command, run, tmp_path):
    words = ["--epochs", 2, "--splits", 1, "--set", "hidden=7"]
    printed = " ".join(command("fit", *files, *words, "--out", "a", cwd=tmp_path).err.split())
    line = "settings suggested for this graph: taus 0.5, 1.0; degree 4; tied False; hop_norm True; standardise True;"
    assert f"1 stratified split as one batch, at most 2 epochs {line}" in printed
    assert "`adaptkry inspect GRAPH`" in printed
    shown = run("inspect", *files)
    found = json.loads(run("inspect", *files, "--json"))["suggested"]
    assert all(reason["why"] in shown for reason in found)
    assert "no setting neighbours tend to have the same class" in run("inspect", "csbm")
    assert "`adaptkry fit` uses them" in shown
    assert found[0]["settings"]["taus"] == [0.5, 1.0]
    printed = command("fit", *files, *words, "--method", "mlp", "--set", "standardise=true", "--out", "b", cwd=tmp_path)
    assert "suggested" not in printed.err  # the defaults of the method, and what was given


def test_a_regression_worse_than_the_mean_is_said_to_be(files, command, tmp_path):
    numbers = [(73 * i % 60) / 7 for i in range(60)]
    for name, target in (("noise", [(i * i * 31) % 61 for i in range(60)]), ("twice", [2 * x + 5 for x in numbers])):
        rows = "".join(f"n{i},{y},{x}\n" for i, (y, x) in enumerate(zip(target, numbers, strict=True)))
        (tmp_path / "nodes.csv").write_text("id,label,a\n" + rows)
        words = ["--task", "regression", "--splits", 2, "--epochs", 60, "--no-report", "--method", "mlp"]
        printed = command("fit", files[0], "nodes.csv", *words, "--out", name, cwd=tmp_path)
        r2 = re.findall(r"test r2 (-?[\d.]+)", printed.out)[0]
        text = f"warning: predictions are worse than always predicting the mean (r2 {r2}); train longer (--epochs)"
        assert (float(r2) < 0) == (name == "noise"), r2
        assert " ".join(printed.err.split()).count(text) == (name == "noise")


def test_edges_of_files_keep_their_direction_with_directed(files, run, tmp_path):
    words = ["fit", *files, "--splits", 2, "--epochs", 3, "--degree", 2, "--directions", "out"]
    assert "to keep the direction of edges" in run(*words, "--out", "arcs", code=2)
    run(*words, "--out", "arcs", "--directed")
    rows = [json.loads(line) for line in (tmp_path / "arcs" / "rows.jsonl").read_text().splitlines()]
    assert rows[0]["settings"]["directions"] == ["out"]
    assert "60 predictions" in run("predict", "arcs", *files, "--directed", "--out", "arcs.csv")
    assert "for your own files" in run("fit", "csbm", "--directed", code=2)


RESUME = ("fit", "edges.csv", "nodes.csv", "--epochs", 30, "--splits", 2, "--degree", 2, "--resume", "--out", "run")


def test_resume_shows_a_finished_run_and_a_checkpoint_means_unfinished(ring, command, tmp_path):
    again = command(*RESUME, "--json", cwd=ring)
    assert "already complete" in again.err
    assert len(json.loads(again.out)["rows"]) == 2
    (tmp_path / "run.json").touch()
    assert is_complete(tmp_path)
    (tmp_path / "checkpoint.safetensors").touch()
    assert not is_complete(tmp_path)


def test_tour_checks_the_theory_for_several_taus(run):
    found = json.loads(run("tour", "--nodes", 60, "--json"))
    assert all(check["holds"] for check in found["theory"])
    assert [row["tau"] for row in found["taus"]] == [0.5, 0.8, 1.0, 1.5]


def test_compare_ranks_methods_resumes_and_writes_a_report(run, tmp_path):
    words = ["compare", "csbm", "--methods", "mlp, adaptkry", "--splits", "2", "--split", "stratified"]
    words += ["--epochs", "20", "--out", "both"]
    found = run(*words)
    assert "comparison.json" in found
    assert found.index("adaptkry") < found.index("mlp")
    assert "adaptkry has the best mean: " in found
    assert "corrected for splits that share nodes, not for the number of methods" in found
    page = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert [one["method"] for one in page["methods"]] == ["adaptkry", "mlp"]
    assert found.endswith("report: both/report.html")
    assert (tmp_path / "both" / "report.html").exists()
    journal = tmp_path / "both" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"name": "mlp"' not in line))  # interrupted before mlp
    run(*words, "--resume")
    other = json.loads((tmp_path / "both" / "comparison.json").read_text())["methods"]
    assert other[0]["seconds"] == page["methods"][0]["seconds"]
    assert other[1]["seconds"] != page["methods"][1]["seconds"]
    assert other[1]["mean"] == page["methods"][1]["mean"]
    again = json.loads(run("report", "both", "--out", "again.html", "--figures", "figures", "--json"))
    assert again["report"] == "again.html"
    assert [Path(path).suffix for path in again["figures"]] == [".svg", ".png"]
    assert all((tmp_path / path).exists() for path in again["figures"])


def test_compare_of_several_graphs_writes_a_table_for_a_paper(run, files, tmp_path):
    (tmp_path / "mine").mkdir()
    for path in files:
        (tmp_path / "mine" / path.name).write_bytes(path.read_bytes())
    words = ["compare", "csbm,mine", "--methods", "mlp,sgc", "--splits", "2", "--split", "stratified"]
    words += ["--epochs", "10", "--out", "table"]
    found = run(*words)
    assert "over 2 graphs" in json.loads((tmp_path / "table" / "facts.json").read_text())["lead"]
    assert "mean rank" in found
    assert "Test accuracy (%) on mine" in found
    for suffix, option in (("md", "markdown"), ("tex", "latex"), ("csv", "csv")):
        printed = run(*words, "--resume", "--format", option, "--no-report")
        assert printed == " ".join((tmp_path / "table" / f"table.{suffix}").read_text().split())
    document = json.loads(run(*words, "--resume", "--baseline", "mlp", "--json"))
    assert [Path(path).name for path in document["tables"]] == ["table.md", "table.tex", "table.csv"]
    assert "better than mlp" in (tmp_path / "table" / "table.md").read_text()
    assert [one["graph"] for one in document["methods"]] == ["csbm", "csbm", "mine", "mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "corra"], "Did you mean 'cora'"),
        (["compare", "csbm", "--methods", "adaptcry"], "Did you mean 'adaptkry'"),
        (["fit", "csbm", "--device", "tpu"], "must be auto, cpu or cuda, or"),
        (["fit", "csbm", "--set", "stages=foo,bar"], "stages must be given in a TOML file"),
        (["fit", "csbm", "--set", "initial_weights=foo"], "'foo'"),
        (["fit", "edges.csv", "nodes.csv", "--resume", "--degree", "3", "--out", "run"], "other settings"),
        ([*RESUME, "--split", "uniform"], "other settings"),
        (["report", "nowhere"], "no facts.json"),
        (["fit", "csbm", "--method", "adaptcry"], "Did you mean 'adaptkry'"),
        (["fit", "csbm", "--taus", "-1"], "tau must be positive and finite"),
        (["fit", "csbm", "--degree", "-1"], "degree must be 0 or more"),
        (["fit", "csbm", "--split", "stratify"], "Did you mean 'stratified'"),
        (["fit", "missing.npz"], "missing.npz"),
        (["fit", "csbm", "--device", "cuda"], "needs a CUDA GPU"),
        (["predict", "nowhere"], "a run folder must hold run.json"),
        (["fit", "csbm", "--epochs", "2", "--out", "/proc/nothing"], "/proc/nothing"),
        (["fit", "csbm", "--epochs", "2", "--out", "edges.csv"], "the output folder must be writable; got edges.csv"),
        (["auto", "csbm", "--time", "soon"], "or a number with s, min or h; got 'soon'. Use for example 30s"),
        (["auto", "csbm", "--time", "-5s"], "a time limit must be a positive number"),
        (["auto", "edges.csv"], "at least 2 classes; none of 60 nodes has a label"),
        (["auto", "edges.csv", "one.csv"], "60 labelled nodes (of 60) are all of class 'even'"),
        (["auto", "edges.csv", "two.csv"], "every split needs validation nodes"),
        (["auto", "csbm", "--out", "run"], "run holds a run, not an automatic search"),
        (["fit", "csbm", "--combine", "median"], "unknown way to combine trainings 'median'"),
        (["fit", "csbm", "--set", "hiden=3"], "unknown setting 'hiden'. Did you mean 'hidden'"),
        (["fit", "csbm", "--set", "degree=3", "--degree", "3"], "got degree twice"),
        (["fit", "csbm", "--set", "taus=1", "--taus", "1"], "got taus twice"),
        (["fit", "csbm", "--data-root", "."], "data root is only for benchmark graphs"),
        (["fit", "edges.csv"], "at least 2 classes; none of 60 nodes has a label"),
        (["fit", "edges.csv", "one.csv"], "60 labelled nodes (of 60) are all of class 'even'"),
        (
            ["fit", "edges.csv", "text.csv"],
            "text.csv: column 'a' must hold numbers or categories; node 'n0' has '2024-",
        ),
        (["fit", "edges.csv", "nodes.csv", "--id-column", "ids"], "no column 'ids' for node ids. Did you mean 'id'?"),
        (
            ["auto", "edges.csv", "nodes.csv", "--features", "a,c"],
            "no column 'c' for features. Its columns are 'id', 'la",
        ),
        (["tune", "edges.csv", "nodes.csv", "--missing", "no"], "unknown way to replace missing values 'no'"),
        (["inspect", "edges.csv", "nodes.csv", "--source", "from"], "no column 'from' for the ends of edges"),
        (["compare", "csbm", "--ignore", "a"], "--ignore: options about columns are for your own files; got csbm"),
        (["predict", "run", "--id-column", "id"], "options about columns are for your own files; got no files"),
        (
            ["predict", "run", "edges.csv", "one.csv"],
            "must have the columns that the run was trained on; 'b' not found",
        ),
        (
            ["predict", "run", "edges.csv"],
            "the run needs the columns of a nodes file that it was trained on ('a', 'b')",
        ),
        (["predict", "run"], "Pass the graph: `adaptkry predict run edges.csv nodes.csv`"),
        (["predict", "run", "edges.csv", "nodes.csv", "--out", "run"], "run: Is a directory"),
    ],
    ids=lambda value: "-".join(map(str, value[1:3])) if isinstance(value, list) else "",
)
def test_invalid_input_gives_one_line_and_exit_code_two(words, message, command, ring):
    printed = command(*words, code=2, cwd=ring)
    assert printed.out == ""
    assert message in " ".join(printed.err.split())
    messages = ("adaptkry: ", "adaptkry on ", "auto on ", "feature columns are standardised", "two.csv: 58 of 60 nodes")
    assert printed.err.startswith(messages)


def test_sizes_must_be_integers(run):
    assert "must be an integer; got 'many'" in run("generate", "g", "--nodes", "many", "--entries", "1e3", code=2)
    assert "must be an integer; got '1.5'" in run("generate", "g", "--nodes", "1.5", "--entries", "1e3", code=2)


def test_only_accepts_names_of_rows_and_columns(run):
    words = ["reproduce", "tying", "--quick", "--out", "rows", "--docs", "pages"]
    assert "unknown row or column 'untid'. Did you mean 'untied'" in run(*words, "--only", "tied,untid", code=2)


def test_fit_can_average_restarts_and_its_folder_is_reported_and_predicts_new_nodes(files, run, tmp_path):
    words = ["fit", *files, "--epochs", 10, "--splits", 2, "--degree", 2, "--restarts", 3, "--combine", "mean"]
    found = json.loads(run(*words, "--out", "averaged", "--json"))
    assert [row["settings"]["method"] for row in found["rows"]] == ["ensemble"] * 2
    facts = json.loads((tmp_path / "averaged" / "facts.json").read_text())
    tables = {table["title"]: table["rows"] for table in facts["tables"]}
    assert len(tables["Splits"]) == 2
    assert [row[-1]["text"] for row in tables["Trainings"]] == ["0.333"] * 6
    assert facts["overview"]["trainings"] == 6
    assert "report: averaged/report.html" in run("report", "averaged")
    assert "ensemble of 6 trainings (mean)" in run(*words, "--out", "averaged", "--resume")
    edges, nodes = (file.read_text() for file in files)
    (tmp_path / "edges.csv").write_text(edges + "n0,new\nnew,n2\n")
    (tmp_path / "nodes.csv").write_text(nodes + "new,,0,0\n")
    assert "61 predictions" in run("predict", "averaged", "edges.csv", "nodes.csv")
    assert (tmp_path / "predictions.csv").read_text().splitlines()[-1].startswith("new,even,0.")
