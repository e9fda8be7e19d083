"""Run folders that were damaged, mixed up or forged: a run with the same predictions, or an error for users."""

import copy
import errno
import json
import shutil
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from adaptkry.common.files import digest_of, signed
from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm
from adaptkry.selection.auto import auto
from adaptkry.selection.compare import compare
from adaptkry.selection.tune import tune
from adaptkry.training.fit import fit
from adaptkry.training.predict import write_predictions
from adaptkry.training.run_folder import curves_from_csv, curves_to_csv, load_run
from refusals import assert_refusal

GRAPH = csbm(nodes=40, features=4, seed=0)
SPLITS = splits.stratified(GRAPH.y, count=2)
QUICK = {"degree": 2, "hidden": 4, "epochs": 2, "device": "cpu"}
USER_ERRORS = (ValueError, TypeError, OSError)
KINDS = {
    "run": {},
    "labels": {"similar_nodes": 4, "batch_norm": True},
    "ensemble": {"combine": "mean", "restarts": 2},
    "structure": {"structure": 3, "structure_layer": True},
    "exact": {"method": "asgc", "degree": None},
    "reduced": {"reduce": 2},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """For every kind of run the content of its folder by path, that of another run, and its predictions."""
    root = tmp_path_factory.mktemp("saved")

    def content(kind, number, **changes):
        options = {"method": "adaptkry", **QUICK, **KINDS[kind], **changes}
        run = fit(GRAPH, splits=SPLITS, **options)
        folder = run.save(root / f"{kind}{number}")
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}, run

    found = {}
    for kind in KINDS:
        files, run = content(kind, 0)
        found[kind] = files, content(kind, 1, epochs=3, mlp_lr=0.3)[0], run.probabilities(GRAPH)
    return found


def write_files(folder: Path, files):
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def check(folder, expected):
    """Load the folder: the same predictions or an error for users; without `expected`, other predictions too."""
    try:
        found = load_run(folder).probabilities(GRAPH)
    except USER_ERRORS as error:
        message = assert_refusal(error)
        assert message.count("Restore the folder, or train again.") <= 1
        return
    assert found.shape == (40, 2)
    if expected is not None:
        assert torch.equal(found, expected)


LIMITED = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
kinds = st.sampled_from(list(KINDS))


@LIMITED
@given(kind=kinds, data=st.data())
def test_a_damaged_or_mixed_folder_gives_the_same_predictions_or_an_error(saved, tmp_path, kind, data):
    files, others, expected = saved[kind]
    files = dict(files)
    name = data.draw(st.sampled_from(sorted(files)))
    content, way = files[name], data.draw(st.sampled_from(["flip", "cut", "swap", "delete", "repeat", "line"]))
    place = data.draw(st.integers(0, max(len(content) - 1, 0)))
    if way == "flip":
        files[name] = content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :]
    elif way == "cut":
        files[name] = content[:place]
    elif way == "swap":
        files[name] = others.get(name, b"")
    elif way == "repeat":
        files[name] = content + content[place:]
    elif way == "line":
        lines = content.splitlines(keepends=True)
        files[name] = b"".join(lines[:-1])
    else:
        del files[name]
    check(write_files(tmp_path / "run", files), expected)


