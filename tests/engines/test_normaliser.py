"""Cast, clamp, declared OTHER, missing: the public rule for each cell, without a word."""

from __future__ import annotations

import datetime
import logging
import math
import time
import warnings
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.normaliser import SHORT_LIST
from dpnb.privacy.definition import PURE, ZCDP
from tests.kit.streams import LONG

INF = math.inf
LARGE = 2**53


def ordered(values):
    return sorted(values, key=lambda v: (v is None, v or 0))


class TestRules:
    def test_whole_numbers_are_rounded_half_up_and_clamped(self, codes):
        source = pd.DataFrame({"x": [-0.5, 0.5, 1.5, 2.4999, -1.5, 99.0, -99.0]})
        assert ordered(codes(source, Integer(-2, 9))) == [-2, -1, 0, 1, 2, 2, 9]

    def test_numbers_that_are_none_are_missing(self, codes):
        source = pd.DataFrame({"x": [math.nan, INF, -INF, 1e308]})
        assert ordered(codes(source, Integer(0, 9))) == [9, None, None, None]
        assert ordered(codes(source, Real(0, 9))) == [9.0, None, None, None]

    def test_there_is_one_zero(self, codes):
        found = codes(pd.DataFrame({"x": [-0.0, 0.0]}), Real(-1, 1))
        assert [math.copysign(1, value) for value in found] == [1, 1]

    def test_reals_keep_every_bit(self, codes):
        values = [5e-324, 0.1, 0.30000000000000004, math.nextafter(1, 0)]
        assert sorted(codes(pd.DataFrame({"x": values}), Real(0, 1))) == sorted(values)

    def test_reals_are_clamped_to_both_bounds(self, codes):
        source = pd.DataFrame({"x": [-1e308, -0.5, 0.25, 9.5, 1e308]})
        assert sorted(codes(source, Real(0, 9))) == [0, 0, 0.25, 9, 9]

    @pytest.mark.parametrize("kind", [Integer, Real])
    def test_what_no_bin_holds_is_in_no_group(self, kind, vectors):
        source = pd.DataFrame({"x": [None, -7, 5, 10, 15, 20, 21, 50, 51, 200]}, dtype="Float64")
        schema = Schema({"x": kind(0, 100, bins=[10, 20, 50])})
        found = vectors(Table("t", source, schema), "SELECT x, COUNT(*) FROM t GROUP BY x")
        assert found == [[3, 2]]

    def test_unknown_categories_are_missing_or_other(self, codes):
        source = pa.table({"x": ["a", "A", " a", "", None, "stranger"]})
        assert ordered(codes(source, Category(["a", "b"]))) == [0, None, None, None, None, None]
        assert ordered(codes(source, Category(["a", "rest"], other="rest"))) == [
            0, 1, 1, 1, 1, None,
        ]  # fmt: skip

    def test_odd_categories_are_found_exactly(self):
        values = ["", "'", '"', "it's", "a\nb", "a\x00b", "é", "e\u0301", "☃😀", "<b>", "';--", " a ", "\\"]  # fmt: skip
        names = [f"x{i}" for i in range(len(values))]
        schema = Schema({n: Category(["other", v]) for n, v in zip(names, values, strict=True)})
        for held in (
            lambda value: pa.array([value]),
            lambda value: pd.Series([value], dtype=object),
            lambda value: pd.Categorical([value]),
        ):
            columns = dict(zip(names, map(held, values), strict=True))
            arrow = isinstance(columns["x0"], pa.Array)
            engine = DuckDBEngine(
                Table("t", pa.table(columns) if arrow else pd.DataFrame(columns), schema)
            )
            (found,) = engine._connection.execute("SELECT * FROM rows").fetchall()
            engine.close()
            assert found == (1,) * len(values)

    def test_the_longest_list_of_categories(self, codes):
        kind = Category([f"v{i}" for i in range(65_535)])
        assert sorted(codes(pa.table({"x": ["v0", "v65534"]}), kind)) == [0, 65_534]

    def test_whole_numbers_and_truths_can_be_categories(self, codes):
        assert ordered(codes(pa.table({"x": [1, 7, None]}), Category(["1"]))) == [0, None, None]
        assert codes(pa.table({"x": [True]}), Category(["true"])) == [0]

    def test_days_are_clamped_and_times_cut(self, codes):
        kind = Date("2024-01-01", "2024-01-03")
        source = pa.table(
            {
                "x": [
                    datetime.datetime(2024, 1, 2, 23, 59, 59),  # noqa: DTZ001
                    datetime.datetime(1, 1, 1),  # noqa: DTZ001
                    datetime.datetime(9999, 1, 1),  # noqa: DTZ001
                    None,
                ]
            }
        )
        assert ordered(codes(source, kind)) == [19723, 19724, 19725, None]

    def test_whole_numbers_are_exact_up_to_two_to_the_53(self, codes):
        values = [LARGE, LARGE - 1, LARGE // 2 + 1, 1 - LARGE, -LARGE, LARGE + 1, -(2**63)]
        found = codes(pd.DataFrame({"x": values}), Integer(-LARGE, LARGE))
        assert sorted(found) == sorted([*values[:5], LARGE, -LARGE])

    def test_whole_numbers_written_as_text_or_real_are_exact_too(self, codes, tmp_path):
        values = [LARGE - 1, LARGE // 2 + 1, 1 - LARGE]
        path = tmp_path / "x.csv"
        path.write_text("x\n" + "\n".join(map(str, values)) + "\n")
        kind = Integer(-LARGE, LARGE)
        assert sorted(codes(pd.DataFrame({"x": np.array(values, float)}), kind)) == sorted(values)
        assert sorted(codes(path, kind)) == sorted(values)

    def test_the_largest_number_below_one_half_is_nearer_to_zero(self, codes):
        assert codes(pd.DataFrame({"x": [math.nextafter(0.5, 0)]}), Integer(0, 9)) == [0]


class TestCsv:
    def write(self, folder, text):
        path = folder / "x.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def test_parsable_values(self, codes, tmp_path):
        path = self.write(tmp_path, "y,x\n1, 3\n2,2.5\n3,-7\n4,99\n5,1e1\n6,\n7\n")
        assert ordered(codes(path, Integer(0, 50))) == [0, 3, 3, 10, 50, None, None]

    @pytest.mark.parametrize(
        ("kind", "good"),
        [(Integer(0, 9), "3"), (Real(0, 9), "3"), (Date("2024-01-01", "2024-12-31"), "2024-05-05")],
        ids=["integer", "real", "date"],
    )
    @pytest.mark.parametrize("bad", ["abc", "0x10", "1_0", "+-1", "yes", "3,5", "2024-13-01", "?"])
    def test_unparsable_values_are_missing_and_their_rows_are_kept(
        self, kind, good, bad, codes, tmp_path
    ):
        path = self.write(tmp_path, f'y,x\n1,{good}\n2,"{bad}"\n3,{good}\n')
        found = codes(path, kind)
        assert len(found) == 3
        assert found.count(None) == 1

    @pytest.mark.parametrize(
        "text",
        [
            "x\r\na\r\nb\r\n",
            "\ufeffx\na\nb\n",
            "x\na\nb",
            'x\n"a"\n"b"\n',
            "x,y\na,1\r\nb,2\n",
            "y,x,z\n1,a,2\n1,b\n",
        ],
        ids=["crlf", "bom", "no last newline", "quoted", "mixed ends", "short row"],
    )
    def test_spellings_of_one_file(self, text, codes, tmp_path):
        assert sorted(codes(self.write(tmp_path, text), Category(["a", "b"]))) == [0, 1]

    def test_a_header_alone_is_an_empty_table(self, codes, tmp_path):
        assert codes(self.write(tmp_path, "x"), Integer(0, 9)) == []
        assert codes(self.write(tmp_path, "x\n"), Integer(0, 9)) == []

    @pytest.mark.parametrize(
        "text",
        [
            b"x\na\n\xff\xfe\nb\n",
            b"x\na\n\x00\nb\n",
            b"x\na\n" + b"z" * 3_000_000 + b"\nb\n",
            b'x\na\nb\n"open\n',
            b"x,y\na,1\nb,2\nc,3,4,5\n",
        ],
        ids=["encoding", "zero byte", "long line", "open quote", "long row"],
    )
    def test_damaged_lines_do_not_stop_the_others(self, text, codes, tmp_path):
        found = codes(self.write(tmp_path, text), Category(["a", "b"]))
        assert {0, 1} <= set(found)
        assert set(found) <= {0, 1, None}


def schema():
    return Schema(
        {
            "c": Category(["a", "b"]),
            "i": Integer(0, 9, bins=[0, 5, 9]),
            "r": Real(0, 1, bins=[0, 1]),
            "d": Date("2024-01-01", "2024-01-05"),
        }
    )


def frame(c, i, r, d):
    return pa.table(
        {
            "c": pa.array(c, pa.string()),
            "i": pa.array(i, pa.int64()),
            "r": pa.array(r, pa.float64()),
            "d": pa.array(d, pa.date32()),
        }
    )


DAY = datetime.date(2024, 1, 2)
ODD_TABLES = {
    "empty": frame([], [], [], []),
    "all missing": frame([None] * 9, [None] * 9, [None] * 9, [None] * 9),
    "one row": frame(["a"], [1], [0.5], [DAY]),
    "NaN and infinities": frame(["a"] * 3, [1] * 3, [math.nan, INF, -INF], [DAY] * 3),
    "outside": frame(["zzz"] * 3, [2**62, -(2**62), 10], [1e308, -1e308, 2.0], [
        datetime.date(1, 1, 1), datetime.date(9999, 12, 31), DAY,
    ]),
}  # fmt: skip
STATEMENTS = [
    "SELECT COUNT(*) FROM t",
    "SELECT c, COUNT(*), COUNT(r), SUM(i), AVG(i), SUM(r), AVG(r) FROM t GROUP BY c",
    "SELECT i, d, COUNT(*) FROM t WHERE r > 0.5 OR d IS NULL GROUP BY i, d ORDER BY i DESC LIMIT 3",
    "SELECT r, AVG(i) AS m FROM t GROUP BY r ORDER BY m",
]


@pytest.mark.parametrize("privacy", [ZCDP, PURE])
@pytest.mark.parametrize("name", ODD_TABLES)
def test_facts_about_data_are_answered_without_a_word(name, privacy, caplog, capfd):
    budget = dpnb.Budget(rho=1) if privacy == ZCDP else dpnb.Budget(epsilon=8)
    level = {"rho": 0.1} if privacy == ZCDP else {"epsilon": 1}
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings():
        warnings.simplefilter("error")
        with dpnb.Session(Table("t", ODD_TABLES[name], schema()), budget=budget) as session:
            for sql in STATEMENTS:
                answer = session.query(sql, **level)
                assert len(answer.groups) == {0: 1, 1: 2, 2: 10, 3: 1}[STATEMENTS.index(sql)]
                shown = f"{answer!r} {answer.to_markdown()}".lower()
                assert all(word not in shown for word in ("error", "warning", "empty", "missing"))
                assert answer.to_frame().notna()[answer.to_frame().columns[-1]].all()
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    """A file of many blocks: a third declared texts, a third others, all different, a third none."""
    path = tmp_path_factory.mktemp("towns") / "t.parquet"
    rows = 500_000
    places = np.arange(rows)
    town = [None if i % 3 == 2 else f"t{i * 7 % 400}" if i % 3 else f"other {i}" for i in places]
    age = pd.array(places % 100, dtype="Int64")
    age[places % 11 == 0] = pd.NA
    pd.DataFrame({"town": town, "age": age}).to_parquet(path, row_group_size=20_000)
    return path


class TestLists:
    """Short lists of declared values are searched, longer ones hashed."""

    @pytest.mark.parametrize("count", [SHORT_LIST, SHORT_LIST + 1])
    @pytest.mark.parametrize("other", [None, "t7"])
    @pytest.mark.parametrize("complete", [(), ("age",), ("town", "age")])
    def test_short_and_long_lists_in_a_file(self, count, other, complete, towns, vectors):
        declared = [f"t{i}" for i in range(count)]
        columns = {"town": Category(declared, other=other), "age": Integer(0, 99)}
        table = Table("t", towns, Schema(columns, complete=complete))
        rows = pd.read_parquet(towns)
        known = rows["town"].isin(declared)
        rows["town"] = rows["town"].where(known | rows["town"].isna(), other)
        rows = rows.dropna(subset=list(complete))
        groups = rows.groupby("town")["age"]
        by_town = "SELECT town, COUNT(*), SUM(age) FROM t GROUP BY town"
        assert vectors(table, by_town) == [
            groups.agg(found).reindex(declared, fill_value=0).tolist() for found in ("size", "sum")
        ]
        alone = rows["town"] == "t7"
        assert vectors(table, "SELECT COUNT(*) FROM t WHERE town = 't7'") == [[alone.sum()]]

    @pytest.mark.parametrize("count", [3, SHORT_LIST, 1_000])
    def test_undeclared_texts_take_no_longer(self, count, tmp_path, vectors):
        """A cast that fails takes a thousand times as long as reading: DuckDB looks for similar values."""
        path, rows = tmp_path / "t.parquet", 10_000_000 if LONG else 100_000
        kind = Category([f"t{i}" for i in range(count)], other="t2")
        table = Table("t", path, Schema({"town": kind}))
        with duckdb.connect() as plain:
            text = f"CASE WHEN range = 7 THEN 't1' ELSE 'town ' || range END AS town FROM range({rows})"
            plain.execute(f"COPY (SELECT {text}) TO '{path}' (FORMAT parquet)")
            read = least(
                lambda: plain.execute(f"SELECT max(length(town)) FROM '{path}'").fetchall()
            )
        with closing(DuckDBEngine(table)) as engine:
            by_town = "SELECT town, COUNT(*) FROM t GROUP BY town"
            assert vectors(table, by_town, engine) == [[0, 1, rows - 1, *[0] * (count - 3)]]
            taken = least(lambda: vectors(table, by_town, engine))
        assert taken <= 50 * read


def least(work):
    """The least CPU seconds of three times."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


class TestCompleteColumns:
    SOURCE = pd.DataFrame(
        {"sex": ["f", None, "m", "stranger", "m"], "x": [1.0, 2.0, None, 4.0, math.nan]}
    )
    COLUMNS = {"sex": Category(["f", "m"]), "x": Integer(0, 9)}  # noqa: RUF012

    def count(self, vectors, complete, sql="SELECT COUNT(*) FROM t"):
        return vectors(Table("t", self.SOURCE, Schema(self.COLUMNS, complete=complete)), sql)

    def test_rows_that_lack_a_value_are_left_out_without_a_word(self, vectors, caplog):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert self.count(vectors, []) == [[5]]
            assert self.count(vectors, ["sex"]) == [[3]]
            assert self.count(vectors, ["x", "sex"]) == [[1]]
        assert not caplog.records

    def test_values_that_normalise_to_nothing_are_missing_too(self, vectors):
        groups = self.count(vectors, ["sex"], "SELECT sex, COUNT(*) FROM t GROUP BY sex")
        assert groups == [[1, 2]]

    def test_their_groups_add_up_to_all_rows(self, vectors):
        (groups,) = self.count(vectors, ["sex"], "SELECT sex, COUNT(*) FROM t GROUP BY sex")
        assert [sum(groups)] == self.count(vectors, ["sex"])[0]

    @pytest.mark.parametrize("kind", ["frame", "file"])
    def test_reals_that_are_no_numbers_are_missing(self, kind, vectors, tmp_path):
        """Also where DuckDB works on all rows of a file before it leaves some out."""
        source = pd.DataFrame({"w": [0.5, math.nan, INF, -INF, None, 400.0, -7.0]})
        if kind == "file":
            values = pa.array([0.5, math.nan, INF, -INF, None, 400.0, -7.0])
            source = tmp_path / "t.parquet"
            pq.write_table(pa.table({"w": values}), source)
        table = Table("t", source, Schema({"w": Real(0, 200)}, complete=["w"]))
        assert vectors(table, "SELECT COUNT(*) FROM t") == [[3]]
        # 0.5 + 200 + 0 in ticks of 2**-14
        assert vectors(table, "SELECT SUM(w) FROM t") == [[int(200.5 * 2**14)]]
