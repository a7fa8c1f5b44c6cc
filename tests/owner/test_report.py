"""The owner's view of a ledger, and how fair it was (DProvDB, section 7).

Numbers of theorems, errors and oracles are those of docs/methods/dprovdb.md.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpnb
from dpnb.curator import Curator
from dpnb.ledger.policy import Policy
from dpnb.owner.report import ndcfg
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import BASIC, GDP, ZCDP
from dpnb.privacy.loss import PrivacyLoss

pytestmark = pytest.mark.fast

Opened = Callable[..., Curator]
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"


class TestFairness:
    @pytest.mark.parametrize(
        ("answered", "expected"),
        [((10, 3, 0), 1.16373337493), ((2, 4, 7), 2.35246393861)],
    )
    def test_of_three_levels(self, answered: tuple[int, ...], expected: float) -> None:
        """T13."""
        found = ndcfg(list(zip((1, 2, 4), answered, strict=True)))
        assert found == pytest.approx(expected, rel=1e-9)
        total = {(10, 3, 0): 15.1285338741, (2, 4, 7): 30.5820312019}[answered]
        assert found is not None
        assert found * sum(answered) == pytest.approx(total, rel=1e-9)

    @pytest.mark.parametrize(
        ("level", "weight"), [(1, 1), (4, 3.10628371951), (9, 6.57881347896), (10, 7.27254089734)]
    )
    def test_of_one_level(self, level: int, weight: float) -> None:
        """T13."""
        assert ndcfg([(level, 3)]) == pytest.approx(weight, rel=1e-9)

    def test_nothing_answered_is_neither_fair_nor_unfair(self) -> None:
        assert ndcfg([]) is None
        assert ndcfg([(4, 0), (1, 0)]) is None

    @given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 50)), min_size=1))
    def test_it_lies_between_the_lowest_and_the_highest(self, rows: list[tuple[int, int]]) -> None:
        found = ndcfg(rows)
        if found is not None:
            ends = [ndcfg([(level, 1)]) for level, count in rows if count]
            assert min(ends) * (1 - 1e-12) <= found <= max(ends) * (1 + 1e-12)

    def test_of_a_ledger(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 1, "b": 4}, budget=Budget(rho=9))
        assert curator.provenance.ndcfg is None
        for name, count in (("a", 1), ("b", 3)):
            for i in range(count):
                curator.session(name).query(f"{BY_SEX} LIMIT {i + 1}", rho=f"0.{i + 1}")
        # asked again it is no other answer
        curator.session("a").query(f"{BY_SEX} LIMIT 1", rho="0.1")
        assert curator.provenance.ndcfg == pytest.approx((1 + 3 * 3.10628371951) / 4)


class TestReport:
    @pytest.fixture
    def curator(self, opened: Opened) -> Curator:
        made = opened(views=[["sex"], ["job"]], analysts={"a": (1, 2), "b": 4})
        made.session("a").query(BY_SEX, rho="0.1")
        made.session("b").query(BY_SEX, rho="0.3")
        made.session("b").query("SELECT COUNT(*) AS k FROM t WHERE n = 1", rho="0.05")
        made.session("a", 2).query(BY_SEX, rho="0.2")
        return made

    def test_columns_are_views_and_what_all_know_of_them(self, curator: Curator) -> None:
        found = {column.name: column for column in curator.provenance.columns}
        assert {name: (column.kind, column.known.rho) for name, column in found.items()} == {
            "sex": ("declared", Fraction(3, 10)),
            "SELECT COUNT(*) AS k FROM t WHERE n = 1": ("statement", Fraction(1, 20)),
            "job": ("declared", Fraction(0)),
        }
        assert sum(c.known.rho for c in found.values()) == curator.provenance.spent.rho

    def test_cells_are_what_each_row_knows(self, curator: Curator) -> None:
        table = curator.provenance
        words = {column.id: column.name for column in table.columns}
        assert {(row, words[c]): known.rho for (row, c), known in table.cells.items()} == {
            ("a", "sex"): Fraction(1, 10),
            ("a#2", "sex"): Fraction(1, 5),
            ("b", "sex"): Fraction(3, 10),
            ("b", "SELECT COUNT(*) AS k FROM t WHERE n = 1"): Fraction(1, 20),
        }
        for row in table.rows:
            mine = [known.rho for (name, _), known in table.cells.items() if name == row.name]
            assert row.known.rho == sum(mine)
        # both rows of a together have the limit of her best one: .5
        assert [row.remaining.rho for row in table.rows] == [
            Fraction(15, 100), Fraction(1, 5), Fraction(65, 100),
        ]  # fmt: skip

    def test_the_timeline_adds_up(self, curator: Curator) -> None:
        table = curator.provenance
        assert [one.row for one in table.timeline] == ["a", "b", "b", "a#2"]
        assert [one.table.rho for one in table.timeline] == [
            Fraction(1, 10), Fraction(1, 5), Fraction(1, 20), 0,
        ]  # fmt: skip
        assert sum(one.table.rho for one in table.timeline) == table.spent.rho
        assert sum(one.own.rho for one in table.timeline) == sum(r.known.rho for r in table.rows)
        assert [one.time for one in table.timeline] == sorted(one.time for one in table.timeline)

    def test_one_line_for_each_row(self, curator: Curator) -> None:
        frame = curator.provenance.to_frame()
        assert list(frame["analyst"]) == ["a", "a#2", "b"]
        assert list(frame["privilege"]) == [1, 2, 4]
        assert frame["rho_limit"].tolist() == [0.25, 0.5, 1.0]
        assert frame["rho_known"].tolist() == [0.1, 0.2, 0.35]

    def test_it_is_that_of_one_moment(self, curator: Curator) -> None:
        before = curator.provenance
        curator.session("b").query("SELECT COUNT(*) AS k FROM t WHERE n = 2", rho="0.05")
        assert before != curator.provenance
        assert before.spent.rho == Fraction(35, 100)

    def test_one_analyst_alone_has_one_too(self, opened: Opened) -> None:
        curator = opened(analysts=None)
        curator.session().query(BY_SEX, rho="0.1")
        (row,) = curator.provenance.rows
        assert (row.name, row.limit.rho, row.known.rho) == ("analyst", 1, Fraction(1, 10))
        assert curator.coalition("analyst").rho == Fraction(1, 10)

    def test_one_off_releases_are_columns(self, opened: Opened) -> None:
        curator = opened(budget=Budget(rho=9), analysts={"a": 4, "b": 4})
        for name in "ab":
            session = curator.session(name)
            question = session.query(BY_SEX, rho=1).compare("F", "M")
            session.explain(question, k=1, rho="0.4", anyway=True)
        table = curator.provenance
        (release,) = (column for column in table.columns if column.kind == "release")
        assert release.known.rho == Fraction(2, 5)
        assert {row for row, column in table.cells if column == release.id} == {"a", "b"}
        assert table.spent.rho == table.coalition("a", "b").rho == Fraction(7, 5)
        assert [row.known.rho for row in table.rows] == [Fraction(7, 5)] * 2

    def test_it_survives_a_policy_of_any_kind(self, opened: Opened) -> None:
        for mechanism in ("additive", "vanilla"):
            curator = opened(
                budget=Budget(epsilon=4, delta=1e-6, accountant="basic"),
                policy=Policy(mechanism=mechanism),
            )
            curator.session("a").query(BY_SEX, epsilon="0.5")
            table = curator.provenance
            assert (table.mechanism, table.privacy) == (mechanism, BASIC)
            assert table.rows[0].known.epsilon == Fraction(1, 2)
            assert table.rows[0].limit.epsilon == 1
            assert table.coalition("b") == PrivacyLoss.none()
            assert "epsilon_known" in table.to_frame()


class TestRules:
    """What the owner decided is in the table, each with its date."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A clock that goes on by a minute whenever it is read."""
        ticks = (f"2030-01-01T{i // 60:02}:{i % 60:02}:00+00:00" for i in range(1440))
        monkeypatch.setattr("dpnb.ledger.store.now", lambda: next(ticks))

    @pytest.mark.usefixtures("clock")
    def test_every_decision_is_told(self, opened: Opened) -> None:
        policy = Policy(reserve="0.1", together="0.8", most_colluders=3, collusion=[("a", "b")])
        curator = opened(analysts={"a": (1, 2), "b": 4}, policy=policy, views=[["sex"]])
        curator.set_privilege("a", 3)
        curator.set_expansion("1.5")
        curator.set_reserve("0.2")
        curator.link("b", "c")
        curator.limit("b", rho="0.9")
        curator.limit(view="sex", rho="0.4")
        curator.limit(column=["n", "job"], rho="0.3")
        curator.limit("a", column="n", rho="0.2")
        curator.limit(rho="0.95")
        curator.limit("a", rho="0.1")
        curator.grant("b", "a", rho="0.05", until="2030-01-01T05:00")
        curator.grant("b", "a", rho="0.1")
        curator.grant("b", "a#2", rho="0.01", until="2030-01-01T00:40")
        curator.session("a").query(BY_SEX, rho="0.12")
        curator.withdraw_grant("b", "a")
        curator.protect("SELECT COUNT(*) AS k\nFROM t", ">", 5, name="many")
        curator.protect("SELECT COUNT(*) AS k FROM t", "<", 99, probability=0.8)
        curator.protect("SELECT COUNT(*) AS k FROM t", "<", 9, name="gone")
        curator.unprotect("gone")
        for _ in range(30):
            found = curator.provenance.rules
        times = [rule.time for rule in found]
        assert times == sorted(times)
        withdrawn = next(
            g.withdrawn for g in curator._runner.store.provenance.grants if g.withdrawn
        )
        opening = [rule.text for rule in found if rule.time == times[0]]
        assert opening == [
            "Limits are in proportion to privileges: privilege 4 gives the whole budget.",
            "A coalition may have at most 3 analysts.",
            "At most rho 0.8 may be released to a coalition or a single analyst.",
            "a and b may share their answers.",
        ]
        later = [rule for rule in found if rule.time != times[0]]
        assert len({rule.time for rule in later}) == len(later)
        assert [(rule.kind, rule.text) for rule in later] == [
            ("privilege", "a has privilege 3; at first it was 1."),
            ("policy", "Limits are 1.5 times as large as the privileges say, at most the total budget."),
            ("policy", "20 % of the limit of each analyst who is not disabled are reserved."),
            ("policy", "b and c may share their answers."),
            ("limit", "The limit of b was set to rho 0.9."),
            ("limit", "The limit of the view sex was set to rho 0.4."),
            ("limit", "At most rho 0.3 of t.job, t.n may be released to all analysts together."),
            ("limit", "At most rho 0.2 of t.n may be released to a."),
            ("limit", "The total budget is rho 0.95."),
            ("limit", "The limit of a was set to rho 0.1."),
            ("grant", "b grants a rho 0.05 until 2030-01-01 05:00 UTC. Used so far: rho 0.02; "
                      f"withdrawn {withdrawn[:16].replace('T', ' ')} UTC."),
            ("grant", "b grants a rho 0.1. Used so far: none; "
                      f"withdrawn {withdrawn[:16].replace('T', ' ')} UTC."),
            ("grant", "b grants a#2 rho 0.01 until 2030-01-01 00:40 UTC. Used so far: none; it has ended."),
            ("claim", "Answers are withheld if they would make it more than 90 % likely that SELECT COUNT(*) AS k FROM t "
                      "is above 5 (many)."),
            ("claim", "Answers are withheld if they would make it more than 80 % likely that SELECT COUNT(*) AS k FROM t "
                      "is below 99."),
        ]  # fmt: skip
        frame = curator.provenance.to_frame(rules=True)
        assert list(frame.columns) == ["time", "kind", "rho", "rule"]
        assert frame["rule"].tolist() == [rule.text for rule in found]
        plain = curator.provenance.to_dict()["rules"]
        assert [line["text"] for line in plain] == [rule.text for rule in found]
        assert plain[8]["amount"]["rho"] == "9/10"

    def test_amounts_are_epsilons_where_there_is_a_delta(self, opened: Opened) -> None:
        curator = opened(budget=Budget(epsilon=3, delta=1e-6))
        curator.limit(column="n", epsilon=1)
        (rule,) = (one for one in curator.provenance.rules if one.kind == "limit")
        assert (
            rule.text
            == "At most rho 0.02436 (epsilon 1) of t.n may be released to all analysts together."
        )

    def test_of_one_analyst_alone(self, opened: Opened) -> None:
        curator = opened(analysts=None)
        assert curator.provenance.rules == ()
        curator.limit(column="n", rho="0.1")
        assert [rule.kind for rule in curator.provenance.rules] == ["limit"]

    @pytest.mark.parametrize("views", ["equal", "proportional"])
    def test_of_a_policy_of_another_kind(self, opened: Opened, views: str) -> None:
        policy = Policy(rows="sum", views=views)
        told = [rule.text for rule in opened(policy=policy, views=[["sex"]]).provenance.rules]
        how = "equal shares" if views == "equal" else "shares in proportion to sensitivities"
        assert told == [
            "Limits are in proportion to privileges, as shares that add up to the total budget.",
            f"Each declared view has its own limit: {how} of the total budget.",
        ]


