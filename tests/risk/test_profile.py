"""A profile shows what single rows would add to an answer: published examples, brute force, refusals.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
import re
import traceback
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpnb
from dpnb import Budget, Category, Integer, Real, Schema, Table, Unit
from dpnb.curator import Curator
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import DpnbError, RequestError, SqlError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.risk import plan
from dpnb.risk.exact import Exact, Indicators
from dpnb.risk.indicator import FORMS
from dpnb.risk.preferences import CANDIDATES
from tests.kit.noise import DiscreteNoise

SUM = "SELECT SUM(x) AS s FROM t"
COUNT = "SELECT COUNT(*) AS n FROM t WHERE x = 1"


class TestPublishedExamples:
    def test_three_people_one_of_whom_counts(self, opened, three):
        """Oracle 1, Figure 2 of RDR."""
        profile = opened(three, epsilon=9).risk(COUNT)
        for epsilon, values, ratio in (
            (math.inf, (0, 0, 1), 0),
            (1, (1, 1, 2), 1 / 2),
            (0.1, (10, 10, 11), 10 / 11),
            (0.01, (100, 100, 101), 100 / 101),
        ):
            found = profile.rdr(epsilon=epsilon)
            assert np.asarray(found) == pytest.approx(values)
            assert found.ratio == pytest.approx(ratio, abs=1e-9)
        chosen = profile.choose(
            0.9, private=False, preference="min_max_ratio", candidates=[1, 0.1, 0.01]
        )
        assert chosen.level == Fraction(1, 10)

    def test_a_sum_of_four_values(self, opened, four):
        """Oracle 2: in units of the answer."""
        profile = opened(four, epsilon=99).risk(SUM)
        for epsilon, values, ratio in (
            (10, (1, 3, 6, 11), 0.0909090909),
            (1, (10, 12, 15, 20), 0.5),
            (0.5, (20, 22, 25, 30), 2 / 3),
            (0.1, (100, 102, 105, 110), 0.9090909091),
        ):
            found = profile.rdr(epsilon=epsilon)
            assert np.asarray(found) == pytest.approx(values)
            assert found.ratio == pytest.approx(ratio, abs=1e-9)
            assert found.maximum - found.minimum == pytest.approx(10)
            assert np.var(np.asarray(found)) == pytest.approx(14.1875)
            assert found.floor == pytest.approx(10 / epsilon)
            assert found.floor_ratio == pytest.approx(1 / (1 + epsilon))

    @pytest.mark.parametrize(
        ("rho", "values", "ratio", "losses"),
        [
            (1, np.array([1, 1.0392304845, 1.2247448714, 1.7320508076]) * 7.0710678119,
             0.5773502692, (0, 0.04, 0.25, 1)),
            (0.5, (10, 10.1980390272, 11.1803398875, 14.1421356237), 0.7071067812,
             (0, 0.02, 0.125, 0.5)),
            (0.05, None, 0.9534625892, (0, 0.002, 0.0125, 0.05)),
        ],
    )  # fmt: skip
    def test_the_same_under_gaussian_noise(self, rho, values, ratio, losses, opened, four):
        """Oracle 3."""
        profile = opened(four, rho=9).risk(SUM)
        found = profile.rdr(rho=rho)
        if values is not None:
            assert np.asarray(found) == pytest.approx(values, abs=1e-8)
        assert found.ratio == pytest.approx(ratio, abs=1e-9)
        table = profile.losses(rho=rho).to_frame()
        assert np.sort(table["loss"]) == pytest.approx(losses)
        assert table["rows"].tolist() == [1] * 4

    def test_an_average_as_it_is_released(self, opened, single):
        """Oracle 8: SUM(x - 50) under sigma 100 and COUNT under sigma 2."""
        table = single([20, 30, 40, 90], 0, 100)
        profile = opened(table, rho=9).risk("SELECT AVG(x) AS m FROM t", split=0.5)
        found = profile.losses(rho=0.25).to_frame()
        assert np.sort(found["loss"]) == pytest.approx([0.13, 0.145, 0.17, 0.205])
        # with k = 1; the published values have k = 2
        assert np.asarray(profile.rdr(rho=0.25)) ** 2 + 1 == pytest.approx(
            np.square([1.5033296378, 1.5132745950, 1.5297058541, 1.5524174696])
        )

    def test_averages_under_laplace_noise_add_the_losses_of_both_vectors(self, opened, single):
        table = single([20, 30, 40, 90], 0, 100)
        profile = opened(table, epsilon=9).risk("SELECT AVG(x) AS m FROM t", split=0.6)
        expected = [2 * (0.6 * abs(x - 50) / 50 + 0.4) for x in (20, 30, 40, 90)]
        assert np.sort(profile.losses(epsilon=2)["loss"]) == pytest.approx(np.sort(expected))

    @pytest.mark.parametrize(
        ("aggregate", "expected"),
        [("COUNT(*)", (1, 1, 1, 1, 1, 1)), ("SUM(x)", (1, 2, 2, 5, 7, 9))],
    )
    def test_by_group(self, aggregate, expected, opened, budget, unit):
        """Oracle 9: a row is in one group, which nobody else's noise protects."""
        frame = pd.DataFrame({"g": list("aaabbc"), "x": [1, 5, 9, 2, 2, 7]})
        schema = Schema({"g": Category(["a", "b", "c", "nobody"]), "x": Integer(0, 9)})
        profile = opened(Table("t", frame, schema), **budget).risk(
            f"SELECT g, {aggregate} AS v FROM t GROUP BY g"
        )
        assert np.asarray(profile.rdr(**{unit: math.inf})) == pytest.approx(expected)

    def test_the_fifth_query_of_the_paper(self, opened):
        """Oracle 15: the sum of capital gains of Adult."""
        adult = dpnb.datasets.adult()
        profile = opened(adult, epsilon=9).risk("SELECT SUM(capital_gain) AS s FROM adult")
        r = np.asarray(profile.rdr(epsilon=math.inf)) / 99_999
        assert len(r) == 32_561
        assert np.count_nonzero(r) == 2_712
        assert np.count_nonzero(r == 1) == 159
        assert r.mean() == pytest.approx(0.010776596203, abs=1e-9)
        assert np.var(r) == pytest.approx(0.005454195492, abs=1e-9)
        quantiles = np.quantile(r, (0.5, 0.9, 0.95, 0.99, 0.999), method="inverted_cdf")
        assert quantiles == pytest.approx([0, 0, 0.0501305013, 0.1502415024, 1], abs=1e-9)
        found = profile.rdr(epsilon=0.05)
        assert (found.minimum, found.maximum) == pytest.approx((1_999_980, 2_099_979))
        assert found.ratio == pytest.approx(0.9523809524, abs=1e-9)
        for p, quantile in ((0.95, 0.0501305013), (0.99, 0.1502415024)):
            chosen = profile.choose(
                0.9, private=False, preference="quantile_ratio", p=p, candidates=np.arange(1, 1_000) / 100
            )  # fmt: skip
            assert float(chosen.level) == pytest.approx(1 / 9 / quantile, abs=0.01)

    def test_a_table_with_the_counts_of_the_user_study(self, opened):
        """Oracle 16: 100 rows; 9 earn more and are younger than 40; 3 of two races are in Q2."""
        races = ["White"] * 87 + ["Black"] * 7 + ["Asian-Pac-Islander"] * 5 + ["Other"]
        frame = pd.DataFrame({"race": races, "first": [1] * 9 + [0] * 91, "second": 0})
        frame.loc[[20, 30, 95], "second"] = 1
        schema = Schema(
            {"race": Category(sorted(set(races))), "first": Integer(0, 1), "second": Integer(0, 1)}
        )
        curator = opened(Table("survey", frame, schema), epsilon=99)
        first = curator.risk("SELECT COUNT(*) AS n FROM survey WHERE first = 1", by="race")
        assert np.asarray(first.rdr(epsilon=math.inf)).sum() == 9
        groups = first.by_group(epsilon=1).to_frame().set_index("group")["rows"]
        assert groups.to_dict() == {"White": 87, "Black": 7, "Asian-Pac-Islander": 5, "Other": 1}
        # the range that the survey showed beside: [1/eps, 1 + 1/eps], as wide at every epsilon (E5)
        for epsilon, shown in ((0.5, (1, 16)), (1, (5, 12)), (5, (8, 9))):
            found = first.rdr(epsilon=epsilon)
            assert (found.minimum, found.maximum) == pytest.approx((1 / epsilon, 1 + 1 / epsilon))
            h = stats.laplace(scale=found.floor).ppf(0.99)
            assert (int(9 - h), int(9 + h)) == shown
        second = curator.risk(
            "SELECT race, COUNT(*) AS n FROM survey WHERE second = 1 GROUP BY race", by="race"
        )
        top = second.top(99).to_frame()
        top = top[top["share of the largest possible"] > 0].set_index("race")["rows"]
        assert top.to_dict() == {"White": 2, "Asian-Pac-Islander": 1}

    def test_constant_columns_buy_no_epsilon(self, opened, three):
        """Oracle 18: a COUNT padded with 99 more columns would get a hundredfold."""
        columns = ", ".join(f"COUNT(*) AS a{i}" for i in range(100))
        others = ", ".join(
            f"COUNT(*) FILTER (WHERE x >= 0 OR x = {i % 2}) AS b{i}" for i in range(9)
        )
        curator = opened(three, epsilon=9)
        for sql in (COUNT, f"SELECT {columns} FROM t", f"SELECT {others}, SUM(x) AS s FROM t"):
            profile = curator.risk(sql)
            assert float(profile.suggest(0.95).level) == pytest.approx(0.0526315789, abs=1e-9)
            chosen = profile.choose(0.95, private=False)
            assert chosen.level == Fraction(1, 20)

    def test_when_everybody_counts_the_safe_preference_still_bounds_them(self, opened, single):
        """Oracle 19: the printed one allows epsilon 10, for all are alike."""
        profile = opened(single([1] * 5, 0, 1), epsilon=99).risk("SELECT COUNT(*) AS n FROM t")
        assert profile.rdr(epsilon=3).ratio == 1
        paper = profile.choose(0.95, private=False, preference="min_max_ratio")
        assert paper.level == 10
        assert profile.choose(0.95, private=False).level == Fraction(1, 20)
        assert profile.suggest(0.95, candidates=CANDIDATES).level == Fraction(1, 20)
        assert profile.suggest(1).level is None
        assert profile.suggest(0).level == 10

    def test_when_nobody_counts_ratios_are_1_without_noise_too(self, opened, single):
        profile = opened(single([0] * 5, 0, 1), epsilon=99).risk(COUNT)
        bare = profile.rdr(epsilon=math.inf)
        assert (bare.ratio, bare.floor_ratio, bare.maximum) == (1, 1, 0)
        assert profile.choose(1, private=False).level == 10


