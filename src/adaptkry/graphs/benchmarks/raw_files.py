"""Raw files of the benchmarks: where they lie, and whether they are the right ones, before anything parses them."""

import codecs
import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.graphs.benchmarks.catalogue import Card

REPOSITORY = Path(__file__).resolve().parents[4]
ARRAYS: dict[tuple[str, str], Any] = {  # all that pickled NumPy arrays name, under the old and the new module
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0] for core in ("core", "_core")},
    ("_codecs", "encode"): codecs.encode,  # bytes, in pickles as old as Python 2
}


def cache() -> Path:
    """Our own folder: $ADAPTKRY_CACHE, or ~/.cache/adaptkry."""
    return Path(os.environ.get("ADAPTKRY_CACHE") or Path.home() / ".cache" / "adaptkry").expanduser()


def downloads() -> Path:
    """Where downloaded files are kept, laid out like a mirror."""
    return cache() / "downloads"


def places(root: str | Path | None = None) -> list[Path]:
    """Folders looked through, in order: `root`, $ADAPTKRY_DATA, ../shared/data, then what was downloaded."""
    named = [folder for folder in (root, os.environ.get("ADAPTKRY_DATA")) if folder]
    shared = [base.parent / "shared" / "data" for base in (REPOSITORY, Path.cwd())]
    found = [Path(folder).expanduser() for folder in (*named, *shared, downloads())]
    return list(dict.fromkeys(found))


def find(card: Card, root: str | Path | None = None) -> Path | None:
    """The first place that has every file of the card, or None."""
    if root is not None and not Path(root).expanduser().is_dir():
        raise FileNotFoundError(f"the data folder {root} does not exist. Name a folder that holds {card.files[0]}.")
    return next((place for place in places(root) if all((place / path).is_file() for path in card.files)), None)


def missing(card: Card, root: str | Path | None, why: str) -> FileNotFoundError:
    """What to put where, for someone without a network."""
    looked = places(root)
    present = {path for path in card.files for place in looked if (place / path).is_file()}
    wanted = [path for path in card.files if path not in present] or card.files  # all there, but in several places
    return FileNotFoundError(
        f"{card.name}: its files are not on this machine and {why}. Fetch them from {card.source} and put "
        f"{', '.join(wanted)} under one of {', '.join(map(str, looked))}, or under a folder of yours "
        f"named by $ADAPTKRY_DATA or --data-root."
    )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(card: Card, place: Path, *, published: bool = False) -> dict[str, str]:
    """Digests of the card's files in `place`; a file that is not what the card says is refused unread.

    `published`: they were downloaded. Of the files in `card.rewritten` nobody has told us the digest then.
    """
    found = {path: digest(place / path) for path in card.files}
    for path, wanted in card.sha256.items():
        if found[path] != wanted and not (published and path in card.rewritten):
            raise ValueError(_refusal(card, place, path, wanted, found[path]))
    for path in card.pickles:
        if path not in card.sha256:
            only_arrays(place / path)
    return found


def _refusal(card: Card, place: Path, path: str, wanted: str, found: str) -> str:
    advice = "Delete it and fetch it again from"
    if path in card.rewritten:
        advice = f"If it is the published file, put it under {downloads()} instead; otherwise fetch it again from"
    return (
        f"{place / path} is not the file {card.name} needs and was not opened: "
        f"SHA-256 {wanted} wanted, {found} found. {advice} {card.source}."
    )


class _Arrays(pickle.Unpickler):
    """Reads arrays, numbers, strings and containers; anything that could run code is refused."""

    def find_class(self, module_name: str, global_name: str):
        if (module_name, global_name) in ARRAYS:
            return ARRAYS[module_name, global_name]
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def only_arrays(path: Path) -> None:
    """Refuse a .npy file of pickled objects, whose digest we do not know, unless it holds nothing but arrays."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            if header(file)[2].hasobject:
                _Arrays(file, encoding="latin1").load()
    except Exception as error:  # a broken pickle may raise anything
        raise ValueError(f"{path} must hold NumPy arrays and nothing else, but {error}. It was not opened.") from None
