"""Splits of the nodes into train, validation and test: bool masks [s, n], with the splits as the leading axis.

The published scheme draws the same number of training nodes from every class, so small classes may be missing from
validation and test. `Splits.warnings` lists the classes that a part lacks, for every scheme.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick, shortened
from adaptkry.graphs.graph import Graph

BERNNET_SEEDS = (
    *(1941488137, 4198936517, 983997847, 4023022221, 4019585660),
    *(2108550661, 1648766618, 629014539, 3212139042, 2424918363),
)
ADAPTKRY_SEEDS = (  # as published: the 2nd, 4th and 8th differ from BernNet's
    *(1941488137, 2519445423, 983997847, 1254279832, 4019585660),
    *(2108550661, 1648766618, 329014539, 3212139042, 2424918363),
)
PARTS = ("train", "validation", "test")
PAPER_GRAPHS = ("cora", "citeseer", "pubmed", "actor", "chameleon", "squirrel")  # evaluated with ADAPTKRY_SEEDS
MAX_SPLITS = 10_000
DEFAULT_COUNT = 5  # stratified splits of a graph without splits of its own
Fractions = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Splits:
    """Several splits of the same nodes: bool masks [s, n] of s splits over n nodes.

    In every split the three parts are disjoint and none is empty.

    Args:
        train: nodes to train on.
        validation: nodes that choose the epoch and the settings.
        test: nodes for the final score.
        scheme: how the splits were drawn, one of `SPLITS`, or "masks".
        seeds: one per split if they were drawn at random.
        warnings: messages about classes that a part lacks.

    >>> y = torch.arange(100) % 2
    >>> stratified(y, count=3)
    Splits(stratified, splits=3, nodes=100, train=60, validation=20, test=20)
    """

    train: Tensor
    validation: Tensor
    test: Tensor
    scheme: str = "masks"
    seeds: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self):
        for part in PARTS:
            self._check(part, getattr(self, part))
        if not isinstance(self.scheme, str):
            raise TypeError(f"the scheme of splits must be a name; got {shortened(self.scheme)}.")
        if self.seeds and len(self.seeds) != len(self):
            raise ValueError(f"there must be one seed per split, {len(self)} in all; got {len(self.seeds)}.")
        for first, second in (PARTS[:2], PARTS[1:], PARTS[::2]):
            _refuse_overlap(first, second, getattr(self, first) & getattr(self, second))

    def _check(self, part: str, mask) -> None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            kind = getattr(mask, "dtype", type(mask))
            raise TypeError(f"the {part} mask must be a bool tensor; got {kind}. Use from_masks for other arrays.")
        if mask.ndim != 2 or mask.shape != self.train.shape or not len(mask):
            expected = "[s, n]" if part == "train" else f"{list(self.train.shape)} like train"
            raise ValueError(f"the {part} mask must have shape {expected}; got {list(mask.shape)}. Reshape it.")
        if not mask.any(1).all():
            empty = int((~mask.any(1)).nonzero()[0])
            raise ValueError(
                f"every split needs {part} nodes; split {empty} of {len(mask)} ({self.scheme}) has none. "
                f"Label more nodes of each class, or choose other fractions or masks. If labels are numbers to "
                f"predict, use task='regression' (`adaptkry fit --task regression`)."
            )

    def __len__(self) -> int:
        return len(self.train)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={_range(getattr(self, part).sum(1))}" for part in PARTS)
        return f"Splits({self.scheme}, splits={len(self)}, nodes={self.train.shape[1]}, {sizes})"

    @property
    def label(self) -> str:
        """Number and scheme in words, such as "5 stratified splits"."""
        return f"{len(self)} {self.scheme} split{'s' * (len(self) != 1)}"

    def sizes(self, split: int) -> dict[str, int]:
        """The numbers of nodes of one split, as in result rows: train_nodes, validation_nodes and test_nodes."""
        split = checks.count(split, "the number of a split", len(self) - 1)
        return {f"{part}_nodes": int(getattr(self, part)[split].sum()) for part in PARTS}

    def take(self, count: int) -> "Splits":
        """The first `count` splits; the warnings, which are about all splits, are kept."""
        if not 1 <= checks.count(count, "the number of splits") <= len(self):
            raise ValueError(f"the number of splits must be between 1 and {len(self)}; got {count}.")
        first = {part: getattr(self, part)[:count] for part in PARTS}  # views
        return replace(self, **first, seeds=self.seeds[:count])

    def only(self, numbers: Sequence[int]) -> "Splits":
        """Some of the splits, by their numbers; the warnings, which are about all splits, are kept."""
        chosen = [checks.count(i, "the number of a split", len(self) - 1) for i in numbers]
        seeds = tuple(self.seeds[i] for i in chosen) if self.seeds else ()
        return replace(self, **{part: getattr(self, part)[chosen] for part in PARTS}, seeds=seeds)


def _range(sizes: Tensor) -> str:
    """Sizes of a part over the splits as text: one number, or lowest..highest."""
    lowest, highest = int(sizes.min()), int(sizes.max())
    return str(lowest) if lowest == highest else f"{lowest}..{highest}"


def _refuse_overlap(first: str, second: str, overlap: Tensor) -> None:
    if overlap.any():
        split, node = overlap.nonzero()[0].tolist()
        raise ValueError(
            f"the parts of a split must not overlap; node {node} is in {first} and {second} of split {split}. "
            f"Remove it from one of them."
        )


def class_balanced(y, seeds: Sequence[int] = ADAPTKRY_SEEDS, *, names: Sequence[str] | None = None) -> Splits:
    """The published splits: equally many training nodes per class, about 60/20/20 (BernNet, ChebNetII, AdaptKry).

    With N labelled nodes and c classes, round(0.6 N / c) nodes of each class are for training (all of a smaller
    class), round(0.2 N) of the others for validation, and the rest for testing. The random numbers are those of the
    published code, from NumPy's legacy RandomState.

    >>> class_balanced(torch.arange(100) % 2, seeds=[7])
    Splits(class_balanced, splits=1, nodes=100, train=60, validation=20, test=20)
    """
    labels = _labelled(y, names)
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a list of integers, one per split; got {shortened(seeds)}. Try [0].")
    seeds = [checks.count(seed, "a seed of class_balanced", 2**32 - 1) for seed in seeds]
    parts = (draw_class_balanced(labels, seed) for seed in seeds)
    return _from_ids(parts, labels, "class_balanced", seeds, names)


def draw_class_balanced(labels: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Node ids of train, validation and test for one seed; train and validation in the order of drawing."""
    random = np.random.RandomState(seed)
    unused = labels >= 0
    known, classes = int(unused.sum()), int(labels.max()) + 1
    share, train = round(0.6 * known / classes), []
    for label in range(classes):
        members = _ids(labels == label)
        train.append(members if len(members) < share else random.choice(members, share, replace=False))
        unused[train[-1]] = False
    rest = _ids(unused)
    validation = random.choice(rest, min(round(0.2 * known), len(rest)), replace=False)
    unused[validation] = False
    return np.concatenate(train), validation, _ids(unused)


