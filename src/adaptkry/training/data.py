"""Training data: a graph in memory or a basis folder, behind one interface.

`open_data` accepts everything that `fit` does: a `Graph`, a name, paths of files, a PyG `Data`, a NetworkX graph, a
`BasisFolder` or its path.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from adaptkry.graphs import splits as schemes
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.load import NAMES, load
from adaptkry.graphs.splits import Splits
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe, check_names, recipe
from adaptkry.models.stages import ModelShape
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.outofcore.manifest import is_kind
from adaptkry.outofcore.memory_plan import parse_bytes
from adaptkry.training.batches import Batches, FolderTerms, FullBatch, InMemoryTerms, SlabBatches, SlabPlan
from adaptkry.training.folder_recipe import folder_recipe, stored_terms
from adaptkry.training.process_group import SINGLE_PROCESS, ProcessGroup, process_rank
from adaptkry.training.state import Member

FOLDER_MEMORY = "1GiB"  # a basis folder up to this size is held in memory


@dataclass(frozen=True)
class BatchOptions:
    """How batches are made: what `fit` was asked for."""

    device: torch.device
    batch_size: int | None = None  # rows per step
    memory: str | int | None = None  # basis folders: held in memory up to this size
    group: ProcessGroup = SINGLE_PROCESS


@dataclass(frozen=True)
class Prepared:
    """A model's shape, its batches, and how the terms were scaled."""

    shape: ModelShape
    batches: Batches
    steps: dict[str, Any]  # what decides the batches: part of a checkpoint's key
    hop_scale: list[float]
    scaling: list[list[float]] | None = None


class TrainingData(Protocol):
    """What `fit` needs to know about its data."""

    info: Info
    labels: Tensor  # class of each row [n], -1 unknown

    @property
    def name(self) -> str:
        """What the data are called in results."""
        ...

    def recipe(self, method: str, **settings) -> Recipe:
        """A method's settings for these data."""
        ...

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse a recipe that these data cannot serve."""
        ...

    def check_options(self, options: BatchOptions) -> None:
        """Refuse options that have no effect on these data."""
        ...

    def splits(self, scheme: str | None = None, count: int | None = None) -> Splits:
        """Splits by the name of their scheme; the default is class_balanced."""
        ...

    def digest(self, splits: Splits) -> str:
        """One number for the data and the splits."""
        ...

    def prepare(self, recipe: Recipe, members: Sequence[Member], splits: Splits, options: BatchOptions) -> Prepared:
        """Compute or open what the recipe starts from."""
        ...

    def describe(self) -> dict[str, Any]:
        """Fields of `RunInfo` about the data."""
        ...


class GraphData:
    """A graph in memory. Feature columns of the user's own files are standardised unless a setting says otherwise."""

    def __init__(self, graph: Graph, *, is_own_file: bool = False):
        self.graph, self.is_own_file = graph, is_own_file
        self.info, self.labels = graph.info, graph.y

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.info.name

    def recipe(self, method: str, **settings) -> Recipe:
        """The method's settings, those published for this graph, then `settings`."""
        return recipe(method, self.name, **self.default_settings(settings), **settings)

    def default_settings(self, settings: Collection[str] = ()) -> dict[str, Any]:
        """Settings for the user's own files, whose columns may have any scale; not those in `settings`."""
        defaults = {"standardise": True, "normalise": False} if self.is_own_file else {}
        return {name: value for name, value in defaults.items() if name not in settings}

    def check_recipe(self, recipe: Recipe) -> None:
        """Directions must have an effect."""
        if not self.graph.is_directed and set(recipe.directions) - {"both"}:
            raise ValueError(
                f"{self.name} is undirected, so directions must be both; got {', '.join(recipe.directions)}. "
                "Edges of your own files keep their direction with --directed."
            )

    def check_options(self, options: BatchOptions) -> None:
        """Memory limits and several processes are for basis folders."""
        advice = "Write its basis with `adaptkry propagate` first"
        if options.memory is not None:
            raise ValueError(f"a memory limit is for basis folders; got one for the graph {self.name}. {advice}.")
        if options.group.size > 1:
            raise ValueError(
                f"several processes can train on basis folders only; got {options.group.size} processes for the graph "
                f"{self.name}. {advice}, or start one process."
            )

    def splits(self, scheme: str | None = None, count: int | None = None) -> Splits:
        """Splits of the nodes."""
        return schemes.make(self.graph, scheme or "class_balanced", count)

    def digest(self, splits: Splits) -> str:
        """SHA-256 of edges, labels, features and masks."""
        graph = self.graph
        return tensor_digest(
            [graph.indptr, graph.indices, graph.weights, graph.y, graph.x, splits.train, splits.validation, splits.test]
        )

    def prepare(self, recipe: Recipe, members: Sequence[Member], splits: Splits, options: BatchOptions) -> Prepared:
        """Compute the terms; in mini-batches where they do not fit on the device."""
        device, batch_size = options.device, options.batch_size
        if batch_size and recipe.needs_all_nodes:
            raise ValueError(
                f"{recipe.method} needs all nodes at once, so it cannot train in mini-batches; got batch_size "
                f"{batch_size}. Leave it out."
            )
        batch_size = batch_size or batch_size_that_fits(self.graph, recipe, len(members), device)
        inputs = model_inputs(self.graph, recipe, "cpu" if batch_size else device)
        shape = ModelShape(recipe, len(inputs.terms), inputs.terms.shape[2], self.graph.classes)
        data = (self.labels, training_masks(splits), torch.tensor([member.split for member in members]), device)
        if batch_size:
            plan = SlabPlan(self.labels >= 0, 1, batch_size)
            batches: Batches = SlabBatches(InMemoryTerms(inputs.terms), plan, *data)
        else:
            batches = FullBatch(inputs.terms, *data, inputs.operator)
        scaling = None if inputs.scaling is None else [part.tolist() for part in inputs.scaling]
        return Prepared(shape, batches, {"batch_size": batch_size}, inputs.hop_scale.tolist(), scaling)

    def describe(self) -> dict[str, Any]:
        """Names and sizes."""
        names, columns = self.info.class_names, self.info.feature_names
        return {
            "class_names": None if names is None else list(names),
            "feature_names": None if columns is None else list(columns),
            "nodes": self.graph.nodes,
            "entries": self.graph.entries,
        }


