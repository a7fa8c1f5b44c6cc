"""Inferences from a session's past answers: estimates, intervals, probabilities, and what is refused."""

from __future__ import annotations

import json
import math
import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnb import Category, Integer, Schema, Table
from dpnb.answers.inference import Inference
from dpnb.display.cards.inference import interval_sentence
from dpnb.errors import RequestError, SqlError
from dpnb.estimation.joint import compared
from dpnb.estimation.noise import Mixture
from dpnb.estimation.prior import AtMost, Normal, Uniform, read_prior, update
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import Picked

PEOPLE = Schema(
    {
        "region": Category(["north", "south", "east"]),
        "kind": Category(["old", "new"]),
        "score": Integer(0, 10, bins=[0, 3, 6, 10]),
        "year": Integer(2000, 2003),
    },
    complete=["region", "kind", "year"],
)
BY_BOTH = "SELECT region, kind, COUNT(*) AS n FROM people GROUP BY region, kind"
BY_REGION = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
WHOLE = "SELECT COUNT(*) AS n FROM people"
Z = stats.norm.ppf(0.975)


def table(rows=600, seed=3):
    rng = np.random.default_rng(seed)
    return Table(
        "people",
        pd.DataFrame(
            {
                "region": rng.choice(["north", "south", "east"], rows, p=[0.5, 0.3, 0.2]),
                "kind": rng.choice(["old", "new"], rows),
                "score": rng.integers(0, 11, rows),
                "year": rng.integers(2000, 2004, rows),
            }
        ),
        PEOPLE,
    )


PEOPLE_TABLE = table()
LEVELS = {ZCDP: {"rho": 0.02}, PURE: {"epsilon": 0.25}}
BUDGETS = {ZCDP: {"rho": 1_000, "delta": 1e-6}, PURE: {"epsilon": 60}}


def asked(curator):
    """A session with noisy counts of region x kind: sd 5, or Laplace of scale 4."""
    found = curator.session()
    found.query(BY_BOTH, **LEVELS[found.budget.privacy])
    return found


@pytest.fixture(scope="module")
def sessions(shared, drawn):
    """A session of either privacy, for tests that only infer."""
    return {
        privacy: asked(shared(PEOPLE_TABLE, drawn(5), budget=budget))
        for privacy, budget in BUDGETS.items()
    }


@pytest.fixture(params=[ZCDP, PURE])
def session(request, sessions):
    return sessions[request.param]


@pytest.fixture
def gaussian(sessions):
    return sessions[ZCDP]


@pytest.fixture
def laplace(sessions):
    return sessions[PURE]


@pytest.fixture(params=[ZCDP, PURE])
def own_session(request, curated, drawn):
    """A session of either privacy, for a test that buys more."""
    return asked(curated(PEOPLE_TABLE, drawn(5), budget=BUDGETS[request.param]))


@pytest.fixture
def own_gaussian(curated, drawn):
    return asked(curated(PEOPLE_TABLE, drawn(5)))


