"""The run folder: a run written to disk and read back.

It holds `run.json` (settings, versions, and the checksums of itself and of the other files), `weights.safetensors`
(weights and saved inputs), `curves.csv`, `rows.jsonl` (one result row per training), `calibration.safetensors`
(temperatures and the scores behind prediction sets, if the run was tested), `journal.jsonl` and, during training,
`checkpoint.safetensors`. Every file is written atomically, `run.json` last. A folder whose parts do not belong together
is refused.

The folder of an ensemble holds `run.json`, `rows.jsonl` (one row per split), `calibration.safetensors` and one run
folder for each part, in `members/`.
"""

import json
import shutil
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from adaptkry.common.files import checked_path, digest_of, read_json, read_signed, signed, visible_names, write
from adaptkry.common.journal import JOURNAL
from adaptkry.graphs.readers.layout import Layout
from adaptkry.models import batched
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape, initial_statistics
from adaptkry.models.training_nodes import ids_from_tensor
from adaptkry.training.calibration import SET_SCORES, Calibration
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.metrics import pick_metric
from adaptkry.training.results import Result
from adaptkry.training.run import Run, RunInfo
from adaptkry.training.state import CURVES, Member
from adaptkry.training.tasks import FIXED_STATISTICS

FORMAT = 7  # version of the run folder's format
DOCUMENT = "run.json"
RESULT_ROWS = "rows.jsonl"
CALIBRATION = "calibration.safetensors"
MEMBERS = "members"  # folder of the parts of an ensemble
INPUTS = "inputs/"  # prefix of the saved inputs in weights.safetensors
# tensors of some runs besides the weights of the model and the statistics of norms
ADDED = ("basis_mix", "labels", *FIXED_STATISTICS)
TEMPERATURES_KEY = "temperatures"  # in calibration.safetensors, beside the scores
RUN_REMEDY = "Restore the folder, or train again."

Kind = TypeVar("Kind")


def save(run: Run | Ensemble, folder: Path | str) -> Path:
    """Write the run folder, and return its path; it must be new, empty, or written by this function before."""
    folder = checked_path(folder, "the run folder")
    names = visible_names(folder)
    if names and (DOCUMENT not in names or (folder / JOURNAL).exists()):
        found = f"holds the run of a command ({JOURNAL})" if JOURNAL in names else f"holds {names[0]}"
        raise ValueError(f"a run must be saved to a new or empty folder; {folder} {found}. Use another folder.")
    if names:
        read_signed(folder / DOCUMENT, "Use another folder.")  # refuses a file of somebody else
    return write_ensemble(run, folder) if isinstance(run, Ensemble) else write_run(run, folder)


def write_run(run: Run, folder: Path) -> Path:
    """Write the run folder, whatever it holds, and return its path."""
    from safetensors.torch import save as to_bytes

    tensors = run.weights | {INPUTS + name: t for name, t in run.saved_inputs.items()}
    contents: dict[str, bytes | str] = {
        "weights.safetensors": to_bytes({name: t.contiguous() for name, t in tensors.items()}),
        "curves.csv": curves_to_csv(run.curves),
        RESULT_ROWS: result_lines(run.results),
        **calibration_file(run.calibration),
    }
    document = {
        "members": [vars(member) | {"recipe": member.recipe.to_dict()} for member in run.members],
        "shape": vars(run.shape) | {"recipe": run.shape.recipe.to_dict()},
        "info": asdict(run.info),
        "calibration": run.calibration and run.calibration.facts,
    }
    return _write(folder, contents, document)


