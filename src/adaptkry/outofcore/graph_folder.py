"""A graph folder: a graph on disk that need not fit in memory.

| file | content |
|---|---|
| `indptr.npy`, `indices.npy` | adjacency matrix as CSR: int64 [n + 1], int32 [entries]; row i lists the targets of i |
| `weights.npy` | optional, [entries] |
| `features.npy` | float32 or float64 [n, d] in C order |
| `labels.npy` | optional, int64 [n]; -1 is unknown |
| `manifest.json` | sizes, name, metric, checksums |
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from adaptkry.common import checks
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore.manifest import FORMATS, read_manifest, write_manifest
from adaptkry.outofcore.npy_files import CHUNK_BYTES, NpyFile, file_checksum, npy_writer, save

ARRAY_FILES = {"indptr": True, "indices": True, "weights": False, "features": False, "labels": False}  # -> is required
ARRAY_DTYPES = {
    "indptr": ("int64",),
    "indices": ("int32",),
    "labels": ("int64",),
    "weights": ("float32", "float64"),
    "features": ("float32", "float64"),
}


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
        n, entries = folder.nodes, folder.entries
        expected: dict[str, tuple[int, ...]] = {"indptr": (n + 1,), "indices": (entries,), "labels": (n,)}
        expected |= {"weights": (entries,), "features": (n, folder.features)}
        for name in folder.manifest["xxh128"]:
            shape = folder.array(name).shape
            if shape != expected[name]:
                raise ValueError(
                    f"{path / name}.npy must have shape {list(expected[name])} as in the manifest; got {list(shape)}. "
                    f"Write the manifest again: {_finalise_call(path)}."
                )
        return folder

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
        content = {**self.manifest["xxh128"], "symmetric": self.is_symmetric}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def verify(self) -> None:
        """Compare every file with its checksum."""
        for name, expected in self.manifest["xxh128"].items():
            if file_checksum(self.path / f"{name}.npy") != expected:
                raise ValueError(
                    f"{self.path / name}.npy must have the checksum in the manifest; it is damaged or was changed. "
                    f"Restore it, or, if you changed it, write the manifest again: {_finalise_call(self.path)}."
                )


def _finalise_call(path: Path) -> str:
    return f"adaptkry.outofcore.finalise({str(path)!r}, symmetric=...)"


def write_graph(graph: Graph, path: Path | str) -> GraphFolder:
    """Write a graph in memory as a graph folder."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    if graph.entries and int(graph.indices.max()) >= 2**31:
        raise ValueError(f"a graph folder must have fewer than 2^31 nodes; got {graph.nodes}. Split the graph.")
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
    about = {"name": graph.info.name, "metric": graph.info.metric, "symmetric": not graph.is_directed}
    return _write_manifest(path, checksums, **about)


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
    path: Path | str, *, symmetric: bool, name: str | None = None, metric: str = "accuracy", checksums=None
) -> GraphFolder:
    """Write the manifest of a folder that already has its .npy files.

    Args:
        path: the folder. `features.parquet` is converted if there is no `features.npy`.
        symmetric: whether the adjacency matrix is symmetric. If not, direction "both" needs another graph folder,
            which `propagate` writes.
        name: the graph's name; by default the folder's name.
        metric: "accuracy" or "roc_auc".
        checksums: checksums that are already known, by array.
    """
    path = Path(path)
    if (path / "features.parquet").is_file() and not (path / "features.npy").is_file():
        from_parquet(path / "features.parquet", path / "features.npy")
    checksums = dict(checksums or {})
    for array, is_required in ARRAY_FILES.items():
        if array not in checksums and (is_required or (path / f"{array}.npy").is_file()):
            checksums[array] = file_checksum(NpyFile.open(path / f"{array}.npy").path)
    return _write_manifest(path, checksums, name=name or path.resolve().name, metric=metric, symmetric=symmetric)


def _write_manifest(path: Path, checksums: dict[str, str], **about: Any) -> GraphFolder:
    arrays = {name: NpyFile.open(path / f"{name}.npy") for name in checksums}
    features, labels = arrays.get("features"), arrays.get("labels")
    largest = max((int(part.max()) for _, part in labels.chunks()), default=-1) if labels else -1
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
    check_arrays(arrays)
    write_manifest(path, manifest)
    return GraphFolder.open(path)


def check_arrays(arrays: dict[str, NpyFile]) -> None:
    """Check the types, and that row pointers increase to the number of entries."""
    for name, array in arrays.items():
        if str(array.dtype) not in ARRAY_DTYPES[name]:
            raise TypeError(f"{array.path} must be {' or '.join(ARRAY_DTYPES[name])}; got {array.dtype}. Convert it.")
    indptr, entries = arrays["indptr"].read(), arrays["indices"].shape[0]
    if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != entries or (np.diff(indptr) < 0).any():
        raise ValueError(
            f"{arrays['indptr'].path} must increase from 0 to the number of entries {entries}; got values from "
            f"{indptr[0]} to {indptr[-1]}, possibly decreasing. Use the indptr of a SciPy csr_array."
        )


def from_parquet(source: Path, target: Path) -> str:
    """Write the columns of a Parquet file as one .npy [n, d] of float32 (float64 if any column is float64)."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError(f"{source}: Parquet needs pyarrow. Install it: pip install 'adaptkry[files]'.") from None
    try:
        file = parquet.ParquetFile(source)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise ValueError(f"{source} must be a Parquet file; it cannot be read ({error}). Write it again.") from None
    types = [str(field.type) for field in file.schema_arrow]
    dtype = np.float64 if "double" in types else np.float32
    with npy_writer(target, (file.metadata.num_rows, len(types)), dtype) as writer:
        for batch in file.iter_batches(max(1, CHUNK_BYTES // (8 * len(types)))):
            columns = [_numbers(source, name, column) for name, column in zip(batch.schema.names, batch, strict=True)]
            writer.write(np.stack(columns, 1).astype(dtype))
    return writer.checksum


def _numbers(source: Path, name: str, column) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{source}: column {name!r} must hold numbers; got {column.type}. Remove the column.")
    checks.finite(checks.tensor(values, name).double(), f"{source}: column {name!r}")
    return values