class FolderData:
    """A basis folder: rows are read in slabs, so memory does not grow with the number of nodes.

    Besides a few slabs, memory holds for every stored row its number, its class and one byte per split.
    """

    def __init__(self, folder: BasisFolder):
        self.folder = folder
        self.info, self.labels = Info(folder.name, folder.metric), folder.labels

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.folder.name

    def recipe(self, method: str, **settings) -> Recipe:
        """The method's settings; taus, directions and degree are the folder's unless `settings` asks for fewer."""
        return folder_recipe(self.folder, method, **settings)

    def check_recipe(self, recipe: Recipe) -> None:
        """The folder must hold the terms that the recipe needs."""
        stored_terms(self.folder, recipe)

    def check_options(self, options: BatchOptions) -> None:
        """All options apply."""

    def splits(self, scheme: str | None = None, count: int | None = None) -> Splits:
        """Splits of the stored rows."""
        return schemes.make(_Labelled(self.labels, self.info), scheme or "class_balanced", count)  # type: ignore[arg-type]

    def digest(self, splits: Splits) -> str:
        """The folder's checksums, and SHA-256 of the masks."""
        masks = tensor_digest([splits.train, splits.validation, splits.test])
        return masks + "".join(sorted(self.folder.manifest["xxh128"].values()))

    def prepare(self, recipe: Recipe, members: Sequence[Member], splits: Splits, options: BatchOptions) -> Prepared:
        """Open the terms; small folders are read into memory, in the same order of rows."""
        reader = BasisReader(self.folder, stored_terms(self.folder, recipe))
        processes = options.group.size
        plan = SlabPlan.for_rows(self.labels >= 0, reader.row_bytes, options.batch_size, processes)
        fits = reader.row_bytes * self.folder.count <= parse_bytes(
            FOLDER_MEMORY if options.memory is None else options.memory
        )
        source = InMemoryTerms(reader.whole().to(options.device)) if fits else FolderTerms(reader)
        shape = ModelShape(recipe, source.shape[0], self.folder.features, self.folder.classes)
        split_of_member = torch.tensor([member.split for member in members])
        batches = SlabBatches(
            source, plan, self.labels, training_masks(splits), split_of_member, options.device, options.group,
            shares_validation=self.info.metric == "accuracy",
        )  # fmt: skip
        steps = {"slabs": plan.slabs, "batch_size": plan.batch_size, "processes": processes}
        return Prepared(shape, batches, steps, [1.0] * source.shape[0])

    def describe(self) -> dict[str, Any]:
        """Where the folder is and what it holds."""
        return {
            "class_names": None,
            "feature_names": None,
            "nodes": self.folder.nodes,
            "entries": None,
            "basis_folder": str(self.folder.path.resolve()),
            "stored_rows": self.folder.count,
            "stored_dtype": self.folder.dtype,
        }


