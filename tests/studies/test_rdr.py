"""Disclosure risk as published: the paper's numbers come out, and so do its flaws.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import RequestError
from dpnb.privacy.noise import SecureNoise
from dpnb.risk.plan import family
from dpnb.risk.selection import FIRST
from dpnb.sql.parser import parse
from dpnb.studies import rdr
from dpnb.studies.rdr import CANDIDATES, Dynamic, PaperProfile, measure
from tests.benchmarks.rdr import common as published
from tests.kit.noise import ContinuousNoise, NoNoise
from tests.kit.power import shares

QUERIES = published.QUERIES
CLOSED = {  # largest epsilons at tau = .95 before rounding to candidates
    "laplace": (0.0526316, 0.3157895, 0.0526316, 0.0117766, 0.0526316),
    "gaussian": (2.1303642, 5.2183052, 2.1303642, 0.4766809, 2.1303642),
}
ABOVE, BELOW = 1 + 1e-6, 1 - 1e-6


def profile(distances, *, sensitivity=1.0, k=1, mechanism="laplace", counts=None, values=(0.0,)):
    """A profile of given distances, one row each unless counts are given."""
    found = np.asarray(distances, dtype=np.float64)
    weights = np.ones(len(found), dtype=np.int64) if counts is None else np.asarray(counts)
    return PaperProfile(mechanism, found, weights, float(sensitivity), k, tuple(values))


def profiled(frame, sql, mechanism="laplace", **kinds):
    """The profile of a statement over a small table ``t``."""
    table = Table("t", frame, Schema(kinds), public=True)
    engine = DuckDBEngine(table)
    try:
        return measure(parse(sql, {"t": table}), 1, engine, mechanism)
    finally:
        engine.close()


def rows(found: PaperProfile) -> list[float]:
    """One distance for each row of the table, ascending."""
    return np.repeat(found.distances, found.counts).tolist()


def tight(found: PaperProfile, tau: float, epsilon: float) -> bool:
    """Whether ``epsilon`` is the largest at which the ratio reaches ``tau``, within 1e-6."""
    return found.ratio(epsilon * BELOW) >= tau > found.ratio(epsilon * ABOVE)


@pytest.fixture(scope="module")
def adult():
    """Profiles of the paper's five queries on Adult, for both mechanisms."""
    table = dpnb.datasets.adult()
    engine = DuckDBEngine(table)
    found = {
        mechanism: {
            name: measure(parse(sql, {"adult": table}), 1, engine, mechanism)
            for name, sql in QUERIES.items()
        }
        for mechanism in ("laplace", "gaussian")
    }
    engine.close()
    return found


class TestCandidates:
    def test_there_are_37_exact_decimals_from_10_to_a_thousandth(self):
        assert len(CANDIDATES) == 37
        assert list(CANDIDATES) == sorted(CANDIDATES, reverse=True)
        assert CANDIDATES[0] == 10
        assert CANDIDATES[-1] == 0.001
        assert {0.3, 0.07, 0.009} < set(CANDIDATES)

    def test_the_sparse_vector_splits_as_1_to_2_to_the_two_thirds(self):
        assert pytest.approx(0.3864882096, abs=1e-10) == FIRST
        assert pytest.approx(2 ** (2 / 3)) == (1 - FIRST) / FIRST


