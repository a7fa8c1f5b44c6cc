"""The risk of ids with all their rows: against leaving out one id after the other."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table, Unit
from dpnb.answers.verbs import statement
from dpnb.curator import Curator
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.call import Call
from dpnb.releases.plan import shares
from dpnb.risk import plan
from dpnb.risk.request import counted
from dpnb.risk.selection import STEPS

SCHEMA = Schema(
    {
        "g": Category(["a", "b", "c"]),
        "h": Category(["y", "n"]),
        "x": Integer(-4, 9),
        "r": Real(-10, 10, bins=[-10, 0, 10]),
    }
)
UNITS = [Unit("who", 1), Unit("who", 5, 2), Unit("who", 30, 30)]
STATEMENTS = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "groups": "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
    "sums": "SELECT g, h, SUM(x) AS s FROM t WHERE r > -5 GROUP BY g, h",
    "mean": "SELECT h, AVG(r) AS m FROM t GROUP BY h",
    "several": "SELECT g, COUNT(*) AS n, SUM(r) FILTER (WHERE x > 0) AS s FROM t GROUP BY g",
    "people": "SELECT g, COUNT(DISTINCT who) AS n FROM t GROUP BY g",
    "people and rows": "SELECT x, COUNT(DISTINCT who) AS n, SUM(x) AS s FROM t WHERE h = 'y' GROUP BY x",
    "median": "SELECT g, MEDIAN(x) AS m, COUNT(*) AS n FROM t GROUP BY g",
}  # fmt: skip
BUDGETS = {ZCDP: dpnb.Budget(rho=100), PURE: dpnb.Budget(epsilon=100)}


def crowd(seed=3, people=9):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, people)
    rows = int(sizes.sum())
    return pd.DataFrame(
        {
            "who": np.repeat([f"p{i}" for i in range(people)], sizes),
            "g": rng.choice([*"abc", None], rows),
            "h": rng.choice(["y", "n"], rows),
            "x": rng.integers(-9, 12, rows),
            "r": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(0, 8, rows)),
        }
    )


def opened(unit, privacy=ZCDP, frame=None, **options):
    table = Table("t", crowd() if frame is None else frame, SCHEMA, unit, public=True)
    return Curator(table, budget=BUDGETS[privacy], **options)


class Crowd:
    """A crowd under a unit: its curator, and engines of all rows and of those without each id."""

    def __init__(self, unit, privacy):
        self.frame, self.privacy = crowd(people=4), privacy
        self.curator = opened(unit, privacy, self.frame)
        ids = self.frame["who"].unique()
        self.engines = [self.engine(self.frame, unit)]
        self.engines += [self.engine(self.frame[self.frame["who"] != who], unit) for who in ids]
        self.shares = {name: self.left_out(sql) for name, sql in STATEMENTS.items()}

    def engine(self, rows, unit):
        made = DuckDBEngine(Table("t", rows, SCHEMA, unit))
        made.bound(self.curator._runner.engines["t"]._key)
        return made

    def left_out(self, sql):
        """The share r of each id, from exact vectors with and without it."""
        level = "rho" if self.privacy == ZCDP else "epsilon"
        request = statement(self.curator._runner, "analyst", Call("query", sql, {level: 1}))
        plan = request.plan()
        parts = shares(plan.parts, plan.accuracy, plan.privacy)

        whole, *parted = [request.measure(plan, set(plan.views), each) for each in self.engines]
        found = []
        for without in parted:
            total = 0.0
            for name, view in plan.views.items():
                gaps = np.subtract(whole[name], without[name]).astype(float)
                if self.privacy == PURE:
                    reach = view.lattice_sensitivity(PURE)
                    total += float(parts[name]) * np.abs(gaps).sum() / reach
                else:
                    share = (gaps**2).sum() / view.lattice_sensitivity(ZCDP) ** 2
                    total += float(parts[name]) * share
            found.append(total if self.privacy == PURE else math.sqrt(total))
        return np.sort(found)

    def close(self):
        for each in (self.curator, *self.engines):
            each.close()


@pytest.fixture(
    scope="module",
    # one row each and all rows of each are alike in both definitions
    params=[(UNITS[0], ZCDP), (UNITS[1], ZCDP), (UNITS[1], PURE), (UNITS[2], PURE)],
    ids=lambda param: f"{param[0]!r}-{param[1]}",
)
def held(request):
    found = Crowd(*request.param)
    yield found
    found.close()


class TestLeavingOutOneByOne:
    def test_contributions_are_those_of_ids(self, held):
        for name, sql in STATEMENTS.items():
            rows = held.curator.risk(sql)._rows
            assert rows.total == held.frame["who"].nunique()
            found = np.sort(np.repeat(rows.r, rows.counts))
            np.testing.assert_allclose(found, held.shares[name], atol=1e-7)

    def test_scores_are_rounded_upward_by_less_than_a_step(self, held, monkeypatch):
        monkeypatch.setattr(plan, "MOST_LINES", 0)
        for name, sql in STATEMENTS.items():
            profile = held.curator.risk(sql)
            assert profile.approximate
            rows = profile._rows
            gaps = np.sort(np.repeat(rows.r, rows.counts)) - held.shares[name]
            assert gaps.min() >= -1e-6
            assert gaps.max() <= 1 / STEPS + 1e-6

    def test_one_id_changes_one_score_by_one(self, held):
        """What private choices rest on."""
        for sql in STATEMENTS.values():
            scan = held.curator.risk(sql).scan
            whole, *others = [counted(each.contributions(scan)) for each in held.engines[::2]]
            for other in others:
                gaps = whole - other
                assert gaps.sum() == np.abs(gaps).sum() == 1


class TestUse:
    def test_an_id_with_one_row_per_id_has_the_risk_of_rows(self):
        """With unit of one row each, nothing differs from rows."""
        frame = crowd().drop_duplicates("who")
        for sql in ("SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g", STATEMENTS["mean"]):
            ids, rows = opened(Unit("who", 1), frame=frame), opened(None, frame=frame)
            found = [np.asarray(one.risk(sql).rdr(rho=0.5)) for one in (ids, rows)]
            np.testing.assert_allclose(*found, rtol=1e-6)
            ids.close()
            rows.close()

    def test_losses_are_the_amount_where_an_id_gives_all_it_may(self):
        frame = pd.DataFrame({"who": [1] * 7 + [2] * 2, "g": "a", "h": "y", "x": 9, "r": 1.0})
        curator = opened(Unit("who", 5), frame=frame)
        losses = curator.risk("SELECT SUM(x) AS s FROM t").losses(rho=0.5)
        assert sorted(losses["loss"]) == pytest.approx([0.5 * (2 / 5) ** 2, 0.5])
        assert list(losses["who values"]) == [1, 1]
        curator.close()

    def test_earlier_answers_are_counted_in_by_id(self):
        frame = pd.DataFrame(
            {"who": [1] * 4 + [2] * 2, "g": list("aabbab"), "h": "y", "x": 3, "r": 1.0}
        )
        curator = opened(Unit("who", 4), frame=frame)
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho=1)
        found = curator.risk("SELECT g, COUNT(*) AS n FROM t GROUP BY g", cumulative=True)
        # id 1: all of the first, (2, 2) of (4); id 2: half of the first, (1, 1)
        expected = [1 * (2 / 4) ** 2 + 0.5 * 2 / 16, 1 + 0.5 * 8 / 16]
        assert sorted(found.losses(rho=0.5)["loss"]) == pytest.approx(expected)
        curator.close()

    def test_private_choices_are_about_ids(self):
        curator = opened(Unit("who", 5, 2))
        profile = curator.risk(STATEMENTS["people"])
        choice = profile.choose(0.9, method="tail", at_most=0, rho=20, mode="paper")
        assert choice.ids == "who"
        assert dpnb.risk.choice.Choice.from_dict(choice.to_dict()) == choice
        shared = profile.share(rho=50)
        assert round(sum(shared.counts)) == pytest.approx(9, abs=6)
        assert list(shared.to_frame())[2] == "who values"
        assert "Values of who by their share" in repr(shared)
        curator.close()

    def test_the_words_are_about_ids(self):
        curator = opened(Unit("who", 5, 2))
        profile = curator.risk(STATEMENTS["count"])
        said = repr(profile) + profile._repr_html_() + profile.sentence(rho=1)
        assert "who values above" in said
        assert "of 9 who values stand out most" in said
        assert "rows above" not in said
        assert "rows stand out" not in said
        curator.close()


class TestRefused:
    @pytest.mark.parametrize("by", ["g", ["g", "h"]])
    def test_ids_are_not_told_apart_by_columns_of_rows(self, by):
        curator = opened(Unit("who", 5))
        with pytest.raises(RequestError, match="rows of one who may lie in several groups"):
            curator.risk(STATEMENTS["count"], by=by)
        curator.close()

    def test_what_is_made_for_rows(self):
        curator = opened(Unit("who", 5))
        with pytest.raises(RequestError, match="treat each row as a person"):
            curator.risk(STATEMENTS["count"], mode="paper")
        profile = curator.risk(STATEMENTS["count"])
        answer = profile.answer(1)
        with pytest.raises(RequestError, match="for single ids"):
            profile.signed_losses(answer)
        curator.close()
