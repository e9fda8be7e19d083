"""The real graphs, for tests marked `data`: from disk or not at all, never from the network.

Looked for in $ADAPTKRY_DATA, then in ../shared/data beside the repository, in the folder layout of PyG's loaders.
"""

import os
import tempfile
import warnings
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from adaptkry.graphs.graph import Graph

RAW = {"cora": "Cora/raw", "chameleon": "chameleon/geom_gcn/raw", "squirrel": "squirrel/geom_gcn/raw"}


@cache
def real_graph(name: str) -> Graph:
    """Cora undirected; Chameleon and Squirrel as their files have them, directed and with self-loops. Raw features."""
    raw = _raw_folder(name)
    with tempfile.TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old pickles and torch.load: PyG's, not ours
        linked = Path(root) / RAW[name]
        linked.parent.mkdir(parents=True)
        linked.symlink_to(raw)  # PyG writes processed/ beside raw/, and the data may be read-only
        return Graph.from_pyg(_load(name, root))


def _raw_folder(name: str) -> Path:
    places = [Path(__file__).resolve().parents[2] / "shared" / "data"]
    if os.environ.get("ADAPTKRY_DATA"):
        places.insert(0, Path(os.environ["ADAPTKRY_DATA"]))
    for place in places:
        if (place / RAW[name]).is_dir():
            return (place / RAW[name]).resolve()
    return pytest.skip(f"{name}: no folder {RAW[name]} in {' or '.join(map(str, places))}; set ADAPTKRY_DATA")


def _load(name: str, root: str):
    from torch_geometric.datasets import Planetoid, WikipediaNetwork

    loader, called = (Planetoid, "Cora") if name == "cora" else (WikipediaNetwork, name)
    missing = pytest.skip.Exception(f"{name}: files are missing in {RAW[name]}")
    with mock.patch.object(loader, "download", side_effect=missing):
        return loader(root, called)[0]
