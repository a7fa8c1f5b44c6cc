"""The row space: worked examples, many rows at once, disjoint rows, rounding."""

from __future__ import annotations

import numpy as np
import pytest

from dpnb.errors import RequestError
from dpnb.estimation import blue
from dpnb.estimation.atoms import support
from dpnb.estimation.blue import NotEstimable, RowSpace

H = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
Y = np.array([30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5])
B = np.array([20.0, 10, 20, 10, 10, 40, 40, 10])
EXACT = {"rel": 1e-8, "abs": 0}
ALL = range(4)


def rows_of(matrix, answers, variances):
    return [
        (range(len(row)), row, float(y), float(v))
        for row, y, v in zip(np.asarray(matrix, float), answers, variances, strict=True)
    ]


def entries(cells, rows):
    return [(support(cells, index, value), *rest) for index, value, *rest in rows]


def one_by_one(cells, rows, space=None):
    space = space or RowSpace(cells)
    for row in entries(cells, rows):
        space.add_support(*row)
    return space


def built(cells, rows):
    space = RowSpace(cells)
    space.extend(entries(cells, rows))
    return space


def least_squares(matrix, answers, variances, queries):
    """Weighted least squares by the singular value decomposition.

    Theorem 7 of docs/methods/bayes.md.
    """
    root = np.sqrt(variances)
    weights = queries @ np.linalg.pinv(matrix / root[:, None]) / root
    return weights @ answers, weights**2 @ variances


def random_rows(rng, cells, count):
    """Ranges, scattered cells, real values, repeated rows."""
    rows = []
    for number in range(count):
        low, high = np.sort(rng.choice(cells + 1, 2, replace=False)).tolist()
        answer, variance = float(rng.normal()), float(10 ** rng.uniform(-2, 2))
        kind = number % 4
        if kind == 0:
            index, value = range(low, high), 1.0
        elif kind == 1:
            index, value = rng.permutation(cells)[: high - low], 2.0
        elif kind == 2:
            index, value = range(low, high), rng.integers(-2, 3, high - low) + 0.25
        else:
            index, value = rows[int(rng.integers(len(rows)))][:2]
        rows.append((index, value, answer, variance))
    return rows


def dense(cells, rows):
    return np.array([support(cells, row[0], row[1]).dense(cells) for row in rows])


WORKED = rows_of(H, Y, 2 * B**2)


class TestSupport:
    def test_is_a_slice_and_one_number_where_possible(self):
        made = support(9, [4, 2, 3], [1.0, 1.0, 1.0])
        assert (made.where, made.value, made.index) == (slice(2, 5), 1.0, range(2, 5))

    def test_leaves_out_zeros_and_sorts(self):
        made = support(9, [8, 0, 3], [2.0, 0.0, -5.0])
        assert made.index.tolist() == [3, 8]
        assert made.value.tolist() == [-5.0, 2.0]
        assert made.largest == 5.0

    @pytest.mark.parametrize(
        ("index", "value"),
        [([0, 0], 1.0), ([9], 1.0), ([-1], 1.0), (range(5, 12), 1.0), ([1, 2], [1.0]),
         ([1], float("nan")), ([1], float("inf")), (range(2), [1.0, 1.0, 1.0])],
    )  # fmt: skip
    def test_refuses_what_is_no_row(self, index, value):
        with pytest.raises(RequestError):
            support(9, index, value)


class TestWorkedExample:
    def test_unit_cells_are_the_least_squares_solution(self):
        space = one_by_one(4, WORKED)
        found = space.solve_many([([cell], 1.0) for cell in ALL]).estimates
        wanted = [24.99230769231, 10.17692307692, 17.02149532710, 19.50186915888]
        assert found == pytest.approx(wanted, **EXACT)

    def test_query_has_the_printed_weights(self):
        found = one_by_one(4, WORKED).solve(ALL, [1, 0, 1, 0])
        assert found.estimate == pytest.approx(42.01380301941, **EXACT)
        assert found.variance == pytest.approx(554.4500359454, **EXACT)
        wanted = [.4769230769231, .3644859813084, -.03271028037383, .4953271028037,
                  -.5000718907261, .2615384615385, .07009345794393, .2383896477354]  # fmt: skip
        assert found.weights() == pytest.approx(wanted, rel=1e-8)

    def test_weights_reproduce_the_query(self):
        weights = one_by_one(4, WORKED).solve(ALL, [1, 0, 1, 0]).weights()
        assert np.abs(weights @ H - [1, 0, 1, 0]).max() < 1e-13

    def test_answers_add_up_as_they_come(self):
        space, ranks, seen = RowSpace(4), [], []
        for row in WORKED:
            one_by_one(4, [row], space)
            ranks.append(space.rank)
            if space.estimable(ALL, [1, 0, 1, 0]):
                found = space.solve(ALL, [1, 0, 1, 0])
                seen.append((found.estimate, found.variance))
        assert ranks == [1, 2, 3, 3, 4, 4, 4, 4]
        wanted = [(36.8333333333, 1166.6666666667), (41.1504854369, 622.3300970874),
                  (41.7701091520, 620.8228379513), (42.0138030194, 554.4500359454)]  # fmt: skip
        assert np.array(seen) == pytest.approx(np.array(wanted), **EXACT)

    def test_gaussian_history(self):
        sigma = np.array([20.0, 12, 25, 12, 10, 30, 35, 12])
        space = built(4, rows_of(H, Y, sigma**2))
        cells = space.solve_many([([cell], 1.0) for cell in ALL]).estimates
        assert cells == pytest.approx(
            [26.17308252, 10.23958453, 18.31812604, 18.82075837], rel=1e-8
        )
        found = space.solve(ALL, [1, 0, 1, 0])
        assert found.estimate == pytest.approx(44.491208563536, **EXACT)
        assert found.variance**0.5 == pytest.approx(15.180542654323, **EXACT)


