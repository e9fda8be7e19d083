"""Load the benchmark graphs with the loaders of PyG and OGB: find, verify and parse once, then cache as arrays.

Raw files are found in a mirror (`raw_files.search_folders`) or downloaded by PyG. They are verified before they are
parsed, and copied to a temporary folder, since PyG writes files beside them. The graph is cached as .npz under a name
that depends on the digests of its files.
"""

import contextlib
import hashlib
import importlib
import io
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from adaptkry.common.version import VERSION
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.graphs.benchmarks.catalogue import Card
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers.arrays import read_npz, write_npz
from adaptkry.graphs.readers.objects import from_data


def load_benchmark(card: Card, root: str | Path | None = None, *, download: bool = True) -> Graph:
    """Load the graph of a card.

    Args:
        card: one of `CARDS`.
        root: mirror folder to search first, before $ADAPTKRY_DATA and earlier downloads.
        download: whether PyG may download missing files. Otherwise an error says which files to put where.
    """
    folder = raw_files.find(card, root)
    if folder is None:
        if not download:
            raise raw_files.missing_files_error(card, root, "downloading is switched off")
        folder = fetch(card, root)
    digests = raw_files.verify(card, folder, published=folder == raw_files.download_folder())
    return check(card, cached(card, folder, digests))


def fetch(card: Card, root: str | Path | None = None) -> Path:
    """Download the raw files, verify them, and then move them to the download folder."""
    target = raw_files.download_folder()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        try:
            with quiet():
                (_fetch_ogb if card.loader == "ogb" else _fetch_pyg)(card, Path(work))
        except ImportError:
            raise
        except Exception as error:  # urllib, aiohttp and fsspec each fail in their own way
            raise raw_files.missing_files_error(
                card, root, f"downloading failed ({type(error).__name__}: {error})"
            ) from error
        raw_files.verify(card, Path(work), published=True)
        for path in card.files:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(work) / path, target / path)
    return target


def cached(card: Card, folder: Path, digests: dict[str, str]) -> Graph:
    """The graph from the cache; if it is not there, parse it and cache it."""
    key = hashlib.sha256(repr((VERSION, sorted(digests.items()))).encode()).hexdigest()[:16]
    path = raw_files.cache_folder() / "graphs" / f"{card.name}-{key}.npz"
    if path.is_file():
        with contextlib.suppress(ValueError):  # a damaged copy is replaced
            return read_npz(path)
    graph = parse(card, folder, digests)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_npz(graph, path)
    except OSError as error:
        raise OSError(
            f"the cache folder must be writable; {card.name} cannot be cached in {path.parent} ({error}). Set "
            f"$ADAPTKRY_CACHE to another folder."
        ) from None
    return graph


def parse(card: Card, folder: Path, digests: dict[str, str]) -> Graph:
    """Copy the raw files to a temporary folder, verify the copies, and read them with PyG or OGB."""
    with tempfile.TemporaryDirectory() as work, quiet():
        for path in card.files:
            (Path(work) / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / path, Path(work) / path)
            if raw_files.digest(Path(work) / path) != digests[path]:
                raise ValueError(f"{folder / path} changed while it was read. Try again.")
        data = (_read_ogb if card.loader == "ogb" else _read_pyg)(card, Path(work))
        options = {} if card.directed is None else {"directed": card.directed}
        return from_data(data, name=card.name, metric=card.metric, **options)


def check(card: Card, graph: Graph) -> Graph:
    """Return the graph, marked as this benchmark, if it agrees with its card; otherwise raise an error."""
    sizes = None if card.class_sizes is None else tuple(torch.bincount(graph.y[graph.y >= 0]).tolist())
    found = {
        "nodes": graph.nodes,
        "entries": graph.entries,
        "features": graph.features.shape[1],
        "classes": graph.classes,
        "class_sizes": sizes,
    }
    for field, value in found.items():
        expected = getattr(card, field)
        if expected is not None and expected != value:
            raise ValueError(
                f"{card.name} must have {field} {expected}; got {value} from its files. Download them again."
            )
    graph.info = replace(graph.info, known_as=card.name)
    return graph


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress messages and deprecation warnings of PyG and OGB."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def pyg_class(card: Card) -> type:
    """PyG's dataset class for a card."""
    from torch_geometric import datasets
    from torch_geometric.data import InMemoryDataset

    if card.loader != "Filtered":
        return getattr(datasets, card.loader)

    class Filtered(datasets.HeterophilousGraphDataset):
        """The same format and folder as the other five graphs, but PyG's constructor refuses the name."""

        def __init__(self, root: str, name: str):
            self.name = name
            InMemoryDataset.__init__(self, root)
            self.load(self.processed_paths[0])

    return Filtered


def _open(dataset: type, card: Card, work: Path):
    if card.loader == "Actor":  # a class for one graph: it has no name, and its root is the folder of the graph
        return dataset(str(work / card.loader_name))
    return dataset(str(work), card.loader_name)


def _read_pyg(card: Card, work: Path):
    return _open(pyg_class(card), card, work)[0]


def _fetch_pyg(card: Card, work: Path) -> None:
    class Fetch(pyg_class(card)):
        """Downloads only: files are verified before they are parsed."""

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
    dataset = _ogb("nodeproppred").NodePropPredDataset(card.loader_name, str(work))
    graph, labels = dataset[0]
    data = Data(torch.from_numpy(graph["node_feat"]), torch.from_numpy(graph["edge_index"]), y=torch.from_numpy(labels))
    for part, name in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask")):
        data[name] = torch.zeros(len(labels), dtype=torch.bool)
        data[name][torch.as_tensor(dataset.get_idx_split()[part])] = True
    return data


def _fetch_ogb(card: Card, work: Path) -> None:
    """Download as OGB does, but without asking for confirmation on standard input."""
    url = _ogb("utils.url")
    url.extract_zip(url.download_url(card.source, str(work)), str(work))
    folder = card.files[0].split("/")[0]
    shutil.move(work / card.loader_name.removeprefix("ogbn-"), work / folder)
