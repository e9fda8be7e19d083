"""Paths of data files: checks, the tables in a folder, the name of a graph, and paths in error messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

TABLES = (".csv", ".tsv", ".parquet")
GENERIC_NAMES = {"", "edges", "edge", "nodes", "graph", "data"}  # file names that do not identify a graph


def check_file(path: Path) -> Path:
    """Return the path if it is a file; otherwise raise an error."""
    if not path.is_file():
        near = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1)
        hint = f"Did you mean {near[0]}?" if near else "Check the path."
        raise FileNotFoundError(f"there is no file {path}. {hint}")
    return path


def tables_in(folder: Path) -> tuple[Path, list[Path]]:
    """The tables in a folder: edges.*, and nodes.* if there is one."""
    edges, nodes = ([file for suffix in TABLES for file in folder.glob(stem + suffix)] for stem in ("edges", "nodes"))
    if not edges:
        raise FileNotFoundError(
            f"a folder must hold edges.csv, .tsv or .parquet (and nodes.*); {folder} does not. Pass the files by name."
        )
    return edges[0], nodes[:1]


def graph_name(path: Path) -> str:
    """Name of the graph in a file: the name of the file or, if it is generic, of the nearest folder."""
    names = [path.stem, *(folder.name for folder in path.resolve().parents)]
    return next((name for name in names if name.lower() not in GENERIC_NAMES), path.stem)


@contextmanager
def error_prefix(path: Path) -> Iterator[None]:
    """Put the file's path in front of errors about its content."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from error
