"""The content of `paper.toml`: what the paper prints, what is run here, and the reasons for differences."""

import tomllib
from importlib.resources import files
from typing import Any


def load() -> dict[str, Any]:
    """The items by name, with every reason spelled out; `rerun` holds the accuracies of the authors' program."""
    items = tomllib.loads((files("adaptkry.paper") / "paper.toml").read_text(encoding="utf-8"))
    phrases = items.pop("phrases")
    for item in items.values():
        for cell, reason in item.get("reasons", {}).items():
            item["reasons"][cell] = spelled_out(reason, phrases, items["rerun"])
    return items


def spelled_out(reason: str, phrases: dict[str, str], accuracies: dict[str, float]) -> str:
    """A reason with {names} replaced: PHRASES by their text, graphs by the accuracy of the authors' program.

    >>> spelled_out("{PROGRAM} {cora}.", {"PROGRAM": "It gives"}, {"cora": 89.06})
    'It gives 89.06.'
    """
    return reason.format(**phrases, **{graph: f"{value:.2f}" for graph, value in accuracies.items()})


PAPER = load()
