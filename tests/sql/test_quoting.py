"""A name without its quotes, a sign of a word processor, the ids: what is advised is what works."""

from __future__ import annotations

import re

import pytest

from dpnb import Category, Integer, Schema, Table, Unit
from dpnb.errors import SqlError
from dpnb.sql.parser import parse
from dpnb.sql.quoting import as_written

pytestmark = pytest.mark.fast

NAMES = [
    "group", "order", "end", "case", "left", "from", "column", "table", "current_date", "to date",
    "hours per week", "capital-gain", "7up", "prix (€)", "a.b", "a,b", "50%", "it's", 'say "x"',
    "Größe in m", "cafe crème", "where x",
]  # fmt: skip
PLAIN = ["sex", "user", "Größe", "x–y", "date", "values", "interval", "type", "名前"]
STATEMENTS = [
    "SELECT SUM({0}) AS s FROM t",
    "SELECT {0}, COUNT(*) AS c FROM t GROUP BY {0}",
    "SELECT COUNT(*) AS c FROM t WHERE {0} > 1 AND {0} < 3",
    "SELECT AVG(CASE WHEN {0} > 1 THEN 1 ELSE 0 END) AS c FROM t",
    "SELECT COUNT(*) FILTER (WHERE {0} = 1) AS c FROM t",
]


def tables(*names: str) -> dict[str, Table]:
    schema = Schema({"x": Integer(0, 3), **{name: Integer(0, 3) for name in names}})
    return {"t": Table("t", None, schema)}


def refusal(text: str, names: dict[str, Table]) -> SqlError:
    with pytest.raises(SqlError) as raised:
        parse(text, names)
    return raised.value


class TestNames:
    @pytest.mark.parametrize("statement", STATEMENTS)
    @pytest.mark.parametrize("name", NAMES)
    def test_the_hint_is_the_quoted_name(self, name, statement):
        quoted = '"' + name.replace('"', '""') + '"'
        accepted = parse(statement.format(quoted), tables(name))
        error = refusal(statement.format(name), tables(name))
        assert (error.what, error.hint) == (
            f"the name {name!r} needs double quotes",
            f"Write {quoted}.",
        )
        assert error.text == name
        assert parse(statement.format(quoted), tables(name)) == accepted

    @pytest.mark.parametrize("name", PLAIN)
    def test_other_names_need_none(self, name):
        for statement in STATEMENTS:
            quoted = parse(statement.format(f'"{name}"'), tables(name))
            assert parse(statement.format(name), tables(name)) == quoted

    @pytest.mark.parametrize("name", ["sex", "Größe", "values", "名前"])
    def test_hints_spell_those_as_they_are(self, name):
        assert as_written(name) == name

    def test_several_are_named_together(self):
        text = "SELECT order, SUM(hours per week) AS s FROM t GROUP BY order ORDER BY order"
        error = refusal(text, tables("order", "hours per week"))
        assert error.hint == 'Write "order" and "hours per week".'
        mended = text.replace("hours per week", '"hours per week"')
        for place in ("SELECT order", "GROUP BY order", "ORDER BY order"):
            mended = mended.replace(place, place.replace("order", '"order"'))
        parse(mended, tables("order", "hours per week"))

    @pytest.mark.parametrize("written", ["{}]", "HOURS  PER\n WEEK"])
    def test_however_it_is_spelled(self, written):
        text = f"SELECT SUM({written.format('hours per week')}) AS s FROM t"
        assert refusal(text, tables("hours per week")).hint == 'Write "hours per week".'

    @pytest.mark.parametrize("written", ["`{}`", "[{}]", '"{}"'])
    def test_quotes_of_other_systems_are_ours(self, written):
        name = written.format("hours per week")
        text = f"SELECT SUM({name}) AS s FROM t WHERE {name} > 1 -- {name}"
        assert parse(text, tables("hours per week")).aggregates

    def test_what_they_enclose_in_a_text_stays(self):
        for text in ("`sex`", "[sex]", "a, [sex]"):
            with pytest.raises(SqlError) as caught:
                parse(
                    f"SELECT COUNT(*) AS n FROM t WHERE city = '{text}'",
                    {"t": Table("t", None, Schema({"city": Category(["a", "b"])}))},
                )
            assert f"{text!r} is not a declared category" in caught.value.what

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("SELECT SUM(wages) FROM t", "unknown column 'wages'"),
            ("SELECT x FROM t ORDER BY 1", "rows cannot be listed"),
            ("SELECT SUM(CASE WHEN x > 1 THEN 'a' END) FROM t", "this must be a number"),
            ("SELECT COUNT(*) FROM t -- order\nWHERE x >", "this is not valid SQL"),
            ("SELECT COUNT(*) AS \"hours per week\" FROM t WHERE y = 'end'", "unknown column 'y'"),
            ("SELECT `order`, MAX(x) FROM t GROUP BY `order`", "MIN and MAX cannot be answered"),
            ("SELECT COUNT(*) FROM `u`", "unknown table 'u'"),
            ("SELECT COUNT(*) FROM t WHERE `y` > 1", "unknown column 'y'"),
            ("SELECT COUNT(*) FROM t WHERE x = `y`", "this must be a value, not a column"),
        ],
    )
    def test_another_mistake_is_named_as_ever(self, text, what):
        names = tables("order", "end", "hours per week", "left")
        assert what in refusal(text, names).what

    def test_a_similar_name_is_advised_in_its_quotes(self):
        error = refusal("SELECT SUM(hours_per_week) FROM t", tables("hours per week"))
        assert error.hint == 'Did you mean "hours per week"?'
        error = refusal("SELECT SUM(y) FROM t", tables("a b"))
        assert error.hint == 'Declared: x, "a b".'

    @pytest.mark.parametrize("written", ["`F`", "[F]", '"F"'])
    def test_a_text_in_the_quotes_of_a_name_is_written_as_a_text(self, written):
        named = {"t": Table("t", None, Schema({"sex": Category(["F", "M"])}))}
        text = f"SELECT COUNT(*) FROM t WHERE sex = {written}"
        assert refusal(text, named).hint == "Texts take single quotes: 'F'."
        parse(text.replace(written, "'F'"), named)

    def test_a_table_of_such_a_name(self):
        named = {"order": Table("order", None, Schema({"x": Integer(0, 3)}))}
        assert refusal("SELECT COUNT(*) FROM order", named).hint == 'Write "order".'
        parse('SELECT COUNT(*) FROM "order"', named)

    def test_a_letter_that_cannot_be_typed_is_named(self):
        error = refusal("SELECT SUM(to date) FROM t", tables("to\xa0date"))
        assert error.hint == "Rename the column, without U+00A0."

    def test_the_search_is_short_however_often_a_name_occurs(self):
        many = " OR ".join(["end > 1"] * 100)
        text = f"SELECT COUNT(*) FROM t WHERE {many}"
        assert refusal(text, tables("end")).what == "this is not valid SQL"


