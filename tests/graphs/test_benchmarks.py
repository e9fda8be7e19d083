import pickle
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import HeterophilousGraphDataset, Planetoid, WikipediaNetwork
from torch_geometric.transforms import NormalizeFeatures

from adaptkry.graphs import splits
from adaptkry.graphs.benchmarks import loaders, raw_files
from adaptkry.graphs.benchmarks.catalogue import CARDS, DIGESTS
from adaptkry.graphs.benchmarks.loaders import load_benchmark
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import edge
from adaptkry.graphs.load import BUILT_IN, describe, load, normalised
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.spectral.propagation_matrix import Propagation
from benchmark_graphs import benchmark_graph, graph_parameters

MEASURED = graph_parameters(name for name, card in CARDS.items() if card.measured)
STRUCTURE = {  # number of undirected edges without self-loops, of self-loops as loaded, and of isolated nodes
    "cora": (5278, 0, 0),
    "citeseer": (4552, 0, 48),
    "pubmed": (44324, 0, 0),
    "actor": (26659, 93, 0),
    "chameleon": (31371, 50, 0),
    "squirrel": (198353, 140, 0),
}


@pytest.fixture
def offline(tmp_path, monkeypatch) -> Path:
    """A machine with no data and no network: an empty mirror `data`, an empty cache, and a download that fails."""

    def fail(*_):
        raise OSError("Name or service not known")

    for loader in (Planetoid, HeterophilousGraphDataset):
        monkeypatch.setattr(loader, "download", fail)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("ADAPTKRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ADAPTKRY_DATA", str(tmp_path / "data"))
    return tmp_path


def small_npz(path: Path, nodes: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """A file in the format of the newer heterophily sets."""
    random = np.random.default_rng(seed)
    part = random.permuted(np.tile(np.arange(nodes) % 3, (4, 1)), axis=1)  # [4, nodes]
    arrays = {
        "node_features": random.standard_normal((nodes, 7)).astype(np.float32),
        "node_labels": np.arange(nodes) % 2,
        "edges": random.integers(0, nodes, (20, 2)),
        **{f"{name}_masks": part == i for i, name in enumerate(("train", "val", "test"))},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return arrays


SMALL = replace(CARDS["minesweeper"], nodes=12)
SMALL_FILE = "minesweeper/raw/minesweeper.npz"


@pytest.mark.data
@pytest.mark.parametrize("name", MEASURED)
def test_graph_agrees_with_its_card(name):
    graph, card = benchmark_graph(name), CARDS[name]
    assert (graph.nodes, graph.entries, graph.x.shape[1]) == (card.nodes, card.entries, card.features)
    assert graph.y[graph.y >= 0].bincount().tolist() == list(card.class_sizes or ())
    assert edge(graph) == pytest.approx(card.homophily, abs=5e-5)
    assert (graph.is_directed, graph.info.name, graph.info.metric) == (card.directed, name, card.metric)
    assert set(card.files) == set(card.sha256)


@pytest.mark.data
@pytest.mark.parametrize("name", graph_parameters(STRUCTURE))
def test_edges_self_loops_and_isolated_nodes_are_as_specified(name):
    graph = benchmark_graph(name)
    plain = graph.undirected().without_self_loops()
    assert (plain.entries / 2, int(graph.adjacency.diagonal().sum()), int(graph.isolated().sum())) == STRUCTURE[name]


@pytest.mark.data
@pytest.mark.parametrize("name", MEASURED)
def test_graph_has_fixed_splits_if_its_card_lists_them(name):
    graph = benchmark_graph(name)
    if "fixed" not in CARDS[name].splits:
        assert graph.info.masks is None
        return
    split = splits.fixed(graph)
    assert len(split) == (1 if CARDS[name].loader == "Planetoid" else 10)
    if name == "cora":
        assert [int(getattr(split, part).sum()) for part in splits.PARTS] == [140, 500, 1000]


def mirrored(name: str, folder: Path) -> Path:
    """A copy of a graph's raw files, which a test may change."""
    card = CARDS[name]
    source = raw_files.find(card) or pytest.skip(f"{name}: no raw files here")
    for path in card.files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, folder / path)
    return folder


def read_by_pyg(name: str, folder: Path) -> Data:
    """A graph as PyG's loader returns it, without ours."""
    dataset, pyg_name = {"cora": (Planetoid, "Cora"), "chameleon": (WikipediaNetwork, "chameleon")}[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG calls functions that torch has deprecated
        return dataset(str(mirrored(name, folder)), pyg_name)[0]


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "chameleon"])
def test_graph_equals_the_one_that_pyg_loads(name, tmp_path):
    ours, theirs = benchmark_graph(name), Graph.from_pyg(read_by_pyg(name, tmp_path))
    for part in ("indptr", "indices", "x", "y"):
        assert getattr(ours, part).equal(getattr(theirs, part))