class TestEstimates:
    """Estimates are weighted sums of past answers."""

    def test_groups_are_added_up(self, own_session):
        past = own_session.query(BY_BOTH, **LEVELS[own_session.budget.privacy]).to_frame()
        found = own_session.infer(WHOLE)
        assert found.estimate == pytest.approx(past["n"].sum())
        by_region = own_session.infer(BY_REGION)
        assert by_region.groups == (("north",), ("south",), ("east",))
        assert by_region.estimate == pytest.approx(past.groupby("region", sort=False)["n"].sum())

    @pytest.mark.parametrize("sql", [WHOLE, BY_REGION, "SELECT 2 * COUNT(*) - 10 AS n FROM people"])
    def test_weights_and_values_of_the_sources_give_the_estimate(self, session, sql):
        found = session.infer(sql)
        one = found.aggregates[0]
        for group, estimate in zip(found.groups, one.estimate, strict=True):
            sources = found.sources_of(group if found.keys else None)
            total = sum(source.weight * source.value for source in sources)
            assert total + one.middle == pytest.approx(estimate)
            assert sum(source.share for source in sources) == pytest.approx(1)
            assert {source.statement for source in sources} == {"COUNT(*) GROUP BY kind, region"}

    def test_sources_have_the_released_values_of_their_groups(self, own_gaussian):
        past = own_gaussian.query(BY_BOTH, rho=0.02).to_frame()
        found = own_gaussian.infer("SELECT COUNT(*) FROM people WHERE region = 'south'")
        shown = {source.group: source.value for source in found.sources}
        rows = past[past["region"] == "south"]
        assert shown == pytest.approx({"south, sum of 2": rows["n"].sum()})
        assert [source.sd for source in found.sources] == pytest.approx([math.hypot(5, 5)])
        found = own_gaussian.infer(
            "SELECT COUNT(*) FROM people WHERE region = 'south' AND kind = 'new'"
        )
        shown = {source.group: source.value for source in found.sources}
        assert shown == pytest.approx({"new, south": rows[rows["kind"] == "new"]["n"].item()})

    def test_several_answers_are_weighted_by_precision(self, own_gaussian):
        total = own_gaussian.query(WHOLE, rho=0.02).to_frame()["n"][0]
        past = own_gaussian.query(BY_BOTH, rho=0.02).to_frame()["n"].sum()
        found = own_gaussian.infer(WHOLE)
        # variances 25 and 6 x 25
        assert found.estimate == pytest.approx((6 * total + past) / 7)
        assert sum(source.share for source in found.sources) == pytest.approx(1)
        assert found.sources[0].statement == "COUNT(*)"
        assert found.sources[0].share == pytest.approx(6 / 7)

    def test_means_are_centred_sums_over_counts(self, opened, silent):
        quiet = opened(PEOPLE_TABLE, silent())
        quiet.query("SELECT region, AVG(score) AS m FROM people GROUP BY region", rho=10)
        found = quiet.infer("SELECT AVG(score) AS m, SUM(score) AS s FROM people")
        frame = PEOPLE_TABLE.source
        assert found.aggregates[0].estimate[0] == pytest.approx(frame["score"].mean())
        assert found.aggregates[1].estimate[0] == pytest.approx(frame["score"].sum())
        mean = found.aggregates[0]
        assert 0 <= mean.low[0] < mean.estimate[0] < mean.high[0] <= 10

    def test_a_mean_of_too_few_rows_has_the_declared_bounds(self, opened, drawn):
        few = opened(table(8), drawn(1))
        few.query("SELECT kind, AVG(score) AS m FROM people GROUP BY kind", rho=0.001)
        found = few.infer("SELECT AVG(score) AS m FROM people")
        assert found.estimate is None
        assert (found.low, found.high) == (0, 10)
        assert found.told
        assert "too few rows to tell" in repr(found)

    def test_counts_show_no_negative_interval(self, opened, drawn):
        empty = opened(Table("people", table(5).source.iloc[:0], PEOPLE), drawn(2))
        empty.query(BY_BOTH, rho=0.02)
        found = empty.infer(BY_REGION)
        assert all(0 <= low <= high for low, high in zip(found.low, found.high, strict=True))
        assert min(found.estimate) == 0
        assert min(found.aggregates[0].uncut.estimate) < 0

    @pytest.mark.parametrize(
        ("kind", "first"),
        [
            (Integer(0, 2**31 - 1), 0),
            (Integer(1_500_000_000, 1_800_000_000), 1_690_000_000),
            (Integer(10**9, 10**9 + 2), 10**9),
        ],
        ids=["wide", "times", "narrow"],
    )
    def test_sums_are_no_rounding_beside_counts(self, kind, first, opened, drawn):
        """However wide the bounds are, or far from 0."""
        values = first + np.arange(5_000) % min(1_000, kind.high - first + 1)
        schema = Schema({"x": kind}, complete=["x"])
        held = opened(Table("t", pd.DataFrame({"x": values}), schema), drawn(2))
        held.query("SELECT COUNT(*) AS n FROM t", rho=0.1)
        middle = (kind.low + kind.high) // 2
        formulas = (f"SUM(x) - {middle} * COUNT(*)", f"SUM(x) - {middle + 1} * COUNT(*)")
        for unknown in ("AVG(x)", *formulas):
            with pytest.raises(RequestError, match="do not determine"):
                held.infer(f"SELECT {unknown} AS v FROM t")
        held.query("SELECT AVG(x) AS m, SUM(x) AS s FROM t", rho=0.1)
        truths = {
            "AVG(x)": values.mean(), "SUM(x)": values.sum(), "COUNT(*)": 5_000,
            formulas[0]: (values - middle).sum(), formulas[1]: (values - middle - 1).sum(),
        }  # fmt: skip
        for sql, truth in truths.items():
            found = held.infer(f"SELECT {sql} AS v FROM t", confidence=0.999)
            assert found.low <= truth <= found.high, sql
            assert not found.consistency.alarmed

    def test_statements_about_nothing_are_zero_without_any_past(self, opened):
        found = opened(PEOPLE_TABLE).infer(
            "SELECT COUNT(*) FROM people WHERE score = 1 AND score = 2"
        )
        assert (found.estimate, found.low, found.high) == (0, 0, 0)
        assert found.sources == ()
        assert "No past answer helps here" in repr(found)
        assert found.to_frame().shape == (1, 3)

    def test_nothing_is_charged_and_nothing_is_asked(self, session):
        before = session.budget.spent, len(session.history.rows)
        session.infer(WHOLE)
        session.infer(BY_REGION, guaranteed=True)
        assert (session.budget.spent, len(session.history.rows)) == before


