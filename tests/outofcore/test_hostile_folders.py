"""Damaged and forged graph folders, basis folders and manifests, and absurd sizes: refused in one sentence.

A case is a change of a valid folder and a part of the message. `seal` writes the checksums of the changed arrays into
the manifest, as somebody would who forges a folder.
"""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph, Info
from adaptkry.outofcore import BasisFolder, GraphFolder, finalise, generate, propagate, write_graph
from adaptkry.outofcore.npy_files import NpyFile, file_checksum, npy_header
from adaptkry.training.data import FolderData, open_basis_folder
from adaptkry.training.folder_recipe import folder_recipe
from basis_on_disk import TAUS, assert_same_bits_as_in_memory, content, small_graph
from refusals import assert_refusal, refused, tree

Change = Callable[[Path], Any]
OPTIONS: dict[str, Any] = {"taus": TAUS, "degree": 2, "columns": 2}
FEATURES = 5


def named_graph(directed: bool = False) -> Graph:
    """A graph with ids, class names and feature names."""
    graph = small_graph(directed=directed)
    ids = [f"id {i}" for i in range(60)]
    graph.info = Info("shop", class_names=["a", "b", "c"], node_ids=ids, feature_names=list("vwxyz"))
    return graph


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> Path:
    """`g`, a directed graph folder, and `b`, its basis in three blocks; only for reading."""
    folder = tmp_path_factory.mktemp("valid")
    write_graph(named_graph(directed=True), folder / "g")
    propagate(folder / "g", folder / "b", **OPTIONS)
    shutil.rmtree(folder / "b.work")
    return folder


@pytest.fixture
def world(valid, tmp_path) -> Path:
    """A copy of the valid folders that a test may change."""
    return Path(shutil.copytree(valid, tmp_path / "world"))


# Changes


def edit(**fields) -> Change:
    """Set fields of the manifest; None removes one."""

    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        changed = {**json.loads(path.read_text()), **fields}
        path.write_text(json.dumps({name: value for name, value in changed.items() if value is not None}))

    return change


def text(written: str | bytes) -> Change:
    """Replace the manifest."""
    encoded = written if isinstance(written, bytes) else written.encode()
    return lambda folder: (folder / "manifest.json").write_bytes(encoded)


