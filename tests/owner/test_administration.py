"""What the owner does: analysts, views, data versions; and what a changed ledger is refused for.

Numbers of theorems, errors and oracles are those of docs/methods/dprovdb.md.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import shutil
import sqlite3
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpnb import verbs
from dpnb.curator import Curator
from dpnb.errors import BudgetError, LedgerError, RequestError, SchemaError
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss
from dpnb.schema.columns import Category, Integer
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from tests.kit.inside import ask, runner

Opened = Callable[..., Curator]
COUNT = "SELECT COUNT(*) AS k FROM t WHERE n >= {}"
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"


def names(curator: Curator) -> list[str]:
    return [row.name for row in curator.provenance.rows]


class TestAnalysts:
    @pytest.mark.parametrize("privilege", [0, -1, 5, 11, True, 1.5, None, "4", [], [1, 1], [1, 5]])
    def test_privileges_go_from_1_to_the_top(self, unchanged: Curator, privilege: Any) -> None:
        with pytest.raises(RequestError) as refusal:
            unchanged.add_analyst("c", privilege)
        assert refusal.value.hint
        assert names(unchanged) == ["a", "b"]

    @pytest.mark.parametrize("privilege", [0, -1, 11, True, 1.5, None, "4", [], [1, 1]])
    def test_at_the_opening_too(self, opened: Opened, tmp_path: Path, privilege: Any) -> None:
        with pytest.raises(RequestError):
            opened(analysts={"a": privilege}, ledger=tmp_path / "l")

    @pytest.mark.parametrize("analysts", [["a"], "a", 5])
    def test_analysts_are_a_mapping(self, opened: Opened, analysts: Any) -> None:
        with pytest.raises(RequestError) as refusal:
            opened(analysts=analysts)
        assert refusal.value.hint

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_a_name_is_given_once(self, unchanged: Curator, name: str) -> None:
        with pytest.raises(RequestError, match="already"):
            unchanged.add_analyst(name, 1)

    def test_the_top_is_that_of_the_opening(self, opened: Opened) -> None:
        curator = opened(policy=Policy(top=8))
        curator.add_analyst("c", 8)
        assert [row.limit.rho for row in curator.provenance.rows] == [
            Fraction(1, 8), Fraction(1, 2), 1,
        ]  # fmt: skip

    def test_without_analysts_at_the_opening_the_top_is_10(self, opened: Opened) -> None:
        """Definition 17: later and higher ones shrink nobody's limit."""
        curator = opened(analysts=None, policy=Policy())
        curator.add_analyst("c", 1)
        before = curator.provenance.rows[0]
        curator.add_analyst("d", 10)
        assert curator.provenance.rows[0] == before
        assert before.limit.rho == Fraction(1, 10)

    def test_by_sum_all_are_known_before_the_first_charge(self, opened: Opened) -> None:
        curator = opened(policy=Policy(rows="sum"))
        curator.add_analyst("c", 3)
        assert [row.limit.rho for row in curator.provenance.rows] == [
            Fraction(1, 8), Fraction(1, 2), Fraction(3, 8),
        ]  # fmt: skip
        curator.session("b").query(COUNT.format(1), rho="0.1")
        with pytest.raises(RequestError, match="before the first charge"):
            curator.add_analyst("d", 1)

    @pytest.mark.parametrize("name", ["c", "owner", "analyst", "a#1", "A", "", "a ", "*", None, 5])
    def test_strangers_get_no_session(self, unchanged: Curator, name: Any) -> None:
        with pytest.raises(RequestError):
            unchanged.session(name)
        if isinstance(name, str):
            for use in (verbs.budget, verbs.history):
                with pytest.raises(RequestError):
                    use(runner(unchanged), name)
            with pytest.raises(RequestError):
                ask(unchanged, name, "query", COUNT.format(1), {"rho": "0.1"})
        assert unchanged.budget.spent == PrivacyLoss.none()

    def test_a_disabled_analyst_is_refused_at_once_and_her_row_is_kept(
        self, opened: Opened
    ) -> None:
        curator = opened()
        session = curator.session("b")
        answer = session.query(COUNT.format(1), rho="0.3")
        curator.disable("b")
        before = curator.provenance
        for use in (
            lambda: session.query(COUNT.format(1), rho="0.3"),
            lambda: session.query(COUNT.format(2), rho="0.3"),
            lambda: session.price(COUNT.format(2), rho="0.3"),
            lambda: session.budget,
            lambda: session.history,
            lambda: curator.session("b"),
        ):
            with pytest.raises(RequestError, match="no active analyst 'b'"):
                use()
        assert curator.provenance == before
        assert before.rows[1].known.rho == Fraction(3, 10)
        curator.enable("b")
        again = session.query(COUNT.format(1), rho="0.3")
        assert again.spent == PrivacyLoss.none()
        assert again.estimates == answer.estimates
        assert session.budget.spent.rho == Fraction(3, 10)

    def test_one_who_is_disabled_while_the_data_are_read_gets_nothing(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dpnb.engines.duckdb import DuckDBEngine

        curator = opened()
        measure = DuckDBEngine.measure

        def disabling(engine: DuckDBEngine, scan: Any) -> Any:
            found = measure(engine, scan)
            curator.disable("b")
            return found

        monkeypatch.setattr(DuckDBEngine, "measure", disabling)
        session = curator.session("b")
        with pytest.raises(RequestError, match="no active analyst"):
            session.query(COUNT.format(1), rho="0.3")
        assert curator.budget.spent == PrivacyLoss.none()

    @pytest.mark.parametrize("name", ["c", "a#1", "owner", "analyst"])
    def test_strangers_are_neither_disabled_nor_enabled(
        self, unchanged: Curator, name: str
    ) -> None:
        for change in (unchanged.disable, unchanged.enable):
            with pytest.raises(RequestError, match="no analyst"):
                change(name)

    def test_several_privileges_are_several_rows(self, opened: Opened) -> None:
        """Definition 1: keyed by analyst and level; the first is in use unless another is named."""
        curator = opened(analysts={"a": (4, 1), "b": 2})
        assert names(curator) == ["a", "a#1", "b"]
        assert [row.privilege for row in curator.provenance.rows] == [4, 1, 2]
        low, high = curator.session("a", 1), curator.session("a")
        assert (low.budget.cap.rho, high.budget.cap.rho) == (Fraction(1, 4), 1)
        first = low.query(COUNT.format(1), rho="0.2")
        # another row: the same version of the view, paid for by itself
        second = high.query(COUNT.format(1), rho="0.2")
        assert second.spent.rho == Fraction(1, 5)
        assert second.estimates == first.estimates
        assert curator.budget.spent.rho == curator.coalition("a").rho == Fraction(1, 5)
        with pytest.raises(BudgetError):
            low.query(COUNT.format(2), rho="0.1")
        before = curator.provenance
        for wrong in (2, 10, 0, -1, "1", True, 1.0, (4, 1)):
            with pytest.raises(RequestError):
                curator.session("a", wrong).query(COUNT.format(3), rho="0.1")
        assert curator.provenance == before

    def test_register_adds_who_is_missing_and_changes_nobody(self, opened: Opened) -> None:
        curator = opened()
        curator.register({"a": 1, "c": (2, 1)})
        assert names(curator) == ["a", "b", "c", "c#1"]
        for wrong in ({"a": 2}, {"c": (1, 2)}, {"c": 2}):
            with pytest.raises(RequestError, match="has other privileges in the ledger"):
                curator.register(wrong)

    def test_one_analyst_alone_needs_no_name(self, opened: Opened) -> None:
        curator = opened(analysts=None)
        assert curator.session().budget.cap.rho == 1
        with pytest.raises(RequestError, match="opened for one analyst"):
            curator.add_analyst("c", 1)
        with pytest.raises(RequestError, match="no analyst 'c'"):
            curator.session("c")

    def test_several_analysts_need_gaussian_noise(self, opened: Opened) -> None:
        with pytest.raises(RequestError, match="several analysts need Gaussian noise"):
            opened(budget=Budget(epsilon=1))

    def test_paths_do_not_add_up_by_basic_composition(self, opened: Opened) -> None:
        """Algorithm 4."""
        with pytest.raises(RequestError, match="basic composition cannot count noise paths"):
            opened(budget=Budget(epsilon=1, delta=1e-6, accountant="basic"))


class TestCurrencies:
    @pytest.mark.parametrize("accountant", ["gdp", "basic"])
    def test_gaussian_accountants_refuse_what_is_not_gaussian(
        self, opened: Opened, accountant: str
    ) -> None:
        """Definition 2 of docs/methods/accounting.md: no explanations, private choices or risks."""
        policy = Policy(mechanism="additive")
        curator = opened(budget=Budget(epsilon=9, delta=1e-6, accountant=accountant), policy=policy)
        session = curator.session("b")
        question = session.query(BY_SEX, epsilon=2).compare("F", "M")
        before = curator.budget.spent
        with pytest.raises(RequestError, match="explanations need the accountant 'zcdp'"):
            session.explain(question, anyway=True)
        with pytest.raises(RequestError):
            session.price(question)
        with pytest.raises(
            RequestError,
            match="risks can be shown only in a zCDP or pure session with mechanism='path'",
        ):
            curator.risk("SELECT COUNT(*) AS k FROM t")
        assert curator.budget.spent == before

    @pytest.mark.parametrize("mechanism", ["additive", "vanilla"])
    def test_risks_need_paths(self, opened: Opened, mechanism: str) -> None:
        curator = opened(policy=Policy(mechanism=mechanism))
        with pytest.raises(
            RequestError,
            match="risks can be shown only in a zCDP or pure session with mechanism='path'",
        ):
            curator.risk("SELECT COUNT(*) AS k FROM t")

    def test_accuracies_are_met_by_every_mechanism(self, opened: Opened) -> None:
        """T19: every answered request has at most the error that was asked for."""
        for mechanism in ("path", "additive", "vanilla"):
            for accountant in ("zcdp", "gdp", "basic"):
                if (mechanism, accountant) == ("path", "basic"):
                    continue
                curator = opened(
                    budget=Budget(epsilon=40, delta=1e-6, accountant=accountant),
                    analysts={"a": 4, "b": 4},
                    policy=Policy(mechanism=mechanism),
                )
                for name, error in (("a", 20), ("b", 30), ("b", 12), ("a", 15), ("a", 16)):
                    price = curator.session(name).price(BY_SEX, error=error)
                    answer = curator.session(name).query(BY_SEX, error=error)
                    assert answer.spent == price.spent
                    (distribution,) = (found.count_distribution for found in answer.estimates)
                    assert distribution.quantile(0.05 / 2) <= error * (1 + 1e-9)
                assert curator.budget.spent == curator.coalition("a", "b") or (mechanism != "path")


class TestViews:
    @pytest.mark.parametrize(
        ("columns", "options", "word"),
        [
            (["z"], {}, "no declared column"),
            ([], {}, "different column names"),
            ("sex", {}, "different column names"),
            (["n"], {"bins": {"n": [0, 20]}}, "outside the bounds"),
            (["n"], {"table": "u"}, "no table 'u'"),
            (["n"], {"name": "sex"}, "there is already a view 'sex'"),
            (["sex", "n", "job", "big"], {}, "more than the 100,000"),
        ],
    )
    def test_what_cannot_be_declared_is_not_written(
        self, opened: Opened, columns: Any, options: dict[str, Any], word: str
    ) -> None:
        schema = Schema(
            {
                "sex": Category(["F", "M"]), "n": Integer(0, 9), "job": Category(["a", "b", "c"]),
                "big": Integer(0, 999),
            }
        )  # fmt: skip
        frame = pd.DataFrame({"sex": ["F"], "n": [1], "job": ["a"], "big": [1]})
        curator = opened(Table("t", frame, schema), views=["sex"])
        before = curator.provenance
        with pytest.raises((RequestError, SchemaError), match=word):
            curator.add_view(columns, **options)
        assert curator.provenance == before

    def test_the_same_declaration_again_changes_nothing(self, opened: Opened) -> None:
        curator = opened(views=["sex", ["job", "n"]])
        before = curator.provenance
        curator.add_view(["sex"])
        curator.add_view(["job", "n"], name="job, n")
        assert curator.provenance == before
        assert [column.name for column in before.columns] == ["sex", "job, n"]

    def test_all_attributes_at_once(self, opened: Opened) -> None:
        curator = opened(views="attributes")
        assert [column.name for column in curator.provenance.columns] == ["sex", "n", "job"]

    @pytest.mark.parametrize("views", ["all", 5, [{"bins": {}}], [{"columns": ["n"], "bin": {}}]])
    def test_other_words_are_refused(self, opened: Opened, views: Any) -> None:
        with pytest.raises(RequestError):
            opened(views=views)

    def test_pure_ledgers_have_none(self, opened: Opened) -> None:
        curator = opened(analysts=None, budget=Budget(epsilon=1))
        with pytest.raises(RequestError, match="declared views need Gaussian noise"):
            curator.add_view(["sex"])

    def test_what_cuts_through_its_bins_is_answered_by_a_view_of_its_own(
        self, opened: Opened
    ) -> None:
        curator = opened(views=[{"columns": ["n"], "bins": {"n": [0, 4, 9]}}])
        session = curator.session("b")
        whole = session.query("SELECT COUNT(*) AS k FROM t WHERE n <= 4", rho="0.1")
        cut = session.query("SELECT COUNT(*) AS k FROM t WHERE n <= 5", rho="0.1")
        assert ["histogram" in made for made in whole.definitions.values()] == [True]
        assert ["histogram" in made for made in cut.definitions.values()] == [False]

    def test_a_view_is_shared_by_all_its_statements(self, opened: Opened) -> None:
        curator = opened(views=[["sex", "n"]])
        session = curator.session("b")
        session.query(BY_SEX, rho="0.2")
        for sql in (
            "SELECT n, COUNT(*) AS k FROM t GROUP BY n",
            "SELECT AVG(n) AS m FROM t WHERE sex = 'F'",
            "SELECT SUM(n) AS s, COUNT(*) AS k FROM t WHERE n > 3",
        ):
            assert session.query(sql, rho="0.2").spent == PrivacyLoss.none()
        assert curator.budget.spent.rho == Fraction(1, 5)

    def test_answers_from_one_synopsis_add_up(self, opened: Opened) -> None:
        session = opened(views=[["sex", "n"]]).session("b")
        groups = session.query(BY_SEX, rho="0.2").estimates[0].count
        known = "SELECT COUNT(sex) AS k FROM t"
        assert sum(groups) == pytest.approx(session.query(known, rho="0.2").estimates[0].count[0])


class TestVersions:
    def test_new_data_are_counted_anew_and_old_charges_kept(
        self, opened: Opened, people: Table, tmp_path: Path, silent: Any
    ) -> None:
        """Theorem 9 of docs/methods/accounting.md: a person in both versions pays for both."""
        options = {"ledger": tmp_path / "l", "noise": silent}
        curator = opened(views=[["sex"]], **options)
        first = curator.session("b").query(BY_SEX, rho="0.2")
        curator.close()
        more = pd.concat([people.source, people.source.iloc[:7]], ignore_index=True)
        with pytest.raises(LedgerError, match="other data"):
            opened(Table("t", more, people.schema), analysts=None, budget=None, **options)
        curator = opened(
            Table("t", more, people.schema), analysts=None, budget=None, new_version=True, **options
        )
        second = curator.session("b").query(BY_SEX, rho="0.2")
        assert (first.estimates[0].count, second.estimates[0].count) == ((60, 60), (64, 63))
        assert second.spent.rho == Fraction(1, 5)
        assert second.definitions.keys().isdisjoint(first.definitions)
        assert curator.session("b").budget.spent.rho == curator.coalition("b").rho == Fraction(2, 5)

    def test_views_that_a_new_schema_has_no_place_for_are_passed_over(
        self, opened: Opened, people: Table, tmp_path: Path
    ) -> None:
        curator = opened(views=[["sex"], ["n"]], ledger=tmp_path / "l")
        curator.close()
        schema = Schema({"sex": Category(["F", "M"])})
        table = Table("t", people.source[["sex"]], schema)
        curator = opened(table, analysts=None, budget=None, ledger=tmp_path / "l", new_version=True)
        answer = curator.session("b").query(BY_SEX, rho="0.2")
        assert ["histogram" in made for made in answer.definitions.values()] == [True]


class TestOpening:
    def test_policy_and_budget_are_those_of_the_ledger(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        opened(ledger=tmp_path / "l", policy=Policy(reserve="0.1")).close()
        for wrong in (
            {"policy": Policy()}, {"policy": Policy(reserve="0.2")}, {"budget": Budget(rho=2)},
            {"analysts": {"a": 2, "b": 4}, "policy": Policy(reserve="0.1")},
        ):  # fmt: skip
            with pytest.raises((LedgerError, RequestError)):
                opened(ledger=tmp_path / "l", **wrong)
        again = opened(ledger=tmp_path / "l", policy=Policy(reserve="0.1"))
        assert names(again) == ["a", "b"]

    def test_a_ledger_of_one_analyst_gets_no_others(self, opened: Opened, tmp_path: Path) -> None:
        opened(ledger=tmp_path / "l", analysts=None).close()
        with pytest.raises((LedgerError, RequestError), match="for one analyst|another policy"):
            opened(ledger=tmp_path / "l")


class TestIdentifiers:
    def test_a_request_is_known_again_by_its_name(self, opened: Opened, tmp_path: Path) -> None:
        """Statement 23: the same identifier, the same answer; after a restart, too."""
        curator = opened(ledger=tmp_path / "l")
        same = ("b", "query", COUNT.format(1), {"rho": "0.1"})
        first = ask(curator, *same, identifier="x1")
        for again in (ask(curator, *same, identifier="x1"), ask(curator, *same, identifier="x2")):
            assert (again.spent, again.stored) == (PrivacyLoss.none(), True)
            assert again.estimates == first.estimates
        other = ("b", "query", COUNT.format(2), {"rho": "0.1"})
        finer = ("b", "query", COUNT.format(1), {"rho": "0.2"})
        for _ in range(2):
            for wrong in (other, finer):
                with pytest.raises(
                    RequestError,
                    match="this request identifier was already used for another request",
                ):
                    ask(curator, *wrong, identifier="x1")
            assert curator.budget.spent.rho == Fraction(1, 10)
            curator.close()
            curator = opened(ledger=tmp_path / "l", analysts=None, budget=None)
            assert ask(curator, *same, identifier="x1").estimates == first.estimates
        # names are each analyst's own
        assert ask(
            curator, "a", "query", COUNT.format(2), {"rho": "0.1"}, identifier="x1"
        ).spent.rho

    def test_a_name_given_to_a_stored_answer_counts_as_well(self, opened: Opened) -> None:
        curator = opened()
        same = ("b", "query", COUNT.format(1), {"rho": "0.1"})
        ask(curator, *same)
        ask(curator, *same, identifier="x")
        with pytest.raises(
            RequestError, match="this request identifier was already used for another request"
        ):
            ask(curator, "b", "query", COUNT.format(2), {"rho": "0.1"}, identifier="x")


class TestConcurrency:
    def test_two_requests_do_not_both_take_the_last(self, opened: Opened, tmp_path: Path) -> None:
        """E23: .6 and .6 under 1, by threads of two curators of one ledger."""
        for number in range(3):
            first = opened(ledger=tmp_path / f"{number}", analysts={"a": 4, "b": 4})
            second = opened(ledger=tmp_path / f"{number}", analysts=None, budget=None)
            meeting = threading.Barrier(4)
            outcomes: list[str] = []

            def ask(curator: Curator, name: str, view: int, meeting=meeting, out=outcomes) -> None:
                meeting.wait(10)
                try:
                    curator.session(name).query(COUNT.format(view), rho="0.6")
                except BudgetError as error:
                    out.append(str(error))
                else:
                    out.append("answered")

            threads = [
                threading.Thread(target=ask, args=(curator, name, view))
                for curator, name, view in (
                    (first, "a", 1), (first, "b", 2), (second, "a", 3), (second, "b", 4),
                )
            ]  # fmt: skip
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert sorted(outcomes).count("answered") == 1
            assert len(outcomes) == 4
            assert first.budget.spent.rho == second.budget.spent.rho == Fraction(3, 5)

    def test_processes_see_each_others_analysts_views_and_charges(
        self, opened: Opened, people: Table, tmp_path: Path
    ) -> None:
        curator = opened(ledger=tmp_path / "l")
        curator.session("b").query(BY_SEX, rho="0.3")
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            told = pool.apply(elsewhere, (people.source, people.schema.to_dict(), tmp_path / "l"))
        assert told["rows"] == ["a", "b", "c"]
        assert curator.session("c").budget.spent.rho == Fraction(1, 20)
        columns = curator.provenance.columns
        assert [column.name for column in columns if column.kind == "declared"] == ["job"]
        answer = curator.session("b").query(
            "SELECT job, COUNT(*) AS k FROM t GROUP BY job", rho=".05"
        )
        assert answer.estimates[0].count == tuple(told["jobs"])
        assert curator.budget.spent.rho == Fraction(35, 100)


def elsewhere(frame: pd.DataFrame, schema: dict[str, Any], ledger: Path) -> dict[str, Any]:
    """Another process: registers an analyst, declares a view, and asks."""
    with_ledger = Curator(Table("t", frame, Schema.from_dict(schema)), ledger=ledger)
    with_ledger.add_analyst("c", 1)
    with_ledger.add_view(["job"])
    sql = "SELECT job, COUNT(*) AS k FROM t GROUP BY job"
    answer = with_ledger.session("c").query(sql, rho="0.05")
    told = {"rows": names(with_ledger), "jobs": answer.estimates[0].count}
    with_ledger.close()
    return told


def change(path: Path, kind: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the last entry of a kind and mend the hash chain, as the holder of the file could."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT seq, body, hash FROM entry ORDER BY seq").fetchall()
    chosen = max(i for i, (_, body, _) in enumerate(rows) if json.loads(body)["kind"] == kind)
    previous = rows[chosen - 1][2]
    for i, (sequence, body, _) in enumerate(rows[chosen:]):
        entry = json.loads(body)
        if i == 0:
            edit(entry)
        text = json.dumps(entry, sort_keys=True, ensure_ascii=False)
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        connection.execute(
            "UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (text, previous, sequence)
        )
    connection.commit()
    connection.close()


CHANGES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "an analyst without a name": ("analyst", lambda e: e.pop("name")),
    "an analyst without privileges": ("analyst", lambda e: e.pop("privileges")),
    "privileges in words": ("analyst", lambda e: e.update(privileges=4)),
    "an analyst who was not there": ("analyst", lambda e: e.update(name="c")),
    "a limit of nothing": ("limit", lambda e: e.pop("limit")),
    "a limit below what was spent": ("limit", lambda e: e["limit"].update(rho="1/10")),
    "a limit in words": ("limit", lambda e: e["limit"].update(rho="all")),
    "a grant to another": ("grant", lambda e: e.update(receiver="b")),
    "a smaller grant": ("grant", lambda e: e.update(level="1/1000")),
    "a grant that was over": ("grant", lambda e: e.update(until="2001-01-01T00:00:00+00:00")),
    "a grant in words": ("grant", lambda e: e.update(level="much")),
    "a view of nothing": ("view", lambda e: e.pop("definition")),
    "more taken from a grant": ("answer", lambda e: e["granted"][0].__setitem__(1, "9/10")),
    "nothing taken from a grant": ("answer", lambda e: e.pop("granted")),
    "a negative part": ("answer", lambda e: e["granted"][0].__setitem__(1, "-1/10")),
    "taken from no grant": ("answer", lambda e: e["granted"][0].__setitem__(0, 7)),
    "nothing for the row": ("answer", lambda e: e["row"].update(rho="0")),
    "nothing for all": ("answer", lambda e: e["spent"].update(rho="0")),
    "another's row": ("answer", lambda e: e.update(analyst="b")),
    "a policy in words": ("open", lambda e: e.update(policy="max")),
    "another mechanism": ("open", lambda e: e["policy"].update(mechanism="vanilla")),
    "a lower top": ("open", lambda e: e["policy"].update(top=40)),
    "a grant that was withdrawn": ("grant", lambda e: e.update(withdrawn=True)),
    "a reserve in words": ("policy", lambda e: e.update(reserve="much")),
    "a reserve that was lowered": ("policy", lambda e: e.update(reserve="1/100")),
    "a policy of nothing": ("policy", lambda e: e.pop("reserve")),
    "a link of three": ("policy", lambda e: e.update(link=["a", "b", "c"])),
    "another kind": ("grant", lambda e: e.update(kind="gift")),
}


class TestChanged:
    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, shared: Opened, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A ledger with an entry of every kind, the last charge resting on a limit and a grant."""
        ledger = tmp_path_factory.mktemp("written") / "l"
        curator = shared(
            ledger=ledger, analysts={"b": 4, "a": 2}, budget=Budget(rho=1), views=["sex"]
        )
        curator.grant("b", "a", rho="0.3")
        curator.limit("a", rho="0.4")
        for reserve in ("0.05", "0.1"):
            curator.set_reserve(reserve)
        curator.session("a").query(COUNT.format(1), rho="0.6")
        curator.close()
        return ledger.parent

    @pytest.fixture
    def ledger(self, written: Path, tmp_path: Path) -> Path:
        """A copy of it."""
        return shutil.copytree(written, tmp_path / "copy") / "l"

    @pytest.mark.parametrize("name", CHANGES)
    def test_what_does_not_add_up_is_refused_when_it_is_read(
        self, opened: Opened, ledger: Path, name: str
    ) -> None:
        change(ledger, *CHANGES[name])
        with pytest.raises((LedgerError, RequestError)) as caught:
            opened(ledger=ledger, analysts=None, budget=None)
        assert isinstance(caught.value, LedgerError)
        assert caught.value.hint

    def test_the_ledger_itself_is_accepted(self, opened: Opened, ledger: Path) -> None:
        change(ledger, "answer", lambda entry: None)
        curator = opened(ledger=ledger, analysts=None, budget=None)
        assert curator.coalition("a").rho == Fraction(3, 5)