def write_ensemble(ensemble: Ensemble, folder: Path) -> Path:
    """Write the folder of an ensemble, whatever it holds; members without a share are left out."""
    parts = []
    used = [(part, shares) for part, shares in zip(ensemble.parts, ensemble.shares, strict=True) if any(shares)]
    for number, (part, shares) in enumerate(used):
        keep = [i for i, share in enumerate(shares) if share > 0]
        path = write_run(part.only(keep), folder / MEMBERS / str(number))
        parts.append({"sha256": run_digest(path), "shares": [shares[i] for i in keep]})
    document = {"kind": "ensemble", "combine": ensemble.combine, "parts": parts, "info": asdict(ensemble.info)}
    document["calibration"] = ensemble.calibration and ensemble.calibration.facts
    _write(folder, {RESULT_ROWS: result_lines(ensemble.results), **calibration_file(ensemble.calibration)}, document)
    for stale in (folder / MEMBERS).glob("*"):  # parts of a larger ensemble that was here before
        if stale.name not in {str(number) for number in range(len(used))}:
            shutil.rmtree(stale)
    return folder


def _write(folder: Path, contents: Mapping[str, bytes | str], document: Mapping[str, Any]) -> Path:
    """Write the files, then run.json with their digests, which makes the folder complete."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write(folder / name, content)
    digests = {name: digest_of(content) for name, content in contents.items()}
    write(folder / DOCUMENT, json.dumps(signed({"format": FORMAT, "files": digests, **document}), indent=1))
    return folder


def calibration_file(calibration: Calibration | None) -> dict[str, bytes | str]:
    """Return the content of the file of a calibration by its name; nothing if there is none."""
    from safetensors.torch import save as to_bytes

    if calibration is None:
        return {}
    return {CALIBRATION: to_bytes({TEMPERATURES_KEY: calibration.temperatures, **calibration.scores})}


def run_digest(folder: Path) -> str | None:
    """Return the SHA-256 of run.json, which identifies a run; None if there is no run."""
    path = folder / DOCUMENT
    return digest_of(path.read_bytes()) if path.is_file() else None


def result_lines(results: Iterable[Result]) -> str:
    """Write results as JSON lines."""
    return "".join(json.dumps(result.to_row()) + "\n" for result in results)


def curves_to_csv(curves: dict[str, np.ndarray]) -> str:
    """Write the columns epoch, member and each curve, in digits that give the same float32 when they are read.

    There is one line per epoch and running member; an epoch without numbers has one line of a member.
    """
    lines = [",".join(["epoch", "member", *curves])]
    stacked = np.stack(list(curves.values()))  # [curves, epochs, b]
    is_known = np.asarray(~np.isnan(stacked).all(0))  # [epochs, b]
    is_known[:, :1] |= ~is_known.any(1, keepdims=True)
    for epoch, member in np.argwhere(is_known):
        lines.append(",".join([str(epoch), str(member), *(f"{value:.9g}" for value in stacked[:, epoch, member])]))
    return "\n".join(lines) + "\n"


def curves_from_csv(text: str, members: int) -> dict[str, np.ndarray]:
    """Read what `curves_to_csv` wrote: name -> float32 [epochs, b]; NaN after a member stopped."""
    header, *lines = text.splitlines()
    names = header.split(",")[2:]
    if names != list(CURVES):
        raise ValueError(f"curves.csv must have the columns epoch, member, {', '.join(CURVES)}; got {header!r:.100}.")
    table = np.array([[float(cell) for cell in line.split(",")] for line in lines]).reshape(len(lines), len(names) + 2)
    epoch, member = table[:, 0].astype(int), table[:, 1].astype(int)
    epochs = int(epoch.max(initial=-1)) + 1
    if (
        epochs > len(lines)
        or epoch.min(initial=0) < 0
        or not 0 <= member.min(initial=0) <= member.max(initial=0) < members
    ):
        raise ValueError(f"curves.csv must have epochs in order and members below {members}; got others.")
    curves = {name: np.full((epochs, members), np.nan, dtype=np.float32) for name in names}
    for column, curve in enumerate(curves.values(), 2):
        curve[epoch, member] = table[:, column]
    return curves


def load_run(folder: Path | str) -> Run | Ensemble:
    """Read a run folder; one whose parts are damaged, missing or of another run is refused."""
    folder = checked_path(folder, "the run folder")
    document = _document(folder)
    return _load_ensemble(folder, document) if document.get("kind") == "ensemble" else _load_run(folder, document)


def _document(folder: Path) -> dict[str, Any]:
    """Return the content of run.json."""
    path = folder / DOCUMENT
    if not path.is_file():
        is_interrupted = any((folder / name).exists() for name in ("checkpoint.safetensors", JOURNAL))
        hint = "It was interrupted: repeat the same command with --resume." if is_interrupted else "Check the path."
        raise FileNotFoundError(f"a run folder must hold run.json; got {folder}, which does not. {hint}")
    found = read_json(path, RUN_REMEDY).get("format")
    if found != FORMAT:
        raise ValueError(
            f"{folder} must have format {FORMAT}, which this version of adaptkry reads; got format {found!r:.50}. "
            f"Train again with this version."
        )
    return read_signed(path, RUN_REMEDY)


def _contents(folder: Path, document: Mapping[str, Any], *names: str) -> list[bytes]:
    """Return the files of a run; each must be the one that was written with run.json."""
    found = []
    for name in names:
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(f"a run folder must hold {name}; {path} is missing. {RUN_REMEDY}")
        found.append(path.read_bytes())
        if digest_of(found[-1]) != document["files"][name]:
            raise ValueError(
                f"{path} must have the checksum in run.json; got a damaged file, or one of another run. {RUN_REMEDY}"
            )
    return found


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn errors about the content of a folder, whose checksums were right, into one that names the folder."""
    try:
        yield
    except OSError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
        text = f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        text = text.removesuffix(RUN_REMEDY).strip()
        raise ValueError(f"{folder} must be a run folder that adaptkry wrote; it is not: {text} {RUN_REMEDY}") from None


