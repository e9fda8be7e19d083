"""Fit: from a graph and a recipe to a run, every split as one batch, with checkpoints on the way."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common import rows as results
from adaptkry.common.files import check_output_folder, write
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import PER_MEMBER, Inputs, Recipe, inputs_of, recipe
from adaptkry.models.stages import ModelShape
from adaptkry.training import metrics
from adaptkry.training.logistic import Logistic
from adaptkry.training.loop import Member, State, Training
from adaptkry.training.run import Run

RUN = ("run.json",)  # what may be in a folder that a run goes to


def fit(
    graph: Graph,
    made: Recipe | Sequence[Recipe] | str = "adaptkry",
    split: Splits | str | None = None,
    *,
    count: int = 10,
    seeds: int = 1,
    restarts: int = 1,
    device: str = "auto",
    batch: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    tested: bool = True,
    look: Callable[[Training], object] = lambda _: None,
    **changes,
) -> Run:
    """Train a method on many splits as one batch.

    A basis that lies on disk is trained by `from_disk.fit`.

    Args:
        graph: the graph, with features and labels.
        made: a recipe, a list of recipes that share basis and layers, or a method's name (then `changes` apply).
        split: a `Splits`, a scheme's name, or None for class_balanced.
        count: number of splits, where a scheme makes them.
        seeds: trainings a split, all of them reported.
        restarts: trainings for each of those, of which the one that is best on validation is kept.
        device: "auto", "cpu", "cuda".
        batch: nodes a step; None is all of them, or as many as fit where the basis does not fit on the device.
        out: run folder; checkpoints go there on the way.
        resume: go on from the checkpoint in `out`.
        tested: False leaves test nodes alone, as a search for settings must; rows then have None for `test`.
        look: called with the training every few epochs.
        changes: settings that differ from the recipe's.
    """
    if out:
        check_output_folder(Path(out), *RUN)
    name = graph.info.name
    recipes = [recipe(made, name, **changes)] if isinstance(made, str) else [made] if isinstance(made, Recipe) else made
    if not isinstance(made, str) and changes:
        recipes = [replace(one, **changes) for one in recipes]
    shape, mix = common_shape(recipes)
    checks.classes(graph.y, graph.info.class_names)
    split = split if isinstance(split, Splits) else splits.make(graph, split or "class_balanced", count)
    where = choose_device(device)
    members = members_of(recipes, split, seeds * restarts)
    batch = batch or batch_that_fits(graph, shape, len(members), where)
    inputs = inputs_of(graph, shape, "cpu" if batch else where)
    layout = ModelShape(shape, len(inputs.terms), inputs.terms.shape[2], graph.classes)
    training = trainer(graph, layout, inputs, split, members, where, batch, mix)
    keep = keeper(Path(out), describe(members, graph, split, batch), resume, training) if out else lambda _: None

    def watch(now: Any) -> None:
        keep(now)
        look(now)

    training.run(watch)
    run = finish(training, graph, split, where, tested)
    mark_chosen(run, restarts, len(split))
    run.about["hop_scale"] = inputs.scale.tolist()
    run.about["scaling"] = None if inputs.scaling is None else [part.tolist() for part in inputs.scaling]
    run.about["feature_names"] = None if graph.info.feature_names is None else list(graph.info.feature_names)
    if out:
        run.save(out)
    return run


def members_of(made: Sequence[Recipe], split: Splits, seeds: int) -> list[Member]:
    """Every recipe on every split with every seed."""
    return [Member(s, 1000 * seed + s, one) for one in made for seed in range(seeds) for s in range(len(split))]


def common_shape(made: Sequence[Recipe]) -> tuple[Recipe, Tensor | None]:
    """What all recipes share: the first one, or an error that names what they do not share.

    Tied taus may differ: the basis then has every tau that any of them wants, and how much of each tau a recipe wants
    comes second, [recipes, taus].
    """
    first = made[0]
    mixes = first.tied and first.stages[0] == "combine" and first.combine == "sum" and len(first.directions) == 1
    own = PER_MEMBER | ({"taus"} if mixes else set())
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


def trainer(
    graph: Graph, layout: ModelShape, inputs: Inputs, split: Splits, members: list[Member], device: torch.device,
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


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; a GPU that is not there is an error."""
    if name.partition(":")[0] not in ("auto", "cpu", "cuda"):
        raise ValueError(f"the device must be auto, cpu or cuda, but {name!r} came.")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"device {name!r} was asked for, but torch sees no CUDA device here. Use the device cpu or auto."
        )
    return torch.device(name)


