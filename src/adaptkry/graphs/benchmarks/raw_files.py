"""Raw files of the benchmark graphs: find them, and verify them before they are parsed."""

import codecs
import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.graphs.benchmarks.catalogue import Card

ALLOWED_GLOBALS: dict[tuple[str, str], Any] = {  # what a pickle of NumPy arrays refers to, in old and new NumPy
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0] for core in ("core", "_core")},
    ("_codecs", "encode"): codecs.encode,  # bytes, in pickles that Python 2 can read
}


def cache_folder() -> Path:
    """The folder of parsed graphs and downloads: $ADAPTKRY_CACHE, or ~/.cache/adaptkry."""
    return Path(os.environ.get("ADAPTKRY_CACHE") or Path.home() / ".cache" / "adaptkry").expanduser()


def download_folder() -> Path:
    """The folder of downloaded files, in the layout of a mirror."""
    return cache_folder() / "downloads"


def search_folders(root: str | Path | None = None) -> list[Path]:
    """The folders that are searched, in order: `root`, $ADAPTKRY_DATA, earlier downloads."""
    given = [folder for folder in (root, os.environ.get("ADAPTKRY_DATA")) if folder]
    folders = [Path(folder).expanduser() for folder in (*given, download_folder())]
    return list(dict.fromkeys(folders))


def find(card: Card, root: str | Path | None = None) -> Path | None:
    """The first folder that has every file of the card, or None."""
    if root is not None and not Path(root).expanduser().is_dir():
        raise FileNotFoundError(
            f"the data root must be a folder; {root} does not exist. Use one that holds {card.files[0]}."
        )
    folders = search_folders(root)
    return next((folder for folder in folders if all((folder / path).is_file() for path in card.files)), None)


def missing_files_error(card: Card, root: str | Path | None, reason: str) -> FileNotFoundError:
    """The error that says which files to put where, for users without a network connection."""
    searched = search_folders(root)
    present = {path for path in card.files for folder in searched if (folder / path).is_file()}
    missing = [path for path in card.files if path not in present] or card.files  # all present, but in several folders
    return FileNotFoundError(
        f"the files of {card.name} must be in one folder; they were not found, and {reason}. Get them from "
        f"{card.source} and put {', '.join(missing)} under one of {', '.join(map(str, searched))}, or under the "
        f"folder given by $ADAPTKRY_DATA or --data-root."
    )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(card: Card, folder: Path, *, published: bool = False) -> dict[str, str]:
    """Digests of the card's files in `folder`; a file with a wrong digest is refused before it is parsed.

    `published` means that the files were downloaded; digests of the published `card.rewritten` files are not known.
    """
    found = {path: digest(folder / path) for path in card.files}
    for path, expected in card.sha256.items():
        if found[path] != expected and not (published and path in card.rewritten):
            raise ValueError(_wrong_digest(card, folder, path, expected, found[path]))
    for path in card.pickles:
        if path not in card.sha256:
            check_only_arrays(folder / path)
    return found


def _wrong_digest(card: Card, folder: Path, path: str, expected: str, found: str) -> str:
    remedy = "Delete it and download it again from"
    if path in card.rewritten:
        remedy = f"If it is the published file, move it to {download_folder()}; otherwise download it again from"
    return (
        f"the SHA-256 of {folder / path} must be {expected} for {card.name}; got {found}. "
        f"The file was not opened. {remedy} {card.source}."
    )


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays, numbers, strings and containers; refuses anything that could run code."""

    def find_class(self, module_name: str, global_name: str):
        if (module_name, global_name) in ALLOWED_GLOBALS:
            return ALLOWED_GLOBALS[module_name, global_name]
        raise pickle.UnpicklingError(f"it refers to {module_name}.{global_name}")


def check_only_arrays(path: Path) -> None:
    """Refuse an .npy file of pickled objects that contains anything but arrays; for files of unknown digest."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            if header(file)[2].hasobject:
                _ArrayUnpickler(file, encoding="latin1").load()
    except Exception as error:  # a broken pickle may raise anything
        raise ValueError(f"{path} must hold NumPy arrays only; {error}. Download it again.") from None
