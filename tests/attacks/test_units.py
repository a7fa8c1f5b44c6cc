"""Whoever has many rows is protected as a whole: what moves when one id comes or goes, and what is said.

Nothing here believes the code about a sensitivity: exact vectors before noise are compared on tables that
differ by one id with all its rows, for statements of every shape, and the losses that follow are added up.
"""

from __future__ import annotations

import json
import logging
import math
import warnings
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table, Unit
from dpnb.answers.recall import recalled
from dpnb.answers.verbs import statement
from dpnb.curator import Curator
from dpnb.display.cards.risk import choice_sentences
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import LedgerError, SqlError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.call import Call
from dpnb.schema.schema import groups_counted
from dpnb.views.definitions import read_view
from dpnb.views.histogram import histogram
from dpnb.views.view import scan_of
from tests.kit.noise import NoNoise
from tests.kit.streams import LONG, WatchedNoise, compared, entries, outcome, refusals

SCHEMA = Schema(
    {
        "g": Category(["a", "b", "c"]),
        "h": Category(["y", "n", "rest"], other="rest"),
        "x": Integer(-4, 9, bins=[-4, 0, 9]),
        "k": Integer(0, 5),
        "r": Real(-10, 10, bins=[-10, 0, 10]),
    }
)
KEY = b"one key for both neighbours"
UNITS = [Unit("id", 1), Unit("id", 4), Unit("id", 4, 2), Unit("id", 12, 3), Unit("id", 50)]


def rows_of(rng, count, who, kind):
    """Rows of one id: scattered, all alike, all in one group, or extreme."""
    frame = pd.DataFrame(
        {
            "id": who,
            "g": rng.choice([*"abc", None, "else"], count),
            "h": rng.choice(["y", "n", "?", None], count),
            "x": rng.integers(-9, 15, count),
            "k": rng.integers(0, 7, count).astype(float),
            "r": np.where(rng.random(count) < 0.1, np.nan, rng.normal(0, 8, count)),
        }
    )
    if kind == "alike":
        frame = frame.iloc[[0] * count].reset_index(drop=True)
    elif kind == "group":
        frame["g"], frame["h"] = "a", "y"
    elif kind == "extreme":
        frame = frame.assign(g="b", h="n", x=99, k=9.0, r=rng.choice([1e300, np.inf, -1e9], count))
    return frame


def crowd(seed, people=12):
    """A table with one id, 0, that has more rows than most."""
    rng = np.random.default_rng(seed)
    kinds = ["scattered", "alike", "group", "extreme"]
    parts = [rows_of(rng, int(rng.integers(1, 15)), who, "scattered") for who in range(1, people)]
    parts.append(rows_of(rng, int(rng.integers(1, 60)), 0, kinds[seed % 4]))
    return pd.concat(parts, ignore_index=True)


def engine_of(frame, unit, schema=SCHEMA, key=KEY):
    made = DuckDBEngine(Table("t", frame, schema, unit))
    made.bound(key)
    return made


def opened(unit, budget=None, frame=None, schema=SCHEMA, **options):
    frame = crowd(0) if frame is None else frame
    table = Table("t", frame, schema, unit)
    return Curator(table, budget=budget or dpnb.Budget(rho=1_000), **options)


STATEMENTS = [
    "SELECT COUNT(*) AS n FROM t",
    "SELECT g, COUNT(*) AS n, COUNT(x) AS m, SUM(x) AS s FROM t GROUP BY g",
    "SELECT g, h, SUM(r) AS s, AVG(x) AS m FROM t GROUP BY g, h",
    "SELECT AVG(r) AS m FROM t WHERE x > 2 OR g = 'b'",
    "SELECT h, COUNT(*) FILTER (WHERE x < 0) AS n, SUM(k) FILTER (WHERE g = 'a') AS s FROM t GROUP BY h",
    "SELECT x, SUM(CASE WHEN g = 'a' THEN k WHEN h = 'y' THEN -2 * x ELSE 1 END) AS s FROM t GROUP BY x",
    "SELECT SUM(x * k - r / 3) AS s FROM t WHERE NOT (k = 2)",
    "SELECT k, AVG(x * x) AS m FROM t GROUP BY k",
    "SELECT COUNT(DISTINCT id) AS n FROM t",
    "SELECT COUNT(DISTINCT id) AS n FROM t WHERE x >= 0 AND g <> 'a'",
    "SELECT g, COUNT(DISTINCT id) AS n FROM t GROUP BY g",
    "SELECT g, COUNT(DISTINCT id) AS n, COUNT(*) AS c FROM t WHERE r > 0 GROUP BY g",
    "SELECT k, h, COUNT(DISTINCT ID) FILTER (WHERE x > 0) AS n FROM t GROUP BY k, h",
    "SELECT k, COUNT(DISTINCT id) AS n FROM t WHERE k IN (1, 4) AND x < 8 GROUP BY k",
    "SELECT k, g, COUNT(DISTINCT id) FILTER (WHERE g = 'a' OR k = 3) AS n FROM t GROUP BY k, g",
    "SELECT SUM(x) / COUNT(DISTINCT t.id) AS each_spends FROM t WHERE g = 'a'",
    "SELECT g, VARIANCE(x) AS v, MEDIAN(k) AS m FROM t GROUP BY g",
    "SELECT QUANTILE(x, 0.9) AS q, STDDEV(r) AS s FROM t WHERE h = 'y'",
    "SELECT COUNT(DISTINCT g) AS n, COUNT(DISTINCT x) AS m FROM t",
    "SELECT h, COUNT(DISTINCT k) FILTER (WHERE x > 0) AS n FROM t WHERE g <> 'c' GROUP BY h",
]  # fmt: skip


