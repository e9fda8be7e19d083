"""Run the examples in README.md and docs/, and compare what they print."""

import doctest
import re
from pathlib import Path

import pytest

from adaptkry.models.methods import METHODS
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(page: Path) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_print_what_the_page_says(page):
    report = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(examples(page), out=report.append).failed
    assert not failed, "".join(report)


def test_every_part_of_the_theory_has_an_example():
    theory = next(page for page in PAGES if page.name == "theory.md")
    assert len(examples(theory).examples) >= 6


def test_a_wrong_example_fails(tmp_path):
    page = tmp_path / "wrong.md"
    page.write_text("```python\n>>> 1 + 1\n3\n\n```\n")
    assert doctest.DocTestRunner(optionflags=FLAGS).run(examples(page), out=lambda _: None).failed == 1


def test_the_worked_example_of_adding_a_method_runs():
    page = next(page for page in PAGES if page.name == "add-a-method.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    try:
        exec("\n".join(blocks), {"S2GC_TOML": toml})  # the blocks contain assertions
        assert METHODS["s2gc"].settings["initial_weights"] == "s2gc"
    finally:
        INITIAL_WEIGHTS.pop("s2gc", None)
        METHODS.pop("s2gc", None)


def test_pre_commit_runs_the_checks_of_make_check():
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert check is not None
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in check[1].splitlines()]
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks == commands
