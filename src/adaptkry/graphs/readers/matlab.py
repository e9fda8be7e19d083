"""Read matrices from a MATLAB file of version 5 to 7.2. SciPy's reader ends the process on some damaged files.

The format: a header of 128 bytes, then elements, each with a tag of its type and its size. A variable is an element
of elements: flags, shape, name and numbers; for a sparse matrix row numbers, starts of columns and numbers.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from adaptkry.common.memory import check_memory

HEADER = 128
MATRIX, COMPRESSED = 14, 15  # types of elements, besides those of numbers
NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
SPARSE, DENSE = 5, range(6, 16)  # classes of variables
COMPLEX = 0x0800

Element = tuple[int, bytes]  # type and content


def read_matlab(path: Path) -> dict[str, Any]:
    """Dense and sparse matrices of real numbers by name; None for other variables, such as text."""
    content = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(content[126:HEADER])
    if order is None or content[:8] != b"MATLAB 5":
        raise ValueError("it does not begin as one")
    found: dict[str, Any] = {}
    for kind, part in _elements(content[HEADER:], order):
        if kind == COMPRESSED:
            [(kind, part)] = _elements(_decompressed(part, order), order)
        if kind == MATRIX:
            found |= [_variable(part, order)]
    return found


def _elements(content: bytes, order: str) -> Iterator[Element]:
    """The elements of a file or of a variable."""
    start = 0
    while start + 8 <= len(content):
        kind, size = np.frombuffer(content, f"{order}u4", 2, start).tolist()
        is_small = kind >> 16  # 4 bytes at most, in the tag itself
        kind, size, begin = (kind & 0xFFFF, is_small, start + 4) if is_small else (kind, size, start + 8)
        if begin + size > len(content):
            raise ValueError("it ends too early")
        yield kind, content[begin : begin + size]
        end = begin + (4 if is_small else size)
        start = end if kind == COMPRESSED else end + -end % 8


def _decompressed(content: bytes, order: str) -> bytes:
    """The element in a compressed one, whose size is checked before it is decompressed."""
    tag = zlib.decompressobj().decompress(content, 8)
    size = 8 + int(np.frombuffer(tag, f"{order}u4", 2)[1])
    check_memory(size, "a variable")
    return zlib.decompressobj().decompress(content, size)


def _variable(content: bytes, order: str) -> tuple[str, Any]:
    """Name and value of a variable."""
    flags, shape, name, *parts = _elements(content, order)
    kind = int(np.frombuffer(flags[1], f"{order}u4", 2)[0])
    label, size = name[1].decode("utf-8"), tuple(_numbers(shape, order).tolist())
    is_known = kind & 0xFF == SPARSE or kind & 0xFF in DENSE
    if not is_known or kind & COMPLEX:
        return label, None
    values = [_numbers(part, order) for part in parts]
    if kind & 0xFF in DENSE:
        return label, values[0].reshape(size, order="F")
    rows, starts, numbers = values
    count = int(starts[-1])
    matrix = sp.csc_array((numbers[:count], rows[:count], starts), shape=size)
    matrix.check_format(full_check=True)
    return label, matrix


def _numbers(element: Element, order: str) -> np.ndarray:
    """The numbers in an element [size]."""
    return np.frombuffer(element[1], f"{order}{NUMBERS[element[0]]}").astype(NUMBERS[element[0]])
