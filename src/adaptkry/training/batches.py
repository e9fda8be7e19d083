"""Where the batches of a training come from: the plan of an epoch, and terms that lie in memory or on disk.

Rows are cut into slabs that are read one after the other. In which order the slabs come, how the rows of a slab are
shuffled and where steps begin depends on the plan, the epoch and the slab alone: not on where the terms lie, nor on
which members look at them. So a training from disk is the training in memory, and a member alone is itself in company.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from adaptkry.outofcore.basis_reader import BasisReader, RowRange
from adaptkry.training.process_group import ALONE, Group

BATCH = 8192  # rows a step
SLAB = 64 * 2**20  # bytes of a slab, if a batch is not larger


@dataclass(frozen=True, eq=False)
class Plan:
    """Slabs of equal size (to a row), each in the same number of steps: processes that share them out never wait."""

    known: Tensor  # bool [n]: rows that may train; the others are never in a batch
    slabs: int
    batch: int  # rows a step, at most

    @classmethod
    def of(cls, known: Tensor, row_bytes: int, batch: int | None = None, world: int = 1) -> "Plan":
        """As many slabs as memory asks for, and as many for every process."""
        batch = batch or default_batch(row_bytes)
        rows = max(batch, SLAB // max(1, row_bytes))  # of a slab
        slabs = -(-len(known) // rows)
        slabs = -(-slabs // world) * world
        if slabs > len(known):
            raise ValueError(f"{world} processes need {slabs} rows or more, but {len(known)} are stored. Start fewer.")
        return cls(known, slabs, batch)

    @property
    def rows(self) -> int:
        """Their number n."""
        return len(self.known)

    def bounds(self, slab: int) -> RowRange:
        """The rows of a slab."""
        return slab * self.rows // self.slabs, (slab + 1) * self.rows // self.slabs

    @cached_property
    def steps(self) -> int:
        """Steps of every slab: as many as the one with most rows needs."""
        most = max(int(self.known[slice(*self.bounds(slab))].sum()) for slab in range(self.slabs))
        return max(1, -(-most // self.batch))

    def order(self, epoch: int) -> list[int]:
        """All slabs, as they come in this epoch."""
        return np.random.default_rng([epoch]).permutation(self.slabs).tolist()

    def parts(self, epoch: int, slab: int) -> list[Tensor]:
        """The rows of every step, counted from the slab's first."""
        rows = np.flatnonzero(self.known[slice(*self.bounds(slab))].numpy())
        mixed = np.random.default_rng([epoch, slab]).permutation(rows)
        return [torch.from_numpy(part) for part in np.array_split(mixed, self.steps)]

    def pieces(self, slab: int) -> list[Tensor]:
        """All rows of a slab in their order, a batch at a time."""
        start, stop = self.bounds(slab)
        return list(torch.arange(stop - start).split(self.batch))


def default_batch(row_bytes: int) -> int:
    """8192 rows, or as many as a slab may have."""
    return max(1, min(BATCH, SLAB // max(1, row_bytes)))


class InMemoryTerms:
    """Terms in memory, on the CPU or on a GPU: [T, n, d]."""

    def __init__(self, terms: Tensor):
        self.terms = terms

    @property
    def shape(self) -> tuple[int, int, int]:
        """T, n, d."""
        return self.terms.shape[0], self.terms.shape[1], self.terms.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """What they are computed in."""
        return computed(self.terms.dtype)

    def runs(self, bounds: Sequence[RowRange], _: torch.device) -> Iterator[Tensor]:
        """These runs of rows in turn."""
        for start, stop in bounds:
            yield self.terms[:, start:stop]


class FolderTerms:
    """Terms in a basis folder."""

    def __init__(self, reader: BasisReader):
        self.reader = reader

    @property
    def shape(self) -> tuple[int, int, int]:
        """T, n, d."""
        return len(self.reader.means), self.reader.folder.count, self.reader.folder.features

    @property
    def dtype(self) -> torch.dtype:
        """What they are computed in."""
        return computed(self.reader.dtype)

    def runs(self, bounds: Sequence[RowRange], device: torch.device) -> Iterator[Tensor]:
        """These runs of rows in turn, the next one read while the last one is used."""
        return self.reader.ranges(bounds, device)


def computed(stored: torch.dtype) -> torch.dtype:
    """bfloat16 is for storing only."""
    return torch.float32 if stored == torch.bfloat16 else stored


class Stream:
    """Batches of rows, for all members at once.

    Args:
        source: where the terms lie.
        plan: in which order they come.
        group: this process among those that share the slabs out.
        device: where batches are wanted.
    """

    def __init__(
        self, source: InMemoryTerms | FolderTerms, plan: Plan, group: Group = ALONE, device: torch.device | str = "cpu"
    ) -> None:
        self.source, self.plan, self.group, self.device = source, plan, group, torch.device(device)
        if plan.slabs % group.world:
            raise ValueError(f"{plan.slabs} slabs cannot be shared out equally among {group.world} processes.")

    def training(self, epoch: int, used: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The steps of an epoch: (terms [T, m, d], their row numbers [m]), of this process's share of the slabs.

        Rows that nobody uses (`used`, bool [n]) are left out of a step but counted when steps are cut. A step without
        any rows is a step all the same: it comes with terms of one row, and no row numbers.
        """
        mine = self.plan.order(epoch)[self.group.rank :: self.group.world]
        return self._batches(mine, lambda slab: self.plan.parts(epoch, slab), used)

    def everything(self, used: Tensor | None = None, *, shared: bool = True) -> Iterator[tuple[Tensor, Tensor]]:
        """All rows that are used in the order in which they are stored; without `shared` by every process."""
        slabs = [slab for slab in range(self.plan.slabs) if used is None or used[slice(*self.plan.bounds(slab))].any()]
        mine = slabs[self.group.rank :: self.group.world] if shared else slabs
        return self._batches(mine, self.plan.pieces, used)

    def _batches(self, slabs: Sequence[int], parts, used: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        bounds = [self.plan.bounds(slab) for slab in slabs]
        for slab, (start, _), terms in zip(slabs, bounds, self.source.runs(bounds, self.device), strict=True):
            for part in parts(slab):
                wanted = part if used is None else part[used[start + part]]
                some = wanted if len(wanted) else torch.zeros(1, dtype=torch.long)
                yield picked(terms, some).to(self.device, self.source.dtype), start + wanted


def picked(terms: Tensor, rows: Tensor) -> Tensor:
    """Some rows of every term; term by term, since torch is 5x slower on terms[:, rows] and on a slice of them."""
    found, rows = terms.new_empty(len(terms), len(rows), terms.shape[2]), rows.to(terms.device)
    for term, place in zip(terms, found, strict=True):
        torch.index_select(term, 0, rows, out=place)
    return found
