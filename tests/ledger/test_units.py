"""Customers of a shop are protected with all their purchases: whole sessions on real invoice lines.

Exact numbers are those of the table of kept rows; noise is drawn by a fast stand-in of the same distribution.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy import stats

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.answers.verbs import statement
from dpnb.curator import Curator
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.call import Call
from dpnb.views.view import transposition
from tests.kit.noise import ContinuousNoise

P_FLOOR = 1e-9
SCHEMA = Schema(
    {
        "country": Category(["United Kingdom", "Germany", "elsewhere"], other="elsewhere"),
        "quantity": Integer(-20, 50, bins=[-20, 0, 10, 50]),
        "price": Real(0, 30),
        "day": Date("2009-12-01", "2010-12-31", bins=["2009-12-01", "2010-06-30", "2010-12-31"]),
    }
)
UNIT = Unit("customer_id", max_rows=20, max_groups=2)
RHO = Fraction(1, 10)
COUNT = "SELECT country, COUNT(*) AS n FROM sales GROUP BY country"
SUM = "SELECT country, SUM(quantity) AS s FROM sales WHERE price > 1 GROUP BY country"
AVG = "SELECT AVG(quantity) AS m FROM sales"
PEOPLE = "SELECT country, day, COUNT(DISTINCT customer_id) AS n FROM sales GROUP BY country, day"


@pytest.fixture(scope="module")
def frame():
    """The lines of every twentieth customer, and some without a customer."""
    path = Path(__file__).parents[1] / "data" / "online_retail.parquet"
    columns = ["customer_id", "country", "quantity", "price", "day"]
    found = duckdb.sql(
        f"SELECT {', '.join(columns)} FROM '{path}' WHERE customer_id % 20 = 0 "
        "OR (customer_id IS NULL AND quantity % 7 = 3) ORDER BY ALL"
    ).df()
    assert found["customer_id"].isna().sum() > 1_000
    return found


def opened(frame, noise, budget=None, unit=UNIT, schema=SCHEMA, **options):
    table = Table("sales", frame, schema, unit)
    return Curator(table, budget=budget or dpnb.Budget(rho=10**6), noise=noise, **options)


def kept(curator):
    """The kept rows as the engine has them: codes of c0 to c3, and u."""
    return curator._runner.engines["sales"]._connection.execute("SELECT * FROM rows").df()


def exact(curator, sql):
    """What DuckDB says of the kept rows."""
    rows = kept(curator)
    rows = rows.assign(
        country=rows["c0"].astype(int).map(dict(enumerate(SCHEMA["country"].values))),
        half=np.where(rows["c3"] <= 14790, 0, 1),  # 2010-06-30
        quantity=rows["c1"],
        price=rows["c2"],
        customer_id=rows["u"],
    )
    plain = sql.replace("FROM sales", "FROM rows").replace("day", "half")
    keys = [key for key in ("country", "half") if key in plain.partition("GROUP BY")[2]]
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    connection = duckdb.connect()
    connection.register("rows", rows)
    values = connection.execute(plain + order).df()
    names = {value: place for place, value in enumerate(SCHEMA["country"].values)}
    if "country" in values:
        values = values.sort_values(keys, key=lambda c: c.map(names) if c.name == "country" else c)
    return values[values.columns[-1]].to_numpy(float)


class TestBoundedTable:
    def test_each_customer_has_at_most_so_many_rows_and_nobody_else_counts(self, frame):
        curator = opened(frame, ContinuousNoise(1))
        rows, sizes = kept(curator), frame.groupby("customer_id").size()
        assert rows.groupby("u").size().to_dict() == sizes.clip(upper=20).to_dict()
        assert sizes.max() > 500
        curator.close()

    def test_without_noise_answers_are_those_of_the_kept_rows(self, frame):
        curator = opened(frame, ContinuousNoise(1, scale=0.0))
        session = curator.session()
        for sql in (COUNT, SUM, AVG):
            answer = session.query(sql, rho=RHO)
            assert answer.estimates[0].estimate == pytest.approx(tuple(exact(curator, sql)))
        curator.close()

    def test_customers_are_counted_as_in_plain_sql_where_nothing_is_cut(self, frame):
        curator = opened(frame, ContinuousNoise(1, scale=0.0), unit=Unit("customer_id", 20, 6))
        answer = curator.session().query(PEOPLE, rho=RHO)
        assert answer.estimates[0].estimate == pytest.approx(tuple(exact(curator, PEOPLE)))
        curator.close()

    def test_cut_counts_are_lower_and_one_in_each_customer_at_most_so_often(self, frame):
        rows = int(frame.groupby("customer_id").size().max())  # every row is kept
        wide = opened(frame, ContinuousNoise(1, scale=0.0), unit=Unit("customer_id", rows, 6))
        most = sum(exact(wide, PEOPLE))
        wide.close()
        people = frame["customer_id"].nunique()
        sums = []
        for groups in (1, 2):
            curator = opened(frame, ContinuousNoise(1, 0.0), unit=Unit("customer_id", rows, groups))
            answer = curator.session().query(PEOPLE, rho=RHO)
            sums.append(sum(answer.estimates[0].uncut.estimate))
            curator.close()
        assert sums[0] == people  # everybody in one group
        assert people < sums[1] <= min(most, 2 * people)


DEFINITIONS = {ZCDP: dpnb.Budget(rho=10**6), PURE: dpnb.Budget(epsilon=10**6)}
LEVELS = {ZCDP: {"rho": Fraction(1, 10)}, PURE: {"epsilon": Fraction(1, 4)}}
DAYS = [*(f"{year}-{month:02}-01" for year in (2009, 2010) for month in range(1, 13))][11:]
FINE = Schema(
    {
        **SCHEMA,
        "quantity": Integer(-20, 50, bins=list(range(-20, 51, 5))),
        "day": Date("2009-12-01", "2010-12-31", bins=[*DAYS, "2010-12-31"]),
    }
)
"""One statement by country, quantity and day has 546 groups, each with noise of its own."""
BY = "FROM sales WHERE price > {} GROUP BY country, quantity, day"
NOISY = {
    "count": (f"SELECT country, quantity, day, COUNT(*) AS n {BY}", 20, 20),
    "sum": (f"SELECT country, quantity, day, SUM(quantity) AS n {BY}", 20 * 50, 20 * 50),
    "people": (f"SELECT country, quantity, day, COUNT(DISTINCT customer_id) AS n {BY}", math.sqrt(2), 2),
}  # fmt: skip


def exact_of(curator, answer_sql, name="analyst", **level):
    """A statement's exact vector, by its view's measure, each group in the order of the answer."""
    request = statement(curator._runner, name, Call("query", answer_sql, level))
    plan = request.plan()
    engine = curator._runner.engines["sales"]
    found = request.measure(plan, set(plan.views), engine)
    ((key, view),) = plan.views.items()
    values = view.values(found[key])
    return np.array([values[place] for place in transposition(request.query)])


def margin_of_error(found):
    """The largest margin of error, of groups that the noise did not make negative."""
    estimate = np.array(found.estimate)
    return (np.array(found.high) - estimate)[estimate >= 0].max()


def by_all(sql):
    """A statement by country, its groups cut to those of country, quantity and day."""
    aggregate = sql.partition("country, ")[2].removeprefix("day, ").partition(" GROUP BY")[0]
    return f"SELECT country, quantity, day, {aggregate} GROUP BY country, quantity, day"


def scale_fits(noises, privacy, off=1.0):
    """Whether normal (or Laplace) noises, ``off`` times as wide, may well have scale 1.

    By the exact distribution of the sum of their squares (or sizes).
    """
    noises = np.multiply(noises, off)
    if privacy == ZCDP:
        distribution, total = stats.chi2(len(noises)), (noises**2).sum()
    else:
        distribution, total = stats.gamma(len(noises)), np.abs(noises).sum()
    return min(distribution.cdf(total), distribution.sf(total)) > P_FLOOR / 2


@pytest.mark.parametrize("privacy", [ZCDP, PURE])
class TestNoise:
    """The noise is for all rows of a customer: its scale, intervals and prices are checked by hand."""

    @pytest.fixture(scope="class")
    @classmethod
    def curators(cls, frame):
        small = frame[frame["customer_id"] % 60 == 0]
        found = {
            name: opened(small, ContinuousNoise(5), budget, schema=FINE)
            for name, budget in DEFINITIONS.items()
        }
        yield found
        for curator in found.values():
            curator.close()

    @pytest.mark.parametrize("name", NOISY)
    def test_its_law_and_the_coverage_of_intervals(self, curators, name, privacy, reaches):
        """A scale off by 30 % is found, and so is noise as wide as for one row instead of 20."""
        sql, second, first = NOISY[name]
        level, session = LEVELS[privacy], curators[privacy].session()
        sensitivity = second if privacy == ZCDP else first
        scale = sensitivity / (math.sqrt(0.2) if privacy == ZCDP else 0.25)
        noises, held = [], []
        for price in (1, 2):
            asked = sql.format(price)
            found = session.query(asked, intervals="each", **level).estimates[0]
            truth = exact_of(curators[privacy], asked, **level)
            noises.extend((np.array(found.uncut.estimate) - truth) / scale)
            held.extend((found.low <= truth) & (truth <= found.high))
        assert len(noises) == 2 * 3 * 14 * 13
        assert scale_fits(noises, privacy)
        for off in (0.7, 1.3):
            assert not scale_fits(noises, privacy, off)
        assert reaches(held, 0.95)
        together = session.query(asked, **level).estimates[0]
        assert together.uncut.estimate == found.uncut.estimate
        assert ((together.low <= truth) & (truth <= together.high)).all()
        # the margins of error are those of one group and of all
        distribution = stats.norm if privacy == ZCDP else stats.laplace
        for one, alpha in ((found, 0.05), (together, 0.05 / len(truth))):
            half = scale * distribution.isf(alpha / 2)
            assert margin_of_error(one) == pytest.approx(half, rel=1e-6, abs=0.51)


class TestAccuracy:
    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    @pytest.mark.parametrize(
        "sql", [COUNT, SUM, AVG, PEOPLE], ids=["count", "sum", "avg", "people"]
    )
    def test_a_wished_error_is_kept_and_its_price_is_what_it_costs(
        self, frame, privacy, sql, reaches
    ):
        small = frame[frame["customer_id"] % 100 == 0]
        error = 600 if sql == SUM else 30
        curator = opened(small, ContinuousNoise(0), DEFINITIONS[privacy], schema=FINE)
        session = curator.session()
        price = session.price(sql, error=error, rows=4_000)
        answer = session.query(sql, error=error, rows=4_000)
        assert answer.spent == price.spent
        assert answer.spent == curator.budget.spent
        if sql != AVG:
            more = session.query(by_all(sql), error=error, intervals="each")
            for found in (answer.estimates[0], more.estimates[0]):
                widths = np.subtract(found.high, found.low)
                assert widths.max() <= 2 * error * (1 + 1e-6)
                # no better than was asked for, either; small counts are cut off at 0
                assert widths.max() > 1.9 * error or privacy == PURE or sql == PEOPLE
            truth = exact_of(curator, by_all(sql), **LEVELS[privacy])
            assert reaches((found.low <= truth) & (truth <= found.high), 0.95)
        curator.close()

    def test_an_average_has_its_error_where_there_are_as_many_rows(self, frame):
        """On 4,000 and more kept rows the margin of error is what was wanted, and not far below."""
        curator = opened(frame.assign(quantity=15), ContinuousNoise(3))
        rows = len(kept(curator))
        answer = curator.session().query(AVG, error=2, rows=rows)
        found = answer.estimates[0]
        half = (found.high[0] - found.low[0]) / 2
        assert 1 < half <= 2 * 1.05
        assert abs(found.estimate[0] - 15) < 4
        curator.close()

    def test_noise_is_refined_not_paid_twice(self, frame):
        curator = opened(frame, ContinuousNoise(4))
        session = curator.session()
        coarse = session.query(COUNT, rho=Fraction(1, 10))
        fine = session.query(COUNT, rho=Fraction(1, 2))
        assert coarse.spent.rho + fine.spent.rho == curator.budget.spent.rho == Fraction(1, 2)
        width = [one.estimates[0].high[0] - one.estimates[0].estimate[0] for one in (coarse, fine)]
        assert width[0] > 2 * width[1]
        assert session.query(COUNT, rho=Fraction(1, 10)).stored
        curator.close()


class TestOtherWays:
    FEW = "SELECT quantity, day, COUNT(*) AS n FROM sales WHERE country IS NOT NULL GROUP BY quantity, day"

    def test_past_answers_say_how_sure_they_are(self, frame, reaches):
        """History counts with the noise of the unit, and buys only what is missing."""
        curator = opened(frame, ContinuousNoise(0), schema=FINE)
        session = curator.session()
        session.query(by_all(COUNT), rho=RHO)
        found = session.infer(self.FEW, intervals="each").aggregates[0]
        truth = exact_of(curator, self.FEW, rho=RHO)
        middle = np.array(found.uncut.estimate)
        low, high = map(np.array, (found.low, found.high))
        # three counts of sigma 20 / sqrt(2 rho) each; ends of counts are whole numbers inside
        sigma = math.sqrt(3) * 20 / math.sqrt(2 * float(RHO))
        assert len(truth) == 14 * 13
        assert (high - middle)[middle >= 0] == pytest.approx(1.96 * sigma, abs=1.01)
        assert scale_fits((middle - truth) / sigma, ZCDP)
        for off in (0.5, 1.8):
            assert not scale_fits((middle - truth) / sigma, ZCDP, off)
        assert reaches((low <= truth) & (truth <= high), 0.95)
        curator.close()

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_a_wished_error_buys_what_past_answers_lack(self, frame, privacy, reaches):
        curator = opened(frame, ContinuousNoise(0), DEFINITIONS[privacy], schema=FINE)
        session, options = curator.session(), {"error": 90, "intervals": "each"}
        alone = session.price(self.FEW, **options).spent.level(privacy)
        session.query(by_all(COUNT), error=120, intervals="each")
        more = session.query(self.FEW, **options)
        assert more.origin.way == "new"
        assert more.spent.level(privacy) < alone
        found = more.estimates[0]
        assert margin_of_error(found) <= 90 * (1 + 1e-6)
        truth = exact_of(curator, self.FEW, **LEVELS[privacy])
        assert reaches((found.low <= truth) & (truth <= found.high), 0.95)
        curator.close()

    def test_different_customers_do_not_follow_from_other_answers(self, frame):
        curator = opened(frame, ContinuousNoise(1))
        session = curator.session()
        session.query(PEOPLE, rho=RHO)
        session.query(
            PEOPLE.replace(", day", "").replace("SELECT country,", "SELECT country,"), rho=RHO
        )
        with pytest.raises(dpnb.DpnbError, match="different ids"):
            session.infer("SELECT COUNT(DISTINCT customer_id) AS n FROM sales")
        # and they disturb nothing else
        session.query(COUNT, rho=RHO)
        found = session.infer("SELECT COUNT(*) AS n FROM sales WHERE country IS NOT NULL")
        assert not found.consistency.alarmed
        assert found.consistency.expected == 0
        curator.close()

    def test_a_declared_view_answers_with_the_noise_of_the_unit(self, frame):
        curator = opened(
            frame,
            ContinuousNoise(0),
            schema=FINE,
            analysts={"ann": 1},
            views=[["country", "day", "quantity"]],
        )
        sql = "SELECT country, quantity, COUNT(*) AS n FROM sales GROUP BY country, quantity"
        found = curator.session("ann").query(sql, rho=RHO).estimates[0]
        rows = kept(curator)
        # bins are open on the left, except the first
        bins = np.maximum(np.ceil((rows["c1"].astype(int) + 20) / 5) - 1, 0)
        groups = itertools.product(range(3), range(14))
        truth = rows.groupby([rows["c0"].astype(int), bins]).size().reindex(groups, fill_value=0)
        errors = np.subtract(found.uncut.estimate, truth.to_numpy())
        used = curator._runner.store.accountant.definitions.values()
        assert any("histogram" in one for one in used)
        curator.close()
        # thirteen bins of a day (and none) for each country and quantity
        sigma = 20 / math.sqrt(2 * float(RHO)) * math.sqrt(14)
        assert len(errors) == 42
        assert scale_fits(errors / sigma, ZCDP)
        for off in (0.3, 2.6):
            assert not scale_fits(errors / sigma, ZCDP, off)
