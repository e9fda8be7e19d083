"""Training data with one interface: a graph in memory, or a basis folder."""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.choices import METRICS, TASKS
from adaptkry.common.files import digest_of
from adaptkry.common.lookup import pick, shortened
from adaptkry.common.memory import check_memory, parse_bytes
from adaptkry.graphs import splits as schemes
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.load import NAMES, load
from adaptkry.graphs.splits import Splits
from adaptkry.models.inputs import SavedInputs, column_count, model_inputs
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, check_names, given_settings, recipe
from adaptkry.models.stages import ModelShape
from adaptkry.models.suggest import INPUT_SETTINGS, suggest
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.outofcore.manifest import is_kind
from adaptkry.spectral.kernels import triton_kernels
from adaptkry.training.batches import (
    DEFAULT_BATCH_SIZE,
    SLAB_BYTES,
    Batches,
    FolderTerms,
    FullBatch,
    InMemoryTerms,
    SlabBatches,
    SlabPlan,
    aligned_columns,
)
from adaptkry.training.folder_recipe import folder_recipe, stored_terms
from adaptkry.training.memory_estimate import Workload, batch_size_that_fits, graph_workload
from adaptkry.training.metrics import metric_names, pick_metric
from adaptkry.training.process_group import SINGLE_PROCESS, ProcessGroup, share_of_machine
from adaptkry.training.state import Member
from adaptkry.training.tasks import class_weights

FOLDER_MEMORY = "1GiB"  # a basis folder up to this size is held in memory, or its validation rows


@dataclass(frozen=True)
class BatchOptions:
    """The options of `fit` that decide how rows are divided into batches."""

    device: torch.device
    batch_size: int | None = None  # rows per step
    memory: str | int | None = (
        None  # limit for a graph; basis folders up to this size, or their validation rows, are held
    )
    group: ProcessGroup = SINGLE_PROCESS


@dataclass(frozen=True)
class PreparedTraining:
    """The shape of a model, its batches, and how the terms were scaled."""

    shape: ModelShape
    batches: Batches
    batching: dict[str, Any]  # what decides the batches; part of a checkpoint's key
    hop_scale: list[float]  # [T]
    scaling: list[list[float]] | None = None  # mean and standard deviation [2, d] of feature columns
    saved_inputs: SavedInputs = field(default_factory=dict)


class TrainingData(Protocol):
    """What `fit` needs from its data."""

    info: Info
    labels: Tensor  # class of each row [n], or 0 for other tasks than classification; -1 if unknown
    truth: Tensor  # what is learned: classes [n], labels [n, c] or targets [n, t]; any value where unknown
    outputs: int  # number of classes, labels or targets
    task: str
    metrics: tuple[str, ...]  # the first, which is that of `info`, chooses epochs and settings; all are reported

    @property
    def name(self) -> str:
        """The name of the data in results."""
        ...

    def recipe(self, method: str, train: Tensor | None = None, **settings) -> Recipe:
        """Return the recipe of a method for these data, updated by `settings`.

        Args:
            method: name of the method.
            train: mask [n] of the training nodes, whose labels may decide settings; by default all known labels.
            settings: settings that replace those of the recipe.
        """
        ...

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse a recipe that cannot be trained on these data."""
        ...

    def check_options(self, recipe: Recipe, options: BatchOptions) -> None:
        """Refuse options that have no effect on these data."""
        ...

    def batch_size(self, recipe: Recipe, members: int, rows: int, options: BatchOptions) -> int | None:
        """Return rows per step that fit in memory; None for all. What cannot fit is refused.

        Args:
            recipe: the recipe that all members share.
            members: number of trainings.
            rows: most training or validation nodes of a member.
            options: with the batch size of the user, if there is one.
        """
        ...

    def splits(self, scheme: str | None = None, count: int | None = None) -> Splits:
        """Return the splits of a scheme; None is the default of `graphs.splits.make`."""
        ...

    def columns(self, recipe: Recipe) -> int:
        """Return the number of input columns of a recipe."""
        ...

    def digest(self, splits: Splits) -> str:
        """Return a checksum of the data and the splits."""
        ...

    def data_digest(self) -> str:
        """Return a checksum of the data alone."""
        ...

    def prepare(
        self, recipe: Recipe, members: Sequence[Member], splits: Splits, options: BatchOptions
    ) -> PreparedTraining:
        """Compute or open the terms of the recipe."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the fields of `RunInfo` that describe the data."""
        ...


