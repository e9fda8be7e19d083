"""A run: trained members with their settings, weights, curves and rows; saved to a folder, loaded, resumed, used.

The folder holds `run.json` (settings, versions), `weights.safetensors`, `curves.csv`, `rows.jsonl`, `picture.png`, and
while a training is under way `checkpoint.safetensors`. Every file is written whole or not at all.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry import checks, metrics, plots, results, spectrum, splits
from adaptkry.bases import BASES, recurrence, replay, stack
from adaptkry.graph import Graph
from adaptkry.logistic import Logistic
from adaptkry.operators import Diagonal, Propagation
from adaptkry.recipes import OWN, Inputs, Recipe, features_of, inputs_of, propagation, recipe
from adaptkry.splits import Split
from adaptkry.stages import Layout, coefficients
from adaptkry.storage import write
from adaptkry.training import Member, State, Training, all_logits

FORMAT = 2  # of the run folder


@dataclass
class Run:
    """What a training leaves behind."""

    members: list[Member]
    layout: Layout
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

    def summary(self) -> str:
        """One line a recipe: mean and standard deviation of the test score over its chosen members."""
        lines = [f"warning: {text}" for text in self.about["warnings"]]
        for made in dict.fromkeys(self.recipes):
            wanted = [row for row, own in zip(self.rows, self.recipes, strict=True) if own == made and row["chosen"]]
            good = np.array([row["test"] for row in wanted if row["test"] is not None]) * 100
            spread = f" ± {good.std(ddof=1):.2f}" if len(good) > 1 else ""
            failed = f", {len(wanted) - len(good)} failed" if len(good) < len(wanted) else ""
            mean = f"{good.mean():.2f}{spread}" if len(good) else "-"
            lines.append(
                f"{made.method} on {self.about['graph']}: test {self.about['metric']} {mean} % "
                f"(mean ± std over {len(good)} trainings{failed}, {self.about['scheme']} splits)"
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
        made = inputs_of(graph, self.layout.made)
        found = all_logits(self.layout, self.weights, made.terms.float(), made.operator, "cpu")
        return found.softmax(-1)

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
        page = {
            "format": FORMAT,
            "members": [asdict(member) for member in self.members],
            "layout": asdict(self.layout),
            "about": self.about,
        }
        write(folder / "weights.safetensors", save({k: w.contiguous() for k, w in self.weights.items()}))
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
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    if not (folder / "run.json").exists():
        unfinished = (folder / "checkpoint.safetensors").exists()
        hint = "It was interrupted: run the same fit with --resume." if unfinished else "Check the path."
        raise FileNotFoundError(f"{folder} is no run folder: it has no run.json. {hint}")
    page = json.loads((folder / "run.json").read_text())
    if page.get("format") != FORMAT:
        raise ValueError(
            f"{folder} was written in format {page.get('format')}, this version reads {FORMAT}. Train it again."
        )
    try:
        weights = load_file(folder / "weights.safetensors")
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{folder / 'weights.safetensors'} is damaged ({error}). Train again.") from None
    table = np.genfromtxt(folder / "curves.csv", delimiter=",", names=True, ndmin=1)
    epochs = int(table["epoch"].max()) + 1 if len(table) else 0
    names = [name for name in table.dtype.names or () if name not in ("epoch", "member")]
    curves = {name: np.full((epochs, len(page["members"])), np.nan) for name in names}
    for name, curve in curves.items():
        curve[table["epoch"].astype(int), table["member"].astype(int)] = table[name]
    return Run(
        [revived(Member, member) for member in page["members"]],
        revived(Layout, page["layout"]),
        weights,
        curves,
        results.read(folder / "rows.jsonl"),
        page["about"],
    )


def revived(kind: Callable[..., Any], page: dict[str, Any]) -> Any:
    """A dataclass from JSON, where tuples have become lists and the recipe a table."""
    whole = {name: revived(Recipe, value) if name == "made" else frozen(value) for name, value in page.items()}
    return kind(**whole)


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(frozen(part) for part in value) if isinstance(value, list) else value


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; a GPU that is not there is an error."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"device {name!r} was asked for, but torch sees no CUDA device here. Use the device cpu or auto."
        )
    return torch.device(name)


def members_of(made: Sequence[Recipe], split: Split, seeds: int) -> list[Member]:
    """Every recipe on every split with every seed."""
    return [Member(s, 1000 * seed + s, one) for one in made for seed in range(seeds) for s in range(len(split))]


def common_shape(made: Sequence[Recipe]) -> tuple[Recipe, Tensor | None]:
    """What all recipes share: the first one, or an error that names what they do not share.

    Tied taus may differ: the basis then has every tau that any of them wants, and how much of each tau a recipe wants
    comes second, [recipes, taus].
    """
    first = made[0]
    mixes = first.tied and first.stages[0] == "combine" and first.combine == "sum" and len(first.directions) == 1
    own = OWN | ({"taus"} if mixes else set())
    for other in made[1:]:
        for f in fields(Recipe):
            if f.name not in own and getattr(other, f.name) != getattr(first, f.name):
                raise ValueError(
                    f"recipes trained together must agree in {f.name}, but {getattr(first, f.name)!r} and "
                    f"{getattr(other, f.name)!r} came. Call fit once for each."
                )
    if len({one.taus for one in made}) == 1:
        return first, None
    taus = sorted({tau for one in made for tau in one.taus})
    mix = torch.tensor([[one.taus.count(tau) / len(one.taus) for tau in taus] for one in made])
    return replace(first, taus=tuple(taus), tied=False), mix


def fit(
    graph: Graph,
    made: Recipe | Sequence[Recipe] | str = "adaptkry",
    split: Split | str | None = None,
    *,
    count: int = 10,
    seeds: int = 1,
    restarts: int = 1,
    device: str = "auto",
    batch: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    look: Callable[[Training], object] = lambda _: None,
    **changes,
) -> Run:
    """Train a method on many splits as one batch.

    Args:
        graph: the graph, with features and labels.
        made: a recipe, a list of recipes that share basis and layers, or a method's name (then `changes` apply).
        split: a `Split`, a scheme's name, or None for class_balanced.
        count: number of splits, where a scheme makes them.
        seeds: trainings a split, all of them reported.
        restarts: trainings for each of those, of which the one that is best on validation is kept.
        device: "auto", "cpu", "cuda".
        batch: nodes a step where the basis does not fit on the device.
        out: run folder; checkpoints go there on the way.
        resume: go on from the checkpoint in `out`.
        look: called with the training every few epochs.
        changes: settings that differ from the recipe's.
    """
    if out:
        usable_folder(Path(out))
    name = graph.info.name
    recipes = [recipe(made, name, **changes)] if isinstance(made, str) else [made] if isinstance(made, Recipe) else made
    if not isinstance(made, str) and changes:
        recipes = [replace(one, **changes) for one in recipes]
    shape, mix = common_shape(recipes)
    checks.classes(graph.y, graph.info.class_names)
    split = split if isinstance(split, Split) else splits.make(graph, split or "class_balanced", count)
    where = choose_device(device)
    members = members_of(recipes, split, seeds * restarts)
    inputs = inputs_of(graph, shape, "cpu" if batch else where)
    layout = Layout(shape, len(inputs.terms), inputs.terms.shape[2], graph.classes)
    training = trainer(graph, layout, inputs, split, members, where, batch, mix)
    keep = keeper(Path(out), describe(members, graph, split, batch), resume, training) if out else lambda _: None

    def watch(now: Any) -> None:
        keep(now)
        look(now)

    training.run(watch)
    run = finish(training, graph, split, where)
    mark_chosen(run, restarts, len(split))
    run.about["hop_scale"] = inputs.scale.tolist()
    if out:
        run.save(out)
    return run


def trainer(
    graph: Graph, layout: Layout, inputs: Inputs, split: Split, members: list[Member], device: torch.device,
    batch: int | None, mix: Tensor | None,
) -> Training | Logistic:  # fmt: skip
    """What trains these members."""
    common = (layout, inputs.terms, graph.y, {"train": split.train, "validation": split.validation}, members)
    if layout.made.optimiser == "logistic":
        return Logistic(*common, metric=graph.info.metric, device=device)
    each = None if mix is None else mix.repeat_interleave(len(members) // len(mix), 0)
    return Training(
        *common, operator=inputs.operator, metric=graph.info.metric, device=device, batch=batch, mix=each
    )  # fmt: skip


def usable_folder(folder: Path) -> Path:
    """Make the run folder, or say why it cannot be: before hours of training, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"--out must be a folder that can be written to, but {folder} is not ({error.strerror})."
        ) from None
    if not os.access(folder, os.W_OK):
        raise OSError(f"--out must be a folder that can be written to, but {folder} is read-only. Choose another.")
    return folder


