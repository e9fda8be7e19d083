"""A basis folder: the terms x, Px, ..., P^K x of some rows, for several directions and taus, in blocks of columns.

| file | content |
|---|---|
| `rows.npy`, `labels.npy` | node number and class of each stored row, int64 [rows], in a fixed random order |
| `block-A-B.npy` | columns A..B-1 of every basis and hop: [bases, K + 1, rows, B - A] |
| `block-A-B.json` | its checksum and request, written after it: a block without this file is not finished |
| `manifest.json` | the request, sizes, checksums |

Rows are stored in random order, so a range of rows (a slab) is a random sample, which takes one contiguous read per
basis, hop and block. Training reads slabs in order and shuffles only in memory.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.outofcore.manifest import MANIFEST, read_manifest
from adaptkry.outofcore.npy_files import NpyFile, file_checksum

DISK_DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(np.uint16)}  # NumPy has no bfloat16


def block_name(start: int, stop: int) -> str:
    """The file name of the block with columns start..stop-1, without suffix."""
    return f"block-{start}-{stop}"


class BasisFolder:
    """A finished basis on disk: the terms of some rows, in a fixed random order.

    >>> folder = BasisFolder.open("cora-basis")        # doctest: +SKIP
    >>> folder.slab(0, 1000).shape                     # doctest: +SKIP
    torch.Size([22, 1000, 1433])
    """

    def __init__(self, path: Path, manifest: dict[str, Any]):
        self.path, self.manifest = path, manifest
        self.name: str = manifest["name"]
        self.nodes: int = manifest["nodes"]
        self.features: int = manifest["features"]
        self.classes: int = manifest["classes"]
        self.degree: int = manifest["degree"]
        self.dtype: str = manifest["dtype"]
        self.metric: str = manifest["metric"]
        self.count: int = manifest["rows"]  # stored rows
        self.taus: tuple[float, ...] = tuple(manifest["taus"])
        self.directions: tuple[str, ...] = tuple(manifest["directions"])
        self.blocks: list[tuple[int, int]] = [(start, stop) for start, stop in manifest["blocks"]]

    @classmethod
    def open(cls, path: Path | str) -> "BasisFolder":
        """Open a finished folder; the error for an unfinished one names the missing columns and the command to run."""
        path = Path(path)
        folder = cls(path, read_manifest(path, "basis"))
        folder._check_blocks()
        missing = [(a, b) for a, b in folder.blocks if not (path / f"{block_name(a, b)}.npy").is_file()]
        if missing or len(folder.manifest["xxh128"]) < len(folder.blocks) + 2:
            which = ", ".join(f"{a}..{b - 1}" for a, b in missing) or "none, but not all checksums are in the manifest"
            raise ValueError(f"{path} must be finished. Missing columns: {which}. Continue with: {folder.command}")
        for start, stop in folder.blocks:
            folder._block(start, stop)
        return folder

    def _check_blocks(self) -> None:
        """Raise an error unless the blocks cover every column once."""
        ends = [0, *(stop for _, stop in self.blocks)]
        starts = [*(start for start, _ in self.blocks), self.features]
        if ends != starts or any(start >= stop for start, stop in self.blocks):
            raise ValueError(
                f"the blocks in {self.path / MANIFEST} must cover columns 0 .. {self.features - 1}; got {self.blocks}. "
                f"Restore the file, or create the folder again with: {self.command}"
            )

    @property
    def terms(self) -> int:
        """Number of signals per node, T = bases (K + 1)."""
        return len(self.directions) * len(self.taus) * (self.degree + 1)

    @property
    def command(self) -> str:
        """The command that creates or completes this folder."""
        selection = self.manifest["row_selection"]
        options = {
            "--taus": ",".join(f"{tau:g}" for tau in self.taus),
            "--degree": self.degree,
            "--directions": ",".join(self.directions),
            "--rows": "FILE" if selection == "listed" else selection,
            "--dtype": self.dtype,
            "--out": self.path,
            **({"--seed": self.manifest["seed"]} if self.manifest.get("seed") else {}),
        }
        text = " ".join(f"{name} {value}" for name, value in options.items())
        return f"adaptkry propagate GRAPH {text} (GRAPH: the path or name of {self.name}; the same --memory as before)"

    @cached_property
    def rows(self) -> Tensor:
        """The node number of each stored row: int64 [rows]."""
        return torch.from_numpy(NpyFile.open(self.path / "rows.npy").read())

    @cached_property
    def labels(self) -> Tensor:
        """The class of each stored row, -1 if unknown: int64 [rows]."""
        return torch.from_numpy(NpyFile.open(self.path / "labels.npy").read())

    def slab(self, start: int, stop: int) -> Tensor:
        """Stored rows start..stop-1 of every term as [T, rows, d]; terms are ordered by direction, tau and hop."""
        if not 0 <= start <= stop <= self.count:
            raise ValueError(f"rows must be within 0 .. {self.count}; got {start} .. {stop}. Use other bounds.")
        dtype = torch.bfloat16 if self.dtype == "bfloat16" else torch.float32
        slab = torch.empty(self.terms, stop - start, self.features, dtype=dtype)
        for first, last in self.blocks:
            slab[:, :, first:last] = self._block_rows(first, last, start, stop).view(dtype)
        return slab

    def _block_rows(self, first: int, last: int, start: int, stop: int) -> Tensor:
        """Stored rows start..stop-1 of the block of columns first..last-1: one contiguous read per term."""
        block = self._block(first, last)
        terms = NpyFile(block.path, (self.terms * self.count, last - first), block.dtype, block.offset)
        part = np.empty((self.terms, stop - start, last - first), block.dtype)
        with block.path.open("rb", buffering=0) as file:
            for term in range(self.terms):
                terms.read_into(file, part[term], term * self.count + start)
        return torch.from_numpy(part)

    def _block(self, first: int, last: int) -> NpyFile:
        block = NpyFile.open(self.path / f"{block_name(first, last)}.npy")
        bases = len(self.directions) * len(self.taus)
        expected = (bases, self.degree + 1, self.count, last - first)
        if block.shape != expected or block.dtype != DISK_DTYPES[self.dtype]:
            raise ValueError(
                f"{block.path} must be {DISK_DTYPES[self.dtype]} {list(expected)}; got {block.dtype} "
                f"{list(block.shape)}. Delete it and continue with: {self.command}"
            )
        return block

    def verify(self) -> None:
        """Compare every file with its checksum."""
        checksums = self.manifest["xxh128"]
        damaged = [name for name, expected in checksums.items() if file_checksum(self.path / name) != expected]
        if damaged:
            raise ValueError(
                f"the files of {self.path} must have the checksums in its manifest; it is damaged: "
                f"{', '.join(damaged)}. Repair it with: {self.command}"
            )

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return (
            f"BasisFolder({self.name}, rows={self.count}, terms={self.terms}, features={self.features}, {self.dtype})"
        )


def split_columns(features: int, width: int) -> list[tuple[int, int]]:
    """Split columns into blocks of at most `width`, as equal as possible, in multiples of 8 where that fits.

    >>> split_columns(100, 48), split_columns(5, 64), split_columns(16, 7)
    ([(0, 40), (40, 80), (80, 100)], [(0, 5)], [(0, 6), (6, 12), (12, 16)])
    """
    equal = -(-features // -(-features // width))
    aligned = -(-equal // 8) * 8
    step = aligned if aligned <= width else equal
    return [(start, min(start + step, features)) for start in range(0, features, step)]
