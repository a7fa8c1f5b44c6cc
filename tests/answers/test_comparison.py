"""Comparisons as text: read, written, and refused with a place."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpnb.answers.comparison import Comparison, exact, number_text
from dpnb.answers.reading import MAX_DEPTH, MAX_TEXT, read
from dpnb.errors import RequestError

pytestmark = pytest.mark.fast

HALF = Fraction(1, 2)
LABELS = st.one_of(st.text(max_size=6), st.integers(-(10**6), 10**6))
GROUPS = st.one_of(
    st.tuples(st.text(max_size=6)), st.lists(LABELS, min_size=1, max_size=3).map(tuple)
)
WEIGHTS = st.one_of(
    st.fractions(-1000, 1000, max_denominator=999),
    st.integers(-(10**9), 10**9).map(Fraction),
    st.decimals(-1000, 1000, places=6).map(Fraction),
)


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    groups = draw(
        st.lists(GROUPS, min_size=1, max_size=5, unique_by=lambda group: tuple(map(str, group)))
    )
    weights = [(group, draw(WEIGHTS.filter(bool))) for group in groups]
    weights.sort(key=lambda pair: pair[1] < 0)
    return Comparison(tuple(weights), draw(WEIGHTS), draw(st.none() | st.text(max_size=6)))


class TestReading:
    @pytest.mark.parametrize(
        ("text", "weights", "constant"),
        [
            ("'a' > 'b'", {"a": 1, "b": -1}, 0),
            ("'a' >= 'b'", {"a": 1, "b": -1}, 0),
            ("'a' < 'b'", {"b": 1, "a": -1}, 0),
            ("'a' <= 'b'", {"b": 1, "a": -1}, 0),
            ('"a" > "b"', {"a": 1, "b": -1}, 0),
            ("0.5*'a' + 0.5*'b' > 'c'", {"a": HALF, "b": HALF, "c": -1}, 0),
            ("'a'/2 < 'b' + 'c'", {"b": 1, "c": 1, "a": -HALF}, 0),
            ("'a' - 'b' > 100", {"a": 1, "b": -1}, 100),
            ("'a' > 'b' + 10", {"a": 1, "b": -1}, 10),
            ("'a' + 5 > 'b' - 2.5e1", {"a": 1, "b": -1}, -30),
            ("100 > 'a'", {"a": -1}, -100),
            ("'a' > 0", {"a": 1}, 0),
            ("2*('a' - 'b'/4) * -1 > -('c' + 3)", {"b": HALF, "c": 1, "a": -2}, -3),
            ("--'a' > +-+'b'", {"a": 1, "b": 1}, 0),
            ("1/3*'a' > 'b'", {"a": Fraction(1, 3), "b": -1}, 0),
            ("0*'a' + 'b' > .5", {"b": 1}, HALF),
            ("\n 'a'\n >\t'b' ", {"a": 1, "b": -1}, 0),
            ("(('a')) > ('b')", {"a": 1, "b": -1}, 0),
            ('\'it\'\'s\' > "a ""b"""', {"it's": 1, 'a "b"': -1}, 0),
            ("'' > '>'", {"": 1, ">": -1}, 0),
        ],
    )
    def test_sums_of_groups(
        self, text: str, weights: dict[str, Fraction], constant: Fraction
    ) -> None:
        found = read(text)
        assert dict(found.weights) == {(name,): weight for name, weight in weights.items()}
        assert [group for group, _ in found.weights] == [(name,) for name in weights]
        assert found.constant == constant
        assert found.aggregate is None

    def test_several_group_columns(self) -> None:
        found = read("('Male','HS-grad') > 2*('Female', -3)")
        assert found.weights == ((("Male", "HS-grad"), 1), (("Female", -3), -2))
        assert read("(3,) > ('x',)").weights == (((3,), 1), (("x",), -1))

    @pytest.mark.parametrize(
        ("text", "aggregate"),
        [
            ("share: 'a' > 'b'", "share"),
            ("größe : 'a' > 'b'", "größe"),
            ("\"my share\": 'a' > 'b'", "my share"),
            ("'my share': 'a' > 'b'", "my share"),
        ],
    )
    def test_an_aggregate_in_front(self, text: str, aggregate: str) -> None:
        assert read(text).aggregate == aggregate
        assert read(text).weights == ((("a",), 1), (("b",), -1))

    def test_numbers_mean_what_they_show(self) -> None:
        tenth = Fraction(1, 10)
        assert read("0.1*'a' + 0.2*'b' - 0.3*'c' > 0").weights[0][1] == tenth
        assert sum(weight for _, weight in read("0.1*'a' + 0.2*'b' > 0.3*'c'").weights) == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "what", "where"),
        [
            ("", "the comparison is incomplete", "at the end"),
            ("'a' >", "the comparison is incomplete", "at the end"),
            ("'a'", "the comparison is incomplete", "at the end"),
            ("'a' > 'b' > 'c'", "only one > or <", "line 1, column 11: '>'"),
            ("'a' = 'b'", "a comparison uses > or <, not =", "line 1, column 5: '='"),
            ("'a' => 'b'", "a comparison uses > or <, not =>", "line 1, column 5: '=>'"),
            ("'a' <> 'b'", "a comparison uses > or <, not <>", "line 1, column 5: '<>'"),
            ("'a' > 'b' AND 'c' > 'd'", "AND is not allowed", "line 1, column 11: 'AND'"),
            ("'a'*'b' > 1", "groups cannot be multiplied", "line 1, column 4: '*'"),
            ("2*('a' + 1)*('b') > 1", "groups cannot be multiplied", "line 1, column 12: '*'"),
            ("1/'b' > 1", "dividing by a group", "line 1, column 2: '/'"),
            ("'a'/0 > 1", "this divides by 0", "line 1, column 4: '/'"),
            ("'a'/(1-1) > 1", "this divides by 0", "line 1, column 4: '/'"),
            ("a > 'b'", "a group in quotes or a number is expected", "line 1, column 1: 'a'"),
            ("'a' >\nb", "a group in quotes or a number is expected", "line 2, column 1: 'b'"),
            ("2 'a' > 'b'", "an operator is missing before this", "line 1, column 3: \"'a'\""),
            ("'a' 'b' > 'c'", "an operator is missing before this", "line 1, column 5"),
            ("'a' > * 'b'", "a group or a number is missing", "line 1, column 7: '*'"),
            ("'a' > ('b'", "this bracket is not closed", "line 1, column 7: '('"),
            ("('a' > 'b'", "this bracket is not closed", "line 1, column 1: '('"),
            ("'a' > 'b')", "this is not expected here", "line 1, column 10: ')'"),
            ("share: n: 'a' > 'b'", "a group in quotes", "line 1, column 8: 'n'"),
            ("'a' > 'b", "this quote is not closed", "line 1, column 7: \"'b\""),
            ("‘a’ > ‘b’", "‘ is not a sign of a comparison", "line 1, column 1: '‘'"),
            ("'a' − 'b' > 3", "− is not a sign of a comparison", "line 1, column 5: '−'"),
            ("'a' > 'b';", "this character is not expected here", "line 1, column 10: ';'"),
            ("'a' > 'a'", "this group is named twice", "line 1, column 7: \"'a'\""),
            ("'3' > (3,)", "this group is named twice", "line 1, column 7: '('"),
            ("('a', 2*'b') > 'c'", "is a list of labels", "line 1, column 8: '*'"),
            ("('a', 'b' > 'c'", "is a list of labels", "line 1, column 11: '>'"),
            ("3 > 10", "names no group", ""),
            ("0*'a' > 10", "names no group", ""),
            ("1e99*1e99*1e99*1e99*1e99*'a' > 0", "too many digits", "line 1, column 20: '*'"),
        ],
    )  # fmt: skip
    def test_say_what_and_where(self, text: str, what: str, where: str) -> None:
        with pytest.raises(RequestError) as refusal:
            read(text)
        assert what in refusal.value.what
        assert refusal.value.where.startswith(where)
        assert refusal.value.hint

    @pytest.mark.parametrize(
        ("written", "sign", "meant"), [("‘a' > 'b'", "‘", "'"), ("'a' − 'b' > 3", "−", "-"), ("2×'a' > 'b'", "×", "*")]
    )  # fmt: skip
    def test_a_sign_of_a_word_processor_is_named_with_the_one_that_is_meant(
        self, written: str, sign: str, meant: str
    ) -> None:
        with pytest.raises(RequestError) as refusal:
            read(written)
        assert refusal.value.hint == f"Type {meant} instead."
        read(written.replace(sign, meant))

    def test_text_and_depth_are_bounded(self) -> None:
        with pytest.raises(RequestError, match=f"more than {MAX_TEXT:,}"):
            read("'a' > 'b'" + " " * MAX_TEXT)
        read("(" * MAX_DEPTH + "'a'" + ")" * MAX_DEPTH + " > 'b'")
        for text in ("(" * 900, "'a' > " + "(" * (MAX_DEPTH + 1) + "'b'"):
            with pytest.raises(RequestError, match="too many brackets"):
                read(text)
        read("-" * 1_900 + "'a' > 'b'")

    @pytest.mark.parametrize("text", [None, 3, b"'a' > 'b'"])
    def test_what_is_no_text_is_refused(self, text: object) -> None:
        with pytest.raises(RequestError, match="must be text"):
            read(text)  # type: ignore[arg-type]

    @given(st.text(max_size=60) | st.text("'\"ab0.5e+-*/(),:<>= \n", max_size=60))
    @example("'")
    @example("\ud800 > 'a'")
    @example("٣*'a' > 'b'")
    def test_arbitrary_text_raises_nothing_else(self, text: str) -> None:
        try:
            found = read(text)
        except RequestError as refusal:
            assert refusal.hint
            assert str(refusal)
        else:
            assert read(str(found)) == found


