"""Notebooks: read, made of cells, written, and run in a kernel.

What reads them is imported when it is used: it takes half a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbclient import NotebookClient
    from nbformat import NotebookNode


def read(path: Path) -> NotebookNode:
    """Return a notebook as it is stored."""
    import nbformat

    return nbformat.read(path, as_version=4)


def cell(source: str) -> NotebookNode:
    """Return a cell of code that has not run."""
    import nbformat

    return nbformat.v4.new_code_cell(source)


def printed(text: str) -> NotebookNode:
    """Return what a cell leaves that prints a text."""
    import nbformat

    return nbformat.v4.new_output("stream", text=text)


def made(*cells: str | NotebookNode, **metadata: Any) -> NotebookNode:
    """Return a notebook of cells, or of their sources."""
    import nbformat

    cells = [cell(one) if isinstance(one, str) else one for one in cells]
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def text(notebook: NotebookNode) -> str:
    """Return what its file would hold."""
    import nbformat

    return nbformat.writes(notebook)


def client(notebook: NotebookNode, folder: Path, **options: Any) -> NotebookClient:
    """Return what runs it in a folder, as ``jupyter nbconvert --execute`` does."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, kernel_name="python3", resources=resources, **options)
