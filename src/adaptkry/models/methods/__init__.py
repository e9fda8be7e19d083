"""Methods, one TOML file each: its stages, the source of its settings, and settings to try.

| part of the file | content |
|---|---|
| `title`, `description`, `source` | for readers; `source` is the code or paper that the settings are taken from |
| `[settings]` | settings that differ from the defaults of `Recipe`, with the stages of the model |
| `[published.GRAPH]` | settings published for one graph |
| `[published_like]` | instead: those of another method, with changes |
| `[fallback_grid]` | values to choose from on validation nodes if no settings are published |
| `[search_space]` | what `adaptkry tune` varies |

This module imports only the standard library, so that a command can list the methods without delay.
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
    """A method as described by its TOML file."""

    name: str
    title: str
    description: str
    source: str
    settings: Settings
    published: dict[str, Settings] = field(default_factory=dict)  # graph -> settings
    fallback_grid: dict[str, tuple] = field(default_factory=dict)
    search_space: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_method(name: str, text: str, others: Mapping[str, Method] | None = None) -> Method:
    r"""Read a method from the text of its TOML file.

    >>> read_method("mine", 'title = "Mine"\ndescription = ""\nsource = "none"\n[settings]\ndegree = 3').settings
    {'degree': 3}
    """
    document = tomllib.loads(text)
    unknown = sorted(document.keys() - METHOD_FIELDS)
    missing = sorted({"title", "description", "source", "settings"} - document.keys())
    if unknown or missing:
        wrong = f"unknown {', '.join(unknown)}" if unknown else f"no {', '.join(missing)}"
        raise ValueError(
            f"{name}.toml must have title, description, source and settings, and no parts except "
            f"{', '.join(sorted(METHOD_FIELDS))}; got {wrong}."
        )
    published = {graph: _settings(values) for graph, values in document.get("published", {}).items()}
    like = document.get("published_like")
    if like:
        base = (METHODS if others is None else others)[like["method"]].published
        published = {graph: {**values, **_settings(like["changes"])} for graph, values in base.items()}
    grid = {
        key: tuple(_value(key, value) for value in values) for key, values in document.get("fallback_grid", {}).items()
    }
    about = (document["title"], document["description"], document["source"], _settings(document["settings"]))
    return Method(name, *about, published, grid, document.get("search_space", {}))


def _settings(table: Mapping[str, Any]) -> Settings:
    return {name: _value(name, value) for name, value in table.items()}


def _value(name: str, value: Any) -> Any:
    """Convert a TOML value to that of `Recipe`: lists to tuples, a table of options to pairs."""
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
    # Methods that refer to another one with [published_like] are read last.
    for name in sorted(texts, key=lambda name: ("[published_like]" in texts[name], name)):
        found[name] = read_method(name, texts[name], found)
    return dict(sorted(found.items()))


METHODS: dict[str, Method] = _read_all()