def seal(folder: Path) -> None:
    """Write the checksums of the arrays that are there into the manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    suffix = "" if manifest["kind"] == "basis" else ".npy"
    present = [name for name in manifest["xxh128"] if (folder / f"{name}{suffix}").is_file()]
    manifest["xxh128"] |= {name: file_checksum(folder / f"{name}{suffix}") for name in present}
    path.write_text(json.dumps(manifest))


def array(name: str, function: Callable[[np.ndarray], np.ndarray], *, sealed: bool = True) -> Change:
    """Replace an array by a function of it."""

    def change(folder: Path) -> None:
        np.save(folder / name, function(np.load(folder / name)))
        if sealed:
            seal(folder)

    return change


def put(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A function that changes one value of an array in the middle."""

    def change(found: np.ndarray) -> np.ndarray:
        found = found.copy()
        found.reshape(-1)[found.size // 2] = value
        return found

    return change


def header(name: str, written: bytes, *, sealed: bool = True) -> Change:
    """Replace a file by the header of an array, or by anything else."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(written)
        if sealed:
            seal(folder)

    return change


def npy(fields: str) -> bytes:
    """An .npy file with this text as its header, and no numbers."""
    body = fields.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def cut(name: str, count: int) -> Change:
    """Remove the last bytes of a file."""
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - count)


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def folder_in_place_of(name: str) -> Change:
    return lambda folder: ((folder / name).unlink(), (folder / name).mkdir())


def loop(name: str) -> Change:
    return lambda folder: ((folder / name).unlink(), (folder / name).symlink_to(name))


DEEP = "[" * 100_000
MANIFESTS: list[tuple[Change, str]] = [  # for both kinds of folders
    (text(""), "must be|graph is needed|it has no"),
    (text("{"), ""),
    (text(DEEP), ""),
    (text('{"kind": ' + DEEP), ""),
    (text("[]"), ""),
    (text("null"), ""),
    (text("3"), ""),
    (text(b"\xff\xfe\x00"), ""),
    (text('{"kind": ["graph"]}'), ""),
    (text('{"kind": 1e999}'), ""),
    (text("9" * 5000), ""),
    (remove("manifest.json"), ""),
    (folder_in_place_of("manifest.json"), ""),
    (loop("manifest.json"), ""),
    (edit(format=99), "must have format"),
    (edit(format=True), "must have format"),
    (edit(format=None), "must have format"),
    (edit(nodes=None), "'nodes' in .* must be an integer from 1"),
    (edit(nodes="60"), "'nodes'"),
    (edit(nodes=60.0), "'nodes'"),
    (edit(nodes=True), "'nodes'"),
    (edit(nodes=0), "'nodes'"),
    (edit(nodes=-60), "'nodes'"),
    (edit(nodes=59), "shape|rows"),
    (edit(nodes=10**12), "'nodes'"),
    (edit(nodes=10**30), "'nodes'"),
    (edit(nodes=[60]), "'nodes'"),
    (edit(features=-1), "'features'"),
    (edit(features=10**9), "feature"),
    (edit(features=4), "shape|cover|feature"),
    (edit(classes=-1), "'classes'"),
    (edit(classes=1.5), "'classes'"),
    (edit(classes=10**9), "'classes' in .* must be an integer from 0 to"),
    (edit(classes=2), "classes|numbers from -1 to 1"),
    (edit(name=7), "'name' in .* must be text"),
    (edit(metric="f1"), "'metric' in .* must be accuracy or roc_auc; got 'f1'"),
    (edit(metric=["accuracy"]), "'metric'"),
    (edit(class_names=["a"]), "'class_names' in .* must be 3 names"),
    (edit(class_names="abc"), "'class_names'"),
    (edit(class_names=["a", "b", 3]), "'class_names'"),
    (edit(feature_names=["v"]), "'feature_names' in .* must be 5 names"),
    (edit(feature_names={"v": 1}), "'feature_names'"),
    (edit(known_as=3), "'known_as'"),
    (edit(xxh128=None), "'xxh128'"),
    (edit(xxh128=[]), "'xxh128'"),
    (edit(xxh128={}), "checksum"),
    (edit(xxh128={"indptr": 3}), "'xxh128'"),
    (edit(xxh128={"../../etc/passwd": "0" * 32}), "checksum"),
]
NO_OBJECTS = b"".join([npy_header((61,), np.dtype(np.int64))[:-1].replace(b"<i8", b"|O "), b"\n", bytes(8 * 61)])
HEADERS: list[tuple[bytes, str]] = [  # of an array that a folder needs
    (b"", "cannot be read"),
    (b"\x93NUMPY", "cannot be read"),
    (b"PK\x03\x04 not a zip file", "cannot be read"),
    (NO_OBJECTS, "cannot be read"),
    (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (61,), }"), "cannot be read"),  # without numbers
    (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (10**99,), }"), "cannot be read"),
    (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,), }"), "cannot be read"),
    (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }"), ""),
    (npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }") + bytes(8), "axes|shape"),
    (npy("{'descr': '<i8', 'fortran_order': False, 'shape': 'ab', }"), "cannot be read"),
    (npy("{'descr': '<q9', 'fortran_order': False, 'shape': (61,), }"), "cannot be read"),
    (npy("{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (1,), }") + bytes(8), ""),
    (npy("__import__('os').mkdir('pwned')"), "cannot be read"),
    (npy("(" * 100), "cannot be read"),
    (npy("{"), "cannot be read"),
    (npy("'"), "cannot be read"),
    (npy("\\"), "cannot be read"),
    (npy("{}"), "cannot be read"),
]
GRAPHS: list[tuple[Change, str]] = [
    *MANIFESTS,
    *((header("indptr.npy", written), match) for written, match in HEADERS),
    (edit(kind="basis"), "basis"),
    (edit(entries="7"), "'entries'"),
    (edit(entries=10**15), "shape"),
    (edit(symmetric=1), "'symmetric' in .* must be true or false"),
    (edit(symmetric="no"), "'symmetric'"),
    (remove("indices.npy"), "indices.npy"),
    (remove("features.npy"), "features.npy"),
    (remove("node_ids.npy"), "node_ids.npy"),
    (folder_in_place_of("labels.npy"), "labels.npy"),
    (loop("labels.npy"), "labels.npy"),
    (cut("features.npy", 1), "features.npy"),
    (cut("labels.npy", 8), "labels.npy"),
    (array("features.npy", put(7), sealed=False), "damaged or was changed"),
    (array("features.npy", put(np.nan)), "must be finite"),
    (array("features.npy", put(np.inf)), "must be finite"),
    (array("features.npy", lambda x: x[:, :0]), "shape"),
    (array("features.npy", lambda x: x[:, 0]), "axes"),
    (array("features.npy", lambda x: x.astype(np.float16)), "must be float32 or float64"),
    (array("features.npy", lambda x: x.astype(">f4")), "must be float32 or float64"),
    (array("features.npy", lambda x: x.astype("S4")), "must be float32 or float64"),
    (array("features.npy", np.asfortranarray), "C order"),
    (array("labels.npy", put(3)), "classes from 0 to 2"),
    (array("labels.npy", put(-2)), "classes from 0 to 2"),
    (array("labels.npy", put(10**12)), "classes from 0 to 2"),
    (array("labels.npy", lambda y: y.astype(np.float64)), "must be int64"),
    (array("indices.npy", put(60)), r"node numbers 0 \.\. 59; got 60"),
    (array("indices.npy", put(-1)), "node numbers"),
    (array("indices.npy", put(-(2**31))), "node numbers"),
    (array("indptr.npy", put(10**6)), "must increase from 0"),
    (array("indptr.npy", put(-1)), "must increase from 0"),
    (array("indptr.npy", lambda p: p[::-1].copy()), "must increase from 0"),
    (array("indptr.npy", lambda p: p[:1]), "shape"),
    (array("node_ids.npy", lambda i: i[:5]), "shape"),
    (array("node_ids.npy", lambda i: np.zeros(len(i))), "bytes .UTF-8., text or integers"),
    (array("node_ids.npy", lambda i: i.astype("V8")), "bytes .UTF-8., text or integers"),
]
BASES: list[tuple[Change, str]] = [
    *MANIFESTS,
    *((header("rows.npy", written), match) for written, match in HEADERS),
    (edit(kind="graph"), "graph"),
    (edit(degree=-1), "'degree'"),
    (edit(degree=10**6), "must be float32|shape"),
    (edit(degree=10**19), "'degree'"),
    (edit(rows=0), "'rows'"),
    (edit(rows=61), "'rows'"),
    (edit(rows=59), "must be"),
    (edit(seed=-1), "'seed'"),
    (edit(dtype="float64"), "'dtype' in .* must be float32 or bfloat16"),
    (edit(dtype="bfloat16"), "must be uint16"),
    (edit(row_selection="some"), "'row_selection'"),
    (edit(taus=[]), "'taus'"),
    (edit(taus=[0.5, "1", 1.4]), "'taus'"),
    (edit(taus=[0.5, 0.5, 1.0]), "'taus'"),
    (edit(taus=[0.5, 1.0, float("nan")]), "'taus'"),
    (edit(taus=[0.5, 1.0, float("inf")]), "'taus'"),
    (edit(taus=[0.5, 1.0, -1]), "'taus'"),
    (edit(taus=[[0.5], 1.0, 1.4]), "'taus'"),
    (edit(taus=[0.5]), "must be float32"),
    (edit(directions=[]), "'directions'"),
    (edit(directions=["up"]), "'directions'"),
    (edit(directions=["both", "both"]), "'directions'"),
    (edit(directions=[["both"]]), "'directions'"),
    (edit(directions="both"), "'directions'"),
    (edit(blocks=[]), "must cover columns"),
    (edit(blocks={}), "'blocks'"),
    (edit(blocks=[0, 5]), "'blocks'"),
    (edit(blocks=[[0, 5, 5]]), "'blocks'"),
    (edit(blocks=[["0", "5"]]), "'blocks'"),
    (edit(blocks=[[0, 2], [2, 2], [2, 5]]), "must cover columns"),
    (edit(blocks=[[2, 4], [0, 2], [4, 5]]), "must cover columns"),
    (edit(blocks=[[0, 10**18]]), "must cover columns"),
    (edit(blocks=[[0, 5]]), "must be finished"),
    (edit(blocks=[[-1, 5]]), "'blocks'"),
    (remove("block-2-4.npy"), "Missing columns: 2..3"),
    (remove("labels.npy"), "labels.npy"),
    (folder_in_place_of("block-0-2.npy"), "Missing columns"),
    (cut("block-2-4.npy", 4), "block-2-4.npy"),
    (array("block-2-4.npy", put(7), sealed=False), "it is damaged: block-2-4.npy"),
    (array("block-2-4.npy", lambda x: x[:, :, :5].copy()), "must be float32"),
    (array("block-2-4.npy", lambda x: x.astype(np.float64)), "must be float32"),
    (lambda folder: shutil.copy(folder / "block-0-2.npy", folder / "block-2-4.npy"), "it is damaged: block-2-4.npy"),
    (array("rows.npy", put(60)), "numbers from 0 to 59"),
    (array("rows.npy", put(-1)), "numbers from 0 to 59"),
    (array("rows.npy", lambda r: r[:9]), "of shape .60."),
    (array("rows.npy", lambda r: r.astype(np.float32)), "must be int64"),
    (array("labels.npy", put(3)), "numbers from -1 to 2"),
    (array("labels.npy", put(-5)), "numbers from -1 to 2"),
    (array("labels.npy", put(2**62)), "numbers from -1 to 2"),
    (array("node_ids.npy", lambda i: i[:3]), "of shape .60."),
    (array("node_ids.npy", lambda i: np.zeros(len(i))), "bytes .UTF-8., text or integers"),
]


def read_everything(path: Path) -> None:
    """What `fit` and `predict` read of a basis folder."""
    folder = open_basis_folder(path)
    data = FolderData(folder)
    assert len(data.labels) == len(folder.rows) == folder.count
    assert len(folder.node_ids(folder.rows * 0)) == folder.count
    assert folder.slab(0, folder.count).shape[1] == folder.count
    data.check_recipe(folder_recipe(folder))


@pytest.mark.parametrize(("change", "match"), GRAPHS, ids=range(len(GRAPHS)))
def test_a_changed_graph_folder_is_refused_and_leaves_nothing(world, change, match):
    change(world / "g")
    shutil.rmtree(world / "b")
    before = tree(world)
    refused(lambda: propagate(world / "g", world / "new", **OPTIONS), match)
    assert tree(world) == before
    assert not Path("pwned").exists()


@pytest.mark.parametrize(("change", "match"), BASES, ids=range(len(BASES)))
def test_a_changed_basis_folder_is_refused(world, change, match):
    change(world / "b")
    refused(lambda: read_everything(world / "b"), match)
    assert not Path("pwned").exists()


REPAIRS = [change for change, _ in BASES[len(MANIFESTS) + len(HEADERS) - 2 :]]


@pytest.mark.parametrize("change", REPAIRS, ids=range(len(REPAIRS)))
def test_a_changed_basis_folder_is_refused_or_repaired_by_the_same_command(world, change):
    """A block of another graph is never kept: the command refuses the folder, or its numbers are right."""
    change(world / "b")
    try:
        basis = propagate(world / "g", world / "b", **OPTIONS)
    except (ValueError, TypeError, OSError) as error:
        assert_refusal(error)
    else:
        assert_same_bits_as_in_memory(basis, named_graph(directed=True))
        read_everything(world / "b")


# Fuzzing: flip, cut, swap, forge


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FUZZ = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def opens_or_is_refused(folder: Path) -> None:
    """Open a folder of either kind and read all of it; anything but success and a refusal is a bug."""
    try:
        if (folder / "indptr.npy").exists():
            propagate(folder, folder.parent / "fuzzed", **OPTIONS)
        else:
            read_everything(folder)
    except (ValueError, TypeError, OSError) as error:
        assert_refusal(error)
    shutil.rmtree(folder.parent / "fuzzed", ignore_errors=True)
    shutil.rmtree(folder.parent / "fuzzed.work", ignore_errors=True)


@pytest.fixture(scope="module")
def fuzzed(valid, tmp_path_factory) -> Path:
    """A copy of the valid folders whose changes are undone after every example."""
    return Path(shutil.copytree(valid, tmp_path_factory.mktemp("fuzzed") / "world"))


@pytest.mark.parametrize("kind", ["g", "b"])
@FUZZ
@given(data=st.data())
def test_a_forged_field_of_a_manifest_is_refused_or_harmless(fuzzed, kind, data):
    path = fuzzed / kind / "manifest.json"
    before = path.read_bytes()
    manifest = json.loads(before)
    names = data.draw(st.lists(st.sampled_from(sorted(manifest)), min_size=1, max_size=3, unique=True))
    forge = st.tuples(st.just("set"), VALUES) | st.tuples(st.just("swap"), st.sampled_from(sorted(manifest)))
    for name in names:
        how, value = data.draw(forge)
        manifest[name] = value if how == "set" else manifest[value]
    try:
        path.write_text(json.dumps(manifest))
        opens_or_is_refused(fuzzed / kind)
    finally:
        path.write_bytes(before)


FILES = [("g", "manifest.json"), ("g", "indptr.npy"), ("g", "indices.npy"), ("g", "labels.npy"), ("g", "node_ids.npy")]
FILES += [("b", name) for name in ("manifest.json", "rows.npy", "labels.npy", "node_ids.npy", "block-2-4.npy")]


@pytest.mark.parametrize(("kind", "name"), FILES, ids=lambda value: value)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_or_missing_bytes_are_refused_or_harmless(fuzzed, kind, name, data):
    """Also if the checksums are right, so that only the content can tell."""
    path, manifest = fuzzed / kind / name, fuzzed / kind / "manifest.json"
    before = path.read_bytes(), manifest.read_bytes()
    content_ = bytearray(before[0])
    for position in data.draw(st.lists(st.integers(0, len(content_) - 1), min_size=1, max_size=4)):
        content_[position] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        del content_[data.draw(st.integers(0, len(content_))) :]
    try:
        path.write_bytes(content_)
        if name != "manifest.json":
            seal(fuzzed / kind)
        opens_or_is_refused(fuzzed / kind)
    finally:
        path.write_bytes(before[0])
        manifest.write_bytes(before[1])


@pytest.mark.parametrize("kind", ["g", "b"])
def test_swapped_files_are_refused(world, kind):
    """Every pair of arrays, with right checksums: only type, shape and range can tell."""
    names = sorted(path.name for path in (world / kind).glob("*.npy"))
    action = partial(propagate, out=world / "new", **OPTIONS) if kind == "g" else read_everything
    for one, other in pairwise(names):
        folder = Path(shutil.copytree(world / kind, world / "swapped"))
        (folder / one).rename(folder / "x")
        (folder / other).rename(folder / one)
        (folder / "x").rename(folder / other)
        if not {one, other} <= {"block-0-2.npy", "block-2-4.npy"}:  # which have the same shape
            seal(folder)
        refused(partial(action, folder))
        shutil.rmtree(folder)


# Arguments


SIZES: list[tuple[str, str]] = [
    ("propagate csbm --taus 1 --out b --degree 10000000000000000000", "degree must be at most"),
    ("propagate csbm --taus 1 --out b --degree 1" + "0" * 400, "degree must be at most"),
    ("propagate csbm --taus 1 --out b --degree 10000 --memory 1MiB", "Use --memory"),
    ("propagate csbm-directed --taus 1 --out b --degree 2 --directions in --memory 1MiB", "Use --memory"),
    ("propagate csbm --taus 1 --out b --degree 2 --memory 0", "Use --memory"),
    ("propagate csbm --taus 1 --out b --degree 2 --memory " + "9" * 400, "memory must be less than"),
    ("propagate csbm --taus 1 --out b --degree 2 --memory 2000000TiB", "memory must be less than"),
    ("propagate csbm --taus 1 --out b --degree 2 --memory -1", "size with a unit"),
    ("propagate csbm --taus 1 --out b --degree 2 --memory inf", "size with a unit"),
    ("propagate csbm --taus 1e999 --out b --degree 2", "tau must be positive and finite"),
    ("propagate csbm --taus nan --out b --degree 2", "tau must be positive and finite"),
    ("propagate csbm --taus 1 --out b --degree 2 --columns 0", "columns"),
    ("propagate csbm --taus 1 --out b --degree 2 --rows no.txt", "rows must be all, labelled or a file"),
    ("propagate csbm --taus 1 --out b --degree 2 --features no.npy", "there is no such file"),
    ("propagate nowhere --taus 1 --out b --degree 2", "nowhere"),
    ("propagate csbm --taus 1 --out /dev/null --degree 2", "must be writable"),
    ("propagate csbm --taus 1 --out / --degree 2", "must be"),
    ("generate b --nodes inf --entries 100", "must be an integer"),
    ("generate b --nodes nan --entries 100", "must be an integer"),
    ("generate b --nodes 1e400 --entries 100", "must be an integer"),
    ("generate b --nodes 1e300 --entries 100", "nodes must be at most 2147483647"),
    ("generate b --nodes 9007199254740993 --entries 100", "got 9007199254740993"),
    ("generate b --nodes 1000.5 --entries 100", "must be an integer"),
    ("generate b --nodes -5 --entries 100", "nodes must be 0 or more"),
    ("generate b --nodes 1000 --entries inf", "must be an integer"),
    ("generate b --nodes 1000 --entries 1e300", "entries must be at most"),
    ("generate b --nodes 2e9 --entries 1e18", "entries must be at most|on disk|memory"),
    ("generate b --nodes 2e9 --entries 1e17", "on disk|memory"),
    ("generate b --nodes 1000 --entries 1000 --features 1" + "0" * 400, "features must be at most"),
    ("generate b --nodes 1000 --entries 1000 --features 2147483647", "memory|on disk"),
    ("generate b --nodes 1000 --entries 1000 --classes 501", "at least 2 nodes each"),
    ("generate b --nodes 1e6 --entries 1000 --classes 100000", "classes must be at most 32768"),
    ("generate b --nodes 1e6 --entries 1000 --classes 32768 --features 1e6", "integer"),
    ("generate b --nodes 1e6 --entries 1000 --classes 32768 --features 1000000", "memory"),
    ("generate b --nodes 1000 --entries 1000 --labelled nan", "labelled"),
    ("generate /dev/null --nodes 1000 --entries 1000", "must be writable"),
]


@pytest.mark.parametrize(("words", "match"), SIZES, ids=range(len(SIZES)))
def test_absurd_sizes_are_refused_before_anything_is_allocated_or_written(words, match, tmp_path, command):
    shown = command(*words.split(), code=2, cwd=tmp_path).err
    assert any(part in " ".join(shown.split()) for part in match.split("|")), shown
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["features.npy", "labels.npy", "indptr.npy", "indices.npy", "notes.txt", "buckets"])
def test_files_of_the_user_are_never_overwritten(tmp_path, name):
    """An output folder must be new, empty or of the same command."""
    for folder in ("out", "out.work", "out.work/graph", "g"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("mine")
    before = tree(tmp_path)
    for action in (
        lambda: generate(tmp_path / "out", nodes=100, entries=300),
        lambda: propagate(small_graph(), tmp_path / "out", **OPTIONS),
        lambda: propagate(small_graph(), tmp_path / "new", **OPTIONS) and write_graph(small_graph(), tmp_path / "g"),
        lambda: write_graph(small_graph(), tmp_path / "out"),
    ):
        refused(action, "holds")
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        shutil.rmtree(tmp_path / "new.work", ignore_errors=True)
        assert tree(tmp_path) == before
    shutil.rmtree(tmp_path / "out")
    refused(lambda: propagate(small_graph(), tmp_path / "out", **OPTIONS), "out.work is needed for intermediate files")
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.work" / "graph" / name).read_text() == "mine"


def test_a_manifest_of_something_else_is_not_overwritten(tmp_path):
    write_graph(small_graph(), tmp_path / "g")
    (tmp_path / "g" / "manifest.json").write_text('{"name": "my web page"}')
    before = content(tmp_path / "g")
    refused(lambda: finalise(tmp_path / "g", symmetric=True), "must be that of a graph folder")
    assert content(tmp_path / "g") == before


def test_a_graph_that_is_not_symmetric_is_not_finalised_as_symmetric(tmp_path):
    write_graph(small_graph(directed=True), tmp_path / "g")
    before = content(tmp_path / "g")
    refused(lambda: finalise(tmp_path / "g", symmetric=True), "must be symmetric")
    assert content(tmp_path / "g") == before


def test_weights_on_disk_must_be_finite_and_not_negative(tmp_path):
    for bad in (-1.0, np.nan, np.inf):
        for directed in (False, True):
            folder = write_graph(small_graph(weighted=True, directed=directed), tmp_path / "g").path
            array("weights.npy", put(bad))(folder)
            refused(lambda: propagate(tmp_path / "g", tmp_path / "b", **OPTIONS), "must be finite and not negative")
            shutil.rmtree(tmp_path / "g")
            assert list(tmp_path.iterdir()) == []


def test_a_graph_that_changes_meanwhile_is_refused(tmp_path):
    folder = write_graph(small_graph(), tmp_path / "g").path

    def on_progress(_done, _total):
        shutil.rmtree(folder)
        write_graph(small_graph(5), folder)

    refused(
        lambda: propagate(tmp_path / "g", tmp_path / "b", **OPTIONS, on_progress=on_progress),
        "must not change while its basis is computed",
    )
    assert_same_bits_as_in_memory(propagate(tmp_path / "g", tmp_path / "b", **OPTIONS), small_graph(5))


def test_a_finished_graph_that_was_damaged_is_generated_again(tmp_path):
    options: dict[str, Any] = {"nodes": 200, "entries": 900, "features": 3}
    folder = generate(tmp_path / "g", **options)
    before = content(folder.path)
    with (folder.path / "features.npy").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"abcd")
    generate(tmp_path / "g", **options).verify()
    assert content(folder.path)["features.npy"] == before["features.npy"]


def test_folders_of_an_earlier_version_without_names_can_be_read(world):
    for kind in ("g", "b"):
        edit(class_names=None, feature_names=None, known_as=None)(world / kind)
    assert GraphFolder.open(world / "g").nodes == 60
    assert BasisFolder.open(world / "b").class_names is None
    assert NpyFile.open(world / "g" / "node_ids.npy").shape == (60,)
