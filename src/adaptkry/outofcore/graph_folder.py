"""A graph folder: a graph on disk that need not fit in memory.

| file | content |
|---|---|
| `indptr.npy`, `indices.npy` | adjacency matrix as CSR: int64 [n + 1], int32 [entries]; row i lists the targets of i |
| `weights.npy` | optional, [entries] |
| `features.npy` | float32 or float64 [n, d] in C order |
| `labels.npy` | optional, int64 [n]; -1 is unknown |
| `node_ids.npy` | optional, the user's ids of nodes: UTF-8 bytes, text or integers [n] |
| `manifest.json` | sizes, name, metric, names of classes and features, checksums |
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from adaptkry.common import checks
from adaptkry.common.files import check_output_folder, checked_path, exclusive_lock, visible_names
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers.paths import check_file, parsing
from adaptkry.outofcore.manifest import (
    FORMATS,
    MANIFEST,
    MAX_STORED_NODES,
    check_manifest,
    kind_of,
    read_manifest,
    write_manifest,
)
from adaptkry.outofcore.node_ids import check_ids, encoded
from adaptkry.outofcore.npy_files import CHUNK_BYTES, NpyFile, file_checksum, npy_writer, save

REQUIRED_ARRAYS = ("indptr", "indices")
FLOAT32_TYPES = {"float", "halffloat", "int8", "int16", "uint8", "uint16"}  # of Parquet: exact in float32
ARRAY_DTYPES = {
    "indptr": ("int64",),
    "indices": ("int32",),
    "labels": ("int64",),
    "weights": ("float32", "float64"),
    "features": ("float32", "float64"),
}
ARRAY_NAMES = (*ARRAY_DTYPES, "node_ids")


@dataclass(frozen=True)
class GraphFolder:
    """A graph on disk."""

    path: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, path: Path | str) -> "GraphFolder":
        """Read the manifest and the header of every file; `verify` also reads their content."""
        path = Path(path)
        folder = cls(path, read_manifest(path, "graph"))
        folder.check_headers()
        return folder

    def check_headers(self) -> None:
        """Raise an error unless the arrays have the types and shapes in the manifest."""
        path, n, entries, names = self.path, self.nodes, self.entries, self.manifest["xxh128"]
        expected: dict[str, tuple[int, ...]] = {"indptr": (n + 1,), "indices": (entries,), "labels": (n,)}
        expected |= {"weights": (entries,), "features": (n, self.features), "node_ids": (n,)}
        if not set(REQUIRED_ARRAYS) <= names.keys() <= expected.keys():
            raise ValueError(
                f"the checksums in {path / MANIFEST} must be those of {', '.join(REQUIRED_ARRAYS)} and other arrays of "
                f"a graph; got {', '.join(names)[:100] or 'none'}. Write the manifest again: {_finalise_call(path)}."
            )
        if self.features and not self.has("features"):
            raise ValueError(
                f"{path / MANIFEST} must have the checksum of the {self.features} features; it has none. Write the "
                f"manifest again: {_finalise_call(path)}."
            )
        for name in names:
            array = self.array(name)
            check_type(name, array)
            if array.shape != expected[name]:
                raise ValueError(
                    f"{array.path} must have shape {list(expected[name])} as in the manifest; got "
                    f"{list(array.shape)}. Write the manifest again: {_finalise_call(path)}."
                )

    nodes = property(lambda self: self.manifest["nodes"])
    entries = property(lambda self: self.manifest["entries"])
    features = property(lambda self: self.manifest["features"])
    name = property(lambda self: self.manifest["name"])
    is_symmetric = property(lambda self: self.manifest["symmetric"])

    def has(self, name: str) -> bool:
        """Whether it has an array of this name, such as weights, features or labels."""
        return name in self.manifest["xxh128"]

    def array(self, name: str) -> NpyFile:
        """The array of this name."""
        return NpyFile.open(self.path / f"{name}.npy")

    @property
    def fingerprint(self) -> str:
        """A digest of everything that determines a basis of this graph."""
        return self._digest(self.manifest["xxh128"])

    @property
    def edges_fingerprint(self) -> str:
        """A digest of the edges, which does not depend on features or labels."""
        return self._digest([name for name in ("indptr", "indices", "weights") if self.has(name)])

    def _digest(self, names: Iterable[str]) -> str:
        content = {name: self.manifest["xxh128"][name] for name in names} | {"symmetric": self.is_symmetric}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def verify(self) -> None:
        """Compare every file with its checksum, and check row pointers and labels."""
        for name, expected in self.manifest["xxh128"].items():
            if file_checksum(self.path / f"{name}.npy") != expected:
                raise ValueError(
                    f"{self.path / name}.npy must have the checksum in the manifest; it is damaged or was changed. "
                    f"Restore it, or, if you changed it, write the manifest again: {_finalise_call(self.path)}."
                )
        check_arrays({name: self.array(name) for name in self.manifest["xxh128"]}, self.manifest["classes"])


def _finalise_call(path: Path) -> str:
    return f"adaptkry.outofcore.finalise({str(path)!r}, symmetric=...)"


def write_graph(graph: Graph, path: Path | str) -> GraphFolder:
    """Write a graph in memory as a graph folder, with its node ids and the names of classes and features.

    Args:
        graph: the graph.
        path: a folder that is new or empty.
    """
    path = checked_path(path, "the graph folder")
    if graph.targets is not None:
        raise ValueError(f"graph folders hold classes; got a graph of the task {graph.task}. Fit on the graph itself.")
    if graph.nodes > MAX_STORED_NODES:
        raise ValueError(f"a graph folder must have fewer than 2^31 nodes; got {graph.nodes}. Split the graph.")
    is_created = not path.exists()
    check_output_folder(path)
    with exclusive_lock(path):
        if names := visible_names(path):
            raise ValueError(f"the graph folder must be new or empty; {path} holds {names[0]}. Use another folder.")
        try:
            return _write_graph(graph, path)
        except BaseException:  # so that the same call works again
            for name in (MANIFEST, *(f"{array}.npy" for array in ARRAY_NAMES)):
                (path / name).unlink(missing_ok=True)
            if is_created:
                path.rmdir()
            raise


def _write_graph(graph: Graph, path: Path) -> GraphFolder:
    checksums = {
        "indptr": save(path / "indptr.npy", graph.indptr.numpy().astype(np.int64)),
        "indices": save(path / "indices.npy", graph.indices.numpy().astype(np.int32)),
    }
    if graph.weights is not None:
        checksums["weights"] = save(path / "weights.npy", graph.weights.numpy())
    if graph.features is not None:
        x = graph.features if sp.issparse(graph.features) else graph.in_model_dtype(graph.features)
        checksums["features"] = _write_features(x, path / "features.npy")
    checksums["labels"] = save(path / "labels.npy", graph.y.numpy())
    info = graph.info
    if info.node_ids is not None:
        checksums["node_ids"] = save(path / "node_ids.npy", encoded(info.node_ids))
    about = {"name": info.name, "metric": info.metric, "symmetric": not graph.is_directed}
    about |= {} if info.known_as is None else {"known_as": info.known_as}
    return _write_manifest(path, checksums, info.class_names, info.feature_names, **about)


def _write_features(features, path: Path) -> str:
    """Write features as a dense array; sparse features are converted in chunks of rows."""
    if not sp.issparse(features):
        return save(path, features.numpy())
    step = max(1, CHUNK_BYTES // (features.dtype.itemsize * features.shape[1]))
    with npy_writer(path, features.shape, features.dtype) as writer:
        for start in range(0, features.shape[0], step):
            writer.write(features[start : start + step].toarray())
    return writer.checksum


def finalise(
    path: Path | str,
    *,
    symmetric: bool,
    name: str | None = None,
    metric: str = "accuracy",
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    checksums=None,
) -> GraphFolder:
    """Write the manifest of a folder that already has its .npy files.

    Args:
        path: the folder. `features.parquet` is converted if there is no `features.npy`.
        symmetric: whether the adjacency matrix is symmetric. If not, direction "both" needs another graph folder,
            which `propagate` writes.
        name: the graph's name; by default the folder's name.
        metric: "accuracy" or "roc_auc".
        class_names: the name of every class, for predictions.
        feature_names: the name of every feature column.
        checksums: checksums that are already known, by array.
    """
    path = checked_path(path, "the graph folder")
    if (path / MANIFEST).exists() and kind_of(path) != "graph":
        raise ValueError(f"{path / MANIFEST} must be that of a graph folder; it is of something else. Move it away.")
    if (path / "features.parquet").is_file() and not (path / "features.npy").is_file():
        from_parquet(path / "features.parquet", path / "features.npy")
    is_trusted, checksums = checksums is not None, dict(checksums or {})
    for array in ARRAY_NAMES:
        if array not in checksums and (array in REQUIRED_ARRAYS or (path / f"{array}.npy").is_file()):
            checksums[array] = file_checksum(NpyFile.open(path / f"{array}.npy").path)
    about = {"name": name or path.resolve().name, "metric": metric, "symmetric": bool(symmetric)}
    return _write_manifest(path, checksums, class_names, feature_names, is_trusted=is_trusted, **about)


def _write_manifest(
    path: Path,
    checksums: dict[str, str],
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    *,
    is_trusted: bool = True,
    **about: Any,
) -> GraphFolder:
    arrays = {name: NpyFile.open(path / f"{name}.npy") for name in checksums}
    for name, array in arrays.items():
        check_type(name, array)
    features, labels = arrays.get("features"), arrays.get("labels")
    largest = max((int(part.max()) for _, part in labels.chunks()), default=-1) if labels else -1
    given = {"class_names": class_names, "feature_names": feature_names}
    about |= {key: list(map(str, names)) for key, names in given.items() if names is not None}
    manifest = {
        "kind": "graph",
        "format": FORMATS["graph"],
        "nodes": arrays["indptr"].shape[0] - 1,
        "entries": arrays["indices"].shape[0],
        "features": 0 if features is None else features.shape[1],
        "dtype": None if features is None else str(features.dtype),
        "classes": largest + 1,
        "xxh128": checksums,
        **about,
    }
    check_arrays(arrays, manifest["classes"])
    folder = GraphFolder(path, check_manifest(path, "graph", manifest))
    folder.check_headers()
    if not is_trusted and folder.is_symmetric:
        check_symmetry(folder)
    write_manifest(path, manifest)
    return folder


def check_type(name: str, array: NpyFile) -> None:
    """Refuse an array of another type or number of axes, such as indices that are not int32."""
    if name == "node_ids":
        check_ids(array)
    elif str(array.dtype) not in ARRAY_DTYPES[name]:
        raise TypeError(f"{array.path} must be {' or '.join(ARRAY_DTYPES[name])}; got {array.dtype}. Convert it.")
    axes = 2 if name == "features" else 1
    if len(array.shape) != axes:
        raise ValueError(f"{array.path} must have {axes} axes; got shape {list(array.shape)}. Reshape it.")


def check_arrays(arrays: dict[str, NpyFile], classes: int) -> None:
    """Check that row pointers increase to the number of entries, and that labels are classes."""
    if "labels" in arrays:
        for _, part in arrays["labels"].chunks():
            if len(part) and not -1 <= int(part.min()) <= int(part.max()) < classes:
                raise ValueError(
                    f"{arrays['labels'].path} must hold classes from 0 to {classes - 1}, or -1 for unknown; got "
                    f"{int(part.min())} to {int(part.max())}. Number the classes from 0."
                )
    indptr, entries = arrays["indptr"].read(), arrays["indices"].shape[0]
    if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != entries or (np.diff(indptr) < 0).any():
        raise ValueError(
            f"{arrays['indptr'].path} must increase from 0 to the number of entries {entries}; got {len(indptr)} "
            f"values from {indptr[:1]} to {indptr[-1:]}, possibly decreasing. Use the indptr of a SciPy csr_array."
        )


def check_indices(array: NpyFile, indices: np.ndarray, nodes: int) -> np.ndarray:
    """Return a part of the indices; refuse those that are not node numbers."""
    if len(indices) and not 0 <= indices.min() <= indices.max() < nodes:
        bad = int(indices[(indices < 0) | (indices >= nodes)][0])
        raise ValueError(f"{array.path} must hold node numbers 0 .. {nodes - 1}; got {bad}. Write the folder again.")
    return indices


def check_weights(array: NpyFile, weights: np.ndarray) -> np.ndarray:
    """Return a part of the weights; refuse those that are negative or not finite."""
    if len(weights) and not 0 <= weights.min() <= weights.max() < np.inf:
        bad = float(weights[~((weights >= 0) & (weights < np.inf))][0])
        raise ValueError(f"{array.path} must be finite and not negative; got {bad}. Correct the weights.")
    return weights


def check_symmetry(folder: GraphFolder) -> None:
    """Refuse a graph that is said to be symmetric if rows and columns have other numbers of entries."""
    if (in_degrees(folder) != np.diff(folder.array("indptr").read())).any():
        raise ValueError(
            f"the adjacency matrix in {folder.path} must be symmetric; rows and columns differ in their numbers of "
            f"entries. Use symmetric=False, or store every edge in both directions."
        )


def in_degrees(folder: GraphFolder) -> np.ndarray:
    """Number of entries of each column [n], counted in chunks; indices that are not node numbers are refused."""
    counts, indices = np.zeros(folder.nodes, dtype=np.int64), folder.array("indices")
    for _, part in indices.chunks():
        np.add.at(counts, check_indices(indices, part, folder.nodes), 1)
    return counts


def from_parquet(source: Path, target: Path) -> str:
    """Write the columns of a Parquet file as one .npy [n, d], of float32 if that keeps all digits, else float64."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError(f"{source}: Parquet needs pyarrow. Install it: pip install 'adaptkry[files]'.") from None
    with parsing(source, "a Parquet file", "Write it again."):
        file = parquet.ParquetFile(check_file(source))
    types = [str(field.type) for field in file.schema_arrow]
    if not types:
        raise ValueError(f"{source} must have at least one column; it has none. Write the features again.")
    dtype = np.float32 if {*types} <= FLOAT32_TYPES else np.float64
    with npy_writer(target, (file.metadata.num_rows, len(types)), dtype) as writer:
        for batch in _batches(source, file.iter_batches(max(1, CHUNK_BYTES // (8 * len(types))))):
            columns = [_numbers(source, name, column) for name, column in zip(batch.schema.names, batch, strict=True)]
            writer.write(np.stack(columns, 1).astype(dtype))
    return writer.checksum


def _batches(source: Path, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of a Parquet file; the error for a damaged one names the file."""
    while True:
        with parsing(source, "a Parquet file", "Write it again."):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _numbers(source: Path, name: str, column) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{source}: column {name!r} must hold numbers; got {column.type}. Remove the column.")
    checks.finite(checks.tensor(values, name).double(), f"{source}: column {name!r}")
    return values