Data = TypeVar("Data", bound=TrainingData)


class GraphData:
    """A graph in memory. Published settings are for benchmarks (`Info.known_as`), whatever the name of a graph."""

    def __init__(self, graph: Graph):
        self.graph, self.info, self.labels, self.task = graph, graph.info, graph.known, graph.task
        self.truth = graph.y if graph.targets is None else graph.targets.nan_to_num()
        self.outputs = graph.outputs
        if self.task != "classification":
            self.info = replace(graph.info, metric=METRICS[self.task][0])
        self.metrics = (self.info.metric,)
        self._hash: Any = None  # SHA-256 of the graph, once it was needed

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.info.name

    def has_published(self, method: str) -> bool:
        """Return whether settings of the method are published for this graph."""
        return self.info.known_as in pick(METHODS, method, "method").published

    def has_suggested(self, method: str) -> bool:
        """Return whether settings are suggested: none are published, and it is not one of the paper's six graphs."""
        return not self.has_published(method) and self.info.known_as not in schemes.PAPER_GRAPHS

    def recipe(self, method: str, train: Tensor | None = None, **settings) -> Recipe:
        """Return the settings published for this graph, or those suggested for it, updated by `settings`."""
        if self.task != "classification":
            settings = {"task": self.task} | settings
        if self.has_suggested(method):
            return suggest(self.graph, method, train, **settings)
        return recipe(method, self.info.known_as, **settings)

    def input_settings(self, recipe: Recipe) -> dict[str, Any]:
        """Return how the recipe scales and reduces features, if that was suggested: searches keep these settings."""
        names = INPUT_SETTINGS if self.has_suggested(recipe.method) else ()
        return {name: getattr(recipe, name) for name in names}

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse directions that have no effect, more structure columns than nodes, and no columns at all.

        The task must be that of the graph, and weights must be of its classes.
        """
        check_task(recipe, self)
        if not self.graph.is_directed and set(recipe.directions) - {"both"}:
            raise ValueError(
                f"{self.name} is undirected, so directions must be both; got {', '.join(recipe.directions)}. "
                "Use --directed to keep the direction of edges in your files (directed=True in Python)."
            )
        if self.graph.features is None and not recipe.structure:
            raise ValueError(
                f"features are needed here; {self.name} has no features. Add columns of numbers to its nodes file, or "
                "use structure=64 to compute columns from its edges."
            )
        x = self.graph.features
        if x is not None and recipe.reduce > min(x.shape):
            raise ValueError(
                f"reduce must be at most the number of feature columns, {x.shape[1]}, and of nodes, {x.shape[0]}; got "
                f"{recipe.reduce}. Use less, or reduce=none."
            )
        if recipe.structure > self.graph.nodes:
            raise ValueError(
                f"structure must be at most the number of nodes, {self.graph.nodes}; got {recipe.structure}. Use less."
            )

    def check_options(self, recipe: Recipe, options: BatchOptions) -> None:
        """Refuse several processes, which need a basis folder, and bfloat16 where kernels cannot compute with it."""
        device = torch.device(options.device)
        if recipe.dtype == "bfloat16" and (device.type != "cuda" or options.batch_size or not triton_kernels()):
            given = f"batch_size {options.batch_size}" if device.type == "cuda" and options.batch_size else str(device)
            raise ValueError(
                f"dtype bfloat16 needs a CUDA GPU with Triton, and all rows in one batch; got {given}. Use float32."
            )
        if options.group.size > 1:
            raise ValueError(
                f"several processes can train on basis folders only; got {options.group.size} processes for the graph "
                f"{self.name}. Start one process, or write its basis with `adaptkry propagate` first."
            )

    def batch_size(self, recipe: Recipe, members: int, rows: int, options: BatchOptions) -> int | None:
        """Return rows per step that fit in memory; None for all. What cannot fit is refused."""
        work = graph_workload(self.graph, recipe, members, rows, options.device, options.batch_size)
        limit = float("inf") if options.memory is None else parse_bytes(options.memory)
        return batch_size_that_fits(work, options.device, limit)

    def splits(self, scheme: str | None = None, count: int | None = None) -> Splits:
        """Return splits of the nodes."""
        return schemes.make(self.graph, _checked_scheme(scheme), count)

    def columns(self, recipe: Recipe) -> int:
        """Return the number of features, of which some may be reduced, and of structure columns."""
        return column_count(self.graph, recipe)

    def digest(self, splits: Splits) -> str:
        """Return the SHA-256 of edges, labels, features and masks."""
        self.data_digest()
        return tensor_hash([splits.train, splits.validation, splits.test], self._hash.copy()).hexdigest()

    def data_digest(self) -> str:
        """Return the SHA-256 of edges, labels and features; it is computed once."""
        graph = self.graph
        if self._hash is None:
            x = graph.features
            if sp.issparse(x):  # as it is: a dense copy could exceed the memory
                parts: list[Tensor | None] = [torch.from_numpy(part) for part in (x.indptr, x.indices, x.data)]
            else:
                parts = [None if x is None else graph.x]
            parts += [] if graph.targets is None else [graph.targets]
            self._hash = tensor_hash([graph.indptr, graph.indices, graph.weights, graph.y, *parts])
        return self._hash.hexdigest()

    def prepare(
        self, recipe: Recipe, members: Sequence[Member], splits: Splits, options: BatchOptions
    ) -> PreparedTraining:
        """Compute the terms, for full batches or, with a batch size, for mini-batches of terms on the CPU."""
        device, batch_size = options.device, options.batch_size
        if batch_size and recipe.needs_all_nodes:
            off = {"structure_layer": "false", "similar_nodes": "0"}
            used = next((name for name in off if getattr(recipe, name)), None)
            uses, remedy = (f" with {used}", f", or set {used} to {off[used]}") if used else ("", "")
            raise ValueError(
                f"{recipe.method}{uses} needs all nodes at once, so batch_size must be None; got {batch_size}. "
                f"Leave it out{remedy}."
            )
        if batch_size and recipe.dtype == "bfloat16":
            raise ValueError("dtype bfloat16 needs all rows in one batch; they do not fit in memory. Use float32.")
        inputs = model_inputs(self.graph, recipe, "cpu" if batch_size else device)
        nodes = self.graph.nodes if recipe.structure_layer else 0
        shape = ModelShape(recipe, len(inputs.terms), inputs.terms.shape[2], self.outputs, nodes)
        data = (self.truth, training_masks(splits), torch.tensor([member.split for member in members]), device)
        if batch_size:
            plan = SlabPlan(self.labels >= 0, 1, batch_size)
            batches: Batches = SlabBatches(InMemoryTerms(inputs.terms), plan, *data)
        else:
            is_padded = torch.device(device).type == "cuda" and triton_kernels() and recipe.reads_padded_columns
            terms = aligned_columns(inputs.terms) if is_padded else inputs.terms
            terms = terms.bfloat16() if recipe.dtype == "bfloat16" else terms
            batches = FullBatch(terms, *data, inputs.operator, propagates_features=recipe.propagates)
        scaling = None if inputs.scaling is None else [part.tolist() for part in inputs.scaling]
        batching, hop_scale = {"batch_size": batch_size}, inputs.hop_scale.tolist()
        return PreparedTraining(shape, batches, batching, hop_scale, scaling, inputs.saved)

    def describe(self) -> dict[str, Any]:
        """Return names and sizes."""
        classes, features = self.info.class_names, self.info.feature_names
        return {
            "known_as": self.info.known_as,
            "data_digest": None if self._hash is None else self._hash.hexdigest(),
            "class_names": None if classes is None else list(classes),
            "feature_names": None if features is None else list(features),
            "nodes": self.graph.nodes,
            "entries": self.graph.entries,
            "features": 0 if self.graph.features is None else self.graph.features.shape[1],
            "layout": None if self.info.layout is None else self.info.layout.to_dict(),
        }


class FolderData:
    """A basis folder, read slab by slab, so that memory hardly grows with the number of nodes.

    Besides a few slabs, memory holds the number, the class and three bytes per split of every stored row.
    """

    def __init__(self, folder: BasisFolder):
        self.folder = folder
        self.info, self.labels = Info(folder.name, folder.metric, None, folder.class_names), folder.labels
        self.truth, self.outputs, self.task = folder.labels, folder.classes, "classification"
        self.metrics = (folder.metric,)

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.folder.name

    def recipe(self, method: str, train: Tensor | None = None, **settings) -> Recipe:  # noqa: ARG002  as for graphs
        """Return the method's settings with the folder's taus, directions and degree, updated by `settings`."""
        return folder_recipe(self.folder, method, **settings)

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse a recipe whose terms the folder does not hold."""
        check_task(recipe, self)
        stored_terms(self.folder, recipe)

    def check_options(self, recipe: Recipe, options: BatchOptions) -> None:  # noqa: ARG002  as for graphs
        """Refuse bfloat16, which is for graphs in memory: a basis folder has a type of its own."""
        if recipe.dtype == "bfloat16":
            raise ValueError(
                f"dtype bfloat16 is for graphs in memory; got the basis folder of {self.name}. Store its basis as "
                "bfloat16: adaptkry propagate --dtype bfloat16."
            )

    def batch_size(self, recipe: Recipe, members: int, rows: int, options: BatchOptions) -> int | None:
        """Return the batch size of the options, if weights and a step fit in memory; slabs are small."""
        batch_size, columns = options.batch_size or DEFAULT_BATCH_SIZE, self.folder.features
        shape = ModelShape(recipe, recipe.term_count, columns, self.folder.classes)
        means = stored_terms(self.folder, recipe)
        stored = len({number for mean in means for number in mean}) if options.device.type == "cuda" else len(means)
        slabs = (1 + 2 * stored / len(means)) * SLAB_BYTES  # a GPU receives the terms as stored, and arranges them
        work = Workload(
            shape, members, self.folder.count, 0, rows, slabs, slabs, batch_size=batch_size, device=options.device.type
        )
        batch_size_that_fits(work, options.device)
        return options.batch_size

    def splits(self, scheme: str | None = None, count: int | None = None) -> Splits:
        """Return splits of the stored rows."""
        graph: Any = _LabelsOnly(self.labels, self.info)
        return schemes.make(graph, _checked_scheme(scheme), count)

    def columns(self, recipe: Recipe) -> int:  # noqa: ARG002  as for graphs
        """Return the number of stored columns."""
        return self.folder.features

    def digest(self, splits: Splits) -> str:
        """Return the folder's checksums and the SHA-256 of the masks."""
        masks = tensor_hash([splits.train, splits.validation, splits.test]).hexdigest()
        return masks + self.data_digest()

    def data_digest(self) -> str:
        """Return the SHA-256 of the folder's checksums, with the names of their files."""
        return digest_of(json.dumps(self.folder.manifest["xxh128"], sort_keys=True))

    def prepare(
        self, recipe: Recipe, members: Sequence[Member], splits: Splits, options: BatchOptions
    ) -> PreparedTraining:
        """Open the terms; a small folder is read into memory, with the same order of rows."""
        reader = BasisReader(self.folder, stored_terms(self.folder, recipe))
        processes = options.group.size
        plan = SlabPlan.for_rows(self.labels >= 0, reader.row_bytes, options.batch_size, processes)
        limit = parse_bytes(FOLDER_MEMORY if options.memory is None else options.memory)
        is_small = reader.row_bytes * self.folder.count <= limit
        if is_small:
            check_memory(reader.row_bytes * self.folder.count, "a basis folder that is loaded (see memory)")
        source = InMemoryTerms(reader.whole().to(options.device)) if is_small else FolderTerms(reader)
        shape = ModelShape(recipe, source.shape[0], self.folder.features, self.folder.classes)
        split_of_member = torch.tensor([member.split for member in members])
        batches = SlabBatches(
            source, plan, self.labels, training_masks(splits), split_of_member, options.device, options.group,
            shares_validation=pick_metric(self.info.metric).count is not None, kept_bytes=0 if is_small else limit,
        )  # fmt: skip
        batching = {"slabs": plan.slabs, "batch_size": plan.batch_size, "processes": processes}
        return PreparedTraining(shape, batches, batching, [1.0] * source.shape[0])

    def describe(self) -> dict[str, Any]:
        """Return the path of the folder and what it holds."""
        return {
            "class_names": self.folder.class_names,
            "feature_names": self.folder.feature_names,
            "nodes": self.folder.nodes,
            "entries": None,
            "features": self.folder.features,
            "basis_folder": str(self.folder.path.resolve()),
            "data_digest": self.data_digest(),
            "stored_rows": self.folder.count,
            "stored_dtype": self.folder.dtype,
        }


