"""Batches of rows to train on: all nodes at once, or slab by slab from memory or from disk.

`FullBatch` and `SlabBatches` have the same interface, `Batches`: `train(epoch)` and `validation()` yield a `Batch` per
step, and `chunks(mask)` yields rows to predict.

A slab is a range of consecutive rows that is read at once. The order of slabs, the order of rows within a slab and the
boundaries of steps depend only on the plan, the epoch and the slab, not on where the terms are stored or on which
members train. Hence training from disk equals training in memory, and a member trained by itself equals the same member
in a batch.

Shapes: b members, s splits, n rows in all, m rows per member in a batch, T terms, d features.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from adaptkry.outofcore.basis_reader import BasisReader, RowRange
from adaptkry.spectral.operators import Operator
from adaptkry.training.process_group import SINGLE_PROCESS, ProcessGroup

DEFAULT_BATCH_SIZE = 8192  # rows per step
SLAB_BYTES = 64 * 2**20  # size of a slab, unless a batch is larger
COLUMNS_ALIGNED = 16  # numbers: 32 bytes in bfloat16, 64 in float32
ROWS_ALIGNED = 64  # rows of a full batch on a GPU, which divides products over rows into equal parts
BATCH_SHAPES = 8  # of batches of slabs on a GPU: their rows are a multiple of the batch size over this
CHUNK_ROWS = 512  # rows predicted at once


@dataclass(frozen=True)
class Batch:
    """The rows of one step, for all members."""

    terms: Tensor  # [T, r, d] terms of r rows that the members share
    rows: Tensor  # [b, m] each member's rows of `terms`, padded with 0
    row_mask: Tensor  # bool [b, m, 1] False for padding
    truth: Tensor  # [b, m] classes; [b, m, c] labels or targets
    dropout_rows: Sequence[int]  # [b] number of rows for which each member draws dropout

    @cached_property
    def real(self) -> Tensor:
        """1 for real rows and 0 for padding, in the type of arithmetic: [b, m, 1]."""
        return self.row_mask.to(computing_dtype(self.terms.dtype))

    def of(self, members: slice | Tensor) -> "Batch":
        """Return the batch of some members."""
        rows, row_mask, truth = (part[members] for part in (self.rows, self.row_mask, self.truth))
        numbers = range(len(self.rows))[members] if isinstance(members, slice) else members.tolist()
        return Batch(self.terms, rows, row_mask, truth, [self.dropout_rows[i] for i in numbers])


Chunk = tuple[Tensor, Tensor]  # terms [T, m, d] and their row numbers [m]


class Batches(Protocol):
    """What the training loop needs from the data."""

    operator: Operator | None  # for models that propagate features or labels
    group: ProcessGroup
    device: torch.device
    dtype: torch.dtype
    is_fixed: bool  # whether every epoch does the same work, so that it can be recorded once

    def train(self, epoch: int) -> Iterator[Batch]:
        """Yield the steps of an epoch."""
        ...

    def validation(self) -> Iterator[Batch]:
        """Yield all validation rows."""
        ...

    def chunks(self, mask: Tensor | None = None, *, is_shared: bool = False) -> Iterator[Chunk]:
        """Yield the rows of a mask [n], or all rows, in order; if `is_shared`, only this process's share of them."""
        ...


