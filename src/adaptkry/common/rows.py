"""Result rows: JSON lines, each with its settings and the version, commit and device that produced it.

Rows written by version 0.1 stay readable: `settings_of` and `created_of` return their fields under current names.
"""

import json
import logging
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from adaptkry.common.files import checked_path, named_error
from adaptkry.common.version import VERSION, commit

log = logging.getLogger("adaptkry")

FORMER_SETTINGS = {  # names of settings in rows of version 0.1 -> current names
    "kind": "parametrisation",
    "start": "initial_weights",
    "loops": "self_loops",
    "least_epochs": "min_epochs",
    "combine": "combine_hops",
}


def provenance(device: str | torch.device = "cpu") -> dict[str, str]:
    """Where a row comes from: version, commit, device, torch and Python."""
    on_gpu = torch.device(device).type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    return {
        "version": VERSION,
        "commit": os.environ.get("ADAPTKRY_COMMIT") or commit(),
        "device": name,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def origin() -> dict[str, str | None]:
    """When results were made, and by which command line; None if Python code called the library."""
    program = Path(sys.argv[0] if sys.argv else "")
    is_command = program.stem == "adaptkry" or program.parts[-2:] == ("adaptkry", "__main__.py")
    command = shlex.join(["adaptkry", *sys.argv[1:]]) if is_command else None
    return {"created": datetime.now(UTC).isoformat(timespec="seconds"), "command": command}


def append(path: Path | str, rows: Iterable[dict]) -> None:
    """Add rows to a JSON-lines file in one write; an incomplete last line, left by a full disk, is removed first."""
    path = checked_path(path, "the file of rows")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    tail = last_line(path)
    try:
        if tail and _is_json(tail):  # only its end is missing
            text = "\n" + text
        elif tail:
            log.warning(f"the last line of {path} is incomplete and is removed")
            os.truncate(path, path.stat().st_size - len(tail))
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise named_error(error, path) from None


def last_line(path: Path) -> bytes:
    """Return what follows the last line break of a file: b"" if all lines are complete, or if there is no file."""
    return path.read_bytes().rpartition(b"\n")[2] if path.exists() else b""


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def lines(path: Path | str) -> Iterator[tuple[int, Any]]:
    """Yield (line number, row) of a JSON-lines file; for a damaged line, (line number, error)."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, ValueError(str(error))


def read(path: Path | str) -> list[dict]:
    """All rows of a JSON-lines file; an error names the first damaged line."""
    rows: list[dict] = []
    for number, row in lines(path):
        if isinstance(row, ValueError):
            raise ValueError(  # noqa: TRY004  `lines` returns the error of a damaged line in place of its row
                f"every line must be JSON; {path}, line {number} is not ({row}). Restore the file."
            ) from None
        if not isinstance(row, dict):
            raise ValueError(  # noqa: TRY004  the content of a file is wrong, not an argument
                f"every line must be a JSON object; {path}, line {number} is {row!r:.50}. Restore the file."
            )
        rows.append(row)
    return rows


def settings_of(row: dict) -> dict[str, Any]:
    """The settings of a row under their current names; empty for rows without settings.

    >>> settings_of({"config": {"degree": 4, "loops": "keep"}})
    {'degree': 4, 'self_loops': 'keep'}
    """
    settings: dict[str, Any] = row.get("settings", row.get("config", {}))
    return {FORMER_SETTINGS.get(name, name): value for name, value in settings.items()}


def created_of(row: dict) -> str | None:
    """When a row was written, as ISO 8601 text; None for rows without a time."""
    return row.get("created", row.get("made"))
