"""Tell errors of the user, and lack of memory, from bugs of this package.

Every check of input ends in a `raise` statement of this package. An exception that torch, NumPy or Python itself raises
while the package runs means that some input was not checked, or that the package is wrong: a bug.
"""

import dis
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
RAISE = dis.opmap["RAISE_VARARGS"]  # the instruction of a `raise` statement
MEMORY_TEXTS = ("out of memory", "can't allocate memory", "not enough memory", "tried to allocate")  # of torch


def is_declared(error: BaseException) -> bool:
    """Return whether a `raise` statement of this package raised the error, which then has a message for users."""
    trace = error.__traceback__
    if trace is None or not isinstance(error, (ValueError, TypeError, MemoryError)):
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return Path(code.co_filename).is_relative_to(PACKAGE) and code.co_code[trace.tb_lasti] == RAISE


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory did not suffice; torch raises a RuntimeError for it."""
    text = str(error).lower()
    is_torch = isinstance(error, RuntimeError) and any(part in text for part in MEMORY_TEXTS)
    return isinstance(error, MemoryError) or is_torch


def reason(error: BaseException) -> str | None:
    """Return in one line why something cannot be computed: bad input, or lack of memory; None for a bug.

    >>> reason(MemoryError())
    'there is not enough memory'
    """
    first = str(error).partition("\n")[0]
    if is_declared(error):
        return first
    if is_out_of_memory(error):
        return "there is not enough memory" + (f" ({first.rstrip('.')})" if first else "")
    return None
