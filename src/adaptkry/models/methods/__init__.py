"""The methods, one TOML file each: what it is made of, where it comes from, and which settings to try.

| part of the file | what |
|---|---|
| `title`, `description`, `source` | for people; `source` is the program or paper that the settings were taken from |
| `[settings]` | settings that differ from the defaults of `Recipe`, with the stages of the model |
| `[published.GRAPH]` | settings published for one graph |
| `[published_like]` | or: those of another method, with changes |
| `[fallback_grid]` | values to try where nothing was published; validation nodes choose |
| `[search_space]` | what `adaptkry tune` varies |

This module imports nothing but the standard library, so that a command can list the methods at once.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

Settings = dict[str, Any]
METHOD_FIELDS = {
    "title",
    "description",
    "source",
    "settings",
    "published",
    "published_like",
    "fallback_grid",
    "search_space",
}


@dataclass(frozen=True)
class Method:
    """One method."""

    name: str
    title: str
    description: str
    source: str
    settings: Settings
    published: dict[str, Settings] = field(default_factory=dict)  # by graph
    fallback_grid: dict[str, tuple] = field(default_factory=dict)
    search_space: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_method(name: str, text: str, others: Mapping[str, Method] | None = None) -> Method:
    r"""A method from the text of its TOML file.

    >>> read_method("mine", 'title = "Mine"\ndescription = ""\nsource = "none"\n[settings]\ndegree = 3').settings
    {'degree': 3}
    """
    page = tomllib.loads(text)
    unknown = sorted(page.keys() - METHOD_FIELDS)
    missing = sorted({"title", "description", "source", "settings"} - page.keys())
    if unknown or missing:
        wrong = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
        raise ValueError(f"{name}.toml must have the parts {', '.join(sorted(METHOD_FIELDS))} and no others; {wrong}.")
    published = {graph: _settings(values) for graph, values in page.get("published", {}).items()}
    like = page.get("published_like")
    if like:
        base = (METHODS if others is None else others)[like["method"]].published
        published = {graph: {**values, **_settings(like["changes"])} for graph, values in base.items()}
    grid = {key: tuple(_value(key, one) for one in values) for key, values in page.get("fallback_grid", {}).items()}
    about = (page["title"], page["description"], page["source"], _settings(page["settings"]))
    return Method(name, *about, published, grid, page.get("search_space", {}))


def _settings(page: Mapping[str, Any]) -> Settings:
    return {name: _value(name, value) for name, value in page.items()}


def _value(name: str, value: Any) -> Any:
    """A TOML value as `Recipe` has it: tuples instead of lists, pairs instead of a table of options."""
    if name == "basis_options":
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


def _read_all() -> dict[str, Method]:
    texts = {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in files(__name__).iterdir()
        if file.name.endswith(".toml")
    }
    found: dict[str, Method] = {}
    for name in sorted(texts, key=lambda name: ("[published_like]" in texts[name], name)):  # those they refer to first
        found[name] = read_method(name, texts[name], found)
    return dict(sorted(found.items()))


METHODS: dict[str, Method] = _read_all()
