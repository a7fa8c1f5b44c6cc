"""The grid of cells: where it is cut, and what views are as rows over it."""

from __future__ import annotations

import numpy as np
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.answers.domain import Domain, columns_of, moment_of
from dpnb.schema.predicates import EVERY
from dpnb.sql.parser import parse
from dpnb.views.histogram import Histogram, Strategy, axis
from dpnb.views.measures import Count
from dpnb.views.view import views_of

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "c": Category(["x", "y", "z"]),
        "k": Category(["u", "v"]),
        "n": Integer(0, 9, bins=[0, 2, 5, 9]),
        "bit": Integer(0, 1),
        "r": Real(-2.0, 3.0, bins=[-2, 0, 3]),
        "d": Date("2024-01-01", "2024-12-31"),
    },
    complete=["k"],
)
JULY = 19905
"""Days from 1970-01-01 to 2024-07-01."""


def views(sql, schema=SCHEMA):
    query = parse(sql, {"t": Table("t", None, schema)})
    found = {}
    for aggregate in query.measured:
        found |= {view.id: view for view in views_of(aggregate, query, 1).values()}
    return list(found.values())


def view(sql, schema=SCHEMA):
    (only,) = views(sql, schema)
    return only


def cells(domain, column):
    (piece,) = (piece for piece in domain.pieces if piece.column == column)
    return piece.cells, piece.missing


def vector(domain, of, row=0):
    """A row of a view, dense: one coefficient for each cell."""
    made = np.zeros(domain.size)
    rows, places, values = domain.rows(of)
    made[places[rows == row]] = values[rows == row]
    return made.tolist()


class TestCuts:
    """Columns are cut at constants and bins, and nowhere else."""

    def test_a_column_that_nobody_names_is_no_axis(self):
        domain = Domain([view("SELECT COUNT(*) FROM t")])
        assert domain.pieces == ()
        assert domain.size == domain.grid == 1

    def test_constants_cut_on_both_sides(self):
        domain = Domain([view("SELECT COUNT(*) FROM t WHERE n BETWEEN 3 AND 6 OR n = 8")])
        assert cells(domain, "n") == (((0, 2), (3, 6), (7, 7), (8, 8), (9, 9)), True)

    def test_a_real_is_cut_between_neighbouring_floats(self):
        (cut, _) = cells(Domain([view("SELECT COUNT(*) FROM t WHERE r <= 0.5")]), "r")
        assert cut == ((-2.0, 0.5), (np.nextafter(0.5, 1), 3.0))
        (cut, _) = cells(Domain([view("SELECT COUNT(*) FROM t WHERE r < 0.5")]), "r")
        assert cut == ((-2.0, np.nextafter(0.5, 0)), (0.5, 3.0))

    def test_dates_are_cut_by_days(self):
        domain = Domain([view("SELECT COUNT(*) FROM t WHERE d >= '2024-07-01'")])
        assert cells(domain, "d")[0] == ((19723, JULY - 1), (JULY, 20088))

    def test_bins_cut_where_they_are_grouped_by(self):
        domain = Domain([view("SELECT n, r, COUNT(*) FROM t GROUP BY n, r")])
        assert cells(domain, "n")[0] == ((0, 2), (3, 5), (6, 9))
        assert cells(domain, "r")[0] == ((-2.0, 0.0), (5e-324, 3.0))

    def test_the_constants_of_all_views_cut_together(self):
        domain = Domain(
            views("SELECT COUNT(*) FILTER (WHERE n > 4), SUM(CASE WHEN c = 'y' THEN n END) FROM t"),
        )
        assert cells(domain, "n")[0] == ((0, 4), (5, 9))
        assert cells(domain, "c")[0] == ((0, 0), (1, 1), (2, 2))

    def test_every_declared_value_is_a_cell_of_a_category(self):
        domain = Domain([view("SELECT c, COUNT(*) FROM t GROUP BY c")])
        assert cells(domain, "c") == (((0, 0), (1, 1), (2, 2)), True)

    def test_complete_columns_have_no_cell_for_missing_values(self):
        domain = Domain([view("SELECT k, c, COUNT(*) FROM t GROUP BY k, c")])
        assert cells(domain, "k") == (((0, 0), (1, 1)), False)
        assert domain.shape == (4, 2)

    def test_each_column_of_a_view_is_an_axis(self):
        made = view("SELECT c, SUM(n * r) FROM t WHERE d IS NOT NULL GROUP BY c")
        assert columns_of(made) == {"c", "n", "r", "d"}


