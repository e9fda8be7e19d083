"""Train a method on a graph or a basis folder: all splits as one batch.

A call goes through `data.open_data` -> recipes and splits -> members -> `TrainingData.prepare` (computes the terms
once) -> `loop.GradientDescent.run` -> `evaluation.evaluate_predictions` -> `run.Run`.
"""

import inspect
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from adaptkry.common import checks, rows
from adaptkry.common.files import checked_path
from adaptkry.common.journal import Journal
from adaptkry.common.lookup import pick, shortened
from adaptkry.graphs.splits import Splits, absent_classes
from adaptkry.models.recipe import Recipe, check_names
from adaptkry.training.calibration import Calibration, calibrate, gathered, some_nodes
from adaptkry.training.checkpoint import CHECKPOINT, Checkpointer
from adaptkry.training.data import (
    BatchOptions,
    GraphData,
    PreparedTraining,
    TrainingData,
    check_trainable,
    open_data,
    recipes_for,
    training_key,
    training_labels,
    training_masks,
    with_metrics,
)
from adaptkry.training.ensemble import Ensemble, combine_runs, mean_shares
from adaptkry.training.evaluation import evaluate_predictions
from adaptkry.training.logistic import LogisticRegression
from adaptkry.training.loop import Callback, GradientDescent
from adaptkry.training.losses import MemberLogits
from adaptkry.training.metrics import check_metrics
from adaptkry.training.process_group import ProcessGroup, is_restarted, joined_group, process_count, process_device
from adaptkry.training.results import make_results, mark_chosen
from adaptkry.training.run import Run, RunInfo
from adaptkry.training.run_folder import load_run, run_digest, write_ensemble, write_run
from adaptkry.training.state import Member
from adaptkry.training.tasks import fixed_statistics, predictions

Trainer = GradientDescent | LogisticRegression

MAX_SEED = 10**6


@overload
def fit(
    data: Any,
    method: str | Recipe | Sequence[Recipe] = "adaptkry",
    splits: Splits | str | None = None,
    *,
    combine: Literal["mean"],
    **options: Any,
) -> Ensemble: ...


@overload
def fit(
    data: Any,
    method: str | Recipe | Sequence[Recipe] = "adaptkry",
    splits: Splits | str | None = None,
    *,
    combine: Literal["best"] = "best",
    **options: Any,
) -> Run: ...


@overload
def fit(
    data: Any,
    method: str | Recipe | Sequence[Recipe] = "adaptkry",
    splits: Splits | str | None = None,
    *,
    combine: str,
    **options: Any,
) -> Run | Ensemble: ...