class TestIndicators:
    def test_more_noise_brings_everybody_nearer_to_the_floor(self, opened, mixed, budget, unit):
        profile = opened(mixed, **budget).risk("SELECT g, AVG(r) AS m, COUNT(*) FROM t GROUP BY g")
        ratios = [profile.rdr(**{unit: level}).floor_ratio for level in (8, 1, 0.1, 0.001)]
        assert ratios == sorted(ratios)
        assert ratios[-1] == pytest.approx(1, abs=0.01)

    @pytest.mark.parametrize(
        ("form", "budget_", "expected"),
        [
            ("bound", {"epsilon": 9}, 10 / 0.5),
            ("exact", {"epsilon": 9}, 10 / 0.5),
            ("bound", {"rho": 9}, 10.0),
            ("linear", {"rho": 9}, 10.0),
            ("exact", {"rho": 9}, 10 * math.sqrt(2 / math.pi)),
        ],
    )
    def test_the_floor_is_the_indicator_of_who_is_not_there(
        self, form, budget_, expected, opened, four
    ):
        """The mean size of the noise alone, or its root mean square."""
        profile = opened(four, **budget_).risk(SUM, form=form)
        unit = "epsilon" if "epsilon" in budget_ else "rho"
        found = profile.rdr(**{unit: 0.5})
        assert found.floor == found.minimum == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("form", "expected"), [("bound", 1), ("linear", 1), ("exact", math.sqrt(2 / math.pi))]
    )
    def test_of_several_vectors_it_is_in_units_of_the_noise(self, form, expected, opened, single):
        profile = opened(single([None, 5, 9]), rho=9).risk("SELECT AVG(x) AS m FROM t", form=form)
        assert profile.rdr(rho=0.5).floor == pytest.approx(expected)

    def test_exact_and_strict_forms(self, opened, four):
        """Oracle 5 at Laplace noise of scale 1; strict: d + sigma."""
        exact = opened(four, epsilon=99).risk(SUM, form="exact")
        assert np.asarray(exact.rdr(epsilon=10)) == pytest.approx(
            [d + math.exp(-d) for d in (0, 2, 5, 10)]
        )
        linear = opened(four, rho=9).risk(SUM, form="linear")
        assert np.asarray(linear.rdr(rho=0.5)) == pytest.approx([10, 12, 15, 20])

    def test_epsilon_in_a_zcdp_session_means_the_rho_it_is_asked_with(self, opened, four):
        curator = opened(four, rho=9, delta=1e-6)
        profile, session = curator.risk(SUM), curator.session()
        price = session.price(SUM, epsilon=0.5)
        assert profile.losses(epsilon=0.5)["loss"].max() == pytest.approx(float(price.spent.rho))

    def test_infinite_levels_show_the_bare_contributions(self, opened, four, budget, unit):
        profile = opened(four, **budget).risk(SUM)
        found = profile.rdr(**{unit: math.inf})
        assert np.asarray(found).tolist() == [0, 2, 5, 10]
        assert (found.floor, found.ratio, found.floor_ratio) == (0, 0, 0)

    def test_arrays_have_one_indicator_for_each_row(self, opened, single):
        profile = opened(single([3, 0, 3, 3]), epsilon=9).risk(SUM)
        found = profile.rdr(epsilon=1)
        assert np.asarray(found).tolist() == [10, 13, 13, 13]
        assert (found.values.tolist(), found.counts.tolist()) == ([10, 13], [1, 3])
        assert found.to_frame()["rows"].tolist() == [1, 3]
        assert np.asarray(found, dtype=np.float32).dtype == np.float32

    def test_they_are_those_of_the_noise_that_is_drawn(self, opened, four, budget, unit):
        """Theorem 4: the mean size of the noise in an answer is the floor of its profile."""
        noise = DiscreteNoise(1)
        curator = opened(four, noise=noise, **budget)
        answer = curator.session().query(SUM, **{unit: 0.25})
        profile = curator.risk(SUM, form="exact")
        (view,) = profile.plan.views.values()
        (level,) = answer.levels.values()
        # in a pure session all levels are drawn at once
        mean = 1 if unit == "epsilon" else math.sqrt(2 / math.pi)
        drawn = [draw.scale * float(view.granularity) * mean for draw in noise.draws]
        floor = profile.rdr(**{unit: level}).floor
        assert min(abs(size / floor - 1) for size in drawn) < 1e-9