class TestIndicators:
    """Oracles 1 to 3, and degenerate tables."""

    def test_figure_2_three_patients(self):
        found = profile([0, 1], counts=[2, 1])
        assert found.rdr(math.inf).tolist() == [0, 1]
        assert found.ratio(math.inf) == 0
        for epsilon, low, ratio, variance in (
            (1, 1, 1 / 2, 0.0555555556),
            (0.1, 10, 10 / 11, 0.0018365473),
            (0.01, 100, 100 / 101, 2.178435665e-5),
        ):
            assert found.rdr(epsilon) == pytest.approx([low, low + 1], abs=1e-9)
            assert found.ratio(epsilon) == pytest.approx(ratio, abs=1e-9)
            assert found.variance(epsilon) == pytest.approx(variance, abs=1e-9)
        assert found.find(0.9, (1, 0.1, 0.01)) == 0.1

    def test_a_sum_of_four_values(self):
        found = profile([0, 2, 5, 10], sensitivity=10)
        for epsilon, low, ratio, variance in (
            (10, 1, 0.0909090909, 0.1172520661),
            (1, 10, 0.5, 0.03546875),
            (0.5, 20, 2 / 3, 0.0157638889),
            (0.1, 100, 0.9090909091, 0.0011725207),
        ):
            risks = found.rdr(epsilon)
            assert risks - low == pytest.approx([0, 2, 5, 10], abs=1e-9)
            assert np.var(risks) == pytest.approx(14.1875, abs=1e-9)
            assert found.ratio(epsilon) == pytest.approx(ratio, abs=1e-9)
            assert found.variance(epsilon) == pytest.approx(variance, abs=1e-9)
        assert tight(found, 0.9, 1 / 9)

    def test_without_anybody_at_0_more_is_allowed(self):
        found = profile([2, 5, 10], sensitivity=10)
        assert tight(found, 0.9, 0.1428571429)
        assert found.ratio(math.inf) == pytest.approx(0.2)
        assert found.find(0.2, (1e9,)) == 1e9

    def test_gaussian_noise_of_the_sum(self):
        # the classical sigma at this epsilon is that of rho
        for rho, ratio, units in (
            (1, 0.5773502692, (1, 1.0392304845, 1.2247448714, 1.7320508076)),
            (0.5, 0.7071067812, (1, 1.01980390272, 1.11803398875, 1.41421356237)),
            (0.05, 0.9534625892, None),
        ):
            found = profile([0, 2, 5, 10], sensitivity=10, mechanism="gaussian")
            epsilon = math.sqrt(4 * rho * math.log(1.25 * 16))
            assert found.scale(epsilon) == pytest.approx(10 / math.sqrt(2 * rho), abs=1e-9)
            assert found.ratio(epsilon) == pytest.approx(ratio, abs=1e-9)
            if units is not None:
                assert found.rdr(epsilon) / found.scale(epsilon) == pytest.approx(units, abs=1e-9)

    def test_delta_is_one_over_the_square_of_the_rows(self):
        assert profile([0, 1], counts=[2, 1], mechanism="gaussian").delta == pytest.approx(1 / 9)
        assert profile([0, 1]).delta == 0

    def test_epsilons_are_positive(self):
        with pytest.raises(RequestError, match="must be above 0"):
            profile([0, 1]).ratio(0)

    def test_when_everybody_stands_out_alike_the_largest_epsilon_is_taken(self):
        everybody, nobody = profile([1], counts=[5]), profile([0], counts=[5])
        for found in (everybody, nobody):
            assert found.ratio(1) == 1
            assert found.variance(1) == 0
            assert found.find(0.95) == 10
            assert found.find(1.0) == 10
        assert nobody.ratio(math.inf) == 1
        assert nobody.variance(math.inf) == 0

    def test_extreme_thresholds(self):
        found = profile([0, 1])
        assert found.find(0.0) == 10
        assert found.find(1.0) is None
        # exactly 1.0 in real arithmetic
        assert profile([0, 1], sensitivity=1).find(0.5) == 1

    def test_constant_columns_buy_a_hundredfold_epsilon(self):
        assert tight(profile([0, 1], k=100), 0.95, 5.2631578947)
        assert profile([0, 1], k=100).find() == 5
        assert profile([0, 1], k=1).find() == 0.05