def batch_that_fits(graph: Graph, made: Recipe, members: int, device: torch.device) -> int | None:
    """None where the basis and three activations of all members fit on the device, else nodes a step that do.

    A model that propagates while it trains needs all nodes at once and is left to try.
    """
    width = 0 if graph.features is None else graph.features.shape[1]
    node = 4 * width * (made.signals + 3 * members)  # bytes
    free = free_bytes(device)
    if made.propagates or made.optimiser == "logistic" or graph.nodes * node <= 0.9 * free:
        return None
    return max(1, int(0.45 * free / node))


def free_bytes(device: torch.device) -> float:
    """Memory left on a GPU; the CPU's is not counted, its system swaps or refuses."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else float("inf")


def mark_chosen(run: Run, restarts: int, splits: int) -> None:
    """Of the restarts of one split, the first that is best on validation counts; validation nodes alone decide."""
    for start in range(0, len(run.rows), restarts * splits):
        for s in range(splits):
            group = run.rows[start + s : start + restarts * splits : splits]
            scores = [-1.0 if row["validation"] is None else row["validation"] for row in group]
            for i, row in enumerate(group):
                row["chosen"] = i == scores.index(max(scores))


def describe(members: list[Member], graph: Graph, split: Splits, batch: int | None) -> str:
    """What a checkpoint belongs to, as text that must match on resuming: settings, and digests of graph and splits."""
    return key_of(members, batch=batch, data=data_of(graph, split))


def data_of(graph: Graph, split: Splits) -> str:
    """One number for a graph and its splits."""
    parts = [graph.indptr, graph.indices, graph.weights, graph.y, graph.x, split.train, split.validation, split.test]
    return digest_of(parts)


def digest_of(parts: Sequence[Tensor | None]) -> str:
    """sha256 of tensors one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"none" if part is None else part.contiguous().numpy().data)
    return digest.hexdigest()


def key_of(members: list[Member], **told) -> str:
    """Settings as text, with whatever else must match."""
    return json.dumps({"members": [asdict(m) for m in members], **told}, sort_keys=True)


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


def scores_on_test(training: Training | Logistic, graph: Graph, split: Splits) -> list[float]:
    """The score of each member, with its kept weights, on its own test nodes."""
    chosen = torch.tensor([m.split for m in training.members])
    score = metrics.pick_metric(graph.info.metric)
    return score(training.logits(), graph.y.expand(len(chosen), -1), split.test[chosen]).tolist()


def finish(training: Training | Logistic, graph: Graph, split: Splits, device: torch.device, tested: bool) -> Run:
    """Test once with the kept weights, and gather everything."""
    test = scores_on_test(training, graph, split) if tested else [None] * len(training.members)
    names = graph.info.class_names
    about = {"class_names": None if names is None else list(names), "nodes": graph.nodes, "entries": graph.entries}
    return gathered(training, test, split, graph.info.name, graph.info.metric, about, device)


def gathered(
    training: Training | Logistic, test: Sequence[float | None], split: Splits, graph: str, metric: str, about: dict,
    device: torch.device,
) -> Run:  # fmt: skip
    """A run from trained members and their test scores [b]."""
    state: State = training.state
    failed, epoch, best = (state.tensors[k].tolist() for k in ("failed_epoch", "best_epoch", "best_score"))
    origin = results.provenance(device)
    rows = []
    for i, member in enumerate(training.members):
        lost = epoch[i] < 0
        rows.append(
            {
                "graph": graph, "config": asdict(member.made), "split": member.split, "scheme": split.scheme,
                "split_seed": split.seeds[member.split] if member.split < len(split.seeds) else None,
                "seed": member.seed, "metric": metric, "test": None if lost else test[i],
                "validation": None if lost else best[i], "epoch": epoch[i],
                "failed": f"loss was not finite in epoch {failed[i]}" if failed[i] >= 0 else None, **origin,
            }
        )  # fmt: skip
    curves = {name: curve[: state.epoch].cpu().numpy() for name, curve in state.group("curve").items()}
    weights = {name: w.cpu().float() for name, w in state.group("best").items()}
    about = {
        "graph": graph, "metric": metric, "scheme": split.scheme, "warnings": list(split.warnings), **about, **origin,
    }  # fmt: skip
    return Run(training.members, training.layout, weights, curves, rows, about)
