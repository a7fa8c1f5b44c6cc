"""Selecting k candidates has the distribution of k exponential mechanisms, at the cost that is charged."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from dpnb.privacy.noise import SecureNoise
from dpnb.privacy.one_off import _missing, gumbel_scale, top_k

FINE = 2**12


@pytest.fixture(scope="module")
def fits():
    """Whether counts may well come from the given probabilities."""

    def check(counts, distribution):
        counts, distribution = np.asarray(counts, float), np.asarray(distribution, float)
        return bool(
            stats.chisquare(counts, distribution / distribution.sum() * counts.sum()).pvalue > 1e-9
        )

    return check


def softmax(scores, scale):
    logs = np.asarray(scores, float) / scale
    return np.exp(logs - logsumexp(logs))


class TestGumbelScale:
    @pytest.mark.parametrize(
        ("delta", "rho", "scale"),
        [
            (4, "0.5", 8.94427191),
            (16, "0.5", 35.77708764),
            (16, "0.05", 113.13708499),
            (3.2e6, "0.5", 7155417.528),
            (2, "0.5", 4.472135955),
            (1, "0.5", 2.2360679775),
        ],
    )
    def test_oracle_t2(self, delta, rho, scale):
        assert gumbel_scale(2 * delta, 5, Fraction(rho)) == pytest.approx(scale, rel=1e-9)

    @pytest.mark.parametrize("spread", [1, 3.7, 2_621_446, 1e15])
    @pytest.mark.parametrize("k", [1, 5, 100])
    @pytest.mark.parametrize("rho", ["0.05", "1e-9", "0.3333", "1000"])
    def test_k_selections_cost_at_most_rho(self, spread, k, rho):
        scale = Fraction(gumbel_scale(spread, k, Fraction(rho)))
        cost = k * (Fraction(spread) / scale) ** 2 / 8
        assert Fraction(rho) * Fraction(999_999, 10**6) < cost <= Fraction(rho)


class TestLoss:
    """The divergence of the exact distribution, between tables whose scores differ."""

    ORDERS = (1.01, 1.5, 2, 4, 10, 50)

    @staticmethod
    def divergence(order, p, q):
        return logsumexp(order * p + (1 - order) * q) / (order - 1)

    def ratios(self, scores, changes, scale, spread):
        before = np.asarray(scores, float) / scale
        after = (np.asarray(scores, float) + changes) / scale
        p, q = before - logsumexp(before), after - logsumexp(after)
        limit = (spread / scale) ** 2 / 8
        return [
            self.divergence(order, *pair) / (order * limit)
            for order in self.ORDERS
            for pair in ((p, q), (q, p))
        ]

    def test_it_is_never_above_what_is_charged(self, size):
        rng = np.random.default_rng(10)
        for _ in range(size(300)):
            count = int(rng.integers(2, 7))
            scale = gumbel_scale(
                2.0, 1, Fraction(str(10 ** rng.uniform(-3, 1))).limit_denominator(10**6)
            )
            scores = rng.normal(0, 3 * scale, count)
            ends = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], count)
            assert max(self.ratios(scores, ends, scale, 2.0)) <= 1 + 1e-9

    def test_it_is_nearly_reached_so_the_constant_cannot_be_lowered(self):
        found = self.ratios([0.0, 0.0], [1.0, -1.0], 60.0, 2.0)
        assert max(found) > 0.9998

    def test_k_ordered_selections_cost_k_times_one(self):
        rng = np.random.default_rng(3)
        for _ in range(40):
            count = int(rng.integers(2, 5))
            scores, changes = rng.normal(0, 2, count), rng.choice([-1.0, 1.0], count)
            distributions = []
            for values in (scores, scores + changes):
                distribution = []
                for first, second in itertools.permutations(range(count), 2):
                    rest = np.delete(values, first)
                    distribution.append((values[first] - logsumexp(values))
                               + (values[second] - logsumexp(rest)))  # fmt: skip
                distributions.append(np.array(distribution))
            for order in self.ORDERS:
                assert self.divergence(order, *distributions) <= order * 2 * 2.0**2 / 8 + 1e-9


class TestTopK:
    def run(self, active, scores, size, k, scale, times):
        noise = SecureNoise()
        active, scores = np.asarray(active), np.asarray(scores, dtype=np.int64)
        return [top_k(active, scores, size, k, scale, noise) for _ in range(times)]

    def test_one_selection_is_the_exponential_mechanism(self, size, fits):
        """Scores 3, 2.5, 1, 0 at scale 2 / 1.3."""
        scores, scale = np.array([3, 2.5, 1, 0]) * FINE, 2 / 1.3 * FINE
        found = self.run(range(4), scores, 4, 1, scale, size(12_000))
        distribution = softmax(scores, scale)
        assert distribution == pytest.approx([0.46787, 0.33805, 0.12751, 0.06657], abs=1e-5)
        counts = np.bincount([pick for (pick,) in found], minlength=4)
        assert fits(counts, distribution)
        assert not fits(counts, softmax(scores, 1.3 * scale))

    def test_ordered_pairs_are_sequential_selections(self, size, fits):
        scores, scale = np.array([3, 2.5, 1, 0]) * FINE, 2 / 1.3 * FINE
        found = self.run(range(4), scores, 4, 2, scale, size(6_000))
        distribution = softmax(scores, scale)
        pairs = list(itertools.permutations(range(4), 2))
        expected = [distribution[a] * distribution[b] / (1 - distribution[a]) for a, b in pairs]
        assert fits([found.count(list(pair)) for pair in pairs], expected)
        assert not fits([found.count(list(pair[::-1])) for pair in pairs], expected)

    def test_idle_candidates_take_part_as_if_each_had_its_own_noise(self, size, fits):
        """Active scores 5, 2, -1 among 50 idle ones, at scale 2."""
        scores, scale = np.array([5, 2, -1]) * FINE, 2.0 * FINE
        active = [7, 30, 52]
        found = self.run(active, scores, 53, 1, scale, size(12_000))
        counts = np.bincount([pick for (pick,) in found], minlength=53)
        full = np.zeros(53)
        full[active] = scores
        distribution = softmax(full, scale)
        idle = np.delete(distribution, active).sum()
        assert (*distribution[active], idle) == pytest.approx(
            (0.186, 0.042, 0.009, 0.763), abs=1e-3
        )
        assert fits(
            [*counts[active], np.delete(counts, active).sum()], [*distribution[active], idle]
        )
        assert fits(np.delete(counts, active), np.ones(50))

    def test_repeated_selections_with_idle_ones_are_sequential(self, size, fits):
        scores, scale = np.array([2, -1]) * FINE, 1.0 * FINE
        found = self.run([0, 2], scores, 5, 3, scale, size(6_000))
        full = np.array([2, 0, -1, 0, 0.0])
        triples = list(itertools.permutations(range(5), 3))
        expected = []
        for triple in triples:
            chance, left = 1.0, list(range(5))
            for pick in triple:
                chance *= math.exp(full[pick] - logsumexp(full[left]))
                left.remove(pick)
            expected.append(chance)
        assert fits([found.count(list(triple)) for triple in triples], expected)

    @pytest.mark.parametrize(
        ("active", "size"), [([], 3), ([0], 3), ([0, 1, 2], 3), ([1], 2), ([0, 2], 3)]
    )
    def test_all_candidates_can_be_selected_each_once(self, active, size):
        (found,) = self.run(active, [4] * len(active), size, size, 2.0, 1)
        assert sorted(found) == list(range(size))

    def test_spaces_far_too_large_to_list(self):
        size = 2**53
        found = self.run([5, size - 1], [10**6, 10**6], size, 4, 1e3, 20)
        assert all({5, size - 1} <= set(picks) and len(set(picks)) == 4 for picks in found)
        assert all(0 <= pick < size for picks in found for pick in picks)
        found = self.run([5, size - 1], [10, 10], size, 2, 1e3, 20)
        assert len({pick for picks in found for pick in picks}) == 40

    def test_the_best_are_missed_as_rarely_as_promised(self, size):
        """The utility bound: score >= OPT - b (ln size + t), but for e^-t of the time."""
        scores = np.round(np.linspace(0, 40, 60) * FINE)
        t, scale = math.log(20), 2.0 * FINE
        found = self.run(range(60), scores, 60, 3, scale, size(500))
        best = np.sort(scores)[::-1]
        slack = scale * (math.log(60) + t)
        for place in range(3):
            failed = [scores[picks[place]] <= best[place] - slack for picks in found]
            assert stats.binom.sf(sum(failed) - 1, len(failed), 1 / 20) > 1e-9


class TestMissing:
    def test_it_counts_through_the_gaps(self):
        for taken in ([], [0], [0, 1, 2], [3, 5, 6], [9], [1, 4, 7]):
            rest = [i for i in range(12) if i not in taken]
            array = np.array(taken, dtype=np.int64)
            assert [_missing(array, place) for place in range(len(rest))] == rest
