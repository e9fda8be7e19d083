"""The two kinds of folders: a graph, and its basis. A small manifest.json and plain .npy files, nothing pickled.

| graph folder | |
|---|---|
| `indptr.npy`, `indices.npy` | the adjacency matrix as CSR: int64 [n + 1], int32 [entries]; row i: where i points to |
| `weights.npy` | optional, [entries] |
| `features.npy` | float32 or float64 [n, d] in C order |
| `labels.npy` | optional, int64 [n]; -1 is unknown |

| basis folder | |
|---|---|
| `rows.npy`, `labels.npy` | which node each stored row is and its class, int64 [rows], in a fixed random order |
| `block-A-B.npy` | columns A..B-1 of every basis and hop: [bases, K + 1, rows, B - A] |
| `block-A-B.json` | its checksum, written after it: a block without one is not finished |

Since rows stand in random order, a run of rows is a fair sample; it is one contiguous read of every basis, hop and
block, so training reads runs of rows and shuffles them in memory only.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import files as storage
from adaptkry.outofcore.npy_files import Stored, checksum

FORMAT = 1
MANIFEST = "manifest.json"
DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(np.uint16)}  # as they lie on disk
FILES = {"indptr": True, "indices": True, "weights": False, "features": False, "labels": False}  # needed or not


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """The manifest of a folder, if it is of that kind and of a format that is known."""
    file = path / MANIFEST
    if not file.is_file():
        raise FileNotFoundError(f"{path} is no {kind} folder: it has no {MANIFEST}.")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not JSON ({error}). Make the folder again.") from None
    if not isinstance(found, dict) or found.get("kind") != kind:
        came = found.get("kind") if isinstance(found, dict) else None
        raise ValueError(f"a {kind} folder is wanted, but {path} is of kind {came!r}.")
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {found.get('format')!r}, and this version of adaptkry reads format {FORMAT}. "
            f"Make the folder again with this version, or use the one that made it."
        )
    return found


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write it, whole or not at all; no dates, so that the same work gives the same bytes."""
    storage.write(path / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def is_kind(path: Path | str, kind: str) -> bool:
    """Whether there is a folder of this kind."""
    try:
        return json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8")).get("kind") == kind
    except (OSError, ValueError, AttributeError):
        return False


def refuse_basis(path: Path | str) -> None:
    """Where a graph is wanted."""
    if is_kind(path, "basis"):
        raise ValueError(f"{path} is a basis folder, which `adaptkry fit` and `predict` take; this wants a graph.")


@dataclass(frozen=True)
class GraphFolder:
    """A graph on disk."""

    path: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, path: Path | str) -> "GraphFolder":
        """Look at the manifest and at every file's header; `verify` looks at what is in them."""
        path = Path(path)
        folder = cls(path, read_manifest(path, "graph"))
        n, entries = folder.nodes, folder.entries
        wanted: dict[str, tuple[int, ...]] = {"indptr": (n + 1,), "indices": (entries,), "labels": (n,)}
        wanted |= {"weights": (entries,), "features": (n, folder.features)}
        for name in folder.manifest["xxh128"]:
            found = folder.stored(name).shape
            if found != wanted[name]:
                raise ValueError(
                    f"{path / name}.npy must have shape {list(wanted[name])} as the manifest says, but has "
                    f"{list(found)}. Seal the folder again: adaptkry.outofcore.finalise({str(path)!r}, symmetric=...)."
                )
        return folder

    nodes = property(lambda self: self.manifest["nodes"])
    entries = property(lambda self: self.manifest["entries"])
    features = property(lambda self: self.manifest["features"])
    name = property(lambda self: self.manifest["name"])
    is_symmetric = property(lambda self: self.manifest["symmetric"])

    def has(self, name: str) -> bool:
        """Whether it has weights, features, labels."""
        return name in self.manifest["xxh128"]

    def stored(self, name: str) -> Stored:
        """One of its arrays."""
        return Stored.open(self.path / f"{name}.npy")

    @property
    def fingerprint(self) -> str:
        """One number for all that decides a basis of this graph."""
        told = {**self.manifest["xxh128"], "symmetric": self.is_symmetric}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def verify(self) -> None:
        """Compare every file with its checksum."""
        for name, wanted in self.manifest["xxh128"].items():
            if checksum(self.path / f"{name}.npy") != wanted:
                again = f"adaptkry.outofcore.finalise({str(self.path)!r}, symmetric=...)"
                raise ValueError(
                    f"{self.path / name}.npy is not the file that the manifest describes: it is damaged. Restore it, "
                    f"or, if you changed it yourself, finalise the folder again: {again}."
                )


def block_name(start: int, stop: int) -> str:
    """What the file of columns start..stop-1 is called, without its ending."""
    return f"block-{start}-{stop}"