class TestEpsilons:
    """The same loss by different rules: looser ones say more."""

    def test_of_noise_paths(self) -> None:
        found = curator_of(ZCDP).provenance.epsilons
        assert set(found) == {"rdp", ZCDP}
        assert found[ZCDP] < found["rdp"]

    def test_of_gaussian_releases(self) -> None:
        found = curator_of(GDP).provenance.epsilons
        assert found[GDP] < found[ZCDP] < found["rdp"]

    def test_of_equal_charges_that_are_added_up(self) -> None:
        """Twenty of epsilon 0.1 are 2.0 by the sum, 1.6 by optimal composition (T15)."""
        found = curator_of(BASIC, asked=20).provenance.epsilons
        assert found[BASIC] == pytest.approx(2.0)
        assert found["kov"] == pytest.approx(1.6)
        assert found[GDP] < found["kov"]

    def test_before_the_first_charge_there_is_none(self) -> None:
        assert curator_of(GDP, asked=0).provenance.epsilons == {}


def curator_of(accountant: str, asked: int = 1) -> dpnb.Curator:
    frame = pd.DataFrame({"sex": ["Female", "Male"] * 50, "age": range(100)})
    schema = dpnb.Schema({"sex": dpnb.Category(["Female", "Male"]), "age": dpnb.Integer(0, 99)})
    curator = dpnb.Curator(
        [dpnb.Table("people", frame, schema)],
        budget=dpnb.Budget(epsilon=5, delta="1e-5", accountant=accountant),
        analysts={"alice": 1},
        policy=dpnb.Policy(mechanism="vanilla" if accountant == "basic" else "path"),
    )
    alice = curator.session("alice")
    for i in range(asked):
        alice.query(f"SELECT COUNT(*) AS n FROM people WHERE age >= {i}", epsilon=0.1)
    return curator