def _load_ensemble(folder: Path, document: dict[str, Any]) -> Ensemble:
    with _readable(folder):
        [rows] = _contents(folder, document, RESULT_ROWS)
        parts = []
        for number, part in enumerate(document["parts"]):
            path = folder / MEMBERS / str(number)
            if run_digest(path) is None:
                raise FileNotFoundError(f"the folder of an ensemble must hold {MEMBERS}/{number}; {path} is missing.")
            if run_digest(path) != part["sha256"]:
                raise ValueError(f"{path} must belong to the ensemble in {folder}; got another run.")
            parts.append(_load_run(path, _document(path)))
        shares = [[float(share) for share in part["shares"]] for part in document["parts"]]
        results, info = _results(rows), _typed(RunInfo, document["info"])
        ensemble = Ensemble(parts, shares, results, info, str(document["combine"]))
        _check_shares(ensemble)
        ensemble.calibration = _calibration(folder, document, len(ensemble.chosen))
    return ensemble


def _load_run(folder: Path, document: dict[str, Any]) -> Run:
    with _readable(folder):
        weights, curves, rows = _contents(folder, document, "weights.safetensors", "curves.csv", RESULT_ROWS)
        members = [_typed(Member, m | {"recipe": Recipe.from_dict(m["recipe"])}) for m in document["members"]]
        shape = document["shape"] | {"recipe": Recipe.from_dict(document["shape"]["recipe"])}
        tensors = load_tensors(weights)
        run = Run(
            members,
            _typed(ModelShape, shape),
            {name: t for name, t in tensors.items() if not name.startswith(INPUTS)},
            curves_from_csv(curves.decode(), len(members)),
            _results(rows),
            _typed(RunInfo, document["info"]),
            saved_inputs={name.removeprefix(INPUTS): t for name, t in tensors.items() if name.startswith(INPUTS)},
        )
        _check_run(run)
        run.calibration = _calibration(folder, document, len(run.chosen))
    return run


