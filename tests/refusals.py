"""Assert that bad input is refused: with an error that this package raises for users, not with a bug."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adaptkry.common.errors import is_declared


def refused(action: Callable[[], Any], match: str = "") -> str:
    """Run an action that must be refused, and return the message."""
    with pytest.raises((ValueError, TypeError, OSError), match=match or None) as caught:
        action()
    return assert_refusal(caught.value)


def assert_refusal(error: Exception) -> str:
    """Assert that an error is for users, and return its message."""
    assert is_declared(error) or isinstance(error, OSError), f"a bug: {error!r}"
    assert str(error).strip()
    return str(error)


def tree(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder, by relative path; b"" for folders."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in paths}


def full_disk() -> OSError:
    """The error of the operating system."""
    return OSError(errno.ENOSPC, "No space left on device")