class TestCounts:
    """A count is a row of ones over the cells of its group."""

    def test_groups_are_rows_and_missing_values_are_in_none(self):
        of = view("SELECT c, COUNT(*) FROM t GROUP BY c")
        domain = Domain([of])
        assert domain.keys(of).tolist() == [0, 1, 2, -1]
        assert vector(domain, of, 1) == [0, 1, 0, 0]

    def test_keys_are_numbered_like_the_entries_of_the_vector(self):
        of = view("SELECT n, c, COUNT(*) FROM t GROUP BY n, c")
        domain = Domain([of])
        # c is the first axis, n the second; both have a last cell for missing values
        assert domain.keys(of).reshape(4, 4).tolist() == [
            [0, 1, 2, -1], [3, 4, 5, -1], [6, 7, 8, -1], [-1] * 4,
        ]  # fmt: skip

    def test_null_satisfies_no_comparison(self):
        of = view("SELECT COUNT(*) FROM t WHERE n <> 3")
        assert vector(Domain([of]), of) == [1, 0, 1, 0]
        of = view("SELECT COUNT(*) FROM t WHERE NOT (n = 3 OR n IS NULL)")
        assert vector(Domain([of]), of) == [1, 0, 1, 0]
        of = view("SELECT COUNT(*) FROM t WHERE n <> 3 OR n IS NULL")
        assert vector(Domain([of]), of) == [1, 0, 1, 1]

    def test_or_joins_categories_of_different_columns(self):
        of = view("SELECT COUNT(*) FROM t WHERE c = 'x' OR k = 'v'")
        # c: x, y or z, missing; k: u, v
        assert vector(Domain([of]), of) == [1, 1, 0, 1, 0, 1]

    def test_values_that_are_missing_are_not_counted(self):
        of = view("SELECT COUNT(n) FROM t")
        assert vector(Domain([of]), of) == [1, 0]
        of = view("SELECT COUNT(n + r) FROM t")
        assert vector(Domain([of]), of) == [1, 0, 0, 0]
        of = view("SELECT COUNT(CASE WHEN n > 4 THEN r END) FROM t")
        # n: up to 4, above, missing; r: present, missing
        assert vector(Domain([of]), of) == [0, 0, 1, 0, 0, 0]

    def test_a_condition_that_never_holds_is_an_empty_row(self):
        of = view("SELECT COUNT(*) FROM t WHERE n = 3 AND n = 4")
        assert len(Domain([of]).rows(of)[0]) == 0


