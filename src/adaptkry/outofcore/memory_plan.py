"""Plan the number of columns per block, and whether the edges stay in memory, from a memory limit.

The limit applies to the peak resident memory of a process (VmHWM), including Python and torch. The plan depends only
on the graph and the request, so that every machine writes the same files.
"""

from dataclasses import dataclass

from adaptkry.common.memory import format_bytes
from adaptkry.outofcore.npy_files import CHUNK_BYTES
from adaptkry.spectral.kernels import cpu as kernels

BASE_BYTES = 432 * 2**20  # Python, torch and this package, with their threads
WORK_BYTES = 6 * CHUNK_BYTES  # chunks of features, sums and scalings
BUFFER_BYTES = 2**22  # bytes of rows passed to the writer at once
ENTRIES_PER_RUN = 2**22  # entries in memory at once if edges are read again for every product
RUNS_IN_MEMORY = 3  # runs of edges: the one in use, the next one, and the one being released


@dataclass(frozen=True)
class ProblemSize:
    """The sizes that determine how much memory a block takes."""

    nodes: int
    entries: int
    largest_row: int  # entries of the row with the most
    features: int
    rows: int  # stored
    is_weighted: bool
    has_two_sums: bool  # row and column sums differ

    @property
    def entry_bytes(self) -> int:
        """Bytes per entry: a column number and possibly a weight."""
        return 8 if self.is_weighted else 4

    @property
    def fixed_bytes(self) -> int:
        """Bytes independent of the width: row pointers, sums and three scalings per node; numbers of stored rows."""
        return (
            BASE_BYTES
            + WORK_BYTES
            + 2 * BUFFER_BYTES
            + self.nodes * (8 + (16 if self.has_two_sums else 8) + 12)
            + 4 * self.rows
        )

    @property
    def column_bytes(self) -> int:
        """Bytes per column: a hop and the previous one, as float32."""
        return 8 * self.nodes

    @property
    def queued_bytes(self) -> int:
        """Bytes per column of stored rows that are queued for writing."""
        return 4 * self.rows


@dataclass(frozen=True)
class MemoryPlan:
    """How a block is computed within the memory limit."""

    width: int  # maximum number of columns per block
    entries_in_memory: int | None  # entries in memory at once; None is all
    buffers: int  # chunks of rows that may be queued for writing while the next hop is computed
    peak_bytes: int


def plan_memory(size: ProblemSize, memory: int, columns: int | None = None) -> MemoryPlan:
    """Plan the widest blocks that fit; edges stay in memory and a whole hop is queued if the blocks stay wide enough.

    If all rows are stored, writing takes about as long as the products: narrow blocks, whose hops are written while
    the next one is computed, are faster than wide blocks that alternate between computing and writing.
    """
    widest = min(size.features, columns or kernels.panel_width(size.nodes))
    enough = min(widest, kernels.NARROW)
    all_edges = size.entries * size.entry_bytes
    run = max(min(ENTRIES_PER_RUN, size.entries), size.largest_row)
    some_edges = min(RUNS_IN_MEMORY * run * size.entry_bytes, all_edges)
    for edge_bytes, entries_in_memory in ((all_edges, None), (some_edges, run)):
        available = memory - size.fixed_bytes - edge_bytes
        for column_bytes in (size.column_bytes + size.queued_bytes, size.column_bytes):
            if available // column_bytes >= enough:
                return _plan(size, memory, min(available // column_bytes, widest), entries_in_memory, edge_bytes)
    width = (memory - size.fixed_bytes - some_edges) // size.column_bytes
    if width < 1:
        needed = size.fixed_bytes + some_edges + size.column_bytes
        raise ValueError(
            f"one column of {size.nodes:,} nodes with {size.entries:,} entries needs {format_bytes(needed)} of memory; "
            f"got a limit of {format_bytes(memory)}. Use --memory {-(-needed // 2**20)}MiB or more."
        )
    return _plan(size, memory, width, run, some_edges)


def _plan(size: ProblemSize, memory: int, width: int, entries_in_memory: int | None, edge_bytes: int) -> MemoryPlan:
    if kernels.NARROW < width < size.features:
        width = width // kernels.NARROW * kernels.NARROW  # whole cache lines
    peak = size.fixed_bytes + edge_bytes + width * size.column_bytes
    whole_hop = -(-4 * width * size.rows // BUFFER_BYTES)  # number of buffers for a whole hop
    extra = max(0, min(whole_hop - 2, (memory - peak) // BUFFER_BYTES))  # two are part of fixed_bytes
    return MemoryPlan(width, entries_in_memory, 2 + extra, peak + extra * BUFFER_BYTES)