class TestGroups:
    @pytest.fixture
    def profile(self, opened):
        frame = pd.DataFrame({"x": [0, 5, 5, 2, 10, 10, 7], "g": ["a"] * 3 + ["b"] * 3 + [None]})
        schema = Schema({"x": Integer(0, 10), "g": Category(["a", "b", "c"])})
        return opened(Table("t", frame, schema), epsilon=9).risk(SUM, by="g")

    def test_each_declared_group_has_its_rows_median_and_largest(self, profile):
        found = profile.by_group(epsilon=1).to_frame()
        assert found["group"].tolist() == ["a", "b", "c"]
        assert found["rows"].tolist() == [3, 3, 0]
        assert found["median"].tolist() == pytest.approx([1.5, 2, 1])
        assert found["largest"].tolist() == pytest.approx([1.5, 2, 1])

    def test_the_ratio_is_symmetric(self, profile):
        assert profile.group_ratio("a", "b", epsilon=1, reveal=True) == pytest.approx(15 / 20)
        assert profile.group_ratio("b", "a", epsilon=1, reveal=True) == pytest.approx(15 / 20)
        assert profile.group_ratio("a", "c", epsilon=1, reveal=True) == pytest.approx(10 / 15)
        assert profile.group_ratio("a", "a", epsilon=1, reveal=True) == 1

    def test_the_largest_contributions_name_their_group(self, profile):
        found = profile.top(3).to_frame()
        assert found["g"].tolist() == ["b", "missing", "a"]
        assert found["s"].tolist() == [10, 7, 5]
        assert found["rows"].tolist() == [2, 1, 2]

    def test_several_columns_make_joint_groups(self, opened, mixed):
        profile = opened(mixed).risk("SELECT COUNT(*) AS n FROM t WHERE n > 3", by=["g", "h"])
        found = profile.by_group(rho=1).to_frame()
        assert len(found) == 4 * 3
        assert found["group"].tolist()[:4] == ["a, 0", "a, 1", "a, 2", "b, 0"]
        frame = mixed.source
        expected = [
            int(((frame["g"] == g) & (frame["h"] == h)).sum()) for g in "abc" for h in range(3)
        ]
        assert found["rows"].tolist() == [*expected, 0, 0, 0]

    def test_column_names_are_found_in_any_case_and_bins_are_groups(self, opened, mixed):
        profile = opened(mixed).risk("SELECT COUNT(*) AS k FROM t", by="N")
        assert profile.by == ("n",)
        frame = profile.by_group(rho=1).to_frame()
        assert frame["group"].tolist() == ["[1, 4]", "(4, 8]", "(8, 10]"]
        assert frame["rows"].sum() == mixed.source["n"].between(0.5, 10.5, inclusive="left").sum()

    @pytest.mark.parametrize("by", ["nope", "", ["g", "nope"], 5, [5], [None]])
    def test_unknown_columns_are_refused(self, by, opened, mixed):
        with pytest.raises(RequestError):
            opened(mixed).risk("SELECT COUNT(*) AS n FROM t", by=by)

    def test_columns_without_groups_are_refused(self, opened, mixed):
        with pytest.raises(RequestError, match="no declared groups"):
            opened(mixed).risk("SELECT COUNT(*) AS n FROM t", by="s")

    @pytest.mark.parametrize("label", ["nope", "", None, 3, ("a",)])
    def test_unknown_groups_are_refused(self, label, profile):
        with pytest.raises(RequestError, match="there is no group"):
            profile.group_ratio("a", label, epsilon=1, reveal=True)

    def test_groups_of_one_name_are_told_apart_by_one_column(self, opened):
        pairs = Schema({"a": Category(["x", "x, y"]), "b": Category(["y, z", "z"])})
        table = Table("t", pd.DataFrame({"a": ["x", "x, y"], "b": ["y, z", "z"]}), pairs)
        curator = opened(table)
        profile = curator.risk("SELECT COUNT(*) AS n FROM t", by=("a", "b"))
        with pytest.raises(RequestError, match="two groups are called 'x, y, z'") as refusal:
            profile.group_ratio("x, z", "x, y, z", rho=1, reveal=True)
        assert refusal.value.hint == "Name one column in by."
        profile = curator.risk("SELECT COUNT(*) AS n FROM t", by="a")
        assert profile.group_ratio("x", "x, y", rho=1, reveal=True) == 1

    def test_without_columns_there_are_no_groups(self, opened, four):
        profile = opened(four).risk(SUM)
        with pytest.raises(RequestError, match="there are no groups"):
            profile.group_ratio("a", "b", rho=1, reveal=True)
        assert len(profile.by_group(rho=1).to_frame()) == 0


class TestLargest:
    def test_contributions_have_names_and_units(self, opened, mixed, budget):
        profile = opened(mixed, **budget).risk(
            "SELECT COUNT(*) AS k, SUM(n) AS s, AVG(m) AS a, AVG(r) AS b FROM t"
        )
        names = list(profile.top().to_frame())
        assert names == [
            "k", "s", "a: distance from -6.5", "a: counted", "b: distance from 5", "b: counted",
            "share of the largest possible", "rows",
        ]  # fmt: skip
        found = profile.top(300).to_frame()
        assert found["rows"].sum() == 300
        frame = mixed.source
        assert (found["s"] * found["rows"]).sum() == frame["n"].round().clip(0, 12).sum()
        off = frame["m"].clip(-20, 7) + 6.5
        assert (found["a: distance from -6.5"] * found["rows"]).sum() == off.sum()
        assert (found["b: counted"] * found["rows"]).sum() == frame["r"].count()

    def test_names_of_ones_own_hide_nothing(self, opened, single):
        """An alias may be called like a column of the table of contributions."""
        profile = opened(single([3, 3, 9])).risk(
            "SELECT SUM(x) AS rows, COUNT(*) AS x FROM t", by="x"
        )
        found = profile.top().to_frame()
        assert len(found.columns) == 5
        assert found["rows"].tolist() == [1, 2]
        assert found["x"].tolist() == ["9", "3"]
        # what the aliases name is there, too
        assert found.iloc[:, 0].tolist() == [9, 3]
        assert found.iloc[:, 1].tolist() == [1, 1]

    def test_they_come_in_order_of_what_they_tell(self, opened, mixed, budget):
        shares = (
            opened(mixed, **budget)
            .risk("SELECT AVG(r) AS m FROM t")
            .top(300)["share of the largest possible"]
        )
        assert np.all(np.diff(shares) <= 0)
        assert shares[0] <= 1

    @pytest.mark.parametrize("count", [-1, "x", None, 2.5, True, math.nan])
    def test_a_count_is_a_whole_number(self, count, opened, four):
        with pytest.raises(RequestError):
            opened(four).risk(SUM).top(count)

    def test_none_of_an_empty_table(self, opened, single):
        assert len(opened(single([])).risk(SUM).top().to_frame()) == 0