class TestSums:
    """A sum is value times count where the value is one number, else the middle times it and a moment."""

    def test_cells_of_many_values_have_a_moment(self):
        of = view("SELECT SUM(n) FROM t")
        domain = Domain([of])
        assert domain.moments == [None, moment_of(of)]
        # counts of present and missing, then the moments of both, from 4.5 as far as 0 and 9
        assert vector(domain, of) == [4.5, 0, 4.5, 0]

    def test_cells_of_one_value_are_value_times_count(self):
        of = view("SELECT SUM(n) FILTER (WHERE n IN (2, 7)) FROM t")
        domain = Domain([of])
        # 0-1, 2, 3-6, 7, 8-9, missing
        assert vector(domain, of) == [0, 2, 0, 7, 0, 0] + [0] * 6

    def test_a_column_of_two_values_is_cut_to_one_in_each_cell(self):
        of = view("SELECT bit, SUM(3 * bit + 1) FROM t GROUP BY bit")
        domain = Domain([of])
        assert vector(domain, of, 0)[:3] == [1, 0, 0]
        assert vector(domain, of, 1)[:3] == [0, 4, 0]

    def test_mixed_cells_are_partly_values_and_partly_moments(self):
        of = view("SELECT SUM(n) FROM t WHERE n >= 9 OR n < 4")
        # 0-3, 4-8, 9, missing
        assert vector(Domain([of]), of) == [4.5, 0, 9, 0, 4.5, 0, 0, 0]

    def test_case_has_the_value_of_the_first_branch_that_holds(self):
        of = view("SELECT SUM(CASE WHEN n > 4 THEN 2 WHEN n > 1 THEN 5 ELSE -1 END) FROM t")
        domain = Domain([of])
        # 0-1, 2-4, 5-9, missing: ELSE is also for a missing n
        # and with one number for each case there is no moment
        assert vector(domain, of) == [-1, 5, 2, -1]

    def test_case_without_else_leaves_other_rows_out(self):
        of = view("SELECT SUM(CASE WHEN c = 'x' THEN n WHEN c = 'y' THEN 4 END) FROM t")
        domain = Domain([of])
        # c: x, y, z, missing; n: present, missing; then moments
        assert vector(domain, of) == [4.5, 0, 4, 4, 0, 0, 0, 0, 4.5, *[0] * 7]

    def test_the_origin_of_centred_sums_is_taken_off_each_row(self):
        total, count = views("SELECT AVG(n) FROM t WHERE n = 9 OR n < 4")
        domain = Domain([total, count])
        assert float(total.measure.shift) == 4.5
        assert vector(domain, total) == [0, 0, 4.5, 0, 4.5, 0, 0, 0]
        assert vector(domain, count) == [1, 0, 1, 0] + [0] * 4

    def test_sums_and_means_of_whole_numbers_share_a_moment(self):
        plain, centred = view("SELECT SUM(n) FROM t"), views("SELECT AVG(n) FROM t")[0]
        assert plain.measure.shift != centred.measure.shift
        assert moment_of(plain) == moment_of(centred)

    def test_rounded_sums_of_other_origins_do_not(self):
        plain, centred = view("SELECT SUM(r) FROM t"), views("SELECT AVG(r) FROM t")[0]
        assert plain.measure.rounded
        assert moment_of(plain) != moment_of(centred)

    def test_rounded_sums_are_moments_even_of_one_value(self):
        of = view("SELECT SUM(r) FROM t WHERE r = 0.5")
        domain = Domain([of])
        found = np.array(vector(domain, of))
        # not 0.5 times the count alone: of the whole bounds, from -2 to 3
        assert found[found != 0].tolist() == [0.5, 2.5]
        assert found[domain.grid :].sum() == 2.5

    @pytest.mark.parametrize(
        ("low", "high"),
        [(0, 2**31 - 1), (1_500_000_000, 1_800_000_000), (10**9, 10**9 + 2), (2**30 - 2, 2**30)],
    )
    def test_far_from_0_or_wide_a_moment_is_none_the_less_of_the_size_of_a_count(self, low, high):
        """Nothing is so small beside the rest that it may be taken for rounding."""
        schema = Schema({"x": Integer(low, high)}, complete=["x"])
        (total, _), plain = (
            views("SELECT AVG(x) FROM t", schema),
            view("SELECT SUM(x) FROM t", schema),
        )
        half, (_, beside) = (high - low) / 2, vector(Domain([plain]), plain)
        assert vector(Domain([total]), total) == [
            pytest.approx(0, abs=1),
            pytest.approx(half),
        ]
        assert beside == pytest.approx(half)

    def test_arithmetic_of_single_values(self):
        of = view("SELECT SUM((n * bit - n + 6) * 2) FROM t WHERE n = 3 AND bit = 1")
        found = np.array(vector(Domain([of]), of))
        assert found[found != 0].tolist() == [12]
        of = view(
            "SELECT SUM(CASE WHEN c = 'x' THEN 4 WHEN c = 'y' THEN n + bit END) FROM t WHERE bit = 0"
        )
        domain = Domain([of])
        found = np.array(vector(domain, of))
        assert found[found != 0].tolist() == [4, 4, 5, 5]
        assert np.flatnonzero(found)[3] >= domain.grid


