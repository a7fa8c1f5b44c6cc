"""What other people's code, cells and clients rely on is written down in ``tests/kit/public.txt``."""

from __future__ import annotations

import pytest

from tests.kit import public


@pytest.mark.fast
def test_nothing_public_changes_unnoticed():
    written = public.PAGE.read_text("utf-8").splitlines()
    assert list(public.lines()) == written, "python -m tests.kit.public; say it in CHANGELOG.md"
