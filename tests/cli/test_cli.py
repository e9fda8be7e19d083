import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaptkry.cli import fit as cli

COMMAND = [sys.executable, "-m", "adaptkry"]
CALM = {**os.environ, "COLUMNS": "120", "OMP_WAIT_POLICY": "passive"}


AGAIN = ("fit", "edges.csv", "nodes.csv", "--epochs", 30, "--splits", 2, "--degree", 2, "--resume", "--out", "run")


def run(*words, cwd, code=0):
    done = subprocess.run([*COMMAND, *map(str, words)], cwd=cwd, capture_output=True, text=True, env=CALM, timeout=180)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.fixture
def said(home, monkeypatch, capsys):
    """What a command says, run in this process: quicker, but not as it is run in earnest."""

    def call(*words, code=0) -> str:
        monkeypatch.chdir(home)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "argv", ["adaptkry", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == code
        out = capsys.readouterr()
        return " ".join((out.err if code else out.out).split())

    return call


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a small graph as CSV files, and a run trained on it."""
    folder = tmp_path_factory.mktemp("cli")
    names = [f"n{i}" for i in range(60)]
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target\n" + "".join(f"n{i},n{(i + step) % 60}\n" for i in range(60) for step in (2, 4)))
    with (folder / "nodes.csv").open("w") as file:
        file.write(
            "id,label,a,b\n"
            + "".join(f"{n},{'<b>odd</b>' if i % 2 else 'even'},{i % 2},{i % 7}\n" for i, n in enumerate(names))
        )
    (folder / "one.csv").write_text("id,label,a\n" + "".join(f"{n},even,1\n" for n in names))
    (folder / "text.csv").write_text("id,label,a\n" + "".join(f"{n},even,[x]\n" for n in names))
    run("fit", "edges.csv", "nodes.csv", "--epochs", 30, "--splits", 2, "--degree", 2, "--out", "run", cwd=folder)
    return folder


def test_fit_writes_a_run_folder_and_names_it(home):
    files = {path.name for path in (home / "run").iterdir()}
    assert files == {
        "run.json",
        "weights.safetensors",
        "rows.jsonl",
        "curves.csv",
        "picture.png",
        "facts.json",
        "report.html",
    }


def test_predict_writes_class_names_and_probabilities_for_every_node(home):
    run("predict", "run", "edges.csv", "nodes.csv", "--out", "p.csv", cwd=home)
    rows = list(csv.DictReader((home / "p.csv").read_text().splitlines()))
    assert [row["node"] for row in rows[:2]] == ["n0", "n1"]
    right = sum(row["class"] == ("<b>odd</b>" if i % 2 else "even") for i, row in enumerate(rows))
    assert right > 55
    assert sum(float(value) for name, value in rows[0].items() if name.startswith("p(")) == pytest.approx(1, abs=1e-4)


def test_trainings_that_all_fail_are_a_sentence_and_not_a_traceback(home, said):
    rows = "".join(f"n{i},{'odd' if i % 2 else 'even'}{',3e38' * 50}\n" for i in range(60))
    (home / "huge.csv").write_text("id,label," + ",".join(f"x{i}" for i in range(50)) + "\n" + rows)
    words = ["edges.csv", "huge.csv", "--splits", 2, "--epochs", 3]
    assert "all 2 trainings failed" in said("fit", *words, "--set", "standardise=false", "--out", "huge", code=1)
    told = said("compare", *words, "--methods", "mlp", "--set", "standardise=false", "--json", code=1)
    assert "Traceback" not in told


def test_a_folder_of_another_kind_is_not_written_to(said):
    assert "holds a run, which would be overwritten" in said(
        "compare", "csbm", "--methods", "mlp", "--out", "run", code=2
    )
    assert "holds a run" in said("generate", "run", "--nodes", 100, "--entries", 200, code=2)


def test_a_page_of_several_runs_leaves_their_own_pages_alone(home, said):
    before = (home / "run" / "report.html").read_bytes()
    said("fit", "csbm", "--epochs", 3, "--splits", 2, "--out", "other/second")
    assert "report: other/report.html" in said("report", "other/second", "run")
    assert (home / "run" / "report.html").read_bytes() == before


def test_folders_for_large_graphs_are_told_what_takes_them(home, said):
    said("generate", "big", "--nodes", 200, "--entries", 800, "--features", 4)
    assert "is a graph folder, and a graph that fits in memory is wanted" in said("inspect", "big", code=2)
    said("propagate", "big", "--taus", "1", "--degree", "1", "--out", "big-basis")
    assert "is a basis folder" in said("compare", "big-basis", "--methods", "mlp", code=2)
    block = next((home / "big-basis").glob("block*.npy"))
    block.write_bytes(block.read_bytes()[:-4] + b"\x00\x00\x80\x3f")
    assert f"is damaged: {block.name}. Mend it with:" in said("fit", "big-basis", code=2)


def test_json_is_for_scripts(said):
    assert len(json.loads(said("fit", "csbm", "--epochs", 3, "--splits", 2, "--json"))["rows"]) == 2
    assert json.loads(said("inspect", "edges.csv", "nodes.csv", "--json"))["facts"]["nodes"] == 60
    assert {"csbm", "cora"} <= {row["name"] for row in json.loads(said("datasets", "--json"))}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "corra"], "Did you mean 'cora'"),
        (["compare", "csbm", "--methods", "adaptcry"], "Did you mean 'adaptkry'"),
        (["fit", "csbm", "--device", "tpu"], "must be auto, cpu or cuda"),
        (["fit", "csbm", "--set", "stages=foo,bar"], "stages must begin with one of"),
        (["fit", "csbm", "--set", "stages=combine,foo"], "unknown stage 'foo'"),
        (["fit", "csbm", "--set", "stages=combine"], "end 16 wide, but there are 2 classes"),
        (["fit", "csbm", "--set", "start=foo"], "unknown start 'foo'"),
        (["fit", "edges.csv", "nodes.csv", "--resume", "--degree", "3", "--out", "run"], "other settings"),
        ([*AGAIN, "--split", "stratified"], "other settings"),
        (["report", "nowhere"], "no facts.json"),
        (["fit", "csbm", "--method", "adaptcry"], "Did you mean 'adaptkry'"),
        (["fit", "csbm", "--tau", "-1"], "tau must be positive and finite"),
        (["fit", "csbm", "--degree", "-1"], "degree must be 0 or more"),
        (["fit", "csbm", "--split", "stratify"], "Did you mean 'stratified'"),
        (["fit", "missing.npz"], "missing.npz"),
        (["fit", "csbm", "--device", "cuda"], "no CUDA device"),
        (["predict", "nowhere"], "no run folder"),
        (["fit", "csbm", "--epochs", "2", "--out", "/proc/nothing"], "/proc/nothing"),
        (["fit", "csbm", "--epochs", "2", "--out", "edges.csv"], "a folder that can be written to; got edges.csv"),
        (["fit", "csbm", "--set", "hiden=3"], "unknown setting 'hiden'. Did you mean 'hidden'"),
        (["fit", "csbm", "--set", "degree=3", "--degree", "3"], "degree came twice"),
        (["fit", "csbm", "--data-root", "."], "data root is only for benchmarks"),
        (["fit", "edges.csv"], "at least 2 classes; none of 60 nodes has a label"),
        (["fit", "edges.csv", "one.csv"], "60 labelled nodes (of 60) are all of class 'even'"),
        (["fit", "edges.csv", "text.csv"], "text.csv: column 'a' must hold numbers; node 'n0' has '[x]'"),
        (["predict", "run"], "name them:"),
        (["predict", "run", "--graph", "edges.csv", "--graph", "nodes.csv", "--out", "run"], "run: Is a directory"),
    ],
    ids=lambda value: "-".join(value[1:3]) if isinstance(value, list) else "",
)
def test_a_users_mistake_is_one_sentence_and_exit_code_two(words, message, said):
    assert message in said(*words, code=2)


def test_a_mistake_shows_no_traceback(home):
    assert run("fit", "corra", cwd=home, code=2).stderr.startswith("adaptkry: unknown graph 'corra'")


def test_help_has_examples_everywhere(said):
    for command in ([], ["fit"], ["predict"], ["inspect"], ["datasets"], ["demo"], ["tour"]):
        assert "Examples:" in said(*command, "--help")


def test_a_run_of_ones_own_files_is_named_after_their_folder(home):
    assert json.loads((home / "run" / "run.json").read_text())["about"]["graph"] == home.name


def test_settings_restarts_and_batches_reach_the_training(home):
    words = ["fit", "csbm", "--epochs", 2, "--splits", 2, "--out", "set", "--json"]
    found = json.loads(
        run(*words, "--set", "hidden=7", "--set", "taus=0.5,1", "--restarts", 2, "--batch", 100, cwd=home).stdout
    )
    assert [len(found["rows"]), sum(row["chosen"] for row in found["rows"])] == [4, 2]
    assert (found["rows"][0]["config"]["hidden"], found["rows"][0]["config"]["taus"]) == (7, [0.5, 1.0])


def test_help_tells_how_nodes_are_split_from_how_often(said):
    help_ = " ".join(said("fit", "--help").replace("│", " ").split())
    for words in (
        "The scheme that divides nodes",
        "How many splits of that scheme",
        "ten published",
        "--data-root",
    ):
        assert words in help_


def test_edges_of_own_files_keep_their_direction_when_told_to(home, said):
    words = ["fit", "edges.csv", "nodes.csv", "--splits", 2, "--epochs", 3, "--degree", 2, "--direction", "out"]
    assert "keep their direction with --directed" in said(*words, "--out", "arcs", code=2)
    said(*words, "--out", "arcs", "--directed")
    rows = [json.loads(line) for line in (home / "arcs" / "rows.jsonl").read_text().splitlines()]
    assert rows[0]["config"]["directions"] == ["out"]
    assert "60 predictions" in said("predict", "arcs", "edges.csv", "nodes.csv", "--directed", "--out", "arcs.csv")
    assert "for your own files" in said("fit", "csbm", "--directed", code=2)


def start_long(home, out, *words):
    """A training that goes on until it is stopped; returns once it has written a checkpoint of its own."""
    path = home / out / "checkpoint.safetensors"
    before = path.stat().st_mtime_ns if path.exists() else 0
    words = ["fit", "csbm", "--epochs", "100000", "--set", "patience=100000", "--out", out, "--splits", "3", *words]
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=home, env=CALM, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )  # fmt: skip
    deadline = time.time() + 60
    while (not path.exists() or path.stat().st_mtime_ns == before) and time.time() < deadline:
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_fit_tells_how_to_go_on_and_does(home, sent, code):
    out = f"stopped-{code}"
    for words in ([], ["--resume"]):
        process = start_long(home, out, *words)
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
        assert process.returncode == code
        assert f"--resume goes on from {out}" in said
        assert "Traceback" not in said
    assert {path.name for path in (home / out).iterdir()} == {"checkpoint.safetensors"}


def test_a_finished_run_is_not_resumed_but_a_later_one_that_was_stopped_is(home, tmp_path):
    again = run(*AGAIN, "--json", cwd=home)
    assert "complete already" in again.stderr
    assert len(json.loads(again.stdout)["rows"]) == 2
    (tmp_path / "run.json").touch()
    assert cli.is_complete(tmp_path)
    (tmp_path / "checkpoint.safetensors").touch()
    assert not cli.is_complete(tmp_path)


def test_the_tour_shows_the_theory(home):
    found = json.loads(run("tour", "--nodes", 60, "--json", cwd=home).stdout)
    assert all(check["holds"] for check in found["theory"])
    assert [row["tau"] for row in found["taus"]] == [0.5, 0.8, 1.0, 1.5]


def test_compare_ranks_methods_and_names_its_file(home, said):
    words = ["compare", "csbm", "--methods", "mlp, adaptkry", "--splits", "2", "--split", "stratified"]
    found = run(*words, "--epochs", "20", "--out", "both", cwd=home)
    assert "comparison.json" in found.stdout
    assert found.stdout.index("adaptkry") < found.stdout.index("mlp")
    page = json.loads((home / "both" / "comparison.json").read_text())
    assert [one["method"] for one in page["methods"]] == ["adaptkry", "mlp"]
    assert found.stdout.strip().endswith("report: both/report.html")
    assert (home / "both" / "report.html").exists()
    page["methods"][1]["failed"] = "stopped"  # so it is trained again, and the other one is not
    (home / "both" / "comparison.json").write_text(json.dumps(page))
    said(*words, "--epochs", "20", "--out", "both", "--resume")
    other = json.loads((home / "both" / "comparison.json").read_text())["methods"]
    assert other[0]["seconds"] == page["methods"][0]["seconds"]
    assert other[1]["seconds"] != page["methods"][1]["seconds"]
    assert other[1]["mean"] == page["methods"][1]["mean"]
    words = ["report", "both", "--out", "again.html", "--figures", "figures", "--json"]
    again = json.loads(run(*words, cwd=home).stdout)
    assert again["report"] == "again.html"
    assert [Path(path).suffix for path in again["figures"]] == [".svg", ".png"]
    assert all((home / path).exists() for path in again["figures"])
