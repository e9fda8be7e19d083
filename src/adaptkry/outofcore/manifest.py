"""The manifest of a graph folder or basis folder: a JSON file beside plain .npy files. Nothing is pickled."""

import json
from pathlib import Path
from typing import Any

from adaptkry.common import files

MANIFEST = "manifest.json"
FORMATS = {"graph": 1, "basis": 2}  # basis 1: blocks did not record which request they belong to
FIELDS: dict[str, dict[str, type]] = {
    "graph": {
        "nodes": int, "entries": int, "features": int, "classes": int, "name": str, "metric": str, "symmetric": bool,
        "xxh128": dict,
    },
    "basis": {
        "nodes": int, "features": int, "classes": int, "degree": int, "rows": int, "seed": int, "name": str,
        "metric": str, "dtype": str, "graph": str, "row_selection": str, "taus": list, "directions": list,
        "blocks": list, "xxh128": dict,
    },
}  # fmt: skip
REMEDIES = {
    "graph": "adaptkry.outofcore.finalise(FOLDER, symmetric=...)",
    "basis": "adaptkry propagate GRAPH ... --out NEW_FOLDER",
}


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest of a folder; refuse a folder of another kind or format."""
    file = path / MANIFEST
    if not file.is_file():
        raise FileNotFoundError(f"{path} must be a {kind} folder; it has no {MANIFEST}. Check the path.")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # damaged JSON and text that is not UTF-8 are ValueErrors
        raise ValueError(f"{file} must be JSON; it cannot be read ({error}). Create the folder again.") from None
    found = manifest.get("kind") if isinstance(manifest, dict) else None
    if found != kind:
        raise ValueError(f"{path} must be a {kind} folder; got kind {found!r}. Use the path of a {kind} folder.")
    if manifest.get("format") != FORMATS[kind]:
        raise ValueError(
            f"{path} must have format {FORMATS[kind]}; got {manifest.get('format')!r}, written by another version of "
            f"adaptkry. Create it again with: {REMEDIES[kind]}."
        )
    for field, expected in FIELDS[kind].items():
        if not isinstance(manifest.get(field), expected):
            raise ValueError(  # noqa: TRY004  the content of a file is wrong, not an argument
                f"{field!r} in {file} must be of type {expected.__name__}; got {manifest.get(field)!r}. Restore the "
                f"file, or create the folder again with: {REMEDIES[kind]}."
            )
    return manifest


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest atomically. It contains no dates, so that the same request gives the same bytes."""
    files.write(path / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def kind_of(path: Path | str) -> str | None:
    """Return "graph" or "basis", or None for anything else."""
    try:
        kind = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return kind if kind in FORMATS else None


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
    if found is None and path.is_dir():
        others = sorted(file.name for file in path.iterdir() if not file.name.startswith("."))
        if others:
            raise ValueError(
                f"{path} must be empty or a {kind} folder; it holds {others[0]}. Use another output folder."
            )
