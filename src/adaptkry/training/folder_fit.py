"""Fit and predict from a basis folder: rows are streamed, so memory does not grow with the number of nodes.

Beside a few slabs of rows, what is held for every stored row is its number, its class and a bit or byte a split.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.files import check_output_folder
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Info
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.outofcore.memory_plan import parse_bytes
from adaptkry.training import fit as fitting
from adaptkry.training import metrics
from adaptkry.training import process_group as processes
from adaptkry.training.batches import FolderTerms, InMemoryTerms, Plan, Stream
from adaptkry.training.fit import (
    RUN,
    choose_device,
    common_shape,
    gathered,
    keeper,
    mark_chosen,
    members_of,
)
from adaptkry.training.folder_recipe import recipe_for, wanted_terms
from adaptkry.training.loop import Training
from adaptkry.training.losses import stream_logits
from adaptkry.training.process_group import Group
from adaptkry.training.run import Run

MEMORY = "1GiB"  # a basis up to this size is held in memory


@dataclass(frozen=True)
class Labelled:
    """What splits are drawn from: classes and their names, without edges or features."""

    y: Tensor
    info: Info


def opened(folder: BasisFolder | Path | str) -> BasisFolder:
    """A folder by its path, every file compared with its checksum: a damaged one would train, and mislead."""
    if isinstance(folder, BasisFolder):
        return folder
    found = BasisFolder.open(folder)
    if processes.rank() == 0:  # one of a group is enough
        found.verify()
    return found


def split_of(folder: BasisFolder, scheme: str = "class_balanced", count: int | None = None) -> Splits:
    """Splits of the stored rows, by the name of the scheme."""
    return splits.make(Labelled(folder.labels, Info(folder.name, folder.metric)), scheme, count)  # type: ignore[arg-type]


def fit(
    folder: BasisFolder | Path | str,
    made: Recipe | Sequence[Recipe] | str = "adaptkry",
    split: Splits | str | None = None,
    *,
    count: int = 10,
    seeds: int = 1,
    restarts: int = 1,
    device: str = "auto",
    batch: int | None = None,
    memory: str | int = MEMORY,
    out: Path | str | None = None,
    resume: bool = False,
    look: Callable[[Training], object] = lambda _: None,
    **changes,
) -> Run:
    """Train a method on a basis folder, many splits as one batch over one stream of rows.

    Started by torchrun, every process trains on its own share of the slabs and gradients are averaged.

    Args:
        folder: a basis folder.
        made: a recipe, a list of recipes that share basis and layers, or a method's name (then `changes` apply).
        split: a `Splits` of the stored rows, a scheme's name, or None for class_balanced.
        count: number of splits, where a scheme makes them.
        seeds: trainings a split, all of them reported.
        restarts: trainings for each of those, of which the one that is best on validation is kept.
        device: "auto", "cpu", "cuda".
        batch: rows a step and process; by default 8192, or fewer where those are more than 64 MiB.
        memory: a basis of this size or less is read once and held; the figures are the same.
        out: run folder; a checkpoint goes there after every epoch.
        resume: go on from the checkpoint in `out`.
        look: called with the training after every epoch.
        changes: settings that differ from the recipe's.
    """
    if out:
        check_output_folder(Path(out), *RUN)
    folder = opened(folder)
    recipes = recipes_of(folder, made, changes)
    shape, mix = common_shape(recipes)
    checks.classes(folder.labels)
    split = split if isinstance(split, Splits) else split_of(folder, split or "class_balanced", count)
    if split.train.shape[1] != folder.count:
        raise ValueError(
            f"a split of the {folder.count} stored rows is wanted, but one of {split.train.shape[1]} came."
        )
    members = members_of(recipes, split, seeds * restarts)
    where = processes.own_device(choose_device(device))
    with processes.joined(where) as group:
        stream = stream_of(folder, shape, batch, memory, where, group)
        layout = ModelShape(shape, stream.source.shape[0], folder.features, folder.classes)
        masks = {"train": split.train, "validation": split.validation}
        each = None if mix is None else mix.repeat_interleave(len(members) // len(mix), 0)
        training = Training(layout, stream, folder.labels, masks, members, metric=folder.metric, device=where, mix=each)
        key = fitting.key_of(members, data=data_of(folder, split), steps=steps_of(stream))
        keep = kept_by_the_first(Path(out), key, resume, training) if out else lambda _: None

        def watch(now: Training) -> None:
            keep(now)
            look(now)

        training.run(watch)
        test, confusion = tested(training, split)
    run = gathered(training, test.tolist(), split, folder.name, folder.metric, about(folder), where)
    mark_chosen(run, restarts, len(split))
    run.about |= {"hop_scale": [1.0] * layout.terms, "confusion": confusion[run.chosen].sum(0).tolist()}
    if out and group.is_first:
        run.save(out)
    return run


def recipes_of(folder: BasisFolder, made: Recipe | Sequence[Recipe] | str, changes: dict) -> list[Recipe]:
    """Recipes that the folder can serve."""
    if isinstance(made, str):
        return [recipe_for(folder, made, **changes)]
    found = [replace(one, **changes) for one in ([made] if isinstance(made, Recipe) else made)]
    for one in found:
        wanted_terms(folder, one)
    return found


def stream_of(
    folder: BasisFolder, made: Recipe, batch: int | None, memory: str | int, device: torch.device | str,
    group: Group = processes.ALONE, known: Tensor | None = None,
) -> Stream:  # fmt: skip
    """The rows of a folder as a recipe wants them; held in memory where they fit, in the same order."""
    reader = BasisReader(folder, wanted_terms(folder, made))
    plan = Plan.of(folder.labels >= 0 if known is None else known, reader.row_bytes, batch, group.world)
    fits = reader.row_bytes * folder.count <= parse_bytes(memory)
    return Stream(InMemoryTerms(reader.whole().to(device)) if fits else FolderTerms(reader), plan, group, device)


def data_of(folder: BasisFolder, split: Splits) -> str:
    """What a checkpoint belongs to: the folder's checksums, and the splits."""
    return fitting.digest_of([split.train, split.validation, split.test]) + "".join(
        sorted(folder.manifest["xxh128"].values())
    )


