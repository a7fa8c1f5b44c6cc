"""JSON and the values beside it: what is sent is what is read, and nothing else is read."""

from __future__ import annotations

import datetime
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnb.errors import (
    BudgetError,
    DpnbError,
    EngineError,
    LedgerError,
    RequestError,
    ServiceError,
    SqlError,
)
from dpnb.privacy.loss import Picked, PickedRational, amount, is_picked
from dpnb.server import refusals, wire
from dpnb.server.params import named

pytestmark = pytest.mark.fast


def there_and_back(value):
    return wire.decode(wire.loads(wire.dumps(value)))


class TestValues:
    @given(st.floats(allow_nan=False))
    def test_floats_come_back_bit_for_bit(self, value):
        assert repr(there_and_back(value)) == repr(value)

    @given(st.fractions(min_value=0, max_value=10**6))
    def test_fractions_come_back_exactly(self, value):
        assert there_and_back({"rho": value}) == {"rho": value}

    @pytest.mark.parametrize(
        "value", [0.1, "0.1", "1e-1", 1, Fraction(1, 3), Picked(0.1), PickedRational(1, 3)]
    )
    def test_an_amount_means_the_same_on_the_other_side(self, value):
        assert amount(there_and_back(value), "rho") == amount(value, "rho")

    @pytest.mark.parametrize("value", [Picked(0.1), PickedRational(1, 3)])
    def test_an_amount_that_was_picked_stays_marked(self, value):
        assert is_picked(there_and_back({"rank": value}))
        assert not is_picked(there_and_back({"rank": 2 * value}))

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (np.float64(0.5), 0.5),
            (np.int64(7), 7),
            (np.bool_(True), True),
            (np.str_("x"), "x"),
            (datetime.date(2024, 1, 31), datetime.date(2024, 1, 31)),
            (pd.Timestamp("2024-01-31"), datetime.datetime(2024, 1, 31)),  # noqa: DTZ001
            (np.datetime64("2024-01-31"), datetime.date(2024, 1, 31)),
            ((1, "a", None), [1, "a", None]),
            ("\ud800", "\ud800"),
        ],
    )
    def test_scalars_and_dates_come_back_plain(self, value, expected):
        found = there_and_back(value)
        assert found == expected
        assert type(found) is type(expected)

    def test_what_is_not_finite_comes_back(self):
        assert np.isnan(there_and_back(float("nan")))
        assert there_and_back([float("inf"), -float("inf")]) == [float("inf"), -float("inf")]

    @pytest.mark.parametrize(
        "value", [object(), b"bytes", {1, 2}, pd.NaT, np.zeros(3), 10**9999], ids=range(6)
    )
    def test_of_anything_else_only_the_type_is_sent(self, value):
        sent = json.loads(wire.dumps(value))
        assert sent == {"$type": type(value).__name__}
        assert type(there_and_back(value)).__name__ == type(value).__name__

    @pytest.mark.parametrize(
        "value",
        [
            {"$fraction": "1/0"},
            {"$fraction": "1e9999999"},
            {"$picked": "one"},
            {"$date": "yesterday"},
            {"$type": "a b"},
            {"$type": "__import__('os')"},
            {"$pickle": "gASVAAAAAAAAAACMBXBvc2l4"},
            {"$number": "1"},
        ],
    )
    def test_what_no_client_writes_is_refused(self, value):
        with pytest.raises(RequestError):
            wire.decode(value)

    def test_only_the_named_parameters_are_sent(self):
        held = {"x": 1, "y": 2, "token": "secret", "frame": pd.DataFrame({"a": [1]})}
        assert named(["SELECT :x FROM t WHERE a = : y"], held) == {"x": 1, "y": 2}
        assert named(["SELECT 1"], held) == {}

    def test_the_content_of_what_no_parameter_may_be_stays_here(self):
        assert named([":x"], {"x": ["private"]}) == {"x": {"$type": "list"}}


class TestJson:
    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"{",
            b"[1,]",
            b"NaN",
            b'{"a": Infinity}',
            b'{"a": 1e999}',
            b'{"a": 1, "a": 2}',
            b"\xff\xfe",
            b'\xef\xbb\xbf{"a": 1}',
            b"[" * 100_000,
            b"[" * 30 + b"]" * 30,
            b'{"a":' * 100 + b"1" + b"}" * 100,
            b"1" * 5000,
            b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94.",
        ],
        ids=range(14),
    )
    def test_malformed_and_exploding_texts_are_refused(self, text):
        with pytest.raises(RequestError):
            wire.loads(text)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_read_or_refused(self, data):
        try:
            wire.decode(wire.loads(data))
        except RequestError as error:
            assert "openapi" in error.hint


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (SqlError("unknown", "Hint.", line=2, column=7, text="x"), 400),
            (SqlError("unknown"), 400),
            (RequestError("no", "Hint."), 400),
            (BudgetError("too much", "Less."), 403),
            (EngineError("cannot be read"), 500),
            (ServiceError("busy"), 500),
            (DpnbError("what", "hint", "where"), 500),
        ],
    )
    def test_an_error_is_the_same_on_the_other_side(self, error, status):
        assert refusals.status_of(error) == status
        found = refusals.from_dict(json.loads(json.dumps(refusals.to_dict(error))))
        assert (type(found), str(found), found.args) == (type(error), str(error), error.args)
        if isinstance(error, SqlError):
            assert (found.line, found.column, found.text) == (error.line, error.column, error.text)

    def test_paths_of_a_ledger_stay_with_the_owner(self):
        error = LedgerError("broken at x", "Check /home/owner/ledger.", "/home/owner/ledger")
        data = refusals.to_dict(error)
        assert "/home" not in json.dumps(data)
        assert isinstance(refusals.from_dict(data), LedgerError)

    @pytest.mark.parametrize(
        "data",
        [None, [], {}, {"kind": "SqlError"}, {"kind": "object", "what": "", "hint": "", "where": ""},
         {"kind": "SqlError", "what": "", "hint": "", "where": "", "line": "x"}],
    )  # fmt: skip
    def test_anything_else_is_no_error(self, data):
        assert refusals.from_dict(data) is None