def _calibration(folder: Path, document: dict[str, Any], models: int) -> Calibration | None:
    """Read the calibration of a run; None if it has none."""
    facts = document["calibration"]
    _require((facts is None) == (CALIBRATION not in document["files"]), "a calibration and its file")
    if facts is None:
        return None
    _require(isinstance(facts, dict), "the facts of its calibration")
    scores = load_tensors(_contents(folder, document, CALIBRATION)[0])
    temperatures = scores.pop(TEMPERATURES_KEY)
    is_right = temperatures.shape == (models,) and temperatures.dtype == torch.float64
    _require(
        is_right and bool((temperatures.isfinite() & (temperatures > 0)).all()), "a positive temperature per model"
    )
    _require(scores.keys() == SET_SCORES.keys(), "the scores of all kinds of prediction sets")
    for table in scores.values():
        is_right = table.ndim == 2 and len(table) == models and table.shape[1] > 0 and table.dtype == torch.float64
        is_right = is_right and bool((table[:, 1:] >= table[:, :-1]).all()) and bool((table[:, -1] == torch.inf).all())
        _require(is_right, "ascending scores of each model that end with infinity")
    return Calibration(temperatures, scores, facts)


def load_tensors(content: bytes) -> dict[str, Tensor]:
    """Read tensors by name from the content of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except SafetensorError as error:
        raise ValueError(f"weights must be in the format safetensors; got a damaged file ({error}).") from None


def _results(rows: bytes) -> list[Result]:
    return [_typed(Result, Result.from_row(json.loads(line)).to_row()) for line in rows.decode().splitlines()]


def _typed(kind: type[Kind], data: Mapping[str, Any]) -> Kind:
    """Create a dataclass from plain data after checking the types of its fields."""
    hints = get_type_hints(kind, localns={"Recipe": Recipe})
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in data and not _has_type(data[field.name], hints[field.name]):
            raise ValueError(f"{field.name} must be {hints[field.name]}; got {data[field.name]!r:.50}.")
        if field.name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{field.name} is missing.")
    return kind(**data)


def _has_type(value: Any, hint: Any) -> bool:
    """Return whether a value that was read from JSON has a type such as `list[int] | None`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _has_type(value, arguments[0])
    if origin in (Union, types.UnionType):
        return any(_has_type(value, one) for one in arguments)
    if origin is list:
        return isinstance(value, list) and all(_has_type(item, arguments[0]) for item in value)
    if hint is float or hint is int:
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    return hint is Any or isinstance(value, origin or hint)


def _check_run(run: Run) -> None:
    """Refuse parts that do not belong together."""
    shape, info, b = run.shape, run.info, len(run.members)
    _check_info(info, shape.classes, run.features, run.task)
    _require(b > 0, "a run has at least one member")
    _require([(m.split, m.seed) for m in run.members] == [(r.split, r.seed) for r in run.results], "a row per member")
    _require(len(info.hop_scale) == shape.terms == shape.recipe.term_count, "a scale per term")
    with torch.device("meta"):  # shapes only: nothing is allocated, however large the sizes are
        expected = batched.initial_weights(shape, [(0, member.recipe) for member in run.members])
        expected |= initial_statistics(shape, b)
        if shape.recipe.is_exact:  # it keeps one term of each member, which `basis_mix` selects
            expected["filter/weights"] = torch.ones(b, 1)
    _require(set(run.weights) - set(ADDED) == set(expected), "the weights of its model")
    for name, weight in run.weights.items():
        is_right = weight.shape == expected[name].shape if name in expected else weight.shape[:1] == (b,)
        _require(is_right and weight.dtype == torch.float32, f"weights of the right shape; {name} is not")
    _check_inputs(run)


