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
from torch_geometric.datasets import HeterophilousGraphDataset, Planetoid
from torch_geometric.transforms import NormalizeFeatures

from adaptkry.graphs import load as datasets
from adaptkry.graphs import splits
from adaptkry.graphs.benchmarks import catalogue as cards
from adaptkry.graphs.benchmarks import loaders as benchmarks
from adaptkry.graphs.benchmarks import raw_files as raw
from adaptkry.graphs.benchmarks.catalogue import CARDS
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import edge
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.spectral.propagation import Propagation
from benchmark_graphs import benchmark_graph
from real import real_graph

MEASURED = [name for name, card in CARDS.items() if card.measured]
# baselines.md 0.3: undirected edges without loops, loops as the loader leaves them, isolated nodes
STRUCTURE = {
    "cora": (5278, 0, 0),
    "citeseer": (4552, 0, 48),
    "pubmed": (44324, 0, 0),
    "actor": (26659, 93, 0),
    "chameleon": (31371, 50, 0),
    "squirrel": (198353, 140, 0),
}


@pytest.fixture
def alone(tmp_path, monkeypatch) -> Path:
    """A machine with no data and no network: an empty mirror `data`, an empty cache, and a download that fails."""

    def fail(*_):
        raise OSError("Name or service not known")

    for loader in (Planetoid, HeterophilousGraphDataset):
        monkeypatch.setattr(loader, "download", fail)
    (tmp_path / "work").mkdir()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(raw, "REPOSITORY", tmp_path / "work")
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
def test_graph_is_what_its_card_says(name):
    graph, card = benchmark_graph(name), CARDS[name]
    assert (graph.nodes, graph.entries, graph.x.shape[1]) == (card.nodes, card.entries, card.features)
    assert graph.y[graph.y >= 0].bincount().tolist() == list(card.class_sizes or ())
    assert edge(graph) == pytest.approx(card.homophily, abs=5e-5)
    assert (graph.is_directed, graph.info.name, graph.info.metric) == (card.directed, name, card.metric)
    assert set(card.files) == set(card.sha256)


@pytest.mark.data
@pytest.mark.parametrize("name", STRUCTURE)
def test_edges_are_those_the_specification_counts(name):
    graph = benchmark_graph(name)
    plain = graph.undirected().without_self_loops()
    assert (plain.entries / 2, int(graph.adjacency.diagonal().sum()), int(graph.isolated().sum())) == STRUCTURE[name]


@pytest.mark.data
@pytest.mark.parametrize("name", MEASURED)
def test_fixed_splits_come_along_where_the_card_promises_them(name):
    graph = benchmark_graph(name)
    if "fixed" not in CARDS[name].splits:
        assert graph.info.masks is None
        return
    split = splits.fixed(graph)
    assert len(split) == (1 if CARDS[name].loader == "Planetoid" else 10)
    if name == "cora":
        assert [int(getattr(split, part).sum()) for part in splits.PARTS] == [140, 500, 1000]


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "chameleon"])
def test_graph_equals_what_pyg_gives(name):
    ours, theirs = benchmark_graph(name), real_graph(name)
    for part in ("indptr", "indices", "x", "y"):
        assert getattr(ours, part).equal(getattr(theirs, part))


@pytest.mark.data
def test_unlabelled_people_keep_label_minus_one():
    graph = benchmark_graph("johnshopkins55")
    assert int((graph.y == -1).sum()) == 418
    assert graph.classes == 2


def mirrored(name: str, folder: Path) -> Path:
    """A copy of a graph's raw files that may be damaged."""
    card = CARDS[name]
    place = raw.find(card) or pytest.skip(f"{name}: no raw files here")
    for path in card.files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place / path, folder / path)
    return folder


