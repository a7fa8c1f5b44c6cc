"""The candidates are public: declared values, runs of bins, or a list of conditions."""

from __future__ import annotations

import itertools
import math

import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.errors import RequestError
from dpnb.explain import predicates as module
from dpnb.explain.listed import condition
from dpnb.explain.options import CANDIDATES
from dpnb.explain.predicates import Space, space
from dpnb.releases.options import read_values
from dpnb.schema.predicates import plain


def sized(*sizes):
    """A table with one category for each size."""
    columns = {f"a{i}": Category([f"v{j}" for j in range(size)]) for i, size in enumerate(sizes)}
    return Table("t", None, Schema({**columns, "value": Integer(0, 1)}))


SCHEMA = Schema(
    {
        "g": Category(["a", "b"]),
        "x": Category(["u", "w", "it's"]),
        "age": Integer(0, 90, bins=[0, 20, 40, 60, 90]),
        "years": Integer(0, 90),
        "wage": Real(0, 10, bins=[0, 2.5, 10]),
        "gain": Real(0, 10),
        "day": dpnb.Date(
            "2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]
        ),
        "y": Category(["p", "q"]),
        "z": Category(["P", "Q"]),
    },
    aliases=[["age", "years"], ["y", "z"]],
)
TABLE = Table("t", None, SCHEMA)


def labels(found):
    return [found.label(i) for i in range(found.size)]


class TestSize:
    """Known numbers of candidates."""

    @pytest.mark.parametrize(
        ("sizes", "counts"),
        [
            ((22, 8, 29, 6, 15, 36), (116, 5255, 117880)),
            ((3, 8, 29, 6, 15, 36), (97, 3469, 57327)),
            # South German Credit without status, and without purpose
            ((4, 5, 11, 5, 5, 5, 4, 4, 3, 4, 4, 8, 3, 3, 4, 4, 2, 2, 2), (82, 3144, 74984)),
            ((4, 4, 5, 5, 5, 5, 4, 4, 3, 4, 4, 8, 3, 3, 4, 4, 2, 2, 2), (75, 2647, 58443)),
        ],
    )
    def test_it_is_the_elementary_symmetric_polynomial(self, sizes, counts):
        for length, count in enumerate(counts, start=1):
            assert space(sized(*sizes), {"value"}, length=length).size == count
            either = space(sized(*sizes), {"value"}, length=length, connective="or")
            assert either.size == count

    def test_ranges_add_every_run_of_bins(self):
        assert space(TABLE, set(), attributes=["age"], ranges=True).size == 4 + 3 + 2 + 1
        assert space(TABLE, set(), attributes=["x"], ranges=True).size == 3

    def test_a_list_has_its_length(self):
        assert space(TABLE, set(), predicates=["age > 40", "x = 'u'"]).size == 2


class TestNumbers:
    @pytest.mark.parametrize("length", [1, 2, 3])
    @pytest.mark.parametrize("connective", ["and", "or"])
    @pytest.mark.parametrize("ranges", [False, True])
    def test_each_number_is_another_predicate_with_the_meaning_of_its_label(
        self, length, connective, ranges
    ):
        found = space(TABLE, {"g"}, length=length, connective=connective, ranges=ranges)
        names = labels(found)
        assert len(set(names)) == found.size
        meanings = {str(plain(found.predicate(i, SCHEMA))) for i in range(found.size)}
        assert len(meanings) >= found.size - 1  # the run of all bins of a column, once
        for name in names:
            assert name.count(f" {connective.upper()} ") == length - 1

    def test_labels(self):
        found = space(TABLE, set(), attributes=["x", "age", "wage", "day"], ranges=True)
        assert labels(found) == [
            "x = 'u'", "x = 'w'", "x = 'it's'",
            "age in [0, 20]", "age in (20, 40]", "age in (40, 60]", "age in (60, 90]",
            "age in [0, 40]", "age in [0, 60]", "age in [0, 90]",
            "age in (20, 60]", "age in (20, 90]", "age in (40, 90]",
            "wage in [0.0, 2.5]", "wage in (2.5, 10.0]", "wage in [0.0, 10.0]",
            "day in [2024-01-01, 2024-06-30]", "day in (2024-06-30, 2024-12-31]",
            "day in [2024-01-01, 2024-12-31]",
        ]  # fmt: skip

    def test_predicates_mean_what_where_would(self):
        found = space(TABLE, set(), attributes=["x", "age"], length=2, connective="or", ranges=True)
        place = labels(found).index("x = 'w' OR age in (20, 60]")
        meaning = condition("x = 'w' OR age > 20 AND age <= 60", TABLE)
        assert plain(found.predicate(place, SCHEMA)) == plain(meaning)

    def test_the_order_in_which_attributes_are_named_means_nothing(self):
        spaces = [space(TABLE, set(), attributes=names, length=2)
                  for names in itertools.permutations(["wage", "x", "day"])]  # fmt: skip
        assert len({str(found.definition()) for found in spaces}) == 1
        assert len({tuple(labels(found)) for found in spaces}) == 1


