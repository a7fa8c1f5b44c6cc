"""Kinds, bounds, bins, codes, TOML: what is public is declared, checked and kept exactly."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Unit
from dpnb.codes import Scale
from dpnb.errors import SchemaError
from dpnb.schema.partition import declared
from dpnb.schema.schema import read_toml

OPERATORS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

NAMES = ["plain", 'with "quotes"', "with 'single'", "Größe", "年齢", "<b>bold</b>", "a b; --", "☃"]


def inside(intervals, code):
    return any(low <= code <= high for low, high in intervals)


def well_formed(intervals):
    """Sorted, disjoint, none empty."""
    return all(low <= high for low, high in intervals) and all(
        a[1] < b[0] for a, b in itertools.pairwise(intervals)
    )


class TestScaleOfWholeNumbers:
    LOW, HIGH = -4, 6
    CODES = range(LOW, HIGH + 1)
    scale = Scale(LOW, HIGH, integral=True)
    intervals = st.lists(
        st.tuples(st.integers(LOW, HIGH), st.integers(LOW, HIGH)).map(sorted).map(tuple), max_size=5
    )
    values = st.one_of(
        st.integers(-9, 11),
        st.fractions(-9, 11, max_denominator=6),
        st.floats(-9, 11, allow_nan=False),
    )

    @given(intervals, intervals)
    @settings(deadline=None)
    def test_set_operations_agree_with_brute_force(self, left, right):
        union = self.scale.union([*left, *right])
        both = self.scale.intersection(left, right)
        outside = self.scale.complement(left)
        for found in (union, both, outside):
            assert well_formed(found)
        for code in self.CODES:
            assert inside(union, code) == (inside(left, code) or inside(right, code))
            assert inside(both, code) == (inside(left, code) and inside(right, code))
            assert inside(outside, code) == (not inside(left, code))

    @given(intervals)
    @settings(deadline=None)
    def test_neighbouring_intervals_have_one_spelling(self, found):
        joined = self.scale.union(found)
        assert all(b[0] - a[1] > 1 for a, b in itertools.pairwise(joined))

    @given(st.sampled_from(sorted(OPERATORS)), values)
    @settings(deadline=None)
    def test_comparisons_agree_with_brute_force(self, operator, value):
        found = self.scale.compare(operator, value)
        for code in self.CODES:
            assert inside(found, code) == OPERATORS[operator](Fraction(code), Fraction(value))


class TestScaleOfFloats:
    scale = Scale(-1.5, 2.5, integral=False)
    floats = st.one_of(
        st.floats(-1.5, 2.5),
        st.sampled_from([-1.5, -0.0, 0.0, 5e-324, -5e-324, 0.1, 0.30000000000000004, 2.5]),
    )
    intervals = st.lists(st.tuples(floats, floats).map(sorted).map(tuple), max_size=4)

    @given(intervals, intervals, st.lists(floats, max_size=6))
    @settings(deadline=None)
    def test_set_operations_agree_on_sampled_codes(self, left, right, samples):
        union = self.scale.union([*left, *right])
        both = self.scale.intersection(left, right)
        outside = self.scale.complement(left)
        assert well_formed(union)
        assert well_formed(both)
        assert well_formed(outside)
        edges = [e for pair in (*left, *right) for end in pair for e in around(end)]
        for code in [*samples, *edges, *around(-1.5), *around(2.5)]:
            if -1.5 <= code <= 2.5:
                assert inside(union, code) == (inside(left, code) or inside(right, code))
                assert inside(both, code) == (inside(left, code) and inside(right, code))
                assert inside(outside, code) == (not inside(left, code))

    @given(
        st.sampled_from(sorted(OPERATORS)),
        st.one_of(floats, st.fractions(-3, 4), st.floats(-9, 9)),
        st.lists(floats, max_size=4),
    )
    @settings(deadline=None)
    def test_comparisons_are_exact_next_to_the_value(self, operator, value, samples):
        found = self.scale.compare(operator, value)
        for code in [*samples, *around(float(value))]:
            if -1.5 <= code <= 2.5:
                expected = OPERATORS[operator](Fraction(code), Fraction(value))
                assert inside(found, code) == expected

    def test_a_decimal_constant_is_the_float_it_names(self):
        """As in the column and in its bins: 0.1 as written lies below the float 0.1."""
        kind = Real(0, 1)
        for value in (Fraction("0.1"), 0.1):
            assert kind.compare("=", value) == ((0.1, 0.1),)
            assert kind.compare("<=", value) == ((0.0, 0.1),)
            assert kind.compare(">", value)[0][0] == math.nextafter(0.1, 1)

    def test_a_constant_beyond_floats_is_beyond_the_domain(self):
        kind = Real(0, 1)
        assert kind.compare("<", Fraction(10) ** 400) == ((0.0, 1.0),)
        assert kind.compare(">", Fraction(10) ** 400) == ()


def around(value):
    return [math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf)]


class TestValuesOfLibraries:
    """NumPy scalars, arrays and decimals are numbers and lists; what is kept is plain Python."""

    @pytest.mark.parametrize(
        ("declared", "plain"),
        [
            (Integer(np.int64(0), np.uint8(9)), Integer(0, 9)),
            (Integer(Decimal(0), Decimal("9.00")), Integer(0, 9)),
            (Integer(0, 9, bins=np.arange(0, 10, 3)), Integer(0, 9, bins=[0, 3, 6, 9])),
            (Integer(0, 9, bins=range(0, 10, 3)), Integer(0, 9, bins=[0, 3, 6, 9])),
            (Integer(0, 9, bins=pd.Series([0, 3, 9])), Integer(0, 9, bins=[0, 3, 9])),
            (Integer(0, 9, bins=pa.array([0, 3, 9])), Integer(0, 9, bins=[0, 3, 9])),
            (Real(np.float32(0), Decimal("0.1")), Real(0, 0.1)),
            (Real(0, 9, bins=np.linspace(0, 9, 4)), Real(0, 9, bins=[0, 3, 6, 9])),
            (Real(0, 1, bins=[Decimal("0.1"), Decimal("0.7")]), Real(0, 1, bins=[0.1, 0.7])),
            (Category(pd.Series(["b", "a", "b"]).unique()), Category(["b", "a"])),
            (Category(np.array(["a", "b"])), Category(["a", "b"])),
            (Category([np.str_("a")], other=np.str_("a")), Category(["a"], other="a")),
            (Category(pd.Categorical(["a", "b"])), Category(["a", "b"])),
            (Category(pd.Index(["a", "b"])), Category(["a", "b"])),
            (
                Date(np.datetime64("2024-01-01"), pd.Timestamp("2024-12-31")),
                Date("2024-01-01", "2024-12-31"),
            ),
            (
                Date("2024-01-01", np.datetime64("2024-12-31", "ns")),
                Date("2024-01-01", "2024-12-31"),
            ),
            (
                Date("2024-01-01", "2024-03-01", pd.date_range("2024-01-01", periods=3, freq="MS")),
                Date("2024-01-01", "2024-03-01", ["2024-01-01", "2024-02-01", "2024-03-01"]),
            ),
            (Unit("id", np.int64(3)), Unit("id", 3)),
            (Unit("id", Decimal(3)), Unit("id", 3)),
        ],
    )
    def test_are_read_as_plain_ones(self, declared, plain):
        assert declared == plain
        # the repr of a NumPy number names its type
        assert repr(declared) == repr(plain)
        assert json.dumps(declared.to_dict(), default=str) == json.dumps(
            plain.to_dict(), default=str
        )

    def test_lists_of_names_are_lists(self):
        columns = {"a": Integer(0, 9), "b": Integer(0, 9)}
        names = pd.Index(["a", "b"])
        schema = Schema(columns, aliases=[names], complete=names, undeclared=np.array(["c"]))
        assert schema == Schema(columns, [["a", "b"]], ["a", "b"], ["c"])
        table = dpnb.Table("t", pd.DataFrame(), schema, in_memory=names)
        assert table.in_memory == ("a", "b")

    @pytest.mark.parametrize(
        ("declare", "said"),
        [
            (lambda: Integer(np.float64(0.5), 9), "must be whole numbers"),
            (lambda: Integer(Decimal("0.5"), 9), "must be whole numbers"),
            (lambda: Integer(np.bool_(True), 9), "must be whole numbers"),
            (lambda: Integer(0, 9, bins=np.zeros((2, 2))), "bins must be a list of edges"),
            (lambda: Integer(0, 9, bins={0, 9}), "got a value of type set"),
            (lambda: Real(Decimal("NaN"), 9), "finite bounds"),
            (lambda: Real(0, Decimal("1e999999")), "finite bounds"),
            (lambda: Category(np.array([1, 2])), "got a value of type int. Write Category(['a'"),
            (lambda: Category(np.array(["a", math.nan], dtype=object)), "a value of type float"),
            (lambda: Category({"a", "b"}), "got a value of type set"),
            (lambda: Date(pd.NaT, "2024-01-01"), "a value of type NaTType is not a date"),
            (lambda: Date(np.datetime64("NaT"), "2024-01-01"), "None is not a date"),
            (lambda: Date(np.datetime64("2024-01-01T12", "ns"), "2024-12-31"), "a time of day"),
            (lambda: Unit("id", np.float64(2.5)), "max_rows must be a whole number"),
        ],
    )
    def test_others_are_refused_by_what_they_are(self, declare, said):
        with pytest.raises(SchemaError, match=re.escape(said)):
            declare()

    @pytest.mark.parametrize(
        "amount", [Decimal("0.1"), np.float64(0.1), np.array(0.1), "0.1", Fraction(1, 10)]
    )
    def test_amounts_are_exact(self, amount):
        assert dpnb.Budget(rho=amount).rho == Fraction(1, 10)

    @pytest.mark.parametrize("amount", [Decimal("NaN"), Decimal("1e999999"), Decimal("1e-999999")])
    def test_an_amount_is_within_reason(self, amount):
        with pytest.raises(dpnb.DpnbError, match="rho must be"):
            dpnb.Budget(rho=amount)


BAD = [
    (lambda: Category("abc"), "a Category takes a list of strings"),
    (lambda: Category([1, 2]), "for whole numbers use Integer(0, 9)"),
    (lambda: Category([]), "1 to 65,535 different values"),
    (lambda: Category(["a", "a"]), "1 to 65,535 different values"),
    (lambda: Category([str(i) for i in range(65_536)]), "1 to 65,535 different values"),
    (lambda: Category(["a"], other="b"), "other='b' is not one of the declared values"),
    (lambda: Integer(0.5, 2), "whole numbers"),
    (lambda: Integer(True, 2), "whole numbers"),
    (lambda: Integer(0, 2, bins=[0, 1.5]), "whole numbers"),
    (lambda: Integer(2, 2), "low < high"),
    (lambda: Integer(3, 2), "low < high"),
    (lambda: Integer(0, 2**53 + 1), "within +-2**53"),
    (
        lambda: Integer(0, 9, bins=[0]),
        "bins need at least two edges in increasing order. Write bins=[0, 10, 20].",
    ),
    (
        lambda: Integer(0, 9, bins=[3, 3]),
        "bins need at least two edges in increasing order. Write bins=[0, 10, 20].",
    ),
    (
        lambda: Integer(0, 9, bins=[5, 3]),
        "bins need at least two edges in increasing order. Write bins=[0, 10, 20].",
    ),
    (lambda: Integer(0, 9, bins=[0, 10]), "an edge of the bins is outside the bounds"),
    (lambda: Real("0", 1), "numbers"),
    (lambda: Real(0, math.inf), "finite bounds"),
    (lambda: Real(math.nan, 1), "finite bounds"),
    (lambda: Real(1, 1), "low < high"),
    (lambda: Real(0, 1e200), "the bounds of a Real must be between 1e-150 and 1e150 in size. Use"),
    (lambda: Real(0, 1e-200), "the bounds of a Real must be between 1e-150 and 1e150 in size. Use"),
    (lambda: Real(1e9, 1e9 + 1e-4), "too close together"),
    (lambda: Real(0, 1, bins=[0, 2]), "an edge of the bins is outside the bounds"),
    (lambda: declared("x", {"x": Real(0, 1)}).groups, "Declare bins=[...]"),
    (lambda: Date("2024-02-30", "2024-12-31"), "'2024-02-30' is not a date"),
    (lambda: Date("2024-12-31", "2024-01-01"), "low < high"),
    (lambda: Date("2024-01-01", "2024-12-31", bins=["2024-01-01"]), "at least two edges"),
    (lambda: Schema({}), "at least one column"),
    (
        lambda: Schema({"a": Integer(0, 1), "A": Integer(0, 1)}),
        "two columns differ only in upper and lower case. Rename one of them.",
    ),
    (
        lambda: Schema({"straße": Integer(0, 1), "STRASSE": Integer(0, 1)}),
        "two columns differ only in upper and lower case. Rename one of them.",
    ),
    (lambda: Schema({"": Integer(0, 1)}), "has an unknown kind"),
    (lambda: Schema({"a": int}), "Use Category, Boolean, Integer, Real, Date or Timestamp"),
    (
        lambda: Schema.from_dict({"a": {"type": "float"}}),
        "Use one of category, boolean, integer, real",
    ),
    (lambda: Schema.from_dict({"a": "integer"}), "has type ''"),
    (
        lambda: Schema.from_dict({"a": {"type": "integer", "low": 0}}),
        "has an unknown option, or one is missing",
    ),
    (
        lambda: Schema.from_dict({"a": {"type": "real", "low": 0, "high": 1, "x": 1}}),
        "column 'a' (real) has an unknown option, or one is missing. A",
    ),
    (lambda: Schema.from_dict({"a": {"type": "integer", "low": 1, "high": 0}}), "column 'a'"),
]


class TestBadDeclarations:
    @pytest.mark.parametrize(("declare", "part"), BAD, ids=[part for _, part in BAD])
    def test_each_is_refused_with_its_own_text(self, declare, part):
        with pytest.raises(SchemaError) as caught:
            declare()
        assert part in str(caught.value)

    def test_what_is_no_category_is_refused_by_comparison(self):
        with pytest.raises(SchemaError, match="Did you mean 'Male'"):
            Category(["Female", "Male"]).compare("=", "male")
        with pytest.raises(SchemaError, match="categories have no order"):
            Category(["a"]).compare("<", "a")
        with pytest.raises(SchemaError, match="is not a number"):
            Integer(0, 1).compare("=", "1")
        with pytest.raises(SchemaError, match="is not a number"):
            Real(0, 1).compare("=", True)


class TestSchema:
    def test_names_are_found_without_regard_to_case_and_shown_as_declared(self):
        schema = Schema({"Age": Integer(0, 9)})
        assert schema.find("AGE") == "Age"
        assert schema.find("ages") is None

    def test_kinds_are_frozen_and_compare_by_value(self):
        assert Integer(0, 9, bins=[0, 9]) == Integer(0, 9, bins=(0, 9))
        with pytest.raises(AttributeError):
            Integer(0, 9).low = 5

    @given(
        st.dictionaries(
            st.one_of(st.sampled_from(NAMES), st.text(min_size=1, max_size=8)),
            st.one_of(
                st.lists(st.text(max_size=6), min_size=1, max_size=4, unique=True).map(Category),
                st.integers(-(2**53), 2**53 - 9).map(lambda n: Integer(n, n + 9, bins=[n, n + 4])),
                st.floats(-1e6, 1e6).map(lambda x: Real(x, x + 1, bins=[x, x + 0.5])),
                st.dates(max_value=datetime.date(9000, 1, 1)).map(
                    lambda d: Date(d, d + datetime.timedelta(9))
                ),
            ),
            min_size=1,
            max_size=5,
        ).filter(lambda columns: len({name.casefold() for name in columns}) == len(columns))
    )
    @settings(deadline=None, max_examples=60)
    def test_toml_gives_back_the_same_schema(self, columns):
        import tomllib

        schema = Schema(columns)
        again = Schema.from_dict(tomllib.loads(schema.to_toml())["columns"])
        assert again == schema
        assert list(again) == list(schema)
        assert again.to_dict() == schema.to_dict()

    @pytest.mark.parametrize("name", NAMES)
    def test_odd_names_and_values_survive_a_file(self, name, tmp_path):
        schema = Schema({name: Category([name, "</script><script>", "'; DROP TABLE x"])})
        path = tmp_path / "odd.toml"
        path.write_text(schema.to_toml(), "utf-8")
        assert Schema.load(path) == schema


class TestFiles:
    def test_a_missing_file_says_so(self, tmp_path):
        with pytest.raises(SchemaError, match="cannot be read"):
            Schema.load(tmp_path / "none.toml")

    def test_broken_toml_says_so(self, tmp_path):
        path = tmp_path / "bad.toml"
        path.write_text("name = ", "utf-8")
        with pytest.raises(SchemaError, match="not valid TOML"):
            read_toml(path)

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    def test_a_mark_of_its_encoding_does_not_matter(self, tmp_path, encoding):
        path = tmp_path / "a.toml"
        schema = Schema({"Größe": Integer(0, 9)})
        path.write_text(schema.to_toml(), encoding)
        assert Schema.load(path) == schema

    @pytest.mark.parametrize(
        ("encoding", "named"),
        [
            ("utf-16", "UTF-16"),
            ("utf-16-be", "UTF-16"),
            ("utf-16-le", "UTF-16"),
            ("utf-32", "UTF-16"),
            ("latin-1", "another encoding, such as Latin-1"),
            ("cp1252", "another encoding, such as Latin-1"),
        ],
    )
    def test_another_encoding_is_named(self, tmp_path, encoding, named):
        path = tmp_path / "a.toml"
        text = '[columns."Größe"]\ntype = "integer"\nlow = 0\nhigh = 9\n'
        path.write_text(text, encoding)
        with pytest.raises(SchemaError) as caught:
            Schema.load(path)
        assert (
            str(caught.value) == f"the file is in {named}, not in UTF-8 ({path}). Save it as UTF-8."
        )
        path.write_text(path.read_text(encoding), "utf-8")
        assert list(Schema.load(path)) == ["Größe"]

    def test_unknown_entries_are_refused(self, tmp_path):
        path = tmp_path / "odd.toml"
        path.write_text("colums = 1", "utf-8")
        with pytest.raises(SchemaError, match="unknown entry 'colums'"):
            read_toml(path)

    def test_the_adult_schema_is_the_declared_one(self):
        schema = dpnb.datasets.adult().schema
        assert len(schema) == 16
        assert schema["age"] == Integer(17, 90, bins=[17, 20, 30, 40, 50, 60, 70, 80, 90])
        assert schema["high_income"] == Integer(0, 1)
        assert "?" in schema["workclass"].values


class TestAliases:
    COLUMNS = {name: Integer(0, 9) for name in ("a", "b", "c", "d")}  # noqa: RUF012

    def test_survive_toml_and_plain_data(self, tmp_path):
        schema = Schema(self.COLUMNS, aliases=[["a", "b"], ["c", "d"]])
        (tmp_path / "s.toml").write_text(schema.to_toml(), "utf-8")
        assert Schema.load(tmp_path / "s.toml") == schema
        assert schema.aliases == (("a", "b"), ("c", "d"))

    def test_are_part_of_what_a_schema_is(self):
        plain, aliased = Schema(self.COLUMNS), Schema(self.COLUMNS, aliases=[["a", "b"]])
        assert plain != aliased
        assert hash(plain) != hash(aliased)
        assert "aliases=[['a', 'b']]" in repr(aliased)

    @pytest.mark.parametrize(
        "aliases", [[["a"]], [["a", "e"]], [["a", "b"], ["b", "c"]], [["a", "a"]], ["ab"], "ab", 5]
    )
    def test_that_make_no_sense_are_refused(self, aliases):
        with pytest.raises(SchemaError, match="alias"):
            Schema(self.COLUMNS, aliases=aliases)


class TestCompleteColumns:
    COLUMNS = {name: Integer(0, 9) for name in ("a", "b", "c")}  # noqa: RUF012

    def test_survive_toml_and_plain_data(self, tmp_path):
        schema = Schema(self.COLUMNS, complete=["c", "a"])
        (tmp_path / "s.toml").write_text(schema.to_toml(), "utf-8")
        assert Schema.load(tmp_path / "s.toml") == schema
        assert schema.complete == ("a", "c")

    def test_are_part_of_what_a_schema_is(self):
        plain, complete = Schema(self.COLUMNS), Schema(self.COLUMNS, complete=["b"])
        assert plain != complete
        assert hash(plain) != hash(complete)
        assert "complete=['b']" in repr(complete)

    @pytest.mark.parametrize("complete", ["a", ["d"], [1], 5, {"a": 1}, None])
    def test_that_make_no_sense_are_refused(self, complete):
        with pytest.raises(SchemaError, match="complete"):
            Schema(self.COLUMNS, complete=complete)
