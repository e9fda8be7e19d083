import datetime
import io
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.outofcore import GraphFolder, finalise, propagate, write_graph
from adaptkry.outofcore.edge_runs import StoredAdjacency
from adaptkry.outofcore.graph_folder import from_parquet
from adaptkry.outofcore.npy_files import NpyFile
from basis_on_disk import content, small_graph
from contracts import assert_same_bits


def test_a_graph_folder_can_be_finalised_by_hand_and_features_may_be_parquet(tmp_path):
    graph = small_graph()
    write_graph(graph, tmp_path / "g")
    same = propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=2)
    for name in ("manifest.json", "features.npy"):
        (tmp_path / "g" / name).unlink()
    table = {f"f{i}": column.numpy() for i, column in enumerate(graph.x.T)}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "g" / "features.parquet")
    with pytest.raises(ValueError, match=r"must have a manifest.*finalise"):
        propagate(tmp_path / "g", tmp_path / "c", taus=[1.0], degree=2)
    finalise(tmp_path / "g", symmetric=True, name="graph")
    assert GraphFolder.open(tmp_path / "g").manifest["features"] == 5
    assert content(propagate(tmp_path / "g", tmp_path / "c", taus=[1.0], degree=2).path) == content(same.path)
    other = propagate(graph, tmp_path / "d", taus=[1.0], degree=2, features=tmp_path / "g" / "features.parquet")
    assert_same_bits(other.slab(0, 60), same.slab(0, 60))


def test_bad_graph_folders_are_refused(tmp_path):
    graph = small_graph()
    write_graph(graph, tmp_path)
    features = graph.x.clone()
    features[7, 3] = torch.nan
    np.save(tmp_path / "features.npy", features.numpy())
    with pytest.raises(ValueError, match="node 7 has nan in column 3"):
        propagate(finalise(tmp_path, symmetric=True), tmp_path / "b", taus=[1.0], degree=2)
    GraphFolder.open(tmp_path).verify()
    np.save(tmp_path / "features.npy", features.numpy() + 1)
    with pytest.raises(ValueError, match="damaged"):
        GraphFolder.open(tmp_path).verify()
    indices = graph.indices.numpy().copy()
    indices[3] = 60
    np.save(tmp_path / "indices.npy", indices)
    with pytest.raises(ValueError, match=r"node numbers 0 \.\. 59; got 60"):
        StoredAdjacency(finalise(tmp_path, symmetric=True))
    np.save(tmp_path / "indices.npy", indices[:-1])
    with pytest.raises(ValueError, match="must have shape"):
        GraphFolder.open(tmp_path)
    with pytest.raises(ValueError, match="must increase from 0 to the number of entries"):
        finalise(tmp_path, symmetric=True)
    np.save(tmp_path / "indices.npy", indices.astype(np.int64))
    with pytest.raises(TypeError, match="must be int32; got int64"):
        finalise(tmp_path, symmetric=True)
    np.save(tmp_path / "indices.npy", np.asfortranarray(np.ones((3, 2))))
    with pytest.raises(ValueError, match="C order"):
        NpyFile.open(tmp_path / "indices.npy")


def test_a_damaged_graph_folder_is_refused_and_named(tmp_path):
    folder = write_graph(small_graph(), tmp_path / "g")
    with (folder.path / "features.npy").open("r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(b"\x01")
    with pytest.raises(ValueError, match=r"features\.npy must have the checksum in the manifest; it is damaged"):
        propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=1)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([datetime.date(2024, 2, 29)] * 3, r"column 'time' must hold numbers; got date32\[day\]"),
        ([datetime.timedelta(1), None, None], "column 'time' must hold numbers; got duration"),
        (["1", "2", "3"], "column 'time' must hold numbers; got string"),
        ([1, None, 3], "column 'time' must be finite"),
        ([1_700_000_000, 1_700_000_030, 1_700_000_050], None),
    ],
    ids=str,
)
def test_parquet_features_keep_their_digits_and_must_be_numbers(tmp_path, values, error, caplog):
    source = tmp_path / "x.PARQUET"
    pyarrow.parquet.write_table(pyarrow.table({"time": values}), source)
    if error:
        with pytest.raises(ValueError, match=error):
            from_parquet(source, tmp_path / "x.npy")
        return
    from_parquet(source, tmp_path / "x.npy")
    assert np.load(tmp_path / "x.npy")[:, 0].tolist() == values
    graph = Graph([[0, 1], [1, 2]])
    propagate(graph, tmp_path / "basis", taus=[1.0], degree=1, features=source)
    assert any("too close to each other or too small for float32" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("place", [4, 20, -5, -1])
def test_a_damaged_parquet_file_is_refused_by_its_name(tmp_path, place):
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"f": np.arange(100.0)}), stream, compression="none")
    content = bytearray(stream.getvalue())
    content[place] ^= 0xFF
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.parquet must be a Parquet file; it cannot be read"):
        from_parquet(tmp_path / "x.parquet", tmp_path / "x.npy")
