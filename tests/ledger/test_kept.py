"""Ledgers that were written before open with all that they hold."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

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
            found = json.loads(json.dumps(kept.numbers(ask())))
            today, then = as_released(found), as_released(expected[name], found)
            # ends of intervals are computed anew, by sums and roots that may differ in the last bits
            for one, other in zip(ends(today), ends(then), strict=True):
                assert one == pytest.approx(other, rel=1e-13), name
            assert today == then, name
        assert curator.budget.spent == spent


def ends(shown: dict[str, Any]) -> list[list[float | None]]:
    """Take the ends of the intervals out of numbers."""
    parts = [one for name in ("estimates", "readings") for one in shown.get(name, ())]
    return [one.pop(key) for one in parts for key in ("low", "high") if key in one]


def as_released(shown: dict[str, Any], found: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return numbers without what is said of them, and not as they are cut to what is possible.

    ``found`` says which of them are cut today.
    """
    plain = dict(shown)
    for name in ("estimates", "readings"):
        if name in shown:
            today = (found or shown)[name]
            plain[name] = [
                {
                    key: value
                    for key, value in one.items()
                    if key not in ("before", "possible")
                    and not (cut.get("before") and key in cut["before"])
                }
                for one, cut in zip(shown[name], today, strict=True)
            ]
    return plain
