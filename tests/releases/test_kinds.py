"""A kind of options' values reads a value or refuses it in words, whatever it is given."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpnb.answers.options import OPTIONS as INFERENCE
from dpnb.decide.options import OPTIONS as DECISION
from dpnb.discover.request import OPTIONS as DISCOVERY
from dpnb.errors import RequestError
from dpnb.explain.options import OPTIONS as EXPLANATION
from dpnb.releases.accuracy import OPTIONS as QUERY
from dpnb.releases.kinds import POSITIVE, SHARE, Named, Number, Range, Whole

pytestmark = pytest.mark.fast

OPTIONS = {
    f"{verb}-{option.name}": option
    for verb, options in {
        "query": QUERY, "infer": INFERENCE, "explain": EXPLANATION, "decide": DECISION, "discover": DISCOVERY,
    }.items()
    for option in options
}  # fmt: skip
ODD = [
    10**5000, -(10**5000), Fraction(1, 10**5001), Fraction(10**5000, 3), math.nan, math.inf, -math.inf, 1e-320,
    True, None, "", "x" * 20_000, "\ud800", b"x", [], (None, None), [10**5000, 1], ["a"] * 100_000, {}, {1: 2},
    {"a": {}}, {"n": 10**5000}, {"quota": {"a": 10**5000}}, {"quota": [1]}, object(), type, range(3),
    complex(1, 2), Decimal("0.1"), np.float32(0.3), np.int64(3), np.array([1, 2]), np.array(0.5), np.nan,
]  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_whatever_is_given_is_read_or_refused_in_words(option):
    for value in ODD:
        try:
            once = option.read(value)
        except RequestError as refusal:
            assert refusal.hint
            assert len(str(refusal)) < 1_000
            continue
        assert once is None or option.read(once) == once


def test_ends_are_left_out_of_numbers_and_kept_in_whole_ones():
    assert [Whole(1, 3, 2).read(value, "k") for value in (1, 3.0, np.int8(2))] == [1, 3, 2]
    for value in (0, 4, 1.5, "2", True):
        with pytest.raises(RequestError, match="k must be a whole number from 1 to 3, got"):
            Whole(1, 3, 2).read(value, "k")
    for value in (0, 1, -0.5, 1.5):
        with pytest.raises(RequestError, match="c must be between 0 and 1, got"):
            SHARE.read(value, "c")
    assert SHARE.read(math.nextafter(1, 0), "c") < 1
    with pytest.raises(RequestError, match="u must be above 0, got 0"):
        POSITIVE.read(0, "u")
    with pytest.raises(RequestError, match="u is out of range"):
        POSITIVE.read(1e-31, "u")


def test_a_part_of_a_value_is_named():
    with pytest.raises(RequestError, match="u of n must be a number, got 'x'"):
        Named(Number("50")).read({"m": 1, "n": "x"}, "u")
    with pytest.raises(RequestError, match="between starts at 5, above its end 1"):
        Range().read((5, 1), "between")
