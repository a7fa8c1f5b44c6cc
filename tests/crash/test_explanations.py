"""A process that dies while it explains has charged all of it or nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.crash import explainer
from tests.kit.dying import PAID, entries


@pytest.fixture(scope="module")
def ledgers(workers, tmp_path_factory):
    """What the dead processes left, by step."""
    return workers.left_at(explainer, explainer.STEPS, tmp_path_factory.mktemp("ledgers"))


@pytest.mark.parametrize("step", explainer.STEPS)
def test_the_next_process_finds_all_of_it_or_nothing(step, ledgers):
    before = entries(ledgers[step])
    kinds = [entry["kind"] for entry in before]
    assert kinds == ["open", "table", "answer"] + ["release"] * (step in PAID)
    with explainer.session(ledgers[step]) as session:
        assert session.budget.spent.rho == 1 + (Fraction("0.3") if step in PAID else 0)
        found = session.explain(explainer.question(session), k=2, rho="0.3")
        assert found.stored == (step in PAID)
        assert session.budget.spent.rho == Fraction("1.3")
    after = entries(ledgers[step])
    assert len(after) == 4
    named = [name for name, _ in after[-1]["drawn"]["predicates"]]
    assert sorted(named) == sorted(row.predicate for row in found.rows)
    if step in PAID:
        assert after == before
