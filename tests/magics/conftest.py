"""A fresh in-process shell with the magics loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from tests.kit.loaded import loaded_once  # noqa: F401


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


@pytest.fixture
def bare_shell(tmp_path, monkeypatch) -> Iterator[Shell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    InteractiveShell.clear_instance()
    ip = InteractiveShell.instance(config=config)
    ip.run_line_magic("colors", "nocolor")
    yield Shell(ip)
    ip.run_line_magic("unload_ext", "dpnb")
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(bare_shell) -> Shell:
    bare_shell.ip.run_line_magic("load_ext", "dpnb")
    return bare_shell


@pytest.fixture
def opened(shell) -> Shell:
    assert shell.run("%dpopen adult --epsilon 3 --delta 1e-6").error is None
    return shell
