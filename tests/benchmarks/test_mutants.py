"""The table of mutants: every mutant can be applied, and the program that runs them can tell killed from survived."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.mutants import Mutant, read_mutants, run_tests, selected, summary

from adaptkry.common.rows import read
from benchmarks import mutants

ROOT = Path(__file__).parents[2]
MUTANTS = read_mutants()
AREAS = (
    "spectral/propagation_matrix", "spectral/bases", "graphs/splits", "training/loop", "training/early_stopping",
    "selection/compare", "selection/tune", "selection/ensemble_selection", "selection/auto", "training/checkpoint",
    "training/run_folder", "graphs/readers", "paper/verdicts", "models/suggest", "spectral/structure",
)  # fmt: skip


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_every_mutant_changes_exactly_one_place_of_its_file(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    for mutant in MUTANTS:
        if mutant.file == file:
            assert mutant.applied(text) != text
            if file.endswith(".py"):
                compile(mutant.applied(text), file, "exec")


def test_the_table_covers_every_area_and_its_tests_exist():
    assert len(MUTANTS) >= 100
    assert max(Counter((mutant.file, mutant.name) for mutant in MUTANTS).values()) == 1
    for area in AREAS:
        assert any(area in mutant.file for mutant in MUTANTS)
    for path in {test for mutant in MUTANTS for test in mutant.tests}:
        file, _, name = path.partition("::")
        assert name in (ROOT / file).read_text(encoding="utf-8")


def test_a_mutant_whose_text_is_not_found_exactly_once_is_refused():
    mutant = Mutant("m", "a.py", "x = 1", "x = 2", ())
    assert mutant.applied("x = 1\n") == "x = 2\n"
    for text, count in (("", 0), ("x = 1\nx = 1\n", 2)):
        with pytest.raises(ValueError, match=f"must be found once in a.py; got {count} times"):
            mutant.applied(text)


def test_a_mutant_is_killed_if_a_test_fails_and_survives_if_all_pass(tmp_path):
    (tmp_path / "code.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_code.py").write_text("from code import double\ndef test_it():\n    assert double(0) == 0\n")
    (tmp_path / "test_both.py").write_text(
        "from pathlib import Path\ndef test_it():\n    assert '2 *' in Path('code.py').read_text()\n"
    )
    found = {}
    for tests in (("test_both.py",), ("test_code.py",), ("missing.py",)):
        with mutants.mutated(Mutant("m", "code.py", "2 * x", "3 * x", tests), tmp_path):
            found[tests[0]] = run_tests((*tests, "-c", "/dev/null"), tmp_path)[0]
    assert found == {"test_both.py": "killed", "test_code.py": "survived", "missing.py": "error"}
    assert "2 * x" in (tmp_path / "code.py").read_text()


def test_mutants_are_selected_by_parts_of_file_or_name():
    assert selected(MUTANTS, []) == MUTANTS
    assert {mutant.file for mutant in selected(MUTANTS, ["graphs/splits.py"])} == {"src/adaptkry/graphs/splits.py"}
    assert [mutant.file for mutant in selected(MUTANTS, ["the interval has 90 %"])] != []


def test_the_copy_of_the_tree_has_the_files_that_git_does_not_ignore(tmp_path):
    mutants.copy_tree(tmp_path)
    assert (tmp_path / "src" / "adaptkry" / "__init__.py").is_file()
    assert (tmp_path / "tests" / "mutants.toml").is_file()
    assert not (tmp_path / ".venv").exists()
    listed = subprocess.run(["git", "-C", str(tmp_path), "ls-files"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""


def test_the_summary_names_survivors_and_the_share():
    rows = [{"state": state, "file": "f.py", "mutant": state} for state in ("killed", "survived", "killed", "killed")]
    assert summary(rows) == "survived: f.py: survived\n3 of 4 mutants killed (75.0 %)"


def test_the_last_results_cover_the_table_and_at_least_95_per_cent_are_killed():
    newest = {(row["file"], row["mutant"]): row["state"] for row in read(ROOT / "results" / "mutants.jsonl")}
    states = [newest.get((mutant.file, mutant.name), "not run") for mutant in MUTANTS]
    assert states.count("killed") >= 0.95 * len(MUTANTS)