class TestIntervals:
    """Margin of errors from the distribution of the noise."""

    half = 5 * math.sqrt(6) * Z
    TWICE = "SELECT 2 * COUNT(*) - 10 AS n FROM people"

    def test_gaussian_intervals_have_the_normal_quantile(self, gaussian):
        found = gaussian.infer(self.TWICE)
        count = gaussian.infer(WHOLE)
        assert found.estimate == pytest.approx(2 * count.estimate - 10)
        assert found.high - found.estimate == pytest.approx(2 * self.half, rel=1e-4)
        assert found.estimate - found.low == pytest.approx(2 * self.half, rel=1e-4)
        # ends of a count are moved to whole numbers inside
        assert count.low == math.ceil(count.estimate - self.half)
        assert count.high == math.floor(count.estimate + self.half)

    def test_laplace_intervals_have_the_law_of_the_sum(self, laplace):
        found = laplace.infer(self.TWICE)
        rng = np.random.default_rng(0)
        scale = laplace.infer(WHOLE).sources[0].sd / math.sqrt(2)
        draws = np.abs(2 * rng.laplace(0, scale, (400_000, 6)).sum(axis=1))
        assert found.high - found.estimate == pytest.approx(np.quantile(draws, 0.95), rel=0.02)

    def test_simultaneous_intervals_share_the_confidence(self, gaussian):
        sql = "SELECT region, 1 * COUNT(*) AS n FROM people GROUP BY region"
        for options, alpha in (
            ({}, 0.05 / 3),
            ({"intervals": "each"}, 0.05),
            ({"chosen": 4}, 0.05 / 12),
        ):
            one = gaussian.infer(sql, **options).aggregates[0]
            wanted = 5 * math.sqrt(2) * stats.norm.isf(alpha / 2)
            assert [one.margin_of_error(i) for i in range(3)] == pytest.approx(
                [wanted] * 3, rel=1e-4
            )

    def test_a_question_chosen_after_looking_has_wider_intervals(self, session):
        sql, widths = "SELECT 1 * COUNT(*) AS n FROM people", []
        for chosen in (1, 10, 1000):
            found = session.infer(sql, chosen=chosen)
            widths.append(found.high - found.low)
            assert ("if you picked the question from" in interval_sentence(found)) == (chosen > 1)
        assert widths == sorted(widths)
        assert widths[0] < widths[1] < widths[2]

    def test_any_choice_is_wider_than_a_few(self, gaussian):
        found = gaussian.infer("SELECT 1 * COUNT(*) AS n FROM people", chosen="any")
        # Scheffe: six independent counts
        wanted = 5 * math.sqrt(6) * math.sqrt(stats.chi2.ppf(0.95, 6))
        assert found.aggregates[0].margin_of_error(0) <= wanted * 1.001
        assert found.aggregates[0].margin_of_error(0) > self.half

    def test_any_choice_is_among_all_that_is_held(self, own_gaussian):
        """Whoever infers the largest of six groups has looked at all six."""
        sql = "SELECT 1 * COUNT(*) AS n FROM people WHERE region = 'south' AND kind = 'new'"
        found = own_gaussian.infer(sql, chosen="any").aggregates[0].margin_of_error(0)
        assert found == pytest.approx(5 * math.sqrt(stats.chi2.ppf(0.95, 6)), rel=1e-3)
        own_gaussian.query("SELECT year, SUM(score) AS s FROM people GROUP BY year", rho=0.02)
        found = own_gaussian.infer(sql, chosen="any").aggregates[0].margin_of_error(0)
        assert found == pytest.approx(5 * math.sqrt(stats.chi2.ppf(0.95, 10)), rel=1e-3)

    def test_guaranteed_bounds_share_their_failure_with_all_that_is_held(self, own_gaussian):
        sql = "SELECT 1 * SUM(score) AS n FROM people"
        own_gaussian.query(sql, rho=0.02)
        few = own_gaussian.infer(sql, guaranteed=True).aggregates[0].margin_of_error(0)
        sd = math.sqrt(own_gaussian.infer(sql).joint.distribution(0).variance)
        assert few == pytest.approx(sd * stats.norm.isf(0.05 / 7 / 2), rel=1e-3)

    def test_guaranteed_bounds_leave_their_part_to_values_that_do_not_bear_on_them(self, gaussian):
        sql = "SELECT 1 * COUNT(*) AS n FROM people WHERE region = 'south' AND kind = 'old'"
        found = gaussian.infer(sql, guaranteed=True)
        assert len(found.sources) == 1
        # one value of the six that are held
        half = 5 * stats.norm.isf(0.05 / 6 / 2)
        assert found.aggregates[0].margin_of_error(0) == pytest.approx(half, rel=1e-3)

    def test_a_refined_past_says_so(self, own_session):
        assert own_session.infer(BY_REGION).look == 1
        assert "look" not in interval_sentence(own_session.infer(BY_REGION)).replace("looking", "")
        more = {name: 2 * level for name, level in LEVELS[own_session.budget.privacy].items()}
        own_session.query(BY_BOTH, **more)
        for options in ({}, {"chosen": 5}, {"chosen": "any"}, {"guaranteed": True}):
            found = own_session.infer(BY_REGION, **options)
            assert found.look == 2
            assert (
                "Look 2 of this answer: this assumes that past answers were refined to accuracies chosen"
                in (interval_sentence(found))
            )
            assert Inference.from_dict(json.loads(json.dumps(found.to_dict()))).look == 2

    def test_guaranteed_bounds_contain_the_interval_and_hold_for_all(self, session):
        sure, plain = session.infer(BY_REGION, guaranteed=True), session.infer(BY_REGION)
        assert sure.method == "guaranteed"
        assert sure.estimate == plain.estimate
        for low, high, inner, outer in zip(sure.low, sure.high, plain.low, plain.high, strict=True):
            assert low <= inner
            assert high >= outer
        assert "however you chose the question" in interval_sentence(sure)

    def test_guaranteed_bounds_tell_what_is_not_estimable(self, session):
        with pytest.raises(RequestError, match="do not determine"):
            session.infer("SELECT COUNT(*) AS n FROM people WHERE score > 6")
        found = session.infer("SELECT COUNT(*) AS n FROM people WHERE score > 6", guaranteed=True)
        whole = session.infer(WHOLE, guaranteed=True)
        assert found.estimate is None
        assert found.low == 0
        assert found.high == pytest.approx(whole.high, rel=1e-6)
        assert not found.told
        assert found.missing

    def test_a_confidence_closer_to_one_is_wider(self, session):
        widths = [
            session.infer("SELECT 1 * COUNT(*) AS n FROM people", confidence=c)
            for c in (0.5, 0.9, 0.999)
        ]
        ends = [(found.low, found.high) for found in widths]
        assert ends[0][0] > ends[1][0] > ends[2][0]
        assert [found.confidence for found in widths] == [0.5, 0.9, 0.999]


