"""What was asked for, turned into folders and plain values that any worker understands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common import checks
from adaptkry.common.lookup import pick
from adaptkry.common.version import VERSION
from adaptkry.graphs import load as datasets
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore import graph_folder as sealing
from adaptkry.outofcore import row_selection as choosing
from adaptkry.outofcore.block import Job
from adaptkry.outofcore.folders import DTYPES, FORMAT, GraphFolder, blocks_of, is_kind, refuse_basis
from adaptkry.outofcore.memory_plan import Size, make_plan, parse_bytes
from adaptkry.outofcore.npy_files import Stored, checksum
from adaptkry.outofcore.transpose import turned

DIRECTIONS = ("both", "out", "in")


@dataclass(frozen=True)
class Request:
    """The arguments of `propagate` that decide what is written, checked."""

    taus: tuple[float, ...]
    degree: int
    directions: tuple[str, ...] = ("both",)
    rows: Any = "all"
    dtype: str = "float32"
    memory: str | int = "4GiB"
    columns: int | None = None
    features: Path | str | None = None
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "taus", checks.taus(self.taus))
        object.__setattr__(self, "directions", tuple(self.directions))
        object.__setattr__(self, "memory", parse_bytes(self.memory))
        for count in ("degree", "seed"):
            checks.count(getattr(self, count), count)
        if self.columns is not None and checks.count(self.columns, "columns") == 0:
            raise ValueError("columns a block must be 1 or more, but 0 came.")
        pick(DTYPES, self.dtype, "dtype")
        for direction in self.directions or ("",):
            pick(dict.fromkeys(DIRECTIONS), direction, "direction")
        for what in ("taus", "directions"):
            if len(set(getattr(self, what))) < len(getattr(self, what)):
                raise ValueError(f"{what} must differ, but {list(getattr(self, what))} came.")


@dataclass(frozen=True)
class Prepared:
    """What is to be written: the job for workers, the manifest, and the stored rows in their order."""

    job: Job
    manifest: dict[str, Any]
    rows: np.ndarray
    source: GraphFolder


def work_of(out: Path) -> Path:
    """The folder beside a basis for what must be made before it: a graph from files, or turned round."""
    return out.with_name(out.name + ".work")


def prepare(graph, out: Path, asked: Request, say: Callable[[str], object]) -> Prepared:
    """Open or make the graph folders, choose the rows, plan the blocks."""
    source = open_graph(graph, work_of(out), say)
    features, source = with_features(source, asked.features, work_of(out))
    if features.dtype != np.float32:
        say(f"features are {features.dtype}, stored as {asked.dtype}")
    rows = choosing.shuffled(choosing.choose(source, asked.rows), asked.seed)
    heard = [_turned(source, direction, work_of(out), say) for direction in asked.directions]
    plan = make_plan(size_of(heard, features.shape[1], len(rows)), int(asked.memory), asked.columns)
    graphs = tuple(str(folder.path.resolve()) for folder in heard)
    place, x = str(out.resolve()), str(features.path.resolve())  # workers may stand in another folder
    job = Job(place, graphs, x, asked.taus, asked.degree, asked.dtype, len(rows), plan)
    manifest = {
        "kind": "basis",
        "format": FORMAT,
        "version": VERSION,
        "graph": source.fingerprint,
        **{key: source.manifest[key] for key in ("name", "metric", "classes", "nodes")},
        "features": features.shape[1],
        "rows": len(rows),
        "which": choosing.kind_of(asked.rows),
        "taus": list(asked.taus),
        "directions": list(asked.directions),
        **{key: getattr(asked, key) for key in ("degree", "dtype", "seed")},
        "blocks": [list(block) for block in blocks_of(features.shape[1], plan.width)],
    }
    return Prepared(job, manifest, rows, source)


def open_graph(graph, work: Path, say: Callable[[str], object]) -> GraphFolder:
    """A graph folder as it is; anything else that `load` knows is written as one first."""
    if isinstance(graph, GraphFolder):
        return graph
    if isinstance(graph, str | Path) and is_kind(graph, "graph"):
        folder = GraphFolder.open(graph)
        folder.verify()  # a damaged file would give a basis, and a wrong one
        return folder
    if isinstance(graph, str | Path) and (Path(graph) / "indptr.npy").is_file():
        raise ValueError(
            f"{graph} has arrays but no manifest. Write it: adaptkry.outofcore.finalise({str(graph)!r}, symmetric=...)."
        )
    if isinstance(graph, str | Path):
        refuse_basis(graph)
    loaded = graph if isinstance(graph, Graph) else datasets.load(graph)
    say(f"writing {loaded.info.name} as a graph folder: {work / 'graph'}")
    return sealing.write_graph(loaded, work / "graph")


def with_features(source: GraphFolder, features: Path | str | None, work: Path) -> tuple[Stored, GraphFolder]:
    """The features to start from, and the graph as if it had them."""
    if features is None:
        if not source.has("features"):
            raise ValueError(f"{source.name} has no features. Pass them: --features FILE.npy.")
        return source.stored("features"), source
    path = Path(features).expanduser()
    if path.suffix == ".parquet" and path.is_file():
        work.mkdir(parents=True, exist_ok=True)
        sealing.from_parquet(path, work / "features.npy")
        path = work / "features.npy"
    found = Stored.open(path)
    if len(found.shape) != 2 or found.shape[0] != source.nodes or str(found.dtype) not in ("float32", "float64"):
        raise ValueError(
            f"{features} must be float32 or float64 of shape [{source.nodes}, d], one row a node, but {found.dtype} "
            f"{list(found.shape)} came."
        )
    sums = {**source.manifest["xxh128"], "features": checksum(path)}
    return found, replace(source, manifest={**source.manifest, "xxh128": sums})


def _turned(source: GraphFolder, direction: str, work: Path, say: Callable[[str], object]) -> GraphFolder:
    if not (direction == "out" or source.is_symmetric):
        say(
            f'{source.name} is directed: for direction "{direction}" its edges are sorted again into {work / direction}'
        )
    return turned(source, direction, work)


def size_of(heard: Sequence[GraphFolder], features: int, stored: int) -> Size:
    """The most that any of the directions needs."""
    largest = max(int(np.diff(folder.stored("indptr").read()).max()) for folder in heard)
    weighted = any(folder.has("weights") for folder in heard)
    two = weighted or not all(folder.is_symmetric for folder in heard)
    entries = max(folder.entries for folder in heard)
    return Size(heard[0].nodes, entries, largest, features, stored, weighted, two)
