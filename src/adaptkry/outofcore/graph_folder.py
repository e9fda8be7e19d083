"""Making graph folders: from a graph in memory, or from .npy files that lie there already."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from adaptkry.common import checks
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore.folders import FILES, FORMAT, GraphFolder, write_manifest
from adaptkry.outofcore.npy_files import PIECE, Stored, checksum, save, streaming


def write_graph(graph: Graph, path: Path | str) -> GraphFolder:
    """Write a graph in memory as a graph folder."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    if graph.entries and int(graph.indices.max()) >= 2**31:
        raise ValueError(f"a graph folder holds less than 2^31 nodes, but {graph.nodes} came.")
    sums = {
        "indptr": save(path / "indptr.npy", graph.indptr.numpy().astype(np.int64)),
        "indices": save(path / "indices.npy", graph.indices.numpy().astype(np.int32)),
    }
    if graph.weights is not None:
        sums["weights"] = save(path / "weights.npy", graph.weights.numpy())
    if graph.features is not None:
        sums["features"] = _write_features(graph.features, path / "features.npy")
    sums["labels"] = save(path / "labels.npy", graph.y.numpy())
    told = {"name": graph.info.name, "metric": graph.info.metric, "symmetric": not graph.is_directed}
    return _finish(path, sums, **told)


def _write_features(features, path: Path) -> str:
    """Sparse features are filled in some rows at a time."""
    if not sp.issparse(features):
        return save(path, features.numpy())
    step = max(1, PIECE // (features.dtype.itemsize * features.shape[1]))
    with streaming(path, features.shape, features.dtype) as stream:
        for start in range(0, features.shape[0], step):
            stream.write(features[start : start + step].toarray())
    return stream.checksum


def finalise(
    path: Path | str, *, symmetric: bool, name: str | None = None, metric: str = "accuracy", sums=None
) -> GraphFolder:
    """Write the manifest of a folder whose .npy files lie there already.

    Args:
        path: the folder. `features.parquet` in place of `features.npy` is converted, once.
        symmetric: whether every entry stands there both ways; without it, direction "both" makes another folder.
        name: what to call the graph; by default the folder's name.
        metric: "accuracy" or "roc_auc".
        sums: checksums by file name that are known already.
    """
    path = Path(path)
    if (path / "features.parquet").is_file() and not (path / "features.npy").is_file():
        from_parquet(path / "features.parquet", path / "features.npy")
    sums = dict(sums or {})
    for file, is_needed in FILES.items():
        if file not in sums and (is_needed or (path / f"{file}.npy").is_file()):
            sums[file] = checksum(Stored.open(path / f"{file}.npy").path)
    return _finish(path, sums, name=name or path.resolve().name, metric=metric, symmetric=symmetric)


def _finish(path: Path, sums: dict[str, str], **told: Any) -> GraphFolder:
    arrays = {name: Stored.open(path / f"{name}.npy") for name in sums}
    features, labels = arrays.get("features"), arrays.get("labels")
    highest = max((int(part.max()) for _, part in labels.pieces()), default=-1) if labels else -1
    manifest = {
        "kind": "graph",
        "format": FORMAT,
        "nodes": arrays["indptr"].shape[0] - 1,
        "entries": arrays["indices"].shape[0],
        "features": 0 if features is None else features.shape[1],
        "dtype": None if features is None else str(features.dtype),
        "classes": highest + 1,
        "xxh128": sums,
        **told,
    }
    check(arrays)
    write_manifest(path, manifest)
    return GraphFolder.open(path)


def check(arrays: dict[str, Stored]) -> None:
    """Types, and that row pointers rise to the number of entries."""
    wanted = {"indptr": ("int64",), "indices": ("int32",), "labels": ("int64",), "weights": ("float32", "float64")}
    wanted["features"] = ("float32", "float64")
    for name, array in arrays.items():
        if str(array.dtype) not in wanted[name]:
            raise TypeError(f"{array.path} must be {' or '.join(wanted[name])}, but {array.dtype} came. Convert it.")
    indptr, entries = arrays["indptr"].read(), arrays["indices"].shape[0]
    if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != entries or (np.diff(indptr) < 0).any():
        raise ValueError(
            f"{arrays['indptr'].path} must rise from 0 to the number of entries {entries}, but goes from "
            f"{indptr[0]} to {indptr[-1]} or falls on the way. It is the indptr of SciPy's csr_array."
        )


def from_parquet(source: Path, target: Path) -> str:
    """Number columns of a Parquet file as one .npy [n, d] of float32 (float64 where a column is)."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError(f"{source}: Parquet needs pyarrow. Install it: pip install 'adaptkry[files]'.") from None
    try:
        file = parquet.ParquetFile(source)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise ValueError(f"{source} is not a Parquet file that can be read ({error}).") from None
    kinds = [str(field.type) for field in file.schema_arrow]
    dtype = np.float64 if "double" in kinds else np.float32
    with streaming(target, (file.metadata.num_rows, len(kinds)), dtype) as stream:
        for batch in file.iter_batches(max(1, PIECE // (8 * len(kinds)))):
            columns = [_numbers(source, name, column) for name, column in zip(batch.schema.names, batch, strict=True)]
            stream.write(np.stack(columns, 1).astype(dtype))
    return stream.checksum


def _numbers(source: Path, name: str, column) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{source}: column {name!r} must hold numbers, but {column.type} came. Leave it out.")
    checks.finite(checks.tensor(values, name).double(), f"{source}: column {name!r}")
    return values
