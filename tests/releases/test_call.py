"""When two calls may share what was worked out."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpnb.privacy.loss import Picked, PickedRational
from dpnb.releases.call import Call

pytestmark = pytest.mark.fast
SQL = "SELECT COUNT(*) FROM t"
DIFFERENT = [
    Call("query", SQL, {"rho": 0.1}),
    Call("decide", SQL, {"rho": 0.1}),
    Call("query", SQL + " ", {"rho": 0.1}),
    Call("query", SQL, {"rho": 0.1}, {"a": 1}),
    Call("query", SQL, {"rho": 0.1}, {"a": True}),
    Call("query", SQL, {"rho": 0.1}, {"a": "1"}),
    Call("query", SQL, {"rho": 0.1}, {}),
    Call("query", SQL, {"rho": "0.1"}),
    Call("query", SQL, {"rho": Fraction("0.1")}),
    Call("query", SQL, {"rho": Picked(0.1)}),
    Call("query", SQL, {"rho": PickedRational("0.1")}),
    Call("query", SQL, {"epsilon": 0.1}),
    Call("query", SQL, {"error": {"n": 1}}),
    Call("query", SQL, {"error": {"n": Picked(1)}}),
    Call("query", SQL, {"error": [1, 2]}),
    Call("query", SQL, {"error": (1, 2)}),
    Call("query", SQL, {"error": [[1], 2]}),
    Call("query", SQL, {"error": ["1, 2"]}),
    Call("query", SQL, {"rho": 0.0}),
    Call("query", SQL, {"rho": -0.0}),
    Call("query", SQL, {"rho": 0.1, "history": False}),
]


class Lying:
    """All of its kind look alike."""

    def __repr__(self) -> str:
        return "0.1"


def test_calls_that_differ_in_anything_are_kept_apart():
    keys = [call.key() for call in DIFFERENT]
    assert None not in keys
    for one, other in itertools.combinations(keys, 2):
        assert one != other


def test_equal_calls_share():
    for call in DIFFERENT:
        assert call.key() == Call(call.verb, call.subject, call.options, call.params).key()


@pytest.mark.parametrize(
    "value",
    [Lying(), {"n": Lying()}, np.float64(0.1), np.array([1, 2]), 10**5000, "x" * 10_001, [0] * 501, {Lying(): 1},
     type("Text", (str,), {})("0.1")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_not_plain_is_not_kept(value):
    assert Call("query", SQL, {"rho": value}).key() is None
    assert Call("query", SQL, {}, {"a": value}).key() is None
    assert Call("query", value, {}).key() is None


def test_a_list_that_holds_itself_is_not_kept():
    around: list[object] = []
    around.append(around)
    assert Call("query", SQL, {"rho": around}).key() is None
