"""How many columns at once, and whether the edges stay in memory: decided from a limit before anything is done.

The limit is on the memory that a process holds at most (VmHWM), with Python and torch in it. It decides the width of
blocks, so it must not depend on anything but the graph and what was asked: any machine then makes the same files.
"""

import re
from dataclasses import dataclass

from adaptkry.outofcore.npy_files import PIECE
from adaptkry.spectral.kernels import cpu as kernels

BASE = 432 * 2**20  # Python, torch and this package, with their threads
WORK = 6 * PIECE  # features on their way in, sums of a run of rows, scalings of some nodes
CHUNK = 2**22  # bytes of rows handed to the writer at once
STREAM = 2**22  # entries held at once where edges are read again for every product
COPIES = 3  # runs of edges in memory: the one that is used, the next, and the one being given up
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(text: str | int) -> int:
    """Bytes from text with a unit.

    >>> parse_bytes("4GiB"), parse_bytes("1.5 MB"), parse_bytes(100)
    (4294967296, 1500000, 100)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(text))
    if not found or found[2].upper() not in UNITS or found[1].count(".") > 1 or found[1] == ".":
        raise ValueError(f"a size such as 4GiB or 500MB is wanted, but {text!r} came.")
    return int(float(found[1]) * UNITS[found[2].upper()])


def show_bytes(size: float) -> str:
    """A size for people.

    >>> show_bytes(3 * 2**30), show_bytes(1000)
    ('3.00 GiB', '1000 bytes')
    """
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{int(size)} bytes"


@dataclass(frozen=True)
class Size:
    """What decides how much memory a block takes."""

    nodes: int
    entries: int
    largest: int  # entries of the fullest row
    features: int
    rows: int  # stored
    is_weighted: bool
    has_two_sums: bool  # row and column sums differ

    @property
    def entry_bytes(self) -> int:
        """A column number, and a weight."""
        return 8 if self.is_weighted else 4

    @property
    def fixed(self) -> int:
        """Bytes whatever the width: row pointers, sums, three scalings a node; the numbers of stored rows."""
        return BASE + WORK + 2 * CHUNK + self.nodes * (8 + (16 if self.has_two_sums else 8) + 12) + 4 * self.rows

    @property
    def column(self) -> int:
        """Bytes of a column: a hop and the one before it, as float32."""
        return 8 * self.nodes

    @property
    def waiting(self) -> int:
        """Bytes of a column of stored rows that wait to be written."""
        return 4 * self.rows


@dataclass(frozen=True)
class Plan:
    """What fits in the limit."""

    width: int  # columns of a block, at most
    held: int | None  # entries in memory at once; None is all
    buffers: int  # chunks that wait to be written while the next hop is computed
    needed: int  # bytes at most


def make_plan(size: Size, memory: int, columns: int | None = None) -> Plan:
    """The widest blocks that fit, edges in memory and a whole hop waiting to be written if that leaves a fair width.

    Where all rows are stored, writing takes about as long as the products: narrower blocks whose hops wait while the
    next one is computed are faster than wide ones that take turns with the disk.
    """
    wanted = min(size.features, columns or kernels.panel_width(size.nodes))
    fair = min(wanted, kernels.NARROW)
    resident = size.entries * size.entry_bytes
    held = max(min(STREAM, size.entries), size.largest)
    streamed = min(COPIES * held * size.entry_bytes, resident)
    for edges, some in ((resident, None), (streamed, held)):
        room = memory - size.fixed - edges
        for column in (size.column + size.waiting, size.column):
            if room // column >= fair:
                return _plan(size, memory, min(room // column, wanted), some, edges)
    fitting = (memory - size.fixed - streamed) // size.column
    if fitting < 1:
        least = size.fixed + streamed + size.column
        raise ValueError(
            f"one column of {size.nodes:,} nodes with {size.entries:,} entries needs {show_bytes(least)} of memory, "
            f"but the limit is {show_bytes(memory)}. Use --memory {-(-least // 2**20)}MiB or more."
        )
    return _plan(size, memory, fitting, held, streamed)


def _plan(size: Size, memory: int, width: int, held: int | None, edges: int) -> Plan:
    if kernels.NARROW < width < size.features:
        width = width // kernels.NARROW * kernels.NARROW  # whole cache lines
    taken = size.fixed + edges + width * size.column
    hop = -(-4 * width * size.rows // CHUNK)  # chunks that hold a whole hop
    more = max(0, min(hop - 2, (memory - taken) // CHUNK))  # two are counted already
    return Plan(width, held, 2 + more, taken + more * CHUNK)
