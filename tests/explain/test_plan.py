"""Budgets, noise scales and refusals: public facts only."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from scipy import stats

from dpnb import Category, Real, Schema, Table
from dpnb.errors import RequestError
from dpnb.explain.plan import (
    Budgets,
    influence_sigma,
    plan_explanation,
    read_design,
)
from dpnb.explain.predicates import space
from dpnb.privacy.loss import rho_of_epsilon

pytestmark = pytest.mark.fast

SQL = "SELECT g, AVG(v) AS m FROM t GROUP BY g"
A_B = {"A": 1, "B": -1}


class TestInfluenceSigma:
    @pytest.mark.parametrize(
        ("delta", "rho", "sigma", "half"),
        [
            (4, "0.5", 8.94427191, 17.5304508115),
            (16, "0.5", 35.77708764, 70.1218032461),
            (3.2e6, "0.5", 7155417.528, 14024360.6492),
            (2, "0.5", 4.472135955, 8.76522540577),
            (1, "0.5", 2.2360679775, 4.38261270288),
            (16, "0.05", 113.137084990, 221.744611896),
        ],
    )
    def test_oracle_t2(self, delta, rho, sigma, half):
        found = influence_sigma(delta, 5, Fraction(rho))
        assert found == pytest.approx(sigma, rel=1e-9)
        assert stats.norm.ppf(0.975) * found == pytest.approx(half, rel=1e-9)

    def test_k_influences_cost_at_most_rho(self):
        for delta, k, rho in ((1_048_577, 5, "0.0917"), (3, 100, "1e-9"), (7, 1, "1000000")):
            sigma = Fraction(influence_sigma(delta, k, Fraction(rho)))
            cost = k * Fraction(delta) ** 2 / (2 * sigma**2)
            assert Fraction(rho) * Fraction(999_999, 10**6) < cost <= Fraction(rho)


class TestNoise:
    @pytest.mark.parametrize(
        ("aggregate", "mode", "delta", "spread"),
        [
            ("COUNT(*)", "tight", 1, 1.25), ("COUNT(*)", "paper", 4, 8),
            ("SUM(v)", "tight", 10, 20), ("SUM(v)", "paper", 40, 80),
            ("AVG(v)", "tight", 20, 30), ("AVG(v)", "paper", 160, 320),
        ],
    )  # fmt: skip
    def test_scales_follow_from_the_sensitivities(
        self, aggregate, mode, delta, spread, twelve, planned
    ):
        plan = planned(twelve, f"SELECT g, {aggregate} AS m FROM t GROUP BY g", A_B, k=2,
                       rho={"topk": "0.1", "influence": "0.2", "rank": "0.4"}, mode=mode,
                       attributes=["x"])  # fmt: skip
        noise = plan.noise()
        near = {"rel": 4e-6}
        assert noise["gumbel_scale"] == pytest.approx(spread * math.sqrt(2 / 0.8), **near)
        assert noise["sigma"] == pytest.approx(delta * math.sqrt(2 / 0.4), **near)
        assert plan.margin_of_error == pytest.approx(1.959963985 * noise["sigma"], rel=1e-9)
        tests = 2 if mode == "paper" else 1  # of 3 candidates
        assert noise["ranks"]["upper"]["sigma"] == pytest.approx(
            spread * math.sqrt(tests * 2 / (2 * 0.36)), **near
        )
        assert noise["ranks"]["lower"]["sigma"] == pytest.approx(
            spread * math.sqrt(tests * 2 / (2 * 0.04)), **near
        )
        assert noise["ranks"]["upper"]["draws"] == tests

    def test_all_parts_together_cost_what_is_charged(self, twelve, planned):
        plan = planned(twelve, SQL, A_B, k=3, rho="0.3")
        k, lattice = 3, plan.lattice
        cost = k * (Fraction(lattice.spread) / Fraction(plan.gumbel)) ** 2 / 8
        cost += k * Fraction(lattice.sensitivity) ** 2 / (2 * Fraction(plan.sigma) ** 2)
        for above in (True, False):
            distribution = plan.search(above=above)
            cost += (
                k
                * distribution.draws
                * Fraction(lattice.spread) ** 2
                / (2 * Fraction(distribution.sigma) ** 2)
            )
        assert Fraction("0.299999") < cost <= plan.budgets.total == Fraction("0.3")

    def test_real_values_are_bounded_by_their_ticks(self, planned):
        schema = Schema({"g": Category(["A", "B"]), "x": Category(["u"]), "v": Real(-0.2, 1)})
        table = Table("t", None, schema)
        plan = planned(table, "SELECT g, SUM(v) AS m FROM t GROUP BY g", A_B)
        delta = float(plan.lattice.sensitivity * plan.unit)
        assert delta == pytest.approx(1.2, rel=1e-5)
        assert delta >= 1.2

    def test_confidence_for_all_rows_together_is_a_root(self, twelve, planned):
        each = planned(twelve, SQL, A_B, k=3)
        joint = planned(twelve, SQL, A_B, k=3, joint=True)
        assert joint.design.row_confidence == pytest.approx(0.95 ** (1 / 3))
        assert joint.margin_of_error > each.margin_of_error
        assert joint.sigma == each.sigma
        assert read_design(9, joint=True).row_confidence == pytest.approx(0.98979, abs=1e-5)


def planning(table, target, weights=None, sql=SQL, k=1, found=None, confidence=0.95, **cost):
    asked = target(table, sql, weights or A_B)
    found = found or space(table, {"g", "v"})
    design = read_design(found.size, k=k, confidence=confidence)
    return plan_explanation(asked, found, design, **cost)


class TestBudgets:
    def test_one_rho_is_split_1_1_2(self, twelve, target):
        budgets = planning(twelve, target, rho="0.2").budgets
        assert budgets == Budgets(Fraction("0.05"), Fraction("0.05"), Fraction("0.1"))

    def test_parts_may_be_named(self, twelve, target):
        named = {"rank": 1, "topk": "0.5", "influence": 0.5}
        assert planning(twelve, target, rho=named).budgets.total == 2

    def test_epsilon_means_the_rho_whose_conversion_gives_it(self, twelve, target):
        plan = planning(twelve, target, epsilon=1, delta=Fraction("1e-6"))
        assert plan.budgets.total == rho_of_epsilon(Fraction(1), Fraction("1e-6"))

    @pytest.mark.parametrize("scale", [None, 3.7, 12.345678])
    @pytest.mark.parametrize("error", [0.5, 1, "250"])
    def test_an_error_is_the_margin_of_error_that_is_shown(self, error, scale, twelve, target):
        plan = planning(twelve, target, k=2, error=error, scale=scale)
        shown = plan.margin_of_error / (scale or 1)
        assert shown <= float(error)
        assert shown == pytest.approx(float(error), rel=1e-9)
        b = plan.budgets
        assert b.topk == b.influence == b.rank / 2

    @pytest.mark.parametrize(
        ("cost", "what"),
        [
            ({}, "needs exactly one of"),
            ({"rho": 0.1, "epsilon": 1}, "needs exactly one of"),
            ({"rho": 0.1, "error": 1}, "needs exactly one of"),
            ({"rho": 0}, "rho must be above 0, got 0"),
            ({"rho": -1}, "rho must be above 0, got -1"),
            ({"rho": math.nan}, "rho must be a finite number, got"),
            ({"rho": math.inf}, "rho must be a finite number, got"),
            ({"rho": True}, "rho must be a number, got"),
            ({"rho": "much"}, "rho must be a finite number, got 'much'"),
            ({"rho": 1e-9}, "rho is out of range"),
            ({"rho": 10**9}, "rho is out of range"),
            ({"rho": {"topk": 1, "influence": 1}}, "must name exactly"),
            ({"rho": {"topk": 1, "influence": 1, "rank": 1, "more": 1}}, "must name exactly"),
            ({"rho": {"topk": 1, "influence": 1, "ranks": 1}}, "must name exactly"),
            ({"rho": {"topk": 1, "influence": 0, "rank": 1}}, "rho of influence must be above 0, got 0"),
            ({"rho": {"topk": 1, "influence": None, "rank": 1}}, "rho of influence must be a number, got None"),
            ({"rho": {}}, "must name exactly"),
            ({"rho": [1, 1, 1]}, "rho must be a number, got"),
            ({"epsilon": 1}, "no delta"),
            ({"epsilon": 0, "delta": Fraction("1e-6")}, "epsilon must be above 0, got 0"),
            ({"epsilon": "1e-12", "delta": Fraction("1e-6")}, "too small|out of range"),
            ({"error": 0}, "error must be above 0, got 0"),
            ({"error": "x"}, "error must be a finite number, got 'x'"),
            ({"error": 1e-18}, "error is out of range"),
            ({"error": 1e15}, "error is out of range"),
            ({"error": 1, "scale": 1e300}, "error is out of range"),
            ({"error": 1, "scale": 1e-300}, "error is out of range"),
        ],
    )  # fmt: skip
    def test_refusals(self, cost, what, twelve, target):
        with pytest.raises(RequestError, match=what) as caught:
            planning(twelve, target, **cost)
        assert caught.value.hint

    @pytest.mark.parametrize("bound", [1e-140, 1e140])
    @pytest.mark.parametrize("error", [1e-18, 1, 1e18])
    def test_bounds_of_any_size_meet_no_overflow(self, bound, error, target):
        schema = Schema({"g": Category(["A", "B"]), "x": Category(["u"]), "v": Real(0, bound)})
        with pytest.raises(RequestError, match="error is out of range"):
            planning(Table("t", None, schema), target, error=error)


class TestDesign:
    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"k": 0}, "100, got 0"), ({"k": True}, "100, got True"), ({"k": 2.5}, "100, got 2.5"),
            ({"k": "5"}, "100, got '5'"), ({"k": 101}, "100, got 101"), ({"k": None}, "100, got None"),
            ({"confidence": 0}, "confidence must be between 0 and 1, got 0"), ({"confidence": 1}, "confidence must be between 0 and 1, got 1"),
            ({"confidence": 95}, "confidence must be between 0 and 1, got 95"), ({"confidence": -0.5}, "confidence must be between 0 and 1, got -0.5"),
            ({"confidence": math.nan}, "confidence is out of range"),
            ({"confidence": "0.9"}, "confidence must be a number"),
            ({"confidence": True}, "confidence must be a number"),
            ({"confidence": 10**400}, "confidence is out of range"),
            ({"confidence": 1 - 1e-16}, "too close to 0 or 1"),
            ({"confidence": 1e-17}, "too close to 0 or 1"), ({"joint": 1}, "joint must be True or False, got 1"),
            ({"mode": "loose"}, "'paper', got 'loose'"), ({"mode": None}, "'paper', got None"),
            ({"lower": 0}, "lower must be above 0, got 0"), ({"lower": 1}, "lower must be between 0.001 and 0.999, got 1"),
            ({"lower": "x"}, "lower must be a finite number, got 'x'"),
        ],
    )  # fmt: skip
    def test_refusals(self, options, what):
        usual = {"k": 5, "confidence": 0.95, "joint": False, "lower": "0.1", "mode": "tight"}
        with pytest.raises(RequestError, match=what) as caught:
            read_design(50, **{**usual, **options})
        assert caught.value.hint

    def test_no_more_predicates_are_paid_for_than_there_are(self):
        assert [read_design(size, k=5).k for size in (2, 5, 50)] == [2, 5, 5]

    @pytest.mark.parametrize("confidence", [1e-6, 0.01, 0.5, 0.999999, 1 - 1e-9])
    @pytest.mark.parametrize("mode", ["tight", "paper"])
    @pytest.mark.parametrize("joint", [True, False])
    def test_every_other_confidence_has_finite_widths(
        self, confidence, mode, joint, twelve, planned
    ):
        plan = planned(twelve, SQL, A_B, k=3, confidence=confidence, mode=mode, joint=joint)
        widths = [plan.margin_of_error, plan.resolution, plan.search(above=False).margin]
        assert all(math.isfinite(width) and width >= 0 for width in widths)


class TestRequest:
    def test_groups_and_attributes_in_another_order_are_the_same_request(self, planned):
        schema = Schema({name: Category(["A", "B", "C"]) for name in ("g", "x", "y")})
        table = Table("t", None, schema)
        sql = "SELECT g, COUNT(*) AS m FROM t GROUP BY g"
        one = planned(table, sql, {"A": 1, "B": 2, "C": -1}, attributes=["x", "y"])
        two = planned(table, sql, {"C": "-1.0", "B": "2.000", "A": 1}, attributes=["y", "x"])
        assert one.request == two.request
        assert one.space == two.space
        assert one.target == two.target

    def test_where_spelled_otherwise_is_the_same_request(self, twelve, planned):
        spellings = [
            "SELECT g, COUNT(*) AS m FROM t WHERE v > 2 AND x <> 'z' GROUP BY g",
            "SELECT g, COUNT(*) FROM t WHERE NOT (x = 'z' OR v <= 2) GROUP BY g",
            "SELECT g, COUNT(*) FILTER (WHERE x IN ('w', 'u')) AS n FROM t WHERE v >= 3 GROUP BY g",
        ]
        plans = [planned(twelve, sql, A_B, attributes=["x"]) for sql in spellings]
        # NULLs differ: NOT (x = 'z') is false for them, so these are one meaning
        assert len({plan.request for plan in plans}) == 1

    def test_everything_that_matters_makes_another_one(self, twelve, planned):
        base = {"k": 1, "attributes": ["x"]}
        variants = [
            {}, {"k": 2}, {"rho": "0.31"}, {"confidence": 0.9}, {"joint": True}, {"lower": "0.2"},
            {"mode": "paper"}, {"rho": {"topk": "0.1", "influence": "0.1", "rank": "0.1"}},
        ]  # fmt: skip
        plans = [planned(twelve, SQL, A_B, **(base | variant)) for variant in variants]
        plans += [
            planned(twelve, SQL, {"B": 1, "A": -1}, **base),
            planned(twelve, SQL, {"A": 1, "C": -1}, **base),
            planned(twelve, SQL, {"A": 1, "B": -2}, **base),
            planned(twelve, SQL.replace("AVG", "SUM"), A_B, **base),
            planned(twelve, SQL, A_B, predicates=["x = 'u'"]),
            planned(twelve, SQL, A_B, predicates=["x = 'w'"]),
            planned(twelve, SQL.replace("GROUP", "WHERE x = 'u' GROUP"), A_B, **base),
        ]
        assert len({plan.request for plan in plans}) == len(plans)

    def test_definitions_are_plain_data(self, twelve, planned):
        for options in ({}, {"predicates": ["x = 'u' OR v > 3"]}):
            plan = planned(twelve, SQL, A_B, **options)
            assert json.loads(json.dumps(plan.definition())) == plan.definition()
            assert json.loads(json.dumps(plan.noise())) == plan.noise()


class TestTarget:
    @pytest.mark.parametrize("value", ["5", "0 * v", "CASE WHEN v > 3 THEN 2 ELSE 2 END"])
    def test_what_is_the_same_for_every_row_cannot_be_explained(self, value, twelve, target):
        from dpnb.errors import DpnbError

        with pytest.raises(DpnbError) as caught:
            target(twelve, f"SELECT g, AVG({value}) AS m FROM t GROUP BY g", A_B)
        assert caught.value.hint

    def test_a_constant_integer_column_does_not_exist_but_a_filtered_one_may_explain(
        self, twelve, target
    ):
        asked = target(
            twelve, "SELECT g, SUM(v) FILTER (WHERE x = 'u') AS m FROM t GROUP BY g", A_B
        )
        assert asked.where != target(twelve, "SELECT g, SUM(v) AS m FROM t GROUP BY g", A_B).where
        assert asked.bounds == (0, 10)
