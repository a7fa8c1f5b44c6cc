"""The tutorials run from top to bottom, and a second run on the same ledger spends nothing.

To store a tutorial anew, remove its ledger and run in its folder:

    jupyter nbconvert --to notebook --execute --inplace NAME.ipynb \\
        --ExecutePreprocessor.store_widget_state=False --ExecutePreprocessor.record_timing=False
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
TUTORIALS = sorted(FOLDER.glob("*.ipynb"))
ON_SPARK = "07_bigger_than_a_laptop"


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


def charges(ledger: Path) -> list[str]:
    """Return what was charged, whatever table it was about."""
    with closing(sqlite3.connect(ledger)) as file:
        bodies = [body for (body,) in file.execute("SELECT body FROM entry ORDER BY seq")]
    return [body for body in bodies if json.loads(body)["kind"] in ("answer", "release")]


@pytest.mark.kernel
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.spark] if path.stem == ON_SPARK else [])
        for path in TUTORIALS
    ],
)
def test_runs_twice_and_pays_once(path, tmp_path):
    # data of the tests are found as from the folder of the tutorials
    (tmp_path / "tests").symlink_to(FOLDER.parent / "tests")
    copy = tmp_path / "notebooks" / path.name
    copy.parent.mkdir()
    shutil.copy(path, copy)
    run(copy)
    (ledger,) = copy.parent.glob("*.ledger")
    first = charges(ledger)
    assert first
    second = run(copy)
    assert charges(ledger) == first
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
