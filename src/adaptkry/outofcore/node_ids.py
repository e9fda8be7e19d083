"""The user's ids of nodes in a graph folder or basis folder: text as UTF-8 bytes of equal length, or integers."""

from collections.abc import Sequence

import numpy as np

from adaptkry.outofcore.npy_files import NpyFile

NODE_IDS = "node_ids.npy"
MAX_ID_BYTES = 1024  # all ids take as many bytes as the longest


def encoded(ids: Sequence[str]) -> np.ndarray:
    """Encode ids as an array of bytes [n], which needs no pickle; ids that it cannot hold are refused."""
    texts = [str(name).encode("utf-8", "surrogatepass") for name in ids]
    for name, text in zip(ids, texts, strict=True):
        if len(text) > MAX_ID_BYTES or text.endswith(b"\0") or text.decode("utf-8", "replace") != str(name):
            raise ValueError(
                f"node ids on disk must be valid text of at most {MAX_ID_BYTES} bytes, without a null character at the "
                f"end; got {str(name)[:50]!r} of {len(text)} bytes. Change it."
            )
    return np.array(texts, dtype=f"S{max(map(len, texts), default=1) or 1}")


def check_ids(array: NpyFile) -> NpyFile:
    """Refuse an array that is neither bytes, text nor integers."""
    if array.dtype.kind not in "SUiu":
        raise ValueError(
            f"{array.path} must hold bytes (UTF-8), text or integers; got {array.dtype}. Write the ids again."
        )
    return array


def as_ids(array: np.ndarray) -> list[str] | list[int]:
    """Convert stored ids [m] to text or integers."""
    if array.dtype.kind != "S":
        return array.tolist()
    return [text.decode("utf-8", "replace") for text in array.tolist()]


def ids_of(array: NpyFile, rows: np.ndarray) -> np.ndarray:
    """Return the ids of some nodes [m], in the order of `rows`; the file is read in chunks, since it may be large."""
    found = np.empty(len(rows), array.dtype)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    for start, chunk in array.chunks():
        first, last = np.searchsorted(ordered, [start, start + len(chunk)])
        found[order[first:last]] = chunk[ordered[first:last] - start]
    return found