class TestHistogram:
    @pytest.mark.parametrize("bins", [1, 4, 7, 64])
    def test_rows_that_add_nothing_are_counted_apart(self, bins, opened, single):
        values = [0, 0, 1, 2, 3, 5, 5, 8, 10, 10]
        found = opened(single(values), epsilon=9).risk(SUM).histogram(bins).to_frame()
        r = np.array(values) / 10
        assert found["rows"].tolist()[0] == 2
        assert found["rows"].sum() == 10
        edges = np.arange(bins + 1) / bins
        expected = [
            np.count_nonzero((low + 1e-12 < r) & (r <= high + 1e-12))
            for low, high in itertools.pairwise(edges)
        ]
        assert found["rows"].tolist()[1:] == expected
        assert found["r_high"].tolist() == edges.tolist()

    def test_bins_are_from_1_to_64(self, opened, four):
        profile = opened(four).risk(SUM)
        for bins in (0, -1, 65, 2.5, "16", None, True, math.nan):
            with pytest.raises(RequestError, match="bins must be a whole number from 1 to 64"):
                profile.histogram(bins)
            with pytest.raises(RequestError, match="bins must be a whole number from 1 to 64"):
                profile.share(bins=bins)


@pytest.fixture(
    scope="module",
    params=[(sql, unit) for sql in ("SUM", "AVG") for unit in ("rho", "epsilon")],
)
def pair(request, many):
    """A profile of 8,000 different contributions in steps, and the same one by one."""
    aggregate, unit = request.param
    sql = f"SELECT {aggregate}(wage) AS v FROM t"
    curators = [
        Curator(many, budget=Budget(**{unit: 100}), noise=DiscreteNoise(1)) for _ in range(2)
    ]
    rounded = curators[0].risk(sql, by="sex")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MOST_LINES", 1 << 20)
        exact = curators[1].risk(sql, by="sex")
    yield rounded, exact
    for curator in curators:
        curator.close()


@pytest.mark.parametrize("rows", [4_096, 4_097])
def test_the_exact_form_is_there_however_many_contributions_differ(opened, rows):
    """One more row must not turn an answer to the owner into a refusal, which a notebook would keep."""
    frame = pd.DataFrame({"x": np.arange(rows) / 1_000})
    table = Table("t", frame, Schema({"x": Real(0, 10)}))
    profile = opened(table, epsilon=5).risk("SELECT AVG(x) AS m FROM t", form="exact")
    assert len(np.asarray(profile.rdr(epsilon=1))) == rows
    assert not profile.approximate
    assert "chosen by looking at exact values" in repr(profile.choose(0.5, private=False))


class TestManyContributions:
    """Oracle 21: more than 4,096 different ones are looked at in 4,096 steps."""

    @pytest.fixture
    def unit(self, pair):
        return "epsilon" if pair[0].privacy == PURE else "rho"

    def test_risks_err_upward_by_a_step_at_most(self, pair, unit):
        rounded, exact = pair
        assert (rounded.approximate, exact.approximate) == (True, False)
        near = np.sort(np.concatenate([[0.0], np.asarray(rounded.rdr(**{unit: math.inf}))]))[1:]
        true = np.asarray(exact.rdr(**{unit: math.inf}))
        reach = (
            next(iter(exact.plan.views.values())).sensitivity(ZCDP)
            if len(exact.plan.views) == 1
            else 1.0
        )
        assert len(near) == len(true) == 9_000
        errors = (near - true) / reach
        assert errors.min() >= -1e-12
        assert errors.max() <= 1 / 4_096 + 1e-12
        assert errors.max() > 0.5 / 4_096

    def test_the_lower_ends_never_err_upward(self, pair):
        rounded, exact = pair
        low = np.sort(np.repeat(rounded._rows.r_low, rounded._rows.counts))
        true = np.sort(np.repeat(exact._rows.r, exact._rows.counts))
        assert np.all(low <= true + 1e-12)
        assert np.all(low >= true - 2 / 4_096)

    def test_counts_add_up(self, pair, unit):
        rounded, exact = pair
        assert rounded.histogram(1)["rows"].sum() == 9_000
        assert rounded.losses(**{unit: 1})["rows"].sum() == 9_000
        pick = {unit: 1}
        assert rounded.by_group(**pick)["rows"].tolist() == exact.by_group(**pick)["rows"].tolist()

    def test_group_medians_and_levels_nearly_agree(self, pair, unit):
        rounded, exact = pair
        for one, other in zip(
            rounded.by_group(**{unit: 1})["median"],
            exact.by_group(**{unit: 1})["median"],
            strict=True,
        ):
            assert other <= one <= other * 1.001
        fine = [f"{level:.6f}" for level in np.arange(0.5, 0.0, -0.0005)]
        for preference, tau in (
            ("floor_max_ratio", 0.8),
            ("min_max_ratio", 0.8),
            ("max_loss", 0.1),
        ):
            options = {"private": False, "preference": preference, "candidates": fine}
            one, other = (p.choose(tau, **options, mode="paper").level for p in pair)
            assert other * Fraction(99, 100) <= one <= other
        options["preference"] = "variance"
        one, other = (p.choose(0.002, **options, mode="paper").level for p in pair)
        assert float(one) == pytest.approx(float(other), rel=0.01)

    def test_contributions_are_not_listed_one_by_one(self, pair):
        rounded, exact = pair
        assert set(rounded.top().to_frame()) == {"sex", "share of the largest possible", "rows"}
        assert len(exact.top(20_000).to_frame()) > 4_096
        assert len(rounded.top(20_000).to_frame()) <= 2 * 4_097

    def test_private_selections_do_not_depend_on_it(self, pair, unit):
        """What noise is drawn on is rounded in any case, so the choice is the same."""
        found = [
            (p.choose(0.9, **{unit: 1}, mode="paper").level, p.share(**{unit: 1}).counts) for p in pair
        ]  # fmt: skip
        assert found[0] == found[1]


