"""Raw files of the benchmarks: where to find them, and whether they are the right ones, before anything parses them."""

import codecs
import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.graphs.benchmarks.catalogue import Card

ARRAYS: dict[tuple[str, str], Any] = {  # all names in pickled NumPy arrays, under the old and the new module
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0] for core in ("core", "_core")},
    ("_codecs", "encode"): codecs.encode,  # bytes, in pickles as old as Python 2
}


def cache_folder() -> Path:
    """Where graphs and downloads are kept: $ADAPTKRY_CACHE, or ~/.cache/adaptkry."""
    return Path(os.environ.get("ADAPTKRY_CACHE") or Path.home() / ".cache" / "adaptkry").expanduser()


def download_folder() -> Path:
    """Where downloaded files are kept, in the layout of a mirror."""
    return cache_folder() / "downloads"


def search_folders(root: str | Path | None = None) -> list[Path]:
    """Folders that are searched, in order: `root`, $ADAPTKRY_DATA, then our downloads."""
    given = [folder for folder in (root, os.environ.get("ADAPTKRY_DATA")) if folder]
    folders = [Path(folder).expanduser() for folder in (*given, download_folder())]
    return list(dict.fromkeys(folders))


def find(card: Card, root: str | Path | None = None) -> Path | None:
    """The first folder that has every file of the card, or None."""
    if root is not None and not Path(root).expanduser().is_dir():
        raise FileNotFoundError(
            f"the data root must be a folder; {root} does not exist. Use one that holds {card.files[0]}."
        )
    return next((one for one in search_folders(root) if all((one / path).is_file() for path in card.files)), None)


def missing_files_error(card: Card, root: str | Path | None, reason: str) -> FileNotFoundError:
    """An error that says which files to put where, for users without a network."""
    searched = search_folders(root)
    present = {path for path in card.files for folder in searched if (folder / path).is_file()}
    missing = [path for path in card.files if path not in present] or card.files  # all present, but in several folders
    return FileNotFoundError(
        f"the files of {card.name} are not on this machine and {reason}. Fetch them from {card.source} and put "
        f"{', '.join(missing)} under one of {', '.join(map(str, searched))}, or under another folder that "
        f"$ADAPTKRY_DATA or --data-root names."
    )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(card: Card, folder: Path, *, published: bool = False) -> dict[str, str]:
    """Digests of the card's files in `folder`; a file with another digest than the card's is refused unread.

    `published`: the files were downloaded. The published digests of the files in `card.rewritten` are not known.
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
    advice = "Delete it and fetch it again from"
    if path in card.rewritten:
        advice = f"If it is the published file, put it under {download_folder()} instead; otherwise fetch it again from"
    return (
        f"{folder / path} is not the file that {card.name} needs and was not opened: "
        f"its SHA-256 must be {expected}; got {found}. {advice} {card.source}."
    )


class _Arrays(pickle.Unpickler):
    """Reads arrays, numbers, strings and containers; anything that could run code is refused."""

    def find_class(self, module_name: str, global_name: str):
        if (module_name, global_name) in ARRAYS:
            return ARRAYS[module_name, global_name]
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def check_only_arrays(path: Path) -> None:
    """Refuse an .npy file of pickled objects of unknown digest, unless it holds nothing but arrays."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            if header(file)[2].hasobject:
                _Arrays(file, encoding="latin1").load()
    except Exception as error:  # a broken pickle may raise anything
        raise ValueError(f"{path} must hold NumPy arrays only; {error}. It was not opened.") from None
