"""The lessons run from top to bottom, and a second run on the same ledger spends nothing.

An exercise is four cells: the question, a cell tagged `exercise` with three dots for the answer, a cell tagged
`check`, and the solution, folded away. The first run has the solutions put in, the second none.
The one on Spark is slow to open, and runs again only with ``DPNB_LONG=1``.

To store a lesson anew, remove its ledger and run in its folder:

    jupyter nbconvert --to notebook --execute --inplace NAME.ipynb \\
        --ExecutePreprocessor.store_widget_state=False --ExecutePreprocessor.record_timing=False
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(FOLDER.glob("0*.ipynb"))
ON_SPARK = "08_bigger_than_a_laptop"
LONG = os.environ.get("DPNB_LONG") == "1"


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def solved(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Put into each exercise's cell the code of the solution that stands two cells below."""
    for place, cell in enumerate(notebook.cells):
        if "exercise" in tags(cell):
            assert "..." in cell.source
            solution = notebook.cells[place + 2].source
            assert re.match("<details>\n<summary>Solution</summary>\n\n", solution), solution
            assert solution.endswith("\n\n</details>"), solution
            cell.source = re.search(r"```python\n(.+?)\n```", solution, re.DOTALL)[1]
    return notebook


def run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Execute strictly: an error passes only in a cell that is tagged for it, and must occur there."""
    client = NotebookClient(
        notebook,
        timeout=90,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in tags(cell)), cell.source
            streams = [o for o in cell.outputs if o.output_type == "stream"]
            assert not [o.text for o in streams if o.name == "stderr"], cell.source
    return notebook


def verdicts(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the first two words of what each check says."""
    checks = [cell for cell in notebook.cells if "check" in tags(cell)]
    said = ["".join(output.text for output in cell.outputs) for cell in checks]
    return [" ".join(text.split()[:2]) for text in said]


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
        for path in LESSONS
    ],
)
def test_runs_twice_and_pays_once(path, tmp_path):
    # data of the tests are found as from the folder of the lessons
    (tmp_path / "tests").symlink_to(FOLDER.parent / "tests")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copy(FOLDER / "exercises.py", folder)
    stored = nbformat.read(path, as_version=4)
    first = run(solved(copy.deepcopy(stored)), folder)
    assert len(verdicts(first)) >= 3
    assert {verdict.split()[0] for verdict in verdicts(first)} == {"Right."}
    (ledger,) = folder.glob("*.ledger")
    paid = charges(ledger)
    assert paid
    if path.stem == ON_SPARK and not LONG:
        return
    second = run(stored, folder)
    assert charges(ledger) == paid
    assert set(verdicts(second)) == {"Not answered"}
    assert "Answered from the ledger at no cost" in str(second)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_is_stored_with_outputs_and_without_widget_state(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count is not None
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in tags(cell))
