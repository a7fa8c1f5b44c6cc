"""Privacy of what the risk tools release, by exact probabilities on neighbouring tables.

Each audit also rejects a version that is wrong: too little noise, too small a sensitivity, a price that
leaves out a part, or the algorithms as they are printed.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpnb import Integer, Real, Schema, Table
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.risk import selection
from dpnb.risk.indicator import limit
from dpnb.risk.preferences import CANDIDATES, level_for_variance
from dpnb.risk.selection import STEPS, Counts, Moments, Quantile, Tail
from tests.kit.noise import DiscreteNoise, NoNoise

DEFINITIONS = (PURE, ZCDP)
ONE = Fraction(1)


def variance_at(level, variance, pure):
    """Var(u) = R^2 V (docs/methods/rdr.md, theorem 8)."""
    scaled = level if pure else 2 * level
    return (scaled / (scaled + 1)) ** 2 * variance


def worst(left, right):
    """The largest |ln| of the ratio of two distributions, over all outcomes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(np.asarray(left)) - np.log(np.asarray(right)))
    # what neither can put out tells nothing
    return float(np.nanmax(ratios))


def epsilon_of(cost, privacy):
    """The epsilon of a pure mechanism that is charged ``cost`` of either privacy."""
    return float(cost) if privacy == PURE else math.sqrt(2 * cost)


def neighbours(places, most):
    """All tables of at most ``most`` rows at the given steps, each with the tables of one row more."""
    for size in range(most + 1):
        for chosen in itertools.combinations_with_replacement(places, size):
            base = np.zeros(selection.STEPS + 1, dtype=np.int64)
            np.add.at(base, list(chosen), 1)
            for place in places:
                more = base.copy()
                more[place] += 1
                yield base, more