class TestWriting:
    @given(comparisons())
    def test_what_is_written_is_read(self, comparison: Comparison) -> None:
        text = str(comparison)
        assume(len(text) <= MAX_TEXT)
        assert read(text) == comparison

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("'a'>'b'", "'a' > 'b'"),
            ("'b' < 0.50*'a' + 5", "0.5*'a' > 'b' - 5"),
            ("-'a' > 'b' + 3", "-3 > 'a' + 'b'"),
            ("'a' > -3", "'a' > -3"),
            ("n: 'a'*2/3 > 0", "n: 2/3*'a' > 0"),
            ("\"a b\": 'a' > 'b'", "'a b': 'a' > 'b'"),
            ("('a', 3) > (4,)", "('a', 3) > (4,)"),
        ],
    )
    def test_shortly(self, text: str, written: str) -> None:
        assert str(read(text)) == written

    @given(WEIGHTS)
    def test_numbers_are_written_as_they_are(self, value: Fraction) -> None:
        assert Fraction(number_text(value)) == value


class TestExactNumbers:
    @pytest.mark.parametrize(
        "value",
        [0.1, "0.1", " 1e-1", Fraction(1, 10), Decimal("0.1"), np.float64(0.1), np.float32(0.1)],
    )
    def test_a_decimal_is_itself(self, value: object) -> None:
        assert exact(value, "weight") == Fraction(1, 10)

    @pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), 7.0, "7", "+7.0"])
    def test_whole_numbers(self, value: object) -> None:
        assert exact(value, "weight") == 7

    @pytest.mark.parametrize(
        "value",
        [float("nan"), float("inf"), -np.inf, "nan", "1/2", "", "a", None, True, np.bool_(1), 1j,
         [1], Decimal("Infinity"), "1e9999"],
    )  # fmt: skip
    def test_what_is_no_number_is_refused(self, value: object) -> None:
        with pytest.raises(RequestError, match="the weight must be a finite number"):
            exact(value, "weight")

    @pytest.mark.parametrize("value", [1e9 + 1, -(10**4000), "1e10", 1e-300, Fraction(1, 3**99)])
    def test_what_is_too_large_or_too_fine_is_refused(self, value: object) -> None:
        with pytest.raises(RequestError, match="the constant is too large, or has too many digits"):
            exact(value, "constant")
        assert exact(-1e9, "constant") == -(10**9)