@dataclass(frozen=True)
class _Labelled:
    """What splits are drawn from: classes and their names, without edges or features."""

    y: Tensor
    info: Info


def open_data(data: Any, **load_options) -> TrainingData:
    """Training data from anything that `fit` accepts.

    Args:
        data: a `Graph`, a name, a path or a list of paths, a PyG `Data`, a NetworkX graph, a `BasisFolder` or its path.
        load_options: for `load`, such as `root` and `directed`.
    """
    loaded = _opened(data)
    if loaded is not None:
        if load_options:
            raise ValueError(f"{', '.join(load_options)} must be given when data are loaded; got data already loaded.")
        return loaded
    paths = [data] if isinstance(data, str | Path) else data
    only = paths[0] if isinstance(paths, list | tuple) and len(paths) == 1 else None
    if isinstance(only, str | Path) and is_kind(only, "basis"):
        return open_data(open_basis_folder(only), **load_options)
    if isinstance(only, str | Path) and is_kind(only, "graph"):
        raise ValueError(
            f"a graph that fits in memory, or a basis folder, is needed here; got the graph folder {only}. Write its "
            f"basis first: `adaptkry propagate {only} --taus 0.5,1 --degree 10 --out BASIS`, then `adaptkry fit BASIS`."
        )
    is_path = isinstance(paths, list | tuple) and not (isinstance(only, str) and only.lower() in NAMES)
    return GraphData(load(data if only is None else only, **load_options), is_own_file=is_path)


def _opened(data: Any) -> TrainingData | None:
    """Data that need no loading."""
    if isinstance(data, GraphData | FolderData):
        return data
    if isinstance(data, Graph):
        return GraphData(data)
    return FolderData(data) if isinstance(data, BasisFolder) else None


def open_basis_folder(path: Path | str) -> BasisFolder:
    """A basis folder with every file compared with its checksum: a damaged one would train, and mislead."""
    folder = BasisFolder.open(path)
    if process_rank() == 0:  # one process of a group is enough
        folder.verify()
    return folder


def training_masks(splits: Splits) -> dict[str, Tensor]:
    """What training may see: test masks are not among it."""
    return {"train": splits.train, "validation": splits.validation}


def batch_size_that_fits(graph: Graph, recipe: Recipe, members: int, device: torch.device) -> int | None:
    """None where the terms and three activations of all members fit on the device, else rows per step that do.

    A model that needs all nodes at once is left to try.
    """
    width = 0 if graph.features is None else graph.features.shape[1]
    node_bytes = 4 * width * (recipe.term_count + 3 * members)
    free = free_bytes(device)
    if recipe.needs_all_nodes or graph.nodes * node_bytes <= 0.9 * free:
        return None
    return max(1, int(0.45 * free / node_bytes))


def free_bytes(device: torch.device) -> float:
    """Free memory of a GPU; the CPU's is not counted, its system swaps or refuses."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else float("inf")


def tensor_digest(tensors: Sequence[Tensor | None]) -> str:
    """SHA-256 of tensors one after the other."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(b"none" if tensor is None else tensor.contiguous().numpy().data)
    return digest.hexdigest()


def training_key(members: Sequence[Member], **parts) -> str:
    """SHA-256 of everything that decides a training: settings, and whatever else must match on resuming."""
    settings = [vars(member) | {"recipe": member.recipe.to_dict()} for member in members]
    return hashlib.sha256(json.dumps({"members": settings, **parts}, sort_keys=True).encode()).hexdigest()


def recipes_for(data: TrainingData, method: Any, settings: dict[str, Any]) -> list[Recipe]:
    """The recipes that `fit` was asked for: by a method's name, a recipe, or a list of recipes."""
    if isinstance(method, str):
        found = [data.recipe(method, **settings)]
    else:
        given = [method] if isinstance(method, Recipe) else list(method)
        if not given or not all(isinstance(one, Recipe) for one in given):
            raise TypeError(f"method must be a method's name, a Recipe or a list of recipes; got {method!r}.")
        found = [replace(one, **check_names(settings)) for one in given]
    for one in found:
        data.check_recipe(one)
    return found