@pytest.mark.data
@pytest.mark.parametrize(("name", "file"), [("cora", 6), ("chameleon", 0)])
def test_file_with_a_wrong_checksum_is_refused_unread(name, file, tmp_path, monkeypatch):
    folder, path = mirrored(name, tmp_path), CARDS[name].files[file]
    with (folder / path).open("r+b") as damaged:
        damaged.seek(100)
        damaged.write(b"!")
    monkeypatch.setattr(benchmarks, "parse", lambda *_: pytest.fail("it was parsed"))
    monkeypatch.setenv("ADAPTKRY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"is not the file .* was not opened") as caught:
        datasets.load(name, root=folder)
    for part in (str(folder / path), cards.DIGESTS[path], raw.digest(folder / path), CARDS[name].source):
        assert part in str(caught.value)


@pytest.mark.data
def test_downloaded_pickle_with_a_wrong_checksum_is_refused_unread_and_not_kept(alone, monkeypatch):
    monkeypatch.setattr(raw, "REPOSITORY", Path(__file__).resolve().parents[2])
    good = mirrored("cora", alone / "good")
    monkeypatch.setattr(raw, "places", lambda *_: [alone / "data", raw.downloads()])

    def download(self):
        for path in CARDS["cora"].files:
            shutil.copyfile(good / path, Path(self.raw_dir) / Path(path).name)
        (Path(self.raw_dir) / "ind.cora.graph").write_bytes(b"cos\nsystem\n(S'echo hacked'\ntR.")

    monkeypatch.setattr(Planetoid, "download", download)
    with pytest.raises(ValueError, match=r"ind\.cora\.graph is not the file cora needs"):
        datasets.load("cora")
    assert not list(raw.downloads().rglob("ind.*"))


def test_download_is_checked_kept_and_not_repeated(alone, monkeypatch):
    calls = []

    def download(self):
        calls.append(self.raw_dir)
        small_npz(Path(self.raw_dir) / "minesweeper.npz")

    monkeypatch.setattr(HeterophilousGraphDataset, "download", download)
    graph = benchmarks.load(SMALL)
    again = benchmarks.load(SMALL)
    assert len(calls) == 1
    assert (raw.downloads() / SMALL_FILE).is_file()
    assert [path.name for path in raw.downloads().iterdir()] == ["minesweeper"]
    assert graph.indices.equal(again.indices)
    assert alone / "cache" in raw.downloads().parents


def test_download_without_a_network_says_which_files_to_put_where(alone):
    with pytest.raises(FileNotFoundError, match=r"downloading failed .*Name or service not known") as caught:
        datasets.load("cora")
    for part in (*CARDS["cora"].files, str(alone / "data"), CARDS["cora"].source, "$ADAPTKRY_DATA"):
        assert part in str(caught.value)
    assert not list(raw.downloads().iterdir())
    with pytest.raises(FileNotFoundError, match="downloading is switched off"):
        datasets.load("roman-empire", download=False)


def test_incomplete_mirror_names_only_the_missing_files(alone):
    (alone / "data" / "Cora" / "raw").mkdir(parents=True)
    for path in CARDS["cora"].files[:-1]:
        (alone / "data" / path).write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"and put Cora/raw/ind\.cora\.test\.index under"):
        datasets.load("cora", download=False)


def test_mirror_gives_the_graph_and_pyg_reads_it_once(alone, monkeypatch, capfd):
    arrays = small_npz(alone / "data" / SMALL_FILE)
    graph = benchmarks.load(SMALL)
    wanted = Graph(arrays["edges"].T, arrays["node_features"], arrays["node_labels"])
    assert graph.indices.equal(wanted.indices)
    assert graph.x.equal(wanted.x)
    assert graph.info.metric == "roc_auc"
    for part, key in (("train", "train_masks"), ("validation", "val_masks"), ("test", "test_masks")):
        assert np.array_equal((graph.info.masks or {})[part].numpy(), arrays[key])
    monkeypatch.setattr(benchmarks, "parse", lambda *_: pytest.fail("it was parsed again"))
    again = benchmarks.load(SMALL)
    for part in ("indptr", "indices", "x", "y"):
        assert getattr(again, part).equal(getattr(graph, part))
    assert again.info.name == "minesweeper"
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in (alone / "data" / "minesweeper").iterdir()] == ["raw"]  # nothing written beside it


def test_other_files_are_another_graph_and_a_damaged_cache_is_made_again(alone):
    small_npz(alone / "data" / SMALL_FILE)
    first = benchmarks.load(SMALL)
    small_npz(alone / "data" / SMALL_FILE, seed=1)
    second = benchmarks.load(SMALL)
    assert not first.x.equal(second.x)
    for kept in (alone / "cache" / "graphs").iterdir():
        kept.write_bytes(b"PK damaged")
    assert benchmarks.load(SMALL).x.equal(second.x)


def test_root_comes_before_the_environment(alone):
    small_npz(alone / "data" / SMALL_FILE)
    arrays = small_npz(alone / "mine" / SMALL_FILE, seed=1)
    assert np.array_equal(benchmarks.load(SMALL, alone / "mine").x.numpy(), arrays["node_features"])
    with pytest.raises(FileNotFoundError, match=r"the data folder .*nowhere does not exist"):
        datasets.load("cora", root=alone / "nowhere")


