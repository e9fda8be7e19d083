"""The run folder: a run written to disk and read back.

It holds `run.json` (settings, versions), `weights.safetensors` (weights and saved inputs), `curves.csv`, `rows.jsonl`
(one result row per training), `journal.jsonl` and, during training, `checkpoint.safetensors`. Every file is written
atomically.

The folder of an ensemble holds `run.json`, `rows.jsonl` (one row per split) and one run folder for each part, in
`members/`.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from adaptkry.common import rows
from adaptkry.common.files import write
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.results import Result
from adaptkry.training.run import Run, RunInfo
from adaptkry.training.state import Member

FORMAT = 5  # version of the run folder's format
MEMBERS = "members"  # folder of the parts of an ensemble
INPUTS = "inputs/"  # prefix of the saved inputs in weights.safetensors


def save_run(run: Run, folder: Path | str) -> Path:
    """Write the run folder, and return its path."""
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = run.weights | {INPUTS + name: t for name, t in run.saved_inputs.items()}
    weights = save({name: t.contiguous() for name, t in tensors.items()})
    document = {
        "format": FORMAT,
        "weights": hashlib.sha256(weights).hexdigest(),
        "members": [vars(member) | {"recipe": member.recipe.to_dict()} for member in run.members],
        "shape": vars(run.shape) | {"recipe": run.shape.recipe.to_dict()},
        "info": asdict(run.info),
    }
    write(folder / "weights.safetensors", weights)
    write(folder / "rows.jsonl", result_lines(run.results))
    write(folder / "curves.csv", curves_to_csv(run.curves))
    write(folder / "run.json", json.dumps(document, indent=1))
    return folder


def save_ensemble(ensemble: Ensemble, folder: Path | str) -> Path:
    """Write the folder of an ensemble, and return its path; members without a share are left out."""
    folder, parts = Path(folder), []
    used = [(part, shares) for part, shares in zip(ensemble.parts, ensemble.shares, strict=True) if any(shares)]
    for number, (part, shares) in enumerate(used):
        keep = [i for i, share in enumerate(shares) if share > 0]
        name = f"{MEMBERS}/{number}"
        save_run(part.only(keep), folder / name)
        digest = hashlib.sha256((folder / name / "run.json").read_bytes()).hexdigest()
        parts.append({"folder": name, "sha256": digest, "shares": [shares[i] for i in keep]})
    document = {
        "format": FORMAT, "kind": "ensemble", "combine": ensemble.combine, "parts": parts, "info": asdict(ensemble.info)
    }  # fmt: skip
    write(folder / "rows.jsonl", result_lines(ensemble.results))
    write(folder / "run.json", json.dumps(document, indent=1))
    for stale in (folder / MEMBERS).glob("*"):  # parts of a larger ensemble that was here before
        if stale.name not in {str(number) for number in range(len(used))}:
            shutil.rmtree(stale)
    return folder


def result_lines(results: Iterable[Result]) -> str:
    """Write results as JSON lines."""
    return "".join(json.dumps(result.to_row(), sort_keys=True) + "\n" for result in results)


def curves_to_csv(curves: dict[str, np.ndarray]) -> str:
    """Write the columns epoch, member and each curve; one line per epoch and running member."""
    lines = [",".join(["epoch", "member", *curves])]
    for epoch, member in np.argwhere(~np.isnan(curves["validation"])):
        values = (f"{curve[epoch, member]:.6g}" for curve in curves.values())
        lines.append(",".join([str(epoch), str(member), *values]))
    return "\n".join(lines) + "\n"


def curves_from_csv(path: Path, members: int) -> dict[str, np.ndarray]:
    """Read what `curves_to_csv` wrote: name -> [epochs, b]; NaN after a member stopped."""
    table = np.genfromtxt(path, delimiter=",", names=True, ndmin=1)
    epochs = int(table["epoch"].max()) + 1 if len(table) else 0
    names = [name for name in table.dtype.names or () if name not in ("epoch", "member")]
    curves = {name: np.full((epochs, members), np.nan) for name in names}
    for name, curve in curves.items():
        curve[table["epoch"].astype(int), table["member"].astype(int)] = table[name]
    return curves


def load_run(folder: Path | str) -> Run | Ensemble:
    """Read a run folder."""
    folder = Path(folder)
    document = _document(folder)
    return _load_ensemble(folder, document) if document.get("kind") == "ensemble" else _load_run(folder, document)


def _document(folder: Path) -> dict[str, Any]:
    """Return the content of run.json."""
    if not (folder / "run.json").exists():
        is_interrupted = (folder / "checkpoint.safetensors").exists()
        hint = "It was interrupted: repeat the same fit with --resume." if is_interrupted else "Check the path."
        raise FileNotFoundError(f"a run folder must hold run.json; got {folder}, which does not. {hint}")
    try:
        document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{folder / 'run.json'} must be JSON; got a damaged file ({error}). Train again.") from None
    if document.get("format") != FORMAT:
        raise ValueError(
            f"{folder} must have format {FORMAT}, which this version of adaptkry reads; got format "
            f"{document.get('format')}. Train again with this version."
        )
    return document


def _load_ensemble(folder: Path, document: dict[str, Any]) -> Ensemble:
    parts = []
    for part in document["parts"]:
        path = folder / part["folder"]
        if not (path / "run.json").exists():
            raise FileNotFoundError(f"the folder of an ensemble must hold {part['folder']}; {path} is missing.")
        if hashlib.sha256((path / "run.json").read_bytes()).hexdigest() != part["sha256"]:
            raise ValueError(
                f"{path} must belong to the ensemble in {folder}; got another run. Train the ensemble again."
            )
        parts.append(_load_run(path, _document(path)))
    results = [Result.from_row(row) for row in rows.read(folder / "rows.jsonl")]
    shares = [part["shares"] for part in document["parts"]]
    return Ensemble(parts, shares, results, RunInfo(**document["info"]), document["combine"])


def _load_run(folder: Path, document: dict[str, Any]) -> Run:
    members = [Member(m["split"], m["seed"], Recipe.from_dict(m["recipe"])) for m in document["members"]]
    tensors = load_weights(folder / "weights.safetensors", document["weights"])
    return Run(
        members,
        ModelShape(**document["shape"] | {"recipe": Recipe.from_dict(document["shape"]["recipe"])}),
        {name: t for name, t in tensors.items() if not name.startswith(INPUTS)},
        curves_from_csv(folder / "curves.csv", len(members)),
        [Result.from_row(row) for row in rows.read(folder / "rows.jsonl")],
        RunInfo(**document["info"]),
        saved_inputs={name.removeprefix(INPUTS): t for name, t in tensors.items() if name.startswith(INPUTS)},
    )


def load_weights(path: Path, digest: str) -> dict[str, Tensor]:
    """Read the weights and verify their checksum."""
    from safetensors.torch import load

    if not path.exists():
        raise FileNotFoundError(f"a run folder must hold weights.safetensors; {path} is missing. Train again.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(
            f"{path} must have the checksum in run.json; got a damaged file, or one of another run. Train again."
        )
    return load(content)
