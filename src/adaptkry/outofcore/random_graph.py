"""Write a random graph of any size to a graph folder: power-law degrees, planted classes and features."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common import checks
from adaptkry.common.files import checked_path
from adaptkry.common.journal import Journal
from adaptkry.common.memory import check_memory, format_bytes
from adaptkry.outofcore.external_sort import buckets, even_starts
from adaptkry.outofcore.graph_folder import GraphFolder, finalise
from adaptkry.outofcore.manifest import MANIFEST, MAX_STORED_NODES, check_output, is_kind
from adaptkry.outofcore.npy_files import CHUNK_BYTES, file_checksum, npy_writer, save

PAIRS_PER_CHUNK = 2**21  # pairs drawn at once; another value would give another graph
GAMMA = 2.5  # the number of nodes with degree k is proportional to k^-GAMMA
TAIL = 1 / (GAMMA - 1)  # then the i-th largest expected degree is proportional to i^-TAIL
GRAPH_PARTS = ("edges", "features", "labels")


def generate(
    out: Path | str,
    *,
    nodes: int,
    entries: int,
    features: int = 64,
    classes: int = 10,
    homophily: float = 0.7,
    labelled: float = 1.0,
    directed: bool = False,
    seed: int = 0,
    on_progress: Callable[[int, int], object] | None = None,
) -> GraphFolder:
    """Write a random graph folder; the same arguments give the same bytes. It needs about 20 bytes of memory per node.

    A Chung-Lu graph: the ends of an edge are drawn in proportion to expected degrees, which follow a power law with
    exponent 2.5 up to the square root of `entries`. With probability `homophily` the second end has the class of the
    first, otherwise another class. Self-loops and duplicates are dropped, so there are slightly fewer entries. After an
    interruption, the same call keeps the finished parts.

    Args:
        out: the folder.
        nodes: number of nodes n.
        entries: approximate number of adjacency entries; an undirected edge has two.
        features: number of features d; they are the centre of the class plus noise.
        classes: number of classes, as equal in size as possible.
        homophily: share of edges within a class.
        labelled: share of nodes with a known label; the others have -1.
        directed: make the graph directed.
        seed: the same seed gives the same graph.
        on_progress: called with (bytes done, bytes in total), approximately.
    """
    settings = {name: value for name, value in locals().items() if name not in ("out", "on_progress")}
    check_settings(settings)
    settings |= {"homophily": float(homophily), "labelled": float(labelled), "directed": bool(directed)}
    out, key = (
        checked_path(out, "the graph folder"),
        hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
    )
    with Journal(out, command="generate") as journal:
        check_folder(journal)
        journal.open(key, settings)
        for part, checksums in list(journal.done.items()):
            if part not in GRAPH_PARTS or not all(_is_intact(out, name, known) for name, known in checksums.items()):
                del journal.done[part]  # it is written again
        if journal.missing(GRAPH_PARTS) or not is_kind(out, "graph"):
            check_memory(20 * nodes + 8 * classes * features, "the nodes and classes of a graph that is generated")
            check_disk_space(out, settings)
            (out / MANIFEST).unlink(missing_ok=True)
            write_parts(journal, settings, on_progress)
            checksums = {name: checksum for part in GRAPH_PARTS for name, checksum in journal.done[part].items()}
            finalise(out, symmetric=not directed, name=f"power-law-{nodes}", checksums=checksums)
    return GraphFolder.open(out)


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse sizes that no graph of this kind has."""
    limits = dict.fromkeys(("nodes", "features"), MAX_STORED_NODES) | {"classes": 2**15}  # labels are int16 in memory
    limits |= dict.fromkeys(("entries", "seed"), checks.LARGEST_INTEGER)
    for name, limit in limits.items():
        if checks.count(settings[name], name, limit) == 0 and name != "seed":
            raise ValueError(f"{name} must be at least 1; got 0. Use a larger number.")
    n, c = settings["nodes"], settings["classes"]
    if not 2 <= c <= n // 2:
        raise ValueError(
            f"there must be at least 2 classes with at least 2 nodes each; got {c} classes and {n} nodes. Use fewer "
            f"classes or more nodes."
        )
    maximum = n * (n - 1) // 4
    if settings["entries"] > maximum:
        raise ValueError(
            f"entries must be at most {maximum} for {n} nodes; got {settings['entries']!s:.50}. Use more nodes."
        )
    for name in ("homophily", "labelled"):
        if not isinstance(settings[name], int | float):
            raise TypeError(f"{name} must be a number between 0 and 1; got {settings[name]!r}. Try 0.5.")
        if not 0 <= settings[name] <= 1:
            raise ValueError(f"{name} must be between 0 and 1; got {settings[name]}. Try 0.5.")


def check_folder(journal: Journal) -> None:
    """Refuse a folder with files that `generate` has not written: they could be overwritten."""
    if journal.path is None or journal.path.exists():
        return
    check_output(journal.folder, "graph")
    if is_kind(journal.folder, "graph"):
        name = GraphFolder.open(journal.folder).name
        raise ValueError(f"{journal.folder} already holds another graph ({name}). Delete it, or use another folder.")


def _is_intact(out: Path, name: str, checksum: Any) -> bool:
    """Whether an array that was written before is there and unchanged."""
    path = out / f"{name}.npy"
    return path.is_file() and file_checksum(path) == checksum


