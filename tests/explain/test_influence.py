"""Influences are exact, and one row changes them by no more than is paid for."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from dpnb.explain.influence import Cells, Lattice, influences, sensitivity, spread
from dpnb.sql.functions import Function

PAIR = (Fraction(1), Fraction(-1))
TEN = (Fraction(1), Fraction(-10))
THREE = (Fraction(2), Fraction(3), Fraction(-1))
ONE = (Fraction(1),)
FOUR = (Fraction(1), Fraction(1), Fraction(-1), Fraction(-1))
MILLI = Fraction(1, 10)


class TestSensitivity:
    @pytest.mark.parametrize(
        ("function", "weights", "low", "high", "tight", "paper"),
        [
            (Function.COUNT, PAIR, 1, 1, 1, 4),
            (Function.SUM, PAIR, 0, 5, 5, 20),
            (Function.SUM, PAIR, -5, 5, 10, 20),
            (Function.SUM, PAIR, Fraction(-1, 5), 1, Fraction(6, 5), 4),
            (Function.AVG, PAIR, 0, 5, 10, 80),
            (Function.AVG, PAIR, -5, 5, 20, 80),
            (Function.AVG, PAIR, 17, 90, 146, 1440),
            (Function.COUNT, TEN, 1, 1, 10, 22),
            (Function.SUM, TEN, 0, 1, 10, 22),
            (Function.SUM, TEN, -1, 1, 11, 22),
            (Function.AVG, TEN, 0, 1, 11, 88),
            (Function.COUNT, THREE, 1, 1, 5, 12),
            (Function.SUM, THREE, 0, 1, 5, 12),
            (Function.SUM, THREE, -1, 1, 6, 12),
            (Function.AVG, THREE, 0, 1, 6, 48),
            (Function.COUNT, ONE, 1, 1, 1, 2),
            (Function.SUM, ONE, 0, 1, 1, 2),
            (Function.AVG, ONE, 0, 1, 1, 8),
        ],
    )
    def test_it_is_the_supremum_or_the_published_bound(
        self, function, weights, low, high, tight, paper
    ):
        ends = Fraction(low), Fraction(high)
        assert sensitivity(function, weights, *ends, "tight") == tight
        assert sensitivity(function, weights, *ends, "paper") == paper

    def test_count_ignores_the_bounds_of_a_value(self):
        assert sensitivity(Function.COUNT, PAIR, Fraction(-7), Fraction(9), "tight") == 1
        assert spread(Function.COUNT, PAIR, Fraction(-7), Fraction(9), "tight") == Fraction(5, 4)

    @pytest.mark.parametrize(
        ("weights", "tight", "paper"),
        [(PAIR, (1, 10, 20), (4, 40, 160)), ((1, 1, -2), (2, 20, 40), (8, 80, 320))],
    )
    def test_the_oracles_of_the_twelve_rows(self, weights, tight, paper):
        exact = [Fraction(weight) for weight in weights]
        for mode, expected in (("tight", tight), ("paper", paper)):
            found = [
                sensitivity(function, exact, Fraction(0), Fraction(10), mode)
                for function in (Function.COUNT, Function.SUM, Function.AVG)
            ]
            assert found == list(expected)


class TestSpread:
    @pytest.mark.parametrize(
        ("function", "weights", "expected"),
        [
            (Function.COUNT, ONE, 1),
            (Function.COUNT, PAIR, Fraction(5, 4)),
            (Function.COUNT, TEN, Fraction(25, 2)),
            (Function.COUNT, THREE, Fraction(25, 4)),
            (Function.COUNT, FOUR, 3),
            (Function.AVG, ONE, 2),
            (Function.AVG, PAIR, 3),
            (Function.AVG, TEN, 21),
            (Function.AVG, THREE, 9),
        ],
    )
    def test_it_is_the_proven_one(self, function, weights, expected):
        assert spread(function, weights, Fraction(0), Fraction(1), "tight") == expected

    def test_it_is_twice_the_sensitivity_for_sums_and_in_paper_mode(self):
        for function, mode in itertools.product(
            (Function.COUNT, Function.SUM, Function.AVG), ("tight", "paper")
        ):
            ends = Fraction(-1), Fraction(1)
            twice = 2 * sensitivity(function, PAIR, *ends, mode)
            if function == Function.SUM or mode == "paper":
                assert spread(function, PAIR, *ends, mode) == twice
            else:
                assert spread(function, PAIR, *ends, mode) < twice


class TestLattice:
    @pytest.mark.parametrize(
        "largest", [Fraction(1), Fraction(3, 7), Fraction(200_000), Fraction(1, 10**9)]
    )
    @pytest.mark.parametrize("terms", [1, 2, 100])
    def test_its_unit_is_a_public_power_of_two_below_a_millionth(self, largest, terms):
        lattice = Lattice.of(largest, 2 * largest, terms)
        assert largest / 2**21 < lattice.unit <= largest / 2**20
        assert lattice.unit.numerator.bit_count() == lattice.unit.denominator.bit_count() == 1

    def test_rounding_is_added_to_what_is_paid_for(self):
        lattice = Lattice.of(Fraction(1), Fraction(5, 4), 3)
        assert lattice.sensitivity == 2**20 + 3
        assert lattice.spread == 5 * 2**18 + 7


T6 = {
    ("A>B", Function.COUNT): ("3/7", "1/7", "0", "0"),
    ("A>B", Function.SUM): ("3/7", "4/7", "0", "0"),
    ("A>B", Function.AVG): ("-11/4", "37/12", "0", "0"),
    ("A+B-2C", Function.COUNT): ("1/7", "5/7", "0", "0"),
    ("A+B-2C", Function.SUM): ("-1/7", "4", "0", "0"),
    ("A+B-2C", Function.AVG): ("-101/12", "67/12", "0", "0"),
}
WEIGHTS = {"A>B": {"A": 1, "B": -1}, "A+B-2C": {"A": 1, "B": 1, "C": -2}}
ALL_COUNT, ALL_SUM = {"A": 6, "B": 4, "C": 2, "D": 0}, {"A": 26, "B": 21, "C": 10, "D": 0}
PARTS = [  # of x=u, x=w, x=z, x=u or x=w: rows and sum in A, B, C
    ({"A": 2, "B": 1, "C": 1}, {"A": 10, "B": 9, "C": 10}),
    ({"A": 4, "B": 3, "C": 1}, {"A": 16, "B": 12, "C": 0}),
    ({}, {}),
    (ALL_COUNT, ALL_SUM),
]
AGGREGATES = {Function.COUNT: "COUNT(*)", Function.SUM: "SUM(v)", Function.AVG: "AVG(v)"}
LISTED = ["x = 'u'", "x = 'w'", "x = 'z'", "x IN ('u', 'w')"]


def pure(function, weights, unit=Fraction(1, 84), shift=0):
    """The influences of the 12 rows from their cells; all are multiples of 1/84."""
    groups = list(weights)
    count = np.array([[n.get(g, 0) for g in groups] for n, _ in PARTS])
    total = np.array([[s.get(g, 0) for g in groups] for _, s in PARTS]) + shift * count
    cells = Cells(np.arange(4), count, total)
    whole = [ALL_COUNT[g] for g in groups]
    sums = [ALL_SUM[g] + shift * ALL_COUNT[g] for g in groups]
    exact = [Fraction(w) for w in weights.values()]
    return [int(i) * unit for i in influences(function, exact, cells, whole, sums, unit)]


class TestTwelveRows:
    @pytest.mark.parametrize(("question", "function"), T6)
    def test_the_pure_function_gives_the_exact_fractions(self, question, function):
        expected = [Fraction(text) for text in T6[question, function]]
        assert pure(function, WEIGHTS[question]) == expected

    @pytest.mark.parametrize(("question", "function"), T6)
    def test_asked_the_other_way_round_they_are_the_negatives(self, question, function):
        turned = {group: -weight for group, weight in WEIGHTS[question].items()}
        expected = [-Fraction(text) for text in T6[question, function]]
        assert pure(function, turned) == expected

    @pytest.mark.parametrize(("question", "function"), T6)
    def test_the_engine_gives_them_to_the_lattice(self, question, function, twelve, planned, exact):
        sql = f"SELECT g, {AGGREGATES[function]} AS a FROM t GROUP BY g"
        plan = planned(twelve, sql, WEIGHTS[question], predicates=LISTED)
        found = exact(plan, twelve)
        assert plan.unit < Fraction(1, 2**14)
        slack = plan.unit * len(plan.target.weights) / 2
        for text, label in zip(T6[question, function], LISTED, strict=True):
            assert abs(found[label] - Fraction(text)) <= slack

    @pytest.mark.parametrize(("question", "function"), T6)
    def test_values_as_candidates_are_the_same_as_listed_conditions(
        self, question, function, twelve, planned, exact
    ):
        sql = f"SELECT g, {AGGREGATES[function]} AS a FROM t GROUP BY g"
        listed = exact(planned(twelve, sql, WEIGHTS[question], predicates=LISTED), twelve)
        valued = exact(planned(twelve, sql, WEIGHTS[question]), twelve) if function != Function.COUNT else (
            exact(planned(twelve, sql, WEIGHTS[question], attributes=["x"]), twelve))  # fmt: skip
        assert valued == {label: listed[label] for label in LISTED[:3]}

    @pytest.mark.parametrize("function", AGGREGATES)
    def test_beside_a_group_without_rows_all_influences_are_0(
        self, function, twelve, planned, exact
    ):
        assert pure(function, {"A": 1, "D": -1}) == [0] * 4
        sql = f"SELECT g, {AGGREGATES[function]} AS a FROM t GROUP BY g"
        found = exact(planned(twelve, sql, {"A": 1, "D": -1}, predicates=LISTED), twelve)
        assert set(found.values()) == {0}

    def test_a_common_shift_of_the_values_cancels_in_avg(self):
        assert pure(Function.AVG, WEIGHTS["A>B"], shift=-5) == pure(Function.AVG, WEIGHTS["A>B"])


class TestInfluences:
    def test_example_of_equation_3(self):
        # groups of 1,000 rows; one row of value 100 in the part, then another of value 2
        unit = Fraction(1, 1002 * 1001)
        cells = Cells(np.array([0]), np.array([[1, 0]]), np.array([[100, 0]]))
        (before,) = influences(Function.SUM, PAIR, cells, [1000, 1000], [100, 0], unit)
        cells = Cells(np.array([0]), np.array([[2, 0]]), np.array([[102, 0]]))
        (after,) = influences(Function.SUM, PAIR, cells, [1001, 1000], [102, 0], unit)
        assert before * unit == Fraction(99900, 1001)
        assert after * unit == Fraction(102 * 999, 1002) == Fraction(16983, 167)

    def test_values_at_half_a_unit_are_rounded_up(self):
        cells = Cells(np.array([0, 1]), np.array([[1], [3]]), np.zeros((2, 1), np.int64))
        # 1 * 3/5 and 3 * 1/5, in units of 2/5: 1.5 each
        found = influences(Function.COUNT, ONE, cells, [4], [0], Fraction(2, 5))
        assert found.tolist() == [2, 2]

    def test_large_counts_and_sums_do_not_overflow(self):
        n, m = 2**32, 2**30
        count = np.array([[n // 2, n // 4]])
        cells = Cells(np.array([0]), count, count * m)
        exact = {
            Function.COUNT: Fraction(n // 4) * (n // 2) / (n + 1),
            Function.SUM: Fraction(n // 4) * m * (n // 2) / (n + 1),
            Function.AVG: Fraction(0),
        }
        for function, expected in exact.items():
            lattice = Lattice.of(sensitivity(function, PAIR, Fraction(0), Fraction(m), "tight"),
                                 Fraction(1), 1)  # fmt: skip
            (found,) = influences(function, PAIR, cells, [n, n], [n * m, n * m], lattice.unit)
            assert abs(int(found) - expected / lattice.unit) <= Fraction(1, 2)

    def test_fractional_weights_are_exact(self):
        cells = Cells(np.array([0]), np.array([[2, 1]]), np.array([[10, 9]]))
        weights = Fraction(1, 3), Fraction(-1, 7)
        (found,) = influences(Function.COUNT, weights, cells, [6, 4], [26, 21], Fraction(1, 21 * 7))
        assert found == (Fraction(2, 3) - Fraction(1, 7)) * Fraction(3, 7) * 21 * 7

    def test_blocks_of_many_candidates_join_seamlessly(self):
        count = np.arange(70_000)[:, None] % 7
        cells = Cells(np.arange(70_000), count, count)
        found = influences(Function.COUNT, ONE, cells, [7], [7], Fraction(1, 8))
        expected = count[:, 0] * (7 - count[:, 0])
        assert (found == expected).all()

    def test_no_candidates_make_no_influences(self):
        empty = Cells(
            np.array([], np.int64), np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64)
        )
        for function in AGGREGATES:
            assert influences(function, PAIR, empty, [0, 0], [0, 0], Fraction(1)).tolist() == []


T8 = {
    "occupation = 'Exec-managerial'": (1553.412868633, 1513.581769437, 554.765177967),
    "education = 'Bachelors'": (873.520107239, 1511.099731903, 547.410382658),
    "age in (40, 50]": (3411.035612154, 2192.091018767, 501.189389211),
    "relationship = 'Own-child'": (-2765.315862377, -17.160277033, 224.646149631),
    "relationship = 'Husband'": (2355.147453083, 1056.852100089, 51.404531034),
    "education = 'HS-grad'": (1315.420554066, 1114.425111707, -600.661180632),
}
ATTRIBUTES = ["education", "occupation", "age", "relationship", "race", "workclass", "sex",
              "native_country"]  # fmt: skip
MARRIED = {"Married-civ-spouse": 1, "Never-married": -1}


class TestAdult:
    """Known influences, on both files."""

    @pytest.mark.parametrize(
        ("place", "aggregate"),
        list(enumerate(["COUNT(*)", "SUM(high_income)", "AVG(high_income)"])),
    )
    def test_influences_are_those_of_the_oracle(
        self, place, aggregate, adult, adult_engine, planned, exact
    ):
        sql = f"SELECT marital_status, {aggregate} AS a FROM adult GROUP BY marital_status"
        plan = planned(adult, sql, MARRIED, attributes=ATTRIBUTES)
        found = exact(plan, adult, adult_engine)
        assert len(found) == plan.space.size == 103
        for label, values in T8.items():
            assert float(found[label]) == pytest.approx(values[place], abs=2e-6)

    def test_the_largest_eight_of_the_average(self, adult, adult_engine, planned, exact):
        sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
        found = exact(planned(adult, sql, MARRIED, attributes=ATTRIBUTES), adult, adult_engine)
        falling = sorted(found, key=found.__getitem__, reverse=True)[:8]
        assert falling == [
            *list(T8)[:3], "occupation = 'Prof-specialty'", "education = 'Masters'",
            "relationship = 'Own-child'", "workclass = 'Self-emp-inc'",
            "native_country = 'United-States'",
        ]  # fmt: skip
        values = [float(found[label]) for label in falling[3:]]
        expected = [434.257450, 252.281562, 224.646150, 193.601062, 146.018170]
        assert values == pytest.approx(expected, abs=2e-6)


def tables(rng, groups, candidates, values, large):
    """Random cells of several candidates on one table, with the ends of the range and near-ties."""
    top = int(2 ** rng.integers(1, 14 if large else 4))
    count = (
        top + rng.integers(-1, 3, groups)
        if rng.random() < 0.6
        else rng.integers(0, top + 1, groups)
    )
    count = np.maximum(count, 0)
    if rng.random() < 0.5:
        count[rng.integers(groups)] *= 2
    n1 = rng.integers(0, count + 1, (candidates, groups))
    some = rng.random((candidates, groups))
    n1 = np.where(some < 0.3, count, np.where(some < 0.5, np.maximum(count - 1, 0),
                  np.where(some < 0.7, 0, n1)))  # fmt: skip
    # how much of each end of the range lies in each group; candidates take ends first
    ends = rng.choice([0, 0, 1, 1, rng.random()], groups)
    high = np.round(count * ends).astype(int)
    top_first = np.minimum(n1, high)
    low_first = np.maximum(n1 - (count - high), 0)
    inside = np.where(rng.random((candidates, groups)) < 0.5, top_first, low_first)
    low, top_value = values
    total = high * top_value + (count - high) * low
    return count, total, n1, inside * top_value + (n1 - inside) * low


def sharp(function, weights, values, size):
    """Tables on which sensitivity and spread are nearly attained, for each group i.

    Theorems 3 and 4 of docs/methods/dpxplain.md.
    """
    low, high = values
    m = len(weights)
    for i, top in itertools.product(range(m), (False, True)):
        # AVG: group i at one end in the part, one row of the others outside it at the other end
        best = [high if (w > 0) == top else low for w in weights]
        worst = [low if (w > 0) == top else high for w in weights]
        count = np.array([size if t == i else size + 1 for t in range(m)])
        inner = np.array([size] * m)
        v, end = (low, high) if (weights[i] > 0) == top else (high, low)
        total = [size * end if t == i else size * best[t] + worst[t] for t in range(m)]
        s1 = [size * end if t == i else size * best[t] for t in range(m)]
        yield i, v, count, np.array(total), inner, np.array(s1)
        # COUNT, SUM: groups of one sign in the part, group i wholly, one group two rows larger
        for sign in (1, -1):
            chosen = [w * sign > 0 for w in weights]
            ends = [max(values, key=lambda x, w=w: x * w * sign) for w in weights]
            part = np.array([size if c else 0 for c in chosen])
            count = part.copy()
            for t in range(m):
                count[t] = size if t == i and chosen[t] else size + 2 if t != i else 0
            part = np.minimum(part, count)
            yield i, ends[i], count, count * np.array(ends), part, part * np.array(ends)
        # COUNT: sizes 2N and N, nothing of the others in the part
        count = np.array([size * 2 if t == i else size for t in range(m)])
        part = np.array([size * 2 if t == i else 0 for t in range(m)])
        yield i, high, count, count * high, part, part * high


SETTINGS = [
    (Function.COUNT, weights, (1, 1)) for weights in (ONE, PAIR, TEN, THREE, FOUR)
] + [
    (function, weights, values)
    for function in (Function.SUM, Function.AVG)
    for weights, values in itertools.product((ONE, PAIR, TEN, THREE), ((0, 4), (-4, 4), (-1, 5)))
]  # fmt: skip


class TestNeighbours:
    """Through the function that is released, lattice and all, on random and on nasty tables."""

    @pytest.mark.parametrize(("function", "weights", "values"), SETTINGS)
    def test_one_row_changes_influences_by_at_most_what_is_paid_and_nearly_by_as_much(
        self, function, weights, values, size
    ):
        rng = np.random.default_rng(8)
        low, high = map(Fraction, values)
        delta = sensitivity(function, weights, low, high, "tight")
        widest = spread(function, weights, low, high, "tight")
        lattice = Lattice.of(delta, widest, len(weights) if function == Function.AVG else 1)
        most = most_apart = 0

        def look(i, v, count, total, n1, s1, meets):
            nonlocal most, most_apart

            def scores(count, total, n1, s1):
                cells = Cells(np.arange(len(n1)), n1, s1)
                return influences(function, weights, cells, count.tolist(), total.tolist(),
                                  lattice.unit)  # fmt: skip

            before = scores(count, total, n1, s1)
            more, sums, part, part_sums = (copy.copy(a) for a in (count, total, n1, s1))
            more[i] += 1
            sums[i] += v
            part[:, i] += meets
            part_sums[:, i] += meets * v
            change = scores(more, sums, part, part_sums) - before
            most = max(most, int(np.abs(change).max()))
            most_apart = max(most_apart, int(change.max() - change.min()))

        candidates = 120
        for _ in range(size(25)):
            count, total, n1, s1 = tables(rng, len(weights), candidates, values, rng.random() < 0.5)
            meets = rng.integers(0, 2, candidates)
            for i, v in itertools.product(range(len(weights)), set(values)):
                look(i, v, count, total, n1, s1, meets)
        for n in (30, 1000):
            for i, v, count, total, part, part_sums in sharp(function, weights, values, n):
                # the candidate of the family, one that selects no old row, one that halves group i
                half, half_sums = np.zeros_like(part), np.zeros_like(part_sums)
                half[i] = count[i] // 2
                half_sums[i] = total[i] // max(1, count[i]) * half[i]
                n1 = np.array([part, part, part * 0, part * 0, half, half])
                s1 = np.array(
                    [part_sums, part_sums, part_sums * 0, part_sums * 0, half_sums, half_sums]
                )
                look(i, v, count, total, n1, s1, np.array([0, 1] * 3))
        assert most <= lattice.sensitivity
        assert most_apart <= lattice.spread
        assert most * lattice.unit >= Fraction(9, 10) * delta
        proven_sharp = {
            Function.AVG: True,
            Function.COUNT: len(weights) <= 2,
            Function.SUM: weights == PAIR and values == (0, 4),
        }[function]
        if proven_sharp:
            assert most_apart * lattice.unit >= Fraction(8, 10) * widest


class TestSecrecy:
    def test_cells_show_nothing_and_cannot_be_pickled(self):
        cells = Cells(np.array([0]), np.array([[48611]]), np.array([[48611]]))
        assert "48611" not in repr(cells) + str(cells)
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(cells)


def test_the_lattice_costs_less_than_a_millionth_of_the_noise():
    lattice = Lattice.of(Fraction(1), Fraction(5, 4), 1)
    assert lattice.sensitivity * lattice.unit - 1 <= Fraction(2, 2**20)
    assert math.isclose(lattice.spread * lattice.unit, 1.25, rel_tol=3e-6)
