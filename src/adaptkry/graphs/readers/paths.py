"""Paths of data files: checks, the tables in a folder, the name of a graph, and paths in error messages."""

import errno
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

TABLES = (".csv", ".tsv", ".parquet")
GENERIC_NAMES = {"", "edges", "edge", "nodes", "graph", "data"}  # file names that do not identify a graph
KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def check_file(path: Path) -> Path:
    """Return the path if it is a regular file; otherwise raise an error that says what it is."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise FileNotFoundError(
                f"there is no file {path.readlink()}, to which {path} is a link. Correct the link."
            ) from None
        names = [file.name for file in path.parent.glob("*") if file.name != path.name]
        near = get_close_matches(path.name, names, n=1)
        hint = f"Did you mean {near[0]}?" if near else "Check the path."
        raise FileNotFoundError(f"there is no file {path}. {hint}") from None
    except OSError as error:
        hint = "Links point to each other: replace them by the file." if error.errno == errno.ELOOP else "Check it."
        raise OSError(f"a path must lead to a file; {path} does not ({error.strerror}). {hint}") from None
    if not stat.S_ISREG(mode):
        kind = next((kind for matches, kind in KINDS if matches(mode)), "a device")
        raise ValueError(f"{path} must be a regular file; it is {kind}. Write the data to a file, and pass its path.")
    return path


def tables_in(folder: Path) -> tuple[Path, list[Path]]:
    """The tables in a folder: edges.*, and nodes.* if there is one."""
    tables = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in TABLES]
    edges, nodes = ([file for file in tables if file.stem.lower() == stem] for stem in ("edges", "nodes"))
    if not edges:
        raise FileNotFoundError(
            f"a folder must hold edges.csv, .tsv or .parquet (and nodes.*); {folder} does not. Pass the files by name."
        )
    for files in (edges, nodes):
        if len(files) > 1:
            raise ValueError(
                f"a folder must hold one file of edges and at most one of nodes; {folder} holds "
                f"{' and '.join(file.name for file in files)}. Pass the files by name."
            )
    return edges[0], nodes


def graph_name(path: Path) -> str:
    """Name of the graph in a file: the name of the file or, if it is generic, of the nearest folder."""
    names = [path.stem, *(folder.name for folder in path.resolve().parents)]
    return next((name for name in names if name.lower() not in GENERIC_NAMES), path.stem)


@contextmanager
def error_prefix(path: Path | str) -> Iterator[None]:
    """Put the file's path in front of errors about its content."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, UnicodeError) else type(error)
        raise kind(f"{path}: {error}") from error


@contextmanager
def parsing(path: Path, expected: str, remedy: str) -> Iterator[None]:
    """Turn whatever a library raises for a damaged file into one error with the file's path."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise ValueError(f"{path} must be {expected}; it cannot be read ({reason:.200}). {remedy}") from None
