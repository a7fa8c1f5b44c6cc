"""A fresh IPython shell within this process, that runs cells as a user would."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config


@dataclass
class Ran:
    """What one cell did."""

    result: Any
    error: BaseException | None
    stdout: str
    stderr: str
    shown: list[Any]


class Shell:
    """Runs cells as a user would."""

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    @property
    def names(self) -> dict[str, Any]:
        return self.ip.user_ns

    def run(self, cell: str) -> Ran:
        with capture_output() as captured:
            done = self.ip.run_cell(cell, store_history=False)
        return Ran(
            done.result,
            done.error_in_exec or done.error_before_exec,
            captured.stdout,
            captured.stderr,
            captured.outputs,
        )


@contextmanager
def fresh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Start a shell without dpnb's magics, which are taken away again at the end."""
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    InteractiveShell.clear_instance()
    ip = InteractiveShell.instance(config=config)
    # each shell would search all of the memory for garbage when Python ends: half a minute for a hundred
    atexit.unregister(ip.atexit_operations)
    ip.run_line_magic("colors", "nocolor")
    yield Shell(ip)
    ip.run_line_magic("unload_ext", "dpnb")
    InteractiveShell.clear_instance()