def steps_of(stream: Stream) -> dict:
    """What decides the batches."""
    return {"slabs": stream.plan.slabs, "batch": stream.plan.batch, "processes": stream.group.world}


def kept_by_the_first(folder: Path, key: str, resume: bool, training: Training) -> Callable[[Training], object]:
    """The first process restores and writes checkpoints; the others are told the state when training begins."""
    if not training.group.is_first:
        return lambda _: None
    if training.group.world > 1 and not resume and not processes.is_restarted():
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)  # or a restarted group would go on from it
    return keeper(folder, key, resume or processes.is_restarted(), training)


def tested(training: Training, split: Splits) -> tuple[Tensor, Tensor]:
    """Score [b] and confusion counts [b, c, c] on each member's test rows, with the kept weights."""
    stream, layout, weights = training.stream, training.layout, training.state.group("best")
    assert stream is not None
    b, c = len(training.members), layout.classes
    tally, confusion = metrics.Tally(training.metric, b), torch.zeros(b * c * c, dtype=torch.long)
    group = training.group if tally.is_count else processes.ALONE
    used = split.test[training.chosen.unique()].any(0)
    for logits, numbers in stream_logits(layout, weights, stream, used, shared=tally.is_count):
        counted, classes = split.test[:, numbers][training.chosen], training.y[numbers].expand(b, -1)
        tally.add(logits, classes, counted)
        cells = (torch.arange(b)[:, None] * c + classes) * c + logits.argmax(-1)
        confusion += torch.bincount(cells[counted], minlength=b * c * c)
    total = lambda counts: group.total(counts.to(training.device)).cpu()  # noqa: E731  NCCL wants the GPU's
    return tally.score(total), total(confusion).view(b, c, c)


def about(folder: BasisFolder) -> dict:
    """What a run says of the data."""
    return {
        "class_names": None, "feature_names": None, "scaling": None, "nodes": folder.nodes, "entries": None,
        "basis": str(folder.path.resolve()), "stored_rows": folder.count, "stored_dtype": folder.dtype,
    }  # fmt: skip


def probabilities(run: Run, folder: BasisFolder | Path | str) -> Iterator[tuple[Tensor, Tensor]]:
    """Node numbers [m] and class probabilities [m, c], averaged over the chosen members, some rows at a time."""
    folder = opened(folder)
    if folder.features != run.layout.features:
        raise ValueError(
            f"this run was trained on {run.layout.features} features, but the folder has {folder.features}."
        )
    if not run.chosen:
        raise ValueError("no member of this run was trained to the end; see `failed` in its rows.")
    stream = stream_of(folder, run.layout.made, None, 0, "cpu")
    chosen = run.only(run.chosen)
    for logits, numbers in stream_logits(chosen.layout, chosen.weights, stream):
        yield folder.rows[numbers], logits.softmax(-1).mean(0)
