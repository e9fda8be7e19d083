"""The notebooks are stored without outputs, and every cell runs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter
def test_every_cell_of_the_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 4
    assert all(cell.execution_count for cell in code)
    assert path.stat().st_size < 20_000


def test_there_are_two_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["heterophily-and-tau", "quick-start"]