SIGNS = [
    ("SELECT COUNT(*) AS n FROM t WHERE sex = ‘F’", "‘", "'"),
    ("SELECT COUNT(*) AS n FROM t WHERE sex = “F”", "“", "'"),
    ("SELECT COUNT(*) AS n FROM t WHERE sex = „F“", "„", "'"),
    ("SELECT COUNT(*) AS n FROM t WHERE sex = «F»", "«", "'"),
    ("SELECT COUNT(*) AS n FROM t WHERE sex = ´F´", "´", "'"),
    ("SELECT COUNT(*) AS n FROM t WHERE “sex” = 'F'", "“", '"'),
    ("SELECT COUNT(*) AS n FROM t WHERE sex = 'F’", "’", "'"),
    ("SELECT COUNT(*) AS n FROM t WHERE x > –1", "–", "-"),
    ("SELECT SUM(x − 1) AS n FROM t", "−", "-"),
    ("SELECT SUM(x × 2) AS n FROM t", "×", "*"),
    ("SELECT SUM(x ÷ 2) AS n FROM t", "÷", "/"),
    ("SELECT COUNT(∗) AS n FROM t", "∗", "*"),
    ("SELECT COUNT(*) AS n FROM t WHERE x ≥ 1", "≥", ">="),
    ("SELECT COUNT(*) AS n FROM t WHERE x ≤ 1", "≤", "<="),
    ("SELECT COUNT(*) AS n FROM t WHERE x ≠ 1", "≠", "<>"),
    ("SELECT COUNT（*） AS n FROM t", "（", "("),
    ("SELECT COUNT(*) AS n， SUM(x) AS s FROM t", "，", ","),
    ("SELECT COUNT(*) AS n FROM t WHERE x ＝ 1", "＝", "="),
    ("SELECT COUNT(*) AS n FROM t；", "；", ";"),
]