def _ids(mask: np.ndarray) -> np.ndarray:
    """The nodes of a mask in ascending order; int32 where it suffices, to save memory."""
    return np.flatnonzero(mask).astype(np.int32 if len(mask) < 2**31 else np.int64)


def class_permuted(y, count: int = 10, seed: int = 0, *, names: Sequence[str] | None = None) -> Splits:
    """The same shares as `class_balanced`, drawn by torch's permutations (GPR-GNN, JacobiConv, OptBasisGNN).

    Those programs draw the permutations on the GPU that holds the data; here they are drawn on the CPU, so these
    are splits of the same kind, not the same splits. Split i is drawn with seed + i.

    >>> class_permuted(torch.arange(100) % 2, count=1)
    Splits(class_permuted, splits=1, nodes=100, train=60, validation=20, test=20)
    """
    labels, seeds = _labelled(y, names), _seeds(count, seed)
    parts = (draw_class_permuted(labels, split_seed) for split_seed in seeds)
    return _from_ids(parts, labels, "class_permuted", seeds, names)


def draw_class_permuted(labels: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Node ids of train, validation and test for one seed."""
    generator = torch.Generator().manual_seed(seed)
    classes, known = int(labels.max()) + 1, int((labels >= 0).sum())
    share = round(0.6 * known / classes)
    members = [_ids(labels == label) for label in range(classes)]
    shuffled = [ids[torch.randperm(len(ids), generator=generator).numpy()] for ids in members]
    rest = np.concatenate([ids[share:] for ids in shuffled])
    rest = rest[torch.randperm(len(rest), generator=generator).numpy()]
    validation, test = np.split(rest, [round(0.2 * known)])
    return np.concatenate([ids[:share] for ids in shuffled]), validation, test


def stratified(y, count: int = 10, fractions: Fractions = (0.6, 0.2, 0.2), seed: int = 0, *, names=None) -> Splits:
    """Every class in the same proportions; split i is drawn with seed + i.

    A class of three or more labelled nodes is in all three parts.
    """
    labels, cuts, seeds = _labelled(y, names), _cuts(fractions), _seeds(count, seed)
    parts = (_draw_stratified(labels, cuts, np.random.default_rng(split_seed)) for split_seed in seeds)
    return _from_ids(parts, labels, "stratified", seeds, names)


def _draw_stratified(labels: np.ndarray, cuts: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    shares = []
    for label in checks.class_sizes(torch.from_numpy(labels)).nonzero()[:, 0].tolist():
        members = random.permutation(_ids(labels == label))
        shares.append(np.split(members, _ends(len(members), cuts))[:3])
    return tuple(np.concatenate(part) for part in zip(*shares, strict=True))


def _ends(size: int, cuts: np.ndarray) -> tuple[int, int, int]:
    """Ends of the three parts of a class of `size` nodes: rounded fractions, no part empty from three nodes on."""
    train, validation, test = (round(cut * size) for cut in cuts)
    minimum = int(size >= 3)
    train = min(max(train, 1), size - 2 * minimum)
    validation = min(max(validation, train + minimum), size - minimum)
    return train, validation, max(test, validation + minimum)


def uniform(y, count: int = 10, fractions: Fractions = (0.6, 0.2, 0.2), seed: int = 0, *, names=None) -> Splits:
    """Labelled nodes at random, regardless of their class; split i is drawn with seed + i.

    `y` is the class of each node [n], or a graph, also of another task.
    """
    labels, cuts, seeds = _labelled(y, names, any_task=True), _cuts(fractions), _seeds(count, seed)
    known = _ids(labels >= 0)
    ends = np.rint(cuts * len(known)).astype(int)
    shuffled = (np.random.default_rng(split_seed).permutation(known) for split_seed in seeds)
    parts = (np.split(nodes, ends)[:3] for nodes in shuffled)
    return _from_ids(parts, labels, "uniform", seeds, names)


def fixed(graph: Graph, count: int | None = None) -> Splits:
    """The fixed splits of a graph (`graph.info.masks`): the first `count` of them, or all."""
    if graph.info.masks is None:
        others = ", ".join(name for name in SPLITS if name != "fixed")
        raise ValueError(
            f"scheme fixed needs splits that come with the graph; {graph.info.name} has no fixed splits. Use another "
            f"scheme: {others}."
        )
    lacking = [part for part in PARTS if part not in graph.info.masks]
    if lacking:
        raise ValueError(
            f"fixed splits need the masks {', '.join(PARTS)}; {graph.info.name} has no {' and no '.join(lacking)} mask."
            f" Add it, or use another scheme, such as stratified."
        )
    try:
        split = from_masks(*(graph.info.masks[part] for part in PARTS))
        split = split if count is None else split.take(count)
        checked = from_masks(split.train, split.validation, split.test, y=graph, names=graph.info.class_names)
    except ValueError as error:
        raise ValueError(f"{error} Or use another scheme than the fixed splits, such as stratified.") from None
    return replace(checked, scheme="fixed")


def from_masks(train, validation, test, *, y=None, names: Sequence[str] | None = None) -> Splits:
    """Splits from masks, bool [n] or [s, n]; with labels `y`, every node in the masks must have a label."""
    masks = [_mask(values, part) for values, part in zip((train, validation, test), PARTS, strict=True)]
    split = Splits(masks[0], masks[1], masks[2])
    if y is None:
        return split
    labels = torch.from_numpy(_labelled(y, names, any_task=True))
    if len(labels) != masks[0].shape[1]:
        raise ValueError(
            f"labels and masks must have the same number of nodes; got {len(labels)} labels for {split}. "
            f"Use the labels of this graph."
        )
    for mask, part in zip(masks, PARTS, strict=True):
        if (mask & (labels < 0)).any():
            node = int((mask & (labels < 0)).any(0).nonzero()[0])
            raise ValueError(
                f"every node in a mask needs a label; node {node} in the {part} mask has none. Leave it out."
            )
    return replace(split, warnings=absent_classes(split, labels, names))


def _mask(values, part: str) -> Tensor:
    mask = checks.tensor(values, f"the {part} mask")
    if mask.dtype != torch.bool:
        raise TypeError(f"the {part} mask must be bool; got {mask.dtype}. Convert node ids to a mask first.")
    return mask[None] if mask.ndim == 1 else mask


def absent_classes(split: Splits, y: Tensor, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """One message for each part and set of splits that lack some classes.

    >>> labels = torch.tensor([0, 0, 0, 1])
    >>> masks = torch.eye(4, dtype=torch.bool)
    >>> absent_classes(Splits(masks[:1], masks[1:2], masks[3:]), labels, ["cat", "dog"])
    ('train lacks class dog in every split.', 'validation lacks class dog in every split.',
    'test lacks class cat in every split.')
    """
    found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    sizes_of_all = checks.class_sizes(y)
    present = sizes_of_all.nonzero()[:, 0].tolist()
    if names is not None and not (hasattr(names, "__len__") and len(names) >= len(sizes_of_all)):
        raise ValueError(f"names must have one for each of the {len(sizes_of_all)} classes; got {shortened(names)}.")
    for part in PARTS:
        sizes = torch.stack([checks.class_sizes(y, mask) for mask in getattr(split, part)])  # [s, classes]
        for label in present:
            missing = tuple((sizes[:, label] == 0).nonzero()[:, 0].tolist())
            if missing:
                found.setdefault((part, missing), []).append(str(names[label] if names else label))
    return tuple(
        f"{part} lacks class{'es' * (len(classes) > 1)} {', '.join(classes)} in "
        + ("every split." if len(missing) == len(split) else f"{len(missing)} of {len(split)} splits.")
        for (part, missing), classes in found.items()
    )


def _labelled(y, names: Sequence[str] | None, *, any_task: bool = False) -> np.ndarray:
    """Labels as an array, with at least two classes; of a graph of another task 0 for known ones and -1 for others."""
    if getattr(y, "task", "classification") != "classification":
        if any_task:
            return y.known.numpy()
        raise ValueError(
            f"splits by class need classes; got a graph of the task {y.task}. Use the scheme uniform, or masks."
        )
    y = getattr(y, "y", y)  # of a graph
    if not hasattr(y, "__len__"):
        raise TypeError(f"splits need the labels of all nodes; got {shortened(y)}. Pass graph.y.")
    return checks.classes(checks.labels(y, len(y)), names).numpy()


def _cuts(fractions) -> np.ndarray:
    """Cumulative fractions of train, validation and test."""
    try:
        shares = np.asarray(fractions, dtype=float)
    except (TypeError, ValueError):
        shares = np.zeros(0)
    if shares.shape != (3,) or not (shares > 0).all() or shares.sum() > 1 + 1e-9:
        raise ValueError(
            f"fractions must be three positive numbers (train, validation, test) that add up to at most 1; "
            f"got {fractions}. Try (0.6, 0.2, 0.2)."
        )
    return np.minimum(np.cumsum(shares), 1)


def _seeds(count: int, seed: int) -> tuple[int, ...]:
    checks.positive_count(count, "the number of splits", MAX_SPLITS)
    return tuple(range(checks.count(seed, "the seed"), seed + count))


def _from_ids(parts, labels: np.ndarray, scheme: str, seeds: Sequence[int], names: Sequence[str] | None) -> Splits:
    """Convert node ids, one triple per split, to masks; one split at a time, since ids take 8 times the memory."""
    if not len(seeds):
        raise ValueError(f"{scheme} needs at least one seed; got none. Try seeds=[0].")
    masks = torch.zeros(3, len(seeds), len(labels), dtype=torch.bool)
    for row, triple in enumerate(parts):
        for mask, ids in zip(masks, triple, strict=True):
            mask[row].numpy()[ids] = True
    train, validation, test = masks
    split = Splits(train, validation, test, scheme, tuple(seeds))
    return replace(split, warnings=absent_classes(split, torch.from_numpy(labels), names))


def _published(graph: Graph, count: int | None, scheme: str, seeds: tuple[int, ...]) -> Splits:
    if count is not None and checks.count(count, "the number of splits") > len(seeds):
        raise ValueError(
            f"{scheme} has {len(seeds)} published seeds, one per split; got {count} splits. "
            f"Request at most {len(seeds)}, or use another scheme: stratified, uniform."
        )
    return replace(class_balanced(graph, seeds[:count], names=graph.info.class_names), scheme=scheme)


SPLITS: dict[str, Callable[[Graph, int | None], Splits]] = {
    "class_balanced": lambda graph, count: _published(graph, count, "class_balanced", ADAPTKRY_SEEDS),
    "class_balanced_bernnet": lambda graph, count: _published(graph, count, "class_balanced_bernnet", BERNNET_SEEDS),
    "class_permuted": lambda graph, count: class_permuted(
        graph, 10 if count is None else count, names=graph.info.class_names
    ),
    "stratified": lambda graph, count: stratified(graph, 10 if count is None else count, names=graph.info.class_names),
    "uniform": lambda graph, count: uniform(graph, 10 if count is None else count, names=graph.info.class_names),
    "fixed": fixed,
}


def make(graph: Graph, scheme: str | None = None, count: int | None = None) -> Splits:
    """Draw `count` splits of a graph by the name of a scheme; by default ten, or all fixed ones.

    Without a scheme, the splits are the ten published ones for the paper's six graphs, those that come with the graph
    if there are any, and five stratified ones otherwise, or uniform ones for other tasks than classification.

    Args:
        graph: the graph, or another object with its labels `y` and `info`.
        scheme: one of `SPLITS`, or None.
        count: number of splits.

    >>> make(Graph([[0], [1]], labels=[0, 1] * 10), count=2)
    Splits(stratified, splits=2, nodes=20, train=12, validation=4, test=4)
    """
    if scheme is not None:
        return pick(SPLITS, scheme, "split scheme")(graph, count)
    if graph.info.known_as in PAPER_GRAPHS:
        return make(graph, "class_balanced", count)
    if graph.info.masks is not None:
        return make(graph, "fixed", count)
    has_classes = getattr(graph, "task", "classification") == "classification"
    return make(graph, "stratified" if has_classes else "uniform", DEFAULT_COUNT if count is None else count)
