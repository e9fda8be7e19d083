"""A run: trained members with their settings, weights, curves and results.

The run folder holds `run.json` (settings, versions), `weights.safetensors`, `curves.csv`, `rows.jsonl` (one result row
per training), `journal.jsonl` and, during training, `checkpoint.safetensors`. Every file is written atomically.
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

FORMAT = 4  # version of the run folder's format
STATISTICS = ("norm", "basis_mix")  # prefixes of names that are saved with the weights, but not learned


@dataclass
class Result:
    """The result of one training: its settings, its split and its scores; one row of `rows.jsonl`."""

    graph: str
    settings: dict[str, Any]
    split: int
    split_seed: int | None
    scheme: str
    seed: int
    metric: str
    test: float | None  # None: not evaluated, or failed
    validation: float | None  # at the best epoch; None: failed
    epoch: int  # the best epoch; -1 if there is none
    failed: str | None  # the reason; None: did not fail
    version: str
    commit: str
    device: str
    torch: str
    python: str
    chosen: bool = True  # whether it is the best on validation among the restarts of its split

    def to_row(self) -> dict[str, Any]:
        """Return plain data that can be written as JSON."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Result":
        """Read a row, also of an older version; unknown columns are ignored."""
        data = {**row, "settings": rows.settings_of(dict(row))}
        return cls(**{field.name: data[field.name] for field in fields(cls) if field.name in data})


@dataclass
class RunInfo:
    """What all results of a run share: the data, the splits, and the versions and device of the training."""

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
    hop_scale: list[float]  # [T] the factor that hop normalisation applied to each term
    scaling: list[list[float]] | None = None  # [2][d] mean and standard deviation of feature columns, if standardised
    confusion: list[list[int]] | None = None  # test nodes of chosen members [true class][predicted class]
    basis_folder: str | None = None
    stored_rows: int | None = None
    stored_dtype: str | None = None


@dataclass(repr=False)
class Run:
    """Trained members; `fit` returns one, `save` writes it to a folder and `load_run` reads it."""

    members: list[Member]
    shape: ModelShape
    weights: dict[str, Tensor]  # name -> [b, ...], at the best epoch of each member
    curves: dict[str, np.ndarray]  # name -> [epochs, b]
    results: list[Result]
    info: RunInfo

    @property
    def recipes(self) -> list[Recipe]:
        """The recipe of each member."""
        return [member.recipe for member in self.members]

    @property
    def chosen(self) -> list[int]:
        """Numbers of the members that did not fail and are the best on validation among the restarts of their split."""
        return [i for i, result in enumerate(self.results) if result.chosen and result.validation is not None]

    @property
    def test_scores(self) -> np.ndarray:
        """Test score of each member [b]; NaN if it failed or was not evaluated."""
        return np.array([np.nan if result.test is None else result.test for result in self.results])

    @property
    def parameters(self) -> int:
        """Number of learned parameters of one member."""
        return sum(w[0].numel() for name, w in self.weights.items() if not name.startswith(STATISTICS))

    def summary(self, warnings: bool = True) -> str:
        """Return one line per recipe: mean and standard deviation of the test score over its chosen members."""
        lines = [f"warning: {text}" for text in self.info.warnings] if warnings else []
        for recipe in dict.fromkeys(self.recipes):
            members = zip(self.members, self.results, strict=True)
            chosen = [result for member, result in members if member.recipe == recipe and result.chosen]
            scores = np.array([result.test for result in chosen if result.test is not None]) * 100
            spread = f" ± {scores.std(ddof=1):.2f}" if len(scores) > 1 else ""
            mean = f"{scores.mean():.2f}{spread}" if len(scores) else "-"
            count = "one training" if len(scores) == 1 else f"mean ± std over {len(scores)} trainings"
            failures = sum(result.validation is None for result in chosen)
            untested = len(chosen) - len(scores) - failures
            notes = [
                f", {number} {what}" for number, what in ((failures, "failed"), (untested, "not tested")) if number
            ]
            lines.append(
                f"{recipe.method} on {self.info.graph}: test {self.info.metric} {mean} % "
                f"({count}{''.join(notes)}, {self.info.scheme} splits)"
            )
        return "\n".join(lines)

    def only(self, indices: Iterable[int]) -> "Run":
        """Return the same run with these members only."""
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
        """Predict class probabilities with every member: [b, n, c]; the graph may have new nodes."""
        width = 0 if graph.features is None else graph.features.shape[1]
        if width != self.shape.features:
            raise ValueError(
                f"this run was trained on {self.shape.features} features; got a graph with {width}. "
                "Use the same features."
            )
        if graph.classes > self.shape.classes:
            raise ValueError(
                f"this run has {self.shape.classes} classes; got a graph with {graph.classes}. Train on all classes."
            )
        saved = None if self.info.scaling is None else torch.tensor(self.info.scaling)  # [2, d]
        scaling = None if saved is None else (saved[0], saved[1])
        inputs = model_inputs(self._with_columns_in_order(graph), self.shape.recipe, scaling=scaling)
        chunks = term_chunks(inputs.terms.float(), inputs.operator, "cpu")
        parts = [logits for logits, _ in chunk_logits(self.shape, self.weights, chunks, inputs.operator)]
        return torch.cat(parts, 1).softmax(-1)

    def _with_columns_in_order(self, graph: Graph) -> Graph:
        """Return the graph with feature columns in the order of the training graph, if both name their columns."""
        names, given = self.info.feature_names, graph.info.feature_names
        if names is None or given is None or list(given) == names:
            return graph
        if sorted(given) != sorted(names):
            missing = sorted(set(names) - set(given))
            raise ValueError(
                f"this run was trained on the feature columns {', '.join(names)}; got {', '.join(given)}. "
                f"Missing: {', '.join(missing) or 'none, but one name is repeated'}."
            )
        return graph.with_columns([list(given).index(name) for name in names])

    def __repr__(self) -> str:
        return f"Run({len(self.members)} trainings)\n{self.summary()}"

    def probabilities(self, graph: Graph) -> Tensor:
        """Predict class probabilities, averaged over the chosen members: [n, c]."""
        return self.member_probabilities(graph)[self.require_chosen()].mean(0)

    def require_chosen(self) -> list[int]:
        """Return the numbers of the chosen members; raise an error if every training failed."""
        if not self.chosen:
            raise ValueError(
                f"at least one training must have succeeded; all {len(self.results)} failed. "
                "See `failed` in the results."
            )
        return self.chosen

    def predict(self, graph: Graph) -> Tensor:
        """Predict the most probable class of every node: [n]."""
        return self.probabilities(graph).argmax(1)

    def save(self, folder: Path | str) -> Path:
        """Write the run folder."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = save({name: w.contiguous() for name, w in self.weights.items()})
        document = {
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
        write(folder / "run.json", json.dumps(document, indent=1))
        return folder


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


def load_run(folder: Path | str) -> Run:
    """Read a run folder."""
    folder = Path(folder)
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
    members = [Member(m["split"], m["seed"], Recipe.from_dict(m["recipe"])) for m in document["members"]]
    return Run(
        members,
        ModelShape(**document["shape"] | {"recipe": Recipe.from_dict(document["shape"]["recipe"])}),
        load_weights(folder / "weights.safetensors", document["weights"]),
        curves_from_csv(folder / "curves.csv", len(members)),
        [Result.from_row(row) for row in rows.read(folder / "rows.jsonl")],
        RunInfo(**document["info"]),
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
