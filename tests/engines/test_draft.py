"""A draft of a schema: right as a guess, refused as it stands, and useful once it was gone through."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
import uuid
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpnb
from dpnb import Boolean, Category, Date, Integer, Real, Schema, Table, Timestamp
from dpnb.engines import summary
from dpnb.engines.draft import step
from dpnb.engines.summary import summarise
from dpnb.errors import EngineError, SchemaError
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401

FRAME = pd.DataFrame(
    {
        "age": [23, 51, 38, None],
        "sex": ["m", "f", "f", "m"],
        "wage": [10.25, 12.5, np.nan, 31.0],
        "hired": pd.to_datetime(["2019-03-01", "2024-02-01", "2024-05-01", "2026-01-01"]),
        "person_id": [7, 7, 7, 9],
    }
)
QUESTION = 'one_row_per_person = "?"'


def gone_through(draft: str) -> str:
    """What the owner has left who deletes the line that has to go."""
    lines = draft.splitlines()
    assert lines.count("draft = true") == lines.count(QUESTION) == 1
    lines[lines.index(QUESTION)] = "one_row_per_person = true"
    return "\n".join(line for line in lines if line != "draft = true")


def declared(draft: str) -> Schema:
    return Schema.of(tomllib.loads(gone_through(draft)))


def test_a_column_of_booleans_is_proposed_by_its_type_alone():
    truth = [True, None, True, True]
    held = pa.table({"typed": truth, "texts": list(map(str, truth)), "numbers": [1, None, 0, 1]})
    frame = held.to_pandas().assign(typed=pd.array(truth, "boolean"))
    for source in (held, frame, pl.from_arrow(held)):
        found = declared(dpnb.draft_schema(source))
        assert found["typed"] == Boolean()
        assert found["texts"] == Category(["None", "True"])
        assert found["numbers"].kind == "integer"


class TestStamp:
    def test_says_first_that_it_is_not_private(self):
        first, *rest = dpnb.draft_schema(FRAME).splitlines()
        assert first.startswith("# DRAFT, made from the data: NOT PRIVATE.")
        assert "Replace every bound, bin and value by public knowledge" in "".join(rest[:2])

    def test_a_file_of_which_rows_would_be_left_out_is_refused(self, tmp_path):
        file = tmp_path / "t.csv"
        file.write_text("city\n" + "Bern\n" * 10 + "Zürich\n", "latin-1")
        with pytest.raises(SchemaError, match="not encoded in UTF-8") as caught:
            dpnb.draft_schema(file)
        assert "encoding='latin-1') and give the frame" in caught.value.hint
        frame = pd.read_csv(file, encoding="latin-1")
        assert '"Zürich"' in dpnb.draft_schema(frame)
        file.write_text(file.read_text("latin-1"), "utf-8")
        assert declared(dpnb.draft_schema(file))["city"] == Category(["Bern", "Zürich"])

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("a,b\n1,2\n3,4,5\n6,7\n", 3),
            ("a,b\n1,2\n3\n", 3),
            ('"a","b"\n"1",2,3\n', 2),
            ('a,b\n1,"two\nlines"\n\n3\n', 5),
            ('a,b\n1,2\n3,"4\n5,6\n7,8\n', 3),
            ("a,b\n1,2\n" + '"' + "x" * 200_000, 3),
        ],
        ids=["long", "short", "row names of R", "after lines in quotes", "a quote", "a long text"],
    )
    def test_a_line_of_another_length_is_refused_by_its_number(self, tmp_path, text, line):
        file = tmp_path / "t.csv"
        file.write_text(text)
        with pytest.raises(SchemaError) as caught:
            dpnb.draft_schema(file)
        assert str(caught.value) == (
            f"line {line} of the CSV file has more or fewer values than the first line ({file}). "
            "Correct it: a quote may be missing, or the first line may lack the name of a column."
        )
        assert caught.value.__cause__ is caught.value.__context__ is None

    def test_lines_in_quotes_and_empty_lines_are_no_lines_of_another_length(self, tmp_path):
        file = tmp_path / "t.csv"
        file.write_text('a,b\r\n1,"two\r\nlines, or\nthree"\r\n\r\n3,"say ""x"""\r\n')
        dpnb.draft_schema(file)

    def test_the_unit_comes_before_the_columns(self):
        lines = dpnb.draft_schema(pd.DataFrame({"age": [1, 2], "person_id": [1, 1]})).splitlines()
        assert lines.index("# [unit]") < lines.index("[columns.age]")

    @pytest.mark.parametrize("load", [Schema.load, Table.load])
    def test_is_refused_until_its_mark_is_deleted(self, load, tmp_path):
        FRAME.to_parquet(tmp_path / "t.parquet")
        file = tmp_path / "t.toml"
        draft = dpnb.draft_schema(tmp_path / "t.parquet")
        file.write_text(draft)
        with pytest.raises(SchemaError, match="this is a draft made from the data") as caught:
            load(file)
        assert (
            "Replace every bound and value by public knowledge. Then delete the"
            in caught.value.hint
        )
        file.write_text(gone_through(draft))
        load(file)

    def test_is_shown_as_lines(self):
        draft = dpnb.draft_schema(FRAME)
        assert isinstance(draft, str)
        assert repr(draft) == str(draft)

    def test_an_edited_mark_is_refused_too(self, tmp_path):
        file = tmp_path / "t.toml"
        file.write_text(dpnb.draft_schema(FRAME).replace("draft = true", "draft = false"))
        with pytest.raises(SchemaError, match="this is a draft"):
            Schema.load(file)

    def test_no_session_makes_one(self):
        assert not hasattr(dpnb.Session, "draft_schema")
        with pytest.raises(SchemaError):
            dpnb.draft_schema(dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1)))

    def test_what_it_is_made_from_is_not_shown(self):
        found = summarise(FRAME)
        assert {repr(one) for one in found} == {"Summary(private)"}
        with pytest.raises(TypeError, match="as secret as the data"):
            found[0].__reduce__()