class TestSentence:
    @pytest.fixture
    def said(self, opened, single):
        def say(values, options, **level):
            return opened(single(values), **options).risk(SUM).sentence(**level, reveal=True)

        return say

    def test_laplace_noise_bounds_the_odds(self, said):
        text = said([0, 2, 5, 10], {"epsilon": 9}, epsilon=1)
        assert "epsilon 1" in text
        assert "one row stands out most" in text
        # 100 (1 - e^(-1/2)/2), in one coordinate
        assert "A guess of whether it is in the table is right 70 times in 100" in text
        assert "at most 2.72" in text

    def test_bounds_are_rounded_up(self, said):
        text = said([0, 2, 5, 10], {"epsilon": 9}, epsilon=0.7)
        assert math.exp(0.7) > 2.01
        assert "at most 2.02" in text

    def test_of_factors_over_a_million_there_is_no_bound(self, said):
        text = said([0, 2, 5, 10], {"epsilon": 99}, epsilon=20)
        assert text.endswith("by a factor of perhaps over a million.")

    def test_gaussian_noise_shifts_them_as_a_rule_and_rarely(self, said):
        text = said([0, 2, 5, 10], {"rho": 9}, rho=0.5)
        rho = 0.5
        typical = math.exp(
            2 * math.sqrt(rho / math.pi) * math.exp(-rho / 4) + rho * math.erf(math.sqrt(rho) / 2)
        )
        assert f"about {typical:.3g} in a typical answer" in text
        (rare,) = map(float, re.findall(r"less than ([\d.]+) in 99 of 100", text))
        distribution, far = stats.norm(rho, math.sqrt(2 * rho)), math.log(rare)
        within = distribution.cdf(far) - distribution.cdf(-far)
        assert 0.99 <= within + 1e-4 < 0.996

    def test_rows_that_are_alike_are_counted(self, said):
        assert "3 of 4 rows stand out most, all equally" in said(
            [7, 7, 7, 1], {"epsilon": 9}, epsilon=1
        )

    def test_nobody_stands_out_of_nothing(self, said):
        for values in ([], [0], [None, 0]):
            assert "nobody stands out" in said(values, {"epsilon": 9}, epsilon=1)

    def test_without_noise_everybody_sees_all(self, said):
        assert "exact answer" in said([1], {"epsilon": 9}, epsilon=math.inf)

    @pytest.mark.parametrize("level", [1e-15, 1e-6, 50, 1e6, 1e15])
    def test_any_level_has_one(self, level, said):
        for options, name in (({"epsilon": 9}, "epsilon"), ({"rho": 9}, "rho")):
            text = said([0, 10], options, **{name: level})
            assert text.endswith(".")
            assert "nan" not in text
            assert "inf" not in text


class TestGuesses:
    """Guesses right of 100 (docs/methods/rdr.md, theorem 10), for the very noise of the release."""

    def test_gaussian_noise(self, opened, single):
        profile = opened(single([0, 5, 10]), rho=9).risk(SUM)
        found = profile.guesses(rho=5).to_frame()
        mu = math.sqrt(10)
        wanted = [50, *(100 * stats.norm.cdf(r * mu / 2) for r in (0.5, 1))]
        assert list(found["guesses"]) == pytest.approx(wanted)
        assert list(profile.rdr(rho=5).guesses) == pytest.approx(wanted)
        # an indicator of 3.32, where guesses are right 94 times in 100
        assert profile.rdr(rho=5).maximum / profile.rdr(rho=5).floor == pytest.approx(
            3.317, abs=1e-3
        )
        assert found["guesses"].max() == pytest.approx(94.3, abs=0.05)

    def test_one_laplace_value(self, opened, single):
        profile = opened(single([0, 5, 10]), epsilon=9).risk(SUM)
        found = profile.guesses(epsilon="0.8409").to_frame()["guesses"]
        assert list(found) == pytest.approx([50, 59.48, 67.16], abs=0.005)

    def test_several_laplace_values_by_their_joint_distribution(self, opened, mixed):
        """Not by the sum of their sizes in one coordinate."""
        profile = opened(mixed, epsilon=9).risk("SELECT SUM(m) AS s, AVG(n) AS a FROM t")
        sizes = profile._rows._by_view(2.0)
        found = np.sort(profile._rows.guesses(2.0))
        assert found.max() < 100 * (1 - math.exp(-sizes.sum(axis=1).max() / 2) / 2)
        for line, guessed in zip(sizes[:5], profile._rows.guesses(2.0), strict=False):
            noise = np.random.default_rng(1).laplace(size=(100_000, len(line)))
            loss = (np.abs(noise) - np.abs(noise - line)).sum(axis=1)
            overlap = np.minimum(1, np.exp(loss)).mean()
            assert guessed == pytest.approx(100 - 50 * overlap, abs=0.5)

    def test_nobody_is_guessed_more_easily_than_the_rule_says(self, opened, mixed, budget, unit):
        for sql in (
            "SELECT COUNT(*) AS n FROM t",
            "SELECT g, SUM(m) AS s, AVG(n) AS a FROM t GROUP BY g",
        ):
            profile = opened(mixed, **budget).risk(sql)
            for limit in (55, 60, 80):
                level = profile.suggest(guesses=limit).level
                assert profile._rows.guesses(float(level)).max() <= limit + 0.02

    def test_a_group_has_that_of_its_most_exposed_row(self, opened, mixed):
        profile = opened(mixed, rho=9).risk(SUM.replace("x", "m"), by="g")
        found = profile.by_group(rho=1).to_frame()
        for cell, row in enumerate(found.itertuples()):
            inside = profile._rows.cells == cell
            wanted = profile._rows.guesses(1.0)[inside].max(initial=50.0)
            assert row.guesses == pytest.approx(wanted)

    def test_one_off_releases_count_as_the_worst_of_their_cost(self, opened, single):
        """A zCDP cost of any mechanism, not of Gaussian noise; and it is said that it is a bound."""
        for options, name in (({"rho": 9}, "rho"), ({"epsilon": 9}, "epsilon")):
            curator = opened(single([0, 10]), **options)
            alone = curator.risk(SUM).guesses(**{name: "0.5"}).to_frame()["guesses"].max()
            curator.risk(SUM).share(**{name: "0.3"})
            profile = curator.risk(SUM, cumulative=True)
            found = profile.guesses(**{name: "0.5"}).to_frame()["guesses"]
            assert found.max() > alone
            if name == "rho":
                # e tanh(e/2) = 0.8 in all
                e = math.log(found.max() / (100 - found.max()))
                assert e * math.tanh(e / 2) == pytest.approx(0.8)
            else:
                overlap = (1 - math.tanh(0.15)) * math.exp(-0.25)
                assert found.max() == pytest.approx(100 - 50 * overlap)
            # somebody who adds nothing to the answer is in the histogram all the same
            assert found.min() > 50
            said = profile.sentence(**{name: "0.5"}, reveal=True)
            assert "is right at most" in said
            assert "if all releases had been fixed in advance" in said

    def test_of_ids_whose_values_lie_in_several_groups_only_the_sum_counts(self, opened):
        frame = pd.DataFrame({"who": [1, 1, 2], "g": ["a", "b", "a"]})
        table = Table(
            "t",
            frame,
            Schema({"g": Category(["a", "b"])}),
            unit=Unit("who", max_rows=2, max_groups=2),
        )
        profile = opened(table, epsilon=9).risk("SELECT g, COUNT(*) AS n FROM t GROUP BY g")
        assert profile._rows.at_most
        found = profile.guesses(epsilon=1).to_frame()["guesses"]
        assert found.max() == pytest.approx(100 * (1 - math.exp(-0.5) / 2))


class Shifted:
    """Noise of exactly so many standard deviations."""

    def __init__(self, sigmas):
        self.sigmas = sigmas

    def gaussian(self, exact, sigma):
        return [int(x) + round(self.sigmas * sigma) for x in exact]


