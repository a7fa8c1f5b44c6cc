"""Answers of a wanted error: past answers first, then only what is missing, never wider than wanted."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sqlite3
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnb import Category, Integer, Policy, Real, Schema, Table
from dpnb.answers.answer import Answer
from dpnb.errors import BudgetError, DpnbError, RequestError
from dpnb.ledger.ledger import Ledger
from dpnb.privacy.definition import BASIC, GDP, PURE, ZCDP

SCHEMA = Schema(
    {
        "region": Category(["north", "south", "east"]),
        "kind": Category(["old", "new"]),
        "score": Integer(0, 10),
        "gain": Real(0, 100),
    },
    complete=["region", "kind", "score"],
)
BY_BOTH = "SELECT region, kind, COUNT(*) AS n FROM people GROUP BY region, kind"
BY_REGION = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
WHOLE = "SELECT COUNT(*) AS n FROM people"
MEANS = "SELECT kind, AVG(score) AS m FROM people GROUP BY kind"
Z = stats.norm.ppf(0.975)


def frame(rows=600, seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "east"], rows, p=[0.5, 0.3, 0.2]),
            "kind": rng.choice(["old", "new"], rows),
            "score": rng.integers(0, 11, rows),
            "gain": rng.uniform(0, 100, rows),
        }
    )


PEOPLE = Table("people", frame(), SCHEMA)


def level_for(half, known=math.inf, z=Z):
    """The rho that brings a count to a margin of error beside what is known: 1/s = 1/v* - 1/v."""
    precision = (z / half) ** 2 - 1 / known
    return precision / 2


def spent(answer):
    return float(answer.spent.level(answer.privacy))


def widths(answer):
    """Margin of errors of all groups by alias."""
    return {
        one.alias: [(high - low) / 2 for low, high in zip(one.low, one.high, strict=True)]
        for one in answer.estimates
    }


def numbers(answer):
    return [(one.estimate, one.low, one.high) for one in answer.estimates]


def entries(path):
    connection = sqlite3.connect(path)
    found = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entry ORDER BY seq")
    ]
    connection.close()
    return [{name: value for name, value in one.items() if name != "time"} for one in found]


def answered(path):
    return [one for one in entries(path) if one["kind"] == "answer"]


@pytest.fixture
def session(opened, drawn):
    """Counts of region x kind with noise of 5 each are known."""
    found = opened(PEOPLE, drawn(5))
    found.query(BY_BOTH, rho=0.02)
    return found


class TestWays:
    """From the past, a new release beside the past, or an old release refined beside the past."""

    def test_what_the_past_tells_well_enough_is_free(self, session):
        wide = 5 * math.sqrt(6) * Z * 1.001
        found = session.query(WHOLE, error=wide)
        assert spent(found) == 0
        assert found.origin.way == "history"
        assert found.origin.past == 1
        assert float(found.origin.alone.rho) == pytest.approx(level_for(wide), rel=1e-4)
        inferred = session.infer(WHOLE)
        assert found.estimates[0].estimate == (pytest.approx(inferred.estimate),)
        assert (found.estimates[0].low[0], found.estimates[0].high[0]) == (
            inferred.low,
            inferred.high,
        )
        assert "Computed from one past answer" in repr(found)

    def test_one_hair_more_accurate_is_not(self, session):
        found = session.query(WHOLE, error=5 * math.sqrt(6) * Z * 0.999)
        assert found.origin.way == "new"
        assert 0 < spent(found) < 1e-4

    @pytest.mark.parametrize("half", [20, 10, 3])
    def test_a_new_release_costs_what_is_missing(self, session, half):
        found = session.query(WHOLE, error=half)
        assert found.origin.way == "new"
        assert spent(found) == pytest.approx(level_for(half, 6 * 25), rel=1e-4)
        assert float(found.origin.alone.rho) == pytest.approx(level_for(half), rel=1e-4)
        assert spent(found) < float(found.origin.alone.rho)
        assert "combined with one past answer" in repr(found)

    def test_a_refined_release_costs_the_rest(self, session):
        first = session.query(WHOLE, error=15)
        second = session.query(WHOLE, error=6)
        assert second.origin.way == "refined"
        wanted = level_for(6, 6 * 25) - level_for(15, 6 * 25)
        assert spent(second) == pytest.approx(wanted, rel=1e-4)
        assert spent(first) + spent(second) == pytest.approx(level_for(6, 6 * 25), rel=1e-4)
        assert second.estimates[0].look == 2

    def test_answers_hold_what_is_bought_and_what_was_known(self, session):
        found = session.query(WHOLE, error=10)
        # what an inference makes of everything held is the very same
        again = session.infer(WHOLE)
        assert found.estimates[0].estimate[0] == pytest.approx(again.estimate)
        assert {source.statement for source in again.sources} == {
            "COUNT(*)",
            "COUNT(*) GROUP BY kind, region",
        }

    def test_each_group_counts_and_the_worst_decides(self, opened, drawn):
        session = opened(PEOPLE, drawn(5))
        session.query(
            "SELECT kind, COUNT(*) AS n FROM people WHERE region = 'north' GROUP BY kind", rho=0.02
        )
        found = session.query(BY_REGION, error=12)
        # south and east are not known at all
        z = stats.norm.isf(0.05 / 6)
        assert spent(found) == pytest.approx(level_for(12, z=z), rel=1e-4)
        assert found.origin is None

    def test_sums_and_formulas_of_one_cell_alike(self, opened, drawn):
        session = opened(PEOPLE, drawn(5))
        session.query("SELECT region, SUM(score) AS s FROM people GROUP BY region", rho=0.02)
        # sensitivity 10: sd 50 in each region
        found = session.query("SELECT SUM(score) AS s FROM people", error=100)
        assert found.origin.way == "new"
        assert spent(found) == pytest.approx(100 * level_for(100, 3 * 2500), rel=1e-4)

    def test_means_use_known_sums_and_counts(self, opened, drawn):
        session = opened(PEOPLE, drawn(5))
        alone = session.price(MEANS, error=0.5, rows=100)
        session.query(
            "SELECT region, kind, AVG(score) AS m FROM people GROUP BY region, kind", rho=0.3
        )
        found = session.query(MEANS, error=0.5, rows=100)
        assert found.origin.way in ("history", "new")
        assert spent(found) < float(alone.spent.rho)
        assert max(widths(found)["m"]) <= 0.5

    def test_means_are_free_exactly_where_the_past_suffices(self, opened, drawn):
        """|S - m C| <= q(m) for m up to the bounds, and C is at least rows - q_C (dpxplain.md 3.3)."""
        session = opened(PEOPLE, drawn(5))
        session.query(
            "SELECT region, kind, AVG(score) AS m FROM people GROUP BY region, kind", rho=0.05
        )
        # each kind adds up three regions; distances from 5 are 5 at most
        sums, counts = 3 * 25 / (2 * 0.65 * 0.05), 3 / (2 * 0.35 * 0.05)
        z, rows = stats.norm.isf(0.05 / 4), 200
        least = z * math.sqrt(sums + 25 * counts) / (rows - z * math.sqrt(counts))
        ways = [
            session.price(MEANS, error=least * factor, rows=rows).origin.way
            for factor in (1.001, 0.999)
        ]
        assert ways == ["history", "new"]

    def test_a_statement_without_anything_in_common_is_as_ever(self, opened, drawn):
        session = opened(PEOPLE, drawn(5))
        session.query("SELECT COUNT(*) AS n FROM people WHERE region = 'north'", rho=0.02)
        found = session.query("SELECT COUNT(*) AS n FROM people WHERE region = 'south'", error=10)
        assert found.origin is None

    def test_what_is_held_finely_enough_itself_is_as_ever(self, session):
        session.query(WHOLE, rho=1)
        found = session.query(WHOLE, error=50)
        assert found.origin is None
        assert spent(found) == 0

    def test_looks_at_any_time_leave_the_past_aside(self, session):
        found = session.query(WHOLE, error=30, looks="any")
        assert found.origin is None
        assert spent(found) > level_for(30) * 0.99

    def test_levels_are_never_merged(self, session):
        found = session.query(WHOLE, rho=0.05)
        assert found.origin is None
        assert found.estimates[0].count is not None


class TestWidths:
    """The displayed margin of error is never above the wanted one."""

    STATEMENTS = (
        (BY_REGION, ("n",), 25),
        ("SELECT SUM(score) AS s FROM people WHERE kind = 'old'", ("s",), 300),
        ("SELECT region, SUM(gain) AS g FROM people GROUP BY region", ("g",), 2_000),
        ("SELECT COUNT(gain) AS c, SUM(score) AS s FROM people", ("c", "s"), 200),
        ("SELECT kind, COUNT(*) AS n FROM people WHERE score <= 4 GROUP BY kind", ("n",), 15),
    )

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_counts_and_sums(self, opened, drawn, privacy):
        budget = {ZCDP: {"rho": 1_000, "delta": 1e-6}, PURE: {"epsilon": 60}}[privacy]
        level = {ZCDP: {"rho": 0.02}, PURE: {"epsilon": 0.25}}[privacy]
        session, ways = opened(PEOPLE, drawn(7), budget=budget), set()
        session.query(BY_BOTH, **level)
        session.query("SELECT score, COUNT(*) AS n FROM people GROUP BY score", **level)
        session.query(
            "SELECT kind, score, SUM(gain) AS g FROM people GROUP BY kind, score", **level
        )
        for shrink, (sql, names, error) in itertools.product((2, 0.4), self.STATEMENTS):
            found = session.query(sql, error=error * shrink)
            ways.add(found.origin.way if found.origin else None)
            made = widths(found)
            assert set(made) == set(names)
            assert max(max(halves) for halves in made.values()) <= error * shrink
        assert ways >= {"history", "new", "refined"}

    def test_means(self, opened, drawn):
        session, ways = opened(PEOPLE, drawn(7)), set()
        session.query(
            "SELECT region, kind, AVG(score) AS m FROM people GROUP BY region, kind", rho=0.1
        )
        for error, rows in ((3, 100), (0.4, 100), (0.15, 200)):
            found = session.query(MEANS, error=error, rows=rows)
            ways.add(found.origin.way)
            assert max(widths(found)["m"]) <= error
        assert ways == {"history", "new", "refined"}

    def test_of_each_on_its_own(self, session):
        sql = "SELECT region, SUM(score) AS s FROM people GROUP BY region"
        session.query(
            "SELECT region, kind, SUM(score) AS s FROM people GROUP BY region, kind", rho=0.02
        )
        found = session.query(sql, error=60, intervals="each", confidence=0.8)
        half = stats.norm.isf(0.1)
        assert spent(found) == pytest.approx(100 * level_for(60, 2 * 2500, z=half), rel=1e-4)
        assert widths(found)["s"] == pytest.approx([60] * 3, rel=1e-5)


class TestAgain:
    """The same request again: the same numbers, at no cost, also from a file."""

    REQUESTS = ((WHOLE, 30), (WHOLE, 15), (WHOLE, 6), (BY_REGION, 20), (MEANS, 0.8))

    def asked(self, session):
        return [
            session.query(sql, error=error, **({"rows": 100} if "AVG" in sql else {}))
            for sql, error in self.REQUESTS
        ]

    @staticmethod
    def bought(first, again):
        """Those that the ledger has; others get better with the past."""
        return [
            (old, new)
            for old, new in zip(first, again, strict=True)
            if old.origin is None or old.origin.way != "history"
        ]

    def test_in_one_session(self, session):
        first = self.asked(session)
        after = session.budget.spent
        ways = [one.origin.way if one.origin else None for one in first]
        assert ways == ["history", "new", "refined", "history", "new"]
        again = self.asked(session)
        assert session.budget.spent == after
        for old, new in self.bought(first, again):
            assert numbers(new) == numbers(old)
            assert new.stored
            assert spent(new) == 0
            assert new.origin is None or new.origin.way == old.origin.way

    def test_from_the_past_alone_as_long_as_nothing_is_bought(self, session):
        first = session.query(WHOLE, error=30)
        assert numbers(session.query(WHOLE, error=30)) == numbers(first)
        assert len(session.history.rows) == 1

    def test_after_a_file_is_opened_again(self, curated, drawn, tmp_path):
        path = tmp_path / "l"
        curator = curated(PEOPLE, drawn(5), ledger=path)
        with curator.session() as session:
            session.query(BY_BOTH, rho=0.02)
            first = self.asked(session)
        curator.close()
        before = entries(path)
        again = self.asked(curated(PEOPLE, drawn(99), ledger=path).session())
        for old, new in self.bought(first, again):
            assert numbers(new) == numbers(old)
            assert spent(new) == 0
            assert (new.origin is None) == (old.origin is None)
        assert entries(path)[: len(before)] == before
        # by now the total itself is held finely enough for an error of 30
        (more,) = entries(path)[len(before) :]
        assert more["sql"] == WHOLE
        assert set(more["spent"].values()) == {"0"}

    def test_after_a_finer_past(self, session):
        first = session.query(WHOLE, error=10)
        session.query(BY_BOTH, rho=5)
        again = session.query(WHOLE, error=10)
        assert numbers(again) == numbers(first)
        assert spent(again) == 0

    def test_a_stored_answer_keeps_its_origin_and_stays_plain_data(self, session):
        first = session.query(WHOLE, error=10)
        again = session.query(WHOLE, error=10)
        assert again.origin.way == "new"
        assert again.origin.past == 1
        read = Answer.from_dict(json.loads(json.dumps(first.to_dict())))
        assert read.origin == first.origin
        assert numbers(read) == numbers(first)


class TestPrices:
    """What is priced is what it costs."""

    LIST = (
        BY_REGION,
        WHOLE,
        "SELECT kind, COUNT(*) AS n FROM people GROUP BY kind",
        "SELECT COUNT(*) AS n FROM people WHERE region <> 'east'",
        "SELECT COUNT(*) AS n FROM people WHERE region = 'east' AND kind = 'old'",
    )

    @pytest.mark.parametrize(("start", "privacy"), [(BY_BOTH, ZCDP), (BY_BOTH, PURE), (None, ZCDP)])
    def test_of_a_list_one_after_the_other(self, opened, drawn, privacy, start):
        budget = {ZCDP: {"rho": 1_000, "delta": 1e-6}, PURE: {"epsilon": 60}}[privacy]
        session = opened(PEOPLE, drawn(5), budget=budget)
        if start:
            session.query(start, **({"rho": 0.02} if privacy == ZCDP else {"epsilon": 0.25}))
        before = session.budget.spent
        prices = session.price(list(self.LIST), error=14)
        assert session.budget.spent == before
        answers = session.query_all(list(self.LIST), error=14)
        assert [one.spent for one in prices] == [one.spent for one in answers]
        assert [one.origin and one.origin.way for one in prices] == [
            one.origin and one.origin.way for one in answers
        ]
        assert any(one.origin is not None for one in prices)
        for one in answers:
            assert max(widths(one)["n"]) <= 14

    def test_of_one(self, session):
        for error in (40, 12, 5):
            price = session.price(WHOLE, error=error)
            found = session.query(WHOLE, error=error)
            assert price.spent == found.spent
            assert price.origin == found.origin
            assert price.widths == (("n", None, float(error)),)
            again = session.price(WHOLE, error=error)
            assert float(again.spent.level(ZCDP)) == 0

    def test_of_means(self, opened, drawn):
        session = opened(PEOPLE, drawn(5))
        session.query(
            "SELECT region, kind, AVG(score) AS m FROM people GROUP BY region, kind", rho=0.05
        )
        price = session.price(MEANS, error=0.5, rows=100)
        assert price.origin.way == "new"
        assert price.spent == session.query(MEANS, error=0.5, rows=100).spent

    def test_without_the_past(self, session):
        price = session.price(WHOLE, error=10, history=False)
        assert price.origin is None
        assert float(price.spent.rho) == pytest.approx(level_for(10), rel=1e-5)

    def test_all_or_nothing(self, opened, drawn):
        session = opened(PEOPLE, drawn(5), budget={"rho": 0.02, "delta": 1e-6})
        with pytest.raises(BudgetError, match="together"):
            session.query_all(list(self.LIST), error=5)
        assert session.history.rows == ()
        # a cheaper list that past answers make affordable
        both = session.query_all([BY_REGION, WHOLE], error=30)
        assert both[1].origin is not None

    def test_an_empty_list(self, session):
        with pytest.raises(RequestError, match="list of statements is empty"):
            session.query_all([])


class TestOff:
    """history=False is the system without any of this."""

    REQUESTS = (
        (BY_BOTH, {"rho": 0.02}), (WHOLE, {"error": 30}), (WHOLE, {"error": 12}), (BY_REGION, {"error": 15}),
        (MEANS, {"error": 0.7, "rows": 100}), (BY_REGION, {"error": 9}), (WHOLE, {"rho": 0.3}),
        ("SELECT COUNT(*) AS n FROM people WHERE score > 5", {"error": 20}),
        ("SELECT region, COUNT(*) AS n FROM people WHERE score > 5 GROUP BY region", {"error": 20}),
        ("SELECT kind, COUNT(*) AS n FROM people WHERE score > 5 GROUP BY kind", {"error": 18}),
    )  # fmt: skip

    def run(self, curated, drawn, path, order, history):
        curator = curated(PEOPLE, drawn(5), ledger=path)
        session = curator.session()
        for place in order:
            sql, options = self.REQUESTS[place]
            session.query(sql, history=history, **options)
        told = session.budget.spent
        curator.close()
        return told, answered(path)

    def test_no_entry_speaks_of_the_past(self, curated, drawn, tmp_path):
        _, found = self.run(
            curated, drawn, tmp_path / "l", range(len(self.REQUESTS)), history=False
        )
        assert len(found) == len(self.REQUESTS)
        assert not any({"way", "past", "alone"} & set(one) for one in found)
        # the level of each error is the one of its margin of error alone
        (level,) = found[2]["levels"].values()
        assert float(Fraction(level)) == pytest.approx(level_for(12), rel=1e-6)

    def test_levels_and_losses_are_never_above(self, curated, drawn, tmp_path, size):
        rng, saved, turns = np.random.default_rng(4), 0, size(1)
        for turn in range(turns):
            order = rng.permutation(len(self.REQUESTS))
            with_past, on = self.run(curated, drawn, tmp_path / f"on{turn}", order, history=True)
            without, off = self.run(curated, drawn, tmp_path / f"off{turn}", order, history=False)
            assert with_past.rho <= without.rho
            saved += with_past.rho < without.rho
            finest = {}
            for one in off:
                for view, level in one["levels"].items():
                    finest[view] = max(Fraction(level), finest.get(view, Fraction(0)))
            for one in on:
                for view, level in one["levels"].items():
                    assert Fraction(level) <= finest[view]
            assert len(on) <= len(off)
        assert saved == turns

    def test_entries_of_unhelped_answers_are_the_same(self, curated, drawn, tmp_path):
        order = [7, 0]
        _, on = self.run(curated, drawn, tmp_path / "on", order, history=True)
        _, off = self.run(curated, drawn, tmp_path / "off", order, history=False)
        # the name of the request says whether the past was allowed
        public = ("levels", "spent", "row", "sql", "analyst", "declared", "views")
        for one, other in zip(on, off, strict=True):
            assert set(one) == set(other)
            assert all(one.get(name) == other.get(name) for name in public)

    def test_neither_true_nor_false_is_refused(self, session):
        with pytest.raises(RequestError, match="history must be True or False"):
            session.query(WHOLE, error=5, history="no")


BUDGETS = {
    ZCDP: {"rho": 50, "delta": 1e-6},
    "gdp": {"epsilon": 50, "delta": 1e-6, "accountant": "gdp"},
    "basic": {"epsilon": 50, "delta": 1e-6, "accountant": "basic"},
}


class TestAnalysts:
    """Several analysts, declared views, each mechanism, each privacy definition."""

    # each mechanism and each privacy definition; basic composition cannot count noise paths
    @pytest.fixture(
        params=[("path", ZCDP), ("additive", BASIC), ("vanilla", GDP)],
        ids="-".join,
    )
    def curator(self, request, curated, drawn):
        mechanism, privacy = request.param
        return curated(
            PEOPLE, drawn(5), budget=BUDGETS[privacy], analysts={"a": 1, "b": 1, "c": 1},
            policy=Policy(mechanism=mechanism), views=["region", "score", ["region", "kind"]],
        )  # fmt: skip

    STATEMENTS = (
        (BY_REGION, 12), (WHOLE, 20), (WHOLE, 8), (BY_BOTH, 20), (BY_REGION, 6),
        ("SELECT COUNT(*) AS n FROM people WHERE region = 'north'", 10),
        ("SELECT COUNT(*) AS n FROM people WHERE score BETWEEN 2 AND 7 AND kind = 'new'", 10),
        ("SELECT SUM(score) AS n FROM people", 200),
        ("SELECT kind, COUNT(*) AS n FROM people GROUP BY kind", 15),
        # no declared view tells these
        ("SELECT region, COUNT(*) AS n FROM people WHERE gain > 40 GROUP BY region", 12),
        ("SELECT COUNT(*) AS n FROM people WHERE gain > 40", 25),
        ("SELECT COUNT(*) AS n FROM people WHERE gain > 40", 8),
        ("SELECT COUNT(*) AS n FROM people WHERE gain > 40", 5),
    )  # fmt: skip

    def test_errors_are_kept_and_prices_are_costs(self, curator):
        ways = set()
        for number, (sql, error) in enumerate(self.STATEMENTS):
            for name in ("a", "b") if number % 3 == 1 else ("a",):
                session = curator.session(name)
                price = session.price(sql, error=error)
                found = session.query(sql, error=error)
                assert price.spent == found.spent
                assert (price.origin and price.origin.way) == (found.origin and found.origin.way)
                assert max(widths(found)["n"]) <= error * (1 + 1e-9)
                ways.add(found.origin.way if found.origin else None)
                # every second of them, of each table that views tell or not
                if number % 2:
                    continue
                again = session.query(sql, error=error)
                free = found.origin is not None and found.origin.way == "history"
                assert free or numbers(again) == numbers(found)
        assert ways == {None, "history", "new", "refined"}

    def test_what_others_bought_is_no_past_of_mine(self, curator):
        a, b, c = (curator.session(name) for name in "abc")
        a.query(BY_BOTH, error=3)
        b.query(BY_REGION, error=30)
        # b knows regions with an error of 30, whatever a knows
        found = b.price(WHOLE, error=25)
        other = c.price(WHOLE, error=25)
        assert other.origin is None
        assert found.origin is None or found.origin.past == 1
        with pytest.raises(RequestError, match="no past answer to you"):
            c.infer(WHOLE)


def test_a_sum_of_rounded_values_is_advised_from_their_average(session):
    """A Real is rounded around another origin for its average, so sums do not follow; the product does."""
    session.query("SELECT region, AVG(gain) AS m FROM people GROUP BY region", rho=1)
    total = "SELECT region, SUM(gain) AS s FROM people GROUP BY region"
    with pytest.raises(
        RequestError, match="hold the average of these values, but not their sum"
    ) as said:
        session.infer(total)
    assert said.value.hint == "Infer the AVG and the COUNT of the same column, and multiply them."
    assert session.infer(total.replace("SUM", "AVG")).told
    assert session.infer(total.replace("SUM", "COUNT")).told
    # nothing of an average under another condition is held, so nothing is advised
    with pytest.raises(RequestError, match="past answers do not determine this"):
        session.infer("SELECT SUM(gain) AS s FROM people WHERE gain > 50")


class TestUse:
    """What can be done with such answers."""

    def test_an_answer_from_the_past_can_be_compared(self, session):
        found = session.query(BY_REGION, error=25)
        assert found.origin.way == "history"
        question = found.compare("north", "east")
        values = found.estimates[0].estimate
        assert question.estimate == pytest.approx(values[0] - values[2])
        assert question.low <= question.estimate <= question.high
        assert question.valid
        assert not found.compare("east", "north").valid

    @pytest.mark.parametrize("error", [25, 8])
    def test_it_is_explained_or_refused_with_a_hint(self, session, error):
        found = session.query(BY_REGION, error=error)
        before = session.budget.spent
        question = found.compare("north", "east")
        try:
            made = session.explain(question, k=1, rho=0.5)
        except DpnbError as refused:
            assert refused.hint
            assert session.budget.spent == before
        else:
            assert len(made.to_frame()) == 1

    def test_a_frame_a_record_and_plain_data(self, session):
        for error in (25, 8):
            found = session.query(BY_REGION, error=error)
            assert list(found.to_frame().columns) == ["region", "n", "n_low", "n_high"]
            text = json.dumps(found.to_dict(), allow_nan=False)
            assert Answer.from_dict(json.loads(text)).to_dict() == found.to_dict()
            assert found.to_markdown()
            assert json.dumps(found.record())

    def test_the_history_lists_only_what_was_bought(self, session):
        session.query(WHOLE, error=30)
        session.query(WHOLE, error=10)
        assert [row[2] for row in session.history.rows] == [BY_BOTH, WHOLE]


class TestBroken:
    """An interruption costs nothing, or loses nothing."""

    class StoppedError(Exception):
        pass

    def session(self, curated, drawn, path, seed=5):
        return curated(PEOPLE, drawn(seed), ledger=path)

    def test_before_the_commit(self, curated, drawn, tmp_path, monkeypatch):
        path, original = tmp_path / "l", Ledger.transaction
        curator = self.session(curated, drawn, path)
        session = curator.session()
        session.query(BY_BOTH, rho=0.02)
        before = entries(path)

        @contextlib.contextmanager
        def broken(ledger):
            with original(ledger) as append:

                def write(entry):
                    append(entry)
                    raise self.StoppedError

                yield write

        monkeypatch.setattr(Ledger, "transaction", broken)
        with pytest.raises((self.StoppedError, DpnbError)):
            session.query(WHOLE, error=10)
        monkeypatch.undo()
        curator.close()
        assert entries(path) == before
        again = self.session(curated, drawn, path, 6).session()
        found = again.query(WHOLE, error=10)
        assert found.origin.way == "new"
        assert spent(found) == pytest.approx(level_for(10, 150), rel=1e-4)

    def test_after_the_commit(self, curated, drawn, tmp_path, monkeypatch):
        from dpnb.answers.reuse import OnlineRequest

        path = tmp_path / "l"
        curator = self.session(curated, drawn, path)
        session = curator.session()
        session.query(BY_BOTH, rho=0.02)

        def broken(*_, **__):
            raise self.StoppedError

        monkeypatch.setattr(OnlineRequest, "result", broken)
        with pytest.raises((self.StoppedError, DpnbError)):
            session.query(WHOLE, error=10)
        monkeypatch.undo()
        curator.close()
        paid = answered(path)
        assert paid[-1]["way"] == "new"
        again = self.session(curated, drawn, path, 6).session()
        first, second = again.query(WHOLE, error=10), again.query(WHOLE, error=10)
        assert first.stored
        assert spent(first) == 0
        assert numbers(first) == numbers(second)
        assert answered(path) == paid
        assert widths(first)["n"][0] <= 10


def test_declared_views_added_later_leave_stored_answers_as_they_are(curated, drawn):
    curator = curated(PEOPLE, drawn(5), analysts={"a": 1})
    session = curator.session("a")
    session.query(BY_BOTH, rho=0.02)
    first = session.query(BY_REGION, error=12)
    assert first.origin.way == "new"
    curator.add_view(["region"])
    again = session.query(BY_REGION, error=12)
    assert numbers(again) == numbers(first)
    assert float(again.spent.rho) == 0


def test_thousands_of_values_are_answered_without_a_look_at_the_past(opened, drawn):
    schema = Schema({"a": Integer(0, 30), "b": Integer(0, 30)}, complete=["a", "b"])
    wide = Table("t", pd.DataFrame({"a": [1, 2], "b": [3, 4]}), schema)
    session = opened(wide, drawn(5))
    session.query("SELECT a, COUNT(*) AS n FROM t GROUP BY a", rho=1)
    found = session.query("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", error=20)
    assert found.origin is None