class TestHistograms:
    """Declared views: every row is in a bin, also one without a value."""

    axes = (
        axis("n", SCHEMA["n"], [(0, 4), (5, 9)]), axis("k", SCHEMA["k"], [(0, 0), (1, 1)]),
    )  # fmt: skip

    def view(self, strategy=None):
        return Histogram("t", 1, self.axes, EVERY, Count(None), name="h", strategy=strategy, schema=SCHEMA)  # fmt: skip

    def test_bins_are_numbered_with_the_missing_ones(self):
        of = self.view()
        domain = Domain([of])
        # k is complete and first; n: 0-4, 5-9, missing; three bins for k as for n
        assert domain.shape == (2, 3)
        assert domain.keys(of).reshape(2, 3).tolist() == [[0, 3, 6], [1, 4, 7]]

    def test_a_strategy_is_rows_of_its_matrix(self):
        rows = [[1, 1, 0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 2, -1, 0, 0, 0, 0], *np.eye(9, dtype=int)]
        of = self.view(Strategy(rows))
        domain = Domain([of])
        assert vector(domain, of, 0) == [1] * 6
        assert vector(domain, of, 1) == [0, 2, 0, 0, -1, 0]
        assert vector(domain, of, 2) == [1, 0, 0, 0, 0, 0]

    def test_constants_of_others_cut_bins(self):
        of = self.view()
        domain = Domain([of, view("SELECT COUNT(*) FROM t WHERE n = 6")])
        assert cells(domain, "n")[0] == ((0, 4), (5, 5), (6, 6), (7, 9))
        assert vector(domain, of, 3) == [0, 1, 1, 1, 0] + [0] * 5


class TestConditions:
    """A box of cells in the words of SQL."""

    domain = Domain(views("SELECT c, COUNT(*) FILTER (WHERE n < 4) FROM t GROUP BY c"))

    @pytest.mark.parametrize(
        "where",
        [
            "c = 'x'", "c IN ('x', 'z')", "n <= 3", "c = 'y' AND n >= 4", "c IS NULL",
            "c IS NOT NULL", "n IS NULL AND c = 'z'", "c = 'x' OR c IS NULL",
        ],
    )  # fmt: skip
    def test_it_holds_in_these_cells_alone(self, where):
        of = view(f"SELECT COUNT(*) FROM t WHERE {where}")
        found = self.domain.condition(np.flatnonzero(self.domain.keys(of) >= 0))
        again = view(f"SELECT COUNT(*) FROM t WHERE {found}")
        assert self.domain.keys(again).tolist() == self.domain.keys(of).tolist()

    def test_all_cells_need_no_condition(self):
        assert self.domain.condition(np.arange(self.domain.size)) == ""

    def test_complete_columns_are_not_said_to_be_present(self):
        domain = Domain([view("SELECT k, COUNT(*) FROM t WHERE n > 4 GROUP BY k")])
        # k is the first axis; n: up to 4, above, missing
        assert domain.condition(np.array([1, 4])) == "n >= 5"
        assert domain.condition(np.array([1])) == "k = 'u' AND n >= 5"

    def test_what_is_no_box_has_none(self):
        of = view("SELECT COUNT(*) FROM t WHERE c = 'x' OR n < 4")
        assert self.domain.condition(np.flatnonzero(self.domain.keys(of) >= 0)) is None
        assert self.domain.condition(np.array([], dtype=np.int64)) is None

    def test_moments_have_none(self):
        domain = Domain([view("SELECT SUM(n) FROM t")])
        assert domain.condition(np.array([2])) is None

    def test_ends_of_reals_are_written_as_a_person_would(self):
        domain = Domain(views("SELECT r, COUNT(*) FILTER (WHERE r < 1) FROM t GROUP BY r"))
        found = [domain.condition(np.array([cell])) for cell in range(domain.grid)]
        assert found == ["r <= 0.0", "r > 0.0 AND r < 1.0", "r >= 1.0", "r IS NULL"]
