"""The tutorials run from top to bottom, and a second run on the same ledger spends nothing.

To store a tutorial anew, remove its ledger and run in its folder:

    jupyter nbconvert --to notebook --execute --inplace NAME.ipynb \\
        --ExecutePreprocessor.store_widget_state=False --ExecutePreprocessor.record_timing=False
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import dpnb

FOLDER = Path(__file__).parents[2] / "notebooks"
TUTORIALS = sorted(FOLDER.glob("*.ipynb"))


def run(path: Path) -> nbformat.NotebookNode:
    """Execute strictly: an error passes only in a cell that is tagged for it, and must occur there."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=90,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in cell.metadata.get("tags", [])), cell.source
            streams = [o for o in cell.outputs if o.output_type == "stream"]
            assert not [o.text for o in streams if o.name == "stderr"], cell.source
    return notebook


def spent(ledger: Path, *, public: bool) -> object:
    curator = dpnb.Curator([dpnb.datasets.adult(public=public)], ledger=ledger)
    try:
        return curator.budget.spent
    finally:
        curator.close()


@pytest.mark.kernel
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_runs_twice_and_pays_once(path, tmp_path):
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    run(copy)
    (ledger,) = tmp_path.glob("*.ledger")
    public = "public=True" in path.read_text("utf-8")
    first = spent(ledger, public=public)
    assert first.rho > 0
    second = run(copy)
    assert spent(ledger, public=public) == first
    assert "Answered from the ledger at no cost" in str(second)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_is_stored_with_outputs_and_without_widget_state(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count is not None
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in cell.metadata.get("tags", []))