class TestSignedLosses:
    def test_they_order_people_where_distances_of_one_output_do_not(self, opened, single):
        """E4: contributions 1, 0 and -1, noise of scale 1 that came out as -2."""
        curator = opened(single([1, 0, -1], -1, 1), noise=Shifted(-2), rho=9)
        answer = curator.session().query(SUM, rho=0.5)
        found = curator.risk(SUM).signed_losses(answer).to_frame()
        assert found["s"].tolist() == [-1, 0, 1]
        assert found["loss"].tolist() == pytest.approx([2.5, 0, -1.5], abs=1e-6)
        # the distance of the output from the answer without the row says the reverse
        distances = [abs(-2 + v) for v in (-1, 0, 1)]
        assert distances == sorted(distances, reverse=True)

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT COUNT(*) AS n FROM t WHERE n > 5",
            "SELECT g, SUM(m) AS s, AVG(n) AS a FROM t WHERE h > 0 GROUP BY g",
            "SELECT h, g, AVG(r) AS m FROM t GROUP BY h, g",
            "SELECT n, COUNT(*) AS k FROM t GROUP BY n",
        ],
    )
    def test_they_are_the_log_ratio_of_densities_with_and_without_the_row(
        self, sql, opened, mixed, left_out, budget, unit
    ):
        curator = opened(mixed, **budget)
        answer = curator.session().query(sql, **{unit: 2})
        profile = curator.risk(sql)
        found = profile.signed_losses(answer).to_frame()
        assert found["rows"].sum() == 300
        assert found["loss"].is_monotonic_decreasing
        views, state = profile.plan.views, curator._runner.store.accountant

        def log_density(vectors):
            total = 0.0
            for (name, view), vector in zip(views.items(), vectors, strict=True):
                level = Fraction(answer.levels[name])
                released = np.array(state.version(name, level).vector) / view.scale
                reach = view.measure.sensitivity
                if unit == "rho":
                    distribution = stats.norm(scale=reach / math.sqrt(2 * level))
                else:
                    distribution = stats.laplace(scale=reach / float(level))
                total += distribution.logpdf(released - vector).sum()
            return total

        base, others = left_out(profile.plan)
        expected = []
        for vectors, count in others:
            expected += [log_density(base) - log_density(vectors)] * count
        mine = np.sort(np.repeat(found["loss"], found["rows"]))
        assert mine == pytest.approx(np.sort(expected), abs=1e-6)

    def test_their_mean_is_the_loss_of_the_profile(self, opened, size):
        """Theorem 3: N(rho_i, 2 rho_i), of people who are alone in their groups."""
        count = size(400)
        names = [f"g{i}" for i in range(count)]
        frame = pd.DataFrame({"g": names, "x": 10})
        table = Table("t", frame, Schema({"g": Category(names), "x": Integer(0, 10)}))
        curator, sql = (
            opened(table, noise=DiscreteNoise(2), rho=9),
            "SELECT g, SUM(x) AS s FROM t GROUP BY g",
        )
        losses = curator.risk(sql).signed_losses(curator.session().query(sql, rho=2)).to_frame()
        sampled = np.repeat(losses["loss"], losses["rows"])
        assert len(sampled) == count
        # six standard errors: a mean of 1.4, or noise a quarter too wide, would be noticed
        assert np.mean(sampled) == pytest.approx(2, abs=6 * math.sqrt(2 * 2 / count))
        assert np.std(sampled) == pytest.approx(2, rel=6 / math.sqrt(2 * count))

    @pytest.mark.parametrize("other", ["SELECT COUNT(*) AS n FROM t", "SELECT AVG(x) AS s FROM t"])
    def test_answers_to_other_statements_are_refused(self, other, opened, four):
        curator = opened(four)
        answer = curator.session().query(other, rho=1)
        with pytest.raises(RequestError, match="to another statement"):
            curator.risk(SUM).signed_losses(answer)

    def test_so_are_answers_of_other_ledgers_and_what_is_no_answer(self, opened, four):
        answer = opened(four).session().query(SUM, rho=1)
        profile = opened(four).risk(SUM)
        with pytest.raises(RequestError, match="to another statement"):
            profile.signed_losses(answer)
        for nothing in (None, 5, "answer"):
            with pytest.raises(DpnbError):
                profile.signed_losses(nothing)

    def test_too_many_lines_are_not_shown_one_by_one(self, opened, four, monkeypatch):
        monkeypatch.setattr(plan, "MOST_JOINT_LINES", 3)
        curator = opened(four)
        profile = curator.risk(SUM)
        answer = curator.session().query(SUM, rho=1)
        with pytest.raises(RequestError, match="too many different contributions") as refusal:
            profile.signed_losses(answer)
        assert refusal.value.hint == "Look at the histogram instead."
        assert profile.histogram().to_frame()["rows"].sum() == 4


@pytest.mark.parametrize(
    "sql",
    [
        "WITH p AS (SELECT id, SUM(x) AS s FROM t GROUP BY id) SELECT AVG(s) AS a FROM p",
        "SELECT COUNT(DISTINCT x) AS n FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE id IN (SELECT id FROM t GROUP BY id HAVING COUNT(*) > 1)",
    ],
    ids=["lines of persons", "different values", "rows of chosen persons"],
)
def test_earlier_answers_whose_parts_are_unknown_count_in_full(sql):
    frame = pd.DataFrame({"id": [1, 1, 2, 3, 3], "x": [1, 2, 3, 3, 3]})
    table = Table("t", frame, Schema({"x": Integer(0, 9)}), dpnb.Unit("id", max_rows=2))
    with contextlib.closing(dpnb.Curator(table, budget=dpnb.Budget(rho=1))) as curator:
        curator.session().query(sql, rho="0.1")
        statement = "SELECT COUNT(*) AS n FROM t"
        alone, all_of_them = (
            curator.risk(statement, cumulative=cumulative).losses(rho=0.2).to_frame()
            for cumulative in (False, True)
        )
    assert (all_of_them["loss"].min() - alone["loss"].min()).round(9) >= 0.1


class TestStatements:
    @pytest.mark.parametrize(
        ("sql", "reason"),
        [
            ("SELECT COUNT(*) AS n FROM t JOIN t AS u ON t.x = u.x", "joined"),
            ("SELECT COUNT(DISTINCT x) AS n FROM t", "DISTINCT"),
            ("SELECT DISTINCT x FROM t", "x"),
            ("SELECT MAX(x) AS m FROM t", "MAX"),
            ("SELECT SUM(x) OVER () AS m FROM t", ""),
            ("SELECT COUNT(*) AS n FROM (SELECT x FROM t LIMIT 2) AS u", "LIMIT"),
            ("SELECT COUNT(*) AS n FROM nope", "nope"),
            ("SELECT SUM(nope) AS n FROM t", "nope"),
            ("", ""),
        ],
    )
    def test_what_cannot_be_released_has_no_risk(self, sql, reason, opened, four):
        with pytest.raises((SqlError, RequestError)) as caught:
            opened(four).risk(sql)
        assert reason in str(caught.value)

    @pytest.mark.parametrize("sql", [None, 5, b"SELECT", ["SELECT COUNT(*) FROM t"]])
    def test_a_statement_is_a_text(self, sql, opened, four):
        with pytest.raises(DpnbError):
            opened(four).risk(sql)

    @pytest.mark.parametrize(
        "options",
        [
            {"form": "nope"}, {"form": None}, {"form": 3}, {"mode": "nope"}, {"mode": None},
            {"split": 0}, {"split": 1}, {"split": "x"}, {"params": 5},
        ],
    )  # fmt: skip
    def test_options_that_make_no_sense_are_refused(self, options, opened, four):
        with pytest.raises((RequestError, SqlError)):
            opened(four).risk("SELECT AVG(x) AS m FROM t", **options)

    def test_parameters_are_bound(self, opened, four):
        profile = opened(four).risk(
            "SELECT COUNT(*) AS n FROM t WHERE x > :least", params={"least": 3}
        )
        assert np.asarray(profile.rdr(rho=math.inf)).tolist() == [0, 0, 1, 1]

    def test_order_and_limit_hide_nothing_that_is_released(self, opened, mixed):
        sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
        curator = opened(mixed)
        shown, all_ = curator.risk(f"{sql} ORDER BY n LIMIT 1"), curator.risk(sql)
        assert np.asarray(shown.rdr(rho=1)).tolist() == np.asarray(all_.rdr(rho=1)).tolist()

    def test_formulas_of_aggregates_have_the_risk_of_what_they_are_made_of(self, opened, four):
        curator = opened(four)
        one = curator.risk("SELECT SUM(x) / COUNT(*) AS m FROM t")
        other = curator.risk("SELECT SUM(x) AS s, COUNT(*) AS n FROM t")
        assert np.asarray(one.rdr(rho=1)).tolist() == np.asarray(other.rdr(rho=1)).tolist()


