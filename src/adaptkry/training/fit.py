"""Fit: from data and a method to a run, every split trained as one batch.

The path of a call: `data.open_data` -> recipes and splits -> members -> `data.prepare` (terms computed once) ->
`loop.GradientDescent.run` -> `evaluation.evaluate_test` -> `run.Run`.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptkry.common import checks, rows
from adaptkry.common.journal import Journal
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe, check_names
from adaptkry.training.checkpoint import Checkpointer
from adaptkry.training.data import (
    BatchOptions,
    Prepared,
    TrainingData,
    open_data,
    recipes_for,
    training_key,
    training_masks,
)
from adaptkry.training.evaluation import evaluate_test
from adaptkry.training.logistic import LogisticRegression
from adaptkry.training.loop import Callback, GradientDescent
from adaptkry.training.process_group import ProcessGroup, is_restarted, joined_group, process_count, process_device
from adaptkry.training.run import Result, Run, RunInfo, load_run
from adaptkry.training.state import Member

Trainer = GradientDescent | LogisticRegression


def fit(
    data: Any,
    method: str | Recipe | Sequence[Recipe] = "adaptkry",
    splits: Splits | str | None = None,
    *,
    count: int = 10,
    seeds: int = 1,
    restarts: int = 1,
    device: str | torch.device = "auto",
    batch_size: int | None = None,
    memory: str | int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    test: bool = True,
    callbacks: Iterable[Callback] = (),
    **settings,
) -> Run:
    """Train a method on many splits as one batch.

    Args:
        data: a `Graph`, a name such as "cora", a path or a list of paths, a PyG `Data`, a NetworkX graph, a
            `BasisFolder` or its path.
        method: a method's name, a recipe, or a list of recipes that share basis and layers.
        splits: `Splits`, the name of a scheme, or None for class_balanced.
        count: number of splits, where a scheme draws them.
        seeds: trainings per split, all of them reported.
        restarts: trainings for each of those, of which the one best on validation is kept.
        device: "auto", "cpu" or "cuda".
        batch_size: rows per step. None: all of them, or as many as fit where the basis does not fit on the device; for
            a basis folder 8192.
        memory: basis folders up to this size are held in memory ("1GiB" by default); the results are the same.
        out: run folder; checkpoints are written there during training.
        resume: continue from the checkpoint in `out`; a finished run is loaded.
        test: False leaves test nodes alone, as a search for settings must; results then have None for `test`.
        callbacks: called with the training state every few epochs.
        settings: settings that differ from the recipe's, such as `degree=4`.

    Started by torchrun, every process trains on its share of a basis folder, and gradients are averaged.

    >>> import adaptkry as ak
    >>> run = ak.fit(ak.csbm(nodes=200, seed=0), "adaptkry", "stratified", count=2, epochs=10, device="cpu")
    >>> len(run.results)
    2
    """
    check_names(settings, inspect.signature(fit).parameters)
    for name, value in (("count", count), ("seeds", seeds), ("restarts", restarts)):
        checks.positive_count(value, name)
    source = open_data(data)
    recipes = recipes_for(source, method, settings)
    splits = splits if isinstance(splits, Splits) else source.splits(splits, count)
    check_splits(splits, source.labels, test)
    checks.classes(source.labels, source.info.class_names)
    members = make_members(recipes, splits, seeds * restarts)
    place = process_device(choose_device(device))
    source.check_options(BatchOptions(place, batch_size, memory, ProcessGroup(size=process_count())))
    with joined_group(place) as group:
        options = BatchOptions(place, batch_size, memory, group)
        folder = Path(out) if out is not None and group.is_first else None
        with _journal(folder, resume or is_restarted()) as journal:
            shape, basis_mix = common_shape(recipes)
            key = ""
            if journal:
                data_digest = source.digest(splits)
                key = training_key(members, data=data_digest, options=[batch_size, group.size, restarts, test])
                journal.open(key, _request(source, recipes, splits, members, options))
            if group.broadcast(journal is not None and "run" in journal.done):
                return load_run(str(out))
            prepared = source.prepare(shape, members, splits, options)
            trainer = make_trainer(prepared, members, source, splits, basis_mix)
            checkpointer = _checkpointer(journal, key, prepared, trainer)
            trainer.run([*checkpointer, *callbacks])
            run = build_run(trainer, prepared, source, splits, restarts, test)
            if journal:
                run.save(journal.folder)
                journal.add("run")
                checkpointer[0].remove()
    return run


def make_members(recipes: Sequence[Recipe], splits: Splits, seeds: int) -> list[Member]:
    """Every recipe on every split with every seed."""
    return [Member(s, 1000 * seed + s, one) for one in recipes for seed in range(seeds) for s in range(len(splits))]


def common_shape(recipes: Sequence[Recipe]) -> tuple[Recipe, Tensor | None]:
    """What all recipes share: the first one, or an error that names what they do not share.

    Tied taus may differ: the basis then has every tau that any recipe uses, and the second value is the share of each
    tau in each recipe's basis, [recipes, taus].
    """
    first = recipes[0]
    may_differ = first.per_member | ({"taus"} if first.mixes_taus else set())
    for other in recipes[1:]:
        for one in fields(Recipe):
            ours, theirs = getattr(first, one.name), getattr(other, one.name)
            if one.name not in may_differ and ours != theirs:
                raise ValueError(
                    f"recipes trained together must agree in {one.name}; got {ours!r} and {theirs!r}. "
                    "Call fit once for each."
                )
    if len({one.taus for one in recipes}) == 1:
        return first, None
    taus = sorted({tau for one in recipes for tau in one.taus})
    mix = torch.tensor([[one.taus.count(tau) / len(one.taus) for tau in taus] for one in recipes])
    return replace(first, taus=tuple(taus), tied=False), mix


def make_trainer(
    prepared: Prepared, members: list[Member], source: TrainingData, splits: Splits, basis_mix: Tensor | None
) -> Trainer:
    """The solver or the gradient descent that trains these members."""
    shape, batches, metric = prepared.shape, prepared.batches, source.info.metric
    if shape.recipe.is_exact:
        masks = training_masks(splits)
        return LogisticRegression(shape, batches, members, labels=source.labels, masks=masks, metric=metric)  # type: ignore[arg-type]
    mix = None if basis_mix is None else basis_mix.repeat_interleave(len(members) // len(basis_mix), 0)
    return GradientDescent(shape, batches, members, metric=metric, basis_mix=mix)


def choose_device(name: str | torch.device) -> torch.device:
    """`auto` is a GPU where there is one; a GPU that is not there is an error."""
    name = str(name)
    if name.partition(":")[0] not in ("auto", "cpu", "cuda"):
        raise ValueError(f"the device must be auto, cpu or cuda; got {name!r}.")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"the device {name!r} needs a CUDA GPU, and torch finds none. Use the device cpu or auto.")
    return torch.device(name)


def check_splits(splits: Splits, labels: Tensor, test: bool) -> None:
    """Refuse splits of another graph, and splits that train on or score nodes without a label."""
    if splits.train.shape[1] != len(labels):
        raise ValueError(f"splits must cover all {len(labels)} rows; got splits of {splits.train.shape[1]}.")
    for part in ("train", "validation", "test") if test else ("train", "validation"):
        unknown = getattr(splits, part).any(0) & (labels < 0)
        if unknown.any():
            raise ValueError(
                f"{part} nodes must have labels; got node {int(unknown.nonzero()[0])}, whose label is unknown (-1). "
                f"Leave it out of the {part} mask."
            )


def build_run(
    trainer: Trainer, prepared: Prepared, source: TrainingData, splits: Splits, restarts: int, test: bool
) -> Run:
    """Test once with the kept weights, choose among restarts on validation, and collect everything."""
    state, members, shape = trainer.state, trainer.members, prepared.shape
    best = {name: w.to(trainer.device) for name, w in state.group("best").items()}
    scores: list[float | None] = [None] * len(members)
    confusion = None
    if test:
        split_of_member = torch.tensor([member.split for member in members])
        found, confusion = evaluate_test(
            shape, best, prepared.batches, source.labels, splits, split_of_member, source.info.metric
        )
        scores = found.tolist()
    origin: dict[str, Any] = rows.provenance(trainer.device)
    results = _results(trainer, scores, source, splits, origin)
    mark_chosen(results, restarts, len(splits))
    info = RunInfo(
        graph=source.name, metric=source.info.metric, scheme=splits.scheme, warnings=list(splits.warnings),
        hop_scale=prepared.hop_scale, scaling=prepared.scaling, **source.describe(), **origin,
    )  # fmt: skip
    curves = {name: curve[: state.epoch].cpu().numpy() for name, curve in state.group("curve").items()}
    weights = {name: w.cpu().float() for name, w in best.items()}
    run = Run(members, shape, weights, curves, results, info)
    if confusion is not None:
        info.confusion = confusion[run.chosen].sum(0).tolist()
    return run


def _results(
    trainer: Trainer, scores: Sequence[float | None], source: TrainingData, splits: Splits, origin: dict[str, Any]
) -> list[Result]:
    failed, epoch, best = (trainer.state[name].tolist() for name in ("failed_epoch", "best_epoch", "best_score"))
    results = []
    for i, member in enumerate(trainer.members):
        is_lost = epoch[i] < 0
        results.append(
            Result(
                graph=source.name,
                settings=member.recipe.to_dict(),
                split=member.split,
                split_seed=splits.seeds[member.split] if member.split < len(splits.seeds) else None,
                scheme=splits.scheme,
                seed=member.seed,
                metric=source.info.metric,
                test=None if is_lost else scores[i],
                validation=None if is_lost else best[i],
                epoch=epoch[i],
                failed=f"loss was not finite in epoch {int(failed[i])}" if failed[i] >= 0 else None,
                **origin,
            )
        )
    return results


def mark_chosen(results: Sequence[Result], restarts: int, splits: int) -> None:
    """Of the restarts of one split, the first that is best on validation counts; validation nodes alone decide."""
    for start in range(0, len(results), restarts * splits):
        for s in range(splits):
            group = results[start + s : start + restarts * splits : splits]
            scores = [-1.0 if result.validation is None else result.validation for result in group]
            for i, result in enumerate(group):
                result.chosen = i == scores.index(max(scores))


@contextmanager
def _journal(folder: Path | None, resume: bool) -> Iterator[Journal | None]:
    """The journal of the run folder, which is locked from now on; None without a folder."""
    if folder is None:
        yield None
        return
    with Journal(folder, command="fit", resume=resume) as journal:
        yield journal


def _request(
    source: TrainingData, recipes: Sequence[Recipe], splits: Splits, members: list[Member], options: BatchOptions
) -> dict[str, Any]:
    """What was asked for, in words: the message about another run in the folder names what differs."""
    request = {"graph": source.name, "scheme": splits.scheme, "splits": len(splits), "trainings": len(members)}
    request |= {"batch_size": options.batch_size, "processes": options.group.size}
    shared = recipes[0].to_dict()
    return request | {name: value for name, value in shared.items() if name != "stages"}


def _checkpointer(journal: Journal | None, key: str, prepared: Prepared, trainer: Trainer) -> list[Checkpointer]:
    """The callback that writes checkpoints, after restoring the last one; none without a folder."""
    if journal is None:
        return []
    steps = "".join(f" {name}={value}" for name, value in prepared.steps.items())
    checkpointer = Checkpointer(journal.folder, key + steps, trainer)
    if journal.is_new:
        checkpointer.remove()  # of an earlier training that this one replaces
    else:
        checkpointer.restore()
    return [checkpointer]