def moved(view_vectors):
    """L1 and L2 norms of the difference of two vectors, the latter squared; whole numbers."""
    gaps = [int(a) - int(b) for a, b in zip(*view_vectors, strict=True)]
    return sum(map(abs, gaps)), sum(gap * gap for gap in gaps)


# one of each kind, with 46 to 52 rows of the id in question
CROWDS = range(40) if LONG else (4, 17, 2, 3)


def pair(seed):
    """A crowd, and the same without the one who may have many rows."""
    frame = crowd(seed)
    return frame, frame[frame["id"] != 0]


@pytest.fixture(scope="module", params=UNITS, ids=repr)
def neighbours(request):
    """A unit, and the engines of each pair."""
    unit = request.param
    pairs = [[engine_of(part, unit) for part in pair(seed)] for seed in CROWDS]
    yield unit, pairs
    for engines in pairs:
        for engine in engines:
            engine.close()


class TestSensitivity:
    """Exact vectors in lattice units move by no more than the noise was made for."""

    def test_of_statements(self, neighbours):
        unit, pairs = neighbours
        reached = {}
        curator = opened(unit)
        requests = [
            statement(curator._runner, "analyst", Call("query", sql, {"rho": 1}))
            for sql in STATEMENTS
        ]
        plans = [request.plan() for request in requests]
        for engines in pairs:
            exact = [
                [
                    request.measure(plan, set(plan.views), engine)
                    for request, plan in zip(requests, plans, strict=True)
                ]
                for engine in engines
            ]
            for sql, plan, *both in zip(STATEMENTS, plans, *exact, strict=True):
                for name, view in plan.views.items():
                    first, second = moved([one[name] for one in both])
                    for privacy, gap, power in ((PURE, first, 1), (ZCDP, second, 2)):
                        used = gap / view.lattice_sensitivity(privacy) ** power
                        assert used <= 1, (sql, view, privacy)
                        reached[privacy, name] = max(reached.get((privacy, name), 0), used)
        curator.close()
        # and it is no more than needed: most views come close to it
        for wanted in (ZCDP, PURE):
            close = [used > 0.8 for (privacy, _), used in reached.items() if privacy == wanted]
            assert np.mean(close) > 0.5

    def test_of_declared_views(self, neighbours):
        unit, pairs = neighbours
        sized = SCHEMA.protecting(unit)
        clever = dpnb.Strategy(
            np.vstack([np.eye(8), np.triu(np.ones((8, 8))) + 3 * np.eye(8)]).astype(int)
        )
        views = [
            histogram("t", 1, sized, ["g", "x"]),
            histogram("t", 1, sized, ["k"], bins={"k": [0, 2, 5]}),
            histogram("t", 1, sized, ["h", "r"], bins={"r": [-10, 10]}, strategy=clever),
        ]
        reached = [0.0] * len(views)
        for engines in pairs:
            vectors = []
            for engine in engines:
                exact = engine.histograms([view.keys for view in views])
                vectors.append([view.measured(exact.reveal(i)) for i, view in enumerate(views)])
            for i, (view, *both) in enumerate(zip(views, *vectors, strict=True)):
                _, second = moved(both)
                used = second / view.lattice_sensitivity(ZCDP) ** 2
                assert used <= 1
                reached[i] = max(reached[i], used)
        assert min(reached) > 0.5


DISJOINT = [f"x = {x}" for x in range(-4, 10)] + [f"k = {k} AND x > 0" for k in range(6)]
KINDS = [
    "SELECT COUNT(*) AS n FROM t WHERE {}",
    "SELECT COUNT(r) AS n FROM t WHERE {}",
    "SELECT SUM(k) AS n FROM t WHERE {}",
    "SELECT h, SUM(r) AS n FROM t WHERE {} GROUP BY h",
    "SELECT AVG(r) AS n FROM t WHERE {}",
    "SELECT COUNT(DISTINCT id) AS n FROM t WHERE {}",
    "SELECT g, COUNT(DISTINCT id) AS n FROM t WHERE {} GROUP BY g",
    "SELECT h, g, k, COUNT(DISTINCT id) AS n FROM t WHERE {} GROUP BY h, g, k",
]