@dataclass(frozen=True)
class _LabelsOnly:
    """The part of a graph from which splits are drawn, without edges or features."""

    y: Tensor
    info: Info


def open_data(
    data: Any, layout: dict[str, Any] | None = None, *, task: str | None = None, **load_options
) -> TrainingData:
    """Open everything that `fit` accepts as training data.

    Args:
        data: a `Graph`, a name, a path or a list of paths or data frames, a PyG `Data`, a NetworkX graph, a
            `BasisFolder` or its path.
        layout: of a run, whose columns are encoded in tables as in its training.
        task: "classification", "multilabel" or "regression"; None is that of loaded data, otherwise classification.
        load_options: options of `load`, such as `root` and `directed`.
    """
    if task is not None:
        pick(dict.fromkeys(TASKS), task, "task")
    loaded = _as_loaded(data)
    if loaded is not None:
        if task not in (None, loaded.task):
            raise ValueError(
                f"{loaded.name} was loaded for the task {loaded.task}; got {task}. Load it with task={task!r}: "
                "Graph(..., task=...) or load(..., task=...)."
            )
        if load_options:
            raise ValueError(
                f"{', '.join(load_options)} can be set only while data are loaded; got {type(data).__name__}, which is "
                "loaded already. Leave it out."
            )
        return loaded
    paths = [data] if isinstance(data, str | Path) else data
    _check_names_of_graphs(paths)
    only = paths[0] if isinstance(paths, list | tuple) and len(paths) == 1 else None
    if isinstance(only, str | Path) and is_kind(only, "basis"):
        if task not in (None, "classification"):
            raise ValueError(f"basis folders hold classes; got the task {task} for {only}. Fit on the graph itself.")
        return open_data(open_basis_folder(only), **load_options)
    if isinstance(only, str | Path) and is_kind(only, "graph"):
        raise ValueError(
            f"a graph in memory or a basis folder is needed here; got the graph folder {only}. Write its "
            f"basis first: `adaptkry propagate {only} --taus 0.5,1 --degree 10 --out BASIS`, then `adaptkry fit BASIS`."
        )
    load_options |= {} if layout is None else {"layout": layout}
    load_options |= {} if task in (None, "classification") else {"task": task}
    return GraphData(load(data if only is None else only, **load_options))