class BasisFolder:
    """A basis on disk, finished: terms of some rows in a fixed random order.

    >>> folder = BasisFolder.open("cora-basis")        # doctest: +SKIP
    >>> folder.slab(0, 1000).shape                     # doctest: +SKIP
    torch.Size([22, 1000, 1433])
    """

    def __init__(self, path: Path, manifest: dict[str, Any]):
        self.path, self.manifest = path, manifest
        told = ("name", "nodes", "features", "classes", "degree", "dtype", "metric")
        self.name, self.nodes, self.features, self.classes, self.degree, self.dtype, self.metric = (
            manifest[key] for key in told
        )
        self.count: int = manifest["rows"]  # stored rows
        self.taus: tuple[float, ...] = tuple(manifest["taus"])
        self.directions: tuple[str, ...] = tuple(manifest["directions"])
        self.blocks: list[tuple[int, int]] = [(start, stop) for start, stop in manifest["blocks"]]

    @classmethod
    def open(cls, path: Path | str) -> "BasisFolder":
        """Open a folder whose blocks are all there; else say which are not and what makes them."""
        path = Path(path)
        folder = cls(path, read_manifest(path, "basis"))
        missing = [(a, b) for a, b in folder.blocks if not (path / f"{block_name(a, b)}.npy").is_file()]
        if missing or len(folder.manifest["xxh128"]) < len(folder.blocks) + 2:
            which = ", ".join(f"{a}..{b - 1}" for a, b in missing) or "none, but their checksums were not collected yet"
            raise ValueError(f"{path} is not finished. Missing columns: {which}. Go on with: {folder.command}")
        for start, stop in folder.blocks:
            folder._stored(start, stop)
        return folder

    @property
    def terms(self) -> int:
        """How many signals a node has, T = bases (K + 1)."""
        return len(self.directions) * len(self.taus) * (self.degree + 1)

    @property
    def command(self) -> str:
        """What makes this folder, or finishes it."""
        words = ["adaptkry propagate", "GRAPH", "--taus", ",".join(f"{tau:g}" for tau in self.taus)]
        words += ["--degree", str(self.degree), "--directions", ",".join(self.directions)]
        which = {"listed": "FILE"}.get(self.manifest["which"], self.manifest["which"])
        words += ["--rows", which, "--dtype", self.dtype, "--out", str(self.path)]
        words += ["--seed", str(self.manifest["seed"])] if self.manifest.get("seed") else []
        return f"{' '.join(words)} (GRAPH: where {self.name} lies, and as much --memory as then)"

    @cached_property
    def rows(self) -> Tensor:
        """Which node each stored row is: int64 [rows]."""
        return torch.from_numpy(Stored.open(self.path / "rows.npy").read())

    @cached_property
    def labels(self) -> Tensor:
        """The class of each stored row, -1 where it is unknown: int64 [rows]."""
        return torch.from_numpy(Stored.open(self.path / "labels.npy").read())

    def slab(self, start: int, stop: int) -> Tensor:
        """Stored rows start..stop-1 of every term as [T, rows, d]; directions, taus, hops in this order."""
        if not 0 <= start <= stop <= self.count:
            raise ValueError(f"rows 0 .. {self.count} are stored, but {start} .. {stop} was asked for.")
        kind = torch.bfloat16 if self.dtype == "bfloat16" else torch.float32
        slab = torch.empty(self.terms, stop - start, self.features, dtype=kind)
        for first, last in self.blocks:
            slab[:, :, first:last] = self._part(first, last, start, stop).view(kind)
        return slab

    def _part(self, first: int, last: int, start: int, stop: int) -> Tensor:
        """The same of one block: a contiguous read a term."""
        block = self._stored(first, last)
        terms = Stored(block.path, (self.terms * self.count, last - first), block.dtype, block.offset)
        part = np.empty((self.terms, stop - start, last - first), block.dtype)
        with block.path.open("rb", buffering=0) as file:
            for term in range(self.terms):
                terms.read_into(file, part[term], term * self.count + start)
        return torch.from_numpy(part)

    def _stored(self, first: int, last: int) -> Stored:
        block = Stored.open(self.path / f"{block_name(first, last)}.npy")
        bases = len(self.directions) * len(self.taus)
        wanted = (bases, self.degree + 1, self.count, last - first)
        if block.shape != wanted or block.dtype != DTYPES[self.dtype]:
            raise ValueError(
                f"{block.path} must be {DTYPES[self.dtype]} {list(wanted)}, but {block.dtype} {list(block.shape)} "
                f"came. Delete it and go on with: {self.command}"
            )
        return block

    def verify(self) -> None:
        """Compare every file with its checksum."""
        bad = [name for name, wanted in self.manifest["xxh128"].items() if checksum(self.path / name) != wanted]
        if bad:
            raise ValueError(f"{self.path} is damaged: {', '.join(bad)}. Mend it with: {self.command}")

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return (
            f"BasisFolder({self.name}, rows={self.count}, terms={self.terms}, features={self.features}, {self.dtype})"
        )


def blocks_of(features: int, width: int) -> list[tuple[int, int]]:
    """Columns shared out among blocks of at most `width`, as equal as can be, in multiples of 8 where they fit.

    >>> blocks_of(100, 48), blocks_of(5, 64), blocks_of(16, 7)
    ([(0, 40), (40, 80), (80, 100)], [(0, 5)], [(0, 6), (6, 12), (12, 16)])
    """
    fair = -(-features // -(-features // width))
    aligned = -(-fair // 8) * 8
    step = aligned if aligned <= width else fair
    return [(start, min(start + step, features)) for start in range(0, features, step)]