class TestSigns:
    @pytest.fixture
    def named(self):
        schema = Schema({"sex": Category(["F", "M"]), "x": Integer(-3, 3)})
        return {"t": Table("t", None, schema)}

    @pytest.mark.parametrize(("text", "sign", "plain"), SIGNS, ids=[sign for _, sign, _ in SIGNS])
    def test_the_hint_is_the_plain_sign(self, named, text, sign, plain):
        for _ in range(3):
            try:
                parse(text, named)
            except SqlError as error:
                found = error
            else:
                return
            assert found.what.endswith("is not a sign of SQL")
            assert found.text in "‘’“”„«»´`–−×÷∗≥≤≠（），＝；"
            place = text.index(found.text)
            text = text[:place] + re.search("Type (.+) instead", found.hint)[1] + text[place + 1 :]
        pytest.fail(text)

    @pytest.mark.parametrize(("text", "sign", "plain"), SIGNS, ids=[sign for _, sign, _ in SIGNS])
    def test_it_points_at_the_sign(self, named, text, sign, plain):
        error = refusal(text, named)
        assert (error.text, error.hint) == (sign, f"Type {plain} instead.")

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("\ufeffSELECT COUNT(*) AS n FROM t", "Delete it."),
            ("SELECT COUNT(*) AS n FROM t WHERE x\u200b > 1", "Delete it."),
            ("SELECT SUM(x) FROM t — all", "Type - instead, or -- before a comment."),
            ("SELECT COUNT(*) AS n FROM t WHERE x > 1,5", "Write a decimal point: 1.5."),
        ],
    )
    def test_other_signs(self, named, text, hint):
        assert refusal(text, named).hint == hint

    @pytest.mark.parametrize("blank", ["\xa0", "\u202f", "\u2009", "\u3000"])
    def test_blanks_that_do_not_break_are_blanks(self, named, blank):
        assert parse(f"SELECT{blank}COUNT(*){blank}FROM t WHERE x{blank}>{blank}1", named)

    def test_in_texts_names_and_comments_they_are_what_they_are(self):
        names = {
            "t": Table("t", None, Schema({"a’s": Category(["“x”", "–"]), "x–y": Integer(0, 3)}))
        }
        parse('SELECT SUM(x–y) AS "n’s" FROM t WHERE "a’s" = \'“x”\' -- don’t ≥', names)
        error = refusal("SELECT SUM(x–y), SUM(z) FROM t WHERE \"a’s\" = '–' -- ’", names)
        assert error.what == "unknown column 'z'"


class TestIds:
    @pytest.fixture
    def named(self):
        unit = Unit("patient no", 9)
        return {"t": Table("t", None, Schema({"x": Integer(0, 3)}), unit)}

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT COUNT({} + 1) AS c FROM t",
            "SELECT {}, COUNT(*) AS n FROM t GROUP BY {}",
            "SELECT COUNT(*) AS n FROM t WHERE {} = 1",
            "SELECT COUNT(*) AS n FROM t WHERE {} IS NULL",
            "SELECT COUNT(*) AS n FROM t WHERE {} IN (1, 2)",
            "SELECT SUM({}) AS n FROM t",
            "SELECT AVG(x) FILTER (WHERE {} > 3) AS n FROM t",
        ],
    )
    def test_they_are_protected_and_not_unknown(self, named, text):
        error = refusal(text.replace("{}", '"PATIENT no"'), named)
        assert (
            error.what == "'patient no' is the column of the privacy unit, whose ids are protected"
        )
        assert error.hint == 'Use COUNT(*) for rows, or COUNT(DISTINCT "patient no") for ids.'
        parse('SELECT COUNT(*) AS n, COUNT(DISTINCT "patient no") AS d FROM t', named)

    def test_without_its_quotes_it_is_first_named(self, named):
        error = refusal("SELECT COUNT(DISTINCT patient no) AS d FROM t", named)
        assert error.hint == 'Write "patient no".'

    def test_a_declared_one_is_a_column_like_others(self):
        schema = Schema({"pid": Integer(0, 9)})
        parse(
            "SELECT pid, COUNT(*) FROM t GROUP BY pid",
            {"t": Table("t", None, schema, Unit("pid", 3))},
        )