class TestColumns:
    def test_kinds_bounds_and_bins(self):
        assert dict(declared(dpnb.draft_schema(FRAME))) == {
            "age": Integer(20, 55, bins=[20, 25, 30, 35, 40, 45, 50, 55]),
            "sex": Category(["f", "m"]),
            "wage": Real(10, 35, bins=[10, 15, 20, 25, 30, 35]),
            "hired": Date(
                "2019-01-01",
                "2026-12-31",
                bins=["2019-01-01", *(f"{year}-12-31" for year in range(2019, 2027))],
            ),
        }

    def test_only_columns_without_missing_values_are_complete(self):
        assert declared(dpnb.draft_schema(FRAME)).complete == ("sex", "hired")
        assert "# Missing in some rows.\n[columns.age]" in dpnb.draft_schema(FRAME)

    def test_texts_are_listed_up_to_fifty(self):
        few = [f"v{i:03}" for i in range(50)]
        assert declared(dpnb.draft_schema(pd.DataFrame({"a": few})))["a"] == Category(few)
        frame = pd.DataFrame({"a": [*few, "v050"] * 2, "b": 1})
        draft = dpnb.draft_schema(frame)
        assert list(declared(draft)) == ["b"]
        assert '# Column "a" has 51 different strings: left out.' in draft
        assert "v0" not in draft

    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([0, 1], Integer(0, 1)),
            ([True, False], Boolean()),
            ([1, 16], Integer(0, 16)),
            ([5, 5], Integer(5, 6)),
            ([-7, 12], Integer(-8, 12)),
            ([17, 90], Integer(10, 90, bins=list(range(10, 91, 10)))),
            ([0.0, 0.1], Real(0, 0.1, bins=[i / 100 for i in range(11)])),
            ([2.5, 2.5], Real(2, 3, bins=[2, 3])),
        ],
    )
    def test_numbers(self, values, kind):
        assert declared(dpnb.draft_schema(pd.DataFrame({"a": values})))["a"] == kind

    def test_days_of_one_year_fall_into_quarters(self):
        days = pd.DataFrame({"a": pd.to_datetime(["2024-02-01", "2024-03-01"])})
        edges = ["2024-01-01", "2024-03-31", "2024-06-30", "2024-09-30", "2024-12-31"]
        assert declared(dpnb.draft_schema(days))["a"] == Date(edges[0], edges[-1], bins=edges)

    @pytest.mark.parametrize("source", ["frame", "csv"])
    @pytest.mark.parametrize(
        ("times", "is_time"),
        [
            (["2024-02-01 08:30", "2024-03-01 00:00", "2024-04-01 17:05"], True),
            (["2024-02-01 00:00", "2024-03-01 00:00", "2024-04-01 00:00"], False),
            # midnights of a zone, in summer and in winter
            (["2024-02-01T00:00+01:00", "2024-03-01T00:00+01:00", "2024-04-01T00:00+02:00"], False),
            (["2024-02-01T07:00Z", "2024-03-01T08:00+01:00", "2024-04-01T09:30+02:00", "2024-04-01T12:00Z"], True),
        ],
    )  # fmt: skip
    def test_times_of_day_are_declared_by_the_hour(self, times, is_time, source, tmp_path):
        table = pd.DataFrame({"a": times, "b": 1})
        if source == "csv":
            table.to_csv(tmp_path / "t.csv", index=False)
            table = tmp_path / "t.csv"
        elif "T" not in times[0]:
            table = table.assign(a=pd.to_datetime(table["a"]))
        kind = declared(dpnb.draft_schema(table))["a"]
        ends = "2024-01-01", "2024-12-31"
        assert isinstance(kind, Timestamp if is_time else Date)
        if is_time:
            assert kind == Timestamp(*ends, "hour", bins=[ends[0], *kind.bins[1:]])
            assert [edge.month for edge in kind.bins] == [1, 3, 6, 9, 12]
        else:
            assert (kind.low.isoformat(), kind.high.isoformat()) == ends

    @pytest.mark.parametrize(("first", "last"), [(1900, 2026), (2023, 2024), (1, 9999)])
    def test_days_of_many_years_have_few_bins(self, first, last):
        days = pa.table({"a": [datetime.date(first, 5, 1), datetime.date(last, 5, 1)]})
        kind = declared(dpnb.draft_schema(days))["a"]
        assert (kind.low.year, kind.high.year) == (first, last)
        assert len(kind.bins) <= 12

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            (pd.Series([None, None], dtype="float64"), "holds no values"),
            (pd.Series([2**60, 2**61]), "has values that fit no bounds"),
            (pd.Series([1e300, -1.7e308]), "has values that fit no bounds"),
            (pd.Series(pd.to_timedelta([1, 2], unit="s")), "holds INTERVAL values"),
        ],
    )
    def test_what_no_kind_takes_is_left_out_and_said(self, column, words):
        draft = dpnb.draft_schema(pd.DataFrame({"a": column, "b": [1, 2]}))
        assert words in draft
        assert list(declared(draft)) == ["b"]

    def test_infinite_numbers_are_missing(self):
        frame = pd.DataFrame({"a": [0.5, np.inf, -np.inf, 1.5]})
        schema = declared(dpnb.draft_schema(frame))
        assert (schema["a"].low, schema["a"].high) == (0.5, 1.5)
        assert schema.complete == ()

    def test_a_table_without_rows_has_nothing_to_declare(self):
        draft = dpnb.draft_schema(pd.DataFrame({"a": pd.Series([], dtype="int64")}))
        with pytest.raises(SchemaError, match="at least one column"):
            declared(draft)

    def test_names_and_values_of_any_kind_are_texts_not_toml(self):
        names = ["x", "n", "d", 'evil"\ndraft = false\n[unit]', "naïve name", "source", "]"]
        frame = pd.DataFrame({name: ['a"\n', "[b]", "'c'"] for name in names})
        draft = dpnb.draft_schema(frame)
        schema = declared(draft)
        assert list(schema) == names
        assert set(schema.values()) == {Category(sorted(['a"\n', "[b]", "'c'"]))}
        ids = dpnb.draft_schema(pd.DataFrame({"a\n[unit]\n_id": ["k"], "b": ["c"]}))
        assert list(declared(ids)) == ["b"]

    def test_of_names_that_differ_by_case_the_first_is_declared(self):
        frame = pd.DataFrame([[1, "x"]], columns=["a", "A"])
        assert list(declared(dpnb.draft_schema(frame))) == ["a"]