class TestSharing:
    """Statements on disjoint parts share a budget: nobody's own loss is above what was charged."""

    def losses(self, curator, unit, frame, privacy):
        """What each id loses by each view of the ledger, exactly."""
        state = curator._runner.store.accountant
        sized = SCHEMA.protecting(unit)
        views = [read_view(one, sized) for one in state.definitions.values()]
        whole = self.vectors(views, frame, unit)
        found = []
        for who in frame["id"].unique():
            without = self.vectors(views, frame[frame["id"] != who], unit)
            lost = {}
            for view, one, other in zip(views, whole, without, strict=True):
                most = view.lattice_sensitivity(privacy)
                first, second = moved((one, other))
                share = Fraction(first, most) if privacy == PURE else Fraction(second, most**2)
                lost[view.id] = share * state.finest(view.id)
            found.append(lost)
        return found

    def vectors(self, views, frame, unit):
        engine = engine_of(frame, unit)
        found = []
        for view in views:
            scan = scan_of(view.where, {view.id: view})
            found.append(view.lattice(engine.measure(scan).reveal(0)))
        engine.close()
        return found

    # each unit meets ids of two kinds, each privacy definition those of all
    @pytest.mark.parametrize("unit", UNITS, ids=repr)
    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_of_random_statements(self, unit, privacy):
        kind = (UNITS.index(unit) + (privacy == PURE)) % 4
        used = []
        for seed in range(8) if LONG else (kind,):
            rng = np.random.default_rng([seed, unit.max_rows, unit.max_groups or 1])
            frame = crowd(seed, people=3)
            cap = dpnb.Budget(rho=1_000) if privacy == ZCDP else dpnb.Budget(epsilon=1_000)
            curator = opened(unit, cap, frame)
            session = curator.session()
            for _ in range(12):
                sql = str(rng.choice(KINDS)).format(rng.choice(DISJOINT))
                amount = Fraction(int(rng.integers(1, 9)), 16)
                session.query(sql, **{"rho" if privacy == ZCDP else "epsilon": amount})
            charged = curator.budget.spent.level(curator._runner.store.accountant.privacy)
            losses = self.losses(curator, unit, frame, privacy)
            worst = max(sum(lost.values()) for lost in losses)
            curator.close()
            assert worst <= charged
            used.append(float(worst / charged))
        assert max(used) > 0.05

    @pytest.mark.parametrize("unit", UNITS, ids=repr)
    def test_whoever_has_a_row_in_every_part(self, unit):
        """The worst case: the bound holds where each statement finds a row of the same id."""
        parts = range(-4, 10) if LONG else range(-4, 0)
        frame = pd.DataFrame({"id": 0, "g": "a", "h": "y", "x": parts, "k": 5.0, "r": 10.0})
        curator = opened(unit, frame=frame)
        session = curator.session()
        views, charges = {}, {}
        for sql in KINDS:
            # each kind covers the same parts, so that its charge comes on top of the others
            before, known = (
                curator.budget.spent.rho,
                set(curator._runner.store.accountant.definitions),
            )
            for x in parts:
                session.query(sql.format(f"x = {x}"), rho=Fraction(1, 10))
            charges[sql] = charged = curator.budget.spent.rho - before
            views[sql] = curator._runner.store.accountant.definitions.keys() - known
            # statements on rows do share, whatever the unit
            if "DISTINCT" not in sql:
                assert charged <= Fraction(1, 10) * (1 + Fraction(1, 10**6)), sql
            elif unit.max_rows != groups_counted(
                unit, 54 if "k," in sql else 3 if "g," in sql else 1
            ):
                assert charged >= Fraction(len(parts) - 1, 10), sql
        (lost,) = self.losses(curator, unit, frame, ZCDP)
        for sql in KINDS:
            assert sum(lost[view] for view in views[sql]) <= charges[sql], sql
        curator.close()


class TurningNoise(WatchedNoise):
    """Selects another candidate each time, whatever their scores are."""

    def largest(self, scores, scale):
        super().largest(scores, scale)
        return len(self.draws) % len(scores)