class TestTargets:
    """A wanted margin of error or interval, and what it is worth."""

    def test_the_confidence_of_a_margin_of_error(self, gaussian):
        found = gaussian.infer(WHOLE, error=10)
        assert found.confidence == pytest.approx(
            2 * stats.norm.cdf(10 / (5 * math.sqrt(6))) - 1, abs=1e-4
        )
        assert (found.low, found.high) == (found.estimate - 10, found.estimate + 10)
        assert found.met is None

    def test_of_several_together_by_the_union_bound(self, gaussian):
        missed = 2 * stats.norm.sf(15 / (5 * math.sqrt(2)))
        assert gaussian.infer(BY_REGION, error=15).confidence == pytest.approx(
            1 - 3 * missed, abs=1e-4
        )
        each = gaussian.infer(BY_REGION, error=15, intervals="each").confidence
        assert each == pytest.approx(1 - missed, abs=1e-4)
        chosen = gaussian.infer(BY_REGION, error=15, chosen=2).confidence
        assert chosen == pytest.approx(max(0, 1 - 6 * missed), abs=1e-4)
        assert gaussian.infer(BY_REGION, error=0.1).confidence == 0

    def test_the_confidence_of_an_interval(self, session):
        middle = session.infer(WHOLE).estimate
        found = session.infer(WHOLE, between=(middle - 12, middle + 3))
        assert (found.low, found.high) == (middle - 12, middle + 3)
        wanted = session.infer(WHOLE).between(middle - 12, middle + 3)
        assert found.confidence == pytest.approx(wanted, abs=1e-6)
        away = session.infer(WHOLE, between=(middle + 1000, middle + 1001))
        assert away.confidence == pytest.approx(0, abs=1e-6)

    def test_whether_a_margin_of_error_is_met(self, session):
        reached = session.infer(WHOLE).aggregates[0].margin_of_error(0)
        assert session.infer(WHOLE, error=reached + 1, confidence=0.95).met is True
        missed = session.infer(WHOLE, error=reached / 2, confidence=0.95)
        assert missed.met is False
        assert missed.high == session.infer(WHOLE).high
        assert "not reached" in repr(missed)

    def test_a_margin_of_error_and_its_confidence_agree(self, session):
        sql = "SELECT 1 * COUNT(*) AS n FROM people"
        for confidence in (0.5, 0.9, 0.99):
            half = session.infer(sql, confidence=confidence).aggregates[0].margin_of_error(0)
            assert session.infer(sql, error=half).confidence == pytest.approx(confidence, abs=1e-4)

    def test_means_have_no_such_confidence(self, opened, silent):
        quiet = opened(PEOPLE_TABLE, silent())
        quiet.query("SELECT AVG(score) AS m FROM people", rho=1)
        with pytest.raises(RequestError, match="counts and sums"):
            quiet.infer("SELECT AVG(score) AS m FROM people", error=1)
        assert (
            quiet.infer("SELECT AVG(score) AS m FROM people", error=1, confidence=0.9).met is True
        )

    def test_an_interval_is_of_one_value(self, session):
        with pytest.raises(RequestError, match="this statement has 3"):
            session.infer(BY_REGION, between=(1, 2))


class TestMethods:
    """Other ways to the same interval."""

    SQL = "SELECT 1 * COUNT(*) AS n FROM people"

    def test_simulation_comes_near(self, session):
        plain, simulated = session.infer(self.SQL), session.infer(self.SQL, method="mc")
        assert simulated.estimate == plain.estimate
        assert simulated.high == pytest.approx(plain.high, abs=0.05 * (plain.high - plain.low))

    def test_simulation_ends_before_the_last_per_mille(self, session):
        with pytest.raises(RequestError, match="such a high confidence") as refusal:
            session.infer(self.SQL, method="mc", confidence=0.9995)
        assert refusal.value.hint == "Use method='blue'."
        found = session.infer(self.SQL, method="blue", confidence=0.9995)
        assert found.high > session.infer(self.SQL).high

    def test_the_grid_comes_near_for_laplace_noise(self, laplace, gaussian):
        plain, grid = laplace.infer(self.SQL), laplace.infer(self.SQL, method="pc")
        assert grid.high == pytest.approx(plain.high, abs=0.05 * (plain.high - plain.low))
        with pytest.raises(RequestError, match="needs Laplace noise"):
            gaussian.infer(self.SQL, method="pc")

    def test_means_know_one_method(self, opened, silent):
        quiet = opened(PEOPLE_TABLE, silent())
        quiet.query("SELECT AVG(score) AS m FROM people", rho=1)
        for options in ({"method": "mc"}, {"prior": "nonnegative"}):
            with pytest.raises(RequestError, match="AVG needs method='blue'"):
                quiet.infer("SELECT AVG(score) AS m FROM people", **options)
        with pytest.raises(RequestError, match="SUM and COUNT instead"):
            quiet.infer("SELECT AVG(score) AS m FROM people", guaranteed=True)


