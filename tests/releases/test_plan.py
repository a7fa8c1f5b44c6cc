"""From a statement and a wanted accuracy to a level for each view."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpnb.errors import RequestError
from dpnb.privacy.calibrate import SUM_SHARE
from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.loss import Picked, epsilon_of_rho
from dpnb.privacy.path import grid
from dpnb.releases.accuracy import Accuracy, read_accuracy
from dpnb.releases.plan import Plan, margin_of_error, plan
from dpnb.schema.schema import Schema
from dpnb.sql.query import Query

pytestmark = pytest.mark.fast

Planner = Callable[..., Plan]
COUNT = "SELECT a, COUNT(*) AS n FROM t GROUP BY a"
AVG = "SELECT a, AVG(gain) AS m FROM t GROUP BY a"
ALL = "SELECT a, COUNT(*) AS n, SUM(gain) AS s, AVG(score) AS m FROM t GROUP BY a"
DELTA = Fraction(1, 10**6)


@pytest.fixture
def planned(read: Callable[..., Query], schema: Schema) -> Planner:
    """Read a statement and its accuracy, and plan it."""

    def make(
        sql: str,
        privacy: PrivacyDefinition = ZCDP,
        seen: Callable[[str], int] = lambda _: 0,
        **accuracy: Any,
    ) -> Plan:
        query = read(sql)
        wanted = read_accuracy(query, privacy, DELTA, **accuracy)
        return plan(query, wanted, 1, privacy, seen)

    return make


class TestReadAccuracy:
    @pytest.mark.parametrize(
        ("wanted", "word"),
        [
            ({}, "needs a privacy cost or a margin of error"),
            ({"rho": 0.1, "epsilon": 0.1}, "cannot be given together"),
            ({"rho": 0.1, "error": 5}, "cannot be given together"),
            ({"rho": 0.1, "epsilon": 0.1, "error": 5}, "cannot be given together"),
            ({"rho": 0}, "rho"),
            ({"rho": -0.1}, "rho"),
            ({"rho": math.nan}, "rho"),
            ({"rho": math.inf}, "rho"),
            ({"rho": True}, "rho"),
            ({"rho": "a lot"}, "rho"),
            ({"rho": "1e999999999"}, "rho"),
            ({"rho": np.array([0.1, 0.2])}, "rho"),
            ({"rho": 0.1, "rows": math.inf}, "rows"),
            ({"rho": 0.1, "rows": 10**400}, "rows"),
            ({"error": 10**400}, "error"),
            ({"rho": 0.1, "split": "0.99999999999999999"}, "split"),
            ({"rho": 0.1, "looks": np.array([1, 2])}, "looks"),
            ({"rho": [0.1]}, "rho"),
            ({"epsilon": 0}, "epsilon"),
            ({"epsilon": math.nan}, "epsilon"),
            ({"epsilon": "1 / 0"}, "epsilon"),
            ({"error": 0}, "error"),
            ({"error": -1}, "error"),
            ({"error": math.nan}, "error"),
            ({"error": math.inf}, "error"),
            ({"error": True}, "error"),
            ({"error": "5"}, "error"),
            ({"error": {}}, "error"),
            ({"error": {"n": 5, "m": 5}}, "error"),
            ({"error": {"N": 5}}, "error"),
            ({"error": {"n": 0}}, "error"),
            ({"error": {"n": None}}, "error"),
            ({"rho": 0.1, "confidence": 0}, "confidence"),
            ({"rho": 0.1, "confidence": 1}, "confidence"),
            ({"rho": 0.1, "confidence": 95}, "confidence"),
            ({"rho": 0.1, "confidence": -0.5}, "confidence"),
            ({"rho": 0.1, "confidence": math.nan}, "confidence"),
            ({"rho": 0.1, "confidence": "95 %"}, "confidence"),
            ({"rho": 0.1, "confidence": True}, "confidence"),
            ({"rho": 0.1, "confidence": None}, "confidence"),
            ({"rho": 0.1, "looks": 0}, "looks"),
            ({"rho": 0.1, "looks": 2}, "looks"),
            ({"rho": 0.1, "looks": "all"}, "looks"),
            ({"rho": 0.1, "looks": True}, "looks"),
            ({"rho": 0.1, "intervals": "both"}, "intervals"),
            ({"rho": 0.1, "split": 0}, "split"),
            ({"rho": 0.1, "split": 1}, "split"),
            ({"rho": 0.1, "split": 1.5}, "split"),
            ({"rho": 0.1, "split": math.nan}, "split"),
            ({"rho": 0.1, "rows": 0}, "rows"),
            ({"rho": 0.1, "rows": 2.5}, "rows"),
            ({"rho": 0.1, "rows": math.nan}, "rows"),
            ({"rho": 0.1, "rows": "many"}, "rows"),
        ],
    )
    def test_senseless_arguments_are_refused_by_name(
        self, read: Callable[..., Query], wanted: dict[str, Any], word: str
    ) -> None:
        with pytest.raises(RequestError) as refusal:
            read_accuracy(read(COUNT), ZCDP, DELTA, **wanted)
        assert word in refusal.value.what
        assert refusal.value.hint

    def test_the_currency_of_the_session_decides_what_may_be_given(
        self, read: Callable[..., Query]
    ) -> None:
        query = read(COUNT)
        with pytest.raises(RequestError, match="Give epsilon=0.5, not rho"):
            read_accuracy(query, PURE, None, rho=0.1)
        with pytest.raises(RequestError, match="the session has no delta"):
            read_accuracy(query, ZCDP, None, epsilon=0.1)
        with pytest.raises(RequestError, match=r"Give epsilon=0\.05"):
            read_accuracy(query, PURE, None)
        assert read_accuracy(query, PURE, None, epsilon=0.1).level == Fraction(1, 10)
        assert read_accuracy(query, ZCDP, None, rho=0.1).level == Fraction(1, 10)

    def test_epsilon_in_a_zcdp_session_means_the_rho_that_gives_it(
        self, read: Callable[..., Query]
    ) -> None:
        level = read_accuracy(read(COUNT), ZCDP, DELTA, epsilon=0.3).level
        assert level is not None
        assert epsilon_of_rho(level, DELTA) == pytest.approx(0.3, rel=1e-9)

    def test_the_error_of_an_average_needs_a_group_size(self, read: Callable[..., Query]) -> None:
        with pytest.raises(RequestError, match="Add rows=100"):
            read_accuracy(read(AVG), ZCDP, DELTA, error=5)
        assert read_accuracy(read(AVG), ZCDP, DELTA, error=5, rows=100.0).rows == 100
        assert read_accuracy(read(AVG), ZCDP, DELTA, rho=0.1).rows is None

    def test_numpy_numbers_are_numbers(self, read: Callable[..., Query]) -> None:
        wanted = read_accuracy(
            read(AVG),
            ZCDP,
            DELTA,
            error=np.float32(5),
            rows=np.int64(10),
            confidence=np.float64(0.9),
        )
        assert (wanted.error, wanted.rows, wanted.confidence) == ({"m": 5.0}, 10, 0.9)

    def test_one_error_serves_every_alias(self, read: Callable[..., Query]) -> None:
        assert read_accuracy(read(ALL), ZCDP, DELTA, error=5, rows=9).error == {
            "n": 5.0,
            "s": 5.0,
            "m": 5.0,
        }

    @pytest.mark.parametrize(
        "wanted", [{"rho": Picked(0.1)}, {"epsilon": Picked(0.1)}, {"error": {"n": Picked(5)}}]
    )
    def test_a_picked_amount_is_another_request_for_the_same_levels(
        self, planned: Planner, wanted: dict[str, Any]
    ) -> None:
        ordinary = {
            name: {"n": 5.0} if name == "error" else float(value) for name, value in wanted.items()
        }
        picked, plain = planned(COUNT, **wanted), planned(COUNT, **ordinary)
        assert (picked.accuracy.conditional, plain.accuracy.conditional) == (True, False)
        assert picked.levels == plain.levels
        assert picked.request != plain.request


class TestConfidence:
    def accuracy(self, **changes: Any) -> Accuracy:
        values: dict[str, Any] = {
            "level": Fraction(1),
            "error": None,
            "rows": None,
            "confidence": 0.95,
            "looks": 1,
            "intervals": "simultaneous",
            "split": None,
        }
        return Accuracy(**{**values, **changes})

    def test_simultaneous_intervals_share_the_failure_probability(self) -> None:
        assert self.accuracy().alpha(20, 1) == pytest.approx(0.05 / 20)
        assert self.accuracy(intervals="each").alpha(20, 1) == pytest.approx(0.05)
        assert self.accuracy().alpha(20, 7) == self.accuracy().alpha(20, 1)

    def test_all_looks_together_use_the_failure_probability_up(self) -> None:
        shares = [self.accuracy(looks="any").alpha(1, i) for i in range(1, 100_001)]
        assert shares[0] == pytest.approx(0.05 * 6 / math.pi**2)
        assert shares[2] == pytest.approx(shares[0] / 9)
        assert 0.05 * (1 - 1e-4) < sum(shares) < 0.05

    def test_intervals_of_hidden_groups_and_of_every_aggregate_count(
        self, planned: Planner
    ) -> None:
        assert planned(COUNT + " LIMIT 1", rho=1).alpha(1) == pytest.approx(0.05 / 3)
        assert planned(ALL, rho=1).alpha(1) == pytest.approx(0.05 / 9)
        many = planned("SELECT a, b, d, age, COUNT(*) AS n FROM t GROUP BY a, b, d, age", rho=1)
        assert many.groups == 3 * 2 * 2 * 3
        assert many.alpha(1) == pytest.approx(0.05 / 36)
        assert planned("SELECT COUNT(*) AS n FROM t", rho=1).groups == 1


class TestLevels:
    @pytest.mark.parametrize(
        "sql",
        [
            COUNT,
            AVG,
            ALL,
            "SELECT COUNT(*) AS n, COUNT(gain) AS c, AVG(gain) AS m, SUM(score) AS s FROM t",
            "SELECT AVG(gain) AS m, AVG(score) AS k, AVG(bit) AS b FROM t",
        ],
    )
    def test_shares_add_up_to_the_level_exactly(self, planned: Planner, sql: str) -> None:
        for rho in ("0.1", "1/3", "1e-6"):
            assert sum(planned(sql, rho=rho).levels.values()) == Fraction(rho)

    def test_aggregates_get_equal_shares(self, planned: Planner) -> None:
        made = planned("SELECT COUNT(*) AS n, SUM(gain) AS s FROM t", rho=0.1)
        assert set(made.levels.values()) == {Fraction(1, 20)}

    def test_an_average_splits_its_share_between_sum_and_count(self, planned: Planner) -> None:
        for privacy in (ZCDP, PURE):
            share = SUM_SHARE[privacy]  # type: ignore[index]
            assert 0 < share < 1
        made = planned(AVG, rho=1)
        (part,) = made.parts
        assert part.is_mean
        assert part.sum is not None
        assert part.count is not None
        assert made.levels[part.sum.id] == SUM_SHARE[ZCDP]
        assert made.levels[part.count.id] == 1 - SUM_SHARE[ZCDP]

    def test_the_split_can_be_chosen(self, planned: Planner) -> None:
        made = planned(AVG, rho=1, split="0.2")
        (part,) = made.parts
        assert part.sum is not None
        assert made.levels[part.sum.id] == Fraction(1, 5)
        assert sum(made.levels.values()) == 1

    def test_a_vector_that_serves_twice_is_bought_once_at_its_largest_share(
        self, planned: Planner
    ) -> None:
        made = planned("SELECT COUNT(gain) AS c, AVG(gain) AS m FROM t", rho=1)
        count, average = made.parts
        assert count.count == average.count
        assert len(made.views) == 2
        assert average.sum is not None
        assert average.count is not None
        # the count is paid for, so the whole share of the average goes to its sum
        assert made.levels[average.count.id] == made.levels[average.sum.id] == Fraction(1, 2)
        own = planned("SELECT COUNT(gain) AS c, AVG(gain) AS m FROM t", rho=1, split=0.65)
        assert own.levels[average.count.id] == 1 / (1 + SUM_SHARE[ZCDP])
        twice = planned("SELECT COUNT(*) AS a, COUNT(*) AS b FROM t", rho=1)
        assert list(twice.levels.values()) == [1]

    @pytest.mark.parametrize(
        "wanted",
        [{"rho": "1e-10"}, {"error": 1e15}, {"error": 1e-25}, {"error": 1e29}],
    )
    def test_noise_beyond_64_bits_is_refused(self, planned: Planner, wanted: object) -> None:
        with pytest.raises(RequestError, match="out of range"):
            planned(COUNT, **wanted)  # type: ignore[arg-type]

    def test_every_view_of_a_plan_has_a_level(self, planned: Planner) -> None:
        for wanted in ({"rho": 0.1}, {"error": 5, "rows": 10}):
            made = planned(ALL, **wanted)
            assert made.levels.keys() == made.views.keys()
            assert {v.id for part in made.parts for v in part.views()} == made.views.keys()


ERRORS = {"n": 25.0, "s": 40_000.0, "m": 0.5}


class TestErrors:
    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    @pytest.mark.parametrize("intervals", ["simultaneous", "each"])
    def test_every_alias_gets_intervals_as_narrow_as_wished(
        self, planned: Planner, privacy: PrivacyDefinition, intervals: str
    ) -> None:
        made = planned(ALL, privacy, error=ERRORS, rows=100, intervals=intervals)
        for part in made.parts:
            width = margin_of_error(part, made, made.levels, 1, 100)
            error = ERRORS[part.aggregate.alias]
            assert width <= error
            # the pure grid rounds epsilon up by a fourth root of 2 at most
            assert width >= error * (0.8 if privacy == PURE else 0.9)

    def test_counts_and_sums_meet_their_error_to_nine_digits(self, planned: Planner) -> None:
        made = planned("SELECT COUNT(*) AS n, SUM(gain) AS s FROM t", error={"n": 7, "s": 9_000})
        for part, error in zip(made.parts, (7, 9_000), strict=True):
            assert margin_of_error(part, made, made.levels, 1, 1) == pytest.approx(error, rel=1e-9)

    def test_a_shared_vector_gets_the_finest_level_needed(self, planned: Planner) -> None:
        sql = "SELECT COUNT(gain) AS c, AVG(gain) AS m FROM t"
        both = planned(sql, error={"c": 5, "m": 500}, rows=100)
        count = planned("SELECT COUNT(gain) AS c, SUM(score) AS s FROM t", error={"c": 5, "s": 9})
        view = both.parts[0].count
        assert view is not None
        assert both.levels[view.id] >= count.levels[view.id]
        strict = planned(sql, error={"c": 500, "m": 5}, rows=100)
        average = strict.parts[1]
        assert margin_of_error(average, strict, strict.levels, 1, 100) <= 5

    def test_larger_groups_make_averages_cheaper(self, planned: Planner) -> None:
        small, large = (sum(planned(AVG, error=500, rows=n).levels.values()) for n in (100, 200))
        assert float(small / large) == pytest.approx(4, rel=1e-9)

    def test_surer_and_more_intervals_cost_more(self, planned: Planner) -> None:
        def cost(sql: str, **wanted: Any) -> Fraction:
            return sum(planned(sql, error=10, **wanted).levels.values(), Fraction(0))

        alone = "SELECT COUNT(*) AS n FROM t"
        assert cost(alone) < cost(COUNT) < cost(COUNT, confidence=0.99)
        assert cost(alone) == cost(COUNT, intervals="each")

    def test_valid_at_every_look_means_the_error_at_the_look_to_come(
        self, planned: Planner
    ) -> None:
        for seen in (0, 1, 5):
            made = planned(COUNT, error=10, looks="any", seen=lambda _, n=seen: n)
            (part,) = made.parts
            width = margin_of_error(part, made, made.levels, seen + 1, 1)
            assert width == pytest.approx(10, rel=1e-9)
        once = planned(COUNT, error=10, seen=lambda _: 5)
        assert once.levels == planned(COUNT, error=10).levels


class TestPure:
    @pytest.mark.parametrize("sql", [COUNT, AVG, ALL])
    def test_a_wished_epsilon_is_snapped_below(self, planned: Planner, sql: str) -> None:
        levels = planned(sql, PURE, epsilon=0.5).levels
        assert set(levels.values()) <= set(grid())
        assert Fraction(2, 5) < sum(levels.values()) <= Fraction(1, 2)

    def test_an_epsilon_on_the_grid_is_kept(self, planned: Planner) -> None:
        assert list(planned(COUNT, PURE, epsilon=1).levels.values()) == [1]
        assert list(planned(COUNT, PURE, epsilon=0.25).levels.values()) == [Fraction(1, 4)]

    def test_a_wished_error_is_snapped_above(self, planned: Planner) -> None:
        (level,) = planned(COUNT, PURE, error=10).levels.values()
        exact = math.log(3 / 0.05) / 10
        assert level in grid()
        assert exact <= level <= exact * 2**0.25 * (1 + 1e-6)

    @pytest.mark.parametrize("wanted", [{"epsilon": 1e-5}, {"error": 1e-3}])
    def test_beyond_the_grid_is_refused(self, planned: Planner, wanted: dict[str, Any]) -> None:
        with pytest.raises(RequestError, match=r"epsilon can be from 0\.0002442 to 64"):
            planned(COUNT, PURE, **wanted)


class TestRequestNames:
    def test_equal_requests_have_one_name(self, planned: Planner) -> None:
        name = planned(COUNT, rho=0.1).request
        assert planned("select a, count( * ) AS n from T group by a", rho="0.1").request == name
        assert planned(COUNT + " ORDER BY n DESC LIMIT 1", rho=0.10).request == name
        assert planned("SELECT a AS k, COUNT(*) AS c FROM t GROUP BY a", rho=0.1).request == name

    def test_other_requests_have_other_names(self, planned: Planner) -> None:
        wanted: list[dict[str, Any]] = [
            {"rho": 0.1},
            {"rho": 0.2},
            {"error": 0.1},
            {"rho": 0.1, "confidence": 0.9},
            {"rho": 0.1, "looks": "any"},
            {"rho": 0.1, "intervals": "each"},
        ]
        names = {planned(COUNT, **one).request for one in wanted}
        names |= {planned(sql, rho=0.1).request for sql in (AVG, ALL)}
        names.add(planned(COUNT.replace("FROM t", "FROM t WHERE bit = 1"), rho=0.1).request)
        assert len(names) == len(wanted) + 3

    def test_errors_belong_to_aggregates_not_to_their_names(self, planned: Planner) -> None:
        sql = "SELECT COUNT(*) AS {}, SUM(gain) AS {} FROM t"
        name = planned(sql.format("n", "s"), error={"n": 10, "s": 500}).request
        assert planned(sql.format("s", "n"), error={"s": 10, "n": 500}).request == name
        assert planned(sql.format("n", "s"), error={"n": 500, "s": 10}).request != name

    def test_a_new_data_version_is_another_request(
        self, read: Callable[..., Query], schema: Schema
    ) -> None:
        query = read(COUNT)
        wanted = read_accuracy(query, ZCDP, DELTA, rho=0.1)
        one, two = (plan(query, wanted, version, ZCDP) for version in (1, 2))
        assert one.request != two.request


class TestScan:
    def test_one_scan_measures_each_view_once_under_its_own_condition(
        self, planned: Planner
    ) -> None:
        made = planned(
            "SELECT a, COUNT(*) AS n, COUNT(*) FILTER (WHERE bit = 1) AS ones, AVG(gain) AS m "
            "FROM t WHERE b = 'u' GROUP BY a",
            rho=0.1,
        )
        scan = made.scan(made.views)
        assert [key.plain() for key in scan.keys] == ["a"]
        assert scan.where == made.query.where
        assert [measure for measure, _ in scan.measures] == [
            view.measure for view in made.views.values()
        ]
        plain = [condition for _, condition in scan.measures if condition.parts == ()]  # type: ignore[union-attr]
        assert len(plain) == 3
        assert len(scan.measures) == 4


def test_the_expected_width_of_an_average_never_exceeds_its_bounds(planned: Planner) -> None:
    made = planned("SELECT AVG(score) AS m FROM t", rho=1e-6)
    (part,) = made.parts
    assert margin_of_error(part, made, made.levels, 1, 1) == 5.0
    assert margin_of_error(part, made, made.levels, 1, 10**9) < 1e-3