class TestDefaults:
    def test_all_other_columns_with_declared_values_take_part(self):
        found = space(TABLE, {"g"})
        assert [a.column for a in found.attributes] == ["x", "age", "wage", "day", "y"]

    def test_of_aliases_the_first_usable_one_takes_part(self):
        assert "z" in [a.column for a in space(TABLE, {"g"}, exclude=["y"]).attributes]

    def test_aliases_of_the_questions_columns_do_not(self):
        names = [a.column for a in space(TABLE, {"years", "y"}).attributes]
        assert names == ["g", "x", "wage", "day"]

    def test_names_are_found_in_any_case(self):
        found = space(TABLE, {"g"}, attributes=["AGE"], exclude=["X"])
        assert [a.column for a in found.attributes] == ["age"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"attributes": ["nope"]}, "there is no column 'nope'"),
            ({"exclude": ["nope"]}, "there is no column 'nope'"),
            ({"attributes": ["x", "X"]}, "'x' is named twice"),
            ({"attributes": ["gain"]}, "'gain' has no declared values"),
            ({"attributes": ["g"]}, "the question itself uses 'g'"),
            ({"attributes": ["y", "x"], "taken": {"z"}}, "the question itself uses 'y'"),
            ({"attributes": []}, "the 0 that are left"),
            ({"exclude": ["x", "age", "years", "wage", "day", "y", "z"]}, "the 0 that are left"),
            ({"attributes": ["x", "y"], "exclude": ["y"], "length": 2}, "the 1 that are left"),
            ({"predicates": []}, "must be a list of conditions"),
            ({"predicates": ["x = 'unheard'"]}, "not a declared category"),
            ({"predicates": ["nope = 1"]}, "cannot be used"),
            ({"predicates": [""]}, "cannot be used"),
            ({"predicates": ["x = 'u'", "x IN ('u')"]}, "is listed twice"),
            ({"predicates": ["x = 'u'", "  x  =  'u' "]}, "is listed twice"),
            ({"predicates": ["x = 'u' GROUP BY g"]}, "more than a condition"),
            ({"predicates": ["x = 'u' LIMIT 1"]}, "more than a condition"),
            ({"predicates": ["x = 'u' HAVING COUNT(*) > 1"]}, "more than a condition"),
            ({"predicates": ["x = 'u' ORDER BY g"]}, "cannot be used"),
            ({"predicates": ["x = 'u';"]}, "more than a condition"),
            ({"predicates": ["x = 'u'; SELECT COUNT(*) FROM t"]}, "cannot be used"),
            ({"predicates": ["x = 'u') OR (x = 'w'"]}, "cannot be used"),
            ({"predicates": ["x = 'u' UNION SELECT COUNT(*) FROM t"]}, "cannot be used"),
            ({"predicates": ["COUNT(*) > 3"]}, "cannot be used"),
            ({"predicates": [f"years = {i}" for i in range(1001)]}, "more than the 1,000"),
            ({"predicates": ["x = 'u'"], "attributes": ["x"]}, "cannot be combined"),
            ({"predicates": ["x = 'u'"], "exclude": ["x"]}, "cannot be combined"),
            ({"predicates": ["x = 'u'"], "length": 2}, "cannot be combined"),
            ({"predicates": ["x = 'u'"], "ranges": True}, "cannot be combined"),
        ],
    )
    def test_each_says_what_is_wrong_and_what_to_do(self, options, what):
        options = {"taken": {"g"}, **options}
        with pytest.raises(RequestError, match=what.replace("(", "\\(")) as caught:
            space(TABLE, **options)
        assert caught.value.hint
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"attributes": "x"}, "attributes must be a list of columns"),
            ({"attributes": 5}, "attributes must be a list of columns"),
            ({"attributes": ["x", 5]}, "attributes must be a list of columns, as strings"),
            ({"exclude": "x"}, "exclude must be a list of columns"),
            ({"length": 0}, "3, got 0"),
            ({"length": 4}, "3, got 4"),
            ({"length": True}, "3, got True"),
            ({"length": 1.5}, "3, got 1.5"),
            ({"length": "1"}, "3, got '1'"),
            ({"connective": "xor"}, "'or', got 'xor'"),
            ({"ranges": "no"}, "ranges must be True or False, got 'no'"),
            ({"predicates": "x = 'u'"}, "must be a list of conditions"),
            ({"predicates": {"x = 'u'"}}, "must be a list of conditions"),
            ({"predicates": 7}, "must be a list of conditions"),
            ({"predicates": [None]}, "must be a list of conditions, as strings"),
        ],
    )
    def test_a_value_of_another_kind_is_refused(self, options, what):
        with pytest.raises(RequestError, match=what) as caught:
            read_values(CANDIDATES, options)
        assert caught.value.hint

    def test_a_semicolon_inside_a_value_is_none(self):
        table = Table("t", None, Schema({"x": Category(["a;", "b"])}))
        assert space(table, set(), predicates=["x = 'a;'"]).label(0) == "x = 'a;'"

    def test_a_thousand_are_listed(self):
        table = Table("t", None, Schema({"n": Integer(0, 1000)}))
        assert space(table, set(), predicates=[f"n = {i}" for i in range(1000)]).size == 1000