class TestPriors:
    """Public knowledge joined with past answers."""

    SQL = "SELECT 1 * COUNT(*) AS n FROM people WHERE region = 'north'"

    def test_two_normals_are_weighted_by_precision(self, gaussian):
        plain = gaussian.infer(self.SQL)
        found = gaussian.infer(self.SQL, prior=Normal(280.0, 5.0))
        variances = 50.0, 25.0
        wanted = (plain.estimate / variances[0] + 280 / variances[1]) / (1 / 50 + 1 / 25)
        assert found.estimate == pytest.approx(wanted, abs=0.02)
        assert found.high - found.low == pytest.approx(2 * Z / math.sqrt(1 / 50 + 1 / 25), rel=0.01)
        assert found.prior == {"normal": [280.0, 5.0]}
        assert "Prior: " in repr(found)
        average = "an average over the prior"
        assert average in interval_sentence(found)
        assert interval_sentence(found).startswith("The credible interval holds with 95 % probab")
        for prior in (None, "nonnegative", AtMost(1000.0)):
            assert average not in interval_sentence(gaussian.infer(self.SQL, prior=prior))

    def test_bounds_cut_the_interval(self, session):
        plain = session.infer(self.SQL)
        found = session.infer(self.SQL, prior=AtMost(plain.estimate + 1))
        assert found.high == plain.estimate + 1
        assert found.low == pytest.approx(plain.low)
        assert found.estimate == plain.estimate

    def test_probabilities_follow_the_prior(self, session):
        count = self.SQL.replace("1 * ", "")
        cut = round(session.infer(count).estimate)
        # three whole numbers
        found = session.infer(count, prior=Uniform(cut - 1, cut + 1))
        assert found.probability(">=", cut - 1) == pytest.approx(1)
        assert found.probability("<", cut - 1) == pytest.approx(0, abs=1e-9)
        assert found.probability(">", cut - 1) == pytest.approx(2 / 3, abs=0.02)
        assert found.probability(">", cut) == pytest.approx(1 / 3, abs=0.02)
        assert found.between(cut, cut) == pytest.approx(1 / 3, abs=0.02)
        assert found.between(cut - 1, cut + 1) == pytest.approx(1)
        # a product may be any number
        found = session.infer(self.SQL, prior=Uniform(cut - 1, cut + 1))
        assert found.probability(">", cut - 1) == pytest.approx(1)
        assert found.probability(">", cut) == pytest.approx(0.5, abs=0.01)

    @pytest.mark.parametrize("prior", ["nonnegative", {"at most": 1000.0}])
    def test_bounds_settle_what_they_settle_and_nothing_else(self, session, prior):
        # a count, whose grid is the whole numbers, and a product, which may be any number
        whole = self.SQL.replace("1 * ", "")
        plain, found = session.infer(whole), session.infer(whole, prior=prior)
        for operator in (">", ">=", "<", "<="):
            for number in (1.0, plain.estimate - 3, plain.estimate, plain.estimate + 7, 999.0):
                assert found.probability(operator, number) == plain.probability(operator, number)
        for sql in (whole, f"{self.SQL} AND kind = 'old'"):
            plain, found = session.infer(sql), session.infer(sql, prior=prior)
            number = plain.estimate + 7
            assert found.probability(">", number) == plain.probability(">", number)
            assert found.probability(">=", 0) == 1
            assert found.probability("<", 0) == 0
            assert found.probability(">", -1) == 1
            assert found.probability("<=", 0) == plain.probability("<=", 0)
            if prior != "nonnegative":
                assert found.probability("<=", 1000) == 1
                assert found.probability(">=", 1000) == plain.probability(">=", 1000)
                assert found.probability(">", 1000) == 0

    @pytest.mark.parametrize("prior", [None, "nonnegative", {"at most": 40}])
    @pytest.mark.parametrize("there", [0, 3])
    def test_a_true_claim_is_seldom_rejected(self, prior, there, size, reaches):
        """Also at the very end of what is possible, where no density is."""
        distribution, level, runs = Mixture((), 49.0), 0.05, size(5_000)
        estimates = there + np.random.default_rng(7).normal(0, 7, runs)
        chances = [
            compared(distribution, "<=", estimate - there)
            if prior is None
            else update(read_prior(prior), estimate, distribution, integer=True).compared(
                "<=", there
            )
            for estimate in estimates
        ]
        kept = np.array(chances) > level
        assert reaches(kept, 1 - level)
        assert not reaches(kept, 1 - level / 2)

    def test_one_that_contradicts_the_answers_is_refused(self, session):
        with pytest.raises(RequestError, match="contradict"):
            session.infer(self.SQL, prior=Uniform(10_000, 20_000))

    def test_plain_data_do_as_well(self, session):
        one = session.infer(self.SQL, prior={"uniform": [0, 500]})
        other = session.infer(self.SQL, prior=Uniform(0, 500))
        assert (one.low, one.high) == (other.low, other.high)


