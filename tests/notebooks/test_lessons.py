"""The lessons run from top to bottom, and a second run on the same ledger spends nothing.

An exercise is four cells: the question, a cell tagged `exercise` with three dots for the answer, a cell tagged
`check`, and the solution, folded away. After the first run the exercises are solved, as a reader may do after
Run All; the second run has no solutions.
A kernel and its imports cost more than most lessons, so one kernel serves all: between two runs it loses its
names, magics and sessions, and it is checked that no session is left, so what the second run finds paid for comes
from the ledger's file. One lesson runs twice always, the others with ``--all`` or ``DPNB_LONG=1``. With the latter
each run has a kernel of its own, and the lesson on Spark, which is slow to open, runs again, too.

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
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dpnb.curator import Curator
from dpnb.ledger.ledger import Ledger
from dpnb.session import Session
from tests.kit import notebooks

if TYPE_CHECKING:
    from nbclient import NotebookClient
    from nbformat import NotebookNode

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(FOLDER.glob("0*.ipynb"))
ON_SPARK = "08_bigger_than_a_laptop"
LONG = os.environ.get("DPNB_LONG") == "1"
TWICE = "01_"
"""The lesson that always runs a second time."""


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def solved(notebook: NotebookNode) -> NotebookNode:
    """Put into each exercise's cell the code of the solution that stands two cells below."""
    for place, cell in enumerate(notebook.cells):
        if "exercise" in tags(cell):
            assert "..." in cell.source
            solution = notebook.cells[place + 2].source
            assert re.match("<details>\n<summary>Solution</summary>\n\n", solution), solution
            assert solution.endswith("\n\n</details>"), solution
            cell.source = re.search(r"```python\n(.+?)\n```", solution, re.DOTALL)[1]
    return notebook


def exercises(notebook: NotebookNode) -> NotebookNode:
    """Return the cells with answers and checks alone."""
    chosen = [cell for cell in notebook.cells if {"exercise", "check"} & {*tags(cell)}]
    return notebooks.made(*copy.deepcopy(chosen))


@contextmanager
def started(folder: Path) -> Iterator[NotebookClient]:
    """A kernel of its own, in a folder."""
    client = notebooks.client(notebooks.made(), folder, timeout=90, store_widget_state=False)
    with client.setup_kernel():
        yield client


@pytest.fixture(scope="session")
def everything(pytestconfig) -> bool:
    """Whether all tests were asked for."""
    return pytestconfig.getoption("--all") or os.environ.get("DPNB_ALL") == "1"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with started(tmp_path_factory.mktemp("kernel")) as client:
        yield client


def run(client: NotebookClient, notebook: NotebookNode) -> NotebookNode:
    """Execute strictly: an error passes only in a cell that is tagged for it, and must occur there."""
    client.nb = notebook
    client.reset_execution_trackers()
    for place, cell in enumerate(notebook.cells):
        client.execute_cell(cell, place)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in tags(cell)), cell.source
            streams = [o for o in cell.outputs if o.output_type == "stream"]
            assert not [o.text for o in streams if o.name == "stderr"], cell.source
    return notebook


RESTART = """
%unload_ext dpnb
%reset -f
import gc, os, sys
os.chdir({folder!r})
os.environ.pop("DPNB_TOKEN", None)
vars(get_ipython()).pop("_dpnb", None)
sys.modules.pop("exercises", None)
for name in ("last_type", "last_value", "last_traceback", "last_exc"):
    vars(sys).pop(name, None)
if "matplotlib.pyplot" in sys.modules:
    sys.modules["matplotlib.pyplot"].close("all")
if "ipywidgets" in sys.modules:
    sys.modules["ipywidgets"].Widget.close_all()
gc.collect()
assert {kinds!r}.isdisjoint(map(str, {{type(each) for each in gc.get_objects()}}))
# what is left are modules, which no later restart needs to look at again
gc.freeze()
del gc, os, sys, name
"""


@contextmanager
def restarted(shared: NotebookClient, folder: Path) -> Iterator[NotebookClient]:
    """A kernel with imported modules, but no name, magic, session, picture or widget; a new one if LONG."""
    if LONG:
        with started(folder) as client:
            yield client
        return
    kinds = {str(kind) for kind in (Curator, Ledger, Session)}
    source = RESTART.format(folder=str(folder), kinds=kinds)
    shared.nb = notebooks.made(source)
    shared.reset_execution_trackers()
    shared.execute_cell(shared.nb.cells[0], 0)
    yield shared


def quick(notebook: NotebookNode) -> NotebookNode:
    """Let an experiment be repeated twice, and not as often as its averages need."""
    for cell in notebook.cells:
        cell.source = re.sub(r"\bruns=\d+", "runs=2", cell.source)
    return notebook


def verdicts(notebook: NotebookNode) -> list[str]:
    """Return the first two words of what each check says, a mark and a word if it is answered."""
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
def test_runs_twice_and_pays_once(path, shared, tmp_path, everything):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for beside in ("exercises.py", "online_retail.parquet"):
        shutil.copy(FOLDER / beside, folder)
    stored = notebooks.read(path)
    with started(folder) if path.stem == ON_SPARK else restarted(shared, folder) as client:
        run(client, copy.deepcopy(stored))
        # as after Run All
        first = run(client, exercises(solved(copy.deepcopy(stored))))
    assert len(verdicts(first)) >= 3
    assert set(verdicts(first)) == {"✓ Right."}
    (ledger,) = folder.glob("*.ledger")
    paid = charges(ledger)
    assert paid
    if not LONG and (path.stem == ON_SPARK or not (everything or path.stem.startswith(TWICE))):
        return
    with restarted(shared, folder) as client:
        second = run(client, stored if LONG else quick(stored))
    assert charges(ledger) == paid
    assert set(verdicts(second)) == {"Not answered"}
    assert "This answer was already released: no privacy cost." in str(second)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_is_stored_with_outputs_and_without_widget_state(path):
    import nbformat

    notebook = notebooks.read(path)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count is not None
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in tags(cell))
