"""Tables of persons: what one id changes, what is charged for it, and what it says, on neighbours."""

from __future__ import annotations

import json
from contextlib import closing
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from dpnb import Budget, Category, Curator, Integer, Real, Schema, Table, Unit
from dpnb.answers.verbs import statement
from dpnb.engines import duckdb, persons
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.call import Call
from dpnb.releases.derived import persons_of
from dpnb.sql.features import Linked
from tests.kit.noise import BlindNoise
from tests.kit.streams import WatchedNoise, entries, outcome, silence

MOST = 3
SCHEMA = Schema(
    {
        "g": Category(["a", "b", "c"]),
        "x": Integer(2, 9),
        "y": Integer(-4, 5),
        "r": Real(-8, 8),
        "shop": Integer(1, 20),
    },
    complete=["y", "shop"],
)
KEY = b"one key for both neighbours"


def people(seed: int, count: int = 9) -> pd.DataFrame:
    """Ids of 1 to 6 rows, of which 3 are kept; id 0 has the largest values."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(count), rng.integers(1, 7, count))
    rows = len(ids)
    frame = pd.DataFrame(
        {
            "id": ids,
            "g": rng.choice(["a", "b", "c", None], rows),
            "x": rng.integers(2, 10, rows).astype(float),
            "y": rng.integers(-4, 6, rows),
            "r": rng.normal(0, 6, rows),
            "shop": rng.integers(1, 21, rows),
        }
    )
    frame.loc[rng.random(rows) < 0.3, ["x", "r"]] = np.nan
    many = pd.DataFrame({"id": 0, "g": [*"abc"], "x": 9.0, "y": 5, "r": 8.0, "shop": [3, 7, 11]})
    return pd.concat([frame[frame["id"] != 0], many], ignore_index=True)


P = "(SELECT id, {} FROM t{} GROUP BY id) AS p"
STATEMENTS = [
    f"SELECT COUNT(*) AS n FROM {P.format('COUNT(*) AS k', '')}",
    f"SELECT k, COUNT(*) AS n, SUM(s) AS t FROM {P.format('COUNT(*) AS k, SUM(x) AS s', '')} GROUP BY k",
    f"SELECT SUM(s) AS t, AVG(m) AS a FROM {P.format('SUM(y) AS s, AVG(r) AS m', ' WHERE x > 3')} WHERE s > -2",
    f"SELECT SUM(s) AS t FROM {P.format('SUM(r) AS s', '')}",
    f"SELECT SUM(d * s) AS t FROM {P.format('COUNT(DISTINCT g) AS d, MAX(x) AS s', '')}",
    f"SELECT w, COUNT(*) AS n FROM {P.format('ANY_VALUE(g) AS w', '')} GROUP BY w",
    f"SELECT COUNT(DISTINCT id) AS n FROM {P.format('COUNT(*) AS k', '')} WHERE k > 1",
    "SELECT shop, COUNT(*) AS n FROM (SELECT DISTINCT id, shop FROM t) AS p GROUP BY shop",
    "SELECT SUM(s) AS n FROM (SELECT id, shop, SUM(y) AS s FROM t GROUP BY id, shop) AS p",
    "SELECT k, COUNT(*) AS n FROM (SELECT DISTINCT id, shop // 4 AS k FROM t) AS p GROUP BY k",
    "SELECT SUM(s) AS n FROM (SELECT id, g || '!', SUM(x) AS s FROM t GROUP BY 1, 2) AS p",
    f"SELECT w, COUNT(*) AS n FROM {P.format('MODE(g) AS w', '')} GROUP BY w",
    f"SELECT SUM(w) AS n FROM {P.format('MODE(x) AS w', '')}",
    "SELECT SUM(m) AS n FROM (SELECT id, MAX(s) AS m FROM (SELECT id, g, SUM(x) AS s FROM t GROUP BY id, g) AS q "
    "GROUP BY id) AS p",
    f"SELECT SUM(k) AS n, COUNT(*) AS c FROM t JOIN {P.format('SUM(x) AS k', '')} ON t.id = p.id",
    "SELECT COUNT(*) AS n, SUM(y) AS s FROM t WHERE id IN (SELECT id FROM t GROUP BY id HAVING COUNT(*) > 1)",
    f"SELECT SUM(r) AS n FROM {P.format('COUNT(*) AS k', '')} JOIN t USING (id) WHERE k = 3",
    f"SELECT COUNT(*) AS n, SUM(k - m) AS s FROM {P.format('COUNT(*) AS k', '')} "
    "JOIN (SELECT id, SUM(x) AS m FROM t WHERE g = 'a' GROUP BY id) AS q ON p.id = q.id",
]


def table(frame=None, most=MOST, schema=SCHEMA, **options):
    return Table("t", frame, schema, Unit("id", max_rows=most), **options)


def curator_of(frame, budget=None, **options):
    return Curator(table(frame), budget=budget or Budget(rho=1_000, delta=1e-6), **options)


@pytest.fixture
def curator():
    with closing(curator_of(people(1), analysts={"ann": 2, "bob": 2}, noise=BlindNoise())) as held:
        yield held


def charged(curator):
    return curator._runner.store.accountant.spent.rho


class TestSensitivity:
    """Exact vectors move by no more than the noise was made for, and some by as much."""

    def test_over_all_neighbours(self):
        with closing(curator_of(people(0))) as held:
            runner = held._runner
            requests = [
                statement(runner, "analyst", Call("query", sql, {"rho": 1})) for sql in STATEMENTS
            ]
            plans = [request.plan() for request in requests]
            persons = [persons_of(plan.query.table, runner.tables) for plan in plans]

            def exact(frame):
                engine = DuckDBEngine(table(frame))
                engine.bound(KEY)
                found = [
                    request.measure(plan, set(plan.views), engine_of(engine, one, runner))
                    for request, plan, one in zip(requests, plans, persons, strict=True)
                ]
                engine.close()
                return found

            def engine_of(engine, one, runner):
                below = one.base.name
                base = (
                    engine
                    if below == "t"
                    else engine_of(engine, persons_of(below, runner.tables), runner)
                )
                if isinstance(one, Linked):
                    return base.linked(one, [engine_of(engine, line, runner) for line in one.lines])
                return base.persons(one)

            reached = {}
            for seed in (1, 2):
                whole = people(seed)
                every = exact(whole)
                for who in whole["id"].unique():
                    less = exact(whole[whole["id"] != who])
                    for i, plan in enumerate(plans):
                        for name, view in plan.views.items():
                            gaps = [
                                int(a) - int(b)
                                for a, b in zip(every[i][name], less[i][name], strict=True)
                            ]
                            norms = sum(map(abs, gaps)), sum(gap * gap for gap in gaps)
                            for privacy, gap, power in zip(
                                (PURE, ZCDP), norms, (1, 2), strict=True
                            ):
                                used = gap / view.lattice_sensitivity(privacy) ** power
                                assert used <= 1, (STATEMENTS[i], view, privacy)
                                reached[i, name] = max(reached.get((i, name), 0), used)
        assert np.mean([used > 0.8 for used in reached.values()]) > 0.6

    def test_rows_of_a_key_are_as_many_as_are_kept(self):
        """One id may buy in 20 shops: a bound for each shop bounds no number of shops."""
        sql = "SELECT COUNT(*) FROM (SELECT DISTINCT id, shop FROM t) AS p"
        for most, rows in ((3, 3), (20, 20), (50, 20)):
            with closing(Curator(table(people(1), most), budget=Budget(rho=1))) as held:
                answer = held.session().query(sql, rho="0.01")
                (definition,) = answer.definitions.values()
                assert definition["unit"] == ["id", rows, most]


class TestLines:
    """A person's line depends on that person's kept rows alone, in whichever order they are read."""

    FEATURES = (
        "COUNT(*) AS a, SUM(x) AS b, AVG(r) AS c, SUM(r) AS d, MEDIAN(r) AS e, ANY_VALUE(g) AS f, "
        "FIRST(x ORDER BY shop) AS h, ARG_MAX(r, y) AS i, ANY_VALUE(r) AS j, COUNT(DISTINCT shop) AS k, "
        "MODE(shop) AS l"
    )

    @staticmethod
    def frame():
        rng = np.random.default_rng(7)
        rows = 40_000
        return pd.DataFrame(
            {
                "id": rng.integers(0, 2_000, rows),
                "g": rng.choice(["a", "b", "c", None], rows),
                "x": rng.integers(2, 10, rows),
                "y": rng.integers(-4, 6, rows),
                "r": rng.normal(0, 6, rows),
                "shop": rng.integers(1, 6, rows),
            }
        )

    def lines(self, frame, threads, features=FEATURES):
        lock = (f"SET threads={threads}", *duckdb._LOCK)
        with mock.patch.object(duckdb, "_LOCK", lock):
            held = curator_of(frame)
        with closing(held):
            runner = held._runner
            sql = f"SELECT COUNT(*) FROM (SELECT id, {features} FROM t GROUP BY id) AS p"
            plan = statement(runner, "analyst", Call("query", sql, {"rho": 1})).plan()
            base = DuckDBEngine(table(frame, 12))
            base.bound(KEY)
            engine = base.persons(persons_of(plan.query.table, runner.tables))
            found = engine._lent(
                lambda cursor: cursor.execute(f"SELECT * FROM {engine._rows}").fetchall()
            )
            base.close()
        # bits, not values: -0.0 and NaN included
        return {
            line[0]: tuple(one.hex() if isinstance(one, float) else one for one in line)
            for line in found
        }

    def test_order_threads_and_other_people_change_no_bit(self):
        frame = self.frame()
        first = self.lines(frame, 4)
        assert len(first) == 2_000
        assert self.lines(frame.sample(frac=1, random_state=1), 1) == first
        less = self.lines(frame[frame["id"] != 77].sample(frac=1, random_state=2), 4)
        assert less == {who: line for who, line in first.items() if who != 77}

    def test_one_number_finds_the_row_that_comes_first(self):
        features = (
            "FIRST(g ORDER BY y DESC, shop) AS a, FIRST(x ORDER BY y DESC) AS b, ANY_VALUE(g) AS c, "
            "LAST(g ORDER BY y) AS d, ARG_MAX(shop, y) FILTER (WHERE x > 8) AS e, ARG_MIN(y, x) AS f"
        )
        frame = self.frame()[:12_000]
        frame["y"] = frame["y"].where(frame["y"] % 3 > 0)
        found = self.lines(frame, 2, features)
        with mock.patch.object(persons, "_packed", return_value=None):
            assert self.lines(frame, 2, features) == found
        missing = [sum(line[place] is None for line in found.values()) for place in range(7)]
        assert sum(map(bool, missing)) > 1


def of_persons(inner, result="COUNT(*)", where=""):
    return f"SELECT {result} AS z FROM ({inner} GROUP BY id) AS p {where}"


class TestCharges:
    """A statement over persons costs its whole level, beside everything else about the table."""

    def test_it_is_added_to_whatever_is_asked_of_rows(self, curator):
        session = curator.session("ann")
        session.query("SELECT COUNT(*) AS n FROM t WHERE g = 'a'", rho=1)
        session.query("SELECT COUNT(*) AS n FROM t WHERE g = 'b'", rho=1)
        assert charged(curator) == 1
        session.query(of_persons("SELECT id FROM t WHERE g = 'a'"), rho=1)
        assert charged(curator) == 2

    def test_persons_of_disjoint_rows_do_not_share(self, curator):
        """One id may have rows in each of them."""
        for cost, group in enumerate("abc", 1):
            curator.session("ann").query(of_persons(f"SELECT id FROM t WHERE g = '{group}'"), rho=1)
            assert charged(curator) == cost

    def test_disjoint_lines_of_one_table_share(self, curator):
        """One id has one line there."""
        inner = "SELECT id, COUNT(*) AS k FROM t"
        for number in (1, 2, 3):
            curator.session("ann").query(of_persons(inner, where=f"WHERE k = {number}"), rho=1)
        assert charged(curator) == 1

    def test_lines_of_several_keys_share_by_the_rule_of_rows(self, curator):
        """The rows of one id in all keys together cost what the whole table costs once."""
        inner = "SELECT id, shop, COUNT(*) AS k FROM t GROUP BY id, shop"
        for shop in (1, 2):
            sql = f"SELECT COUNT(*) AS z FROM ({inner}) AS p WHERE shop = {shop}"
            curator.session("ann").query(sql, rho=1)
        assert charged(curator) == 1

    def test_asking_again_or_more_accurately_costs_the_increase(self, curator):
        session = curator.session("ann")
        sql = of_persons("SELECT id, SUM(x) AS s FROM t", "AVG(s)")
        session.query(sql, rho=1)
        assert session.query(sql, rho=1).spent.rho == 0
        assert (
            session.query(sql.replace("s F", "other F").replace("(s)", "(other)"), rho=1).spent.rho
            == 0
        )
        assert session.query(sql, rho="1.5").spent.rho == Fraction(1, 2)

    def test_inference_never_mixes_persons_and_rows(self, curator):
        session = curator.session("ann")
        session.query("SELECT COUNT(*) AS n FROM t", rho=1)
        with pytest.raises(RequestError, match="no past answer to you is about this table"):
            session.infer(of_persons("SELECT id FROM t"))
        lines = "SELECT id, COUNT(*) AS k FROM t"
        session.query(of_persons(lines, "k, COUNT(*)") + "GROUP BY k", rho=1)
        assert session.infer(of_persons(lines)).estimate is not None


READ_X = [
    of_persons("SELECT id, SUM(x) AS s FROM t", "SUM(s)"),
    of_persons("SELECT id, SUM(x) AS s FROM t"),
    of_persons("SELECT id, SUM(x) AS s, COUNT(*) AS k FROM t", "AVG(k)"),
    of_persons("SELECT id, SUM(x) AS s FROM t", where="WHERE s > 4"),
    of_persons("SELECT id FROM t WHERE x > 3"),
    of_persons("SELECT id, COUNT(*) FILTER (WHERE x > 3) AS k FROM t", "AVG(k)"),
    of_persons("SELECT id, FIRST(g ORDER BY x) AS w FROM t", where="WHERE w = 'a'"),
    of_persons("SELECT id, ARG_MIN(y, x) AS w FROM t", "SUM(w)"),
    "SELECT COUNT(*) AS z FROM (SELECT DISTINCT id, x FROM t) AS p",
    "SELECT COUNT(*) AS z FROM (SELECT id, x % 3 FROM t GROUP BY id, x % 3) AS p",
    of_persons("SELECT id, MODE(x) AS m FROM t"),
    "SELECT COUNT(*) AS z FROM t WHERE id IN (SELECT id FROM t GROUP BY id HAVING MAX(x) > 4)",
    "SELECT COUNT(*) AS z FROM t WHERE id IN (SELECT id FROM t WHERE x > 4)",
    "SELECT COUNT(*) AS z FROM t JOIN (SELECT id, SUM(x) AS s FROM t GROUP BY id) AS p ON t.id = p.id",
    "SELECT SUM(x) AS z FROM t JOIN (SELECT id FROM t GROUP BY id) AS p ON t.id = p.id",
    of_persons(
        "SELECT id, MAX(k) AS m FROM (SELECT id, g, MAX(x) AS k FROM t GROUP BY id, g) AS q"
    ),
]


class TestColumns:
    @pytest.mark.parametrize("sql", READ_X)
    def test_every_way_to_read_one_is_bounded(self, sql, curator):
        curator.limit(column="x", table="t", rho=0.001)
        with pytest.raises(BudgetError):
            curator.session("ann").query(sql, rho=0.02)
        assert charged(curator) == 0
        curator.session("ann").query(sql, rho="0.0009")
        with pytest.raises(BudgetError):
            curator.session("bob").query("SELECT SUM(x) AS s FROM t", rho="0.0009")

    def test_decisions_and_explanations_count(self, curator):
        session = curator.session("ann")
        lines = (
            "(SELECT id, ANY_VALUE(g) AS w, FIRST(g ORDER BY y) AS v, SUM(x) AS s, MIN(y) AS m FROM t "
            "GROUP BY id) AS p"
        )
        answer = session.query(f"SELECT w, AVG(m) AS a FROM {lines} GROUP BY w", rho=1)
        curator.limit(column="x", table="t", rho=Fraction(1))
        with pytest.raises(BudgetError):
            session.explain(answer.compare("a", "b"), k=1, rho=1, anyway=True)
        with pytest.raises(BudgetError):
            session.decide(f"SELECT w FROM {lines} GROUP BY w HAVING COUNT(*) > 2", u=1)

    def test_columns_of_other_tables_count_through_lines(self):
        age = Table(
            "u",
            pd.DataFrame({"id": range(9), "age": 30}),
            Schema({"age": Integer(1, 90)}),
            Unit("id", 1),
        )
        tables = [table(people(1)), age]
        with closing(Curator(tables, budget=Budget(rho=9), analysts={"ann": 2})) as held:
            held.limit(column="age", table="u", rho=0.001)
            sql = f"SELECT SUM(age) AS z FROM {P.format('COUNT(*) AS k', '')} JOIN u ON p.id = u.id WHERE k > 1"
            with pytest.raises(BudgetError):
                held.session("ann").query(sql, rho=0.02)
            held.session("ann").query(sql, rho="0.0009")

    def test_other_columns_are_free_of_it(self, curator):
        curator.limit(column="x", table="t", rho=0.001)
        curator.session("ann").query(
            of_persons("SELECT id, SUM(y) AS s FROM t", "SUM(s)"), rho=0.02
        )

    def test_a_protected_claim_about_the_table_closes_them(self, curator):
        sql = of_persons("SELECT id FROM t")
        curator.session("ann").query(sql, rho=1)
        curator.protect("SELECT COUNT(*) FROM t WHERE g = 'a'", ">", 5)
        with pytest.raises(RequestError, match="one row for each id are not available"):
            curator.session("bob").query(sql, rho=1)


SECRET = 918273645
BASE = people(3).assign(id=lambda rows: rows["id"] + SECRET)
NEIGHBOURS = {
    "one id less": BASE[BASE["id"] != SECRET],
    "nobody": BASE.iloc[:0],
    "one id alone, with extreme values": BASE.assign(id=1, x=1e300, r=-np.inf, y=2**40),
    "each row another id": BASE.assign(id=range(len(BASE))),
}
BAD = [
    "SELECT id, COUNT(*) FROM (SELECT id FROM t GROUP BY id) AS p GROUP BY id",
    of_persons("SELECT id, LIST(x) AS l FROM t"),
    of_persons("SELECT id, COUNT(*) AS k FROM t", where="WHERE k > 3"),
    of_persons("SELECT id, COUNT(*) AS k FROM t", where=f"WHERE id = {SECRET}"),
]


class TestMessages:
    """What is said, drawn, charged and written is the same on every table, whoever is in it."""

    def stream(self, frame, path, caplog, capfd):
        noise = WatchedNoise()
        said = []
        with (
            silence(caplog, capfd),
            mock.patch("secrets.token_bytes", bytes),
            closing(curator_of(frame, ledger=path, noise=noise)) as held,
        ):
            session = held.session()
            for sql in (*STATEMENTS, *BAD):
                said.append(outcome(lambda q=sql: repr(session.price(q, rho=0.04))))
                said.append(outcome(lambda q=sql: self.told(session.query(q, rho=0.04))))
                said.append(outcome(lambda q=sql: repr(session.infer(q))))
            said.append([repr(held.provenance), [row[2:] for row in session.history]])
        assert noise.whole
        return said, noise.asked, entries(path)

    @staticmethod
    def told(answer):
        return repr(answer), answer._repr_html_(), json.dumps(answer.to_dict(), sort_keys=True)

    def test_the_stream_is_identical(self, tmp_path, caplog, capfd):
        base = self.stream(BASE, tmp_path / "base", caplog, capfd)
        assert sum(isinstance(one, tuple) and one[0] == "SqlError" for one in base[0]) == 3 * len(
            BAD
        )
        for name, frame in NEIGHBOURS.items():
            other = self.stream(frame, tmp_path / name.replace(" ", "_"), caplog, capfd)
            assert other == base, name
        written = repr(base).replace(f"id = {SECRET}", "")
        for who in BASE["id"].unique():
            assert str(who) not in written
