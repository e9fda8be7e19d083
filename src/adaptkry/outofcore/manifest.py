"""The manifest of a graph folder or basis folder: a JSON file beside plain .npy files. Nothing is pickled."""

import json
import math
import reprlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from adaptkry.common import files
from adaptkry.common.checks import MAX_CLASSES
from adaptkry.common.choices import STORED_DIRECTIONS, STORED_DTYPES
from adaptkry.common.files import visible_names

MANIFEST = "manifest.json"
FORMATS = {"graph": 1, "basis": 2}  # basis 1: blocks did not record which request they belong to
MAX_STORED_NODES = 2**31 - 1  # node numbers are int32


def _is_count(value: Any, least: int = 0, most: int = 2**62) -> bool:
    return type(value) is int and least <= value <= most  # bool is a subclass of int


def _is_list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_distinct(value: Any, is_valid: Callable[[Any], bool]) -> bool:
    return _is_list_of(is_valid)(value) and len(set(value)) == len(value) > 0


def _one_of(names: Collection[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


def _is_tau(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_block(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


Check = tuple[str, Callable[[Any], bool]]  # what a field must be, and whether a value is
COUNT: Check = ("a non-negative integer", _is_count)
TEXT: Check = ("text", _is_text)
NAMES_OR_NONE: Check = ("a list of names, or missing", lambda value: value is None or _is_list_of(_is_text)(value))
COMMON_FIELDS: dict[str, Check] = {
    "nodes": (f"an integer from 1 to {MAX_STORED_NODES}", lambda value: _is_count(value, 1, MAX_STORED_NODES)),
    "features": COUNT,
    "classes": COUNT,
    "name": TEXT,
    "metric": ("accuracy or roc_auc", _one_of(("accuracy", "roc_auc"))),
    "class_names": NAMES_OR_NONE,
    "feature_names": NAMES_OR_NONE,
    "known_as": ("text, or missing", lambda value: value is None or _is_text(value)),
    "xxh128": (
        "an object of file names and checksums",
        lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    ),
}
FIELDS: dict[str, dict[str, Check]] = {
    "graph": COMMON_FIELDS | {"entries": COUNT, "symmetric": ("true or false", lambda value: isinstance(value, bool))},
    "basis": COMMON_FIELDS
    | {
        "features": ("a positive integer", lambda value: _is_count(value, 1)),
        "degree": COUNT,
        "rows": ("an integer from 1 to the number of nodes", lambda value: _is_count(value, 1, MAX_STORED_NODES)),
        "seed": ("a non-negative integer", lambda value: type(value) is int and value >= 0),
        "dtype": (" or ".join(STORED_DTYPES), _one_of(STORED_DTYPES)),
        "graph": TEXT,
        "row_selection": ("all, labelled or listed", _one_of(("all", "labelled", "listed"))),
        "taus": ("a list of distinct positive numbers", lambda value: _is_distinct(value, _is_tau)),
        "directions": (
            f"a list of distinct directions ({', '.join(STORED_DIRECTIONS)})",
            lambda value: _is_distinct(value, _one_of(STORED_DIRECTIONS)),
        ),
        "blocks": ("a list of pairs [first column, column after the last]", _is_list_of(_is_block)),
    },
}
REMEDIES = {
    "graph": "adaptkry.outofcore.finalise(FOLDER, symmetric=...)",
    "basis": "adaptkry propagate GRAPH ... --out NEW_FOLDER",
}


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest of a folder; refuse a folder of another kind or format, and a damaged manifest."""
    file = path / MANIFEST
    if not file.is_file():
        raise FileNotFoundError(f"{path} must be a {kind} folder; it has no {MANIFEST}. Check the path.")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # damaged JSON and text that is not UTF-8 are ValueErrors
        raise ValueError(f"{file} must be JSON; it cannot be read ({error}). Create the folder again.") from None
    found = manifest.get("kind") if isinstance(manifest, dict) else None
    if found != kind:
        raise ValueError(
            f"{path} must be a {kind} folder; got kind {reprlib.repr(found)}. Use the path of a {kind} folder."
        )
    if type(manifest.get("format")) is not int or manifest["format"] != FORMATS[kind]:
        raise ValueError(
            f"{path} must have format {FORMATS[kind]}; got {reprlib.repr(manifest.get('format'))}, written by another "
            f"version of adaptkry. Create it again with: {REMEDIES[kind]}."
        )
    return check_manifest(path, kind, manifest)


def check_manifest(path: Path, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest; refuse missing fields and values that are not possible."""
    for field, (expected, is_valid) in FIELDS[kind].items():
        if not is_valid(manifest.get(field)):
            refuse_field(path, kind, field, expected, manifest.get(field))
    most = max(manifest["nodes"], MAX_CLASSES)
    if manifest["classes"] > most:
        refuse_field(path, kind, "classes", f"an integer from 0 to {most}", manifest["classes"])
    sizes = {"class_names": (manifest["classes"], math.inf), "feature_names": (manifest["features"],) * 2}
    for field, (least, largest) in sizes.items():
        names = manifest.get(field)
        if names is not None and not least <= len(names) <= largest:
            refuse_field(path, kind, field, f"{least} names", names)
    if manifest.get("rows", 0) > manifest["nodes"]:
        refuse_field(path, kind, "rows", FIELDS[kind]["rows"][0], manifest["rows"])
    return manifest


def refuse_field(path: Path, kind: str, field: str, expected: str, value: Any) -> None:
    """Raise an error about a field of a manifest that cannot be right."""
    raise ValueError(
        f"{field!r} in {path / MANIFEST} must be {expected}; got {reprlib.repr(value)}. Restore the file, or create "
        f"the folder again with: {REMEDIES[kind]}."
    )


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest atomically. It contains no dates, so that the same request gives the same bytes."""
    files.write(path / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def kind_of(path: Path | str) -> str | None:
    """Return "graph" or "basis", or None for anything else."""
    try:
        file = Path(path) / MANIFEST
        kind = json.loads(file.read_text(encoding="utf-8")).get("kind") if file.is_file() else None  # not a pipe
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return kind if isinstance(kind, str) and kind in FORMATS else None


def is_kind(path: Path | str, kind: str) -> bool:
    """Whether the path is a folder of this kind."""
    return kind_of(path) == kind


def refuse_basis(path: Path | str) -> None:
    """Refuse a basis folder where a graph is needed."""
    if is_kind(path, "basis"):
        raise ValueError(
            f"a graph is needed here; got the basis folder {path}. Basis folders are for `adaptkry fit` and `predict`."
        )


def check_output(path: Path, kind: str) -> None:
    """Refuse an output folder with files of another kind: they could be overwritten."""
    found = kind_of(path)
    if found is not None and found != kind:
        raise ValueError(f"{path} holds a {found}, not a {kind}. Use another output folder.")
    if found is None and (path / MANIFEST).exists():
        read_manifest(path, kind)  # raises an error that says what is wrong with it
    if found is None and (others := visible_names(path)):
        raise ValueError(f"{path} must be empty or a {kind} folder; it holds {others[0]}. Use another output folder.")