def padded_rows(mask: Tensor, multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Convert masks [b, n] to row numbers [b, m], padded with 0, and a mask of the real ones [b, m, 1].

    The number of rows m is a multiple of `multiple`.
    """
    counts = mask.sum(1)  # [b]
    m = aligned_count(int(counts.max()), multiple)
    row_mask = torch.arange(m, device=mask.device) < counts[:, None]  # [b, m]
    rows = torch.zeros(row_mask.shape, dtype=torch.long, device=mask.device)
    rows[row_mask] = mask.nonzero()[:, 1]
    return rows, row_mask[:, :, None]


def aligned_count(count: int, multiple: int) -> int:
    """Return the next multiple from `count` on, at least one.

    >>> aligned_count(0, 1), aligned_count(5, 4)
    (1, 8)
    """
    return -(-max(1, count) // multiple) * multiple


def sent(table: Tensor, device: torch.device) -> Tensor:
    """Return a table of the CPU on a device; a GPU copies it from pinned memory, while the CPU goes on."""
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table


class FullBatch:
    """All nodes in one batch.

    Args:
        terms: [T, n, d].
        labels: class of each node [n], or its labels or targets [n, c].
        masks: "train" and "validation" masks, bool [s, n].
        split_of_member: the split of each member [b].
        device: the device to which the terms are moved.
        operator: the propagation matrix, for models that propagate features or labels; that of a structure layer.
        propagates_features: whether the model propagates features, and so applies dropout at all nodes.
    """

    group: ProcessGroup = SINGLE_PROCESS
    is_fixed: bool = True

    def __init__(
        self,
        terms: Tensor,
        labels: Tensor,
        masks: Mapping[str, Tensor],
        split_of_member: Tensor,
        device: torch.device | str = "cpu",
        operator: Operator | None = None,
        *,
        propagates_features: bool = True,
    ):
        self.all_nodes = operator is not None and propagates_features
        self.device, self.operator, self.dtype = torch.device(device), operator, computing_dtype(terms.dtype)
        self.terms = terms.to(self.device)
        labels = labels.to(self.device)
        self._batches = {name: self._batch(mask[split_of_member].cpu(), labels) for name, mask in masks.items()}

    def _batch(self, mask: Tensor, labels: Tensor) -> Batch:
        multiple = ROWS_ALIGNED if self.device.type == "cuda" else 1
        rows, row_mask = (part.to(self.device) for part in padded_rows(mask, multiple))
        # A model that propagates features applies dropout at all nodes, not only at those of the mask.
        dropout_rows = [self.terms.shape[1]] * len(mask) if self.all_nodes else mask.sum(1).tolist()
        return Batch(self.terms, rows, row_mask, labels[rows], dropout_rows)

    def of(self, members: Tensor) -> "FullBatch":
        """Return the batches of some members."""
        part = copy(self)
        part._batches = {name: batch.of(members) for name, batch in self._batches.items()}
        return part

    def train(self, epoch: int) -> Iterator[Batch]:  # noqa: ARG002  the same in every epoch
        """Yield one step."""
        yield self._batches["train"]

    def validation(self) -> Iterator[Batch]:
        """Yield one batch."""
        yield self._batches["validation"]

    def chunks(self, mask: Tensor | None = None, *, is_shared: bool = False) -> Iterator[Chunk]:  # noqa: ARG002
        """Yield all rows, a few at a time, or at once for a model with an operator.

        A GPU takes as many as in a step, which needs more memory than a prediction.
        """
        is_gpu = self.device.type == "cuda"
        most = max(batch.rows.shape[1] for batch in self._batches.values()) if is_gpu else CHUNK_ROWS
        return term_chunks(self.terms, self.operator, self.device, most)


def aligned_columns(terms: Tensor) -> Tensor:
    """Add columns of zeros to terms [T, n, d], so that the size of a row suits the tensor cores of a GPU."""
    return pad(terms, (0, -terms.shape[2] % COLUMNS_ALIGNED))


def term_chunks(
    terms: Tensor, operator: Operator | None, device: torch.device | str, most: int = CHUNK_ROWS
) -> Iterator[Chunk]:
    """Yield terms [T, n, d] a few rows at a time to save memory; an operator needs all of them at once."""
    n = terms.shape[1]
    for rows in torch.arange(n).split(most if operator is None else n):
        yield (terms[:, rows.to(terms.device)].to(device) if operator is None else terms), rows


@dataclass(frozen=True, eq=False)
class SlabPlan:
    """The division of rows into slabs of equal size (up to one row), each with the same number of steps.

    Processes that train together thus take equally many steps, and none waits for another.
    """

    is_known: Tensor  # bool [n] rows with a label; the others are in no training batch
    slabs: int
    batch_size: int  # maximum number of rows per step

    @classmethod
    def for_rows(
        cls,
        is_known: Tensor,
        row_bytes: int,
        batch_size: int | None = None,
        processes: int = 1,
        slab_bytes: int = SLAB_BYTES,
    ) -> "SlabPlan":
        """Plan as many slabs as memory requires, and equally many for every process."""
        n = len(is_known)
        batch_size = batch_size or default_batch_size(row_bytes, slab_bytes)
        rows_per_slab = max(batch_size, slab_bytes // max(1, row_bytes))
        slabs = -(-n // rows_per_slab)
        slabs = -(-slabs // processes) * processes  # the next multiple
        if slabs > n:
            raise ValueError(
                f"{processes} processes need at least {slabs} stored rows; got {n}. Start fewer processes."
            )
        return cls(is_known, slabs, batch_size)

    def bounds(self, slab: int) -> RowRange:
        """Return the range of rows of a slab."""
        n = len(self.is_known)
        return slab * n // self.slabs, (slab + 1) * n // self.slabs

    @cached_property
    def steps(self) -> int:
        """Number of steps per slab: as many as the slab with the most labelled rows needs."""
        most = max(int(self.is_known[slice(*self.bounds(slab))].sum()) for slab in range(self.slabs))
        return max(1, -(-most // self.batch_size))

    def order(self, epoch: int) -> list[int]:
        """Return all slabs in the order of this epoch."""
        return np.random.default_rng([epoch]).permutation(self.slabs).tolist()

    def training_steps(self, epoch: int, slab: int) -> list[Tensor]:
        """Return the labelled rows of each step [m], shuffled and counted from the first row of the slab."""
        rows = np.flatnonzero(self.is_known[slice(*self.bounds(slab))].numpy())
        shuffled = np.random.default_rng([epoch, slab]).permutation(rows)
        return [torch.from_numpy(part) for part in np.array_split(shuffled, self.steps)]

    def rows_in_order(self, slab: int) -> list[Tensor]:
        """Return all rows of a slab in order, one batch [m] after the other."""
        start, stop = self.bounds(slab)
        return list(torch.arange(stop - start).split(self.batch_size))


def default_batch_size(row_bytes: int, slab_bytes: int = SLAB_BYTES) -> int:
    """Return 8192 rows, or as many as fit in a slab."""
    return max(1, min(DEFAULT_BATCH_SIZE, slab_bytes // max(1, row_bytes)))


class InMemoryTerms:
    """Terms in memory, on the CPU or on a GPU: [T, n, d]."""

    def __init__(self, terms: Tensor):
        self.terms = terms
        self.shape: tuple[int, int, int] = (terms.shape[0], terms.shape[1], terms.shape[2])
        self.dtype = computing_dtype(terms.dtype)

    def ranges(self, bounds: Sequence[RowRange], _: torch.device) -> Iterator[Tensor]:
        """Yield these ranges of rows in turn."""
        for start, stop in bounds:
            yield self.terms[:, start:stop]


class FolderTerms:
    """Terms in a basis folder: [T, n, d]."""

    def __init__(self, reader: BasisReader):
        self.reader = reader
        self.shape: tuple[int, int, int] = (len(reader.means), reader.folder.count, reader.folder.features)
        self.dtype = computing_dtype(reader.dtype)

    def ranges(self, bounds: Sequence[RowRange], device: torch.device) -> Iterator[Tensor]:
        """Yield these ranges of rows in turn; the next one is read while the current one is used."""
        return self.reader.ranges(bounds, device)


def computing_dtype(stored: torch.dtype) -> torch.dtype:
    """Return the dtype of arithmetic: bfloat16 is for storage only."""
    return torch.float32 if stored == torch.bfloat16 else stored


class SlabBatches:
    """Batches of rows for all members, slab by slab.

    Args:
        source: where the terms are stored.
        plan: the order of rows.
        labels: class of each row [n], or its labels or targets [n, c].
        masks: "train" and "validation" masks, bool [s, n].
        split_of_member: the split of each member [b].
        device: the device to which batches are moved.
        group: the processes that share the slabs.
        shares_validation: whether validation scores of several processes add up. Those that rank rows, such as
            ROC-AUC, do not: every process then evaluates all rows.
        kept_bytes: the validation rows are read only once, and kept on the device, if they need at most this.
    """

    operator: Operator | None = None
    is_fixed: bool = False

    def __init__(
        self,
        source: InMemoryTerms | FolderTerms,
        plan: SlabPlan,
        labels: Tensor,
        masks: Mapping[str, Tensor],
        split_of_member: Tensor,
        device: torch.device | str = "cpu",
        group: ProcessGroup = SINGLE_PROCESS,
        *,
        shares_validation: bool = True,
        kept_bytes: float = 0,
    ):
        self.source, self.plan, self.group, self.device = source, plan, group, torch.device(device)
        self.labels, self.masks, self.split_of_member = labels, masks, split_of_member
        self.dtype, self.shares_validation = source.dtype, shares_validation
        # On a GPU batches have few shapes, so that steps can be recorded.
        self.aligned = max(ROWS_ALIGNED, plan.batch_size // BATCH_SHAPES) if self.device.type == "cuda" else 1
        # Rows [n] that at least one member uses: only these are copied into batches.
        self.used = {name: mask[split_of_member.unique()].any(0) for name, mask in masks.items()}
        count = int(self.used["validation"].sum()) if "validation" in masks else 0
        terms, _, columns = source.shape
        self.keeps_validation = count * terms * columns * source.dtype.itemsize <= kept_bytes
        self._kept: list[Batch] | None = None
        if plan.slabs % group.size:
            raise ValueError(f"the number of slabs must be a multiple of the {group.size} processes; got {plan.slabs}.")

    def train(self, epoch: int) -> Iterator[Batch]:
        """Yield the steps of an epoch over this process's share of the slabs."""
        return self._batches("train", self.training_chunks(epoch, self.used["train"]))

    def validation(self) -> Iterator[Batch]:
        """Yield all validation rows, or this process's share of them."""
        if self._kept is not None:
            yield from self._kept
            return
        batches = []
        for batch in self._batches(
            "validation", self.chunks(self.used["validation"], is_shared=self.shares_validation)
        ):
            yield batch
            if self.keeps_validation:
                batches.append(batch)
        self._kept = batches if self.keeps_validation else None

    def _batches(self, part: str, chunks: Iterator[Chunk]) -> Iterator[Batch]:
        for terms, numbers in chunks:  # [T, m, d], [m]
            mask = self.masks[part][:, numbers][self.split_of_member]  # [b, m]
            rows, row_mask = padded_rows(mask, self.aligned)
            truth = (self.labels[numbers] if len(numbers) else self.labels[:1])[rows]  # a masked row if there is none
            rows, row_mask, truth = (sent(table, self.device) for table in (rows, row_mask, truth))
            yield Batch(terms, rows, row_mask, truth, mask.sum(1).tolist())

    def training_chunks(self, epoch: int, mask: Tensor) -> Iterator[Chunk]:
        """Yield terms [T, m, d] and row numbers [m] for every step of this process's share of the slabs.

        Rows outside `mask`, bool [n], are left out of their step, but the division into steps does not depend on it. A
        step without any rows is still a step: it has terms of one row, and no row numbers.
        """
        slabs = self.plan.order(epoch)[self.group.rank :: self.group.size]
        return self._read(slabs, lambda slab: self.plan.training_steps(epoch, slab), mask)

    def chunks(self, mask: Tensor | None = None, *, is_shared: bool = False) -> Iterator[Chunk]:
        """Yield the rows of `mask` in the order in which they are stored; unless `is_shared`, in every process."""
        slabs = [slab for slab in range(self.plan.slabs) if mask is None or mask[slice(*self.plan.bounds(slab))].any()]
        slabs = slabs[self.group.rank :: self.group.size] if is_shared else slabs
        return self._read(slabs, self.plan.rows_in_order, mask)

    def _read(self, slabs: Sequence[int], steps: Callable[[int], list[Tensor]], mask: Tensor | None) -> Iterator[Chunk]:
        bounds = [self.plan.bounds(slab) for slab in slabs]
        for slab, (start, _), terms in zip(slabs, bounds, self.source.ranges(bounds, self.device), strict=True):
            for step in steps(slab):
                rows = step if mask is None else step[mask[start + step]]
                some = pad(rows, (0, aligned_count(len(rows), self.aligned) - len(rows)))
                yield take_rows(terms, some).to(self.device, self.source.dtype), start + rows


def take_rows(terms: Tensor, rows: Tensor) -> Tensor:
    """Copy rows [m] of every term [T, r, d] to [T, m, d].

    Term by term, because torch is 5x slower on terms[:, rows] and on a slice of them.
    """
    result, rows = terms.new_empty(len(terms), len(rows), terms.shape[2]), sent(rows, terms.device)
    for term, target in zip(terms, result, strict=True):
        torch.index_select(term, 0, rows, out=target)
    return result