def fit(
    data: Any,
    method: str | Recipe | Sequence[Recipe] = "adaptkry",
    splits: Splits | str | None = None,
    *,
    count: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    restarts: int = 1,
    combine: str = "best",
    task: str | None = None,
    metrics: str | Sequence[str] | None = None,
    predict: bool | None = False,
    device: str | torch.device = "auto",
    batch_size: int | None = None,
    memory: str | int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    test: bool = True,
    callbacks: Iterable[Callback] = (),
    **settings,
) -> Run | Ensemble:
    """Train a method on many splits as one batch.

    Settings are those published for the graph, or suggested ones that fit it (see `suggest`).

    Args:
        data: a `Graph`, a name such as "cora", a path or a list of paths, a PyG `Data`, a NetworkX graph, a
            `BasisFolder` or its path.
        method: the name of a method, a recipe, or a list of recipes that share basis and layers.
        splits: `Splits`, or the name of a scheme. None: class_balanced for the paper's six graphs, for others
            fixed if they have such splits, else stratified.
        count: number of splits of the scheme. None: five stratified ones if no scheme is named, otherwise ten, or all
            fixed ones.
        seed: decides initial weights and dropout; splits do not depend on it.
        seeds: number of trainings per split; all of them are reported.
        restarts: number of trainings per split and seed; see `combine`.
        combine: "best" chooses the best of the restarts on validation nodes. "mean" averages the probabilities of all
            trainings of a split, and returns an `Ensemble`. Other values are those of the setting of this name.
        task: "classification", "multilabel" (labels [n, c] of 0 and 1) or "regression" (targets [n] or [n, t]); None is
            the task of the graph, which is classification unless it was loaded for another one.
        metrics: names such as ["macro_f1", "accuracy"]: the first chooses epochs, restarts and settings on validation
            nodes, all are reported. None: the metric of the graph, which is accuracy unless its `info` has another one;
            micro_f1 for several labels and r2 for targets.
        predict: whether to keep the class probabilities of all nodes, in `Run.predicted`; not for basis folders. None:
            only if they are known from the test of the run, so that they take no time.
        device: "auto", "cpu" or "cuda".
        batch_size: rows per step. None: all rows, or as many as fit if the basis does not fit on the device; 8192 for a
            basis folder.
        memory: for a graph, the most memory to use (default: what is available). Basis folders up to this size are
            held in memory (default: "1GiB"); the results are the same.
        out: run folder, which also holds checkpoints during training.
        resume: continue from the checkpoint in `out`, or load the run if it is finished.
        test: whether to evaluate on test nodes; if False, results have None for `test`.
        callbacks: called with the training state every few epochs; a callback that returns True ends the training.
        settings: settings that replace those of the recipe, such as `degree=4`.

    Under torchrun, every process trains on its share of a basis folder, and gradients are averaged.

    >>> import adaptkry as ak
    >>> run = ak.fit(ak.csbm(nodes=200, seed=0), "adaptkry", "stratified", count=2, epochs=10, device="cpu")
    >>> len(run.results)
    2
    """
    # Refuse bad input before anything is computed or written.
    check_names(settings, inspect.signature(fit).parameters)
    for name, value in (("count", count), ("seeds", seeds), ("restarts", restarts), ("batch_size", batch_size)):
        checks.positive_count(1 if value is None and name in ("count", "batch_size") else value, name)
    seed = checks.count(seed, "seed", MAX_SEED)
    predict, test = None if predict is None else checks.flag(predict, "predict"), checks.flag(test, "test")
    callbacks = checked_callbacks(callbacks)
    check_resume(resume, out)
    pick(dict.fromkeys(("best", "mean")), combine, "way to combine trainings")
    out = None if out is None else checked_path(out, "the output folder")
    is_mean = combine == "mean"
    source = with_metrics(open_data(data, task=task), metrics)
    if (is_mean or predict) and not isinstance(source, GraphData):
        raise TypeError(
            f"predict=True and combine='mean' need a graph in memory; got the basis folder of {source.name}. Leave "
            "them out."
        )
    splits = resolve_splits(source, splits, count, test=test)
    recipes = recipes_for(source, method, splits, settings)
    check_trainable(source)
    check_metrics(source.metrics, source.truth, splits, test=test)
    shared, basis_mix = common_recipe(recipes)
    device = process_device(choose_device(device))
    trainings = len(recipes) * len(splits) * seeds * restarts
    asked = BatchOptions(device, batch_size, memory, ProcessGroup(size=process_count()))
    source.check_options(shared, asked)
    rows = int(max(splits.train.sum(1).max(), splits.validation.sum(1).max()))
    fitting = source.batch_size(shared, trainings, rows, asked)
    members = make_members(recipes, splits, seeds * restarts, seed)
    with joined_group(device) as group:
        options = BatchOptions(device, batch_size, memory, group)
        if group.size > 1:
            group.check_same(source.digest(splits), "basis folder")
        folder = out if group.is_first else None  # the other processes write no files
        lock = Journal(folder, command="fit", resume=resume or is_restarted()) if folder else nullcontext()
        with lock as journal:
            key = ""
            if journal:  # only then, because the digest reads all data
                decisive = [batch_size, group.size, restarts, test, source.metrics, *([combine] if is_mean else [])]
                key = training_key(members, data=source.digest(splits), options=decisive)
                others = {"seed": seed, "combine": combine, "test": test, "metrics": list(source.metrics)}
                journal.open(key, _request(source, recipes, splits, members, options) | others)
            if group.broadcast(journal is not None and "run" in journal.done):
                assert out is not None
                return finished_run(out, journal)  # it was finished before
            prepared = source.prepare(shared, members, splits, replace(options, batch_size=fitting))
            trainer = make_trainer(prepared, members, source, splits, basis_mix)
            checkpointers = [_restored_checkpointer(journal, key, prepared, trainer)] if journal else []
            trainer.run([*checkpointers, *callbacks])
            run = build_run(trainer, prepared, source, splits, restarts, test and not is_mean, is_mean or predict)
            if is_mean:
                run = combine_runs([run], mean_shares([run], len(splits)), source, splits, combine=combine, test=test)
            if journal:
                write = write_ensemble if isinstance(run, Ensemble) else write_run
                write(run, journal.folder)  # type: ignore[arg-type]
                journal.add("run", {"sha256": run_digest(journal.folder)})
                checkpointers[0].remove()
    return run


def finished_run(folder: Path, journal: Journal | None) -> Run | Ensemble:
    """Load the run that the journal of a folder has recorded; the other processes have no journal."""
    if journal is not None and journal.done["run"].get("sha256") != run_digest(folder):
        raise ValueError(
            f"{folder} must hold the run that its journal has recorded; run.json is missing or of another run. Restore "
            "it, or train again without --resume."
        )
    if journal is not None:
        (folder / CHECKPOINT).unlink(missing_ok=True)  # left by a kill after the run was recorded
    return load_run(folder)


