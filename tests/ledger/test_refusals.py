"""What was refused, to whom, at which cost and by which limit: for the owner, and for nobody else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpnb.curator import Curator
from dpnb.errors import BudgetError, DpnbError, LedgerError, RequestError
from dpnb.ledger import refusals
from dpnb.ledger.accounts import exhausted
from dpnb.ledger.ledger import Ledger
from dpnb.ledger.policy import Policy

Opened = Callable[..., Curator]
SQL = "SELECT COUNT(*) AS k FROM t WHERE n >= 4"
OTHER = "SELECT COUNT(*) AS k FROM t WHERE n >= 5"


def refused(curator: Curator, name: str, rho: object, sql: str = SQL) -> str:
    with pytest.raises((BudgetError, RequestError)) as caught:
        curator.session(name).query(sql, rho=rho)
    return str(caught.value)


def limits(curator: Curator) -> list[str]:
    return [one.limit for one in curator.provenance.refusals]


class TestLimits:
    def test_ones_own(self, opened: Opened) -> None:
        curator = opened()
        refused(curator, "a", "0.3")
        (one,) = curator.provenance.refusals
        assert (one.row, one.verb, one.asked, one.cost.rho) == ("a", "query", SQL, Fraction(3, 10))
        assert one.limit == "the analyst's own limit"
        assert one.time

    @pytest.mark.parametrize(
        ("options", "prepared", "limit"),
        [
            ({"analysts": {"a": 4, "b": 4}}, "0.8", "the total budget"),
            ({"policy": Policy(reserve="0.5")}, "0", "what is reserved for others"),
            ({"policy": Policy(together="0.5")}, "0", "the limit of a coalition"),
        ],
    )
    def test_those_that_analysts_cannot_tell_apart(
        self, opened: Opened, options: dict[str, Any], prepared: str, limit: str
    ) -> None:
        curator = opened(**options)
        if prepared != "0":
            curator.session("a").query(OTHER, rho=prepared)
        assert refused(curator, "b", "0.9") == str(exhausted(""))
        assert limits(curator) == [limit]

    def test_a_view(self, opened: Opened) -> None:
        curator = opened(views=[["sex"]])
        curator.limit(view="sex", rho="0.1")
        refused(curator, "b", "0.2", "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex")
        assert limits(curator) == ["the limit of the view sex"]

    def test_a_protected_claim(self, opened: Opened) -> None:
        curator = opened()
        curator.session("b").query(SQL, rho="0.01")
        curator.protect(SQL, ">", 10)
        assert "withheld" in refused(curator, "b", "0.5")
        assert limits(curator) == ["a protected claim"]

    def test_other_kinds(self, opened: Opened) -> None:
        curator = opened()
        answer = curator.session("b").query(
            "SELECT sex, AVG(n) AS m FROM t GROUP BY sex", rho="0.1"
        )
        question = answer.compare("F", "M")
        with pytest.raises(BudgetError):
            curator.session("b").explain(question, k=2, rho=5, anyway=True)
        with pytest.raises(BudgetError):
            curator.session("a").decide(
                "SELECT sex FROM t GROUP BY sex HAVING COUNT(*) > 50", u=0.5, mode="margin"
            )
        found = [(one.verb, one.asked.partition(":")[0]) for one in curator.provenance.refusals]
        assert found == [("explain", "explain"), ("decide", "decide, step 1")]


class TestKept:
    def test_they_outlive_the_process_and_change_nothing(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        first = opened(ledger=tmp_path / "l")
        refused(first, "a", "0.3")
        kept = first.provenance.refusals
        first.close()
        again = opened(ledger=tmp_path / "l", analysts=None, budget=None)
        assert again.provenance.refusals == kept
        assert again.budget.spent.rho == 0
        assert list(again.session("a").history) == []
        frame = again.provenance.to_frame(refusals=True)
        assert list(frame.loc[0])[1:] == ["a", "query", SQL, 0.3, "the analyst's own limit"]
        # charges only: these may be passed on
        assert SQL not in f"{again.provenance.to_dict()}{again.provenance}"

    def test_the_same_is_kept_once_and_not_without_end(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dpnb.ledger.accounts.MOST_KEPT", 3)
        curator = opened()
        for _ in range(3):
            refused(curator, "a", "0.3")
        assert len(curator.provenance.refusals) == 1
        for i in range(5):
            refused(curator, "a", "0.3", SQL.replace("4", str(i)))
        refused(curator, "b", 2)
        assert [one.row for one in curator.provenance.refusals] == ["a"] * 3 + ["b"]

    def test_a_long_statement_is_cut(self, opened: Opened) -> None:
        curator = opened()
        refused(curator, "a", "0.3", SQL + " OR n >= 4" * 200)
        refused(curator, "a", "0.3", SQL + " OR n >= 4" * 201)
        (one,) = curator.provenance.refusals
        assert len(one.asked) == 2_000

    def test_the_refusal_is_the_same_where_it_cannot_be_kept(
        self, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        curator = opened(ledger=tmp_path / "l")
        said = refused(curator, "a", "0.3")

        def full(*_: object) -> None:
            raise LedgerError("the disk is full")

        monkeypatch.setattr(Ledger, "transaction", full)
        assert refused(curator, "a", "0.3", OTHER) == said

    def test_of_one_analyst_alone_nothing_is_kept(self, opened: Opened) -> None:
        curator = opened(analysts=None)
        with pytest.raises(BudgetError):
            curator.session().query(SQL, rho=2)
        assert curator.provenance.refusals == ()

    def test_what_makes_no_sense_is_no_refusal(self, opened: Opened) -> None:
        curator = opened()
        for sql in ("SELECT nope FROM t", SQL + " GROUP BY nope"):
            with pytest.raises(DpnbError):
                curator.session("a").query(sql, rho="0.01")
        assert curator.provenance.refusals == ()


class TestSecrecy:
    def test_the_log_has_no_statement(
        self, opened: Opened, caplog: pytest.LogCaptureFixture
    ) -> None:
        curator = opened()
        with caplog.at_level(logging.INFO, "dpnb.refusals"):
            for _ in range(2):
                refused(curator, "a", "0.3")
        assert [one.getMessage() for one in caplog.records] == [
            "refused a query: rho 0.3, the analyst's own limit"
        ] * 2
        assert refusals.log.name == "dpnb.refusals"

    def test_the_analyst_is_not_told_whose_limit_it_was(self, opened: Opened) -> None:
        from dpnb.server.refusals import to_dict

        curator = opened(policy=Policy(reserve="0.5"))
        with pytest.raises(BudgetError) as caught:
            curator.session("b").query(SQL, rho="0.9")
        assert "reserve" not in f"{to_dict(caught.value)} {caught.value} {caught.value.args}"