def paths_in(value, path=()):
    """Yield the paths of all parts of a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield from paths_in(part, (*path, name))


def changed(document, path, value):
    """Return a copy of a JSON document with another part; `...` deletes it."""
    document = copy.deepcopy(document)
    if not path:
        return value if isinstance(value, dict) else {"format": 7, "info": None if value is ... else value}
    owner = document
    for name in path[:-1]:
        owner = owner[name]
    if value is ...:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return document


values = st.one_of(
    st.just(...), st.none(), st.booleans(), st.integers(-3, 5), st.sampled_from([10**6, 10**18, 2**70, -1, 1e308]),
    st.floats(), st.text(max_size=3), st.just([]), st.just({}), st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(["adaptkry", "gcn", "roc_auc", "logistic", "last", "batch", "../../etc"]),
)  # fmt: skip


def forged(files, document_of, name="run.json"):
    """Return the files with another run.json whose checksums are right."""
    document = document_of(json.loads(files[name]))
    base = name.removesuffix("run.json")
    if isinstance(document.get("files"), dict):
        document["files"] = {part: digest_of(files[base + part]) for part in document["files"] if base + part in files}
    text = json.dumps(signed(document)).encode()
    result = files | {name: text}
    if base:  # the ensemble has the digest of its parts
        number = int(Path(name).parent.name)

        def with_digest(owner):
            owner["parts"][number]["sha256"] = digest_of(text)
            return owner

        return forged(result, with_digest)
    return result


@LIMITED
@given(kind=kinds, number=st.integers(0, 9), place=st.integers(0, 10**6), value=values)
def test_a_forged_folder_with_right_checksums_never_gives_another_exception(
    saved, tmp_path, kind, number, place, value
):
    files = saved[kind][0]
    names = sorted(name for name in files if name.endswith("run.json"))
    name = names[number % len(names)]
    paths = list(paths_in(json.loads(files[name])))
    path = paths[place % len(paths)]
    check(write_files(tmp_path / "run", forged(files, lambda document: changed(document, path, value), name)), None)


@LIMITED
@given(kind=kinds, data=st.data())
def test_forged_weights_with_right_checksums_never_give_another_exception(saved, tmp_path, kind, data):
    from safetensors.torch import load, save

    files = dict(saved[kind][0])
    name = data.draw(st.sampled_from(sorted(name for name in files if name.endswith(".safetensors"))))
    tensors = load(files[name])
    one = data.draw(st.sampled_from(sorted(tensors)))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
    way = data.draw(st.sampled_from(["shape", "delete", "add", "dtype", "bytes"]))
    if way == "delete":
        del tensors[one]
    elif way == "dtype":
        tensors[one] = tensors[one].to(data.draw(st.sampled_from([torch.float64, torch.int32, torch.bool])))
    else:
        tensors[one + "x" * (way == "add")] = torch.ones(shape)
    files[name] = b"no tensors" if way == "bytes" else save(tensors)
    base = name[: name.rfind("/") + 1]
    check(write_files(tmp_path / "run", forged(files, lambda document: document, base + "run.json")), None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: drop_last_line(folder / "rows.jsonl"), r"rows\.jsonl must have the checksum in run\.json"),
        (lambda folder: edit(folder, '"classes": 2', '"classes": 3'), "changed or damaged since"),
        (lambda folder: edit(folder, '"hidden": 4', '"hidden": 5'), "changed or damaged since"),
        (lambda folder: edit(folder, '"scaling": null', '"scaling": [[], []]'), "changed or damaged since"),
        (lambda folder: (folder / "curves.csv").unlink(), r"must hold curves\.csv"),
        (lambda folder: (folder / "run.json").write_text("[" * 10**5), r"run\.json must be JSON"),
        (lambda folder: (folder / "run.json").write_text("[]"), r"run\.json must be a JSON object"),
        (lambda folder: (folder / "run.json").write_text('{"format": 6}'), "must have format 7"),
    ],
    ids=["row deleted", "classes", "hidden", "scaling", "no curves", "nested", "list", "old format"],
)  # fmt: skip
def test_parts_that_do_not_belong_together_are_refused_with_the_reason(saved, tmp_path, change, message):
    folder = write_files(tmp_path / "run", saved["run"][0])
    change(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_run(folder)


def drop_last_line(path):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def edit(folder, old, new):
    text = (folder / "run.json").read_text()
    assert old in text
    (folder / "run.json").write_text(text.replace(old, new))


def test_curves_are_read_as_they_were_written():
    rng = np.random.default_rng(0)
    curves = {name: rng.random((6, 3), dtype=np.float32) / 3 for name in ("loss", "validation", "validation_loss")}
    for curve in curves.values():
        curve[3:, 1] = np.nan
    curves["loss"][4] = curves["validation"][4] = curves["validation_loss"][4] = np.nan  # an epoch without numbers
    curves["validation"][5] = np.nan
    found = curves_from_csv(curves_to_csv(curves), 3)
    for name, curve in curves.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], curve)


@pytest.mark.parametrize("name", ["rows.jsonl", "notes.txt", "run.json"])
def test_a_run_is_not_saved_over_files_of_the_user(name, tmp_path):
    run = fit(GRAPH, splits=SPLITS, **QUICK)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=r"Use another folder"):
        run.save(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}
    for entry in (fit, auto, tune, compare):
        with pytest.raises(ValueError, match="the output folder must not be empty"):
            entry(GRAPH, out="", device="cpu", epochs=1)
    with pytest.raises(ValueError, match="must not be empty"):
        write_predictions("", run, GRAPH)
    with pytest.raises(ValueError, match="must not be empty"):
        run.save("")
    with pytest.raises(ValueError, match="must not be empty"):
        load_run("")
    assert run.save(run.save(tmp_path / "twice")).is_dir()


def test_a_run_is_not_saved_over_the_run_of_a_command(tmp_path):
    run = fit(GRAPH, splits=SPLITS, out=tmp_path / "run", **QUICK)
    with pytest.raises(ValueError, match=r"holds the run of a command \(journal.jsonl\)"):
        run.save(tmp_path / "run")


def test_resuming_refuses_the_run_of_another_training_in_the_folder(saved, tmp_path):
    fit(GRAPH, splits=SPLITS, out=tmp_path / "run", **QUICK)
    for name, content in saved["run"][1].items():
        (tmp_path / "run" / name).write_bytes(content)
    load_run(tmp_path / "run")  # a whole run, but not that of the journal
    with pytest.raises(ValueError, match="must hold the run that its journal has recorded"):
        fit(GRAPH, splits=SPLITS, out=tmp_path / "run", resume=True, **QUICK)


@pytest.mark.usefixtures("same_origin")
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("options", [{}, {"combine": "mean", "restarts": 2}], ids=["run", "ensemble"])
def test_a_full_disk_or_an_interruption_at_any_write_is_resumed_to_the_same_files(
    options, error, tmp_path, monkeypatch
):
    def train(name, **more):
        fit(GRAPH, splits=SPLITS, out=tmp_path / name, **QUICK, **options, **more)

    def files(name):
        folder = tmp_path / name
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    train("whole")
    expected, writes = files("whole"), 0
    while True:
        left = [writes]

        def failing(_, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise error

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", failing)
            try:
                train(f"failed-{writes}")
            except (OSError, KeyboardInterrupt) as raised:
                assert isinstance(raised, type(error))  # noqa: PT017
            else:
                break
        train(f"failed-{writes}", resume=True)
        assert files(f"failed-{writes}") == expected
        writes += 1
    assert writes >= 6  # the header of the journal, a checkpoint, four files of a run, a line of the journal