def test_file_with_other_counts_than_its_card_is_refused(alone):
    small_npz(alone / "data" / SMALL_FILE, nodes=13)
    with pytest.raises(ValueError, match="minesweeper should have nodes 12, but its files gave 13"):
        benchmarks.load(SMALL)


def test_cache_that_cannot_be_written_is_one_clear_error(alone, monkeypatch):
    small_npz(alone / "data" / SMALL_FILE)
    (alone / "file").write_text("")
    monkeypatch.setenv("ADAPTKRY_CACHE", str(alone / "file"))
    with pytest.raises(OSError, match=r"minesweeper cannot be kept in .* Set \$ADAPTKRY_CACHE elsewhere"):
        benchmarks.load(SMALL)


def test_filtered_versions_go_through_the_same_loader(alone):
    arrays = small_npz(alone / "data" / "chameleon_filtered" / "raw" / "chameleon_filtered.npz")
    graph = benchmarks.load(replace(CARDS["chameleon-filtered"], nodes=12, features=7, classes=2))
    assert np.array_equal(graph.x.numpy(), arrays["node_features"])
    assert not graph.is_directed


def test_published_file_is_taken_where_only_our_copys_digest_is_known(alone):
    path = SMALL.files[0]
    card = replace(SMALL, rewritten=(path,), name="small")
    card.__dict__["sha256"] = {path: "0" * 64}  # what the cached property would hold
    small_npz(raw.downloads() / path)
    assert benchmarks.load(card).nodes == 12
    small_npz(alone / "data" / path)
    with pytest.raises(ValueError, match=r"If it is the published file, put it under .*downloads instead"):
        benchmarks.load(card)


class Evil:
    def __reduce__(self):
        return print, ("hacked",)


def test_pickled_splits_of_unknown_digest_may_hold_arrays_only(tmp_path, capsys):
    split = {"train": np.arange(5), "valid": np.arange(5, 7), "test": np.arange(7, 9)}
    for name, content in (("good", split), ("evil", {"train": Evil()})):
        np.save(tmp_path / f"{name}.npy", np.array([content, content], dtype=object), allow_pickle=True)
    with (tmp_path / "old.npy").open("wb") as file:  # as NumPy 1 on Python 2 would have written it
        header = {"descr": "|O", "fortran_order": False, "shape": (2,)}
        np.lib.format.write_array_header_1_0(file, header)
        made = pickle.dumps(np.array([split, split], dtype=object), protocol=2)
        file.write(made.replace(b"numpy._core", b"numpy.core"))
    for name in ("good.npy", "old.npy"):
        raw.only_arrays(tmp_path / name)
    for name, text in (("evil.npy", r"but it names builtins\.print"), ("junk.npy", "must hold NumPy arrays")):
        (tmp_path / "junk.npy").write_bytes(pickle.dumps(Evil()))
        with pytest.raises(ValueError, match=text):
            raw.only_arrays(tmp_path / name)
    assert capsys.readouterr().out == ""