def make_members(recipes: Sequence[Recipe], splits: Splits, seeds: int, first: int = 0) -> list[Member]:
    """Combine every recipe with every seed, from `first` on, and every split."""
    return [
        Member(split, 1000 * seed + split, recipe)
        for recipe in recipes
        for seed in range(first, first + seeds)
        for split in range(len(splits))
    ]


def common_recipe(recipes: Sequence[Recipe]) -> tuple[Recipe, Tensor | None]:
    """Return a recipe with the basis and layers that all recipes share; raise an error if they do not share them.

    Tied taus may differ. The basis then has every tau that some recipe uses, and the second value is the share of each
    tau in the basis of each recipe: [recipes, taus].
    """
    first = recipes[0]
    may_differ = first.per_member | ({"taus"} if first.mixes_taus else set())
    for other in recipes[1:]:
        for name in (field.name for field in fields(Recipe) if field.name not in may_differ):
            value, other_value = getattr(first, name), getattr(other, name)
            if value != other_value:
                raise ValueError(
                    f"recipes trained together must agree in {name}; got {value!r} and {other_value!r}. "
                    "Call fit once for each."
                )
    if len({recipe.taus for recipe in recipes}) == 1:
        return first, None
    taus = sorted({tau for recipe in recipes for tau in recipe.taus})
    mix = torch.tensor([[recipe.taus.count(tau) / len(recipe.taus) for tau in taus] for recipe in recipes])
    return replace(first, taus=tuple(taus), tied=False), mix