def _check_inputs(run: Run) -> None:
    """Refuse a run without what its recipe needs besides weights, or with tensors of other sizes."""
    recipe, saved, b = run.shape.recipe, run.saved_inputs, len(run.members)
    uses_nodes = bool(recipe.structure or recipe.structure_layer or recipe.similar_nodes)
    needed = {"nodes", "is_directed"} if uses_nodes else set()
    needed |= {"structure_scale"} if recipe.structure else set()
    needed |= {"degree_scaling"} if recipe.structure and not run.features else set()
    needed |= {"feature_map"} if recipe.reduce and run.features > recipe.reduce else set()
    maps = {name for name in saved if name.startswith("structure_")} - {"structure_scale"}
    ids = {"node_ids", "training_ids"} & saved.keys()  # node_ids: the digest of an earlier version
    is_complete = needed == saved.keys() - maps - ids and bool(maps) == bool(recipe.structure)
    _require(is_complete and len(ids) <= uses_nodes, "its saved inputs")
    nodes = int(saved["nodes"]) if uses_nodes else 0
    if "training_ids" in saved:
        _require(len(ids_from_tensor(saved["training_ids"])) == nodes, "an id of each training node")
    sizes = {"nodes": (), "is_directed": (), "structure_scale": (), "feature_map": (run.features, recipe.reduce)}
    sizes |= {"node_ids": (32,), "degree_scaling": (2, len(maps))} | {name: (nodes, recipe.structure) for name in maps}
    sizes |= {"training_ids": (saved["training_ids"].numel(),)} if "training_ids" in saved else {}
    _require(all(t.shape == sizes[name] for name, t in saved.items()), "saved inputs of the right shape")
    mixed = run.shape.terms if recipe.is_exact else len(recipe.taus)
    outputs = [(name, run.classes) for name in FIXED_STATISTICS]
    for name, size in (("basis_mix", mixed), ("labels", nodes), *outputs):
        _require(name not in run.weights or run.weights[name].shape == (b, size), f"a row of {name} per member")
    _require("labels" in run.weights or not recipe.similar_nodes, "labels, which its recipe uses")
    _require("basis_mix" in run.weights or not recipe.is_exact, "basis_mix, which its recipe uses")
    is_scaled = {"target_mean", "target_std"} <= run.weights.keys()
    _require(is_scaled or recipe.task != "regression", "the scaling of targets, which its recipe uses")


def _check_info(info: RunInfo, classes: int, features: int, task: str) -> None:
    """Refuse names and sizes that do not fit."""
    for name in [info.metric, *(info.metrics or ())]:
        pick_metric(name, task)
    _require(info.class_names is None or len(info.class_names) >= classes, "a name per class")
    _require(info.feature_names is None or len(info.feature_names) == features, "a name per feature")
    layout = None if info.layout is None else Layout.from_dict(info.layout)
    columns = [name for column in layout.columns for name in column.feature_names] if layout else []
    _require(not columns or columns == info.feature_names, "a layout of tables with its features")
    _require(info.scaling is None or [len(row) for row in info.scaling] == [features] * 2, "a scaling per feature")
    rows = [classes] * classes if info.confusion is not None else []
    _require([len(row) for row in info.confusion or ()] == rows, "a confusion matrix of all classes")


def _check_shares(ensemble: Ensemble) -> None:
    """Refuse an ensemble whose parts, shares and results do not belong together."""
    parts, results = ensemble.parts, ensemble.results
    _require([len(part.members) for part in parts] == [len(shares) for shares in ensemble.shares], "a share per member")
    _require(len({(part.classes, part.features) for part in parts}) <= 1, "parts of one graph")
    _require([result.split for result in results] == list(range(len(results))), "a row per split")
    totals = [0.0] * len(results)
    for part, shares in zip(parts, ensemble.shares, strict=True):
        for member, share in zip(part.members, shares, strict=True):
            _require(0 <= member.split < len(results) and 0 < share <= 1, "positive shares of its splits")
            totals[member.split] += share
    expected = [0.0 if result.validation is None else 1.0 for result in results]
    _require(np.allclose(totals, expected, rtol=0, atol=1e-6), "shares that add up to 1")
    if parts:
        _check_info(ensemble.info, ensemble.classes, ensemble.features, ensemble.task)


def _require(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(f"it must have {what}.")
