"""Names of requests and views, definitions and regions are what they were in every ledger before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ledger import written

EXPECTED: dict[str, Any] = json.loads(written.FILE.read_text("utf-8"))


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.startswith("declared: ")])
def test_a_request_is_written_as_before(name: str) -> None:
    assert written.written(written.requests()[name]) == EXPECTED[name]


@pytest.mark.parametrize("sql", written.DECLARED)
def test_a_declared_view_is_written_as_before(sql: str) -> None:
    found = written.written(written.asked_of(sql), declared=True)
    assert found == EXPECTED[f"declared: {sql}"]


def test_all_of_them_are_pinned() -> None:
    assert {*written.requests(), *(f"declared: {sql}" for sql in written.DECLARED)} == {*EXPECTED}