SECRET = 918273645
BASE = crowd(2).assign(id=lambda rows: rows["id"] + SECRET)
TABLES = {
    "one id less": BASE[BASE["id"] != SECRET],
    "one id more": pd.concat([BASE, BASE.iloc[:9].assign(id=5)], ignore_index=True),
    "one id with many rows, some without": pd.concat(
        [BASE.assign(id=BASE["id"].where(BASE["x"] > 0)), *[BASE.assign(id=5)] * 40],
        ignore_index=True,
    ),
    "one id only": BASE.assign(id=1),
    "each row another id": BASE.assign(id=range(len(BASE))),
    "no ids": BASE.assign(id=pd.Series([None] * len(BASE), dtype="Int64")),
    "ids as texts": BASE.assign(id=BASE["id"].map("<b>'{}'; --".format)),
    "one id more, all of them texts": pd.concat(
        [BASE, BASE.iloc[:9].assign(id=5)], ignore_index=True
    ).assign(id=lambda rows: rows["id"].map("<b>'{}'; --".format)),
    "no rows": BASE.iloc[:0],
}
BAD = [
    "SELECT id, COUNT(*) FROM t GROUP BY id",
    "SELECT COUNT(*) FROM t WHERE id = 918273645",
    "SELECT SUM(id) FROM t",
    "SELECT COUNT(DISTINCT id, g) FROM t",
    "SELECT COUNT(DISTINCT id + 0) FROM t",
    "SELECT COUNT(*) FILTER (WHERE id IS NULL) FROM t",
    "SELECT SUM(DISTINCT id) FROM t",
    "SELECT COUNT(DISTINCT u.id) FROM t",
    "SELECT SUM(CASE WHEN id > 5 THEN 1 ELSE 0 END) FROM t",
    "SELECT COUNT(DISTINCT CASE WHEN x > 0 THEN id ELSE x END) FROM t",
    "SELECT COUNT(*) FROM t ORDER BY id",
    "SELECT COUNT(DISTINCT id) OVER (PARTITION BY g) FROM t",
    "SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(DISTINCT id) > 3",
    "SELECT MEDIAN(id) FROM t",
    "SELECT COUNT(DISTINCT u) FROM t",
    "SELECT COUNT(u) FROM t",
    "SELECT COUNT(DISTINCT rowid) FROM t",
]
# one of each reason; TestReading has all of them
REFUSED = BAD if LONG else BAD[:10]
DECISIONS = [
    "SELECT g FROM t GROUP BY g HAVING COUNT(*) > 20",
    "SELECT g, h FROM t GROUP BY g, h HAVING COUNT(DISTINCT id) > 3 OR AVG(r) > 1",
    "SELECT k FROM t GROUP BY k HAVING SUM(x) < 9 AND COUNT(DISTINCT id) >= 2",
]


def script(curator, privacy):
    """Yield what each step returns or raises, as text."""
    level = "rho" if privacy == ZCDP else "epsilon"
    session = curator.session()

    def plain(found):
        return repr(found), json.dumps(found.to_dict(), sort_keys=True)

    def told(found):
        return *plain(found), found._repr_html_()

    yield repr(session), repr(session.tables), repr(curator._runner.tables["t"])
    for sql in REFUSED:
        yield outcome(lambda q=sql: told(session.query(q, **{level: 0.1})))
    for sql in STATEMENTS[1 :: 2 if LONG else 4]:
        yield outcome(lambda q=sql: repr(session.price(q, **{level: 0.04})))
        yield outcome(lambda q=sql: told(session.query(q, **{level: 0.04})))
        yield outcome(lambda q=sql: plain(session.query(q, error=90, rows=500)))
        yield outcome(lambda q=sql: plain(session.infer(q)))
    # one view, several views, numbers of ids, quantiles
    for sql in (STATEMENTS[3], STATEMENTS[1], STATEMENTS[11], STATEMENTS[17]):
        profile = outcome(lambda q=sql: curator.risk(q))
        if isinstance(profile, tuple):
            yield profile
            continue
        yield outcome(lambda p=profile: choice_sentences(p.suggest(0.9)))
        yield outcome(lambda p=profile: plain(p.choose(0.9, mode="paper")))
        yield outcome(lambda p=profile: told(p.choose(0.9, method="tail", mode="paper")))
    ways = [{}] + [{"mode": mode, "beta": 0.4, "alpha": 0.4} for mode in ("rr", "hybrid")]
    for i, sql in enumerate(DECISIONS):
        # another way for each, and another one under the other privacy definition
        for options in ways if LONG else [ways[(i + (privacy == PURE)) % 3]]:
            yield outcome(lambda q=sql, o=options: told(session.decide(q, **o)))
    yield outcome(lambda: told(session.infer(STATEMENTS[3])))
    answer = session.query(STATEMENTS[1], **{level: 1})
    yield outcome(lambda: repr(session.explain(answer.compare("a", "b", "n"))))
    yield [row[2:] for row in session.history], repr(session.budget)


def stream(frame, unit, privacy, path, caplog, capfd):
    budget = dpnb.Budget(rho=900) if privacy == ZCDP else dpnb.Budget(epsilon=900)
    noise = TurningNoise()
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        caplog.clear()
        with mock.patch("secrets.token_bytes", bytes):
            curator = Curator(
                Table("t", frame, SCHEMA, unit), budget=budget, ledger=path, noise=noise
            )
            said = list(script(curator, privacy))
            curator.close()
    assert [str(item.message) for item in warned] == []
    assert [record.message for record in caplog.records] == []
    assert capfd.readouterr() == ("", "")
    assert noise.whole
    return said, noise.asked, entries(path)


