"""A big graph from nothing, streamed to a graph folder: power-law degrees, planted classes, features that show them."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common import checks
from adaptkry.common import files as storage
from adaptkry.outofcore.external_sort import buckets, even_starts
from adaptkry.outofcore.folders import MANIFEST, GraphFolder, is_kind, read_manifest
from adaptkry.outofcore.graph_folder import finalise
from adaptkry.outofcore.memory_plan import show_bytes
from adaptkry.outofcore.npy_files import PIECE, save, streaming

PAIRS = 2**21  # drawn at once; part of what the seed means
GAMMA = 2.5  # so many nodes have degree k: about k^-GAMMA
TAIL = 1 / (GAMMA - 1)  # then the i-th busiest node has an expected degree of about i^-TAIL


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
    tick: Callable[[], object] = lambda: None,
) -> GraphFolder:
    """Write a random graph folder; the same arguments give the same bytes. Memory: about 20 bytes a node.

    A Chung-Lu graph: an edge's ends are drawn in proportion to expected degrees, which follow a power law with
    exponent 2.5 up to the square root of `entries`. With chance `homophily` the second end is of the first one's
    class, else of any other class. Self-loops and repeats are dropped, so a few entries fewer come out.

    Args:
        out: the folder.
        nodes: number of nodes n.
        entries: adjacency entries, about; an undirected edge counts twice.
        features: number of features d, each class's centre plus noise.
        classes: number of classes, as equal in size as possible.
        homophily: share of edges within a class.
        labelled: share of nodes whose label is given; the others have -1.
        directed: each edge one way only.
        seed: the same seed gives the same graph.
        tick: called once a step, of `steps(nodes, entries, features, directed)`.
    """
    settings = {name: value for name, value in locals().items() if name not in ("out", "tick")}
    _check(settings)
    out = Path(out)
    if is_kind(out, "graph"):
        return _same(out, settings)
    storage.check_markers(out)
    _room(out, settings)
    out.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng([seed, 0]).permutation(np.arange(nodes, dtype=np.int32))  # busiest first
    sums = _write_edges(out, settings, order, tick)
    labels = np.empty(nodes, dtype=np.int16)
    labels[order] = np.arange(nodes) % classes
    del order
    sums["features"] = _write_features(out, settings, labels, tick)
    unknown = np.random.default_rng([seed, 2]).random(nodes, dtype=np.float32) >= labelled
    sums["labels"] = save(out / "labels.npy", np.where(unknown, -1, labels).astype(np.int64))
    (out / "generated.json").write_text(json.dumps(settings, sort_keys=True) + "\n")
    return finalise(out, symmetric=not directed, name=f"power-law-{nodes}", sums=sums)


def _check(settings: dict[str, Any]) -> None:
    for name in ("nodes", "entries", "features", "classes", "seed"):
        if checks.count(settings[name], name) == 0 and name != "seed":
            raise ValueError(f"{name} must be 1 or more, but 0 came.")
    n, c = settings["nodes"], settings["classes"]
    if not 2 <= c <= min(n // 2, 2**15) or n >= 2**31:
        raise ValueError(f"2 classes or more with 2 nodes each are wanted, but {c} classes and {n} nodes came.")
    if settings["entries"] > n * (n - 1) // 4:
        raise ValueError(f"{n} nodes have room for {n * (n - 1) // 4} entries here, but {settings['entries']} came.")
    for name in ("homophily", "labelled"):
        if not 0 <= settings[name] <= 1:
            raise ValueError(f"{name} is a share from 0 to 1, but {settings[name]} came.")


def _same(out: Path, settings: dict[str, Any]) -> GraphFolder:
    """The folder that is there, if it is the one that was asked for."""
    told = out / "generated.json"
    if not told.is_file() or json.loads(told.read_text()) != settings:
        name = read_manifest(out, "graph")["name"]
        raise ValueError(f"{out} holds another graph already ({name}). Delete it, or choose another folder.")
    return GraphFolder.open(out)


def _room(out: Path, settings: dict[str, Any]) -> None:
    n, m, d = settings["nodes"], settings["entries"], settings["features"]
    needed = 12 * m + n * (16 + 4 * d)  # entries twice: in buckets, then sorted
    place = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OSError(f"this graph needs {show_bytes(needed)} on disk, but {place} has {show_bytes(free)} free.")


def steps(nodes: int, entries: int, features: int, directed: bool = False) -> int:
    """How often `generate` ticks."""
    return _chunks(entries, directed) + -(-nodes // _feature_rows(features))


def _chunks(entries: int, directed: bool) -> int:
    return -(-(entries if directed else -(-entries // 2)) // PAIRS)


def _feature_rows(features: int) -> int:
    return max(1, PIECE // (4 * features))


def _write_edges(out: Path, settings: dict[str, Any], order: np.ndarray, tick: Callable[[], object]) -> dict[str, str]:
    n, directed = settings["nodes"], settings["directed"]
    fair = np.full(n, -(-settings["entries"] // n))
    with buckets(out / "buckets", n, even_starts(fair)) as sorter:
        for sources, targets in _pairs(settings):
            sources, targets = order[sources], order[targets]
            kept = sources != targets
            sources, targets = sources[kept], targets[kept]
            sorter.add(sources, targets)
            if not directed:
                sorter.add(targets, sources)
            tick()
        return sorter.write(out)


def _pairs(settings: dict[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ends of edges as ranks, busiest first; rank r is of class r mod c, so that all classes have all degrees."""
    n, c, m = settings["nodes"], settings["classes"], settings["entries"]
    wanted = m if settings["directed"] else -(-m // 2)
    for chunk, start in enumerate(range(0, wanted, PAIRS)):
        random = np.random.default_rng([settings["seed"], 1, chunk])
        count = min(PAIRS, wanted - start)
        sources = ranks(random.random(count), n, m)
        own = sources % c
        other = (own + random.integers(1, c, count)) % c
        group = np.where(random.random(count) < settings["homophily"], own, other)
        size = (n - group + c - 1) // c  # nodes of that class
        targets = np.minimum(ranks(random.random(count), n, m) // c, size - 1) * c + group
        yield sources, targets


def ranks(uniform: np.ndarray, n: int, entries: int) -> np.ndarray:
    """Ranks 0 .. n-1 in proportion to (rank + shift)^-TAIL, from numbers in [0, 1), without a search.

    The shift keeps the highest expected degree at the square root of `entries`: beyond it a Chung-Lu graph would
    want more than one edge between two busy nodes.
    """
    shift = n * (entries / n * (1 - TAIL) / np.sqrt(entries)) ** (1 / TAIL)
    power = 1 - TAIL
    low, high = shift**power, (n + shift) ** power
    return np.minimum(((low + uniform * (high - low)) ** (1 / power) - shift).astype(np.int64), n - 1)


def _write_features(out: Path, settings: dict[str, Any], labels: np.ndarray, tick: Callable[[], object]) -> str:
    """Each class's centre has length 1, as has the noise."""
    n, d, seed = settings["nodes"], settings["features"], settings["seed"]
    centres = np.random.default_rng([seed, 3]).standard_normal((settings["classes"], d))
    centres = (centres / np.linalg.norm(centres, axis=1, keepdims=True)).astype(np.float32)
    step = _feature_rows(d)
    (out / MANIFEST).unlink(missing_ok=True)
    with streaming(out / "features.npy", (n, d), np.float32) as stream:
        for chunk, start in enumerate(range(0, n, step)):
            own = labels[start : start + step]
            noise = np.random.default_rng([seed, 4, chunk]).standard_normal((len(own), d), dtype=np.float32)
            stream.write(noise * np.float32(1 / np.sqrt(d)) + centres[own])
            tick()
    return stream.checksum