class TestIds:
    def test_a_column_named_so_is_proposed_as_unit(self):
        draft = dpnb.draft_schema(FRAME)
        assert "person_id" not in declared(draft)
        assert (
            '# - "person_id": 2 values in 4 rows, up to 3 rows each: does it say whose row' in draft
        )
        assert '# [unit]\n# column = "person_id"\n# max_rows = 5' in draft

    @pytest.mark.parametrize("name", ["id", "ID", "user_id", "userId", "customerID", "row uuid"])
    def test_names_of_ids(self, name):
        assert f"# column = {json.dumps(name)}" in dpnb.draft_schema(pd.DataFrame({name: [1]}))

    @pytest.mark.parametrize("name", ["paid", "valid", "idle", "width", "grid"])
    def test_names_of_other_things(self, name):
        draft = dpnb.draft_schema(pd.DataFrame({name: [1, 2]}))
        assert "# column = " not in draft
        assert list(declared(draft)) == [name]

    def test_a_column_with_a_value_for_each_row_is_proposed_too(self):
        frame = pd.DataFrame({"key": [f"k{i}" for i in range(60)], "b": 1})
        draft = dpnb.draft_schema(frame)
        assert '"key": 60 values in 60 rows, one row each: does it say whose row it is?' in draft
        assert '# column = "key"\n# max_rows = 1' in draft
        # a few rows may have different values by chance
        assert "# column = " not in dpnb.draft_schema(frame.head(9))

    @pytest.mark.parametrize("name", ["mrn", "ssn", "email", "Kundennummer", "x"])
    @pytest.mark.parametrize("kind", ["whole", "text", "with gaps", "uuid"])
    def test_values_that_repeat_are_asked_about_whatever_their_name_and_kind(self, name, kind):
        numbers = [123_000 + i * i for i in range(90) for _ in range(1 + i % 6)]
        values = {
            "whole": numbers,
            "text": [f"p{number}" for number in numbers],
            "with gaps": [*numbers, None],
            "uuid": [str(uuid.UUID(int=number)) for number in numbers],
        }[kind]
        draft = dpnb.draft_schema(pd.DataFrame({name: values, "b": 1}))
        assert f'"{name}": 90 values in 315 rows, up to 6 rows each: does it say whose row' in draft
        assert f'# column = "{name}"\n# max_rows = 10' in draft
        assert list(declared(draft)) == ["b"]

    def test_a_measure_that_repeats_is_asked_about_and_declared(self):
        ages = pd.DataFrame({"age": [i % 80 for i in range(4_000)]})
        draft = dpnb.draft_schema(ages)
        assert '"age": 80 values in 4,000 rows, up to 50 rows each: does it say whose row' in draft
        assert list(declared(draft)) == ["age"]

    @pytest.mark.parametrize("source", ["frame", "parquet", "csv"])
    @pytest.mark.parametrize("kind", ["days", "instants", "decimals", "whole decimals", "money"])
    def test_days_and_decimals_that_repeat_are_asked_about_in_a_line(self, kind, source, tmp_path):
        places = pd.Series([i for i in range(90) for _ in range(1 + i % 6)])
        values = {
            "days": pd.Timestamp("2020-01-01") + pd.to_timedelta(places, unit="D"),
            # several on each day
            "instants": pd.Timestamp("2020-01-01") + pd.to_timedelta(7 * places, unit="h"),
            "decimals": places + 12.5,
            "whole decimals": places * places + 1001.0,
            "money": "$" + (places + 12.5).astype(str),
        }[kind]
        table = pd.DataFrame({"x": values, "b": 1})
        if source == "parquet":
            table.to_parquet(tmp_path / "t.parquet")
        elif source == "csv":
            table.to_csv(tmp_path / "t.csv", index=False)
        draft = dpnb.draft_schema(table if source == "frame" else tmp_path / f"t.{source}")
        assert '# - "x": 90 values in 315 rows, up to 6 rows each: does it say whose row' in draft
        is_id = kind == "whole decimals"
        assert ('# column = "x"\n# max_rows = 10' in draft) == is_id
        assert ("# Days and decimal numbers are ids only as texts" in draft) != is_id
        assert list(declared(draft)) == (["b"] if is_id or kind == "money" else ["x", "b"])

    def test_days_and_decimals_are_ids_as_the_draft_says(self):
        days = pd.Series(pd.date_range("2020-01-01", periods=90).repeat(2))
        for ids in (days, pd.Series(np.repeat(np.arange(90) + 0.5, 2))):
            frame = pd.DataFrame({"x": ids, "b": 1})
            schema = Schema({"b": declared(dpnb.draft_schema(frame))["b"]})
            texts = frame.astype({"x": "string"})
            table = Table("t", texts, schema, dpnb.Unit("x", max_rows=2, kind="text"))
            with dpnb.Session(table, budget=dpnb.Budget(rho=1e9)) as session:
                found = session.query("SELECT COUNT(DISTINCT x) AS n FROM t", rho=1e6).to_frame()
            assert round(found.n[0]) == 90

    def test_measures_that_do_not_repeat_are_not_asked_about(self):
        hours = pd.date_range("2020-01-01", periods=90, freq="h")
        frame = pd.DataFrame({"at": hours, "wage": np.arange(90) / 7})
        assert "does it say whose row it is" not in dpnb.draft_schema(frame)

    def test_the_likeliest_come_first(self):
        rows = range(3_000)
        frame = pd.DataFrame(
            {
                "wage": [i % 900 + 0.5 for i in rows], "age": [i % 80 for i in rows],
                "mrn": [7 * (i % 900) for i in rows], "user_id": 1,
            }
        )  # fmt: skip
        asked = re.findall(r'# - "(\w+)": ', dpnb.draft_schema(frame))
        assert asked == ["user_id", "mrn", "age", "wage"]

    @pytest.mark.parametrize("load", [Schema.load, Table.load])
    def test_the_question_has_to_be_answered(self, load, tmp_path):
        FRAME.to_parquet(tmp_path / "t.parquet")
        file = tmp_path / "t.toml"
        open_question = dpnb.draft_schema(tmp_path / "t.parquet").replace("draft = true\n", "")
        unit = '[unit]\ncolumn = "person_id"\nmax_rows = 5\n'
        answered = open_question.replace('"?"', "true")
        for wrong in (open_question, open_question.replace('"?"', "false")):
            file.write_text(wrong)
            with pytest.raises(SchemaError, match="does not say whose rows these are") as refusal:
                load(file)
            assert "[unit]" in refusal.value.hint
            assert "one_row_per_person = true" in refusal.value.hint
        file.write_text(answered)
        assert load(file).unit is None
        for text in (open_question, open_question.replace(QUESTION, "")):
            file.write_text(f"{text}\n{unit}")
            assert load(file).unit == dpnb.Unit("person_id", max_rows=5)
        file.write_text(f"{answered}\n{unit}")
        with pytest.raises(SchemaError, match="has .unit., and says") as refusal:
            load(file)
        assert refusal.value.hint == "Delete one_row_per_person."

    def test_the_proposal_can_be_taken(self, tmp_path):
        text = dpnb.draft_schema(FRAME).replace("draft = true\n", "").replace(QUESTION, "")
        before, _, after = text.partition("# [unit]\n")
        column, most, rest = after.split("\n", 2)
        file = tmp_path / "t.toml"
        file.write_text(f"{before}[unit]\n{column[2:]}\n{most[2:]}\n{rest}")
        assert Schema.load(file).unit == dpnb.Unit("person_id", max_rows=5)

    def test_the_margins_it_names_are_those_of_prices(self, tmp_path):
        """Of a count with the proposed unit, and of a sum with the proposed bounds."""
        draft = dpnb.draft_schema(FRAME)
        count, age = (
            float(margin.replace(",", ""))
            for margin in (
                re.search(r"max_rows = 5  # then a count at rho 0.02 .* of ([\d,.]+)", draft)[1],
                re.search(r"of error of ([\d,.]+), times\n(?:#.*\n)+\[columns.age\]", draft)[1],
            )
        )
        schema = declared(draft)
        budget = dpnb.Budget(rho=1)
        people = Table("t", FRAME, schema, dpnb.Unit("person_id", max_rows=5))
        for table, sql, margin in (
            (people, "SELECT COUNT(*) AS n FROM t", count),
            (Table("t", FRAME, schema), "SELECT SUM(age) AS n FROM t", age),
        ):
            with dpnb.Session(table, budget=budget) as session:
                assert session.price(sql, rho=0.02).widths[0][2] == pytest.approx(margin, rel=0.02)