def task_of_files(data: Any, task: str) -> str | None:
    """Return the task for which files are read, that of the run that predicts; None for loaded data of any task."""
    return None if _as_loaded(data) is not None else task


def check_task(recipe: Recipe, source: TrainingData) -> None:
    """Refuse a recipe of another task than that of the data, and weights of classes that the data do not have."""
    if recipe.task != source.task:
        what = {"classification": "classes", "multilabel": "labels", "regression": "targets"}[source.task]
        raise ValueError(
            f"{source.name} has {what}, so the task must be {source.task}; got {recipe.task}. Load the data with "
            f"task={recipe.task!r}, or leave the task out."
        )
    if recipe.class_weight:
        class_weights(recipe.class_weight, source.labels, source.labels >= 0, source.info.class_names)


def check_trainable(source: TrainingData) -> None:
    """Refuse data with fewer than two classes; for other tasks the splits need nodes with known labels or targets."""
    if source.task == "classification":
        checks.classes(source.labels, source.info.class_names)


def with_metrics(source: Data, metrics: str | Sequence[str] | None) -> Data:
    """Return the same data with other metrics; None keeps theirs.

    >>> with_metrics(open_data("csbm"), ["macro_f1", "accuracy"]).info.metric
    'macro_f1'
    """
    if metrics is None:
        return source
    other = copy.copy(source)
    other.metrics = metric_names(metrics, source.info.metric, source.task)
    other.info = replace(source.info, metric=other.metrics[0])
    return other