class TestMessages:
    """What is said, drawn, charged and written is the same on every table, whoever is in it."""

    COMPARED = compared(
        TABLES,
        zcdp=("one id less", "one id with many rows, some without"),
        pure=("one id more, all of them texts",),
    )

    @pytest.mark.parametrize(("unit", "privacy"), [(UNITS[3], ZCDP), (UNITS[2], PURE)])
    def test_the_stream_is_identical(self, unit, privacy, tmp_path, caplog, capfd):
        base = stream(BASE, unit, privacy, tmp_path / "base", caplog, capfd)
        kinds = refusals(base[0])
        assert kinds.count("SqlError") >= len(REFUSED) - 1
        assert len(kinds) < 0.6 * len(base[0])
        for name in (name for each, name in self.COMPARED if each == privacy):
            other = stream(TABLES[name], unit, privacy, tmp_path / name, caplog, capfd)
            for mine, theirs in zip(other[0], base[0], strict=True):
                assert mine == theirs, name
            assert other[1:] == base[1:], name
        # the refusal of a statement that names an id says it again
        written = repr(base).replace("id = 918273645", "")
        for who in BASE["id"].unique():
            assert str(who) not in written


@pytest.fixture(scope="module")
def exact():
    """A curator that adds no noise, with a budget for everything."""
    made = opened(UNITS[2], noise=NoNoise())
    yield made
    made.close()


class TestReading:
    @pytest.mark.parametrize(
        "sql", [one for one in BAD if "HAVING" not in one], ids=lambda sql: sql[7:60]
    )
    def test_ids_cannot_be_read(self, sql, exact):
        spent = exact.budget.spent
        with pytest.raises(SqlError):
            exact.session().query(sql, rho=1)
        assert exact.budget.spent == spent

    @pytest.mark.parametrize(
        "column", ["id", "ID", "t.id", "T.Id", '"id"', 't."Id"', "people.id"], ids=str
    )
    def test_different_ids_can_be_counted_in_any_spelling(self, column, exact):
        alias = " AS people" if column.startswith("people") else ""
        answer = exact.session().query(f"SELECT COUNT(DISTINCT {column}) AS n FROM t{alias}", rho=1)
        assert answer.to_frame()["n"].tolist() == [crowd(0)["id"].nunique()]

    def test_different_ids_are_counted_under_a_filter(self, exact):
        answer = exact.session().query(
            "SELECT COUNT(DISTINCT id) FILTER (WHERE x IS NULL AND x IS NOT NULL) AS nobody, "
            "COUNT(DISTINCT id) AS n FROM t", rho=1,
        )  # fmt: skip
        (found,) = answer.to_frame()[["nobody", "n"]].to_numpy().tolist()
        assert found == [0, crowd(0)["id"].nunique()]

    def test_a_declared_id_is_a_column_like_any_other(self):
        """The owner declared it: its groups are public, and what they hold is bounded as ever."""
        schema = Schema({**dict(SCHEMA), "id": Integer(0, 20)})
        curator = opened(UNITS[2], schema=schema, noise=NoNoise())
        answer = curator.session().query("SELECT id, COUNT(*) AS n FROM t GROUP BY id", rho=1)
        assert answer.to_frame()["n"].max() <= 4
        curator.close()


def ids_kept(source, most=1):
    engine = engine_of(source, Unit("id", most), Schema({"x": Integer(0, 99)}))
    found = engine._connection.execute("SELECT u, c0 FROM rows ORDER BY c0").fetchall()
    engine.close()
    return found