class TestProbabilities:
    """Claims about one value."""

    def test_the_ends_of_an_interval_have_its_tails(self, session):
        found = session.infer("SELECT 1 * COUNT(*) AS n FROM people")
        assert found.probability(">", found.low) == pytest.approx(0.975, abs=1e-4)
        assert found.probability("<", found.high) == pytest.approx(0.975, abs=1e-4)
        assert found.between(found.low, found.high) == pytest.approx(0.95, abs=1e-4)

    def test_above_and_below_add_up(self, session):
        found = session.infer(BY_REGION)
        for group, middle in zip(("north", "south", "east"), found.estimate, strict=True):
            above, below = (found.probability(op, middle + 3, group) for op in (">", "<="))
            assert above + below == pytest.approx(1)
            assert above < 0.5
            assert found.probability(">=", middle, group) == pytest.approx(0.5)

    def test_what_is_known_to_be_0_is_not_above_it(self, session):
        found = session.infer(BY_REGION.replace("GROUP", "WHERE region <> 'east' GROUP"))
        assert (found.low[2], found.estimate[2], found.high[2]) == (0, 0, 0)
        chances = [found.probability(op, 0, "east") for op in (">", ">=", "<", "<=")]
        assert chances == [0, 1, 0, 1]
        assert found.between(-5, 0, "east") == found.between(0, 5, "east") == 1
        assert found.between(1, 5, "east") == 0
        assert not found.test("<=", 0, "east").rejected

    def test_constants_of_a_formula_move_the_claim(self, session):
        plain = session.infer(WHOLE)
        found = session.infer("SELECT 10 - 2 * COUNT(*) AS n FROM people")
        value = plain.estimate + 4
        assert found.probability(">", 10 - 2 * value) == pytest.approx(
            plain.probability("<", value)
        )

    def test_claims_about_means(self, opened, silent):
        quiet = opened(PEOPLE_TABLE, silent())
        quiet.query("SELECT kind, AVG(score) AS m FROM people GROUP BY kind", rho=0.1)
        found = quiet.infer("SELECT AVG(score) AS m FROM people")
        assert found.probability(">", found.low) == pytest.approx(0.975, abs=1e-3)
        assert found.probability(">", found.high) == pytest.approx(0.025, abs=1e-3)
        assert found.probability(">", found.estimate) == pytest.approx(0.5, abs=1e-6)

    def test_tests_reject_claims_of_small_probability(self, session):
        found = session.infer(WHOLE)
        rejected = found.test(">", found.estimate + 100)
        assert rejected.rejected
        assert rejected.p_value == found.probability(">", found.estimate + 100)
        assert not found.test(">", found.estimate).rejected
        assert "p = 0.5, not rejected at significance level 0.05" in repr(
            found.test(">", found.estimate)
        )

    def test_tests_know_of_the_choice(self, session):
        plain, one = session.infer(WHOLE), session.infer(WHOLE, chosen=10)
        # a p-value between a tenth of the level and the level
        number = plain.estimate + 2 * plain.joint.distribution(0).sd
        assert plain.test(">", number).rejected
        assert not one.test(">", number).rejected
        assert "at significance level 0.005" in repr(one.test(">", number))
        with pytest.raises(RequestError, match="has chosen='any'"):
            session.infer(WHOLE, chosen="any").test(">", number)

    def test_bad_claims_are_refused(self, session):
        found = session.infer(BY_REGION)
        for wrong in (
            lambda: found.probability("=", 3, "north"),
            lambda: found.probability(">", float("nan"), "north"),
            lambda: found.probability(">", "3", "north"),
            lambda: found.probability(">", 3),
            lambda: found.probability(">", 3, "west"),
            lambda: found.probability(">", 3, "north", "m"),
            lambda: found.between(4, 3, "north"),
            lambda: found.test(">", 3, "north", level=1),
        ):
            with pytest.raises(RequestError):
                wrong()


class TestSeveral:
    """Values together: their noises may be the same."""

    def test_differences_have_the_law_of_both(self, gaussian):
        found = gaussian.infer(BY_REGION)
        made = found.difference("north", "east")
        assert made.value == pytest.approx(found.estimate[0] - found.estimate[2])
        assert made.high - made.value == pytest.approx(10 * Z, rel=1e-4)

    def test_shared_noise_cancels(self, gaussian):
        # a part and the whole share two of six counts
        found = gaussian.infer(
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE kind = 'old') AS o FROM people"
        )
        weights = found.joint
        both = weights.difference(0, 1)
        assert both.high - both.value == pytest.approx(5 * math.sqrt(3) * Z, rel=1e-4)

    def test_ratios(self, session):
        found = session.infer(BY_REGION)
        made = found.ratio("south", "north")
        assert made.value == pytest.approx(found.estimate[1] / found.estimate[0])
        assert made.low < made.value < made.high

    def test_slopes(self, gaussian):
        found = gaussian.infer(BY_REGION)
        made = found.slope([0, 1, 2])
        assert made.value == pytest.approx((found.estimate[2] - found.estimate[0]) / 2)
        assert made.high - made.value == pytest.approx(math.sqrt(2 * 50) / 2 * Z, rel=1e-4)
        with pytest.raises(RequestError, match="different x values"):
            found.slope([1, 1, 1])

    def test_the_largest_group(self, session):
        found = session.infer(BY_REGION).argmax()
        assert list(found) == [("north",), ("south",), ("east",)]
        assert sum(found.values()) == pytest.approx(1)
        assert found["north",] > 0.99

    def test_what_is_not_told_cannot_be_compared(self, own_gaussian):
        own_gaussian.query("SELECT COUNT(*) FROM people WHERE score <= 3", rho=0.1)
        found = own_gaussian.infer("SELECT score, COUNT(*) AS n FROM people GROUP BY score")
        assert [bool(place) for place in found.aggregates[0].places] == [True, False, False]
        for wrong in (
            lambda: found.difference(*(label for (label,) in found.groups[:2])),
            found.argmax,
        ):
            with pytest.raises(RequestError):
                wrong()


class TestExports:
    """Plain data and frames."""

    @pytest.mark.parametrize(
        "options",
        [{}, {"error": 20}, {"guaranteed": True}, {"confidence": 0.8, "error": 5}, {"prior": "nonnegative"},
         {"intervals": "each"}, {"chosen": 7}, {"chosen": "any"}, {"method": "mc"}],
    )  # fmt: skip
    @pytest.mark.parametrize("sql", [WHOLE, BY_REGION, BY_BOTH + " ORDER BY n DESC LIMIT 2"])
    def test_json_and_back(self, session, sql, options):
        found = session.infer(sql, **options)
        text = json.dumps(found.to_dict(), allow_nan=False)
        again = Inference.from_dict(json.loads(text))
        assert again.to_dict() == found.to_dict()
        assert (again.estimate, again.low, again.high) == (found.estimate, found.low, found.high)
        assert again.sources == found.sources
        assert repr(again) == repr(found)
        group = None if sql == WHOLE else found.groups[0]
        assert again.probability(">", 90, group) == found.probability(">", 90, group)
        pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())

    def test_values_that_are_not_told_survive(self, own_gaussian):
        own_gaussian.query("SELECT COUNT(*) FROM people WHERE score <= 3", rho=0.1)
        found = own_gaussian.infer("SELECT score, COUNT(*) AS n FROM people GROUP BY score")
        again = Inference.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
        assert again.high == (found.high[0], math.inf, math.inf)
        assert again.missing == found.missing
        frame = again.to_frame()
        assert np.isnan(frame["n"]).tolist() == [False, True, True]
        assert np.isinf(frame["n_high"]).tolist() == [False, True, True]

    def test_frames_have_the_shown_rows(self, session):
        found = session.infer(BY_REGION + " ORDER BY n DESC LIMIT 2").to_frame()
        assert list(found.columns) == ["region", "n", "n_low", "n_high"]
        assert found["region"].tolist() == ["north", "south"]
        both = session.infer("SELECT COUNT(*) AS n, 2 * COUNT(*) AS double FROM people").to_frame()
        assert list(both.columns) == ["n", "n_low", "n_high", "double", "double_low", "double_high"]

    def test_one_past_answer_at_a_picked_level_marks_what_rests_on_it(self, own_gaussian):
        assert not own_gaussian.infer(WHOLE).conditional
        own_gaussian.query(f"{WHOLE} WHERE region = 'north'", rho=Picked(0.1))
        found = own_gaussian.infer(WHOLE)
        assert len({source.statement for source in found.sources}) == 2
        assert found.conditional
        assert "DATA-DEPENDENT" in repr(found)
        assert not own_gaussian.infer(f"{WHOLE} WHERE region = 'south'").conditional

    def test_a_test_noise_is_stamped(self, session):
        assert session.infer(WHOLE).stamp == "test"


