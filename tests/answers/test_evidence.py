"""Past answers as rows over atoms: which ones matter, what they tell, what there is no room for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.answers.evidence import Evidence, NoRoomError, Room
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import ZCDP
from dpnb.releases.held import Held, planned
from dpnb.sql.parser import parse
from dpnb.views.view import views_of

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "c": Category(["x", "y", "z"]),
        "k": Category(["u", "v"]),
        "n": Integer(0, 9, bins=[0, 2, 5, 9]),
        "m": Integer(0, 9),
        "bit": Integer(0, 1),
    },
    complete=["k"],
)


def views(sql):
    query = parse(sql, {"t": Table("t", None, SCHEMA)})
    found = {}
    for aggregate in query.measured:
        found |= {view.id: view for view in views_of(aggregate, query, 1).values()}
    return list(found.values())


def held(sql, values, level=1):
    """A release of a statement with one view."""
    (view,) = views(sql)
    noise = view.distribution(Fraction(level), ZCDP)
    return Held(view, view.id, Fraction(level), noise, tuple(map(float, values)))


def estimates(past, sql):
    """What is told for each group; None where nothing is."""
    (view,) = views(sql)
    found = Evidence(past, [view])
    rows = found.wanted(view)
    told = found.told(rows)
    return [
        round(float(found.history.estimate(*row).estimates[0]), 9) if known else None
        for row, known in zip(rows, told, strict=True)
    ]


class TestTold:
    """What past answers determine, by adding and subtracting rows."""

    def test_groups_add_up_to_a_group_of_fewer_keys(self):
        past = [held("SELECT k, c, COUNT(*) FROM t GROUP BY k, c", [1, 2, 3, 4, 5, 6])]
        # keys are sorted: c is first
        assert estimates(past, "SELECT c, COUNT(*) FROM t GROUP BY c") == [3, 7, 11]

    def test_rows_without_a_value_are_in_no_group(self):
        past = [held("SELECT k, c, COUNT(*) FROM t GROUP BY k, c", [1, 2, 3, 4, 5, 6])]
        assert estimates(past, "SELECT k, COUNT(*) FROM t GROUP BY k") == [None, None]
        assert estimates(past, "SELECT k, COUNT(c) FROM t GROUP BY k") == [9, 12]
        assert estimates(past, "SELECT COUNT(*) FROM t WHERE c IS NOT NULL") == [21]

    def test_the_groups_of_a_complete_column_are_all_rows(self):
        past = [held("SELECT k, COUNT(*) FROM t GROUP BY k", [10, 20])]
        assert estimates(past, "SELECT COUNT(*) FROM t") == [30]

    def test_the_total_less_a_part(self):
        past = [
            held("SELECT COUNT(*) FROM t", [100]),
            held("SELECT COUNT(*) FROM t WHERE n > 5", [30]),
        ]
        assert estimates(past, "SELECT COUNT(*) FROM t WHERE n <= 5 OR n IS NULL") == [70]
        assert estimates(past, "SELECT COUNT(*) FROM t WHERE n <= 5") == [None]

    def test_one_or_the_other_is_both_less_what_is_common(self):
        past = [
            held("SELECT COUNT(*) FROM t WHERE n > 5", [30]),
            held("SELECT COUNT(*) FROM t WHERE c = 'x'", [50]),
            held("SELECT COUNT(*) FROM t WHERE c = 'x' AND n > 5", [20]),
        ]
        assert estimates(past, "SELECT COUNT(*) FROM t WHERE c = 'x' OR n > 5") == [60]
        assert estimates(
            past, "SELECT COUNT(*) FROM t WHERE c = 'x' AND (n <= 5 OR n IS NULL)"
        ) == [30]

    def test_counts_of_single_values_tell_their_sum(self):
        past = [held("SELECT m, COUNT(*) FROM t GROUP BY m", range(1, 11))]
        assert estimates(past, "SELECT SUM(m) FROM t") == [sum(i * (i + 1) for i in range(10))]
        assert estimates(past, "SELECT SUM(m) FROM t WHERE m BETWEEN 2 AND 3") == [2 * 3 + 3 * 4]
        assert estimates(past, "SELECT SUM(m * m) FROM t WHERE m < 3") == [1 * 2 + 4 * 3]

    def test_counts_of_bins_do_not(self):
        past = [held("SELECT n, COUNT(*) FROM t GROUP BY n", [1, 2, 3])]
        assert estimates(past, "SELECT SUM(n) FROM t") == [None]

    def test_sums_of_one_number_for_each_case_are_counts(self):
        past = [
            held("SELECT SUM(CASE WHEN n > 5 THEN 1 ELSE 0 END) FROM t", [12]),
            held("SELECT SUM(CASE WHEN n > 5 THEN 2 WHEN c = 'x' THEN 3 END) FROM t", [54]),
        ]
        assert estimates(past, "SELECT COUNT(*) FROM t WHERE n > 5") == [12]
        assert estimates(
            past, "SELECT COUNT(*) FROM t WHERE c = 'x' AND (n <= 5 OR n IS NULL)"
        ) == [10]

    def test_sums_of_groups_add_up(self):
        past = [held("SELECT c, k, SUM(n) FROM t GROUP BY c, k", [1, 2, 3, 4, 5, 6])]
        assert estimates(past, "SELECT c, SUM(n) FROM t GROUP BY c") == [3, 7, 11]

    def test_a_sum_of_distances_and_a_count_tell_the_sum(self):
        (total, count) = views("SELECT AVG(n) FROM t")
        past = [
            Held(total, "s", Fraction(1), NoiseDistribution("gaussian", 1.0), (-5.0,)),
            Held(count, "c", Fraction(1), NoiseDistribution("gaussian", 1.0), (40.0,)),
        ]
        assert estimates(past, "SELECT SUM(n) FROM t") == [4.5 * 40 - 5]

    def test_other_values_share_no_moment(self):
        past = [held("SELECT SUM(n) FROM t", [50])]
        assert estimates(past, "SELECT SUM(m) FROM t") == [None]
        assert estimates(past, "SELECT SUM(n + 1) FROM t") == [None]

    def test_nothing_is_known_of_nothing(self):
        assert estimates([], "SELECT COUNT(*) FROM t") == [None]
        assert estimates([], "SELECT COUNT(*) FROM t WHERE n = 1 AND n = 2") == [0]

    def test_repeated_knowledge_is_weighted_by_precision(self):
        past = [
            held("SELECT k, COUNT(*) FROM t GROUP BY k", [10, 20], level=2),
            held("SELECT COUNT(*) FROM t", [36], level=1),
        ]
        # variances: each group 1/4, total 1/2; the difference of 6 is halved
        assert estimates(past, "SELECT COUNT(*) FROM t") == [33]
        (view,) = views("SELECT COUNT(*) FROM t")
        found = Evidence(past, [view])
        assert found.variances(found.wanted(view)) == pytest.approx([0.25])

    def test_planned_rows_tell_variances_before_there_are_answers(self):
        (view,) = views("SELECT COUNT(*) FROM t")
        (fresh,) = views("SELECT k, COUNT(*) FROM t GROUP BY k")
        found = Evidence([planned(fresh, Fraction(2), ZCDP)], [view])
        assert found.variances(found.wanted(view)) == pytest.approx([0.5])


class TestConnected:
    """Only what can bear on the question is used."""

    BY_C = held("SELECT c, COUNT(*) FROM t GROUP BY c", [1, 2, 3])
    X = held("SELECT COUNT(*) FROM t WHERE c = 'x'", [1])
    Y = held("SELECT COUNT(*) FROM t WHERE c = 'y' AND n > 5", [1])
    XY = held("SELECT COUNT(*) FROM t WHERE c IN ('x', 'y')", [3])

    def used(self, past, sql):
        found = Evidence(past, views(sql))
        assert found.left_out == ()
        return {one.name for one in found.used}, len(found.history)

    def test_disjoint_regions_do_not(self):
        assert self.used([self.X, self.Y], "SELECT COUNT(*) FROM t WHERE c = 'x'") == (
            {self.X.name},
            1,
        )

    def test_other_groups_of_one_release_do_not(self):
        assert self.used([self.BY_C], "SELECT COUNT(*) FROM t WHERE c = 'x'") == (
            {self.BY_C.name},
            1,
        )

    def test_what_is_linked_through_others_does(self):
        names, rows = self.used([self.BY_C, self.XY], "SELECT COUNT(*) FROM t WHERE c = 'x'")
        assert names == {self.BY_C.name, self.XY.name}
        # x and y and both; z stays out
        assert rows == 3

    def test_sums_of_other_columns_do_not(self):
        past = [held("SELECT SUM(m) FROM t", [5]), held("SELECT COUNT(*) FROM t", [5])]
        assert self.used(past, "SELECT COUNT(*) FROM t") == ({past[1].name}, 1)

    def test_leaving_them_out_changes_nothing(self):
        rng = np.random.default_rng(1)
        past = [
            held("SELECT c, k, COUNT(*) FROM t GROUP BY c, k", rng.normal(10, 1, 6)),
            held("SELECT c, COUNT(*) FROM t GROUP BY c", rng.normal(20, 1, 3), level=3),
            held("SELECT SUM(n) FROM t WHERE c = 'x'", [60]),
            held("SELECT COUNT(*) FROM t WHERE n > 5 AND c = 'z'", [4]),
        ]
        sql = "SELECT COUNT(*) FROM t WHERE c = 'x'"
        whole = estimates(past, sql)
        assert whole == estimates(past[:2], sql)
        (view,) = views(sql)
        ours = Evidence(past, [view])
        assert ours.variances(ours.wanted(view)) == pytest.approx([1 / (6 + 1)])

    def test_a_source_is_named_by_its_release_and_place(self):
        found = Evidence([self.BY_C], views("SELECT COUNT(*) FROM t WHERE c = 'y'"))
        assert list(found.sources.values()) == [(self.BY_C, 1)]
        assert [row.answer for row in found.history.rows] == [2]


class TestRoom:
    """What does not fit is left out as a whole, and named."""

    def evidence(self, past, wanted, **room):
        largest = {"cells": 10**6, "rows": 10**6, "work": 10**12}
        return Evidence(past, wanted, bounds=True, room=Room(**{**largest, **room}))

    def test_too_many_cells(self):
        near = held("SELECT c, COUNT(*) FROM t GROUP BY c", [1, 2, 3])
        wide = held("SELECT c, n, m, COUNT(*) FROM t GROUP BY c, n, m", range(90))
        wanted = views("SELECT COUNT(*) FROM t WHERE c IN ('x', 'y')")
        for past in ([near, wide], [wide, near]):
            found = self.evidence(past, wanted, cells=20)
            assert found.left_out == (wide,)
            assert found.used == (near,)
            (row,) = found.wanted(wanted[0])
            assert found.history.estimate(*row).estimates.tolist() == [3]
        assert self.evidence([near, wide], wanted, cells=4 * 4 * 11).left_out == ()

    def test_too_many_rows(self):
        near = held("SELECT c, COUNT(*) FROM t GROUP BY c", [1, 2, 3])
        wide = held("SELECT c, m, COUNT(*) FROM t GROUP BY c, m", range(30))
        wanted = views("SELECT COUNT(*) FROM t WHERE c IN ('x', 'y')")
        # two groups of one, twenty of the other: one row too many
        found = self.evidence([wide, near], wanted, rows=21)
        assert found.left_out == (wide,)
        assert found.used == (near,)
        assert self.evidence([wide, near], wanted, rows=22).left_out == ()

    def test_what_the_factorisations_take(self):
        near = held("SELECT c, COUNT(*) FROM t GROUP BY c", [1, 2, 3])
        wide = held("SELECT c, m, COUNT(*) FROM t GROUP BY c, m", range(30))
        wanted = views("SELECT COUNT(*) FROM t WHERE c IN ('x', 'y')")
        # two rows beside the largest release, two times (ten values of m, and missing) atoms
        assert self.evidence([wide, near], wanted, work=2 * 2 * 22 - 1).left_out == (wide,)
        assert self.evidence([wide, near], wanted, work=2 * 2 * 22).left_out == ()

    def test_rows_that_are_not_connected_take_no_room(self):
        past = [held("SELECT m, COUNT(*) FROM t GROUP BY m", range(10))]
        found = self.evidence(past, views("SELECT COUNT(*) FROM t WHERE m = 3"), rows=1)
        assert len(found.history) == 1
        assert found.left_out == ()

    def test_what_is_wanted_has_to_fit(self):
        with pytest.raises(NoRoomError):
            self.evidence([], views("SELECT c, m, COUNT(*) FROM t GROUP BY c, m"), cells=43)


def test_a_weighted_sum_of_views_adds_their_rows_up():
    total, count = views("SELECT k, AVG(m) FROM t GROUP BY k")
    past = [held("SELECT m, k, COUNT(*) FROM t GROUP BY m, k", range(20))]
    found = Evidence(past, [total, count])
    rows = found.combined([(total, 1.0), (count, 4.5)])
    assert found.told(rows) == [True, True]
    # keys are sorted: k, then m
    told = found.history.joint(rows).estimates
    assert told == pytest.approx(
        [sum(i * i for i in range(10)), sum(i * (10 + i) for i in range(10))]
    )


def test_atoms_are_described_as_a_condition():
    (wanted,) = views("SELECT COUNT(*) FROM t")
    past = [held("SELECT COUNT(*) FROM t WHERE n > 5 AND c = 'x'", [1])]
    found = Evidence(past, [wanted], bounds=True)
    ((atoms, _),) = found.wanted(wanted)
    texts = {found.box([atom]) for atom in atoms}
    assert texts == {"c = 'x' AND n >= 6", None}
    assert found.box(atoms) == ""


class TestSummedOut:
    """Columns that one release alone has do not make the domain larger."""

    def evidence(self, past, sql):
        return Evidence(past, views(sql))

    def test_a_complete_key_of_one_release_is_summed_out(self):
        past = [
            held("SELECT m, k, COUNT(*) FROM t GROUP BY m, k", range(20)),
            held("SELECT m, COUNT(*) FROM t GROUP BY m", range(10), level=2),
        ]
        found = self.evidence(past, "SELECT COUNT(*) FROM t WHERE m = 3")
        assert [piece.column for piece in found.domain.pieces] == ["m"]
        first, second = sorted(found.used, key=lambda one: one.summed)
        assert (first.summed, second.summed) == (1, 2)
        assert second.values == (10, 12, 14, 16, 18, 20, 22, 24, 26, 28)
        assert second.distribution.scale == pytest.approx(past[0].distribution.scale * 2**0.5)
        assert second.asked == past[0].view

    def test_the_estimate_is_the_one_that_keeps_all_columns(self):
        past = [
            held("SELECT m, k, COUNT(*) FROM t GROUP BY m, k", range(20)),
            held("SELECT m, COUNT(*) FROM t GROUP BY m", range(10), level=2),
            held("SELECT k, COUNT(*) FROM t WHERE n < 3 GROUP BY k", [5, 6]),
            held("SELECT COUNT(*) FROM t WHERE m < 5", [40], level=3),
        ]
        (view,) = wanted = views("SELECT COUNT(*) FROM t WHERE m < 4")
        joints = []
        for keep in (False, True):
            found = Evidence(past, wanted, bounds=keep)
            joints.append(found.history.joint(found.wanted(view)))
        small, large = joints
        assert small.estimates == pytest.approx(large.estimates)
        assert small.distribution(0).sd == pytest.approx(large.distribution(0).sd)
        assert len(small.distributions) < len(large.distributions)

    def test_groups_that_leave_rows_out_tell_nothing_about_the_others(self):
        past = [held("SELECT c, m, COUNT(*) FROM t GROUP BY c, m", range(30))]
        found = self.evidence(past, "SELECT COUNT(*) FROM t WHERE m = 3")
        assert found.used == ()

    def test_conditions_on_a_column_of_one_release_tell_nothing_about_the_others(self):
        past = [held("SELECT m, COUNT(*) FROM t WHERE k = 'u' GROUP BY m", range(10))]
        assert self.evidence(past, "SELECT COUNT(*) FROM t WHERE m = 3").used == ()
        either = [held("SELECT COUNT(*) FROM t WHERE k = 'u' OR m = 3", [7])]
        assert self.evidence(either, "SELECT COUNT(*) FROM t WHERE m = 3").used != ()

    def test_sums_of_laplace_noise_stay_as_they_are(self):
        past = [
            Held(one.view, one.name, one.level, NoiseDistribution("laplace", 3.0), one.values)
            for one in [held("SELECT m, k, COUNT(*) FROM t GROUP BY m, k", range(20))]
        ]
        found = self.evidence(past, "SELECT COUNT(*) FROM t WHERE m = 3")
        assert [one.summed for one in found.used] == [1]
        (joint,) = [
            found.history.joint(found.wanted(views("SELECT COUNT(*) FROM t WHERE m = 3")[0]))
        ]
        assert joint.estimates.tolist() == [16]


def test_the_sum_of_a_column_of_two_values_counts_its_ones():
    past = [held("SELECT SUM(bit) FROM t", [7])]
    assert estimates(past, "SELECT COUNT(*) FROM t WHERE bit = 1") == [7]
