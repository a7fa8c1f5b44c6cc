"""The lessons: copied to a reader's folder, and opened in JupyterLab or run without a browser.

The wheel contains them as ``dpnb/notebooks``; in a checkout they are in its top folder.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dpnb.errors import RequestError, given

if TYPE_CHECKING:
    from nbformat import NotebookNode

FIRST = "01_first_private_query.ipynb"
FOLDER = "lessons"
"""Default folder for the copied lessons."""
_PATTERNS = ("0*.ipynb", "glossary.ipynb", "exercises.py", "SECURITY.md", "online_retail.parquet")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_SECONDS = 600
"""Longest run time of a notebook cell, in seconds."""


def lesson_files() -> list[Path]:
    """Return the lessons and the files that they read, as shipped with dpnb."""
    package = Path(__file__).parent
    folders = (package / "notebooks", package.parent / "notebooks")
    source = next(folder for folder in folders if (folder / FIRST).exists())
    return sorted(path for pattern in _PATTERNS for path in source.glob(pattern))


def open_lessons(folder: Path) -> None:
    """Copy the lessons to a folder, and run JupyterLab on the first one until it is stopped."""
    _copy(folder)
    root = os.geteuid() == 0
    if root:
        _say("You are root. JupyterLab starts anyway, and only this machine can reach it.")
    with_browser = has_browser(os.environ)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1"),
        *("--ServerApp.log_level=WARN", "--LabApp.log_level=WARN"),
        f"--ServerApp.root_dir={folder}",
        *(["--allow-root"] if root else []),
        *([] if with_browser else ["--no-browser"]),
        str(folder / FIRST),
    ]
    # set a token: JupyterLab would print its own among other lines
    environment = {"JUPYTER_TOKEN": secrets.token_hex(24), **os.environ}
    with subprocess.Popen(command, env=environment) as server:  # noqa: S603 - of this environment

        def stop(number: int, frame: object) -> None:
            # at a terminal Ctrl-C reaches JupyterLab too, which asks whether to stop
            if number == signal.SIGTERM or not sys.stdin.isatty():
                server.terminate()

        numbers = (signal.SIGINT, signal.SIGTERM)
        handlers = {number: signal.signal(number, stop) for number in numbers}
        try:
            link = _link(server)
            if link:
                opens = "opens in your browser; if not, open" if with_browser else "runs; open"
                _say(f"JupyterLab {opens} {link}\nStop it with Ctrl-C.")
            code = server.wait()
        finally:
            for number, act in handlers.items():
                signal.signal(number, act)
    if code:
        raise RequestError(f"JupyterLab ended with exit code {code}", "See its own messages above.")


def lesson_name(number: str) -> str:
    """Return the file of a lesson, by its number.

    Raises
    ------
    RequestError
        If there is no such lesson.
    """
    names = [path.name for path in lesson_files() if path.suffix == ".ipynb"]
    numbered = {str(int(name[:2])): name for name in names if name[:2].isdecimal()}
    if number not in numbered:
        raise RequestError(
            f"there is no lesson {given(number)}",
            f"Give a number from 1 to {len(numbered)}: dpnb lessons FOLDER --run 2.",
        )
    return numbered[number]


def run_lesson(folder: Path, number: str = "1") -> None:
    """Copy the lessons to a folder, run one, print its answers, and save it as HTML."""
    name = lesson_name(number)
    _copy(folder)
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = nbformat.read(folder / name, as_version=4)
    _say(f"Running {name} ...")
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=_SECONDS,
        allow_errors=True,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        on_cell_executed=lambda cell, **_: _show(cell),
    )
    # the kernel prints warnings there that do not matter on one machine
    client.execute(stderr=subprocess.DEVNULL)
    page = (folder / name).with_suffix(".html")
    text, _ = HTMLExporter().from_notebook_node(notebook)
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError(
            f"cannot write {page}: {error.strerror}", "Remove it, or name another folder."
        ) from None
    _say(f"\nSaved the lesson with its answers and pictures: {page}")
    errors = [error for cell in notebook.cells for error in _failures(cell)]
    if errors:
        raise RequestError(
            f"a cell failed: {errors[0]}", f"Remove or rename {folder / name} to get a new copy."
        )


def has_browser(environment: Mapping[str, str]) -> bool:
    """Return whether a browser window can be opened; a browser in the terminal does not count."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform != "darwin" and not any(map(environment.get, screens)):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def answer_text(cell: NotebookNode) -> str:
    """Return a notebook cell with a statement and its output as text; "" for other cells."""
    if cell.cell_type != "code" or not cell.source.startswith("%%dp"):
        return ""
    texts = []
    for output in cell.outputs:
        data: Any = output.get("data", {})
        if output.output_type == "error":
            texts.append(f"{output.ename}: {output.evalue}")
        elif output.output_type == "stream":
            texts.append(output.text.rstrip())
        elif _WIDGET not in data and "text/plain" in data:
            texts.append(data["text/plain"])
    statement = "\n".join(f"    {line}" for line in cell.source.splitlines())
    return "\n\n".join(["", statement, *texts])


def _copy(folder: Path) -> None:
    """Copy files that are missing, and keep those that a reader has changed."""
    if find_spec("jupyterlab") is None:
        raise RequestError("JupyterLab is not installed", "Run pip install 'dpnb[lessons]'.")
    copies, changed_files = 0, []
    try:
        if folder.is_file():
            raise RequestError(f"{folder} is a file", "Name a folder: dpnb lessons FOLDER.")
        folder.mkdir(parents=True, exist_ok=True)
        for path in lesson_files():
            target, content = folder / path.name, path.read_bytes()
            if not target.exists():
                with target.open("xb") as file:
                    file.write(content)
                copies += 1
            elif target.read_bytes() != content:
                changed_files.append(path.name)
    except OSError as error:
        raise RequestError(
            f"cannot copy the lessons to {folder}: {error.strerror}",
            "Name a folder that you may write to: dpnb lessons FOLDER.",
        ) from None
    if copies:
        _say(f"Copied to {folder}: {copies} {'file' if copies == 1 else 'files'}.")
    if changed_files:
        _say(
            f"Not copied, because yours differ: {', '.join(changed_files)}. "
            "Remove or rename a file to get a new copy."
        )


def _link(server: subprocess.Popen[bytes]) -> str:
    """Wait for JupyterLab, and return the address of the first lesson; "" if it ends."""
    from jupyter_server.serverapp import list_running_servers

    while server.poll() is None:
        for server_info in list_running_servers():
            if server_info["pid"] == server.pid and _listens(server_info["port"]):
                token = f"?token={server_info['token']}" if server_info["token"] else ""
                return f"{server_info['url']}lab/tree/{quote(FIRST)}{token}"
        time.sleep(0.1)
    return ""


def _listens(port: int) -> bool:
    """Return whether a port accepts connections: JupyterLab announces it a moment too early."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _show(cell: NotebookNode) -> None:
    text = answer_text(cell)
    if text:
        _say(text)


def _failures(cell: NotebookNode) -> list[str]:
    """Return the errors of a notebook cell, unless it is meant to show one."""
    if cell.cell_type != "code" or "raises-exception" in cell.metadata.get("tags", []):
        return []
    return [f"{o.ename}: {o.evalue}" for o in cell.outputs if o.output_type == "error"]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201