def mark_chosen(run: Run, restarts: int, splits: int) -> None:
    """Of the restarts of one split, the first that is best on validation counts; validation nodes alone decide."""
    for start in range(0, len(run.rows), restarts * splits):
        for s in range(splits):
            group = run.rows[start + s : start + restarts * splits : splits]
            scores = [-1.0 if row["validation"] is None else row["validation"] for row in group]
            for i, row in enumerate(group):
                row["chosen"] = i == scores.index(max(scores))


def describe(members: list[Member], graph: Graph, split: Split, batch: int | None) -> str:
    """What a checkpoint belongs to, as text that must match on resuming: settings, and digests of graph and splits."""
    parts = [graph.indptr, graph.indices, graph.weights, graph.y, graph.x, split.train, split.validation, split.test]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"none" if part is None else part.contiguous().numpy().tobytes())
    key = {"members": [asdict(m) for m in members], "batch": batch, "graph and splits": digest.hexdigest()}
    return json.dumps(key, sort_keys=True)


def keeper(folder: Path, key: str, resume: bool, training: Training | Logistic) -> Callable[[Any], object]:
    """Restore the checkpoint if asked, and return what writes the next ones."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file, save

    path = folder / "checkpoint.safetensors"
    if resume and path.exists():
        try:
            with safe_open(path, "pt") as file:
                found = (file.metadata() or {}).get("key")
        except SafetensorError as error:
            raise ValueError(f"{path} is damaged ({error}). Leave --resume out to train from the start.") from None
        if found != key:
            raise ValueError(
                f"{path} belongs to other settings, other splits or another graph: use another --out, or no --resume"
            )
        training.restore(load_file(path))

    def checkpoint(now: Training) -> None:
        tensors = {k: t.contiguous() for k, t in (now.state.tensors | now.dice_states()).items()}
        write(path, save(tensors, {"key": key}))

    return checkpoint


def finish(training: Training | Logistic, graph: Graph, split: Split, device: torch.device) -> Run:
    """Test once with the kept weights, and gather everything."""
    logits = training.logits()
    chosen = torch.tensor([m.split for m in training.members])
    everyone = graph.y.expand(len(chosen), -1)
    score = metrics.pick_metric(graph.info.metric)
    test = score(logits, everyone, split.test[chosen])
    state: State = training.state
    failed, epoch, best = (state.tensors[k].tolist() for k in ("failed_epoch", "best_epoch", "best_score"))
    origin = results.provenance(device)
    rows = []
    for i, member in enumerate(training.members):
        lost = epoch[i] < 0
        rows.append(
            {
                "graph": graph.info.name, "config": asdict(member.made), "split": member.split, "scheme": split.scheme,
                "split_seed": split.seeds[member.split] if member.split < len(split.seeds) else None,
                "seed": member.seed, "metric": graph.info.metric, "test": None if lost else float(test[i]),
                "validation": None if lost else best[i], "epoch": epoch[i],
                "failed": f"loss was not finite in epoch {failed[i]}" if failed[i] >= 0 else None, **origin,
            }
        )  # fmt: skip
    done = state.epoch
    curves = {name: curve[:done].cpu().numpy() for name, curve in state.group("curve").items()}
    weights = {name: w.cpu().float() for name, w in state.group("best").items()}
    names = graph.info.class_names
    about = {
        "graph": graph.info.name, "metric": graph.info.metric, "scheme": split.scheme, "warnings": list(split.warnings),
        "class_names": None if names is None else list(names), "nodes": graph.nodes, "entries": graph.entries, **origin,
    }  # fmt: skip
    return Run(training.members, training.layout, weights, curves, rows, about)


# These bases are other polynomials for every signal or every channel: no one curve stands for them.
NO_RESPONSE = ("optbasis", "favard", "unifilter", "gaussian", "asgc")


def learned_response(run: Run, graph: Graph, grid: Tensor) -> Tensor | None:
    """The learned filter g of each member at operator eigenvalues `grid` [m], of the first direction: [m, b].

    Several tied taus share the weights of one polynomial, which is what is drawn, as in the paper. An orthonormal
    basis has polynomials of its own for every column; the mean over columns is drawn.
    """
    made = run.recipes[0]
    if "filter" not in run.weights or made.degree == 0 or made.basis in NO_RESPONSE:
        return None
    grid, ones = grid.double(), torch.ones(len(grid), 1, dtype=torch.float64)
    if made.terms == "last":
        return grid[:, None] ** made.degree * run.weights["filter"].T.double()
    w = coefficients(made, {name: weight.double() for name, weight in run.weights.items()})  # [b, K + 1] or [b, h, ...]
    w = w * torch.tensor(run.about["hop_scale"]) if len(run.about["hop_scale"]) == w.shape[-1] else w
    w = w.reshape(len(w), -1, w.shape[-1]).mean(1)[:, : made.degree + 1].T  # [K + 1, b]
    if made.basis != "orthonormal":
        make = BASES["chebyshev" if made.basis == "bernstein" else made.basis]
        return stack(list(make(Diagonal(grid), ones, made.degree, **dict(made.basis_options))))[:, :, 0] @ w
    P = propagation(graph, made, made.taus[0], made.directions[0])
    x = features_of(graph, made)[:, :64].double()
    found = replay(Diagonal(grid), ones.expand(-1, x.shape[1]), made.degree, recurrence=recurrence(P, x, made.degree))
    return stack(list(found)).mean(2) @ w


def picture(run: Run, graph: Graph, folder: Path | str, split: Split) -> Path:
    """Draw what the run learned into the run folder."""
    made = run.recipes[0]
    P = Propagation(graph, made.taus[0])
    density = spectrum.density_of_states(P, moments=200, probes=16)
    grid = torch.linspace(float(density.edges[0]), float(density.edges[-1]), 201)
    responses = learned_response(run, graph, grid)
    c = run.layout.classes
    guess = run.each_probability(graph).argmax(-1)[run.chosen]  # each member is asked about its own test nodes only
    test = split.test[torch.tensor([run.members[i].split for i in run.chosen])]
    pairs = (graph.y.expand_as(guess) * c + guess)[test]
    confusion = torch.bincount(pairs, minlength=c * c).reshape(c, c).numpy()
    return plots.run_picture(
        Path(folder) / "picture.png",
        title=run.summary().splitlines()[-1],
        grid=grid.numpy(),
        responses=None if responses is None else responses.numpy(),
        density=density,
        curves=run.curves,
        confusion=confusion,
        names=run.about["class_names"] or range(c),
    )
