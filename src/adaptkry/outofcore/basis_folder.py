"""A basis folder: the terms x, Px, ..., P^K x of some rows, for several directions and taus, in blocks of columns.

| file | content |
|---|---|
| `rows.npy`, `labels.npy` | node number and class of each stored row, int64 [rows], in a fixed random order |
| `node_ids.npy` | the user's id of each stored row, if the graph has ids: UTF-8 bytes or integers [rows] |
| `block-A-B.npy` | columns A..B-1 of every basis and hop: [bases, K + 1, rows, B - A] |
| `block-A-B.json` | its checksum and request, written after it: a block without this file is not finished |
| `manifest.json` | the request, sizes, names of classes and features, checksums |

Rows are stored in random order, so a range of rows (a slab) is a random sample, which takes one contiguous read per
basis, hop and block. Training reads slabs in order and shuffles only in memory.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.outofcore.manifest import MANIFEST, read_manifest
from adaptkry.outofcore.node_ids import NODE_IDS, as_ids, check_ids
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
        self.known_as: str | None = manifest.get("known_as")  # the name by which `load` finds the graph
        self.class_names: list[str] | None = manifest.get("class_names")
        self.feature_names: list[str] | None = manifest.get("feature_names")
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
        names = {"rows.npy", "labels.npy", *(f"{block_name(a, b)}.npy" for a, b in folder.blocks)}
        if missing or names - folder.manifest["xxh128"].keys():
            which = ", ".join(f"{a}..{b - 1}" for a, b in missing) or "none, but not all checksums are in the manifest"
            raise ValueError(f"{path} must be finished. Missing columns: {which}. Continue with: {folder.command}")
        if others := folder.manifest["xxh128"].keys() - names - {NODE_IDS}:
            raise ValueError(
                f"the checksums in {path / MANIFEST} must be those of its blocks; got {sorted(others)[0]!r:.50} too. "
                f"Restore the file, or create the folder again with: {folder.command}"
            )
        for start, stop in folder.blocks:
            folder._block(start, stop)
        for name in ("rows.npy", "labels.npy"):
            folder._check_array(NpyFile.open(path / name), ["int64"])
        if folder.has_node_ids:
            check_ids(folder._check_array(NpyFile.open(path / NODE_IDS)))
        return folder

    def _check_array(self, array: NpyFile, dtypes: Sequence[str] | None = None) -> NpyFile:
        """Raise an error unless an array has one value of one of these types per stored row."""
        if array.shape != (self.count,) or (dtypes and str(array.dtype) not in dtypes):
            raise ValueError(
                f"{array.path} must be {' or '.join(dtypes or ['text'])} of shape [{self.count}]; got {array.dtype} "
                f"{list(array.shape)}. Restore the file, or create the folder again with: {self.command}"
            )
        return array

    def _read_numbers(self, name: str, least: int, most: int) -> Tensor:
        """Read an array of integers, and raise an error if they are not between `least` and `most`."""
        found = NpyFile.open(self.path / name).read()
        if len(found) and not least <= int(found.min()) <= int(found.max()) <= most:
            raise ValueError(
                f"{self.path / name} must hold numbers from {least} to {most}; got {int(found.min())} to "
                f"{int(found.max())}. Create the folder again with: {self.command}"
            )
        return torch.from_numpy(found)

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
        return self._read_numbers("rows.npy", 0, self.nodes - 1)

    @cached_property
    def labels(self) -> Tensor:
        """The class of each stored row, -1 if unknown: int64 [rows]."""
        return self._read_numbers("labels.npy", -1, self.classes - 1)

    @property
    def has_node_ids(self) -> bool:
        """Whether the nodes have ids of the user; otherwise they are numbered."""
        return NODE_IDS in self.manifest["xxh128"]

    @cached_property
    def _node_ids(self) -> np.ndarray | None:
        return NpyFile.open(self.path / NODE_IDS).read() if self.has_node_ids else None

    def node_ids(self, numbers: Tensor) -> list[str] | list[int]:
        """The ids of some stored rows [m], which are numbered from 0: those of the user, or node numbers."""
        checks.node_numbers(numbers, self.count)
        if self._node_ids is None:
            return self.rows[numbers].tolist()
        return as_ids(self._node_ids[numbers.numpy()])

    def slab(self, start: int, stop: int) -> Tensor:
        """Stored rows start..stop-1 of every term as [T, rows, d]; terms are ordered by direction, tau and hop."""
        for bound in (start, stop):
            checks.require_integer(bound, "a bound of rows")
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

    def verify(self, share: tuple[int, int] = (0, 1)) -> None:
        """Compare every file with its checksum.

        Args:
            share: number of this process and number of processes that divide the files among them.
        """
        checksums = self.manifest["xxh128"]
        number, processes = share
        checks.count(number, "the number of a process", checks.positive_count(processes, "processes") - 1)
        own = sorted(checksums)[number::processes]
        damaged = [name for name in own if file_checksum(self.path / name) != checksums[name]]
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
