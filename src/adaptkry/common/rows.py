"""Result rows: no number in a report that is not in a row, no row without where it came from."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from adaptkry.common.version import VERSION


def provenance(device: str | torch.device = "cpu") -> dict[str, str]:
    """Where and when a row was made: version, commit, device, torch and Python."""
    on_gpu = torch.device(device).type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    return {
        "version": VERSION,
        "commit": os.environ.get("ADAPTKRY_COMMIT") or commit(),
        "device": name,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit the code stands at, with a + where it has been changed since; "unknown" outside a checkout."""
    here = Path(__file__).parent
    try:
        ask = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def append(path: Path | str, rows: Iterable[dict]) -> None:
    """Add rows to a JSON-lines file in one write, so that a killed run leaves whole lines only."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def lines(path: Path | str) -> Iterator[tuple[int, Any]]:
    """(line number, row) of a JSON-lines file; a damaged line is the error it raised."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            yield number, error


def read(path: Path | str) -> list[dict]:
    """All rows of a JSON-lines file; a damaged line is named."""
    rows = []
    for number, row in lines(path):
        if isinstance(row, ValueError):
            raise ValueError(  # noqa: TRY004  the type of the row is how `lines` says that it is damaged
                f"{path}, line {number} is not JSON ({row}). Delete that line and try again."
            ) from None
        rows.append(row)
    return rows
