"""The site of the documentation: formulas, docstrings, pages that are made from other files. `make docs` builds it."""

import doctest
import re
from pathlib import Path

import pytest
import yaml
from docs.site import docstrings, hooks, mathml

import adaptkry as ak

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("module", [mathml, docstrings], ids=lambda module: module.__name__)
def test_the_examples_of_the_module_run(module):
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (found.failed, found.attempted > 0) == (0, True)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"P_\tau", "<msub><mi>P</mi><mi>τ</mi></msub>"),
        (r"x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        (r"\tfrac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        (r"\frac{a}{b+1}", "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac>"),
        (r"\sum_{k=0}^K", "<munderover><mo>∑</mo><mrow><mi>k</mi><mo>=</mo><mn>0</mn></mrow><mi>K</mi></munderover>"),
        (r"\mathcal K \mathbf 1", "<mi>\N{MATHEMATICAL SCRIPT CAPITAL K}</mi><mi>\N{MATHEMATICAL BOLD DIGIT ONE}</mi>"),
        (r"a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
    ],
)
def test_formulas_are_written_as_mathml(formula, expected):
    assert mathml.convert(formula) == f"<math>{expected}</math>"


@pytest.mark.parametrize("formula", [r"\frac{a}", "{a", "x_"])
def test_an_incomplete_formula_is_refused(formula):
    with pytest.raises(ValueError, match="must end after its last argument"):
        mathml.convert(formula)


def test_every_public_name_is_on_one_page_of_the_reference():
    text = "\n".join(hooks.reference(title, packages) for title, packages in hooks.API.values())
    names = re.findall(r"^::: adaptkry\.(\S+)$", text, re.MULTILINE)
    assert sorted(name.rpartition(".")[2] for name in names) == sorted(set(ak.__all__) - {"__version__"})


def test_the_links_of_the_readme_lead_to_pages_and_pictures():
    pages = hooks.made_pages()
    links = set(re.findall(r"\]\(([\w/.-]+)\)", pages["index.md"]))
    assert len(links) > 15
    assert [link for link in links if link not in pages and not (ROOT / "docs" / link).is_file()] == []


def test_every_page_is_in_the_navigation():
    document = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    shown = set(re.findall(r"[\w/-]+\.md", str(document["nav"])))
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert shown == written | set(hooks.made_pages())