class TestNotEstimable:
    space = built(3, rows_of([[1, 1, 0], [0, 1, 1], [1, 2, 1]], [12.5, 17, 30], [2, 8, 2]))

    @pytest.mark.parametrize(
        ("query", "estimate", "variance"),
        [([1, 0, -1], -4.75, 7), ([1, 1, 0], 12.58333333333, 5 / 3), ([2, 3, 1], 42.5, 4)],
    )
    def test_dependent_rows_still_tell_what_they_span(self, query, estimate, variance):
        found = self.space.solve(range(3), query)
        assert (found.estimate, found.variance) == pytest.approx((estimate, variance), **EXACT)

    def test_weights_of_dependent_rows(self):
        assert self.space.solve(range(3), [1, 0, -1]).weights() == pytest.approx([1.5, -0.5, -0.5])
        assert self.space.solve(range(3), [1, 1, 0]).weights() == pytest.approx(
            [5 / 6, -1 / 6, 1 / 6]
        )

    @pytest.mark.parametrize("query", [[1, 0, 0], [1, 1, 1]])
    def test_a_query_outside_is_refused_with_its_residual(self, query):
        with pytest.raises(NotEstimable) as caught:
            self.space.solve(range(3), query)
        assert caught.value.residual == pytest.approx(1 / 3, rel=1e-9)
        assert not caught.value.cuts

    def test_atoms_are_split_only_by_rows(self):
        space = one_by_one(6, [(range(3), 1.0, 5.0, 1.0), (range(1, 4), 1.0, 7.0, 1.0)])
        groups = {
            tuple(np.flatnonzero(space.atoms.labels == atom)) for atom in range(len(space.atoms))
        }
        assert groups == {(0,), (1, 2), (3,), (4, 5)}
        with pytest.raises(NotEstimable) as caught:
            space.solve([1], 1.0)
        assert caught.value.cuts
        assert not space.estimable([1], 1.0)

    def test_a_nearly_dependent_row_leaves_its_residual(self):
        space = built(3, rows_of([[1, 1, 0], [1, 2, 1]], [5, 9], [1, 1]))
        found = space.solve([0, 1], [1.0, 1.0 + 3e-11])
        assert found.residual == pytest.approx(1e-11, rel=1e-3)
        with pytest.raises(NotEstimable):
            space.solve([0, 1], [1.0, 1.0 + 3e-7])

    def test_which_of_many_is_named(self):
        with pytest.raises(NotEstimable) as caught:
            self.space.solve_many([(range(2), 1.0), ([0], 1.0)])
        assert caught.value.place == 1


