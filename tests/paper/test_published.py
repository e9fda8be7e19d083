"""The printed values in `paper.toml`."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from adaptkry.paper import ITEM_NAMES
from adaptkry.paper.published import PAPER
from adaptkry.paper.reproduce import ITEMS

PAPER_TEXT = Path(__file__).parents[3] / "shared" / "paper" / "adaptkry.tex"


def test_every_item_has_a_name_a_module_and_an_entry_in_the_same_order():
    assert tuple(ITEMS) == ITEM_NAMES == tuple(name for name in PAPER if name != "rerun")
    assert [module.__name__.rpartition(".")[2].replace("_", "-") for module in ITEMS.values()] == list(ITEM_NAMES)
    text = (files("adaptkry.paper") / "paper.toml").read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) == {*ITEM_NAMES, "rerun", "phrases"}


def test_placeholders_in_reasons_are_replaced():
    reasons = PAPER["table-2"]["reasons"]
    assert reasons["adaptkry/chameleon"].endswith(" gives 74.00 ± 1.30.")
    assert not [text for item in PAPER.values() for text in item.get("reasons", {}).values() if "{" in text]


def test_printed_values_are_those_of_the_paper():
    """Every printed value of `paper.toml` is in the source of the paper."""
    if not PAPER_TEXT.exists():
        pytest.skip("the source of the paper is not next to the repository")
    text = PAPER_TEXT.read_text(encoding="utf-8")
    merged = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # 5,429 is a number, (2,110.52) are two
    known = {float(number) for number in re.findall(r"\d+\.?\d*", text + merged)}
    printed = [value for item in PAPER.values() for value in numbers(item.get("paper", {}))]
    assert len(printed) > 300
    assert [value for value in printed if abs(value) not in known] == []


def numbers(value):
    """All numbers in nested tables and lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [] if isinstance(value, str) else [float(value)]