def make_trainer(
    prepared: PreparedTraining, members: list[Member], source: TrainingData, splits: Splits, basis_mix: Tensor | None
) -> Trainer:
    """Return the exact solver or the gradient descent that trains these members."""
    shape, batches, metric = prepared.shape, prepared.batches, source.info.metric
    if shape.recipe.is_exact:
        masks = training_masks(splits)
        return LogisticRegression(shape, batches, members, labels=source.labels, masks=masks, metric=metric)  # type: ignore[arg-type]
    mix = None if basis_mix is None else basis_mix.repeat_interleave(len(members) // len(basis_mix), 0)
    labels = training_labels(source.labels, splits, members) if shape.recipe.similar_nodes else None
    fixed = fixed_statistics(members, source.truth, splits, source.info.class_names)
    fixed |= {name: t for name, t in (("basis_mix", mix), ("labels", labels)) if t is not None}
    return GradientDescent(shape, batches, members, metric=metric, fixed=fixed)


def choose_device(name: str | torch.device) -> torch.device:
    """Return the device of that name; "auto" is a GPU if there is one."""
    name = str(name)
    found = re.fullmatch(r"auto|cpu|cpu:0|cuda|cuda:(\d{1,3})", name, re.ASCII)
    if not found:
        raise ValueError(
            f"the device must be auto, cpu or cuda, or a GPU such as cuda:0; got {shortened(name)}. Use auto for a GPU "
            "if there is one."
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"the device {name!r} needs a CUDA GPU; torch finds none. Use the device cpu or auto.")
    if found[1] and int(found[1]) >= torch.cuda.device_count():
        raise ValueError(
            f"the device must be one of the {torch.cuda.device_count()} GPUs, from cuda:0 on; got {name}. Use auto."
        )
    return torch.device(name)


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """Return callbacks as a list; refuse what cannot be called."""
    if callable(callbacks) or not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of functions; got {shortened(callbacks)}. Put it in a list.")
    callbacks = list(callbacks)
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks must be functions of the training state; got {shortened(callback)}.")
    return callbacks


def check_resume(resume: bool, out: Path | str | None) -> None:
    """Refuse to resume without a folder to resume from."""
    if checks.flag(resume, "resume") and out is None:
        raise ValueError("resume needs the folder of the interrupted call; got none. Use out=..., or leave resume out.")


def resolve_splits(
    source: TrainingData, splits: Splits | str | None, count: int | None = None, *, test: bool = True
) -> Splits:
    """Return `splits`, or the splits of the scheme of that name, checked against the labels."""
    found = splits if isinstance(splits, Splits) else source.splits(splits, count)
    check_splits(found, source.labels, test)
    if found.scheme == "masks" and not found.warnings and source.task == "classification":
        absent = absent_classes(found, source.labels, source.info.class_names)
        found = replace(found, warnings=tuple(text for text in absent if test or not text.startswith("test ")))
    if isinstance(splits, Splits) and count not in (None, len(splits)):
        raise ValueError(f"count is for a scheme of splits; got {count} and {len(splits)} splits. Use splits.take.")
    return found


def check_splits(splits: Splits, labels: Tensor, test: bool) -> None:
    """Refuse splits of another graph, and splits with nodes whose label is unknown."""
    if splits.train.shape[1] != len(labels):
        raise ValueError(
            f"splits must cover all {len(labels)} rows; got splits of {splits.train.shape[1]}. Draw new splits."
        )
    for part in ("train", "validation", "test") if test else ("train", "validation"):
        unknown = getattr(splits, part).any(0) & (labels < 0)  # [n]
        if unknown.any():
            raise ValueError(
                f"{part} nodes must have labels; got node {int(unknown.nonzero()[0])}, whose label is unknown (-1). "
                f"Leave it out of the {part} mask."
            )


def build_run(
    trainer: Trainer,
    prepared: PreparedTraining,
    source: TrainingData,
    splits: Splits,
    restarts: int,
    test: bool,
    predict: bool | None,
) -> Run:
    """Evaluate the best weights on test nodes, choose among restarts on validation, and collect everything."""
    state, members, shape = trainer.state, trainer.members, prepared.shape
    best = {name: w.to(trainer.device) for name, w in state.group("best").items()}
    metric, confusion = source.info.metric, None
    validation_scores, test_scores = {}, {}
    split_of_member = torch.tensor([member.split for member in members])
    outputs = MemberLogits(shape, best, prepared.batches, len(source.labels))

    def evaluated(masks: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        return evaluate_predictions(outputs, source.truth, masks, split_of_member, source.metrics)

    is_refitted = shape.recipe.is_exact  # on validation nodes too
    if len(source.metrics) > 1 and not is_refitted:
        validation_scores = evaluated(splits.validation)[0]
    if test:
        test_scores, confusion = evaluated(splits.test)
    provenance: dict[str, Any] = rows.provenance(trainer.device)
    origin: dict[str, Any] = rows.origin()
    results = make_results(state, members, validation_scores, test_scores, splits, source.name, metric, provenance)
    mark_chosen(results, restarts, len(splits))
    info = RunInfo(
        graph=source.name, metric=metric, metrics=list(source.metrics), scheme=splits.scheme,
        warnings=list(splits.warnings), hop_scale=prepared.hop_scale, scaling=prepared.scaling,
        **source.describe(), **provenance, **origin,
    )  # fmt: skip
    curves = {name: curve[: state.epoch].cpu().numpy() for name, curve in state.group("curve").items()}
    weights = {name: w.cpu().float() for name, w in best.items()}
    run = Run(members, shape, weights, curves, results, info, saved_inputs=prepared.saved_inputs)
    if predict or (predict is None and outputs.kept is not None):
        run.predicted = predict_all(outputs)
    if confusion is not None:
        info.confusion = confusion[run.chosen].sum(0).tolist()
    if test and run.chosen and source.task == "classification":
        run.calibration = calibrated(run, outputs, source.labels, splits)
    return run


def calibrated(run: Run, outputs: MemberLogits, labels: Tensor, splits: Splits) -> Calibration:
    """Calibrate the chosen members on their validation nodes, and measure that on their test nodes."""
    chosen = run.chosen
    of_model = [run.members[i].split for i in chosen]
    masks = torch.cat([some_nodes(mask[of_model]) for mask in (splits.validation, splits.test)])  # bool [2 v, n]
    found = gathered(outputs.chunks(masks.any(0), members=chosen), masks, labels)
    return calibrate(found[: len(chosen)], found[len(chosen) :])


def predict_all(outputs: MemberLogits) -> Tensor:
    """Predict the probabilities or values of all nodes with every member: [b, n, c], on the CPU."""
    parts = [logits for logits, _ in outputs.chunks(None)]
    return predictions(outputs.shape.recipe.task, torch.cat(parts, 1).float(), outputs.weights)


def _request(
    source: TrainingData, recipes: Sequence[Recipe], splits: Splits, members: list[Member], options: BatchOptions
) -> dict[str, Any]:
    """Return the request by name, so that the error about another run in the folder can say what differs."""
    request = {"graph": source.name, "scheme": splits.scheme, "splits": len(splits), "trainings": len(members)}
    request |= {"batch_size": options.batch_size, "processes": options.group.size}
    return request | {name: value for name, value in recipes[0].to_dict().items() if name != "stages"}


def _restored_checkpointer(journal: Journal, key: str, prepared: PreparedTraining, trainer: Trainer) -> Checkpointer:
    """Return the callback that writes checkpoints, after restoring the last one."""
    batching = "".join(f" {name}={value}" for name, value in prepared.batching.items())
    checkpointer = Checkpointer(journal.folder, key + batching, trainer)
    if journal.is_new:
        checkpointer.remove()  # one of an earlier training, which this one replaces
    else:
        checkpointer.restore()
    return checkpointer
