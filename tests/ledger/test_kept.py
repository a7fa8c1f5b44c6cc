"""Ledgers that were written before open with all that they hold."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.ledger import kept


@pytest.mark.parametrize("kind", kept.BUDGETS)
def test_what_was_paid_is_there_and_free(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.ledger"
    shutil.copy(kept.FOLDER / f"{kind}.ledger", path)
    expected = json.loads((kept.FOLDER / f"{kind}.json").read_text("utf-8"))
    with closing(kept.opened(kind, path)) as curator:
        spent = curator.budget.spent
        assert spent.to_dict() == expected.pop("spent")
        asked = kept.requests(kind, curator)
        assert asked.keys() == expected.keys()
        for name, ask in asked.items():
            assert json.loads(json.dumps(kept.numbers(ask()))) == expected[name], name
        assert curator.budget.spent == spent
