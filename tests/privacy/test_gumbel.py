"""The largest score after Gumbel noise, as if the noise had infinitely many digits."""

from __future__ import annotations

import os
import random
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from dpnb.privacy.gumbel import BITS, _intervals, _refined, largest


class Counting:
    """Seeded entropy that counts bytes; ``first`` replaces the first words."""

    def __init__(self, seed, first=()):
        self.random = random.Random(seed)  # noqa: S311
        self.first = list(first)
        self.taken = []

    def __call__(self, count):
        self.taken.append(count)
        if self.first:
            words, self.first = self.first, []
            return b"".join((word << (64 - BITS)).to_bytes(8, "little") for word in words)
        return self.random.randbytes(count)


def decimal_gumbel(place, bits):
    with localcontext() as context:
        context.prec = 200
        return -(-(1 - Decimal(place) / 2**bits).ln()).ln()


class TestIntervals:
    @pytest.mark.parametrize(
        "word", [0, 1, 2, 12345, 2**40, 2**52, 2**53 - 3, 2**53 - 2, 2**53 - 1]
    )
    @pytest.mark.parametrize("score", [0, 1, -7, 10**6, -(10**15), 2**62])
    def test_they_contain_every_value_of_the_digits_drawn(self, word, score):
        scale = 1234.567
        low, high = _intervals(np.array([score]), scale, np.array([word], dtype=np.uint64))
        moved = Decimal(score) / Decimal(scale)
        if word > 0:
            assert Decimal(float(high[0])) > moved + decimal_gumbel(word, BITS)
        else:
            assert high[0] == np.inf
        if word + 1 < 2**BITS:
            assert Decimal(float(low[0])) < moved + decimal_gumbel(word + 1, BITS)
        else:
            assert low[0] == -np.inf

    @pytest.mark.parametrize("bits", [117, 181, 245])
    def test_refined_ones_contain_them_too_and_shrink(self, bits):
        for word in (0, 1, 2**20 + 5, 2 ** (bits - 1) + 77, 2**bits - 2, 2**bits - 1):
            low, high = _refined(10**9, 3.5, word, bits)
            with localcontext() as context:
                context.prec = 250
                moved = Decimal(10**9) / Decimal("3.5")
                if word > 0:
                    assert high > moved + decimal_gumbel(word, bits)
                if word + 1 < 2**bits:
                    assert low < moved + decimal_gumbel(word + 1, bits)
                if 2 ** (bits // 2) < word < 2**bits - 2 ** (bits // 2):
                    assert high - low < Decimal(2) ** -(bits // 2 - 8)


class TestLargest:
    def test_a_single_score_is_the_largest(self):
        assert largest(np.array([-5]), 1.0, os.urandom) == 0

    def test_a_score_far_above_the_others_always_wins(self):
        for place in range(4):
            scores = np.zeros(4, np.int64)
            scores[place] = 10**12
            assert all(largest(scores, 1.0, os.urandom) == place for _ in range(20))

    def test_equal_digits_are_told_apart_by_more_of_them(self):
        found = set()
        for seed in range(60):
            entropy = Counting(seed, first=[2**52, 2**52, 2**53 - 17])
            found.add(largest(np.array([5, 5, 5]), 2.0, entropy))
            assert len(entropy.taken) >= 3
            assert entropy.taken[1:3] == [8, 8]
        assert found == {0, 1}

    def test_who_is_behind_after_the_first_digits_may_still_win(self):
        # word 1 stands for 36.04 to 36.74; score 5 at scale 10 moves word 2 to 36.14 to 36.54
        class Ends(Counting):
            def __init__(self, *further):
                super().__init__(0, first=[1, 2])
                self.further = b"".join(further)

            def __call__(self, count):
                if self.first:
                    return super().__call__(count)
                found, self.further = self.further[:count], self.further[count:]
                return found

        # the smaller the digits, the larger the Gumbel
        most, least = bytes(8), b"\xff" * 8
        scores = np.array([0, 5])
        assert largest(scores, 10.0, Ends(most, least)) == 0
        assert largest(scores, 10.0, Ends(most, most)) == 0
        assert largest(scores, 10.0, Ends(least, least)) == 1
        assert largest(scores, 10.0, Ends(least, most)) == 1

    @pytest.mark.parametrize("words", [[0, 0, 0], [2**53 - 1] * 3, [0, 2**53 - 1, 0]])
    def test_the_ends_of_the_range_are_no_special_case(self, words):
        found = {largest(np.array([1, 2, 3]), 9.0, Counting(s, first=words)) for s in range(30)}
        assert found <= {0, 1, 2}
        assert len(found) == (1 if words[0] else 3 if words[1] == 0 else 2)

    def test_the_choice_is_that_of_exact_arithmetic(self):
        rng = random.Random(6)  # noqa: S311
        for _ in range(150):
            count, scale = rng.randint(2, 6), 10 ** rng.uniform(-2, 8)
            scores = np.array([rng.randint(-(10**6), 10**6) for _ in range(count)])
            words = [rng.getrandbits(BITS) for _ in range(count)]
            exact = [Decimal(int(s)) / Decimal(scale) + decimal_gumbel(w, BITS)
                     for s, w in zip(scores, words, strict=True)]  # fmt: skip
            assert largest(scores, scale, Counting(1, first=words)) == exact.index(max(exact))

    @pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
    def test_its_law_is_the_softmax(self, scale, size):
        scores = np.array([0, 1, 3])
        runs = size(10_000)
        entropy = Counting(int(10 * scale)).random.randbytes
        counts = np.bincount([largest(scores, scale, entropy) for _ in range(runs)], minlength=3)
        distribution = np.exp(scores / scale) / np.exp(scores / scale).sum()
        assert stats.chisquare(counts, distribution * runs).pvalue > 1e-9

    def test_only_rivals_get_more_digits(self):
        entropy = Counting(3, first=[2**52, 2**52, *range(100, 1100)])
        largest(np.array([5] * 2 + [-100] * 1000), 1.0, entropy)
        assert sum(entropy.taken[1:]) <= 8 * 20


def test_decimal_settings_of_the_caller_do_not_matter():
    scores, scale = np.array([5, 5, 5], dtype=np.int64), 2.0
    usual = [largest(scores, scale, Counting(seed, [7, 7, 7])) for seed in range(20)]
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 3, -5, 5
        for trap in context.traps:
            context.traps[trap] = True
        odd = [largest(scores, scale, Counting(seed, [7, 7, 7])) for seed in range(20)]
    assert odd == usual
    assert len(set(usual)) > 1
