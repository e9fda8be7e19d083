"""Dataset cards of the benchmark graphs: sizes, source, metric and splits.

The sizes of seven graphs were measured with this package's loader (`measured=True`); the others are as published by
their authors and not checked here, or None if unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

RANDOM_SCHEMES = ("class_balanced", "class_balanced_bernnet", "class_permuted", "stratified", "uniform")
GEOM_GCN_URL = "https://github.com/graphdml-uiuc-jlu/geom-gcn"  # folders new_data and splits
LINKX_URL = "https://github.com/CUAI/Non-Homophily-Large-Scale/tree/master/data"
PLANETOID_URL = "https://github.com/kimiyoung/planetoid/tree/master/data"
YANDEX_URL = "https://github.com/yandex-research/heterophilous-graphs/tree/main/data"


@dataclass(frozen=True)
class Card:
    """The dataset card of a benchmark graph: what is known before it is loaded."""

    name: str
    loader: str  # a class of torch_geometric.datasets, "Filtered" (a subclass in loaders.py), or "ogb"
    loader_name: str  # the name that the loader uses for the graph
    files: tuple[str, ...]  # raw files, relative to a mirror folder
    source: str
    nodes: int | None = None
    classes: int | None = None
    features: int | None = None
    entries: int | None = None  # of A as loaded: an undirected edge counts twice, a self-loop once
    class_sizes: tuple[int, ...] | None = None
    homophily: float | None = None  # edge homophily of the graph as loaded
    directed: bool | None = False
    metric: str = "accuracy"
    splits: tuple[str, ...] = ("fixed", *RANDOM_SCHEMES)
    measured: bool = False
    rewritten: tuple[str, ...] = ()  # files whose known digest is that of a rewritten copy, not of the published file
    pickles: tuple[str, ...] = ()  # files that PyG unpickles

    @cached_property
    def sha256(self) -> Mapping[str, str]:
        """The digest of each raw file by path, without files of unknown digest."""
        return {path: DIGESTS[path] for path in self.files if path in DIGESTS}


def _digests() -> dict[str, str]:
    """Read the packaged list, which has the format of `sha256sum`: check a mirror with `sha256sum -c`."""
    lines = (files("adaptkry.graphs.benchmarks") / "SHA256SUMS").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


DIGESTS = _digests()


def _planetoid(pyg_name: str, **fields) -> Card:
    name, parts = pyg_name.lower(), ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    paths = tuple(f"{pyg_name}/raw/ind.{name}.{part}" for part in parts)
    return Card(name, "Planetoid", pyg_name, paths, PLANETOID_URL, measured=True, pickles=paths[:-1], **fields)


def _geom(folder: str, stem: str) -> tuple[str, ...]:
    """The files of a graph in the layout of Geom-GCN: features with labels, edges, ten splits."""
    splits = (f"{stem}_split_0.6_0.2_{i}.npz" for i in range(10))
    return tuple(f"{folder}/raw/{file}" for file in ("out1_node_feature_label.txt", "out1_graph_edges.txt", *splits))


def _wikipedia(name: str, **fields) -> Card:
    paths = _geom(f"{name}/geom_gcn", name)
    options = {"classes": 5, "directed": True, "measured": True, "rewritten": paths[:1]}
    source = f"{GEOM_GCN_URL} (new_data/{name} and splits)"
    return Card(name, "WikipediaNetwork", name, paths, source, **options, **fields)


def _yandex(name: str, loader: str = "HeterophilousGraphDataset", **fields) -> Card:
    pyg_name = name.replace("-", "_")
    return Card(name, loader, pyg_name, (f"{pyg_name}/raw/{pyg_name}.npz",), YANDEX_URL, **fields)


def _linkx(name: str, file: str, *more: str, splits: tuple[str, ...] = RANDOM_SCHEMES, **fields) -> Card:
    paths = tuple(f"{name}/raw/{path}" for path in ("data.mat", *more))
    source = f"{LINKX_URL} ({', '.join([f'{file} as data.mat', *(f'splits/{path}' for path in more)])})"
    return Card(name, "LINKXDataset", name, paths, source, splits=splits, pickles=paths[1:], **fields)


def _ogb(name: str, split: str, *more: str, **fields) -> Card:
    raw = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list", *more)
    paths = [f"raw/{part}.csv.gz" for part in raw] + [f"split/{split}/{p}.csv.gz" for p in ("train", "valid", "test")]
    folder = name.replace("-", "_")
    source = f"http://snap.stanford.edu/ogb/data/nodeproppred/{name.removeprefix('ogbn-')}.zip"
    return Card(name, "ogb", name, tuple(f"{folder}/{path}" for path in [*paths, "RELEASE_v1.txt"]), source, **fields)


_ALL = (
    _planetoid(
        "Cora",
        nodes=2708,
        entries=10556,
        features=1433,
        classes=7,
        class_sizes=(351, 217, 418, 818, 426, 298, 180),
        homophily=0.81,
    ),
    _planetoid(
        "CiteSeer",
        nodes=3327,
        entries=9104,
        features=3703,
        classes=6,
        class_sizes=(264, 590, 668, 701, 596, 508),
        homophily=0.7355,
    ),
    _planetoid(
        "PubMed",
        nodes=19717,
        entries=88648,
        features=500,
        classes=3,
        class_sizes=(4103, 7739, 7875),
        homophily=0.8024,
    ),
    Card(
        "actor",
        "Actor",
        "actor",
        _geom("actor", "film"),
        f"{GEOM_GCN_URL} (new_data/film and splits)",
        nodes=7600,
        entries=30019,
        features=932,
        classes=5,
        class_sizes=(853, 1337, 1630, 1815, 1965),
        homophily=0.2188,
        directed=True,
        measured=True,
    ),
    _wikipedia(
        "chameleon",
        nodes=2277,
        entries=36101,
        features=2325,
        class_sizes=(456, 460, 453, 521, 387),
        homophily=0.235,
    ),
    _wikipedia(
        "squirrel",
        nodes=5201,
        entries=217073,
        features=2089,
        class_sizes=(1042, 1040, 1039, 1040, 1040),
        homophily=0.2239,
    ),
    _yandex("chameleon-filtered", "Filtered", nodes=890, features=2325, classes=5),
    _yandex("squirrel-filtered", "Filtered", nodes=2223, features=2089, classes=5),
    _yandex("roman-empire", nodes=22662, features=300, classes=18, homophily=0.05),
    _yandex("amazon-ratings", nodes=24492, features=300, classes=5, homophily=0.38),
    _yandex("minesweeper", nodes=10000, features=7, classes=2, homophily=0.68, metric="roc_auc"),
    _yandex("tolokers", nodes=11758, features=10, classes=2, homophily=0.59, metric="roc_auc"),
    _yandex("questions", nodes=48921, features=301, classes=2, homophily=0.84, metric="roc_auc"),
    _linkx(
        "penn94",
        "facebook100/Penn94.mat",
        "fb100-Penn94-splits.npy",
        splits=("fixed", *RANDOM_SCHEMES),
        nodes=41554,
        classes=2,
    ),
    _linkx("reed98", "facebook100/Reed98.mat"),
    _linkx("amherst41", "facebook100/Amherst41.mat"),
    _linkx("cornell5", "facebook100/Cornell5.mat"),
    _linkx(
        "johnshopkins55",
        "facebook100/Johns Hopkins55.mat",
        nodes=5180,
        entries=373172,
        features=2406,
        classes=2,
        class_sizes=(2153, 2609),
        homophily=0.5488,
        measured=True,
    ),
    _linkx("genius", "genius.mat", nodes=421961, features=12, classes=2, metric="roc_auc", directed=None),
    _ogb("ogbn-arxiv", "time", "node_year", nodes=169343, features=128, classes=40, directed=True),
    _ogb("ogbn-products", "sales_ranking", classes=47),
)

CARDS: dict[str, Card] = {card.name: card for card in _ALL}