class TestQuantile:
    """S1: every table of at most four rows on the grid 0, 1/4, ..., 1, and one row more."""

    def audit(self, p, scale, quantile_distribution):
        wanted = Quantile(Fraction(p))
        return max(
            worst(*(quantile_distribution(wanted.scores(rows), scale(wanted)) for rows in pair))
            for pair in neighbours(range(0, selection.STEPS + 1, selection.STEPS // 4), 4)
        )

    @pytest.fixture(autouse=True)
    def _coarse(self, monkeypatch):
        monkeypatch.setattr(selection, "GRID", 4)

    @pytest.mark.parametrize(
        ("p", "expected"), [("0.5", 0.9453), ("0.9", 0.5085), ("0.99", 0.4834)]
    )
    def test_a_choice_of_epsilon_1_tells_no_more(self, p, expected, quantile_distribution):
        found = self.audit(p, lambda wanted: wanted.scale(ONE, PURE), quantile_distribution)
        assert found == pytest.approx(expected, abs=5e-5)
        assert found <= 1

    @pytest.mark.parametrize("p", ["0.5", "0.9", "0.99"])
    def test_too_small_a_sensitivity_is_detected(self, p, quantile_distribution):
        def forgetful(wanted):
            # as if a row changed the difference of two scores by min(p, 1 - p) / 2 only
            return float(min(wanted.p, 1 - wanted.p) * wanted.p.denominator) / 2

        assert self.audit(p, forgetful, quantile_distribution) > 1

    def test_a_sensitivity_without_its_factor_2_is_detected(self, quantile_distribution):
        assert self.audit("0.5", lambda w: w.scale(ONE, PURE) / 2, quantile_distribution) > 1

    @pytest.mark.parametrize("p", ["0.5", "0.9", "0.99"])
    def test_a_cost_in_zcdp_bounds_every_order(self, p, quantile_distribution):
        """rho-zCDP: the Renyi divergence of order a is at most a rho, for every a."""
        wanted, rho = Quantile(Fraction(p)), Fraction(1, 8)
        scale = wanted.scale(rho, ZCDP)
        assert scale == pytest.approx(wanted.scale(ONE, PURE))

        def divergence(rows, others, order, scale):
            a, b = (quantile_distribution(wanted.scores(table), scale) for table in (rows, others))
            return math.log(float((a**order * b ** (1 - order)).sum())) / (order - 1)

        pairs = list(neighbours(range(0, STEPS + 1, STEPS // 4), 3))
        for order in (1.01, 2, 5, 30):
            found = max(
                divergence(*pair, order, scale)
                for base, more in pairs
                for pair in ((base, more), (more, base))
            )
            assert found <= order * float(rho)
        # at half the scale, p = 1/2 goes beyond it
        if p == "0.5":
            assert max(divergence(*pair, 2, scale / 2) for pair in pairs) > 2 * float(rho)

    def test_each_score_changes_by_at_most_p_or_1_minus_p(self):
        for p in (Fraction(1, 2), Fraction(99, 100), Fraction(1, 100)):
            wanted, reach = Quantile(p), max(p, 1 - p) * p.denominator
            changes = [
                np.abs(wanted.scores(more) - wanted.scores(base)).max()
                for base, more in neighbours(range(0, STEPS + 1, STEPS // 4), 4)
            ]
            assert max(changes) == reach


class TestTail:
    """S4: the sparse vector on every table of at most three rows, and one row more."""

    CANDIDATES = (Fraction(3), Fraction(1), Fraction(1, 2), Fraction(1, 3))

    def audit(self, tail_distribution, cost, privacy, most=0, *, factors=(1, 1)):
        wanted = Tail(self.CANDIDATES, 0.8, most, "bound")
        scales = tuple(f * s for f, s in zip(factors, wanted.scales(cost, privacy), strict=True))
        # a step on either side of where each candidate breaks tau
        power = 1 if privacy == PURE else 2
        breaks = [(limit(0.8, privacy) / float(c)) ** (1 / power) for c in self.CANDIDATES]
        places = sorted({0, STEPS, *(math.floor(STEPS * r) + 2 for r in breaks if r < 1)})
        assert len(places) >= 4
        counts = {}

        def distribution(rows):
            found = tuple(wanted.counts(rows, privacy))
            if found not in counts:
                counts[found] = tail_distribution(found, most, scales)
            return counts[found]

        return max(
            worst(distribution(base), distribution(more)) for base, more in neighbours(places, 3)
        )

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize("most", [0, 2, 12])
    @pytest.mark.parametrize("cost", [Fraction(1, 2), ONE, Fraction(3)])
    def test_no_outcome_tells_more_than_was_paid_none_included(
        self, privacy, most, cost, tail_distribution
    ):
        epsilon = epsilon_of(cost, privacy)
        found = self.audit(tail_distribution, cost, privacy, most)
        assert found <= epsilon
        assert found > epsilon / 3

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_noise_half_as_large_is_detected(self, privacy, tail_distribution):
        found = self.audit(tail_distribution, ONE, privacy, factors=(0.5, 0.5))
        assert found > epsilon_of(ONE, privacy)

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_charging_only_the_threshold_is_detected(self, privacy, tail_distribution):
        first, _ = Tail(self.CANDIDATES, 0.8, 0, "bound").scales(ONE, privacy)
        assert self.audit(tail_distribution, ONE, privacy) > 1 / first

    @pytest.mark.parametrize("factors", [(0.1, 1), (1, 0.1)])
    def test_either_noise_alone_does_not_protect(self, factors, tail_distribution):
        assert self.audit(tail_distribution, ONE, PURE, most=12, factors=factors) > 1

    def test_each_count_changes_by_at_most_1_and_all_in_one_direction(self):
        wanted = Tail(CANDIDATES, 0.9, 0, "bound")
        for privacy in DEFINITIONS:
            for base, more in neighbours(range(0, STEPS + 1, 512), 2):
                change = np.subtract(wanted.counts(more, privacy), wanted.counts(base, privacy))
                assert set(change.tolist()) <= {0, 1}


class TestSums:
    """S2 and the histogram that may be shared: sums with noise."""

    def changes(self, exact):
        for base in ([], [0], [STEPS] * 3, [1, 700, 2_048]):
            rows = np.zeros(STEPS + 1, dtype=np.int64)
            np.add.at(rows, base, 1)
            before = np.array(exact(rows))
            for place in (1, 2, STEPS - 1, *range(0, STEPS + 1, 32)):
                rows[place] += 1
                yield np.abs(np.array(exact(rows)) - before)
                rows[place] -= 1

    def loss(self, change, scale, privacy):
        if privacy == PURE:
            return change.sum() / scale
        return float((change.astype(float) ** 2).sum()) / (2 * scale**2)

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize("mechanism", [Moments(), Counts(1), Counts(16), Counts(63)])
    @pytest.mark.parametrize("cost", [Fraction(1, 200), Fraction(1, 3)])
    def test_one_row_changes_them_by_no_more_than_is_paid(self, privacy, mechanism, cost):
        def exact(rows):
            if isinstance(mechanism, Counts):
                return mechanism.exact(rows)
            return mechanism.sums(rows, privacy)

        scale = mechanism.scale(cost, privacy)
        found = max(self.loss(change, scale, privacy) for change in self.changes(exact))
        assert found <= float(cost)
        # the bound is reached: with less noise it would be broken
        assert found > float(cost) * 0.999
        change = max(self.changes(exact), key=lambda c: c.sum())
        assert self.loss(change, scale / 1.01, privacy) > float(cost)


class TestThroughTheHouse:
    """What reaches the noise on a table and without one of its rows, for real statements."""

    STATEMENTS = (
        "SELECT COUNT(*) FROM t WHERE n > 5",
        "SELECT g, AVG(r) AS m, COUNT(*) FROM t GROUP BY g",
        "SELECT SUM(r) AS s, SUM(n) FROM t",
    )
    OPTIONS = (
        {"method": "quantile"},
        {"method": "quantile", "p": 0.5},
        {"method": "variance", "tau": 0.01},
    )

    def drawn(self, table, opened, budget, cost):
        noise = DiscreteNoise(1)
        curator = opened(table, noise=noise, **budget)
        for sql in self.STATEMENTS:
            profile = curator.risk(sql)
            for options in self.OPTIONS:
                profile.choose(**options, **cost, mode="paper")
            profile.share(**cost)
        return noise.draws

    def test_every_draw_is_paid_for(self, mixed, opened, budget, unit):
        cost = Fraction(1, 8)
        frame = mixed.source
        base = self.drawn(mixed, opened, budget, {unit: cost})
        extreme = frame.iloc[[0]].assign(g="a", n=12, m=-20, r=10.0, s=-7.5)
        others = [frame.drop(i) for i in (0, 40)] + [pd.concat([frame, extreme])]
        largest = 0.0
        for other in others:
            table = Table("t", other, mixed.schema)
            drawn = self.drawn(table, opened, budget, {unit: cost})
            for one, changed in zip(base, drawn, strict=True):
                assert (one.name, one.scale) == (changed.name, changed.scale)
                assert len(one.exact) == len(changed.exact)
                change = np.subtract(changed.exact, one.exact) / one.scale
                if one.name == "gaussian":
                    paid = float((change**2).sum()) / 2
                elif one.name == "laplace":
                    paid = float(np.abs(change).sum())
                else:
                    # bounded range: the difference of two scores
                    reach = float(np.ptp(change))
                    paid = reach if unit == "epsilon" else reach**2 / 8
                assert paid <= cost
                largest = max(largest, paid)
        assert largest > float(cost) * 0.99


class TestPublicRule:
    """S0 satisfies exactly what the release satisfies: its level is the same on every table."""

    SCHEMA = Schema({"x": Integer(0, 1)})
    SQL = "SELECT COUNT(*) AS n FROM t WHERE x = 1"

    def tables(self, **options):
        values = {"nobody matches": [0] * 20, "one matches": [0] * 20 + [1], "empty": []}
        return {
            name: Table(
                "t", pd.DataFrame({"x": pd.Series(x, dtype="int64")}), self.SCHEMA, **options
            )
            for name, x in values.items()
        }

    def test_it_passes_trivially(self, opened, budget):
        levels = set()
        for table in self.tables().values():
            profile = opened(table, **budget).risk(self.SQL)
            levels |= {
                (profile.suggest(0.95).level, profile.suggest(0.95, candidates=[1, "0.01"]).level)
            }
        assert len(levels) == 1

    def test_the_printed_choice_is_detected(self, opened, size, equals):
        """E1: Algorithm 1 releases with epsilon 0.05 or with 10, and the spread shows which."""
        distributions, found = {}, {}
        for name, table in self.tables(public=True).items():
            if name == "empty":
                continue
            profile = opened(table, epsilon=100).risk(self.SQL, mode="paper")
            epsilon = profile.find(0.95)
            found[name] = (profile, epsilon)
            scale, value = profile.scale(epsilon), profile.values[0]
            outside = (math.exp(-(2 - value) / scale) + math.exp(-(2 + value) / scale)) / 2
            distributions[name] = np.array([outside, 1 - outside])
        assert found["one matches"][1] == 0.05
        assert found["nobody matches"][1] == 10
        assert distributions["one matches"][0] == pytest.approx(0.906, abs=5e-4)
        assert distributions["nobody matches"][0] == pytest.approx(2.06e-9, rel=0.01)
        assert worst(*distributions.values()) == pytest.approx(19.90, abs=0.01)
        for name, (profile, epsilon) in found.items():
            noise = DiscreteNoise(3)
            count = size(4_000)
            far = np.array(
                [abs(profile.release(noise, epsilon).values[0]) > 2 for _ in range(count)]
            )
            assert equals(far, distributions[name][0])

    def test_so_is_our_own_choice_by_exact_values_which_is_why_it_is_marked(self, opened, budget):
        chosen = {}
        for name, table in self.tables().items():
            profile = opened(table, **budget).risk(self.SQL)
            chosen[name] = profile.choose(0.95, private=False)
        assert chosen["one matches"].level != chosen["nobody matches"].level
        assert all(choice.conditional for choice in chosen.values())


def at_least(x, scale):
    """P(Z >= x) of a continuous Laplace variable; P(Z < x) is that of -x."""
    far = np.exp(-np.abs(x) / scale) / 2
    return np.where(x > 0, far, 1 - far)


PAIRS = {
    "one patient among 20": ([0] * 20, [0] * 19 + [1]),
    "one patient among 101": ([0] * 101, [0] * 100 + [1]),
    "half and half, 101": ([0] * 51 + [1] * 50, [0] * 50 + [0.5] + [1] * 50),
    "half at 0, half at 0.4, 1001": ([0] * 500 + [0.4] * 501, [0] * 500 + [0.4] * 500 + [1]),
}


class TestSparseVectorOnVariances:
    """S3: Algorithm 3 made sound, under replacing one of a public number n of rows.

    It is no part of the package, whose accountant counts rows that come and go. With the variance of
    r, normalised by a public maximum, the query is the same for all candidates; only the threshold
    tau / R(epsilon)^2 moves.
    """

    TAU = 1e-3
    # below 0.1 all thresholds are far above any variance, and nearly nothing gets there
    LEVELS = tuple(float(c) for c in CANDIDATES if c >= Fraction(1, 10))

    def distribution(self, margins, first, second):
        """P of the first passing candidate, and of none; margins are (value - threshold) / D."""
        span = 45 * max(first, second) + np.abs(margins).max()
        at = np.linspace(-span, span, 240_001)
        left = np.exp(-np.abs(at) / first) / (2 * first) * (at[1] - at[0])
        found = []
        for margin in margins:
            found.append((left * at_least(at + margin, second)).sum())
            left = left * at_least(-at - margin, second)
        return np.array([*found, left.sum()])

    def sound(self, r, *, first=0.3864882096, wrong=1.0):
        n = len(r)
        spread = (n - 1) / n**2 * wrong
        margins = [
            (np.var(r) - self.TAU / variance_at(level, 1.0, pure=True)) / spread
            for level in self.LEVELS
        ]
        return self.distribution(margins, 1 / first, 2 / (1 - first))

    @pytest.mark.parametrize("name", PAIRS)
    def test_no_outcome_tells_more_than_epsilon_1(self, name):
        left, right = (self.sound(np.array(rows, dtype=float)) for rows in PAIRS[name])
        assert left.sum() == pytest.approx(1, abs=1e-6)
        found = worst(left, right)
        assert found <= 0.3865
        assert found > 0.001

    def test_a_third_of_the_sensitivity_is_detected(self):
        pair = PAIRS["one patient among 20"]
        assert worst(*(self.sound(np.array(rows, float), wrong=1 / 3) for rows in pair)) > 1

    def test_the_largest_of_the_table_as_normaliser_is_detected(self):
        """E2: an outlier rescales everyone; n = 1001, where the promise was epsilon 1."""

        def distribution(d, n):
            first = 0.3864882096
            margins = []
            for level in map(float, CANDIDATES):
                risks = d + 1 / level
                margins.append((np.var(risks / risks.max()) - 1e-5) * n)
            return self.distribution(margins, 1 / first, 2 / (1 - first))

        crowd = np.repeat([0, 0.4], 500)
        left, right = distribution(np.append(crowd, 1.0), 1_001), distribution(crowd, 1_001)
        three = CANDIDATES.index(3)
        assert left[three] == pytest.approx(1.0e-3, rel=0.05)
        assert right[three] == pytest.approx(1.6e-10, rel=0.05)
        assert worst(left, right) >= math.log(left[three] / right[three]) > 15

    @pytest.mark.parametrize(("n", "expected"), [(3, 0.2222), (5, 0.16), (8, 0.109375)])
    def test_a_variance_changes_by_n_minus_1_over_n_squared(self, n, expected):
        """Theorem 25, over all tables on the grid 0, 1/4, ..., 1; also when a row comes."""
        grid = [i / 4 for i in range(5)]
        replaced = added = 0.0
        for others in itertools.combinations_with_replacement(grid, n - 1):
            variances = [np.var([*others, value]) for value in grid]
            replaced = max(replaced, max(variances) - min(variances))
            added = max(added, *(abs(v - np.var(others)) for v in variances))
        assert replaced == pytest.approx(expected, abs=5e-5)
        assert replaced == pytest.approx((n - 1) / n**2)
        assert added <= (n - 1) / n**2 + 1e-12


def test_one_private_release_of_moments_replaces_37_steps():
    """The variance of the indicators is R(level)^2 V, so that one V decides all candidates."""
    r = np.random.default_rng(1).uniform(0, 1, 50)
    for candidate in map(float, CANDIDATES):
        u = (r + 1 / candidate) / (1 + 1 / candidate)
        assert variance_at(candidate, np.var(r), pure=True) == pytest.approx(np.var(u), rel=1e-9)
        limit_ = np.var(u)
        assert level_for_variance(limit_, np.var(r), pure=True) == pytest.approx(
            candidate, rel=1e-6
        )


def test_real_columns_reach_every_step(opened):
    """Quantiles of reals are looked at in 4,096 steps, whatever the profile shows."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, 300)})
    noise = NoNoise()
    curator = opened(Table("t", frame, Schema({"x": Real(0, 1)})), noise=noise, epsilon=10)
    profile = curator.risk("SELECT SUM(x) AS s FROM t")
    assert not profile.approximate
    profile.choose(0.9, p=0.5, mode="paper")
    (draw,) = noise.draws
    below = [np.count_nonzero(np.ceil(4_096 * frame["x"]) <= 64 * g) for g in range(65)]
    assert list(draw.exact) == [-abs(2 * count - 300) for count in below]