def open_graph(
    data: Any,
    purpose: str,
    layout: dict[str, Any] | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    task: str | None = None,
) -> GraphData:
    """Open a graph in memory; refuse a basis folder, which `purpose` (such as "tune") cannot use."""
    source = with_metrics(open_data(data, layout, task=task), metrics)
    if not isinstance(source, GraphData):
        raise TypeError(
            f"{purpose} needs a graph in memory; got the basis folder of {source.name}. Use the graph itself."
        )
    return source


def _checked_scheme(scheme: Any) -> str | None:
    """Return the name of a scheme, or None; a number is a frequent mistake for the number of splits."""
    if scheme is not None and not isinstance(scheme, str):
        hint = f"For {scheme} splits use count={scheme}." if isinstance(scheme, int) else "See adaptkry.from_masks."
        raise TypeError(f"splits must be Splits or the name of a scheme; got {shortened(scheme)}. {hint}")
    return scheme


def _check_names_of_graphs(paths: Any) -> None:
    """Refuse several names of graphs, which often is a list without commas; several paths are one graph."""
    if isinstance(paths, list | tuple) and len(paths) > 1:
        names = [path for path in paths if isinstance(path, str) and path.lower() in NAMES and not Path(path).exists()]
        if names:
            raise ValueError(
                f"data must be one name, or paths of the files of one graph; got {' '.join(map(str, paths))}, where "
                f"{names[0]} is a name. Give one graph, and separate lists by commas: --methods adaptkry,gcn."
            )


