"""Paths of your files: there or not, which of them is what, and their name in every error."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

TABLES = (".csv", ".tsv", ".parquet")
GENERIC = {"", "edges", "edge", "nodes", "graph", "data"}  # file names that tell nothing about a graph


def exists(path: Path) -> Path:
    """The path itself, if there is a file."""
    if not path.is_file():
        beside = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1)
        raise FileNotFoundError(f"there is no file {path}." + (f" Did you mean {beside[0]}?" if beside else ""))
    return path


def folder(place: Path) -> tuple[Path, list[Path]]:
    """The tables in a folder: edges.*, and nodes.* if there is one."""
    edges, nodes = ([file for ending in TABLES for file in place.glob(stem + ending)] for stem in ("edges", "nodes"))
    if not edges:
        raise FileNotFoundError(f"a folder must hold edges.csv, .tsv or .parquet (and nodes.*), but {place} does not.")
    return edges[0], nodes[:1]


def name_of(path: Path) -> str:
    """What to call the graph in a file: the file's name, or that of the nearest folder where it is a generic word."""
    names = [path.stem, *(folder.name for folder in path.resolve().parents)]
    return next((name for name in names if name.lower() not in GENERIC), path.stem)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors about what a file holds, with the file in front."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from error
