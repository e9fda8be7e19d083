"""A run: trained members with their settings, weights, curves and results; saved to a folder, loaded, used.

The folder holds `run.json` (settings, versions), `weights.safetensors`, `curves.csv`, `rows.jsonl` (one result row per
training), `journal.jsonl` and, while a training is running, `checkpoint.safetensors`. Every file is written whole or
not at all.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import rows
from adaptkry.common.files import write
from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape
from adaptkry.training.batches import term_chunks
from adaptkry.training.losses import chunk_logits
from adaptkry.training.state import Member

FORMAT = 4  # of the run folder
NOT_LEARNED = ("norm", "basis_mix")  # statistics that are saved beside the weights


@dataclass
class Result:
    """One training: what was trained, on which split, and its scores. One row of `rows.jsonl`."""

    graph: str
    settings: dict[str, Any]
    split: int
    split_seed: int | None
    scheme: str
    seed: int
    metric: str
    test: float | None  # None: not tested, or failed
    validation: float | None  # at the kept epoch; None: failed
    epoch: int  # that was kept; -1 if none was
    failed: str | None  # the reason
    version: str
    commit: str
    device: str
    torch: str
    python: str
    chosen: bool = True  # among the restarts of one split: best on validation

    def to_row(self) -> dict[str, Any]:
        """Plain data for a line of JSON."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Result":
        """From a row, also one of an older version; further columns are ignored."""
        data = {**row, "settings": rows.settings_of(dict(row))}
        return cls(**{one.name: data[one.name] for one in fields(cls) if one.name in data})


@dataclass
class RunInfo:
    """What a run is about: the data, the splits and where it was trained."""

    graph: str
    metric: str
    scheme: str
    warnings: list[str]
    nodes: int
    entries: int | None  # adjacency entries; None for a basis folder
    class_names: list[str] | None
    feature_names: list[str] | None
    version: str
    commit: str
    device: str
    torch: str
    python: str
    hop_scale: list[float]  # the factor that hop normalisation applied to each term
    scaling: list[list[float]] | None = None  # mean and standard deviation of feature columns, if standardised
    confusion: list[list[int]] | None = None  # test nodes of chosen members: true class, predicted class
    basis_folder: str | None = None
    stored_rows: int | None = None
    stored_dtype: str | None = None


