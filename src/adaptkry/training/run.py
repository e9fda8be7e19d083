"""A run: trained members with their settings, weights, curves and rows; saved to a folder, loaded, resumed, used.

The folder holds `run.json` (settings, versions), `weights.safetensors`, `curves.csv`, `rows.jsonl`, `picture.png`,
`facts.json`, `report.html`, and while a training is under way `checkpoint.safetensors`. Every file is
written whole or not at all.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import rows as results
from adaptkry.common.files import write
from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import Recipe, inputs_of
from adaptkry.models.stages import ModelShape
from adaptkry.training.loop import Member
from adaptkry.training.losses import all_logits

FORMAT = 3  # of the run folder


@dataclass(repr=False)
class Run:
    """What a training leaves behind."""

    members: list[Member]
    layout: ModelShape
    weights: dict[str, Tensor]  # name -> [b, ...], the best of each member
    curves: dict[str, np.ndarray]  # name -> [epochs, b]
    rows: list[dict]
    about: dict  # graph, class names, metric, split scheme, warnings, provenance

    @property
    def recipes(self) -> list[Recipe]:
        """Each member's recipe."""
        return [member.made for member in self.members]

    @property
    def chosen(self) -> list[int]:
        """The members that count: trained to the end and, among restarts of one split, best on validation."""
        return [i for i, row in enumerate(self.rows) if row["chosen"] and row["test"] is not None]

    def summary(self, warnings: bool = True) -> str:
        """One line a recipe: mean and standard deviation of the test score over its chosen members."""
        lines = [f"warning: {text}" for text in self.about["warnings"]] if warnings else []
        for made in dict.fromkeys(self.recipes):
            wanted = [row for row, own in zip(self.rows, self.recipes, strict=True) if own == made and row["chosen"]]
            good = np.array([row["test"] for row in wanted if row["test"] is not None]) * 100
            spread = f" ± {good.std(ddof=1):.2f}" if len(good) > 1 else ""
            failed = f", {len(wanted) - len(good)} failed" if len(good) < len(wanted) else ""
            mean = f"{good.mean():.2f}{spread}" if len(good) else "-"
            over = "one training" if len(good) == 1 else f"mean ± std over {len(good)} trainings"
            lines.append(
                f"{made.method} on {self.about['graph']}: test {self.about['metric']} {mean} % "
                f"({over}{failed}, {self.about['scheme']} splits)"
            )
        return "\n".join(lines)

    def only(self, wanted: Iterable[int]) -> "Run":
        """The same run with some of its members."""
        keep = list(wanted)
        return Run(
            [self.members[i] for i in keep],
            self.layout,
            {name: w[keep] for name, w in self.weights.items()},
            {name: curve[:, keep] for name, curve in self.curves.items()},
            [self.rows[i] for i in keep],
            self.about,
        )

    @torch.no_grad()
    def each_probability(self, graph: Graph) -> Tensor:
        """Class probabilities by every member: [b, n, c]. The graph may have other nodes than the one trained on."""
        if graph.features is None or graph.features.shape[1] != self.layout.features:
            width = 0 if graph.features is None else graph.features.shape[1]
            raise ValueError(f"this run was trained on {self.layout.features} features, but the graph has {width}.")
        if graph.classes > self.layout.classes:
            raise ValueError(f"this run knows {self.layout.classes} classes, but the graph has {graph.classes}.")
        scaling = self.about.get("scaling")
        known = None if scaling is None else (torch.tensor(scaling[0]), torch.tensor(scaling[1]))
        made = inputs_of(self._in_order(graph), self.layout.made, scaling=known)
        found = all_logits(self.layout, self.weights, made.terms.float(), made.operator, "cpu")
        return found.softmax(-1)

    def _in_order(self, graph: Graph) -> Graph:
        """The graph with its feature columns in the order of the training, where both have names for them."""
        ours, theirs = self.about.get("feature_names"), graph.info.feature_names
        if ours is None or theirs is None or list(theirs) == ours:
            return graph
        if sorted(theirs) != sorted(ours):
            missing = sorted(set(ours) - set(theirs))
            raise ValueError(
                f"this run was trained on the feature columns {', '.join(ours)}, but the graph has "
                f"{', '.join(theirs)}. Missing: {', '.join(missing) or 'none, but one comes twice'}."
            )
        return graph.with_columns([list(theirs).index(name) for name in ours])

    def __repr__(self) -> str:
        return f"Run({len(self.members)} trainings)\n{self.summary()}"

    def probabilities(self, graph: Graph) -> Tensor:
        """Class probabilities of every node, averaged over the chosen members: [n, c]."""
        if not self.chosen:
            raise ValueError("no member of this run was trained to the end; see `failed` in its rows.")
        return self.each_probability(graph)[self.chosen].mean(0)

    def predict(self, graph: Graph) -> Tensor:
        """The likeliest class of every node [n]."""
        return self.probabilities(graph).argmax(1)

    def save(self, folder: Path | str) -> Path:
        """Write the run folder."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = save({k: w.contiguous() for k, w in self.weights.items()})
        page = {
            "format": FORMAT,
            "weights": hashlib.sha256(weights).hexdigest(),
            "members": [asdict(member) for member in self.members],
            "layout": asdict(self.layout),
            "about": self.about,
        }
        write(folder / "weights.safetensors", weights)
        write(folder / "rows.jsonl", "".join(json.dumps(row, sort_keys=True) + "\n" for row in self.rows))
        write(folder / "curves.csv", curves_as_csv(self.curves))
        write(folder / "run.json", json.dumps(page, indent=1))
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return folder


def curves_as_csv(curves: dict[str, np.ndarray]) -> str:
    """epoch, member, and each curve by name: a line an epoch and member that ran."""
    lines = [",".join(["epoch", "member", *curves])]
    for epoch, member in np.argwhere(~np.isnan(curves["validation"])):
        values = (f"{curve[epoch, member]:.6g}" for curve in curves.values())
        lines.append(",".join([str(epoch), str(member), *values]))
    return "\n".join(lines) + "\n"


def load_run(folder: Path | str) -> Run:
    """Read a run folder back."""
    folder = Path(folder)
    if not (folder / "run.json").exists():
        unfinished = (folder / "checkpoint.safetensors").exists()
        hint = "It was interrupted: run the same fit with --resume." if unfinished else "Check the path."
        raise FileNotFoundError(f"{folder} is no run folder: it has no run.json. {hint}")
    try:
        page = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{folder / 'run.json'} is damaged ({error}). Train again.") from None
    if page.get("format") != FORMAT:
        raise ValueError(
            f"{folder} was written in format {page.get('format')}, this version reads {FORMAT}. Train it again."
        )
    weights = load_weights(folder / "weights.safetensors", page["weights"])
    table = np.genfromtxt(folder / "curves.csv", delimiter=",", names=True, ndmin=1)
    epochs = int(table["epoch"].max()) + 1 if len(table) else 0
    names = [name for name in table.dtype.names or () if name not in ("epoch", "member")]
    curves = {name: np.full((epochs, len(page["members"])), np.nan) for name in names}
    for name, curve in curves.items():
        curve[table["epoch"].astype(int), table["member"].astype(int)] = table[name]
    return Run(
        [revived(Member, member) for member in page["members"]],
        revived(ModelShape, page["layout"]),
        weights,
        curves,
        results.read(folder / "rows.jsonl"),
        page["about"],
    )


def load_weights(path: Path, digest: str) -> dict[str, Tensor]:
    """The weights, if they are those that were written."""
    from safetensors.torch import load

    if not path.exists():
        raise FileNotFoundError(f"{path} is missing. Train again.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path} is damaged or of another run: its checksum is not the one in run.json. Train again.")
    return load(content)


def revived(kind: Callable[..., Any], page: dict[str, Any]) -> Any:
    """A dataclass from JSON, where tuples have become lists and the recipe a table."""
    whole = {name: revived(Recipe, value) if name == "made" else frozen(value) for name, value in page.items()}
    return kind(**whole)


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(frozen(part) for part in value) if isinstance(value, list) else value
