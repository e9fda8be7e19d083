"""The benchmark graphs, through PyG's own loaders and OGB's: found, checked, parsed once, then kept as arrays.

Raw files come from a mirror (`raw.places`) or are downloaded by PyG. They are checked before anything parses them,
copied into a folder of our own, since PyG writes beside them, and the graph is kept as .npz in our cache, under a
name that depends on the files' digests: another file is another graph.
"""

import contextlib
import hashlib
import importlib
import io
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from adaptkry.common.version import VERSION
from adaptkry.graphs.benchmarks import raw_files as raw
from adaptkry.graphs.benchmarks.catalogue import Card
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers import arrays as files


def load(card: Card, root: str | Path | None = None, *, download: bool = True) -> Graph:
    """The graph of a card.

    Args:
        card: one of `CARDS`.
        root: mirror folder to look through first; then $ADAPTKRY_DATA, ../shared/data, and what was downloaded.
        download: may PyG fetch what is not found? Otherwise an error says which files to put where.
    """
    place = raw.find(card, root)
    if place is None:
        if not download:
            raise raw.missing(card, root, "downloading is switched off")
        place = fetch(card, root)
    digests = raw.verify(card, place, published=place == raw.downloads())
    return check(card, kept(card, place, digests))


def fetch(card: Card, root: str | Path | None = None) -> Path:
    """Download the raw files, check them, and only then move them to where the next run will find them."""
    target = raw.downloads()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        try:
            with quiet():
                (_fetch_ogb if card.loader == "ogb" else _fetch_pyg)(card, Path(work))
        except ImportError:
            raise
        except Exception as error:  # urllib, aiohttp and fsspec each fail in their own way
            raise raw.missing(card, root, f"downloading failed ({type(error).__name__}: {error})") from error
        raw.verify(card, Path(work), published=True)
        for path in card.files:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(work) / path, target / path)
    return target


def kept(card: Card, place: Path, digests: dict[str, str]) -> Graph:
    """The graph from our cache, or parsed now and put there."""
    key = hashlib.sha256(repr((VERSION, sorted(digests.items()))).encode()).hexdigest()[:16]
    path = raw.cache() / "graphs" / f"{card.name}-{key}.npz"
    if path.is_file():
        with contextlib.suppress(ValueError):  # a damaged copy is made again
            return files.read(path)
    graph = parse(card, place, digests)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(graph, path)
    except OSError as error:
        raise OSError(
            f"{card.name} cannot be kept in {path.parent} ({error}). Set $ADAPTKRY_CACHE elsewhere."
        ) from None
    return graph


def parse(card: Card, place: Path, digests: dict[str, str]) -> Graph:
    """Copy the raw files into a folder of our own, see that the copies are right, and let PyG or OGB read them."""
    with tempfile.TemporaryDirectory() as work, quiet():
        for path in card.files:
            (Path(work) / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place / path, Path(work) / path)
            if raw.digest(Path(work) / path) != digests[path]:
                raise ValueError(f"{place / path} changed while it was read. Try again.")
        data = (_read_ogb if card.loader == "ogb" else _read_pyg)(card, Path(work))
        options = {} if card.directed is None else {"directed": card.directed}
        return files.from_data(data, name=card.name, metric=card.metric, **options)


def check(card: Card, graph: Graph) -> Graph:
    """The graph itself, if it is what its card says."""
    sizes = None if card.class_sizes is None else tuple(torch.bincount(graph.y[graph.y >= 0]).tolist())
    found = {
        "nodes": graph.nodes,
        "entries": graph.entries,
        "features": graph.features.shape[1],
        "classes": graph.classes,
        "class_sizes": sizes,
    }
    for what, came in found.items():
        wanted = getattr(card, what)
        if wanted is not None and wanted != came:
            raise ValueError(f"{card.name} should have {what} {wanted}, but its files gave {came}. Fetch them again.")
    return graph


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """PyG and OGB tell of their progress and use what torch deprecates; neither is news to our user."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def loader(card: Card) -> type:
    """PyG's class for a card."""
    from torch_geometric import datasets
    from torch_geometric.data import InMemoryDataset

    if card.loader != "Filtered":
        return getattr(datasets, card.loader)

    class Filtered(datasets.HeterophilousGraphDataset):
        """Same format, same folder as its five sisters; PyG's constructor merely refuses the name."""

        def __init__(self, root: str, name: str):
            self.name = name
            InMemoryDataset.__init__(self, root)
            self.load(self.processed_paths[0])

    return Filtered


def _open(dataset: type, card: Card, work: Path):
    if card.loader == "Actor":  # one graph only: no name, and the root is its own folder
        return dataset(str(work / card.called))
    return dataset(str(work), card.called)


def _read_pyg(card: Card, work: Path):
    return _open(loader(card), card, work)[0]


def _fetch_pyg(card: Card, work: Path) -> None:
    class Fetch(loader(card)):
        """Downloads, and stops there: nothing is parsed before it is checked."""

        def process(self):
            pass

        def load(self, path: str, data_cls=None):
            pass

    _open(Fetch, card, work)


def _ogb(module: str):
    try:
        return importlib.import_module(f"ogb.{module}")
    except ImportError:
        raise ImportError("the ogbn graphs need the package ogb. Install it: pip install 'adaptkry[ogb]'.") from None


def _read_ogb(card: Card, work: Path):
    from torch_geometric.data import Data

    (work / card.files[0]).parent.with_name("processed").mkdir()
    dataset = _ogb("nodeproppred").NodePropPredDataset(card.called, str(work))
    graph, labels = dataset[0]
    data = Data(torch.from_numpy(graph["node_feat"]), torch.from_numpy(graph["edge_index"]), y=torch.from_numpy(labels))
    for part, name in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask")):
        data[name] = torch.zeros(len(labels), dtype=torch.bool)
        data[name][torch.as_tensor(dataset.get_idx_split()[part])] = True
    return data


def _fetch_ogb(card: Card, work: Path) -> None:
    """OGB's download without its question on standard input."""
    url = _ogb("utils.url")
    url.extract_zip(url.download_url(card.source, str(work)), str(work))
    folder = card.files[0].split("/")[0]
    shutil.move(work / card.called.removeprefix("ogbn-"), work / folder)