def check_disk_space(out: Path, settings: dict[str, Any]) -> None:
    """Raise an error if the graph does not fit on the disk."""
    n, m, d = settings["nodes"], settings["entries"], settings["features"]
    needed = 12 * m + n * (16 + 4 * d)  # entries are written twice: to buckets, then sorted
    free = shutil.disk_usage(out).free
    if needed > free:
        raise OSError(
            f"this graph needs {format_bytes(needed)} on disk; {out} has {format_bytes(free)} free. Free some space, "
            f"or use another disk."
        )


def write_parts(
    journal: Journal, settings: dict[str, Any], on_progress: Callable[[int, int], object] | None = None
) -> None:
    """Write the parts that are missing, and add the checksums of their arrays to the journal."""
    out, missing, (n, seed) = journal.folder, journal.missing(GRAPH_PARTS), (settings["nodes"], settings["seed"])
    sizes = {"edges": 4 * settings["entries"], "features": 4 * n * settings["features"], "labels": 8 * n}
    total, done = sum(sizes[part] for part in missing), 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done = min(done + count, total)
        if on_progress is not None:
            on_progress(done, total)

    order = np.random.default_rng([seed, 0]).permutation(np.arange(n, dtype=np.int32))  # by expected degree
    if "edges" in missing:
        journal.add("edges", _write_edges(out, settings, order, on_bytes))
    labels = np.empty(n, dtype=np.int16)
    labels[order] = np.arange(n) % settings["classes"]
    del order
    if "features" in missing:
        journal.add("features", {"features": _write_features(out, settings, labels, on_bytes)})
    if "labels" in missing:
        unknown = np.random.default_rng([seed, 2]).random(n, dtype=np.float32) >= settings["labelled"]
        journal.add("labels", {"labels": save(out / "labels.npy", np.where(unknown, -1, labels).astype(np.int64))})
        on_bytes(sizes["labels"])


def _write_edges(
    out: Path, settings: dict[str, Any], order: np.ndarray, on_bytes: Callable[[int], object]
) -> dict[str, str]:
    n, directed = settings["nodes"], settings["directed"]
    expected = np.full(n, -(-settings["entries"] // n))  # per row, on average
    with buckets(out / "buckets", n, even_starts(expected)) as sorter:
        for sources, targets in _pairs(settings):
            drawn = len(sources)
            sources, targets = order[sources], order[targets]
            is_edge = sources != targets
            sources, targets = sources[is_edge], targets[is_edge]
            sorter.add(sources, targets)
            if not directed:
                sorter.add(targets, sources)
            on_bytes(4 * drawn * (1 if directed else 2))
        return sorter.write(out)


def _pairs(settings: dict[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ends of edges as ranks, largest degree first; rank r has class r mod c, so all classes have hubs."""
    n, c, m = settings["nodes"], settings["classes"], settings["entries"]
    total = m if settings["directed"] else -(-m // 2)
    for chunk, start in enumerate(range(0, total, PAIRS_PER_CHUNK)):
        random = np.random.default_rng([settings["seed"], 1, chunk])
        count = min(PAIRS_PER_CHUNK, total - start)
        sources = ranks(random.random(count), n, m)
        same = sources % c
        other = (same + random.integers(1, c, count)) % c
        group = np.where(random.random(count) < settings["homophily"], same, other)
        size = (n - group + c - 1) // c  # nodes of that class
        targets = np.minimum(ranks(random.random(count), n, m) // c, size - 1) * c + group
        yield sources, targets


def ranks(uniform: np.ndarray, n: int, entries: int) -> np.ndarray:
    """Ranks 0 .. n-1 with probabilities proportional to (rank + shift)^-TAIL, from uniform numbers in [0, 1).

    The shift limits the largest expected degree to the square root of `entries`: with larger degrees a Chung-Lu graph
    would need more than one edge between two such nodes.
    """
    shift = n * (entries / n * (1 - TAIL) / np.sqrt(entries)) ** (1 / TAIL)
    power = 1 - TAIL
    low, high = shift**power, (n + shift) ** power
    return np.minimum(((low + uniform * (high - low)) ** (1 / power) - shift).astype(np.int64), n - 1)


def _write_features(out: Path, settings: dict[str, Any], labels: np.ndarray, on_bytes: Callable[[int], object]) -> str:
    """Write the centre of the class plus noise for every node; both have norm 1 (the noise on average)."""
    n, d, seed = settings["nodes"], settings["features"], settings["seed"]
    centres = np.random.default_rng([seed, 3]).standard_normal((settings["classes"], d))
    centres = (centres / np.linalg.norm(centres, axis=1, keepdims=True)).astype(np.float32)
    step = max(1, CHUNK_BYTES // (4 * d))
    with npy_writer(out / "features.npy", (n, d), np.float32) as writer:
        for chunk, start in enumerate(range(0, n, step)):
            classes = labels[start : start + step]
            noise = np.random.default_rng([seed, 4, chunk]).standard_normal((len(classes), d), dtype=np.float32)
            writer.write(noise * np.float32(1 / np.sqrt(d)) + centres[classes])
            on_bytes(noise.nbytes)
    return writer.checksum
