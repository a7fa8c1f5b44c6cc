"""Histories: hygiene, consistency, what is missing, and that no data can come near."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dpnb.estimation.history as module
from dpnb.errors import RequestError
from dpnb.estimation.history import Consistency, History, Row
from dpnb.estimation.joint import noise_variance
from dpnb.privacy.calibrate import NoiseDistribution

pytestmark = pytest.mark.fast

H = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
Y = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
B = (20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0)
LAPLACE = [NoiseDistribution("laplace", b) for b in B]
UNIT = NoiseDistribution("laplace", 1.0)


def row(name="a", index=(0,), value=1.0, answer=3.0, distribution=UNIT, **rest):
    return Row(name, list(index), value, answer, distribution, **rest)


class TestRow:
    def test_is_stored_in_its_shortest_form(self):
        made = row(index=(3, 1, 2), value=[2.0, 2.0, 2.0])
        assert (made.index, made.value, made.sensitivity, made.variance) == (
            range(1, 4),
            2.0,
            2.0,
            2.0,
        )

    def test_a_planned_row_forgets_its_answer(self):
        assert math.isnan(row(planned=True).answer)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"value": 0.0},
            {"index": ()},
            {"value": float("nan")},
            {"answer": float("nan")},
            {"answer": float("inf")},
            {"distribution": NoiseDistribution("laplace", 0.0)},
            {"distribution": NoiseDistribution("gaussian", float("inf"))},
            {"distribution": NoiseDistribution("cauchy", 1.0)},
            {"distribution": 3.0},
            {"granularity": -1.0},
            {"granularity": float("nan")},
        ],
    )
    def test_refuses_what_is_no_release(self, wrong):
        with pytest.raises(RequestError):
            row(**wrong)

    def test_no_estimate_makes_a_row(self):
        history = History.of(H, Y, LAPLACE)
        for estimate in (
            history.estimate([0], 1.0),
            history.space.solve([0], 1.0),
            history.estimate([0], 1.0).distribution(),
        ):
            with pytest.raises(RequestError):
                row(answer=estimate)
            with pytest.raises(RequestError):
                history.add(estimate)

    def test_lattice_noise_has_the_variance_of_its_lattice(self):
        p = math.exp(-1 / 0.7)
        wanted = 2 * p / (1 - p) ** 2
        assert noise_variance(NoiseDistribution("laplace", 0.7), 1.0) == pytest.approx(
            wanted, rel=1e-12
        )
        assert noise_variance(NoiseDistribution("laplace", 0.7)) == pytest.approx(0.98)


class TestAdding:
    def test_no_release_counts_twice(self):
        history = History(2)
        history.add(row())
        with pytest.raises(RequestError, match="already"):
            history.add(row())
        with pytest.raises(RequestError, match="already"):
            history.extend([row("b"), row("b")])
        assert len(history) == 1

    def test_no_other_version_enters(self):
        with pytest.raises(RequestError, match="version 2"):
            History(2, version=1).add(row(version=2))

    def test_cells_outside_the_domain_are_refused(self):
        with pytest.raises(RequestError):
            History(2).add(row(index=(2,)))

    def test_a_batch_enters_as_a_whole_or_not_at_all(self):
        history = History(3)
        with pytest.raises(RequestError):
            history.extend([row("a"), row("b", version=2)])
        assert (len(history), history.space.rows) == (0, 0)

    @pytest.mark.parametrize("disjoint", [True, False])
    def test_a_batch_is_the_same_as_one_by_one(self, disjoint):
        rng = np.random.default_rng(4)
        rows = [row(f"g{g}", (g, g + 100), 1.0 + g % 3, float(rng.normal())) for g in range(100)]
        rows += [] if disjoint else [row("all", range(200), 1.0, 5.0)]
        one, many = History(201), History(201)
        many.extend(rows)
        for each in rows:
            one.add(each)
        queries = [((0, 1, 100, 101), [1.0, -2.0, 1.0, -2.0]), ((7, 107), 1.0)]
        a, b = one.joint(queries), many.joint(queries)
        assert a.estimates == pytest.approx(b.estimates, rel=1e-9)
        assert a.covariance() == pytest.approx(b.covariance(), rel=1e-9, abs=1e-12)
        assert a.names == b.names
        assert a.weights == pytest.approx(b.weights, rel=1e-9, abs=1e-12)
        assert many.space.groups == 100

    def test_a_copy_takes_planned_rows_alone(self):
        history = History.of(H, Y, LAPLACE)
        tried = history.copy()
        tried.add(row("new", (0,), planned=True))
        before, after = (h.estimate([0], 1.0).distribution().sd for h in (history, tried))
        assert after < before
        assert len(history) == 8


class TestQuerying:
    def test_dense_queries(self):
        history = History.of(H, Y, LAPLACE)
        joint = history.joint([history.row([1, 0, 1, 0]), history.row([1, 1, 1, 1])])
        assert joint.estimates == pytest.approx([42.01380301941, 71.6925952552], rel=1e-8)
        with pytest.raises(RequestError):
            history.row([1, 0, 1])

    def test_what_is_not_told_is_known(self):
        history = History.of([[1, 1, 0]], [5.0], UNIT)
        found = [history.estimable(*query) for query in (([0, 1], 1.0), ([0], 1.0), ([2], 1.0))]
        assert found == [True, False, False]


class TestConsistency:
    def test_worked_example(self):
        found = History.of(H, Y, LAPLACE).consistency()
        # by rational arithmetic
        assert found.statistic == pytest.approx(1.4183905463695183, rel=1e-12)
        assert found.expected == 4
        # 4e6 draws give 32.62
        assert found.threshold == pytest.approx(32.6, rel=0.03)
        assert not found.alarmed

    def test_gaussian_histories_have_chi_squares(self):
        found = History.of(H, Y, [NoiseDistribution("gaussian", 10.0)] * 8).consistency()
        assert found.threshold == pytest.approx(stats.chi2.ppf(0.999, 4))

    def test_the_statistic_has_its_expected_mean(self):
        rng = np.random.default_rng(5)
        history = History.of(H, Y, LAPLACE)
        found = history.space.misfits([rng.laplace(scale=B, size=(40_000, 8))])
        error = found.std() / len(found) ** 0.5
        assert abs(found.mean() - 4) < 4 * error
        assert np.mean(found > history.consistency().threshold) < 0.002

    def test_a_changed_answer_raises_the_alarm(self):
        changed = [*Y[:3], Y[3] + 300, *Y[4:]]
        assert History.of(H, changed, LAPLACE).consistency().alarmed

    def test_nothing_to_compare(self):
        found = History.of([[1, 1]], [3.0], UNIT).consistency()
        assert (found.statistic, found.expected, found.alarmed) == (0.0, 0, False)
        assert Consistency.from_dict(found.to_dict()) == found

    def test_planned_rows_cannot_be_compared(self):
        history = History(1)
        history.add(row(planned=True))
        with pytest.raises(RequestError):
            history.consistency()

    def test_plain_data(self):
        found = History.of(H, Y, LAPLACE).consistency()
        assert Consistency.from_dict(found.to_dict()) == found


class TestCheapestMissing:
    def gives(self, history, index, value, missing):
        tried = history.copy()
        tried.add(Row("tried", missing.index, missing.value, 0.0, UNIT))
        return tried.estimable(index, value)

    def test_nothing_is_missing(self):
        assert History.of(H, Y, LAPLACE).cheapest_missing([0], 1.0) is None

    def test_of_an_empty_history_the_query_itself(self):
        found = History(5).cheapest_missing([1, 2], 1.0)
        assert (found.kind, found.index, found.value, found.sensitivity) == (
            "query",
            range(1, 3),
            1.0,
            1.0,
        )

    def test_the_small_rest_of_a_known_total(self):
        history = History(10)
        history.add(row("total", range(10)))
        found = history.cheapest_missing(range(9), 1.0)
        assert (found.kind, found.index, found.cells) == ("complement", range(9, 10), 1)
        assert self.gives(history, range(9), 1.0, found)

    def test_only_what_is_not_known_yet(self):
        history = History(10)
        history.add(row("known", [0, 1, 2], 5.0))
        found = history.cheapest_missing(range(5), [7.0, 7.0, 7.0, 1.0, 1.0])
        assert (found.kind, found.index, found.sensitivity) == ("part", range(3, 5), 1.0)
        assert self.gives(history, range(5), [7.0, 7.0, 7.0, 1.0, 1.0], found)

    def test_without_the_total_no_complement(self):
        history = History(10)
        history.add(row("most", range(9)))
        found = history.cheapest_missing(range(8), 1.0)
        assert found.kind != "complement"
        assert self.gives(history, range(8), 1.0, found)

    @pytest.mark.parametrize("seed", range(15))
    def test_it_always_suffices_and_never_costs_more_than_the_query(self, seed):
        rng = np.random.default_rng(seed)
        matrix = rng.integers(-1, 3, (int(rng.integers(1, 5)), 7)).astype(float)
        matrix[:, 0] += 1.5
        history = History.of(matrix, rng.normal(size=len(matrix)), UNIT)
        query = history.row(rng.integers(-2, 3, 7) + 0.5)
        found = history.cheapest_missing(*query)
        assert self.gives(history, *query, found)
        assert found.sensitivity <= np.abs(np.asarray(query[1])).max()


def test_inference_imports_nothing_that_reads_data():
    package = Path(module.__file__).parents[1]
    allowed = {"dpnb.errors", "dpnb.privacy.calibrate"}
    estimation = ("atoms", "blue", "history", "joint", "bounds")
    for name in (*(f"estimation/{each}" for each in estimation), "answers/fresh"):
        tree = ast.parse((package / f"{name}.py").read_text("utf-8"))
        found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        found |= {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        own = {each for each in found if each.split(".")[0] == "dpnb"}
        assert own
        assert {each for each in own if not each.startswith("dpnb.estimation.")} <= allowed
        inner = {each.split(".")[2] for each in own if each.startswith("dpnb.estimation.")}
        assert inner <= {"atoms", "blue", "history", "joint", "noise"}