class TestMeasure:
    KINDS = MappingProxyType({"g": Category(["a", "b", "c", "d"]), "x": Integer(0, 10)})
    FRAME = pd.DataFrame({"g": list("aaabbc"), "x": [1, 5, 9, 2, 2, 7]})

    def found(self, sql, frame=FRAME):
        return profiled(frame, sql, **self.KINDS)

    @pytest.mark.parametrize(
        ("aggregate", "distances", "values", "sensitivity"),
        [
            ("COUNT(*)", [1, 1, 1, 1, 1, 1], (3, 2, 1), 1),
            ("SUM(x)", [1, 2, 2, 5, 7, 9], (15, 4, 7), 8),
            ("AVG(x)", [0, 0, 0, 2, 2, 7], (5, 2, 7), 8 / 6),
        ],
    )
    def test_grouped_statements(self, aggregate, distances, values, sensitivity):
        found = self.found(f"SELECT g, {aggregate} FROM t GROUP BY g")
        assert rows(found) == pytest.approx(distances, abs=1e-9)
        assert found.values == pytest.approx(values)
        assert found.k == 3
        assert found.n == 6
        assert found.sensitivity == pytest.approx(sensitivity)

    def test_a_row_outside_where_changes_nothing_but_counts_and_widens_the_range(self):
        found = self.found("SELECT SUM(x) FROM t WHERE g = 'b'")
        assert rows(found) == [0, 0, 0, 0, 2, 2]
        assert found.values == (4,)
        assert found.sensitivity == 8
        found = self.found("SELECT AVG(x) FROM t WHERE g = 'a'")
        assert rows(found) == pytest.approx([0, 0, 0, 0, 2, 2])
        assert found.sensitivity == pytest.approx(8 / 6)

    def test_without_groups_there_is_one_answer_also_of_no_rows(self):
        found = self.found("SELECT COUNT(*) FROM t WHERE g = 'd'")
        assert (found.k, found.values) == (1, (0,))
        assert rows(found) == [0] * 6

    def test_a_filtered_aggregate_leaves_groups_as_they_are(self):
        sql = "SELECT g, SUM(x) FILTER (WHERE x > 4) FROM t GROUP BY g"
        found = self.found(sql)
        assert rows(found) == [0, 0, 0, 5, 7, 9]
        assert found.values == (14, 0, 7)

    def test_an_average_of_one_row_becomes_null_which_counts_as_no_change(self):
        assert rows(self.found("SELECT AVG(x) FROM t WHERE g = 'c'")) == [0] * 6
        assert rows(self.found("SELECT AVG(x) FROM t WHERE g = 'd'")) == [0] * 6

    def test_missing_values(self):
        frame = pd.DataFrame({"g": ["a", "a", "b", None], "x": [4, None, None, 6]}, dtype=object)
        frame["x"] = frame["x"].astype("Int64")
        found = self.found("SELECT g, AVG(x) FROM t GROUP BY g", frame)
        # a stays, without a value; b has none; a row without a group is in none
        assert rows(found) == [0] * 4
        assert found.k == 2
        assert found.values[0] == 4
        assert math.isnan(found.values[1])
        assert rows(self.found("SELECT COUNT(x) FROM t", frame)) == [0, 0, 1, 1]
        total = self.found("SELECT SUM(x) FROM t", frame)
        assert rows(total) == [0, 0, 4, 6]
        assert total.sensitivity == 2

    def test_negative_values_count_by_their_size(self):
        frame = pd.DataFrame({"x": [-3, 2, 0]})
        found = profiled(frame, "SELECT SUM(x) FROM t", x=Integer(-5, 5))
        assert rows(found) == [0, 2, 3]
        assert found.sensitivity == 5
        assert found.values == (-1,)

    def test_the_midpoint_of_the_bounds_is_a_value_like_any_other(self):
        frame = pd.DataFrame({"x": [5, 5, 8]})
        found = profiled(frame, "SELECT AVG(x) FROM t", x=Integer(0, 10))
        assert rows(found) == pytest.approx([0.5, 0.5, 1.0])

    @pytest.mark.parametrize("aggregate", ["COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)"])
    @pytest.mark.parametrize("grouped", [False, True])
    def test_closed_forms_agree_with_leaving_rows_out_one_by_one(self, aggregate, grouped):
        rng = np.random.default_rng(3)
        x = pd.Series(np.round(rng.uniform(-8, 20, 30) * 64) / 64)
        frame = pd.DataFrame({"g": rng.choice(list("abc"), 30), "x": x.mask(rng.random(30) < 0.2)})
        keys, group = ("g, ", " GROUP BY g") if grouped else ("", "")
        sql = f"SELECT {keys}{aggregate} FROM t WHERE x > -6 OR x IS NULL{group}"
        kinds = {"g": Category(["a", "b", "c"]), "x": Real(-8, 24)}
        found = profiled(frame, sql, **kinds)
        assert rows(found) == pytest.approx(sorted(left_out(frame, aggregate, grouped)), abs=1e-9)

    def test_q5_of_the_paper(self, adult):
        found = adult["laplace"]["Q5"]
        assert found.sensitivity == found.distances[-1] == 99999
        assert found.counts[-1] == 159
        assert found.values == (35089324,)
        low, *_, high = found.rdr(0.05)
        assert (low, high) == pytest.approx((1999980, 2099979), abs=1e-6)
        assert found.ratio(0.05) == pytest.approx(0.9523809524, abs=1e-10)

    def test_facts_on_adult(self, adult):
        found = adult["laplace"]
        assert {profiled.n for profiled in found.values()} == {32561}
        assert [found[name].counts[-1] for name in ("Q1", "Q2", "Q3")] == [19, 334, 1089]
        assert found["Q2"].k == 6
        assert found["Q4"].values[0] == pytest.approx(40.4881636405424, abs=1e-9)
        assert found["Q4"].distances[-1] == pytest.approx(0.013450996864243127, abs=1e-12)
        assert found["Q4"].sensitivity == pytest.approx(0.0030097355732317805, abs=1e-15)
        # what the noise is made for is exceeded: docs/methods/rdr.md, E8
        exceeded = found["Q4"].distances[-1] / found["Q4"].sensitivity
        assert exceeded == pytest.approx(4.4691623357, abs=1e-9)

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT COUNT(*), SUM(x) FROM t",
            "SELECT SUM(x) / COUNT(*) FROM t",
            "SELECT g, COUNT(*) FROM t GROUP BY g HAVING COUNT(*) > 1",
            "SELECT g, COUNT(*) FROM t GROUP BY g LIMIT 1",
        ],
    )
    def test_other_statements_are_refused(self, sql):
        with pytest.raises(RequestError, match="takes exactly one aggregate"):
            self.found(sql)

    def test_an_empty_table_is_refused(self):
        with pytest.raises(RequestError, match="no rows"):
            self.found("SELECT COUNT(*) FROM t", self.FRAME.iloc[:0])

    def test_mechanisms_are_known_by_name(self):
        assert [family(name) for name in ("laplace", "gaussian")] == ["laplace", "gaussian"]
        for name in ("Laplace", "", None, ["laplace"]):
            with pytest.raises(RequestError, match="there is no mechanism"):
                family(name)

    def test_a_profile_shows_no_numbers_and_cannot_be_pickled(self, adult):
        found = adult["gaussian"]["Q5"]
        assert repr(found) == str(found) == "NOT PRIVATE: PaperProfile(gaussian)"
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(found)