@pytest.mark.data
def test_unlabelled_nodes_have_label_minus_one():
    graph = benchmark_graph("johnshopkins55")
    assert int((graph.y == -1).sum()) == 418
    assert graph.classes == 2


@pytest.mark.data
@pytest.mark.parametrize(("name", "file"), [("cora", 6), ("chameleon", 0)])
def test_file_with_a_wrong_checksum_is_refused_before_it_is_parsed(name, file, tmp_path, monkeypatch):
    folder, path = mirrored(name, tmp_path), CARDS[name].files[file]
    with (folder / path).open("r+b") as damaged:
        damaged.seek(100)
        damaged.write(b"!")
    monkeypatch.setattr(loaders, "parse", lambda *_: pytest.fail("it was parsed"))
    monkeypatch.setenv("ADAPTKRY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"SHA-256 of .* must be .* The file was not opened") as caught:
        load(name, root=folder)
    for part in (str(folder / path), DIGESTS[path], raw_files.digest(folder / path), CARDS[name].source):
        assert part in str(caught.value)


@pytest.fixture
def cora_copy(tmp_path) -> Path:
    return mirrored("cora", tmp_path / "cora")


@pytest.mark.data
@pytest.mark.usefixtures("cora_copy", "offline")  # in this order: offline there is nothing left to copy
def test_downloaded_pickle_with_a_wrong_checksum_is_refused_and_deleted(cora_copy, monkeypatch):
    def download(self):
        for path in CARDS["cora"].files:
            shutil.copyfile(cora_copy / path, Path(self.raw_dir) / Path(path).name)
        (Path(self.raw_dir) / "ind.cora.graph").write_bytes(b"cos\nsystem\n(S'echo hacked'\ntR.")

    monkeypatch.setattr(Planetoid, "download", download)
    with pytest.raises(ValueError, match=r"SHA-256 of .*ind\.cora\.graph must be \w+ for cora; got"):
        load("cora")
    assert not list(raw_files.download_folder().rglob("ind.*"))


def test_download_is_verified_saved_and_not_repeated(offline, monkeypatch):
    calls = []

    def download(self):
        calls.append(self.raw_dir)
        small_npz(Path(self.raw_dir) / "minesweeper.npz")

    monkeypatch.setattr(HeterophilousGraphDataset, "download", download)
    graph = load_benchmark(SMALL)
    again = load_benchmark(SMALL)
    assert len(calls) == 1
    assert (raw_files.download_folder() / SMALL_FILE).is_file()
    assert [path.name for path in raw_files.download_folder().iterdir()] == ["minesweeper"]
    assert graph.indices.equal(again.indices)
    assert offline / "cache" in raw_files.download_folder().parents


def test_download_without_a_network_says_which_files_to_put_where(offline):
    with pytest.raises(FileNotFoundError, match=r"downloading failed .*Name or service not known") as caught:
        load("cora")
    for part in (*CARDS["cora"].files, str(offline / "data"), CARDS["cora"].source, "$ADAPTKRY_DATA"):
        assert part in str(caught.value)
    assert not list(raw_files.download_folder().iterdir())
    with pytest.raises(FileNotFoundError, match="downloading is switched off"):
        load("roman-empire", download=False)


def test_incomplete_mirror_names_only_the_missing_files(offline):
    (offline / "data" / "Cora" / "raw").mkdir(parents=True)
    for path in CARDS["cora"].files[:-1]:
        (offline / "data" / path).write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"and put Cora/raw/ind\.cora\.test\.index under"):
        load("cora", download=False)


