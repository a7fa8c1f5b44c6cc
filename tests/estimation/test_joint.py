"""Claims about exact values: worked examples, coverage, joint quantities."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpnb.errors import RequestError
from dpnb.estimation.history import History, Row
from dpnb.estimation.joint import Joint, noise_variance, simulated, snapped
from dpnb.estimation.mixed import ratio
from dpnb.estimation.scheffe import factor
from dpnb.privacy.calibrate import NoiseDistribution

LONG = os.environ.get("DPNB_LONG") == "1"
H = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
Y = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
B = (20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0)
LAPLACE = [NoiseDistribution("laplace", b) for b in B]
MIXED = [NoiseDistribution("laplace" if i % 2 == 0 else "gaussian", s)
         for i, s in enumerate((20.0, 12.0, 20.0, 12.0, 10.0, 30.0, 40.0, 12.0))]  # fmt: skip
GAUSSIAN = [
    NoiseDistribution("gaussian", s) for s in (20.0, 12.0, 25.0, 12.0, 10.0, 30.0, 35.0, 12.0)
]
Q = range(4), [1, 0, 1, 0]
HALF = {"rel": 1e-6, "abs": 0}


def joint(distributions, *queries):
    history = History.of(H, Y, distributions)
    return history.joint([history.row(query) for query in queries] or [Q])


class TestWorkedExample:
    one = joint(LAPLACE)

    @pytest.mark.parametrize(
        ("alpha", "half"),
        [(0.2, 28.94770697917), (0.1, 38.45805501941), (0.05, 47.38332970714),
         (0.01, 66.88488644957), (0.001, 93.30055818297)],
    )  # fmt: skip
    def test_margins_of_error(self, alpha, half):
        assert self.one.margin_of_error(0, alpha) == pytest.approx(half, **HALF)

    def test_probabilities(self):
        assert self.one.probability(0, ">", 0) == pytest.approx(0.9619041161415, abs=1e-8)
        assert self.one.probability(0, ">=", 10) == pytest.approx(0.9195377805779, abs=1e-8)
        assert self.one.probability(0, "<", 10) == pytest.approx(1 - 0.9195377805779, abs=1e-8)
        assert self.one.probability(0, "<=", 0) == pytest.approx(1 - 0.9619041161415, abs=1e-8)
        assert self.one.between(0, 30, 60) == pytest.approx(0.5070351908561, abs=1e-8)

    @pytest.mark.parametrize(
        ("half", "confidence"),
        [(25, 0.7380276917545), (30, 0.8142447285551), (50, 0.9594437496877)],
    )
    def test_confidences(self, half, confidence):
        assert self.one.confidence(0, half) == pytest.approx(confidence, abs=1e-8)

    @pytest.mark.parametrize(
        ("query", "estimate", "variance", "half"),
        [
            ([1, 1, 1, 1], 71.6925952552, 520.1725377426, 46.059767),
            ([1, 0, 0, 0], 24.9923076923, 455.3846153846, 43.417257),
            ([0, 1, 0, 0], 10.1769230769, 98.4615384615, 20.372770),
            ([0, 0, 0, 1], 19.5018691589, 67.2897196262, 16.477578),
            ([1, -1, 0, 0], 14.8153846154, 701.5384615385, 53.342503),
        ],
    )
    def test_other_queries(self, query, estimate, variance, half):
        found = joint(LAPLACE, query)
        assert found.estimates[0] == pytest.approx(estimate, rel=1e-8)
        assert found.distribution().sd ** 2 == pytest.approx(variance, rel=1e-8)
        assert found.margin_of_error(0, 0.05) == pytest.approx(half, **HALF)

    def test_covariance(self):
        found = joint(LAPLACE, [1, 0, 1, 0], [1, 1, 1, 1]).covariance()
        wanted = [[554.4500359454, 454.4356578], [454.4356578, 520.1725377426]]
        assert found == pytest.approx(np.array(wanted), rel=1e-8)

    def test_mixed_noises(self):
        found = joint(MIXED)
        distribution = found.distribution()
        assert found.estimates[0] == pytest.approx(44.44936247722, rel=1e-8)
        assert distribution.sd**2 == pytest.approx(287.3052418378, rel=1e-8)
        wanted = [3.856399171611, 0.7351597345717, 4.206273714638, 2.325834618873]
        assert sorted(distribution.scales) == pytest.approx(sorted(wanted), rel=1e-8)
        assert distribution.variance == pytest.approx(210.2762025519, rel=1e-8)
        halves = [found.margin_of_error(0, alpha) for alpha in (0.2, 0.05, 0.01)]
        assert halves == pytest.approx([21.62608217757, 33.2958146836, 44.16341318524], **HALF)
        assert found.probability(0, ">", 0) == pytest.approx(0.9952258127436, abs=1e-8)
        assert found.confidence(0, 25) == pytest.approx(0.8608880157333, abs=1e-8)

    def test_gaussian_noises_make_one_term(self):
        found = joint(GAUSSIAN)
        assert found.distribution().scales == ()
        assert found.estimates[0] == pytest.approx(44.491208563536, rel=1e-8)
        assert found.distribution().sd == pytest.approx(15.180542654323, rel=1e-8)
        assert found.margin_of_error(0, 0.05) == pytest.approx(29.753316868247, rel=1e-8)

    @pytest.mark.parametrize(
        ("query", "half"), [([1, 0, -1], 5.416097), ([1, 1, 0], 2.674370), ([2, 3, 1], 4.113003)]
    )
    def test_dependent_rows(self, query, half):
        distributions = [NoiseDistribution("laplace", b) for b in (1.0, 2.0, 1.0)]
        history = History.of([[1, 1, 0], [0, 1, 1], [1, 2, 1]], [12.5, 17, 30], distributions)
        assert history.estimate(range(3), query).margin_of_error(0, 0.05) == pytest.approx(
            half, **HALF
        )

    def test_shares_of_the_variance(self):
        found = self.one.variance_shares(0)
        assert [share for *_, share in found] == sorted((s for *_, s in found), reverse=True)
        assert math.fsum(share for *_, share in found) == pytest.approx(1)
        total = math.fsum(weight * Y[int(name.split()[1]) - 1] for name, weight, _ in found)
        assert total == pytest.approx(42.01380301941, rel=1e-8)

    def test_plain_data(self):
        found = Joint.from_dict(self.one.to_dict())
        assert (found.estimates == self.one.estimates).all()
        assert (found.weights == self.one.weights).all()
        assert (found.distributions, found.granularities, found.names) == (
            self.one.distributions, self.one.granularities, self.one.names,
        )  # fmt: skip

    def test_combinations(self):
        found = joint(LAPLACE, [1, 0, 0, 0], [0, 1, 0, 0])
        for combination in ({0: 1.0, 1: -1.0}, [1.0, -1.0], np.array([1.0, -1.0])):
            assert found.distribution(combination).sd ** 2 == pytest.approx(
                701.5384615385, rel=1e-8
            )
            assert found.estimate(combination) == pytest.approx(14.8153846154, rel=1e-8)
        assert found.distribution(0).sd ** 2 == pytest.approx(455.3846153846, rel=1e-8)

    def test_planned_answers_leave_the_widths(self):
        history = History.of(H[:-1], Y[:-1], LAPLACE[:-1])
        history.add(Row("planned", range(4), H[-1], 0.0, LAPLACE[-1], planned=True))
        found = history.estimate(*Q)
        assert found.margin_of_error(0, 0.05) == pytest.approx(47.38332970714, **HALF)
        assert math.isnan(found.estimates[0])
        assert math.isnan(Joint.from_dict(found.to_dict()).estimates[0])


class TestRefusals:
    two = joint(LAPLACE, [1, 0, 0, 0], [0, 1, 0, 0])

    @pytest.mark.parametrize(
        "ask",
        [
            lambda j: j.margin_of_error(0, 0.0),
            lambda j: j.margin_of_error(0, -0.1),
            lambda j: j.margin_of_error(0, 1.0),
            lambda j: j.margin_of_error(2, 0.1),
            lambda j: j.between(0, 5, 4),
            lambda j: j.probability(0, "=", 4),
            lambda j: j.confidence(0, -1.0),
            lambda j: j.distribution(),
            lambda j: j.distribution([1.0]),
            lambda j: j.distribution({5: 1.0}),
            lambda j: j.distribution([1.0, math.nan]),
            lambda j: j.slope([1.0, 1.0]),
            lambda j: j.slope([1.0]),
            lambda j: j.bonferroni(0, 0.05, 0),
        ],
    )
    def test_what_makes_no_sense(self, ask):
        with pytest.raises(RequestError):
            ask(self.two)

    def test_a_lattice_much_coarser_than_the_noise(self):
        distribution = NoiseDistribution("laplace", 0.001)
        with pytest.raises(RequestError, match="much smaller than the step") as refusal:
            noise_variance(distribution, 1.0)
        assert refusal.value.hint == "Use a finer lattice."
        # 2 g^2 p / (1 - p)^2 with p = exp(-100)
        assert noise_variance(distribution, 0.1) == pytest.approx(0.02 * math.exp(-100))


class TestSnapping:
    def test_whole_numbers_move_inward(self):
        half = joint(LAPLACE).margin_of_error(0, 0.2)
        assert snapped(42.01380301941 - half, 42.01380301941 + half) == (14, 70)

    def test_ends_that_are_whole_stay(self):
        assert snapped(3.0000000000001, 6.9999999999999) == (3, 7)

    def test_without_a_whole_number_the_nearest_is_named(self):
        assert snapped(3.3, 3.4) == (3, 3)

    def test_infinite_ends_stay(self):
        assert snapped(-math.inf, 2.5) == (-math.inf, 2)
        assert snapped(-math.inf, math.inf) == (-math.inf, math.inf)

    def test_coverage_stays(self):
        rng = np.random.default_rng(2)
        noise = rng.laplace(scale=3, size=20_000)
        half = NoiseDistribution("laplace", 3.0).quantile(0.1)
        plain = np.abs(noise) <= half
        pairs = [snapped(50 + each - half, 50 + each + half) for each in noise]
        moved = np.array([low <= 50 <= high for low, high in pairs])
        assert (moved >= plain).all()
        assert moved.mean() == pytest.approx(plain.mean(), abs=1e-3)


class TestCoverage:
    def missed(self, seed, draws, stretch=1.0):
        """z-scores of the miss rates, and of the bias, of one random history."""
        rng = np.random.default_rng(seed)
        rows, cells = int(rng.integers(2, 16)), int(rng.integers(2, 13))
        matrix = rng.integers(-1, 3, (rows, cells)).astype(float)
        matrix[:, 0] += 0.5
        matrix[-1] = matrix[0] + matrix[rows // 2]
        families = rng.choice(["laplace", "gaussian"], rows)
        distributions = [NoiseDistribution(f, float(10 ** rng.uniform(-1, 1))) for f in families]
        history = History.of(matrix, [0.0] * rows, distributions)
        found = history.estimate(range(cells), rng.integers(-2, 3, rows) @ matrix)
        noise = np.concatenate(list(simulated(distributions, [0.0] * rows, draws, seed)))
        errors = stretch * noise @ found.weights[0]
        scores = []
        for alpha in (0.2, 0.05, 0.01):
            rate = np.mean(np.abs(errors) > found.margin_of_error(0, alpha))
            scores.append((rate - alpha) / math.sqrt(alpha * (1 - alpha) / draws))
        return scores, errors.mean() / (errors.std() / math.sqrt(draws))

    @pytest.mark.parametrize("seed", range(60 if LONG else 8))
    def test_intervals_miss_as_often_as_they_say(self, seed):
        scores, bias = self.missed(seed, 100_000)
        assert np.abs(scores).max() < 4
        assert abs(bias) < 4

    def test_noise_of_another_scale_is_found_out(self):
        for seed in range(4):
            scores, _ = self.missed(seed, 100_000, stretch=1.05)
            assert max(scores) > 4

    def test_lattice_noise_is_covered(self):
        """Six answers on a lattice that is coarse beside their noise."""
        rng = np.random.default_rng(13)
        for scale in (0.3, 1.0, 3.0):
            history = History(6)
            distributions = [NoiseDistribution("laplace", scale)] * 6
            history.extend(
                Row(f"r{i}", [i], 1.0, 0.0, distribution, granularity=1.0)
                for i, distribution in enumerate(distributions)
            )
            found = history.estimate(range(6), rng.uniform(0.5, 1.5, 6))
            noise = np.concatenate(list(simulated(distributions, [1.0] * 6, 100_000, 3)))
            assert (noise == np.rint(noise)).all()
            assert noise.std() == pytest.approx(math.sqrt(history.rows[0].variance), rel=0.02)
            missed = np.mean(np.abs(noise @ found.weights[0]) > found.margin_of_error(0, 0.05))
            assert missed <= 0.052

    def test_the_largest_of_many_needs_more(self):
        """Of 100 empty groups the largest answer is covered pointwise in 8 % of all runs."""
        rng = np.random.default_rng(11)
        history = History.of(np.eye(100), [0.0] * 100, NoiseDistribution("laplace", 1.0))
        found = history.joint([([cell], 1.0) for cell in range(100)])
        largest = rng.laplace(size=(4000, 100)).max(axis=1)
        pointwise = np.mean(largest <= found.margin_of_error(0, 0.05))
        assert pointwise == pytest.approx(0.0797, abs=0.02)
        assert np.mean(largest <= found.bonferroni(0, 0.05, 100)) >= 0.96
        assert np.mean(largest <= factor(0, 100, 0.05) * found.distribution(0).sd) >= 0.95


class TestSimultaneous:
    def test_bonferroni_shares_the_failure_probability(self):
        found = joint(LAPLACE)
        assert found.bonferroni(0, 0.05, 10) == found.margin_of_error(0, 0.005)


class TestJointDraws:
    @pytest.mark.parametrize("distributions", [LAPLACE, MIXED, GAUSSIAN])
    def test_draws_have_the_joint_distribution(self, distributions):
        found = joint(distributions, [1, 0, 1, 0], [1, 1, 1, 1])
        draws = found.draws(200_000, seed=1)
        assert draws.mean(axis=0) == pytest.approx(found.estimates, abs=0.3)
        assert np.cov(draws.T) == pytest.approx(found.covariance(), rel=0.02)
        for place in (0, 1):
            half = found.margin_of_error(place, 0.05)
            missed = np.mean(np.abs(draws[:, place] - found.estimates[place]) > half)
            assert missed == pytest.approx(0.05, abs=0.002)

    def test_draws_are_repeatable(self):
        found = joint(MIXED)
        assert (found.draws(100) == found.draws(100)).all()
        assert (found.draws(100) != found.draws(100, seed=1)).any()

    def test_difference(self):
        found = joint(LAPLACE, [1, 0, 0, 0], [0, 1, 0, 0]).difference(0, 1, 0.05)
        assert found.value == pytest.approx(14.8153846154, rel=1e-8)
        assert found.high - found.value == pytest.approx(53.342503, **HALF)
        assert found.confidence == 0.95

    def test_what_has_no_weight_is_not_used(self):
        """Weights of answers that do not matter are 0 only up to the solver's rounding."""
        made = joint(LAPLACE)
        names = ("a/0", "a/1", "b/0", *(f"c/{i}" for i in range(5)))
        weights = np.array([[0, 0.5, -1e-15, 0, 0, 1e-13, 0, 0]])
        assert replace(made, names=names, weights=weights).used == {"a"}
        assert replace(made, names=names).used == {"a", "b", "c"}

    @pytest.mark.parametrize("sign", [1, -1])
    def test_ratio_of_gaussians_agrees_with_fieller(self, sign):
        distributions = [NoiseDistribution("gaussian", 2.0), NoiseDistribution("gaussian", 1.0)]
        history = History.of(np.eye(2), [60.0, sign * 20.0], distributions)
        found = ratio(history.joint([([0], 1.0), ([1], 1.0)]), 0, 1, 0.05)
        z = stats.norm.ppf(0.975)
        # (60 - 20 r)^2 = z^2 (4 + r^2)
        low, high = sorted(np.roots([400 - z**2, -sign * 2400, 3600 - 4 * z**2]).real)
        wanted = (sign * 3.0, low, high)
        assert (found.value, found.low, found.high) == pytest.approx(wanted, rel=1e-6)

    def test_a_ratio_to_itself_is_one(self):
        found = ratio(joint(MIXED), 0, 0)
        assert (found.low, found.value, found.high) == (1, 1, 1)

    @pytest.mark.parametrize("family", ["gaussian", "laplace"])
    @pytest.mark.parametrize(("alpha", "exact"), [(0.2, 0.5), (0.2, -0.5), (0.5, 0.7)])
    def test_ratios_hold_where_noise_may_hide_the_denominator(self, family, alpha, exact, reaches):
        """Quantiles of joint draws hold in 42 % of cases instead of 50 here, and in 75 instead of 80.

        The interval holds a ratio r exactly where |S - r C| is at most the margin of error q of its noise, or
        where the sign of C is not told. So it is enough to look on either side of these borders.
        """
        distributions = [NoiseDistribution(family, 1e-3), NoiseDistribution(family, 1.0)]
        made = History.of(np.eye(2), [0.0, 0.0], distributions).joint([([0], 1.0), ([1], 1.0)])
        r, unsure = 100 / exact, made.margin_of_error(1, alpha)
        q = made.distribution({0: 1.0, 1: -r}).margin_of_error(alpha)
        noise, truth = (
            next(iter(simulated(distributions, [0.0, 0.0], 20_000, 7))),
            np.array([100.0, exact]),
        )
        above, below = (truth + noise).T
        assert reaches((np.abs(above - r * below) <= q) | (np.abs(below) <= unsure), 1 - alpha)

        def holds(above, below):
            found = ratio(replace(made, estimates=np.array([above, below])), 0, 1, alpha)
            return found.low <= r <= found.high

        chosen = [*np.quantile(below, (np.arange(8) + 0.5) / 8), -1.01 * unsure, 1.01 * unsure]
        for value, side in itertools.product(chosen, (-1, 1)):
            assert holds(r * value + side * 0.999 * q, value)
            assert holds(r * value + side * 1.001 * q, value) is bool(abs(value) <= unsure)

    def test_a_ratio_to_what_may_be_nothing_is_not_told(self):
        history = History.of(np.eye(2), [60.0, 0.5], NoiseDistribution("gaussian", 1.0))
        found = ratio(history.joint([([0], 1.0), ([1], 1.0)]), 0, 1)
        assert (found.low, found.high) == (-math.inf, math.inf)

    def test_slope(self):
        history = History.of(np.eye(3), [1.0, 3.0, 5.5], NoiseDistribution("laplace", 1.0))
        found = history.joint([([cell], 1.0) for cell in range(3)])
        line = found.slope([0.0, 1.0, 2.0], alpha=0.05)
        assert line.value == pytest.approx(2.25)
        # half the difference of the ends: two Laplace noises of scale 1/2
        assert line.high - line.value == pytest.approx(4.11300328072 / 2, **HALF)
        assert found.slope([0.0, 1.0], [0, 2]).value == pytest.approx(4.5)

    def test_argmax(self):
        history = History.of(np.eye(3), [10.0, 10.0, 0.0], NoiseDistribution("gaussian", 2.0))
        found = history.joint([([cell], 1.0) for cell in range(3)])
        assert found.argmax() == pytest.approx([0.5, 0.5, 0.0], abs=0.02)
        assert found.argmax([2, 0])[1] > 0.99

    def test_quantiles_of_any_function(self):
        found = joint(GAUSSIAN)
        low, high = found.quantiles(lambda draws: draws[:, 0], 0.05, n=200_000)
        assert (low, high) == pytest.approx(found.interval(0, 0.05), rel=0.02)