def left_out(frame: pd.DataFrame, aggregate: str, grouped: bool) -> list[float]:
    """The distances by the paper's own way: the answer without each row, one by one."""

    def answer(part: pd.DataFrame) -> dict[str, float]:
        part = part[(part.x > -6) | part.x.isna()]
        groups = dict(list(part.groupby("g"))) if grouped else {"": part}
        return {name: value(group) for name, group in groups.items()}

    def value(group: pd.DataFrame) -> float:
        if aggregate == "COUNT(*)":
            return len(group)
        if aggregate == "COUNT(x)":
            return group.x.count()
        return group.x.sum() if aggregate == "SUM(x)" else group.x.mean()

    base = answer(frame)
    changes = []
    for i in range(len(frame)):
        rest = answer(frame.drop(index=i))
        changes.append(np.nansum([abs(base[name] - rest.get(name, 0.0)) for name in base]))
    return changes


class TestFind:
    @pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
    @pytest.mark.parametrize("tau", [0.95, 0.75, 0.5, 0.25, 0.05])
    def test_figure_7(self, adult, mechanism, tau):
        found = tuple(profile.find(tau) for profile in adult[mechanism].values())
        assert found == published.FIGURE_7[mechanism][tau]

    @pytest.mark.parametrize("mechanism", CLOSED)
    def test_closed_forms_at_95_percent(self, adult, mechanism):
        for name, epsilon in zip(QUERIES, CLOSED[mechanism], strict=True):
            found = adult[mechanism][name]
            # seven decimals are given
            assert found.ratio(epsilon - 1e-7) >= 0.95 > found.ratio(epsilon + 1e-7)

    def test_nothing_when_no_candidate_will_do(self):
        assert profile([0, 1]).find(0.95, (10, 1)) is None


