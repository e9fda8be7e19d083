"""The folder of intermediate files beside a basis, OUT.work: created with a marker, so that no other folder is used."""

import shutil
from pathlib import Path

from adaptkry.common.files import checked_path, visible_names, write

WORK_MARKER = "adaptkry.txt"
WORK_TEXT = "Intermediate files of `adaptkry propagate`. They are no longer needed when the basis is finished.\n"


def work_folder(out: Path) -> Path:
    """The folder beside a basis for intermediate files, such as the transpose of the graph."""
    out = checked_path(out, "the output folder")
    named = out if out.name not in ("", "..") else out.resolve()  # such as "."
    if not named.name:
        raise ValueError(f"the output folder must have a name; got {out}. Use a folder inside it.")
    return named.with_name(named.name + ".work")


def make_work_folder(work: Path) -> Path:
    """Create the folder with its marker; a folder of somebody else is refused, since its files could be overwritten."""
    names = visible_names(work)
    if names and WORK_MARKER not in names:
        raise ValueError(
            f"{work} is needed for intermediate files; it holds {names[0]}, which adaptkry did not write. Move it "
            f"away, or use another output folder."
        )
    if not names:
        work.mkdir(parents=True, exist_ok=True)
        write(work / WORK_MARKER, WORK_TEXT)
    return work


def remove_if_unused(work: Path) -> None:
    """Remove the folder if only its marker is left."""
    if visible_names(work) == [WORK_MARKER]:
        shutil.rmtree(work)
