"""The request for a basis: its arguments, checked, and the folders and plain values that workers need."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adaptkry.common import checks
from adaptkry.common.choices import MIXED_DIRECTIONS, STORED_DIRECTIONS
from adaptkry.common.lookup import pick, some
from adaptkry.common.memory import format_bytes, parse_bytes
from adaptkry.common.version import VERSION
from adaptkry.graphs.graph import Graph, loses_digits
from adaptkry.graphs.load import load
from adaptkry.outofcore.basis_folder import DISK_DTYPES, split_columns
from adaptkry.outofcore.block import BlockBounds, PropagationJob
from adaptkry.outofcore.graph_folder import GraphFolder, from_parquet, write_graph
from adaptkry.outofcore.manifest import FORMATS, MANIFEST, is_kind, read_manifest, refuse_basis
from adaptkry.outofcore.memory_plan import ProblemSize, plan_memory
from adaptkry.outofcore.node_ids import NODE_IDS, ids_of
from adaptkry.outofcore.npy_files import NpyFile, array_checksum, file_checksum
from adaptkry.outofcore.row_selection import labels_of, select_rows, selection_name, shuffled
from adaptkry.outofcore.transpose import oriented
from adaptkry.outofcore.work_folder import make_work_folder, work_folder

logger = logging.getLogger(__name__)

REQUEST_FIELDS = {  # fields of the manifest that determine the blocks -> their names in messages
    "version": "the version of adaptkry", "graph": "the graph (its digest)", "name": "the graph's name",
    "metric": "metric", "classes": "classes", "nodes": "nodes", "features": "features", "rows": "the number of rows",
    "row_selection": "rows", "taus": "taus", "directions": "directions", "degree": "degree", "dtype": "dtype",
    "seed": "seed", "class_names": "the names of classes", "feature_names": "the names of features",
    "known_as": "the known name of the graph",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """The arguments of `propagate` that determine what is written; invalid ones are refused."""

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
        checks.count(self.degree, "degree", checks.MAX_DEGREE)
        checks.count(self.seed, "seed")
        if self.columns is not None and checks.count(self.columns, "columns") == 0:
            raise ValueError("columns per block must be at least 1; got 0. Leave it out for the default.")
        pick(DISK_DTYPES, self.dtype, "dtype")
        check_stored_directions(self.directions)
        for name in ("taus", "directions"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} must be distinct; got {list(values)}. Remove duplicates.")


def check_stored_directions(directions: Sequence[str]) -> None:
    """Refuse directions that a basis folder cannot hold."""
    for direction in directions or ("",):
        if direction in MIXED_DIRECTIONS:
            raise ValueError(
                f"a basis folder can hold the directions {', '.join(STORED_DIRECTIONS)}; got {direction}, a product of "
                "two matrices. Choose from those, or fit on the graph itself."
            )
        pick(dict.fromkeys(STORED_DIRECTIONS), direction, "direction")


@dataclass(frozen=True)
class PreparedBasis:
    """What `propagate` will write: the job for workers, the manifest, and the rows and labels to store, in order."""

    job: PropagationJob
    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]  # file name -> content
    source: GraphFolder

    @property
    def blocks(self) -> list[BlockBounds]:
        """The columns of every block."""
        return [(start, stop) for start, stop in self.manifest["blocks"]]

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of the arrays by file name."""
        return {name: array_checksum(array) for name, array in self.arrays.items()}


def prepare(graph, out: Path, request: Request) -> PreparedBasis:
    """Open or write the graph folders, select the rows and plan the blocks; the caller has locked `out`."""
    work = work_folder(out)
    source = open_graph(graph, work)
    features, source = with_features(source, request.features, work)
    if features.dtype != np.float32:
        logger.info("features are %s, stored as %s", features.dtype, request.dtype)
        warn_of_lost_digits(features)
    rows = shuffled(select_rows(source, request.rows), request.seed)
    check_before_sorting(source, features, len(rows), out, request)
    graphs = [oriented(source, direction, work) for direction in request.directions]
    plan = plan_memory(problem_size(graphs, features.shape[1], len(rows)), int(request.memory), request.columns)
    manifest = {
        "kind": "basis",
        "format": FORMATS["basis"],
        "version": VERSION,
        "graph": source.fingerprint,
        **{key: source.manifest[key] for key in ("name", "metric", "classes", "nodes")},
        **{key: source.manifest[key] for key in ("class_names", "feature_names", "known_as") if key in source.manifest},
        "features": features.shape[1],
        "rows": len(rows),
        "row_selection": selection_name(request.rows),
        "taus": list(request.taus),
        "directions": list(request.directions),
        **{key: getattr(request, key) for key in ("degree", "dtype", "seed")},
        "blocks": [list(block) for block in split_columns(features.shape[1], plan.width)],
    }
    arrays = {"rows.npy": rows, "labels.npy": labels_of(source, rows)}
    if source.has("node_ids"):
        arrays[NODE_IDS] = ids_of(source.array("node_ids"), rows)
    key = hashlib.sha256(json.dumps(settings_of(manifest, array_checksum(rows)), sort_keys=True).encode()).hexdigest()
    paths = tuple(str(folder.path.resolve()) for folder in graphs)  # workers may run in another folder
    job = PropagationJob(
        str(out.resolve()), key, paths, str(features.path.resolve()), request.taus, request.degree, request.dtype,
        len(rows), plan, tuple(folder.edges_fingerprint for folder in graphs),
    )  # fmt: skip
    return PreparedBasis(job, manifest, arrays, source)