class TestSpelling:
    """What spreadsheets write is named, and read as the draft says."""

    @pytest.mark.parametrize(
        ("texts", "named", "kind", "first"),
        [
            (["$1,234.50", "$7.00", "($20.00)"], "money, per cent", Real, 1234.5),
            (["12 %", "7 %", "3.5 %"], "money, per cent", Real, 12.0),
            (["1,200", "3,400", "17"], "commas between thousands", Integer, 1200),
            (["1.234,50 €", "7,00 €", "20,00 €"], "decimal comma", Real, 1234.5),
            (["12,5", "7,25", "-3,0"], "decimal comma", Real, 12.5),
            (["31/12/2024", "1/2/2024 10:30", "05/06/2024"], "31/12/2024 or", Date, "2024-12-31"),
            (["31.12.2024", "1.2.2024", "5.6.2024"], "31.12.2024", Date, "2024-12-31"),
            (["31-Dec-2024", "01-Feb-2024", "5 Jun 2024"], "31-Dec-2024", Date, "2024-12-31"),
            (
                ["December 31, 2024", "Feb 1, 2024", "Jun 5, 2024"],
                "Dec 31, 2024",
                Date,
                "2024-12-31",
            ),
            (["20241231", "20240201", "20240605"], "without marks", Date, "2024-12-31"),
        ],
    )
    def test_it_is_named_with_how_to_read_it(self, texts, named, kind, first, tmp_path):
        path = tmp_path / "t.csv"
        pd.DataFrame({"a": texts * 20, "b": 1}).to_csv(path, index=False)
        draft = dpnb.draft_schema(path)
        assert re.search(f'# Column "a" holds .*{re.escape(named)}', draft)
        (reading,) = re.findall(r'# (frame\["a"\] = .*)', draft)
        frame = pd.read_csv(path)
        exec(reading, {"frame": frame, "pandas": pd})  # noqa: S102 - what the draft advises
        again = dpnb.draft_schema(frame)
        assert isinstance(declared(again)["a"], kind)
        assert "holds numbers" not in again
        assert frame["a"][0] == (pd.Timestamp(first) if kind is Date else first)
        assert not frame["a"].isna().any()

    @pytest.mark.parametrize("texts", [["a,b", "c"], ["1", "2"], ["1.5", "2"], ["2024-12-31"]])
    def test_other_texts_are_not(self, texts, tmp_path):
        path = tmp_path / "t.csv"
        pd.DataFrame({"a": texts * 20, "b": 1}).to_csv(path, index=False)
        assert "spreadsheet" not in dpnb.draft_schema(path)
        assert "frame[" not in dpnb.draft_schema(path)