VALUES = {
    "empty": [], "one row": [4], "everyone equal": [4] * 30, "nothing": [None] * 3,
    "one outlier": [0] * 50 + [10], "everyone out of bounds": [99] * 4,
}  # fmt: skip


class TestSmallTables:
    STATEMENTS = (
        SUM, "SELECT AVG(x) AS m FROM t", "SELECT x, COUNT(*) AS n FROM t GROUP BY x",
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "form", "budget"),
        [
            # each table in each form, in one of the definitions in turn
            pytest.param(name, form, (PURE, ZCDP)[(i + j) % 2], id=f"{name}-{form}")
            for i, name in enumerate(VALUES)
            for j, form in enumerate(FORMS)
        ],
        indirect=["budget"],
    )
    def test_everything_works(self, name, form, opened, single, budget, unit):
        values = VALUES[name]
        curator = opened(single(values), **budget)
        level = {unit: 0.5}
        # each statement meets each table and each form
        place = [*VALUES].index(name) + FORMS.index(form)
        for sql in (self.STATEMENTS[place % 3],):
            profile = curator.risk(sql, by="x", form=form)
            found = profile.rdr(**level)
            assert len(np.asarray(found)) == len(values)
            assert found.minimum >= found.floor * (1 - 1e-12)
            assert 0 < found.floor_ratio <= found.ratio <= 1
            assert profile.losses(**level)["rows"].sum() == len(values)
            assert profile.histogram()["rows"].sum() == len(values)
            assert profile.top(99)["rows"].sum() == len(values)
            assert profile.by_group(**level)["rows"].sum() <= len(values)
            assert profile.group_ratio("0", "10", **level, reveal=True) <= 1
            assert profile.sentence(**level, reveal=True)
            for preference in ("min_max_ratio", "floor_max_ratio", "quantile_ratio", "variance",
                               "difference", "max_loss"):  # fmt: skip
                chosen = profile.choose(0.9, private=False, preference=preference)
                assert chosen.level is None or chosen.level in CANDIDATES
            assert profile.suggest(policy="alone").level > 0
            if form == "bound":
                for method in ("quantile", "tail", "variance"):
                    assert profile.choose(0.9, method=method, mode="paper").source == "private"
                assert len(profile.share().counts) == 17


class TestLevels:
    @pytest.fixture(params=["rdr", "losses", "by_group", "sentence", "group_ratio"])
    def use(self, request, opened, mixed, budget):
        profile = opened(mixed, **budget).risk("SELECT SUM(n) AS s FROM t", by="g")
        method = getattr(profile, request.param)
        if request.param == "group_ratio":
            return lambda **level: method("a", "b", **level, reveal=True)
        if request.param == "sentence":
            return lambda **level: method(**level, reveal=True)
        return method

    def test_others_than_positive_numbers_are_refused(self, use, unit):
        for level in (0, -1, 0.0, math.nan, -math.inf, "x", "", "nan", True, [1], 1e30, 1e-30):
            with pytest.raises(RequestError):
                use(**{unit: level})

    def test_exactly_one_is_said(self, use):
        for levels in (
            {},
            {"rho": 1, "epsilon": 1},
            {"rho": None},
            {"rho": math.inf, "epsilon": 1},
        ):
            with pytest.raises(RequestError):
                use(**levels)

    def test_texts_and_fractions_are_exact(self, use, unit):
        for level in ("0.1", "1/10", Fraction(1, 10), np.float64(0.1)):
            use(**{unit: level})

    def test_rho_is_none_of_pure_sessions(self, opened, four):
        profile = opened(four, epsilon=9).risk(SUM)
        for rho in (1, math.inf):
            with pytest.raises(
                RequestError, match="counts epsilon, because its budget has no delta"
            ):
                profile.rdr(rho=rho)

    def test_epsilon_needs_a_delta_in_zcdp_sessions(self, opened, four):
        with pytest.raises(RequestError, match="delta"):
            opened(four, rho=9).risk(SUM).rdr(epsilon=1)

    def test_ratios_of_groups_need_noise(self, opened, mixed, budget, unit):
        """Without noise a ratio to the floor is infinite for all: it compares nobody."""
        profile = opened(mixed, **budget).risk("SELECT SUM(n) AS s FROM t", by="g")
        for use in (lambda **x: profile.group_ratio("a", "b", **x, reveal=True), profile.by_group):
            with pytest.raises(RequestError):
                use(**{unit: math.inf})


class TestLooking:
    def test_looking_costs_nothing_and_writes_nothing(self, opened, mixed, budget, unit, tmp_path):
        path = tmp_path / "ledger"
        curator = opened(mixed, ledger=path, **budget)
        before = path.read_bytes()
        profile = curator.risk("SELECT g, AVG(n) AS m FROM t GROUP BY g", by="g", cumulative=True)
        profile.rdr(**{unit: 1})
        profile.top()
        profile.histogram()
        profile.sentence(**{unit: 1}, reveal=True)
        profile.choose(0.9, private=False)
        profile.suggest(0.9)
        assert path.read_bytes() == before
        assert curator.budget.spent.rho == 0
        assert list(curator._runner.store.accountant.history("owner")) == []

    def test_the_data_is_read_once(self, opened, mixed, unit, budget, monkeypatch):
        looks = []
        real = DuckDBEngine.contributions

        def watched(self, *arguments):
            looks.append(1)
            return real(self, *arguments)

        monkeypatch.setattr(DuckDBEngine, "contributions", watched)
        profile = opened(mixed, **budget).risk("SELECT SUM(n) AS s FROM t", by="g")
        for level in (0.1, 0.5, 2):
            profile.rdr(**{unit: level})
            profile.by_group(**{unit: level})
        profile.choose(0.9, private=False)
        assert len(looks) == 1

    def test_progress_tells_time_only(self, opened, four, monkeypatch):
        import time

        real = DuckDBEngine.contributions

        def slow(self, *arguments):
            time.sleep(1.6)
            return real(self, *arguments)

        monkeypatch.setattr(DuckDBEngine, "contributions", slow)
        seen = []
        opened(four).risk(SUM, progress=seen.append)
        assert seen
        assert all(1 < seconds < 60 for seconds in seen)


