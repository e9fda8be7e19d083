"""Documents, which are written from rows."""

import json
import shutil
from pathlib import Path

import pytest

from adaptkry.common import rows
from adaptkry.paper import ACCURACY_ITEMS, cells, documents, reproduce
from adaptkry.paper.published import PAPER
from adaptkry.report.elements import finite

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.usefixtures("_no_data")
def test_a_document_is_the_same_to_the_byte_if_its_rows_are_measured_again(quick, tmp_path):
    """Except for dates and seconds; with one item that trains and one that does not."""
    texts = []
    for _ in range(2):
        shutil.rmtree(tmp_path / "rows", ignore_errors=True)
        reproduce.reproduce(["tying"], quick, tmp_path / "rows", only=["cora"])
        reproduce.reproduce(["figure-1"], quick, tmp_path / "rows")
        documents.write(["tying", "figure-1"], tmp_path / "rows", tmp_path / "docs", quick=True)
        complete = (tmp_path / "docs" / "reproduction.md").read_text()
        texts.append(complete.split("## Provenance of the rows")[0])
        texts.append((tmp_path / "docs" / "reproduction" / "figure-1.svg").read_text())
    assert texts[:2] == texts[2:]
    assert "untied" in texts[0]


def test_an_item_without_rows_is_marked_as_not_run(tmp_path):
    assert "Not run yet: `adaptkry reproduce angles`" in documents.markdown(
        documents.section("angles", tmp_path, False)
    )


def test_names_in_rows_cannot_break_the_table(row, tmp_path):
    hostile = "</script>|x"
    rows.append(tmp_path / "theory.jsonl", [row("theory", value=1, claim=hostile, measured="", note="")])
    text = documents.markdown(documents.section("theory", tmp_path, quick=False))
    assert r"</script>\|x" in text


@pytest.mark.parametrize("name", reproduce.ITEMS)
def test_a_section_can_be_built_if_any_cell_has_no_rows(name, quick_rows):
    is_quick = not (RESULTS / f"{name}.jsonl").exists()  # on built-in graphs: there are no other rows yet
    folder = quick_rows(name)[1] if is_quick else RESULTS
    found = cells.newest(cells.read(folder / f"{name}.jsonl", name)[0], is_quick)
    assert found
    step = max(1, len(found) // 6)
    for key in list(found)[::step]:
        rest = {other: cell for other, cell in found.items() if other != key}
        assert reproduce.ITEMS[name].section(rest, PAPER[name])["tables"]


def test_the_documents_in_the_repository_agree_with_the_rows():
    """They are never edited by hand: text, LaTeX and facts of every item are what its rows give."""
    docs = RESULTS.parent / "docs"
    sections = {name: documents.section(name, RESULTS, quick=False) for name in reproduce.ITEMS}
    shown = {name: one for name, one in sections.items() if name not in ACCURACY_ITEMS or one.rows}
    assert documents.document(list(shown.values()), quick=False) == (docs / "reproduction.md").read_text("utf-8")
    for name, section in shown.items():
        assert documents.latex(section) == (docs / "reproduction" / f"{name}.tex").read_text(encoding="utf-8")
        assert finite(section.facts) == json.loads((docs / "reproduction" / f"{name}.json").read_text(encoding="utf-8"))
    assert documents.methods_page(sections["table-2"]) == (docs / "methods.md").read_text(encoding="utf-8")


def test_the_figures_in_the_repository_are_drawn_from_the_facts_beside_them(tmp_path):
    """They are the same to the byte on every machine."""
    folder = RESULTS.parent / "docs" / "reproduction"
    for path in sorted(folder.glob("*.svg")):
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        drawn = documents.write_figure(tmp_path / path.name, facts["charts"])
        assert drawn.read_bytes() == path.read_bytes(), path.name