def test_graph_in_a_mirror_is_parsed_once(offline, monkeypatch, capfd):
    arrays = small_npz(offline / "data" / SMALL_FILE)
    graph = load_benchmark(SMALL)
    expected = Graph(arrays["edges"].T, arrays["node_features"], arrays["node_labels"])
    assert graph.indices.equal(expected.indices)
    assert graph.x.equal(expected.x)
    assert graph.info.metric == "roc_auc"
    for part, key in (("train", "train_masks"), ("validation", "val_masks"), ("test", "test_masks")):
        assert np.array_equal((graph.info.masks or {})[part].numpy(), arrays[key])
    monkeypatch.setattr(loaders, "parse", lambda *_: pytest.fail("it was parsed again"))
    again = load_benchmark(SMALL)
    for part in ("indptr", "indices", "x", "y"):
        assert getattr(again, part).equal(getattr(graph, part))
    assert again.info.name == "minesweeper"
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in (offline / "data" / "minesweeper").iterdir()] == ["raw"]  # nothing written beside it


def test_changed_files_and_a_damaged_cache_are_parsed_again(offline):
    small_npz(offline / "data" / SMALL_FILE)
    first = load_benchmark(SMALL)
    small_npz(offline / "data" / SMALL_FILE, seed=1)
    second = load_benchmark(SMALL)
    assert not first.x.equal(second.x)
    for cached in (offline / "cache" / "graphs").iterdir():
        cached.write_bytes(b"PK damaged")
    assert load_benchmark(SMALL).x.equal(second.x)


def test_root_has_priority_over_the_environment_variable(offline):
    small_npz(offline / "data" / SMALL_FILE)
    arrays = small_npz(offline / "mine" / SMALL_FILE, seed=1)
    assert np.array_equal(load_benchmark(SMALL, offline / "mine").x.numpy(), arrays["node_features"])
    with pytest.raises(FileNotFoundError, match=r"the data root .*nowhere does not exist"):
        load("cora", root=offline / "nowhere")


def test_file_with_other_counts_than_its_card_is_refused(offline):
    small_npz(offline / "data" / SMALL_FILE, nodes=13)
    with pytest.raises(ValueError, match="minesweeper must have nodes 12; got 13 from its files"):
        load_benchmark(SMALL)


def test_cache_folder_that_cannot_be_written_is_refused(offline, monkeypatch):
    small_npz(offline / "data" / SMALL_FILE)
    (offline / "file").write_text("")
    monkeypatch.setenv("ADAPTKRY_CACHE", str(offline / "file"))
    with pytest.raises(OSError, match=r"minesweeper cannot be cached in .* Set \$ADAPTKRY_CACHE to another folder"):
        load_benchmark(SMALL)


def test_filtered_versions_use_the_same_loader(offline):
    arrays = small_npz(offline / "data" / "chameleon_filtered" / "raw" / "chameleon_filtered.npz")
    graph = load_benchmark(replace(CARDS["chameleon-filtered"], nodes=12, features=7, classes=2))
    assert np.array_equal(graph.x.numpy(), arrays["node_features"])
    assert not graph.is_directed


def test_published_file_is_accepted_if_only_the_digest_of_a_rewritten_copy_is_known(offline):
    path = SMALL.files[0]
    card = replace(SMALL, rewritten=(path,), name="small")
    card.__dict__["sha256"] = {path: "0" * 64}  # replaces the cached property
    small_npz(raw_files.download_folder() / path)
    assert load_benchmark(card).nodes == 12
    small_npz(offline / "data" / path)
    with pytest.raises(ValueError, match=r"If it is the published file, move it to .*downloads; otherwise"):
        load_benchmark(card)