class TestClosing:
    def test_a_closed_profile_holds_nothing(self, opened, mixed):
        profile = opened(mixed).risk("SELECT SUM(n) AS s FROM t", by="g")
        profile.close()
        for use in (
            lambda: profile.rdr(rho=1), lambda: profile.losses(rho=1), lambda: profile.top(),
            lambda: profile.histogram(), lambda: profile.by_group(rho=1),
            lambda: profile.group_ratio("a", "b", rho=1, reveal=True), lambda: profile.sentence(rho=1, reveal=True),
            lambda: profile.choose(0.9, private=False), lambda: profile.approximate,
            lambda: profile.choose(0.9, mode="paper"),
        ):  # fmt: skip
            with pytest.raises(RequestError, match="the profile is closed"):
                use()
        profile.close()
        assert "RiskProfile" in repr(profile)

    def test_the_public_rule_needs_no_profile(self, opened, four):
        profile = opened(four).risk(SUM)
        profile.close()
        assert profile.suggest(0.9).level is not None


class TestSecrecy:
    SECRETS = ("48611", "48,611", "271828", "0.48611", "4.8611")

    @pytest.fixture
    def profile(self, opened):
        frame = pd.DataFrame({"x": [48_611] * 7 + [271_828] * 2, "g": list("aab") * 3})
        schema = Schema({"x": Integer(0, 10**6), "g": Category(["a", "b"])})
        return opened(Table("t", frame, schema)).risk(SUM, by="g")

    def things(self, profile):
        return [
            profile, profile.rdr(rho=1), profile.losses(rho=1), profile.top(), profile.histogram(),
            profile.by_group(rho=1),
        ]  # fmt: skip

    def test_nothing_shows_itself(self, profile):
        for item in self.things(profile):
            texts = [repr(item), str(item), f"{item}", f"{[item]}", "%s" % (item,)]  # noqa: UP031
            html = getattr(item, "_repr_html_", lambda: None)()
            for text in [*texts, str(html)]:
                assert not any(secret in text for secret in self.SECRETS)
            assert "for the owner only" in repr(item)

    def test_nothing_can_be_stored_or_copied(self, profile):
        for item in self.things(profile):
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    use(item)

    def test_tables_show_what_is_asked_for(self, profile):
        assert 271_828 in profile.top().to_frame()["s"].tolist()
        assert profile.top()["s"][0] == 271_828

    def test_single_exact_numbers_and_sentences_are_told_on_demand_only(self, profile):
        """What a cell returns is saved with its notebook."""
        for use in (profile.sentence, lambda **x: profile.group_ratio("a", "b", **x)):
            with pytest.raises(RequestError, match="exact facts about people"):
                use(rho=1)
            assert use(rho=1, reveal=True)

    @pytest.mark.parametrize("kind", ["plot", "to_html"])
    def test_pictures_and_pages_are_made_on_demand_only(self, kind, profile, tmp_path):
        arguments = [tmp_path / "risk.html"] if kind == "to_html" else []
        with pytest.raises(RequestError, match="exact facts about people"):
            getattr(profile, kind)(*arguments)
        assert not list(tmp_path.iterdir())

    def test_of_public_tables_all_is_shown(self, opened, single):
        profile = opened(single([5, 7], public=True)).risk(SUM)
        assert "7" in repr(profile.top())
        assert "7" in profile.top()._repr_html_()
        assert "for the owner only" not in repr(profile.rdr(rho=1))

    def test_values_of_ones_own_are_kept_the_same_way(self):
        found = Exact("things", [("a", [48_611])])
        assert "48611" not in repr(found)
        assert found._repr_html_() is None
        assert found["a"].tolist() == [48_611]
        with pytest.raises(RequestError, match="there is no column 'b'") as refusal:
            found["b"]
        assert refusal.value.hint == "Use a."
        shown = Indicators([48_611.0], [1], 1.0, public=True)
        assert "48611" in repr(shown)


class TestPublicMode:
    def test_the_printed_algorithms_run_on_public_tables_only(self, opened, four, single):
        with pytest.raises(RequestError, match="not private"):
            opened(four).risk(SUM, mode="paper")
        found = opened(single([0, 2, 5, 10], public=True)).risk(SUM, mode="paper")
        assert "NOT PRIVATE" in repr(found)

    def test_choices_on_public_tables_are_not_conditional(self, opened, single):
        profile = opened(single([0, 2, 5, 10], public=True)).risk(SUM)
        assert not profile.choose(0.9, private=False).conditional


class TestReleasing:
    """From a profile straight to an answer at a level that was picked by hand."""

    def test_the_price_of_an_answer_is_that_of_the_session(self, opened, mixed, budget, unit):
        sql = "SELECT g, AVG(n) AS m FROM t GROUP BY g"
        curator = opened(mixed, **budget)
        profile, session = curator.risk(sql), curator.session()
        assert profile.price(Fraction(1, 2)) == session.price(sql, **{unit: 0.5})
        session.query(sql, **{unit: 0.25})
        assert profile.price(Fraction(1, 2)) == session.price(sql, **{unit: 0.5})
        assert curator.budget.spent == session.budget.spent

    def test_an_answer_at_a_picked_level_is_conditional_on_a_sensitive_table(
        self, opened, single, budget, unit
    ):
        for public in (False, True):
            curator = opened(single([1, 2, 3], public=public), **budget)
            profile = curator.risk(SUM)
            choice = profile.picked(Fraction(1, 2))
            answer = profile.answer(Fraction(1, 2))
            assert choice.conditional == answer.conditional == (not public)
            assert choice.source == "data"
            spent = curator.budget.spent.level(PURE if unit == "epsilon" else ZCDP)
            assert 0 < spent <= Fraction(1, 2)
            # the same numbers belong to the analyst's session from now on
            again = curator.session().query(SUM, **{unit: 0.5})
            assert again.spent.rho == 0
            assert again.to_frame().equals(answer.to_frame())
            assert again.conditional == (not public)


def test_no_warning_is_given_on_the_way(opened, mixed, budget, unit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile = opened(mixed, **budget).risk("SELECT g, AVG(r) AS m FROM t GROUP BY g", by="g")
        profile.rdr(**{unit: 0.1})
        profile.choose(0.9, mode="paper")


def test_an_engine_that_fails_says_the_fixed_text(opened, four, monkeypatch):
    def fail(*_):
        raise ArithmeticError("48611 rows")

    curator = opened(four)
    monkeypatch.setattr(DuckDBEngine, "contributions", fail)
    with pytest.raises(DpnbError, match="the engine could not carry out") as caught:
        curator.risk(SUM)
    assert "48611" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_reals_are_clamped_and_missing_values_add_nothing(opened):
    frame = pd.DataFrame({"x": [math.nan, math.inf, -5.0, 3.0, 12.0]})
    table = Table("t", frame, Schema({"x": Real(-1, 10)}))
    found = np.asarray(opened(table, rho=9).risk(SUM).rdr(rho=math.inf))
    assert found == pytest.approx([0, 0, 1, 3, 10], abs=1e-5)
