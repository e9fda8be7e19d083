"""What is left of an earlier run: whether it is of the same basis, which blocks are good, what is in the way."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from adaptkry.outofcore.block import finished
from adaptkry.outofcore.folders import MANIFEST, read_manifest
from adaptkry.outofcore.npy_files import PART
from adaptkry.outofcore.request import Prepared

Block = tuple[int, int]
WORDS = {"graph": "the graph (its fingerprint)", "version": "the version of adaptkry", "which": "rows"}


def agree(out: Path, prepared: Prepared, sums: dict[str, str]) -> tuple[Prepared, bool]:
    """The same, with the blocks of the folder that is there, and whether there is nothing to go on with.

    A folder of another basis is refused.
    """
    if not (out / MANIFEST).is_file():
        others = [path.name for path in out.iterdir() if path.suffix != PART]
        if others:
            raise ValueError(
                f"{out} must be empty or a basis folder, but holds {sorted(others)[0]}. Use another --out."
            )
        return prepared, True
    old = read_manifest(out, "basis")
    if not any(out.glob("block-*")):
        return prepared, True
    told = {**old, "rows.npy": old.get("xxh128", {}).get("rows.npy")}
    wanted = {**prepared.manifest, "rows.npy": sums["rows.npy"]}
    for key in ("version", "graph", *wanted):
        if key != "blocks" and told.get(key) != wanted[key]:
            _refuse(out, WORDS.get(key, key), told.get(key), wanted[key])
    width = max(stop - start for start, stop in old["blocks"])
    if width > prepared.job.plan.width:
        raise ValueError(
            f"{out} was begun with blocks of {width} columns, but this limit has room for {prepared.job.plan.width}. "
            f"Use as much --memory as then, or another --out."
        )
    return replace(prepared, manifest={**prepared.manifest, "blocks": old["blocks"]}), False


def _refuse(out: Path, what: str, old: Any, new: Any) -> None:
    came, wanted = (f"{str(value)[:12]}..." if len(str(value)) == 64 else value for value in (old, new))
    raise ValueError(
        f"{out} was made with other settings: {what} was {came} and now is {wanted}. Use another --out, the old "
        f"settings, or delete the folder."
    )


def clean(out: Path) -> None:
    """Remove what killed workers left half-written."""
    for part in out.glob(f".*{PART}"):
        part.unlink(missing_ok=True)


def kept(prepared: Prepared, say: Callable[[str], object]) -> dict[Block, str]:
    """Blocks that are there and undamaged, by their checksums."""
    out = Path(prepared.job.out)
    clean(out)
    blocks = [(start, stop) for start, stop in prepared.manifest["blocks"]]
    begun = [block for block in blocks if (out / f"block-{block[0]}-{block[1]}.npy").is_file()]
    good = {block: told for block in begun if (told := finished(prepared.job, *block))}
    if begun:
        damaged = f", {len(begun) - len(good)} damaged and made again" if len(good) < len(begun) else ""
        say(f"{len(good)} of {len(blocks)} blocks kept{damaged}")
    return good