class TestRefusals:
    """What makes no sense, or cannot be told; always free and on public facts."""

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"error": 0}, "error must be above 0, got 0"),
            ({"error": -1}, "error must be above 0, got -1"),
            ({"error": math.inf}, "out of range"),
            ({"error": "5"}, "error must be a number"),
            ({"error": True}, "error must be a number"),
            ({"confidence": 1}, "confidence must be between 0 and 1, got 1"),
            ({"confidence": 0}, "confidence must be between 0 and 1, got 0"),
            ({"confidence": math.nan}, "out of range"),
            ({"between": (5, 1)}, "between starts at 5, above its end 1"),
            ({"between": (1, None)}, "between must be a number, got None"),
            ({"between": "ab"}, "between must be two numbers"),
            ({"between": (1, 2), "error": 3}, "error and confidence do not go with it"),
            ({"between": (1, 2), "confidence": 0.9}, "error and confidence do not go with it"),
            ({"intervals": "all"}, "intervals must be 'simultaneous' or 'each', got 'all'"),
            ({"method": "gibbs"}, "method must be 'blue', 'mc' or 'pc', got 'gibbs'"),
            ({"guaranteed": 1}, "guaranteed must be True or False, got 1"),
            ({"guaranteed": True, "error": 3}, "but not method, error or between"),
            ({"guaranteed": True, "method": "mc"}, "but not method, error or between"),
            ({"chosen": 0}, "chosen must be a whole number from 1 to 1,000,000, or 'any'"),
            ({"chosen": 2.5}, "chosen must be a whole number from 1 to 1,000,000, or 'any'"),
            ({"chosen": True}, "chosen must be a whole number from 1 to 1,000,000, or 'any'"),
            ({"chosen": "any", "method": "mc"}, "chosen='any' takes a confidence"),
            ({"prior": "large"}, "this prior is not known"),
            ({"prior": {"uniform": [5, 1]}}, "lower one first"),
            ({"prior": "nonnegative", "method": "mc"}, "prior needs method='blue'"),
            ({"prior": "nonnegative", "guaranteed": True}, "prior needs method='blue'"),
        ],
    )  # fmt: skip
    def test_options_that_make_no_sense(self, session, options, what):
        with pytest.raises(RequestError, match=what) as refused:
            session.infer(WHOLE, **options)
        assert refused.value.hint

    def test_an_empty_past(self, opened):
        with pytest.raises(
            RequestError, match="no past answer to you is about this table"
        ) as refused:
            opened(PEOPLE_TABLE).infer(WHOLE)
        assert "Ask the statement itself: session.query" in refused.value.hint
        bounds = opened(PEOPLE_TABLE).infer(WHOLE, guaranteed=True)
        assert (bounds.estimate, bounds.low, bounds.high) == (None, 0, math.inf)

    def test_bins_that_do_not_fit_say_what_is_missing(self, opened):
        gaussian = opened(PEOPLE_TABLE)
        gaussian.query("SELECT score, COUNT(*) FROM people GROUP BY score", rho=0.02)
        with pytest.raises(RequestError) as refused:
            gaussian.infer("SELECT COUNT(*) FROM people WHERE score <= 7")
        assert "Enough would be: COUNT(*) WHERE score = 7." in refused.value.hint
        gaussian.query("SELECT COUNT(*) FROM people WHERE score = 7", rho=0.02)
        assert gaussian.infer("SELECT COUNT(*) FROM people WHERE score <= 7").told

    def test_a_count_is_not_said_to_be_enough_for_cells_of_different_weight(self, own_gaussian):
        own_gaussian.query("SELECT COUNT(*) FROM people WHERE score > 6", rho=0.02)
        parts = [
            f"COUNT(*) FILTER (WHERE {test})" for test in ("score <= 3", "score BETWEEN 4 AND 6")
        ]
        sql = f"SELECT {parts[0]} + 2 * {parts[1]} + COUNT(*) FILTER (WHERE score > 6) AS n FROM people"
        with pytest.raises(RequestError) as refused:
            own_gaussian.infer(sql)
        assert "Enough would be" not in refused.value.hint
        assert "Ask the statement itself." in refused.value.hint

    def test_what_is_missing_does_not_speak_of_columns_that_are_never_missing(self, own_gaussian):
        own_gaussian.query("SELECT score, COUNT(*) FROM people GROUP BY score", rho=0.02)
        with pytest.raises(RequestError) as refused:
            own_gaussian.infer("SELECT COUNT(*) FROM people WHERE score <= 7")
        assert "Enough would be: COUNT(*) WHERE score = 7." in refused.value.hint
        own_gaussian.query("SELECT COUNT(*) FROM people WHERE score = 7", rho=0.02)
        assert own_gaussian.infer("SELECT COUNT(*) FROM people WHERE score <= 7").told

    def test_formulas_that_are_no_weighted_sums(self, session):
        for formula in ("COUNT(*) * COUNT(*)", "EXP(COUNT(*) / 1000)", "1 / COUNT(*)"):
            with pytest.raises(RequestError, match="only counts, sums and averages can"):
                session.infer(f"SELECT {formula} AS f FROM people")

    def test_having_and_bad_sql(self, session):
        with pytest.raises(RequestError, match="HAVING"):
            session.infer(BY_REGION + " HAVING COUNT(*) > 3")
        with pytest.raises(SqlError):
            session.infer("SELECT COUNT(*) FROM people WHERE nothing = 1")

    def test_too_many_values(self, opened):
        schema = Schema({"a": Integer(0, 999), "b": Integer(0, 1)})
        wide = opened(Table("t", pd.DataFrame({"a": [1], "b": [0]}), schema))
        with pytest.raises(RequestError, match="more than 1,000 values"):
            wide.infer("SELECT a, b, COUNT(*) FROM t GROUP BY a, b")

    def test_answers_of_an_old_data_version_are_left_aside(self, curated, tmp_path):
        path = tmp_path / "l"
        with curated(PEOPLE_TABLE, ledger=path).session() as old:
            old.query(WHOLE, rho=0.1)
            assert old.infer(WHOLE).estimate == 600
        new = curated(table(601, seed=8), ledger=path, new_version=True).session()
        with pytest.raises(RequestError, match="is about this table on version 2 of its data"):
            new.infer(WHOLE)
        new.query(WHOLE, rho=0.1)
        found = new.infer(WHOLE)
        assert found.estimate == pytest.approx(601)
        assert (len(found.sources), found.version) == (1, 2)