def _as_loaded(data: Any) -> TrainingData | None:
    """Return data that are loaded already as training data; None for everything else."""
    if isinstance(data, GraphData | FolderData):
        return data
    if isinstance(data, Graph):
        return GraphData(data)
    return FolderData(data) if isinstance(data, BasisFolder) else None


def open_basis_folder(path: Path | str) -> BasisFolder:
    """Open a basis folder and verify its checksums, since a damaged one would train without an error.

    The processes of one machine divide the files among them: machines may have different copies.
    """
    folder = BasisFolder.open(path)
    folder.verify(share_of_machine())
    return folder


def training_masks(splits: Splits) -> dict[str, Tensor]:
    """Return the masks that training may use, which exclude the test masks: bool [s, n] each."""
    return {"train": splits.train, "validation": splits.validation}


def training_labels(labels: Tensor, splits: Splits, members: Sequence[Member]) -> Tensor:
    """Return the labels that each member may use as inputs: those of its training nodes, and -1 elsewhere [b, n]."""
    return torch.where(splits.train[[member.split for member in members]], labels, -1)


def tensor_hash(tensors: Sequence[Tensor | None], digest: Any = None) -> Any:
    """Return the SHA-256 of several tensors, or `digest` updated by them."""
    digest = digest or hashlib.sha256()
    for tensor in tensors:
        digest.update(b"none" if tensor is None else tensor.contiguous().numpy().data)
    return digest


def training_key(members: Sequence[Member], **parts) -> str:
    """Return the SHA-256 of the members and of all other parts that must be the same when a training is resumed."""
    settings = [vars(member) | {"recipe": member.recipe.to_dict()} for member in members]
    return hashlib.sha256(json.dumps({"members": settings, **parts}, sort_keys=True).encode()).hexdigest()


def recipes_for(data: TrainingData, method: Any, splits: Splits, settings: dict[str, Any]) -> list[Recipe]:
    """Return the recipes for the name of a method, a recipe or a list of recipes, each updated by `settings`."""
    if isinstance(method, str):
        recipes = [data.recipe(method, splits.train[0], **settings)]
    else:
        given = list(method) if isinstance(method, Sequence) else [method]
        if not given or not all(isinstance(item, Recipe) for item in given):
            is_splits = isinstance(method, Splits)
            raise TypeError(
                f"method must be the name of a method, a Recipe or a list of recipes; got {shortened(method)}. "
                + ("Pass splits by name: splits=...." if is_splits else "Use for example 'adaptkry'.")
            )
        recipes = [replace(item, **given_settings(check_names(settings))) for item in given]
    for item in recipes:
        data.check_recipe(item)
    return recipes