class TestManyRows:
    @pytest.mark.parametrize("seed", range(6))
    def test_at_once_or_one_by_one_is_the_same(self, seed):
        rng = np.random.default_rng(seed)
        cells, count = int(rng.integers(5, 60)), int(rng.integers(3, 90))
        rows = random_rows(rng, cells, count)
        matrix = dense(cells, rows)
        queries = rng.integers(-2, 3, (5, count)) @ matrix
        answers, variances = np.array([row[2:] for row in rows]).T
        wanted = least_squares(matrix, answers, variances, queries)
        later = built(cells, rows[: count // 2])
        later.extend(entries(cells, rows[count // 2 :]))
        for space in (one_by_one(cells, rows), built(cells, rows), later):
            found = space.solve_many([(range(cells), query) for query in queries])
            assert found.estimates == pytest.approx(wanted[0], rel=1e-9, abs=1e-9)
            assert found.variances == pytest.approx(wanted[1], rel=1e-9)
            assert np.abs(found.weights() @ matrix - queries).max() < 1e-10
            assert found.weights() @ answers == pytest.approx(found.estimates, rel=1e-8, abs=1e-8)
            assert (space.matrix[:, space.atoms.labels] == matrix).all()

    def test_planned_rows_have_variances_without_answers(self):
        known = one_by_one(4, WORKED)
        planned = one_by_one(4, [*WORKED[:-1], (*WORKED[-1][:2], float("nan"), WORKED[-1][3])])
        query = ALL, [1, 0, 1, 0]
        assert planned.solve(*query).variance == pytest.approx(known.solve(*query).variance)
        assert np.isnan(planned.solve(*query).estimate)

    @pytest.mark.parametrize("share", [1.0, 0.3])
    @pytest.mark.parametrize("how", ["add", "extend", "later", "disjoint"])
    def test_planned_rows_change_estimates_alone(self, how, share):
        rng = np.random.default_rng(6)
        cells = 150
        rows = random_rows(rng, cells, 30)
        if how == "disjoint":
            rows += [(range(2 * g, 2 * g + 2), 1.0, 0.5, 1.0 + g % 3) for g in range(75)]
        unknown = rng.random(len(rows)) < share
        planned = [
            (*row[:2], float("nan") if lost else row[2], row[3])
            for row, lost in zip(rows, unknown, strict=True)
        ]
        spaces = []
        for each in (rows, planned):
            first = len(each) // 2 if how == "later" else 0 if how == "add" else len(each)
            space = built(cells, each[:first])
            if how == "add":
                one_by_one(cells, each, space)
            else:
                space.extend(entries(cells, each[first:]))
            spaces.append(space)
        queries = rng.integers(-2, 3, (5, len(rows))) @ dense(cells, rows)
        known, found = (space.solve_many([(range(cells), q) for q in queries]) for space in spaces)
        assert np.isnan(found.estimates).all()
        assert found.variances == pytest.approx(known.variances, rel=1e-9)
        assert found.weights() == pytest.approx(known.weights(), rel=1e-9, abs=1e-12)
        assert (spaces[1].determined() == spaces[0].determined()).all()

    def test_a_batch_without_room_leaves_all_as_it_was(self, monkeypatch):
        space = built(9, [([0, 1], 1.0, 5.0, 1.0)])
        monkeypatch.setattr(blue, "ROOM", 8)
        crossing = [(range(3 * g, 3 * g + 3), 1.0, 1.0, 1.0) for g in range(3)]
        crossing += [(range(g, 9, 3), 1.0, 1.0, 1.0) for g in range(3)]
        with pytest.raises(RequestError, match="too many parts"):
            space.extend(entries(9, crossing))
        assert (space.rows, space.rank, len(space.atoms)) == (1, 1, 2)
        assert space.solve([0, 1], 1.0).estimate == pytest.approx(5.0)

    def test_a_copy_is_independent(self):
        space = one_by_one(4, WORKED[:3])
        before = space.solve(range(2), 1.0)
        other = space.copy()
        one_by_one(4, [([0], 1.0, 5.0, 1.0)], other)
        assert space.solve(range(2), 1.0).variance == before.variance
        assert not space.estimable([0], 1.0)

    def test_weights_stay_those_of_their_time(self):
        space = one_by_one(4, WORKED[:5])
        found = space.solve(ALL, [1, 0, 1, 0])
        early = found.weights()
        one_by_one(4, WORKED[5:6], space)
        assert found.weights() == pytest.approx(early, rel=1e-12)

    def test_recursion_agrees_with_a_factorisation(self, monkeypatch):
        monkeypatch.setattr(blue, "WORK", 0)
        rng = np.random.default_rng(12)
        cells, space, rows = 100, RowSpace(100), []
        for _ in range(200):
            low, high = np.sort(rng.choice(cells + 1, 2, replace=False)).tolist()
            variance = 10.0 ** rng.uniform(-3, 3)
            rows.append((range(low, high), 1.0, float(rng.normal() * variance**0.5), variance))
        one_by_one(cells, rows, space)
        exact = built(cells, rows)
        queries = [row[:2] for row in rows[::50]]
        found, wanted = space.solve_many(queries), exact.solve_many(queries)
        assert found.variances == pytest.approx(wanted.variances, rel=1e-9)
        off = np.abs(found.estimates - wanted.estimates) / np.sqrt(wanted.variances)
        assert off.max() < 1e-6

    @pytest.mark.parametrize("make", [built, one_by_one])
    def test_noises_too_far_apart_are_not_combined(self, make):
        answers = [
            ([-1, -1, -1], 1e16),
            ([1, 0, 1], 1e-16),
            ([-1, 0, 0], 1e-16),
            ([1, -1, -1], 1e16),
        ]
        rows = [(range(3), np.array(row, float), 1.0, variance) for row, variance in answers]
        query = range(3), [0.0, -2.0, -1.0]
        with pytest.raises(RequestError, match="noise of too different sizes") as refusal:
            make(3, rows).solve(*query)
        assert refusal.value.hint == "Leave out the noisiest answers."
        # the other noisy one is needed
        assert make(3, rows[1:]).solve(*query).estimate == pytest.approx(6)

    @pytest.mark.parametrize("variance", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_noise_without_variance_is_refused(self, variance):
        with pytest.raises(RequestError):
            one_by_one(3, [([0], 1.0, 1.0, variance)])

    def test_a_row_of_zeros_is_refused(self):
        with pytest.raises(RequestError):
            one_by_one(3, [([0], 0.0, 1.0, 1.0)])


class TestDisjointRows:
    @pytest.mark.parametrize("groups", [5, 100])
    def test_a_group_by_is_the_same_as_its_rows(self, groups):
        rng = np.random.default_rng(3)
        cells = 300
        keys = rng.integers(-1, groups, cells)
        keys[:groups] = np.arange(groups)
        answers, variances = rng.normal(size=groups), rng.uniform(0.5, 4, groups)
        values = rng.integers(1, 4, groups).astype(float)
        more = random_rows(rng, cells, 30)
        rows = [
            (np.flatnonzero(keys == g), values[g], answers[g], variances[g]) for g in range(groups)
        ]
        again = [(row[0], row[1], row[2] + 1, row[3]) for row in rows]
        fast = one_by_one(cells, [*more, *again], built(cells, rows))
        assert fast.groups == groups
        plain = one_by_one(cells, [*rows, *more, *again])
        assert plain.groups == 0
        matrix = dense(cells, [*rows, *more, *again])
        queries = rng.integers(-2, 3, (5, len(matrix))) @ matrix
        both = [space.solve_many([(range(cells), q) for q in queries]) for space in (fast, plain)]
        assert fast.rank == plain.rank
        assert both[0].estimates == pytest.approx(both[1].estimates, rel=1e-9, abs=1e-9)
        assert both[0].variances == pytest.approx(both[1].variances, rel=1e-9)
        assert both[0].weights() == pytest.approx(both[1].weights(), rel=1e-7, abs=1e-9)
        assert fast.misfit() == pytest.approx(plain.misfit(), rel=1e-9)
        assert (fast.matrix[:, fast.atoms.labels] == matrix).all()
        noise = rng.normal(size=(4, len(matrix)))
        assert fast.misfits([noise]) == pytest.approx(plain.misfits([noise]), rel=1e-9)

    @pytest.mark.parametrize("order", ["first", "mixed"])
    def test_a_batch_with_many_disjoint_rows(self, order):
        rng = np.random.default_rng(8)
        cells = 250
        rows = [
            (range(2 * g, 2 * g + 2), 1.0, float(rng.normal()), float(rng.uniform(1, 5)))
            for g in range(100)
        ]
        rows += random_rows(rng, cells, 60)
        if order == "mixed":
            rows = [rows[i] for i in rng.permutation(len(rows))]
        together, plain = built(cells, rows), one_by_one(cells, rows)
        assert together.groups >= 64
        matrix = dense(cells, rows)
        queries = rng.integers(-2, 3, (5, len(rows))) @ matrix
        found, wanted = (
            space.solve_many([(range(cells), q) for q in queries]) for space in (together, plain)
        )
        assert found.estimates == pytest.approx(wanted.estimates, rel=1e-9, abs=1e-9)
        assert found.variances == pytest.approx(wanted.variances, rel=1e-9)
        assert np.abs(found.weights() @ matrix - queries).max() < 1e-10
        assert together.determined().sum() == plain.determined().sum()


def test_weights_reproduce_queries_on_a_million_cells():
    rng = np.random.default_rng(20)
    cells = 1 << 20
    ends = np.sort(rng.choice(1024, (40, 2)) * 1024, axis=1)
    rows = [
        (range(int(low), int(high) + 1024), 1.0, float(rng.normal()), float(rng.uniform(1, 9)))
        for low, high in ends
    ]
    space = built(cells, rows)
    query = np.zeros(cells)
    for place in rng.choice(40, 6, replace=False):
        query[rows[place][0].start : rows[place][0].stop] += 1.0
    weights = space.solve(range(cells), query).weights()
    for weight, row in zip(weights, rows, strict=True):
        query[row[0].start : row[0].stop] -= weight
    assert np.abs(query).max() < 1e-12