class Evil:
    def __reduce__(self):
        return print, ("hacked",)


def test_pickled_splits_of_unknown_digest_may_hold_arrays_only(tmp_path, capsys):
    split = {"train": np.arange(5), "valid": np.arange(5, 7), "test": np.arange(7, 9)}
    for name, content in (("good", split), ("evil", {"train": Evil()})):
        np.save(tmp_path / f"{name}.npy", np.array([content, content], dtype=object), allow_pickle=True)
    with (tmp_path / "old.npy").open("wb") as file:  # as written by NumPy 1 on Python 2
        header = {"descr": "|O", "fortran_order": False, "shape": (2,)}
        np.lib.format.write_array_header_1_0(file, header)
        pickled = pickle.dumps(np.array([split, split], dtype=object), protocol=2)
        file.write(pickled.replace(b"numpy._core", b"numpy.core"))
    for name in ("good.npy", "old.npy"):
        raw_files.check_only_arrays(tmp_path / name)
    for name, text in (
        ("evil.npy", r"NumPy arrays only; it refers to builtins\.print"),
        ("junk.npy", "NumPy arrays only"),
    ):
        (tmp_path / "junk.npy").write_bytes(pickle.dumps(Evil()))
        with pytest.raises(ValueError, match=text):
            raw_files.check_only_arrays(tmp_path / name)
    assert capsys.readouterr().out == ""


