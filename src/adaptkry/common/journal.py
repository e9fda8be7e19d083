"""A journal for every command that can be resumed: what was requested, what is done, and what is missing.

The lock on the folder is taken first, before anything in it is read or written. The file is JSON lines: a header with
the request, then one line per finished part.

>>> import tempfile
>>> with Journal(tempfile.mkdtemp(), "k1", command="tune", request={"seed": 0}, resume=False) as journal:
...     journal.add("trial 0", {"score": 0.5})
...     journal.missing(["trial 0", "trial 1"])
['trial 1']
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from adaptkry.common.files import (
    FOLDER_MARKERS,
    check_output_folder,
    checked_path,
    digest_of,
    exclusive_lock,
    named_error,
    remove_leftovers,
    visible_names,
    write,
)

log = logging.getLogger("adaptkry")

JOURNAL_FORMAT = 2
JOURNAL = "journal.jsonl"
COMMAND_OUTPUTS = {  # what the output folder of a command holds, and the marker file that the command writes
    "fit": ("a run", "run.json"),
    "tune": ("a search", "trials.jsonl"),
    "auto": ("an automatic search", "trials.jsonl"),
    "compare": ("a comparison", "comparison.json"),
    "propagate": ("a basis", "manifest.json"),
    "generate": ("a graph", "manifest.json"),
    "reproduce": ("a reproduction", None),
}
CHECK_THEMSELVES = ("propagate", "generate", "reproduce")  # commands with checks of their own for other files


class Journal:
    """What one command has finished in its output folder; a context manager that holds the folder's lock.

    Args:
        folder: the output folder; it is created if it does not exist.
        key: digest of everything that determines the results; a folder with another key is refused. With None the
            folder is only locked until `open` is called, for keys that can be computed only under the lock.
        command: one of `COMMAND_OUTPUTS`; the folder of another command is refused.
        request: the settings that the key is computed from, by name; error messages list those that differ.
        resume: whether to continue with the finished parts; otherwise start over.
        file: name of the journal in the folder. None: the caller records finished parts in other files and passes
            them as `done`.
        done: finished parts and their records, with `file=None`.
        overwrite: whether starting over may discard finished parts; otherwise it is refused.
    """

    def __init__(
        self,
        folder: Path | str,
        key: str | None = None,
        *,
        command: str,
        request: Mapping[str, Any] | None = None,
        resume: bool = True,
        file: str | None = JOURNAL,
        done: Mapping[str, dict] | None = None,
        overwrite: bool = True,
    ):
        self.folder, self.command = checked_path(folder, "the output folder"), command
        self.resume, self.overwrite = resume, overwrite
        self.path = None if file is None else self.folder / file
        self.done: dict[str, dict] = {}
        self.is_new = True
        self._arguments = (key, request, done)
        self._size = 0  # bytes of the journal that are complete lines
        self._stack = ExitStack()

    def __enter__(self) -> "Journal":
        is_created = not self.folder.exists()
        check_output_folder(self.folder)
        with ExitStack() as stack:  # releases the lock if the folder is refused
            stack.enter_context(exclusive_lock(self.folder))
            stack.push(lambda kind, *_: self._remove_if_empty() if kind and is_created else None)
            self._check_content()
            remove_leftovers(self.folder)
            key, request, done = self._arguments
            if key is not None:
                self.open(key, request, done=done)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error) -> None:
        self._stack.__exit__(*error)

    def open(
        self,
        key: str,
        request: Mapping[str, Any] | None = None,
        *,
        recorded: Mapping[str, Any] | None = None,
        done: Mapping[str, dict] | None = None,
    ) -> None:
        """Compare the request with the recorded one, and read what is done.

        Args:
            key: see `Journal`.
            request: see `Journal`.
            recorded: the request that the caller has recorded, with `file=None`; None if there is none.
            done: see `Journal`.
        """
        request = _as_json(request or {})
        if self.path is None:
            if recorded is not None and self.resume and (old := _as_json(recorded)) != request:
                refuse_other_settings(self.folder, old, request)
            self.done, self.is_new = dict(done or {}) if self.resume else {}, recorded is None and not done
            return
        header = self._read()
        if header and not self.resume and not self.overwrite and self.done:
            what, _ = COMMAND_OUTPUTS[self.command]
            raise ValueError(
                f"{self.folder} already holds {what} ({len(self.done)} finished). Add --resume, or use another output "
                f"folder."
            )
        if header and self.resume:
            if header["key"] != key:
                refuse_other_settings(self.folder, header["request"], request, header["key"], key)
            self.is_new = False
            return
        self.done = {}
        text = json.dumps({"journal": JOURNAL_FORMAT, "command": self.command, "key": key, "request": request}) + "\n"
        write(self.path, text)
        self._size = len(text.encode())

    def missing(self, names: Iterable[str]) -> list[str]:
        """The names that are not done, in the order given."""
        return [name for name in names if name not in self.done]

    def add(self, name: str, record: Mapping[str, Any] | None = None) -> None:
        """Record a finished part; it is on disk when this returns."""
        record = dict(record or {})
        if self.path is not None:
            line = (json.dumps(signed_part(name, record)) + "\n").encode()
            try:
                with self.path.open("r+b") as file:
                    file.truncate(self._size)  # removes an incomplete line, left by a kill or a full disk
                    file.seek(self._size)
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise named_error(error, self.path) from None
            self._size += len(line)
        self.done[name] = record

    def _check_content(self) -> None:
        """Refuse a folder that another command has written to, or that holds files of somebody else."""
        what, marker = COMMAND_OUTPUTS[self.command]
        paths = {path for path in (self.folder / JOURNAL, self.path) if path is not None and path.exists()}
        for path in paths:
            found = _header(path)["command"]
            if found != self.command:
                raise ValueError(
                    f"{self.folder} holds {COMMAND_OUTPUTS[found][0]}, not {what}. Use another output folder."
                )
        if paths:
            return  # the same command may write other markers: a search ends with a run
        for other, content in FOLDER_MARKERS.items():
            if other != marker and (self.folder / other).exists():
                raise ValueError(f"{self.folder} holds {content}, not {what}. Use another output folder.")
        names = visible_names(self.folder)
        if names and self.command not in CHECK_THEMSELVES:
            raise ValueError(
                f"the output folder must be new, empty or of an earlier `adaptkry {self.command}`; {self.folder} holds "
                f"{names[0]}. Use another output folder."
            )

    def _read(self) -> dict[str, Any] | None:
        """The header, with `done` filled from the lines below it; None if there is no journal."""
        assert self.path is not None
        if not self.path.exists():
            return None
        self.done, self._size = finished_parts(self.path)
        return _header(self.path)

    def _remove_if_empty(self) -> None:
        """Remove a folder without finished parts, so that a refused command does not look like a started one."""
        if not self.done and all(path == self.path for path in self.folder.iterdir()):
            if self.path is not None:
                self.path.unlink(missing_ok=True)
            self.folder.rmdir()


def refuse_other_settings(
    folder: Path, old: Mapping[str, Any], new: Mapping[str, Any], old_key: str = "", new_key: str = ""
) -> None:
    """Raise an error that lists the settings that differ, or the keys if no setting does."""
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    pairs = [(name, old.get(name), new.get(name)) for name in names] or [("the data (its digest)", old_key, new_key)]
    found = "; ".join(f"{name} was {_short(was)}, now {_short(now)}" for name, was, now in pairs)
    raise ValueError(
        f"{folder} was started with other settings: {found}. Use another output folder, or the old settings."
    )


def finished_parts(path: Path) -> tuple[dict[str, dict], int]:
    """Return the finished parts of a journal with their records, and the number of bytes of its complete lines."""
    _header(path)
    lines = path.read_bytes().splitlines(keepends=True)
    done, size = {}, len(lines[0])
    for number, line in enumerate(lines[1:], 2):
        part = _read_part(line)
        if part is None and number == len(lines):  # left by a kill or a full disk
            log.warning(f"the last line of {path} is incomplete and is ignored; what it recorded is done again")
            break
        if part is None:
            raise ValueError(f"line {number} of {path} is damaged. Restore the file, or use another output folder.")
        done[part["name"]] = part["record"]
        size += len(line)
    return done, size


def signed_part(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the journal, with a digest by which a damaged or edited line is recognised."""
    part = _as_json({"name": name, "record": record})
    return part | {"sha256": digest_of(json.dumps(part, sort_keys=True))[:16]}


def _read_part(line: bytes) -> dict[str, Any] | None:
    """Return a line of the journal; None if it is incomplete or damaged."""
    try:
        part = json.loads(line)
        is_whole = line.endswith(b"\n") and part["sha256"] == signed_part(part["name"], part["record"])["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return part if is_whole else None


def _header(path: Path) -> dict[str, Any]:
    """The first line of a journal."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.readline())
        if (
            found["journal"] == JOURNAL_FORMAT
            and found["command"] in COMMAND_OUTPUTS
            and isinstance(found["request"], dict)
        ):
            return found | {"key": str(found["key"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError(
        f"{path} must begin with the header of a journal; its first line is damaged or from another version. "
        f"Use another output folder."
    )


def _as_json(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as it would be read from a file: tuples become lists, paths become strings."""
    return json.loads(json.dumps(dict(request), default=str))


def _short(value: Any) -> str:
    """A value as text for a message; long digests are shortened."""
    text = "not set" if value is None else str(value)
    return f"{text[:12]}..." if len(text) >= 32 and text.isalnum() else text