class TestFindAndRelease:
    PATIENT = MappingProxyType({"distances": [0, 1], "counts": [999, 1], "values": (1.0,)})

    def test_one_patient_in_a_thousand_is_not_protected(self, size, equals):
        found = profile(**self.PATIENT)
        # with noise of half the width the largest epsilon comes with 0.365
        noise, count = ContinuousNoise(7), size(shares(0.430, 0.365))
        drawn = [found.find_and_release(noise, tau=0.0) for _ in range(count)]
        chosen = np.array([0.0 if release is None else release.epsilon for release in drawn])
        assert equals(chosen == 10, 0.430)
        assert equals(chosen >= 1, 0.916)
        assert equals(chosen == 0, 0.015)

    def test_without_noise_the_largest_epsilon_of_small_variance_is_released(self):
        found = profile(**self.PATIENT)
        exact = NoNoise()
        for tau in (1e-4, 1e-5, 1e-6):
            wanted = next(e for e in CANDIDATES if found.variance(e) <= tau)
            release = found.find_and_release(exact, tau)
            assert release.epsilon == wanted < 10
            assert release.values == (1.0,)

    def test_nothing_is_released_when_no_candidate_passes(self):
        exact = NoNoise()
        assert profile(**self.PATIENT).find_and_release(exact, tau=0.0, candidates=(10, 1)) is None

    def test_one_candidate_passes_as_often_as_two_laplace_draws_say(self, size, equals):
        found = profile([0, 1], counts=[50, 50])
        margin = found.variance(10) - 0.15
        assert margin == pytest.approx(0.25 / 1.1**2 - 0.15)
        threshold, blur = 1 / 100 / FIRST, 2 / 100 / (1 - FIRST)
        # Pr[blur - threshold >= margin] of two independent Laplace draws
        tails = [scale**2 * math.exp(-margin / scale) for scale in (blur, threshold)]
        chance = (tails[0] - tails[1]) / (2 * (blur**2 - threshold**2))
        noise = ContinuousNoise(9)
        passed = [found.find_and_release(noise, 0.15, (10,)) is not None for _ in range(size(5000))]
        assert equals(passed, chance)

    def test_what_the_search_costs_sets_its_noise(self):
        found = profile(**self.PATIENT)
        seeds = range(300)
        sure = [
            found.find_and_release(ContinuousNoise(i), 1e-5, selection=1e9).epsilon for i in seeds
        ]
        assert set(sure) == {next(e for e in CANDIDATES if found.variance(e) <= 1e-5)}
        blurred = [found.find_and_release(ContinuousNoise(i), 1e-5, selection=0.1) for i in seeds]
        assert len({release and release.epsilon for release in blurred}) > 5

    def test_every_release_is_stamped(self):
        for mechanism in ("laplace", "gaussian"):
            found = profile(**self.PATIENT, mechanism=mechanism)
            release = found.find_and_release(SecureNoise(), tau=1.0)
            assert repr(release).startswith("NOT PRIVATE: ")
            assert release.private is False
            assert release.epsilon == 10

    @pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
    def test_the_noise_of_a_release_is_that_of_the_indicator(self, mechanism, size, equals):
        found = profile([0, 3], sensitivity=3, mechanism=mechanism, values=(100.0,) * size(4000))
        drawn = np.array(found.release(ContinuousNoise(3), 2).values) - 100
        if mechanism == "laplace":
            scale, inside = 3 / 2, 1 - math.exp(-1)
        else:
            scale, inside = 3 / 2 * math.sqrt(2 * math.log(1.25 * 4)), math.erf(math.sqrt(0.5))
        assert equals(np.abs(drawn) <= scale, inside)
        assert not equals(np.abs(drawn) <= 1.3 * scale, inside)


