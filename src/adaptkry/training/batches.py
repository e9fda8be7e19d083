"""Where the batches of a training come from: all nodes at once, or slabs of rows from memory or from disk.

All give the same protocol: `train(epoch)` and `validation()` yield `Batch`es, `chunks(mask)` yields rows to predict.

Slabs are read one after the other. Their order, the order of rows inside a slab and the limits of steps depend on the
plan, the epoch and the slab only: not on where the terms are stored, nor on which members train. So training from disk
equals training in memory, and a member trained alone equals the same member in a batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from adaptkry.outofcore.basis_reader import BasisReader, RowRange
from adaptkry.spectral.operators import Operator
from adaptkry.training.process_group import SINGLE_PROCESS, ProcessGroup

DEFAULT_BATCH_SIZE = 8192  # rows per step
SLAB_BYTES = 64 * 2**20  # of a slab, unless a batch is larger
CHUNK = 512  # rows that are predicted at once


@dataclass(frozen=True)
class Batch:
    """The rows of one step, for all members."""

    terms: Tensor  # [T, r, d]
    rows: Tensor  # [b, m] each member's rows of `terms`, padded with 0
    counted: Tensor  # bool [b, m, 1]: False for padding
    classes: Tensor  # [b, m]
    dropout_rows: Sequence[int]  # rows of each member for which dropout is drawn


Chunk = tuple[Tensor, Tensor]  # terms [T, m, d] and their row numbers [m]


class Batches(Protocol):
    """What a training needs to know about its data."""

    operator: Operator | None  # for models that propagate
    group: ProcessGroup
    device: torch.device
    dtype: torch.dtype
    is_fixed: bool  # every epoch is the same work, so it can be recorded once

    def train(self, epoch: int) -> Iterator[Batch]:
        """The steps of an epoch."""
        ...

    def validation(self) -> Iterator[Batch]:
        """All validation rows."""
        ...

    def chunks(self, used: Tensor | None = None, *, shared: bool = False) -> Iterator[Chunk]:
        """Rows of a mask [n], or all, in order; with `shared` only this process's share of them."""
        ...


def padded_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Masks [b, n] as row numbers [b, m], padded with 0, and which of them count [b, m, 1]."""
    counts = mask.sum(1)
    counted = torch.arange(max(1, int(counts.max())), device=mask.device) < counts[:, None]
    rows = torch.zeros(counted.shape, dtype=torch.long, device=mask.device)
    rows[counted] = mask.nonzero()[:, 1]
    return rows, counted[:, :, None]


class FullBatch:
    """All nodes at once.

    Args:
        terms: [T, n, d].
        labels: class of each node [n].
        masks: "train" and "validation" masks, bool [s, n].
        split_of_member: [b] which split each member has.
        device: where the terms are moved.
        operator: for models that propagate.
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
    ):
        self.device, self.operator, self.dtype = torch.device(device), operator, terms.dtype
        self.terms = terms.to(self.device)
        self._batches = {
            name: self._batch(mask[split_of_member].cpu(), labels.to(self.device)) for name, mask in masks.items()
        }

    def _batch(self, mask: Tensor, labels: Tensor) -> Batch:
        rows, counted = (part.to(self.device) for part in padded_rows(mask))
        counts = [self.terms.shape[1]] * len(mask) if self.operator is not None else mask.sum(1).tolist()
        return Batch(self.terms, rows, counted, labels[rows], counts)

    def train(self, epoch: int) -> Iterator[Batch]:  # noqa: ARG002  the same in every epoch
        """One step."""
        yield self._batches["train"]

    def validation(self) -> Iterator[Batch]:
        """One batch."""
        yield self._batches["validation"]

    def chunks(self, used: Tensor | None = None, *, shared: bool = False) -> Iterator[Chunk]:  # noqa: ARG002
        """All rows, a few at a time; a model that propagates needs them all at once."""
        return term_chunks(self.terms, self.operator, self.device)


