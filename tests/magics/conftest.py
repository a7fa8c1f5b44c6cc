"""A fresh in-process shell with the magics loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.cells import Shell, fresh
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.services import one_certificate, quick_ends  # noqa: F401


@pytest.fixture
def bare_shell(tmp_path, monkeypatch) -> Iterator[Shell]:
    with fresh(tmp_path, monkeypatch) as shell:
        yield shell


@pytest.fixture
def shell(bare_shell) -> Shell:
    bare_shell.ip.run_line_magic("load_ext", "dpnb")
    return bare_shell


@pytest.fixture
def opened(shell) -> Shell:
    assert shell.run("%dpopen adult --epsilon 3 --delta 1e-6").error is None
    return shell