class TestDynamic:
    def finder(self, found):
        return lambda candidates: found.find(0.95, candidates)

    @pytest.mark.parametrize(
        ("order", "answers", "spent"),
        [
            (("Q1", "Q2", "Q3", "Q4", "Q5"), (0.05, 0.3, None, None, None), "0.35"),
            (("Q4", "Q1", "Q2", "Q3", "Q5"), (0.01, 0.05, 0.3, None, None), "0.36"),
            (("Q4", "Q3", "Q5", "Q2"), (0.01, 0.05, None, 0.3), "0.36"),
            (("Q1", "Q1"), (0.05, None), "0.05"),
        ],
    )
    def test_queries_of_the_paper_in_several_orders(self, adult, order, answers, spent):
        rule = Dynamic()
        found = tuple(rule.answer(self.finder(adult["laplace"][name])) for name in order)
        assert found == answers
        assert rule.spent == Fraction(spent)

    def test_the_smallest_first_chain_has_13_answers(self):
        rule = Dynamic()
        chain = []
        while (found := rule.answer(min)) is not None:
            chain.append(found)
        assert chain == [0.001, 0.002, 0.004, 0.008, 0.02, 0.04, 0.08, 0.2, 0.4, 0.8, 2, 4, 8]
        assert rule.spent == Fraction("15.555")
        # 9 and 10 are still to be had, but not above what was spent
        assert rule.open == ()

    def test_the_largest_total_is_19_999(self):
        rule = Dynamic()
        for wanted in (0.009, 0.09, 0.9, 9.0, 10.0):
            assert rule.answer(lambda left, wanted=wanted: max(e for e in left if e <= wanted))
        assert rule.spent == Fraction("19.999")

    @pytest.mark.parametrize(
        ("selection", "most", "answers"), [(0, 19_999, 13), (1_000, 20_900, 3)]
    )
    def test_no_order_of_queries_reaches_more(self, selection, most, answers):
        longest = {0: 0}  # thousandths spent: answers at most
        for spent in range(10_000):
            if spent not in longest:
                continue
            for epsilon in Dynamic(spent=Fraction(spent, 1000)).open:
                after = spent + round(1000 * epsilon) + selection
                longest[after] = max(longest.get(after, 0), longest[spent] + 1)
        assert max(longest) == most < 2 * 10_000 + selection
        assert max(longest.values()) == answers

    def test_each_answer_is_charged_its_epsilon_and_its_search(self):
        rule = Dynamic(selection=Fraction(1))
        assert [rule.answer(lambda _, e=e: e) for e in (0.001, 2.0, 5.0, 10.0)][2:] == [5.0, None]
        assert rule.spent == Fraction("10.001")

    def test_rejected_queries_are_free_in_the_paper_and_charged_where_wished(self):
        for rejected, spent in ((False, 0), (True, 2)):
            rule = Dynamic(selection=Fraction(1), rejected=rejected)
            assert [rule.answer(lambda _: None) for _ in range(2)] == [None, None]
            assert rule.spent == spent

    def test_above_the_largest_candidate_the_data_is_not_looked_at(self):
        looked = []
        rule = Dynamic(selection=Fraction(1), rejected=True, spent=Fraction(10))
        assert rule.answer(looked.append) is None
        assert not looked
        assert rule.spent == 10


