"""What commands write, and what they never overwrite: one row per (command, situation, expected)."""

import pytest

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