class TestSize:
    """Long and nearly collinear pasts."""

    def test_ten_thousand_released_numbers_are_searched_quickly(self, opened, drawn, seconds):
        schema = Schema({"a": Integer(0, 99), "b": Integer(0, 99)}, complete=["a", "b"])
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": rng.integers(0, 100, 20_000), "b": rng.integers(0, 100, 20_000)})
        session = opened(Table("t", frame, schema), drawn(1))
        session.query("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", rho=0.5)
        session.infer("SELECT COUNT(*) AS n FROM t WHERE a = 3 AND b < 50")
        start = time.perf_counter()
        found = session.infer("SELECT a, COUNT(*) AS n FROM t WHERE b < 10 GROUP BY a")
        taken = time.perf_counter() - start
        assert taken < seconds(5)
        assert found.left_out == ()
        truth = frame[frame["b"] < 10].groupby("a").size()
        assert np.abs(np.array(found.estimate) - truth).max() < 6 * math.sqrt(10)

    def test_a_past_without_room_is_named(self, opened, drawn):
        schema = Schema({"a": Integer(0, 99), "b": Integer(0, 99)}, complete=["a", "b"])
        frame = pd.DataFrame({"a": np.arange(5_000) % 100, "b": np.arange(5_000) // 50})
        session = opened(Table("t", frame, schema), drawn(1))
        session.query("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", rho=0.5)
        session.query("SELECT a, COUNT(*) AS n FROM t GROUP BY a", rho=0.5)
        found = session.infer(
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE a < 60 OR b < 60) AS most FROM t"
        )
        assert found.left_out == ("COUNT(*) GROUP BY a, b",)
        assert {source.statement for source in found.sources} == {"COUNT(*) GROUP BY a"}
        assert "Left out for lack of room: COUNT(*) GROUP BY a, b." in repr(found)

    def test_hundreds_of_statements_one_after_the_other(self, opened, silent, seconds):
        session = opened(PEOPLE_TABLE, silent())
        for i in range(100):
            session.query(f"SELECT COUNT(*) AS n FROM people WHERE score <= {i % 11} AND year >= {2000 + i % 4}", rho=Fraction(1 + i, 100))  # fmt: skip
        start = time.perf_counter()
        found = session.infer("SELECT COUNT(*) AS n FROM people WHERE score BETWEEN 3 AND 7")
        taken = time.perf_counter() - start
        assert taken < seconds(3)
        frame = PEOPLE_TABLE.source
        assert found.estimate == pytest.approx(frame["score"].between(3, 7).sum())

    def test_rows_that_are_nearly_alike(self, opened, silent):
        """Sums with weights that differ in the sixth place, at levels from 1e-4 to 1e4."""
        session = opened(PEOPLE_TABLE, silent(), budget={"rho": 10**6, "delta": 1e-6})
        for i in range(12):
            weight = f"{1 + i / 10**6:.6f}"
            session.query(
                f"SELECT COUNT(*) FILTER (WHERE kind = 'old') * {weight} AS a, "
                f"SUM(CASE WHEN kind = 'old' THEN 1000000 WHEN kind = 'new' THEN {1_000_000 + i} END) AS s "
                "FROM people",
                rho=Fraction(10) ** (i % 9 - 4),
            )
        frame = PEOPLE_TABLE.source
        old = session.infer("SELECT COUNT(*) AS n FROM people WHERE kind = 'old'")
        assert old.estimate == pytest.approx((frame["kind"] == "old").sum(), rel=1e-6)
        total = session.infer(WHOLE)
        assert total.estimate == pytest.approx(600, rel=1e-5)