class TestSpelledIds:
    def test_the_owner_learns_how_many_ids_are_spelled_in_several_ways(self, tmp_path):
        rows = "".join(f"{i},1\n" for i in range(50))
        path = tmp_path / "t.csv"
        for more, said in (
            ("", ""), ("07,1\n 7 ,1\n7.0,1\n", "1 id is"), ("07,1\n8.0,1\nx,1\n", "2 ids are"),
        ):  # fmt: skip
            path.write_text(f"pid,n\n{rows}{more}")
            for source in (
                path,
                pd.read_csv(path, dtype="string"),
                pd.read_csv(path, dtype=object),
            ):
                draft = dpnb.draft_schema(source)
                assert ("spelled in several ways" in draft) == bool(said)
                assert f'In "pid" {said}' in draft or not said
        path.write_text("pid,n\n" + "7,1\n07,1\n 7,1\n" + rows)
        assert "max_rows = 5 " in dpnb.draft_schema(path)

    def test_ids_that_pandas_may_have_rounded_are_named(self):
        ids = [2**60 + 1000 * i for i in range(40)]
        for source, said in (
            (pd.DataFrame({"pid": ids, "n": 1}), True),
            (pd.DataFrame({"pid": np.array(ids, float), "n": 1}), True),
            (pd.DataFrame({"pid": pd.array(ids, "Int64"), "n": 1}), False),
            (pd.DataFrame({"pid": [*map(str, ids), "x"], "n": 1}), True),
            (pd.DataFrame({"pid": pd.Series(map(str, ids), dtype="string"), "n": 1}), False),
            (pd.DataFrame({"pid": map(str, range(40)), "n": 1}), False),
            (pd.DataFrame({"pid": range(40), "n": 1}), False),
            (pl.DataFrame({"pid": ids, "n": 1}), False),
        ):
            draft = dpnb.draft_schema(source)
            assert ("pandas may have rounded them" in draft) == said
            assert ('dtype={"pid": "string"}' in draft) == said