@dataclass(repr=False)
class Run:
    """What a training leaves behind."""

    members: list[Member]
    shape: ModelShape
    weights: dict[str, Tensor]  # name -> [b, ...], of each member's kept epoch
    curves: dict[str, np.ndarray]  # name -> [epochs, b]
    results: list[Result]
    info: RunInfo

    @property
    def recipes(self) -> list[Recipe]:
        """Each member's recipe."""
        return [member.recipe for member in self.members]

    @property
    def chosen(self) -> list[int]:
        """Members that count: they did not fail and are, among restarts of one split, best on validation."""
        return [i for i, result in enumerate(self.results) if result.chosen and result.validation is not None]

    @property
    def test_scores(self) -> np.ndarray:
        """Test score of each member [b]; NaN where it failed or was not tested."""
        return np.array([np.nan if result.test is None else result.test for result in self.results])

    @property
    def parameters(self) -> int:
        """Number of learned numbers of one member."""
        return sum(w[0].numel() for name, w in self.weights.items() if not name.startswith(NOT_LEARNED))

    def summary(self, warnings: bool = True) -> str:
        """One line per recipe: mean and standard deviation of the test score over its chosen members."""
        lines = [f"warning: {text}" for text in self.info.warnings] if warnings else []
        for recipe in dict.fromkeys(self.recipes):
            pairs = zip(self.results, self.recipes, strict=True)
            counted = [result for result, used in pairs if used == recipe and result.chosen]
            scores = np.array([result.test for result in counted if result.test is not None]) * 100
            spread = f" ± {scores.std(ddof=1):.2f}" if len(scores) > 1 else ""
            failed = f", {len(counted) - len(scores)} failed" if len(scores) < len(counted) else ""
            mean = f"{scores.mean():.2f}{spread}" if len(scores) else "-"
            over = "one training" if len(scores) == 1 else f"mean ± std over {len(scores)} trainings"
            lines.append(
                f"{recipe.method} on {self.info.graph}: test {self.info.metric} {mean} % "
                f"({over}{failed}, {self.info.scheme} splits)"
            )
        return "\n".join(lines)

    def only(self, indices: Iterable[int]) -> "Run":
        """The same run with some of its members."""
        keep = list(indices)
        return Run(
            [self.members[i] for i in keep],
            self.shape,
            {name: w[keep] for name, w in self.weights.items()},
            {name: curve[:, keep] for name, curve in self.curves.items()},
            [self.results[i] for i in keep],
            self.info,
        )

    @torch.no_grad()
    def member_probabilities(self, graph: Graph) -> Tensor:
        """Class probabilities by every member: [b, n, c]. The graph may have other nodes than the training graph."""
        width = 0 if graph.features is None else graph.features.shape[1]
        if width != self.shape.features:
            raise ValueError(f"this run was trained on {self.shape.features} features; got a graph with {width}.")
        if graph.classes > self.shape.classes:
            raise ValueError(f"this run has {self.shape.classes} classes; got a graph with {graph.classes}.")
        known = None if self.info.scaling is None else torch.tensor(self.info.scaling)
        scaling = None if known is None else (known[0], known[1])
        inputs = model_inputs(self._with_columns_in_order(graph), self.shape.recipe, scaling=scaling)
        chunks = term_chunks(inputs.terms.float(), inputs.operator, "cpu")
        parts = [logits for logits, _ in chunk_logits(self.shape, self.weights, chunks, inputs.operator)]
        return torch.cat(parts, 1).softmax(-1)

    def _with_columns_in_order(self, graph: Graph) -> Graph:
        """The graph with its feature columns in the order of the training graph, where both name their columns."""
        ours, theirs = self.info.feature_names, graph.info.feature_names
        if ours is None or theirs is None or list(theirs) == ours:
            return graph
        if sorted(theirs) != sorted(ours):
            missing = sorted(set(ours) - set(theirs))
            raise ValueError(
                f"this run was trained on the feature columns {', '.join(ours)}; got {', '.join(theirs)}. "
                f"Missing: {', '.join(missing) or 'none, but one name is repeated'}."
            )
        return graph.with_columns([list(theirs).index(name) for name in ours])

    def __repr__(self) -> str:
        return f"Run({len(self.members)} trainings)\n{self.summary()}"

    def probabilities(self, graph: Graph) -> Tensor:
        """Class probabilities of every node, averaged over the chosen members: [n, c]."""
        return self.member_probabilities(graph)[self.require_chosen()].mean(0)

    def require_chosen(self) -> list[int]:
        """The chosen members; an error where every training failed."""
        if not self.chosen:
            raise ValueError("at least one training must have succeeded; all of this run failed: see its results.")
        return self.chosen

    def predict(self, graph: Graph) -> Tensor:
        """The most probable class of every node [n]."""
        return self.probabilities(graph).argmax(1)

    def save(self, folder: Path | str) -> Path:
        """Write the run folder."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = save({name: w.contiguous() for name, w in self.weights.items()})
        page = {
            "format": FORMAT,
            "weights": hashlib.sha256(weights).hexdigest(),
            "members": [vars(member) | {"recipe": member.recipe.to_dict()} for member in self.members],
            "shape": vars(self.shape) | {"recipe": self.shape.recipe.to_dict()},
            "info": asdict(self.info),
        }
        lines = [json.dumps(result.to_row(), sort_keys=True) + "\n" for result in self.results]
        write(folder / "weights.safetensors", weights)
        write(folder / "rows.jsonl", "".join(lines))
        write(folder / "curves.csv", curves_to_csv(self.curves))
        write(folder / "run.json", json.dumps(page, indent=1))
        return folder


def curves_to_csv(curves: dict[str, np.ndarray]) -> str:
    """Columns epoch, member and each curve; one line per epoch and member that was running."""
    lines = [",".join(["epoch", "member", *curves])]
    for epoch, member in np.argwhere(~np.isnan(curves["validation"])):
        values = (f"{curve[epoch, member]:.6g}" for curve in curves.values())
        lines.append(",".join([str(epoch), str(member), *values]))
    return "\n".join(lines) + "\n"


def curves_from_csv(path: Path, members: int) -> dict[str, np.ndarray]:
    """The inverse; epochs after a member stopped are NaN."""
    table = np.genfromtxt(path, delimiter=",", names=True, ndmin=1)
    epochs = int(table["epoch"].max()) + 1 if len(table) else 0
    names = [name for name in table.dtype.names or () if name not in ("epoch", "member")]
    curves = {name: np.full((epochs, members), np.nan) for name in names}
    for name, curve in curves.items():
        curve[table["epoch"].astype(int), table["member"].astype(int)] = table[name]
    return curves


def load_run(folder: Path | str) -> Run:
    """Read a run folder."""
    folder = Path(folder)
    if not (folder / "run.json").exists():
        is_interrupted = (folder / "checkpoint.safetensors").exists()
        hint = "It was interrupted: repeat the same fit with --resume." if is_interrupted else "Check the path."
        raise FileNotFoundError(f"a run folder must hold run.json; {folder} does not. {hint}")
    try:
        page = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{folder / 'run.json'} must be JSON; it is damaged ({error}). Train again.") from None
    if page.get("format") != FORMAT:
        raise ValueError(
            f"{folder} must have format {FORMAT}, which this version of adaptkry reads; got format "
            f"{page.get('format')}. Train again with this version."
        )
    members = [Member(one["split"], one["seed"], Recipe.from_dict(one["recipe"])) for one in page["members"]]
    return Run(
        members,
        ModelShape(**page["shape"] | {"recipe": Recipe.from_dict(page["shape"]["recipe"])}),
        load_weights(folder / "weights.safetensors", page["weights"]),
        curves_from_csv(folder / "curves.csv", len(members)),
        [Result.from_row(row) for row in rows.read(folder / "rows.jsonl")],
        RunInfo(**page["info"]),
    )


def load_weights(path: Path, digest: str) -> dict[str, Tensor]:
    """The weights, if they are those that were written."""
    from safetensors.torch import load

    if not path.exists():
        raise FileNotFoundError(f"a run folder must hold its weights; {path} is missing. Train again.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(
            f"{path} must have the checksum in run.json; it is damaged or belongs to another run. Train again."
        )
    return load(content)