def test_ogb_is_imported_only_when_it_is_needed(offline, monkeypatch):
    card = replace(CARDS["ogbn-arxiv"], nodes=4, features=2, classes=3)
    for path in card.files:
        (offline / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (offline / "data" / path).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "ogb", None)
    for need in (load_benchmark, loaders.fetch):
        with pytest.raises(ImportError, match=r"need the package ogb. Install it: pip install 'adaptkry\[ogb\]'"):
            need(card)
    graph = {"node_feat": np.ones((4, 2), np.float32), "edge_index": np.array([[0, 1, 2], [1, 2, 3]])}
    parts = {"train": np.array([0]), "valid": np.array([1, 2]), "test": np.array([3])}
    graphs = {0: (graph, np.array([[0], [1], [2], [0]]))}
    dataset = type("Fake", (), {"__getitem__": lambda _, i: graphs[i], "get_idx_split": lambda _: parts})
    module = ModuleType("ogb.nodeproppred")
    module.NodePropPredDataset = lambda name, root: dataset()  # type: ignore[attr-defined]  # noqa: ARG005
    monkeypatch.setitem(sys.modules, "ogb", ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    found = load_benchmark(card)
    assert (found.is_directed, found.entries, found.y.tolist()) == (True, 3, [0, 1, 2, 0])
    assert splits.fixed(found).validation.tolist() == [[False, True, True, False]]


def test_cards_are_consistent():
    listed = {path for card in CARDS.values() for path in card.files}
    assert set(DIGESTS) <= listed
    for name, card in CARDS.items():
        assert name == card.name
        assert set(card.splits) <= set(splits.SPLITS)
        assert set((*card.rewritten, *card.pickles)) <= set(card.files)
        assert card.metric in ("accuracy", "roc_auc")
        if card.measured:
            assert sum(card.class_sizes or ()) <= (card.nodes or 0)
            assert len(card.class_sizes or ()) == card.classes
    assert len(CARDS) == 21


@pytest.mark.data
def test_packaged_digests_are_those_of_the_mirror():
    folder = raw_files.find(CARDS["cora"])
    if folder is None or not (folder / "SHA256SUMS").is_file():
        pytest.skip("no SHA256SUMS beside the raw files")
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    mirror = {path.removeprefix("./"): digest for digest, path in map(str.split, lines)}  # it may hold further files
    assert DIGESTS
    assert DIGESTS.items() <= mirror.items()


def test_load_knows_built_in_graphs_and_suggests_similar_names():
    assert load("csbm", nodes=50, seed=3).x.equal(csbm(nodes=50, seed=3).x)
    assert load("csbm-directed", nodes=50).is_directed
    with pytest.raises(ValueError, match=r"unknown graph 'chamelon'. Did you mean 'chameleon'"):
        load("chamelon")
    with pytest.raises(ValueError, match="root is only for benchmark graphs; got data for csbm"):
        load("csbm", root="data")
    with pytest.raises(FileNotFoundError, match=r"there is no file mine.csv"):
        load("mine.csv")


def test_normalised_features_are_those_of_pyg():
    random = np.random.default_rng(0)
    for x in (random.random((20, 5)) * 3 - 1, (random.random((20, 5)) < 0.3).astype(float), np.zeros((3, 2))):
        expected = NormalizeFeatures()(Data(x=torch.from_numpy(x.copy()))).x
        graph = Graph([[0], [1]], x)
        torch.testing.assert_close(normalised(graph).x, expected)
        torch.testing.assert_close(normalised(Graph([[0], [1]], sp.csr_array(x))).x, expected)
        assert np.array_equal(graph.x.numpy(), x)
    assert load("csbm", nodes=50, normalise=True).x.sum(1).max() <= 1 + 1e-5
    with pytest.raises(ValueError, match="normalise needs features; graph has none"):
        normalised(Graph([[0], [1]]))


def test_describe_has_a_row_for_every_name(offline):
    small_npz(offline / "data" / SMALL_FILE)
    rows = {row["name"]: row for row in describe()}
    assert set(rows) == {*CARDS, *BUILT_IN}
    assert rows["cora"]["figures"] == "measured"
    assert rows["minesweeper"]["figures"] == "published, not checked here"
    assert (rows["minesweeper"]["found"], rows["cora"]["found"]) == (offline / "data", None)


def accuracy(graph: Graph, direction) -> float:
    """Test accuracy of least squares on the features of nodes and neighbours, trained on half of the nodes."""
    x = torch.cat([graph.x, Propagation(graph, 1.0, direction=direction) @ graph.x, torch.ones(graph.nodes, 1)], 1)
    target, train = torch.nn.functional.one_hot(graph.y).float(), torch.arange(graph.nodes) % 2 == 0
    weights = torch.linalg.lstsq(x[train], target[train]).solution
    return float(((x[~train] @ weights).argmax(1) == graph.y[~train]).float().mean())


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("phi", [-0.6, 0.4])
def test_directed_csbm_can_be_learned_along_the_edges_only(classes, phi):
    graph = directed_csbm(nodes=2000, phi=phi, classes=classes, seed=1)
    out, both, against = (accuracy(graph, direction) for direction in ("out", "both", "in"))
    assert out > both + 0.03
    assert both > against + 0.1
    assert against == pytest.approx(1 / classes, abs=0.06)
    assert edge(graph) == pytest.approx(1 / classes, abs=0.03)


def test_directed_csbm_is_reproducible_and_refuses_what_csbm_refuses():
    one, same, other = (directed_csbm(nodes=100, seed=seed) for seed in (4, 4, 5))
    assert one.x.equal(same.x)
    assert one.indices.equal(same.indices)
    assert not one.x.equal(other.x)
    assert float(directed_csbm(nodes=2000, degree=8).degree("out").mean()) == pytest.approx(8, rel=0.05)
    with pytest.raises(ValueError, match=r"phi must be between -1 and 1; got 2\.( |$)"):
        directed_csbm(phi=2)


def test_quiet_hides_output_and_warnings(capsys):
    with loaders.quiet():
        print("Processing...")
        print("Done!", file=sys.stderr)
        warnings.warn("old", stacklevel=1)
    assert capsys.readouterr() == ("", "")
