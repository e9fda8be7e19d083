import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "adaptkry"]
CALM = {**os.environ, "COLUMNS": "120", "OMP_WAIT_POLICY": "passive"}


def run(*words, cwd, code=0):
    done = subprocess.run([*COMMAND, *map(str, words)], cwd=cwd, capture_output=True, text=True, env=CALM, timeout=180)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


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
    run("fit", "edges.csv", "nodes.csv", "--epochs", 30, "--splits", 2, "--degree", 2, "--out", "run", cwd=folder)
    return folder


def test_fit_writes_a_run_folder_and_names_it(home):
    files = {path.name for path in (home / "run").iterdir()}
    assert files == {"run.json", "weights.safetensors", "rows.jsonl", "curves.csv", "picture.png"}


def test_predict_writes_class_names_and_probabilities_for_every_node(home):
    run("predict", "run", "--graph", "edges.csv", "--graph", "nodes.csv", "--out", "p.csv", cwd=home)
    rows = list(csv.DictReader((home / "p.csv").read_text().splitlines()))
    assert [row["node"] for row in rows[:2]] == ["n0", "n1"]
    right = sum(row["class"] == ("<b>odd</b>" if i % 2 else "even") for i, row in enumerate(rows))
    assert right > 55
    assert sum(float(value) for name, value in rows[0].items() if name.startswith("p(")) == pytest.approx(1, abs=1e-4)


def test_json_is_for_scripts(home):
    found = json.loads(run("fit", "csbm", "--epochs", 3, "--splits", 2, "--json", cwd=home).stdout)
    assert len(found["rows"]) == 2
    assert json.loads(run("inspect", "edges.csv", "nodes.csv", "--json", cwd=home).stdout)["facts"]["nodes"] == 60
    assert {"csbm", "cora"} <= {row["name"] for row in json.loads(run("datasets", "--json", cwd=home).stdout)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "corra"], "Did you mean 'cora'"),
        (["fit", "csbm", "--method", "adaptcry"], "Did you mean 'adaptkry'"),
        (["fit", "csbm", "--tau", "-1"], "tau must be finite and above 0"),
        (["fit", "csbm", "--degree", "-1"], "degree must be 0 or more"),
        (["fit", "csbm", "--split", "stratify"], "Did you mean 'stratified'"),
        (["fit", "missing.npz"], "missing.npz"),
        (["fit", "csbm", "--device", "cuda"], "no CUDA device"),
        (["predict", "nowhere"], "no run folder"),
        (["fit", "csbm", "--epochs", "2", "--out", "/proc/nothing"], "/proc/nothing"),
    ],
    ids=lambda value: "-".join(value[1:3]) if isinstance(value, list) else "",
)
def test_a_users_mistake_is_one_sentence_and_exit_code_two(words, message, home):
    done = run(*words, cwd=home, code=2)
    assert message in " ".join(done.stderr.split())


def test_help_has_examples_everywhere(home):
    for command in ([], ["fit"], ["predict"], ["inspect"], ["datasets"], ["demo"], ["tour"]):
        assert "Examples:" in run(*command, "--help", cwd=home).stdout


def test_ctrl_c_leaves_a_folder_that_can_be_resumed(home):
    words = ["fit", "csbm", "--epochs", "100000", "--out", "stopped", "--splits", "3"]
    process = subprocess.Popen([*COMMAND, *words], cwd=home, env=CALM, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while not (home / "stopped" / "checkpoint.safetensors").exists() and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in said
    assert (home / "stopped" / "checkpoint.safetensors").exists()


def test_the_tour_shows_the_theory(home):
    found = json.loads(run("tour", "--nodes", 60, "--json", cwd=home).stdout)
    assert all(check["holds"] for check in found["theory"])
    assert [row["tau"] for row in found["taus"]] == [0.5, 0.8, 1.0, 1.5]
