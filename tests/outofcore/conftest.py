import shutil

import pytest

from adaptkry.outofcore import BasisFolder, propagate, write_graph
from basis_on_disk import TAUS, small_graph


@pytest.fixture
def log(caplog):
    """A function that returns the log messages of adaptkry.outofcore since its last call."""

    def messages() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name.startswith("adaptkry.outofcore")]
        caplog.clear()
        return found

    with caplog.at_level("INFO", logger="adaptkry"):
        yield messages


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """A folder that tests only read: `g`, a graph folder, and `b`, its basis in three blocks."""
    folder = tmp_path_factory.mktemp("stored")
    propagate(write_graph(small_graph(), folder / "g"), folder / "b", taus=TAUS, degree=3, columns=2)
    return folder


@pytest.fixture
def basis(stored, tmp_path):
    """A basis folder that a test may change, beside its graph folder `g`."""
    return BasisFolder.open(shutil.copytree(stored, tmp_path, dirs_exist_ok=True) / "b")