def term_chunks(terms: Tensor, operator: Operator | None, device: torch.device | str) -> Iterator[Chunk]:
    """Terms [T, n, d] a few rows at a time, so that predicting takes little memory; all where there is an operator."""
    n = terms.shape[1]
    for rows in torch.arange(n).split(CHUNK if operator is None else n):
        yield (terms[:, rows.to(terms.device)].to(device) if operator is None else terms), rows


@dataclass(frozen=True, eq=False)
class SlabPlan:
    """Slabs of equal size (up to one row), each with the same number of steps: processes never wait for each other."""

    known: Tensor  # bool [n]: rows that may train; the others are in no batch
    slabs: int
    batch_size: int  # rows per step, at most

    @classmethod
    def for_rows(
        cls,
        known: Tensor,
        row_bytes: int,
        batch_size: int | None = None,
        processes: int = 1,
        slab_bytes: int = SLAB_BYTES,
    ) -> "SlabPlan":
        """As many slabs as memory requires, and equally many for every process."""
        batch_size = batch_size or default_batch_size(row_bytes, slab_bytes)
        rows_per_slab = max(batch_size, slab_bytes // max(1, row_bytes))
        slabs = -(-len(known) // rows_per_slab)
        slabs = -(-slabs // processes) * processes
        if slabs > len(known):
            raise ValueError(
                f"{processes} processes need at least {slabs} stored rows; got {len(known)}. Start fewer processes."
            )
        return cls(known, slabs, batch_size)

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return len(self.known)

    def bounds(self, slab: int) -> RowRange:
        """The rows of a slab."""
        return slab * self.rows // self.slabs, (slab + 1) * self.rows // self.slabs

    @cached_property
    def steps(self) -> int:
        """Steps per slab: as many as the slab with most rows needs."""
        most = max(int(self.known[slice(*self.bounds(slab))].sum()) for slab in range(self.slabs))
        return max(1, -(-most // self.batch_size))

    def order(self, epoch: int) -> list[int]:
        """All slabs in the order of this epoch."""
        return np.random.default_rng([epoch]).permutation(self.slabs).tolist()

    def training_steps(self, epoch: int, slab: int) -> list[Tensor]:
        """The rows of every step, counted from the slab's first."""
        rows = np.flatnonzero(self.known[slice(*self.bounds(slab))].numpy())
        shuffled = np.random.default_rng([epoch, slab]).permutation(rows)
        return [torch.from_numpy(part) for part in np.array_split(shuffled, self.steps)]

    def rows_in_order(self, slab: int) -> list[Tensor]:
        """All rows of a slab in order, a batch at a time."""
        start, stop = self.bounds(slab)
        return list(torch.arange(stop - start).split(self.batch_size))


def default_batch_size(row_bytes: int, slab_bytes: int = SLAB_BYTES) -> int:
    """8192 rows, or as many as fit in a slab."""
    return max(1, min(DEFAULT_BATCH_SIZE, slab_bytes // max(1, row_bytes)))


class InMemoryTerms:
    """Terms in memory, on the CPU or on a GPU: [T, n, d]."""

    def __init__(self, terms: Tensor):
        self.terms = terms
        self.shape: tuple[int, int, int] = (terms.shape[0], terms.shape[1], terms.shape[2])
        self.dtype = computing_dtype(terms.dtype)

    def runs(self, bounds: Sequence[RowRange], _: torch.device) -> Iterator[Tensor]:
        """These runs of rows in turn."""
        for start, stop in bounds:
            yield self.terms[:, start:stop]


class FolderTerms:
    """Terms in a basis folder."""

    def __init__(self, reader: BasisReader):
        self.reader = reader
        self.shape: tuple[int, int, int] = (len(reader.means), reader.folder.count, reader.folder.features)
        self.dtype = computing_dtype(reader.dtype)

    def runs(self, bounds: Sequence[RowRange], device: torch.device) -> Iterator[Tensor]:
        """These runs of rows in turn; the next one is read while this one is used."""
        return self.reader.ranges(bounds, device)


def computing_dtype(stored: torch.dtype) -> torch.dtype:
    """bfloat16 is for storage only."""
    return torch.float32 if stored == torch.bfloat16 else stored


class SlabBatches:
    """Batches of rows for all members, slab by slab.

    Args:
        source: where the terms are stored.
        plan: the order of rows.
        labels: class of each row [n].
        masks: "train" and "validation" masks, bool [s, n].
        split_of_member: [b] which split each member has.
        device: where batches are used.
        group: the processes that share the slabs.
        shares_validation: whether validation scores of several processes add up. Those of ROC-AUC do not: then every
            process evaluates all rows.
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
    ):
        self.source, self.plan, self.group, self.device = source, plan, group, torch.device(device)
        self.labels, self.masks, self.split_of_member = labels, masks, split_of_member
        self.dtype, self.shares_validation = source.dtype, shares_validation
        self.used = {name: mask[split_of_member.unique()].any(0) for name, mask in masks.items()}  # [n], by any member
        if plan.slabs % group.size:
            raise ValueError(f"the number of slabs must be a multiple of the {group.size} processes; got {plan.slabs}.")

    def train(self, epoch: int) -> Iterator[Batch]:
        """The steps of an epoch over this process's share of the slabs."""
        return self._batches("train", self.training_chunks(epoch, self.used["train"]))

    def validation(self) -> Iterator[Batch]:
        """All validation rows, or this process's share of them."""
        return self._batches("validation", self.chunks(self.used["validation"], shared=self.shares_validation))

    def _batches(self, part: str, chunks: Iterator[Chunk]) -> Iterator[Batch]:
        for terms, numbers in chunks:
            mask = self.masks[part][:, numbers][self.split_of_member]
            rows, counted = (table.to(self.device) for table in padded_rows(mask))
            classes = self.labels[numbers] if len(numbers) else self.labels[:1]  # which then does not count
            yield Batch(terms, rows, counted, classes.to(self.device)[rows], mask.sum(1).tolist())

    def training_chunks(self, epoch: int, used: Tensor) -> Iterator[Chunk]:
        """(terms [T, m, d], row numbers [m]) for every step of this process's share of the slabs.

        Rows that nobody uses (`used`, bool [n]) are left out of a step but counted when steps are divided. A step
        without any rows is still a step: it has terms of one row, and no row numbers.
        """
        slabs = self.plan.order(epoch)[self.group.rank :: self.group.size]
        return self._read(slabs, lambda slab: self.plan.training_steps(epoch, slab), used)

    def chunks(self, used: Tensor | None = None, *, shared: bool = False) -> Iterator[Chunk]:
        """Rows that are used, in the order in which they are stored; without `shared` in every process."""
        slabs = [slab for slab in range(self.plan.slabs) if used is None or used[slice(*self.plan.bounds(slab))].any()]
        slabs = slabs[self.group.rank :: self.group.size] if shared else slabs
        return self._read(slabs, self.plan.rows_in_order, used)

    def _read(self, slabs: Sequence[int], steps: Callable[[int], list[Tensor]], used: Tensor | None) -> Iterator[Chunk]:
        bounds = [self.plan.bounds(slab) for slab in slabs]
        for slab, (start, _), terms in zip(slabs, bounds, self.source.runs(bounds, self.device), strict=True):
            for step in steps(slab):
                rows = step if used is None else step[used[start + step]]
                some = rows if len(rows) else torch.zeros(1, dtype=torch.long)
                yield select_rows(terms, some).to(self.device, self.source.dtype), start + rows


def select_rows(terms: Tensor, rows: Tensor) -> Tensor:
    """Some rows of every term; term by term, because torch is 5x slower on terms[:, rows] and on a slice of them."""
    found, rows = terms.new_empty(len(terms), len(rows), terms.shape[2]), rows.to(terms.device)
    for term, place in zip(terms, found, strict=True):
        torch.index_select(term, 0, rows, out=place)
    return found