class TestLargeSpaces:
    def test_values_alone_may_be_many(self):
        table = sized(4_000, 4_000, 4_000)
        found = space(table, {"value"}, length=3)
        assert found.size == 4_000**3
        assert found.label(found.size - 1) == "a0 = 'v3999' AND a1 = 'v3999' AND a2 = 'v3999'"
        assert found.label(1) == "a0 = 'v0' AND a1 = 'v0' AND a2 = 'v1'"

    def test_the_largest_categories_fit(self):
        found = space(sized(65_535, 65_535, 65_535), {"value"}, length=3)
        codes = math.prod(a.cells + 1 for a in found.attributes)
        assert codes * 10_000 < 2**63  # joint codes with the groups of the largest query

    def test_codes_beyond_64_bits_are_refused(self):
        columns = dict.fromkeys("abc", Integer(0, 83_000, bins=list(range(83_001))))
        with pytest.raises(RequestError, match="predicates"):
            space(Table("t", None, Schema(columns)), set(), length=3)

    def test_or_and_ranges_are_laid_out_so_they_may_not(self):
        with pytest.raises(RequestError, match="too many for ranges and OR"):
            space(sized(3_000, 3_000), {"value"}, length=2, connective="or")
        table = Table("t", None, Schema({"n": Integer(0, 5000, bins=list(range(5001)))}))
        with pytest.raises(RequestError, match="'n' has 5,000 bins, too many for ranges"):
            space(table, set(), ranges=True)
        two = {name: Integer(0, 100, bins=list(range(101))) for name in "nm"}
        with pytest.raises(RequestError, match="too many for ranges and OR"):
            space(Table("t", None, Schema(two)), set(), ranges=True, length=2)

    def test_the_more_groups_a_question_has_the_fewer(self):
        table = sized(1_000, 1_000)
        space(table, {"value"}, length=2, connective="or", groups=8)
        with pytest.raises(RequestError, match="too many for ranges and OR"):
            space(table, {"value"}, length=2, connective="or", groups=100)


def test_a_space_is_found_without_listing_it(monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(Space, "label", refuse)
    assert space(sized(65_535, 65_535), {"value"}, length=2).size == 65_535**2
    assert module.MAX_SIZE <= 2**53


class TestLimits:
    def test_more_sets_than_the_rows_may_be_read_for_are_refused(self):
        with pytest.raises(RequestError, match="161,700 sets of attributes, more than the 5,000"):
            space(sized(*[2] * 100), set(), length=3)
        assert space(sized(*[2] * 100), set(), length=2).size == 4950 * 4

    def test_one_attribute_is_joined_with_none(self):
        either, both = (space(TABLE, set(), connective=word) for word in ("or", "and"))
        assert either.definition() == both.definition()

    def test_ranges_are_defined_without_being_listed(self):
        bins = list(range(101))
        table = Table("t", None, Schema({"a": Integer(0, 100, bins=bins)}))
        found = space(table, set(), ranges=True)
        assert found.size == 100 * 101 // 2
        assert len(str(found.definition())) < 100
        assert found.definition() != space(table, set()).definition()

    def test_a_table_may_be_called_like_a_word_of_sql(self):
        table = Table("select", None, SCHEMA)
        assert space(table, set(), predicates=["y = 'p'", "y = 'q'"]).size == 2