def test_ogb_is_asked_for_only_when_it_is_needed(alone, monkeypatch):
    card = replace(CARDS["ogbn-arxiv"], nodes=4, features=2, classes=3)
    for path in card.files:
        (alone / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (alone / "data" / path).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "ogb", None)
    for load in (lambda: benchmarks.load(card), lambda: benchmarks.fetch(card)):
        with pytest.raises(ImportError, match=r"need the package ogb. Install it: pip install 'adaptkry\[ogb\]'"):
            load()
    graph = {"node_feat": np.ones((4, 2), np.float32), "edge_index": np.array([[0, 1, 2], [1, 2, 3]])}
    parts = {"train": np.array([0]), "valid": np.array([1, 2]), "test": np.array([3])}
    made = {0: (graph, np.array([[0], [1], [2], [0]]))}
    kind = type("Fake", (), {"__getitem__": lambda _, i: made[i], "get_idx_split": lambda _: parts})
    module = ModuleType("ogb.nodeproppred")
    module.NodePropPredDataset = lambda name, root: kind()  # type: ignore[attr-defined]  # noqa: ARG005
    monkeypatch.setitem(sys.modules, "ogb", ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    found = benchmarks.load(card)
    assert (found.is_directed, found.entries, found.y.tolist()) == (True, 3, [0, 1, 2, 0])
    assert splits.fixed(found).validation.tolist() == [[False, True, True, False]]


def test_cards_are_consistent():
    listed = {path for card in CARDS.values() for path in card.files}
    assert set(cards.DIGESTS) <= listed
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
    place = raw.find(CARDS["cora"])
    if place is None or not (place / "SHA256SUMS").is_file():
        pytest.skip("no SHA256SUMS beside the raw files")
    lines = (place / "SHA256SUMS").read_text().splitlines()
    assert {path.removeprefix("./"): digest for digest, path in map(str.split, lines)} == cards.DIGESTS


def test_load_knows_built_in_graphs_and_the_nearest_name():
    assert datasets.load("csbm", nodes=50, seed=3).x.equal(csbm(nodes=50, seed=3).x)
    assert datasets.load("csbm-directed", nodes=50).is_directed
    with pytest.raises(ValueError, match=r"unknown graph 'chamelon'. Did you mean 'chameleon'"):
        datasets.load("chamelon")
    with pytest.raises(ValueError, match="root is for benchmarks"):
        datasets.load("csbm", root="data")
    with pytest.raises(FileNotFoundError, match=r"there is no file mine.csv"):
        datasets.load("mine.csv")


def test_normalised_features_are_those_of_pyg():
    random = np.random.default_rng(0)
    for x in (random.random((20, 5)) * 3 - 1, (random.random((20, 5)) < 0.3).astype(float), np.zeros((3, 2))):
        wanted = NormalizeFeatures()(Data(x=torch.from_numpy(x.copy()))).x
        graph = Graph([[0], [1]], x)
        torch.testing.assert_close(datasets.normalised(graph).x, wanted)
        torch.testing.assert_close(datasets.normalised(Graph([[0], [1]], sp.csr_array(x))).x, wanted)
        assert np.array_equal(graph.x.numpy(), x)
    assert datasets.load("csbm", nodes=50, normalise=True).x.sum(1).max() <= 1 + 1e-5
    with pytest.raises(ValueError, match="normalise needs features, but graph has none"):
        datasets.normalised(Graph([[0], [1]]))


def test_describe_has_a_row_for_every_name(alone):
    small_npz(alone / "data" / SMALL_FILE)
    rows = {row["name"]: row for row in datasets.describe()}
    assert set(rows) == {*CARDS, *datasets.BUILT_IN}
    assert rows["cora"]["figures"] == "measured"
    assert rows["minesweeper"]["figures"] == "published, not checked here"
    assert (rows["minesweeper"]["found"], rows["cora"]["found"]) == (alone / "data", None)


def accuracy(graph: Graph, direction) -> float:
    """Half of the nodes teach a least-squares classifier of own and neighbours' features, half are scored."""
    x = torch.cat([graph.x, Propagation(graph, 1.0, direction=direction) @ graph.x, torch.ones(graph.nodes, 1)], 1)
    target, taught = torch.nn.functional.one_hot(graph.y).float(), torch.arange(graph.nodes) % 2 == 0
    weights = torch.linalg.lstsq(x[taught], target[taught]).solution
    return float(((x[~taught] @ weights).argmax(1) == graph.y[~taught]).float().mean())


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("phi", [-0.6, 0.4])
def test_directed_csbm_is_read_along_the_edges_only(classes, phi):
    graph = directed_csbm(nodes=2000, phi=phi, classes=classes, seed=1)
    out, both, against = (accuracy(graph, direction) for direction in ("out", "both", "in"))
    assert out > both + 0.03
    assert both > against + 0.1
    assert against == pytest.approx(1 / classes, abs=0.06)
    assert edge(graph) == pytest.approx(1 / classes, abs=0.03)


def test_directed_csbm_repeats_itself_and_refuses_what_csbm_refuses():
    one, same, other = (directed_csbm(nodes=100, seed=seed) for seed in (4, 4, 5))
    assert one.x.equal(same.x)
    assert one.indices.equal(same.indices)
    assert not one.x.equal(other.x)
    assert float(directed_csbm(nodes=2000, degree=8).degree("out").mean()) == pytest.approx(8, rel=0.05)
    with pytest.raises(ValueError, match=r"phi must lie in \[-1, 1\], but 2 came"):
        directed_csbm(phi=2)


def test_quiet_lets_nothing_through(capsys):
    with benchmarks.quiet():
        print("Processing...")
        print("Done!", file=sys.stderr)
        warnings.warn("old", stacklevel=1)
    assert capsys.readouterr() == ("", "")
