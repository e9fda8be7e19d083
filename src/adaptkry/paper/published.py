"""The content of `paper.toml`: printed values, our settings, and reasons for differences."""

import tomllib
from importlib.resources import files
from typing import Any


def load() -> dict[str, Any]:
    """Read the items by name; placeholders in reasons are replaced. `rerun` is not an item (see `paper.toml`)."""
    items = tomllib.loads((files("adaptkry.paper") / "paper.toml").read_text(encoding="utf-8"))
    phrases = items.pop("phrases")
    for item in items.values():
        for cell, reason in item.get("reasons", {}).items():
            item["reasons"][cell] = replace_placeholders(reason, phrases, items["rerun"])
    return items


def replace_placeholders(reason: str, phrases: dict[str, str], accuracies: dict[str, list[float]]) -> str:
    """Replace {PHRASE} by its text and {graph} by mean and deviation of the authors' program on it.

    >>> replace_placeholders("{PROGRAM} {cora}.", {"PROGRAM": "It gives"}, {"cora": [89.06, 1.24]})
    'It gives 89.06 ± 1.24.'
    """
    return reason.format(**phrases, **{graph: quoted(values) for graph, values in accuracies.items()})


def quoted(values: list[float]) -> str:
    """Format mean and standard deviation."""
    return f"{values[0]:.2f} ± {values[1]:.2f}"


PAPER = load()
