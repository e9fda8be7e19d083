"""CITATION.cff, BibTeX and the README cite the same paper and version."""

import re
from pathlib import Path

import yaml

from adaptkry.common.citation import BIBTEX, PAPER_BIBTEX, SOFTWARE_BIBTEX
from adaptkry.common.version import VERSION

ROOT = Path(__file__).parents[1]


def fields(bibtex: str) -> dict[str, str]:
    return {name: re.sub(r"[{}]", "", text) for name, text in re.findall(r"(\w+) *= \{(.*)\}", bibtex)}


def test_the_citation_file_and_bibtex_cite_the_same_paper():
    document = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    paper, bibtex = document["preferred-citation"], fields(PAPER_BIBTEX)
    authors = [f"{one['family-names']}, {one['given-names']}" for one in paper["authors"]]
    assert bibtex["author"].replace(r"\`o", "ò") == " and ".join(authors)
    assert (bibtex["title"], int(bibtex["year"]), bibtex["doi"]) == (paper["title"], paper["year"], paper["doi"])


def test_the_version_that_is_cited_is_that_of_the_package():
    document = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert VERSION.startswith(document["version"])
    software = fields(SOFTWARE_BIBTEX)
    assert (software["version"], software["title"]) == (document["version"], document["title"])
    assert software["author"] == document["authors"][0]["name"]


def test_the_readme_has_the_bibtex():
    assert BIBTEX.strip() in (ROOT / "README.md").read_text(encoding="utf-8")