class TestIds:
    """Whom the engine takes for one person: different ids stay different, and nothing else is an id."""

    def test_numbers(self):
        ids = [1.0, None, math.nan, -0.0, 0.0, 1.5, 1.7, 2.0**70, -math.inf, 2.0**62]
        table = pa.table({"id": pa.array(ids, pa.float64(), from_pandas=False), "x": range(10)})
        # a fraction would share an id with others: such a row is left out like one without an id
        people = dict(ids_kept(table))
        assert sorted(people, key=int) == ["0", "1", str(2**62), "1180591620717411300000"]

    def test_decimals(self):
        ids = [Decimal("1.5"), Decimal(99999999999999999), Decimal(99999999999999998), None]
        table = pa.table({"id": pa.array(ids, pa.decimal128(30, 2)), "x": range(4)})
        assert ids_kept(table) == [(str(10**17 - 1), 1), (str(10**17 - 2), 2)]

    def test_numbers_beyond_64_bits_are_ids_as_well(self):
        table = pa.table({"id": pa.array([2**64 - 1, 2**63, 3, None], pa.uint64()), "x": range(4)})
        assert ids_kept(table) == [(str(2**64 - 1), 0), (str(2**63), 1), ("3", 2)]

    def test_texts_of_other_case_are_other_people_and_blanks_are_not(self):
        ids = ["a", "A", " a", "a ", "a\x00", "é", "e\u0301", "", None]
        frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": range(9)})
        assert ids_kept(frame, 9) == list(
            zip(["a", "A", "a", "a", *ids[4:7]], range(7), strict=True)
        )

    def test_whatever_objects_are(self):
        class Broken:
            def __str__(self):
                raise ValueError("a secret")

        ids = [Broken(), 7, "7", None, math.nan, pd.NA, b"x"]
        frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": range(7)})
        found = ids_kept(frame, 9)
        assert found == [("7", 1), ("7", 2), ("b'x'", 6)]

    def test_a_column_of_nothing_is_a_table_of_nobody(self):
        assert ids_kept(pa.table({"id": pa.nulls(3), "x": range(3)})) == []

    def test_lines_of_csv_files(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text('id,x\n1,1\n,2\n 1,3\n01,4\n"1",5\n\n1,6,surplus\n"un\nbroken",7\n')
        found = ids_kept(path, 9)
        assert [x for who, x in found if who == "1"][:4] == [1, 3, 4, 5]
        assert len({who for who, _ in found}) == 2
        assert 2 not in [x for _, x in found]

    def test_rows_without_a_complete_value_do_not_crowd_out_others(self):
        frame = pd.DataFrame({"id": [1] * 40, "x": [None] * 37 + [1, 2, 3]})
        schema = Schema({"x": Integer(0, 99)}, complete=["x"])
        engine = engine_of(frame, Unit("id", 3), schema)
        assert engine._connection.execute("SELECT SUM(c0), COUNT(*) FROM rows").fetchone() == (6, 3)
        engine.close()

    def test_identical_rows_are_rows(self):
        frame = pd.DataFrame({"id": [1] * 9, "x": [5] * 9})
        assert ids_kept(frame, 4) == [(1, 5)] * 4


def spelled(source, folder):
    """The same ids and numbers through each door that leaves texts as they are."""
    folder = folder / str(len(source))
    folder.mkdir()
    path = folder / "t.csv"
    source.to_csv(path, index=False, quoting=1)
    source.to_parquet(folder / "t.parquet")
    return [
        source, source.astype({"id": object}), source.astype({"id": str}), source.astype({"id": "category"}),
        pa.Table.from_pandas(source), pl.from_pandas(source), pl.from_pandas(source).lazy(),
        pl.from_pandas(source).with_columns(pl.col("id").cast(pl.Categorical)),
        path, folder / "t.parquet", pd.read_csv(path, dtype={"id": str}),
    ]  # fmt: skip


class TestSpellings:
    """A person's id may be spelled in many ways; what an answer reveals does not grow with their number."""

    WAYS = "7", "7.0", "07", " 7", "+7.00", "7.", "70e-1", "7\u00a0", "\ufeff7", "7E0", "\t7\n"
    UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
    WAYS_OF_UUID = UUID, UUID.upper(), f"{{{UUID}}}", f" {UUID}", f"{{{UUID.replace('-', '')}}}"

    @pytest.mark.parametrize("ways", [WAYS, WAYS_OF_UUID])
    def test_a_person_in_many_spellings_is_one_unit(self, ways, tmp_path):
        others = ["8", "0x7", "7 7", "x", "", "NA", "7.5"]
        rows = pd.DataFrame(
            {"id": pd.array([*others, *ways], "string"), "x": range(len(others) + len(ways))}
        )
        less = rows.iloc[: len(others)]
        for one, other in zip(spelled(rows, tmp_path), spelled(less, tmp_path), strict=True):
            found = [ids_kept(source) for source in (one, other)]
            # only this person's row, of which one is kept, comes or goes
            assert len(found[0]) - len(found[1]) == 1
            assert set(found[1]) < set(found[0])
            assert len(found[1]) == 4

    def test_the_loss_of_an_answer_is_what_was_charged(self, tmp_path):
        schema, unit = Schema({"x": Integer(0, 99)}), Unit("id", 1)
        ids = pd.array([*"abc", *self.WAYS], "string")
        rows = pd.DataFrame({"id": ids, "x": [5] * 3 + [99] * len(self.WAYS)})
        vectors = []
        for source in (rows, rows.iloc[:3]):
            path = tmp_path / f"{len(source)}.csv"
            source.to_csv(path, index=False, quoting=1)
            noise = WatchedNoise()
            curator = opened(unit, frame=path, schema=schema, noise=noise)
            answer = curator.session().query("SELECT COUNT(*) AS n FROM t", rho=0.5)
            (draw,) = noise.draws
            vectors.append(draw.exact)
            curator.close()
        loss = sum((a - b) ** 2 for a, b in zip(*vectors, strict=True)) / (2 * draw.scale**2)
        assert 0 < loss <= answer.spent.rho * (1 + 1e-9)

    def test_two_people_who_share_an_id_are_protected_together(self):
        """Each of them alone by up to four times the rho: one's kept row can be replaced by the other's."""
        rows = pd.DataFrame({"id": [7] * 2, "x": [0, 99]})
        kept = [
            {x for _, x in ids_kept(part)}
            for part in (rows, rows.iloc[:1], rows.iloc[1:], rows[:0])
        ]
        assert [len(xs) for xs in kept] == [1, 1, 1, 0]
        # from one kept row to another one: twice the change, four times the rho
        assert {0} in kept
        assert {99} in kept


class TestReopening:
    def test_another_kind_of_ids_is_another_unit(self, tmp_path):
        opened(Unit("id", 4), ledger=tmp_path / "l").close()
        for _ in range(2):
            with pytest.raises(LedgerError, match="another privacy unit"):
                opened(Unit("id", 4, kind="text"), ledger=tmp_path / "l", new_version=True)
        opened(Unit("id", 4, kind="text"), ledger=tmp_path / "other").close()
        with pytest.raises(LedgerError, match="another privacy unit"):
            opened(Unit("id", 4), ledger=tmp_path / "other", new_version=True)

    def test_other_bounds_are_another_schema(self, tmp_path):
        curator = opened(Unit("id", 4), ledger=tmp_path / "l")
        curator.session().query("SELECT COUNT(*) FROM t", rho=1)
        curator.close()
        with pytest.raises(LedgerError, match="another schema"):
            opened(Unit("id", 5), ledger=tmp_path / "l")
        for unit in (Unit("x", 4), None):
            with pytest.raises(LedgerError, match="another privacy unit"):
                opened(unit, ledger=tmp_path / "l")
        again = opened(Unit("id", 4), ledger=tmp_path / "l")
        assert again.session().query("SELECT COUNT(*) FROM t", rho=1).stored
        again.close()

    PEOPLE = "SELECT g, COUNT(DISTINCT id) AS n FROM t GROUP BY g"
    BUSY = "SELECT g FROM t GROUP BY g HAVING COUNT(DISTINCT id) > 4"

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_the_groups_of_an_id_are_no_part_of_a_version(self, privacy, tmp_path, monkeypatch):
        """Each number of groups has answers of its own: stored under it, charged under another."""
        level = "rho" if privacy == ZCDP else "epsilon"
        budget = dpnb.Budget(**{level: 1_000})
        true = "SELECT COUNT(DISTINCT u) FROM rows WHERE c0 IS NOT NULL GROUP BY c0 ORDER BY c0"
        questions = []

        def ask(unit):
            curator = opened(unit, budget, ledger=tmp_path / "l", noise=NoNoise())
            session, connection = curator.session(), curator._runner.engines["t"]._connection
            asked = [
                session.query(self.PEOPLE, **{level: 1}),
                session.decide(self.BUSY, u=2, steps=1),
                session.decide(self.BUSY, mode="rr"),
            ]
            first = asked[0]
            if unit.max_groups is None:
                counts = [count for (count,) in connection.execute(true).fetchall()]
                assert first.to_frame()["n"].tolist() == counts
            # answers and decisions are of their own counts, and say so
            (view,) = first.definitions.values()
            assert view["measure"][2:] == [groups_counted(unit, 3), groups_counted(unit, 3) < 3]
            for one in asked[:2]:
                assert ("numbers are too low" in str(one)) == (unit.max_groups is not None)
            questions.append(first.compare("a", "b", "n"))
            for question in questions:
                # also those about answers under another number of groups
                again = recalled(curator._runner, "analyst", question.reference)
                assert (again.low, again.high, again.note) == (
                    question.low, question.high, question.note,
                )  # fmt: skip
            state = curator._runner.store.accountant
            found = asked, curator.budget.spent, curator._runner.store.versions["t"]
            curator.close()
            return *found, set(state.definitions)

        with monkeypatch.context() as before:
            # ledgers opened earlier have the number in the table's version, and not in requests
            before.setattr("dpnb.ledger.store._of_rows", dict)
            for module in ("releases.plan", "decide.plan"):
                before.setattr(f"dpnb.{module}.ids_counted", lambda views: [])
            _, paid, version, views = ask(Unit("id", 4, 1))
        assert version.definition["unit"]["max_groups"] == 1
        known = []
        for unit in [Unit("id", 4), Unit("id", 4, 2), Unit("id", 4, 1)] * 2:
            asked, spent, again, after = ask(unit)
            assert (again.number, again.fingerprint) == (version.number, version.fingerprint)
            if unit in known:
                assert all(one.stored for one in asked)
                assert spent == paid
                assert after == views
            elif unit.max_groups == 1:
                # the counts and the responses of before
                assert not any(asked[i].spent.level(privacy) for i in (0, 2))
                assert asked[2].stored
            else:
                # counts of their own; in a pure session, also for the decision
                assert len(after - views) == (1 if privacy == ZCDP else 2)
                assert all(one.spent.level(privacy) for one in asked[:2])
            # randomised response counts an id in one group by default
            assert asked[2].stored == (unit.max_groups != 2 or unit in known)
            known.append(unit)
            views, paid = after, spent

    def test_other_ids_are_other_data(self, tmp_path):
        opened(Unit("id", 4), ledger=tmp_path / "l").close()
        frame = crowd(0)
        frame["id"] = frame["id"].to_numpy()[::-1]
        with pytest.raises(LedgerError, match="data"):
            opened(Unit("id", 4), ledger=tmp_path / "l", frame=frame)

    def test_the_same_ledger_keeps_the_same_rows_and_another_one_others(self, tmp_path):
        def kept(path):
            curator = opened(Unit("id", 2), ledger=path)
            rows = curator._runner.engines["t"]._connection.execute(
                "SELECT * FROM rows ORDER BY ALL"
            )
            found = rows.fetchall()
            curator.close()
            return found

        one, again, other = (kept(tmp_path / name) for name in ("a", "a", "b"))
        assert one == again != other

    def test_a_file_may_change_after_the_rows_were_kept(self, tmp_path):
        """They are a copy; what cannot be is that a change goes unnoticed at the next opening."""
        path, frame = tmp_path / "t.parquet", crowd(0)
        frame.to_parquet(path)
        curator = opened(UNITS[1], frame=path, noise=NoNoise(), ledger=tmp_path / "l")
        sql = "SELECT COUNT(*) AS n FROM t"
        before = curator.session().query(sql, rho=1).to_frame()["n"].tolist()
        frame.iloc[:5].to_parquet(path)
        after = curator.session().query("SELECT COUNT(*) AS n, SUM(x) AS s FROM t", rho=2)
        assert after.to_frame()["n"].tolist() == before
        curator.close()
        with pytest.raises(LedgerError, match="data"):
            opened(UNITS[1], frame=path, noise=NoNoise(), ledger=tmp_path / "l")

    def test_two_sessions_of_one_ledger_see_the_same_rows(self, tmp_path):
        one = opened(UNITS[2], ledger=tmp_path / "l", noise=NoNoise())
        two = opened(UNITS[2], ledger=tmp_path / "l", noise=NoNoise())
        sql = "SELECT g, h, SUM(x) AS s, COUNT(DISTINCT id) AS n FROM t GROUP BY g, h"
        first = one.session().query(sql, rho=1)
        assert not first.stored
        found = two.session().query(sql, rho=2)
        assert found.to_frame()[["s", "n"]].equals(first.to_frame()[["s", "n"]])
        one.close()
        two.close()


class TestWords:
    """Records and tables say what is protected."""

    def test_of_ids_and_of_rows(self):
        said = "all rows of one id, at most 12 kept"
        for unit, text in ((UNITS[3], said), (None, "row")):
            curator = opened(unit)
            session = curator.session()
            answer = session.query(STATEMENTS[1], rho=1)
            assert answer.record()["privacy_unit"] == f"{text} (add or remove one)"
            made = session.decide(DECISIONS[0])
            again = type(made).from_dict(made.to_dict())
            for one in (made, again):
                assert one.record()["privacy_unit"] == f"{text} (add or remove one)"
            found = session.explain(answer.compare("a", "b", "n"), anyway=True)
            assert found.record()["privacy_unit"] == f"{text} (add or remove one)"
            notes = " ".join(session.tables.notes)
            assert (f"This protects {said}" in notes) == (unit is not None)
            curator.close()


class TestAnotherUnit:
    """What was spent on rows says nothing about ids: one with 20 rows would have lost 400 times as much."""

    FRAME = pd.DataFrame({"a": np.arange(40) // 20, "b": np.arange(40), "x": 1})
    SCHEMA = Schema({"x": Integer(0, 1)})

    def opened(self, ledger, unit, public=False):
        table = Table("t", self.FRAME, self.SCHEMA, unit, public=public)
        budget = dpnb.Budget(rho=1)
        return dpnb.Session(table, budget=budget, ledger=ledger, new_version=True)

    @pytest.mark.parametrize(
        ("before", "after"),
        [(None, Unit("a", 20)), (Unit("a", 20), None), (Unit("a", 2), Unit("b", 2))],
    )
    def test_it_needs_a_ledger_of_its_own(self, tmp_path, before, after):
        with self.opened(tmp_path / "l.ledger", before) as session:
            session.query("SELECT COUNT(*) AS n FROM t", rho=0.5)
        with pytest.raises(LedgerError, match="table 't' has another privacy unit"):
            self.opened(tmp_path / "l.ledger", after)

    def test_other_bounds_on_the_same_ids_go_on_with_what_was_spent(self, tmp_path):
        with self.opened(tmp_path / "l.ledger", Unit("a", 20)) as session:
            session.query("SELECT COUNT(*) AS n FROM t", rho=0.5)
        with self.opened(tmp_path / "l.ledger", Unit("A", 5, 5)) as session:
            assert session.budget.spent.rho == Fraction(1, 2)