class TestFlaws:
    """Why all this is for public tables only (docs/methods/rdr.md)."""

    def test_a_hidden_epsilon_shows_in_the_spread_of_the_output(self, size, equals):
        # E1: one person matches, or nobody does
        draws, noise = size(20_000), ContinuousNoise(2)
        with_one = profile([0, 1], values=(1.0,) * draws)
        without = profile([0], counts=[2], values=(0.0,) * draws)
        assert (with_one.find(), without.find()) == (0.05, 10)
        far = np.abs(with_one.release(noise, with_one.find()).values) > 2
        assert equals(far, 0.906)
        near = np.abs(without.release(noise, without.find()).values) > 2
        assert equals(near, 2.06e-9)

    @pytest.mark.parametrize(("n", "change"), [(1001, 0.1264), (48843, 0.1269)])
    def test_one_row_moves_the_variance_far_more_than_one_over_n(self, n, change):
        # E2: half at 0, half at 0.4, and one at 1, who rescales them all
        crowd = [(n - 1) // 2] * 2
        with_one = profile([0, 0.4, 1], counts=[*crowd, 1])
        without = profile([0, 0.4], counts=crowd)
        moved = without.variance(10) - with_one.variance(10)
        assert moved == pytest.approx(change, abs=5e-5)
        assert moved > 100 / n

    def test_the_range_of_laplace_indicators_never_shrinks(self):
        # E5: the published box is 1 wide at every epsilon; the Gaussian one is not
        for epsilon in CANDIDATES:
            assert np.ptp(profile([0, 1]).rdr(epsilon)) == pytest.approx(1)
        gaussian = profile([0, 1], mechanism="gaussian")
        for sigma, width in ((1, 0.414), (5, 0.099), (50, 0.010)):
            epsilon = gaussian.scale(1) / sigma
            assert np.ptp(gaussian.rdr(epsilon)) == pytest.approx(width, abs=5e-4)


class TestOrderClaim:
    """One output does not order people by their loss (docs/methods/rdr.md, E4)."""

    @pytest.mark.parametrize(
        ("epsilon", "published"),
        [(0.1, 0.4756), (0.5, 0.3894), (1, 0.3033), (2, 0.1839), (5, 0.0410)],
    )
    def test_the_share_of_outputs_that_reverse_two_people(self, epsilon, published, size, equals):
        # notices noise that is a tenth too wide, at epsilon 1
        count = shares(math.exp(-0.5) / 2, math.exp(-0.5 / 1.1) / 2)
        one = profile([0, 1], values=(0.0,) * size(count))
        output = np.array(one.release(ContinuousNoise(5), epsilon).values)
        counted, absent = np.abs(output + 1), np.abs(output)
        loss = epsilon * np.abs(counted - absent)  # of the one who counts; the other has none
        share = math.exp(-epsilon / 2) / 2
        assert share == pytest.approx(published, abs=5e-5)
        assert equals((counted < absent) & (loss > 0), share)


def test_nothing_is_drawn_but_through_the_noise():
    noise = NoNoise()
    found = profile([0, 1], counts=[999, 1], k=2, values=(1.0, 2.0))
    release = found.find_and_release(noise, 1e-5)
    tried = CANDIDATES.index(release.epsilon) + 1
    assert sum(len(draw.exact) for draw in noise.draws) == 1 + tried + 2
    assert rdr.LATTICE >= 2**20