def settings_of(manifest: Mapping[str, Any], rows_checksum: str | None) -> dict[str, Any]:
    """The settings in a manifest that must be equal to keep its blocks, by their names in messages."""
    settings = {name: manifest.get(field) for field, name in REQUEST_FIELDS.items()}
    return {**settings, "the stored rows (their checksum)": rows_checksum}


def open_graph(graph, work: Path) -> GraphFolder:
    """Open a graph folder; anything else that `load` accepts is first written as a graph folder."""
    if isinstance(graph, GraphFolder) or (isinstance(graph, str | Path) and is_kind(graph, "graph")):
        folder = graph if isinstance(graph, GraphFolder) else GraphFolder.open(graph)
        folder.verify()  # a damaged file would give a wrong basis
        return folder
    if isinstance(graph, str | Path) and (Path(graph) / "indptr.npy").is_file():
        if os.path.lexists(Path(graph) / MANIFEST):
            read_manifest(Path(graph), "graph")  # raises an error that says what is wrong with it
        raise ValueError(
            f"{graph} must have a manifest; it has only arrays. Write the manifest: "
            f"adaptkry.outofcore.finalise({str(graph)!r}, symmetric=...)."
        )
    if isinstance(graph, str | Path):
        refuse_basis(graph)
    loaded = graph if isinstance(graph, Graph) else load(graph)
    logger.info("writing %s as a graph folder: %s", loaded.info.name, work / "graph")
    shutil.rmtree(make_work_folder(work) / "graph", ignore_errors=True)
    return write_graph(loaded, work / "graph")


def warn_of_lost_digits(features: NpyFile) -> None:
    """Warn of columns whose values become equal in float32, judged by the first rows: bases are not scaled."""
    x = torch.from_numpy(next(chunk for _, chunk in features.chunks()))
    columns = loses_digits(x, x.float()).nonzero()[:, 0].tolist()
    if columns:
        logger.warning(
            "%s: values in the columns %s are too close to each other or too small for float32, and become equal or 0; "
            "subtract their mean first, or use other units", features.path, some(columns, 5),
        )  # fmt: skip


def with_features(source: GraphFolder, features: Path | str | None, work: Path) -> tuple[NpyFile, GraphFolder]:
    """The features to start from, and the graph with these features."""
    if features is None:
        if not source.has("features"):
            raise ValueError(f"a basis needs features; {source.name} has none. Use --features FILE.npy.")
        return source.array("features"), source
    path = Path(features).expanduser()
    if path.suffix.lower() == ".parquet":
        from_parquet(path, make_work_folder(work) / "features.npy")
        path = work / "features.npy"
    found = NpyFile.open(path)
    if (
        len(found.shape) != 2
        or found.shape[1] == 0
        or found.shape[0] != source.nodes
        or str(found.dtype) not in ("float32", "float64")
    ):
        raise ValueError(
            f"{features} must be float32 or float64 of shape [{source.nodes}, d], one row per node; got {found.dtype} "
            f"{list(found.shape)}. Use the features of this graph."
        )
    manifest = {key: value for key, value in source.manifest.items() if key != "feature_names"}
    checksums = {**manifest["xxh128"], "features": file_checksum(path)}
    return found, replace(source, manifest={**manifest, "features": found.shape[1], "xxh128": checksums})


def check_before_sorting(source: GraphFolder, features: NpyFile, rows: int, out: Path, request: Request) -> None:
    """Refuse what cannot succeed before edges are sorted, which may take hours: too little memory or disk space."""
    nodes, entries, d = source.nodes, source.entries, features.shape[1]
    least = ProblemSize(nodes, entries, 0, d, rows, source.has("weights"), False)
    plan_memory(least, int(request.memory), request.columns)
    sorted_graphs = 0 if source.is_symmetric else sum(direction != "out" for direction in request.directions)
    if not any(out.glob("block-*")):  # otherwise only the missing blocks count
        terms = len(request.directions) * len(request.taus) * (request.degree + 1)
        needed = terms * rows * d * DISK_DTYPES[request.dtype].itemsize
        check_free_space(out, needed + 12 * entries * sorted_graphs)


def check_free_space(out: Path, needed: int) -> None:
    """Raise an error if the basis does not fit on the disk."""
    free = shutil.disk_usage(out).free
    if needed > free:
        raise OSError(
            f"the missing blocks of this basis need {format_bytes(needed)} on disk; {out} has {format_bytes(free)} "
            f"free. Free some space, use another disk, or store less: --rows labelled, --dtype bfloat16, fewer --taus."
        )


def problem_size(graphs: Sequence[GraphFolder], features: int, rows: int) -> ProblemSize:
    """The largest sizes over the graphs of all directions."""
    largest_row = max(int(np.diff(folder.array("indptr").read()).max()) for folder in graphs)
    is_weighted = any(folder.has("weights") for folder in graphs)
    has_two_sums = is_weighted or not all(folder.is_symmetric for folder in graphs)
    entries = max(folder.entries for folder in graphs)
    return ProblemSize(graphs[0].nodes, entries, largest_row, features, rows, is_weighted, has_two_sums)