class TestSources:
    @pytest.fixture
    def frame(self):
        return pd.DataFrame(
            {"age": [20, 30, 40], "sex": ["m", "f", "m"], "x": [0.5, 1.5, 2.25]}
        ).astype({"sex": "string"})

    @pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "pyarrow", "parquet", "csv"])
    def test_all_sources_of_tables(self, kind, frame, tmp_path):
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_csv(tmp_path / "t.csv", index=False)
        source = {
            "pandas": frame,
            "polars": pl.from_pandas(frame),
            "lazy": pl.from_pandas(frame).lazy(),
            "pyarrow": pa.Table.from_pandas(frame),
            "parquet": tmp_path / "t.parquet",
            "csv": str(tmp_path / "t.csv"),
        }[kind]
        draft = dpnb.draft_schema(source, name="people")
        assert declared(draft) == declared(dpnb.draft_schema(frame))
        assert ("source = " in gone_through(draft).replace("# source", "")) == (
            kind in ("parquet", "csv")
        )
        (tmp_path / "t.toml").write_text(gone_through(draft))
        if kind in ("parquet", "csv"):
            table = Table.load(tmp_path / "t.toml")
            assert table.name == "people"
        else:
            table = Table("people", source, Schema.load(tmp_path / "t.toml"))
        with dpnb.Session(table, budget=dpnb.Budget(rho=1000)) as session:
            answer = session.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", rho=900)
        assert [round(n) for n in answer.estimates[0].estimate] == [1, 2]

    def test_a_few_stray_texts_do_not_hide_numbers_and_days(self, tmp_path):
        path = tmp_path / "t.csv"
        rows = [f"{i},2024-01-{i % 28 + 1:02}" for i in range(60)]
        path.write_text("\n".join(["a,b", *rows, "?,", ",-"]))
        schema = declared(dpnb.draft_schema(path))
        assert isinstance(schema["a"], Integer)
        assert isinstance(schema["b"], Date)
        assert schema.complete == ()

    def test_typed_texts_are_categories_as_the_engine_takes_them(self):
        frame = pl.DataFrame({"a": ["1", "2"]})
        assert declared(dpnb.draft_schema(frame))["a"] == Category(["1", "2"])

    @pytest.mark.parametrize("source", [3, None, {"a": [1]}, "nowhere.parquet", "t.xlsx"])
    def test_others_are_refused(self, source):
        with pytest.raises(SchemaError):
            dpnb.draft_schema(source)

    def test_a_failure_tells_nothing_of_the_data(self, monkeypatch):
        def fail(*args):
            raise ValueError("secret 42")

        monkeypatch.setattr(summary, "_column", fail)
        with pytest.raises(EngineError) as caught:
            dpnb.draft_schema(FRAME)
        assert "42" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "width", [Fraction(n, d) for n in (1, 7, 24, 73, 99, 101) for d in (1, 3, 1000)]
)
def test_a_step_is_round_and_makes_five_to_ten_or_fewer(width):
    found = step(width)
    assert found * 4 < width <= found * 10
    digits = str(found.numerator * (1 if found >= 1 else 10**9 // found.denominator)).rstrip("0")
    assert digits in ("1", "2", "5")
