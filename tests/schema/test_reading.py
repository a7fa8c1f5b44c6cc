"""The rule by which a text is read is that of pandas.read_csv, for each value by itself."""

from __future__ import annotations

import csv
import io
import random

import pandas as pd
import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.errors import SchemaError, SqlError
from dpnb.schema.partition import labels
from dpnb.schema.reading import canonical, is_word, number, truth
from dpnb.sql.parser import parse

pytestmark = pytest.mark.fast

SPELLINGS = [
    "7", "07", "007", "+7", "-7", "- 7", "--7", "+-7", " 7", "7 ", "\t7", "7\t", "\x0b7", "7\x0c", "\u00a07", "7\u00a0",
    "-0", "+0", "-0.0", "1.5", "1.50", ".5", "5.", "+.5", "-5.", ".", "-", "+", "1.2.3", "1..", "1e3", "1E3", "1e+3",
    "1e-3", "1e", "1e+", "1.e3", ".e3", "e3", "1e3.5", "1e400", "-1e400", "1e-400", "1e308", "2e308", "0x10", "0b1",
    "1_000", "1,000", "1 000", "1e 5", "1 e5", "1e5 ", "inf", "Inf", "INF", "+inf", "-inf", "infinity", "-Infinity",
    "iNfInItY", " inf", "inf ", "infinit", "nan", "NaN", "-nan", "NA", "N/A", "null", "None", "True", "TRUE", "true",
    "False", "FALSE", "false", " True", "True ", "t", "T", "yes", "no", "1d5", "1f", "1L", "٣", "１", "½", "$1", "1%",
    "'7'", '"7', "7\x00", "fal\u017fe", "\u0130nf", "9007199254740993", "-9007199254740993", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "123456789012345678901234567890", "0.1", "0.30000000000000004",
    "2.2250738585072014e-308", "5e-324", "00000000000000000000000000000000000000001", "0.00000000000000000000001234",
    "1e0000000000000000000001", "1e99999999999999999999", "07001", "7001.0", "a", " a", "Zürich", "2024-01-05", "",
]  # fmt: skip


def drawn(count):
    """Texts of a few signs, most of which are nearly numbers."""
    rng = random.Random(5)  # noqa: S311
    return [
        "".join(rng.choices("0123456789005 .eE+-_xinfaTtrue\t", k=rng.randint(1, 7)))
        for _ in range(count)
    ]


def as_pandas_reads(text, engine):
    """What pandas.read_csv makes of a text that is alone in its column."""
    file = io.StringIO()
    csv.writer(file).writerows([["i", "x"], [1, text]])
    read = pd.read_csv(io.StringIO(file.getvalue()), engine=engine, keep_default_na=False)["x"]
    value = read[0]
    if read.dtype == bool:
        return bool(value)
    return text if isinstance(value, str) else float(value)


def as_read(text):
    found, whether = number(text), truth(text)
    return found if found is not None else whether if whether is not None else text


@pytest.mark.parametrize("engine", ["c", "python"])
def test_a_text_is_what_pandas_reads(engine):
    for text in [*SPELLINGS, *drawn(700 if engine == "c" else 100)]:
        if text in ("", "\t") or ("\x00" in text and engine == "python"):
            continue
        found, expected = as_read(text), as_pandas_reads(text, engine)
        # the default engine ignores case in truths, the other one knows three spellings
        if engine == "python" and isinstance(found, bool) and isinstance(expected, str):
            continue
        assert (type(found), found) == (type(expected), expected), repr(text)


def test_it_is_the_same_for_many_texts_at_a_time():
    """One engine, thousands of numbers: nothing about a value depends on its column."""
    texts = [text for text in drawn(20_000) if number(text) is not None]
    read = pd.read_csv(io.StringIO("x,i\n" + "".join(f'"{text}",1\n' for text in texts)))["x"]
    assert read.dtype == float
    assert len(texts) > 1_000
    assert [number(text) for text in texts] == read.tolist()


def test_whole_numbers_are_written_as_such():
    texts = ["07001", "7001.0", "7001", "+7001", "7.001e3", " 7001\t"]
    assert set(map(canonical, texts)) == {"7001"}
    assert canonical("1.50") == canonical("1.5") == "1.5"
    assert canonical("-0") == canonical("0.0") == canonical("-0.0") == "0"
    assert canonical("9007199254740993") == canonical("9007199254740992") == "9007199254740992"
    assert canonical("1e400") == canonical("Infinity") == "inf"


def test_truths_are_not_the_numbers_1_and_0():
    assert {canonical(text) for text in ("TRUE", "true", "True", "tRUE")} == {"True"}
    assert len({canonical(text) for text in ("True", "False", "1", "0")}) == 4


def test_missing_marks_and_other_words_stay_as_they_are():
    for text in ("NA", "nan", "NaN", "null", "", " a", "a ", "07001x", "True "):
        assert canonical(text) == text
        assert is_word(text)


def test_what_is_canonical_stays():
    for text in [*SPELLINGS, *drawn(2_000)]:
        key = canonical(text)
        assert canonical(key) == key
        assert is_word(text) is (number(text) is None and truth(text) is None)


class TestCategories:
    def test_two_spellings_of_one_value_are_refused(self):
        for one, other in (("07001", "7001"), ("1.5", "1.50"), ("true", "True"), ("1e3", "1000")):
            with pytest.raises(SchemaError) as caught:
                Category(["a", one, "b", other])
            assert repr(one) in str(caught.value)
            assert repr(other) in str(caught.value)
            # the hint works
            Category(["a", one, "b"])

    def test_what_is_declared_is_shown(self):
        kind = Category(["07001", "TRUE", "1.50"], other="true")
        assert [*labels(kind)] == ["07001", "TRUE", "1.50"]
        assert kind.other == "TRUE"
        assert kind.to_dict()["values"] == ["07001", "TRUE", "1.50"]

    def test_statements_may_spell_a_value_otherwise(self):
        table = Table(
            "t", None, Schema({"zip": Category(["07001", "1.50", "yes"]), "n": Integer(0, 9)})
        )

        def where(condition, params=None):
            return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", {"t": table}, params).where

        assert where("zip = '7001'") == where("zip = '07001'") == where("zip = '7001.0'")
        assert where("zip IN (' 07001', '1.5')") == where("zip IN ('07001', '1.50')")
        assert where("zip = :z", {"z": "7001"}) == where("zip = '07001'")
        assert where("zip = 7001") == where("zip = '07001'")
        with pytest.raises(SqlError, match="'7002' is not a declared category"):
            where("zip = '7002'")

    def test_equal_declarations_are_equal(self):
        assert Category(["07001"]) == Category(["07001"])
        assert Category(["07001"]) != Category(["7001"])
