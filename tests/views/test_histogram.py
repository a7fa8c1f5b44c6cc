"""Declared histogram views: what they count, and which statements they answer.

Theorems and T numbers are those of docs/methods/dprovdb.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpnb.curator import Curator
from dpnb.errors import RequestError, SchemaError
from dpnb.estimation.estimates import estimate
from dpnb.privacy.budget import Budget
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import ZCDP
from dpnb.schema.columns import Category, Integer, Real
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date
from dpnb.sql.functions import Function
from dpnb.sql.parser import parse
from dpnb.views.alignment import Alignment, align
from dpnb.views.definitions import read_view
from dpnb.views.histogram import Strategy, histogram
from dpnb.views.text import cell_text
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

Opened = Callable[..., Curator]
AGES = Schema({"age": Integer(18, 23), "sex": Category(["F", "M"])})
EXACT = [3, 4, 3, 9, 5, 1, 0]
LOCAL = [3.6, 4.5, 2.5, 9.8, 4.7, 0.7, 0.0]


def aligned(
    sql: str, schema: Schema = AGES, columns: Any = ("age",), **options: Any
) -> Alignment | None:
    """How the first aggregate of a statement is answered from a view over some columns."""
    query = parse(sql, {"t": Table("t", None, schema)}, None)
    view = histogram("t", 1, schema, list(columns), **options)
    return align(query.measured[0], query, view)


def found(sql: str, **options: Any) -> Alignment:
    made = aligned(sql, **options)
    assert made is not None
    return made


def weights(made: Alignment, centred: bool | None) -> np.ndarray:
    """W, written out from what each single bin adds."""
    size = len(made.group)
    return np.array([made.apply(list(unit), centred) for unit in np.eye(size)]).T


def test_its_definition_and_its_bins_are_read_again() -> None:
    view = histogram("t", 1, AGES, ["age", "sex"], bins={"age": [18, 20, 23]})
    assert read_view(view.definition(), AGES) == view
    texts = [cell_text(view, place) for place in range(9)]
    assert texts[:4] == ["18 to 20, F", "18 to 20, M", "18 to 20, sex missing", "21 to 23, F"]
    assert texts[-1] == "age missing, sex missing"


class TestPaperExample:
    """T12: the view of Figure 2."""

    def test_a_count(self) -> None:
        made = found("SELECT COUNT(*) AS k FROM t WHERE age >= 19 AND age <= 21")
        assert weights(made, None).tolist() == [[0, 1, 1, 1, 0, 0, 0]]
        assert made.norm(None) ** 2 == pytest.approx(3)
        assert made.apply(EXACT, None) == [16]
        assert made.apply(LOCAL, None) == [pytest.approx(16.8)]
        # v = 300 is 100 on each bin
        assert 300 / made.norm(None) ** 2 == pytest.approx(100)

    def test_a_sum(self) -> None:
        made = found("SELECT SUM(age) AS s FROM t WHERE age >= 19 AND age <= 21")
        assert made.norm(False) ** 2 == pytest.approx(1202)
        assert made.apply(EXACT, False) == [325]
        assert made.apply(LOCAL, False) == [pytest.approx(341.3)]
        assert 12_020 / made.norm(False) ** 2 == pytest.approx(10)

    def test_a_mean(self) -> None:
        made = found("SELECT AVG(age) AS m FROM t WHERE age >= 19 AND age <= 21")
        (total,), (count,) = made.apply(LOCAL, True), made.apply(LOCAL, None)
        mean = made.middle + total / count
        assert mean == pytest.approx(20.3154761905)
        # the delta method at variance 100 on each bin: centred sums and counts are uncorrelated
        off = mean - made.middle
        variance = 100 * (made.norm(True) ** 2 + (off * made.norm(None)) ** 2) / count**2
        assert variance == pytest.approx(0.814404648622)
        assert made.reach == 1
        assert made.middle == 20

    def test_groups(self) -> None:
        made = found("SELECT age, COUNT(*) AS k FROM t WHERE age < 22 GROUP BY age")
        assert made.norm(None) == 1
        assert made.apply(EXACT, None) == [3, 4, 3, 9, 0, 0]
        # v = 400 over four bins is 100 on each
        assert 400 / (weights(made, None) ** 2).sum() == pytest.approx(100)


class TestAlign:
    BINNED = Schema(
        {
            "age": Integer(17, 90, bins=[17, 30, 50, 90]),
            "sex": Category(["F", "M"]),
            "gain": Real(0, 10, bins=[0, 2.5, 10]),
            "day": Date(
                "2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]
            ),
        }
    )

    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT COUNT(*) AS k FROM t WHERE age > 30",
            "SELECT COUNT(*) AS k FROM t WHERE age <= 30 OR age > 50",
            "SELECT COUNT(*) AS k FROM t WHERE NOT (age > 30 AND age <= 50)",
            "SELECT COUNT(*) AS k FROM t WHERE age IS NULL",
            "SELECT COUNT(age) AS k FROM t",
            "SELECT age, COUNT(*) AS k FROM t GROUP BY age",
            "SELECT COUNT(*) FILTER (WHERE age > 50) AS k FROM t WHERE age > 30",
            "SELECT COUNT(*) AS k FROM t WHERE age BETWEEN 17 AND 50",
        ],
    )
    def test_unions_of_bins_are_answered(self, statement: str) -> None:
        assert aligned(statement, schema=self.BINNED) is not None

    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT COUNT(*) AS k FROM t WHERE age > 31",
            "SELECT COUNT(*) AS k FROM t WHERE age >= 30",
            "SELECT COUNT(*) AS k FROM t WHERE age = 17",
            "SELECT COUNT(*) AS k FROM t WHERE sex = 'F'",
            "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex",
            "SELECT COUNT(sex) AS k FROM t",
            "SELECT COUNT(*) FILTER (WHERE sex = 'F') AS k FROM t",
            # a bin of several ages has no one value
            "SELECT SUM(age) AS s FROM t",
            "SELECT AVG(age) AS m FROM t WHERE age > 30",
            "SELECT SUM(age + 1) AS s FROM t",
        ],
    )
    def test_what_cuts_through_a_bin_is_not(self, statement: str) -> None:
        """Theorem 13: not by the share that is covered, nor by every bin that is touched."""
        assert aligned(statement, schema=self.BINNED) is None

    def test_bins_of_the_view_decide(self) -> None:
        sql = "SELECT COUNT(*) AS k FROM t WHERE age > 40"
        assert aligned(sql, schema=self.BINNED) is None
        assert aligned(sql, schema=self.BINNED, bins={"age": [17, 40, 90]}) is not None
        groups = "SELECT age, COUNT(*) AS k FROM t GROUP BY age"
        assert aligned(groups, schema=self.BINNED, bins={"age": [17, 40, 90]}) is None
        finer = found(groups, schema=self.BINNED, bins={"age": [17, 20, 30, 40, 50, 90]})
        assert weights(finer, None).sum(axis=1).tolist() == [2, 2, 1]

    def test_none_for_bins_means_one_for_each_value(self) -> None:
        made = found("SELECT SUM(age) AS s FROM t", schema=self.BINNED, bins={"age": None})
        assert made.view.size == 75
        assert made.values[0] == 17
        assert made.group[-1] == -1  # rows without an age add nothing

    def test_real_and_date_bins_are_right_closed(self) -> None:
        for column, inside, cut in (
            ("gain", "gain > 2.5", "gain >= 2.5"),
            ("day", "day > '2024-06-30'", "day >= '2024-06-30'"),
        ):
            for condition, answered in ((inside, True), (cut, False)):
                sql = f"SELECT COUNT(*) AS k FROM t WHERE {condition}"
                made = aligned(sql, schema=self.BINNED, columns=[column])
                assert (made is not None) == answered

    def test_groups_in_any_order_of_keys(self) -> None:
        counts = np.arange(4 * 3)  # age bins and missing x sexes and missing
        for keys in ("age, sex", "sex, age"):
            made = found(
                f"SELECT {keys}, COUNT(*) AS k FROM t GROUP BY {keys}",
                schema=self.BINNED, columns=["age", "sex"],
            )  # fmt: skip
            expected = counts.reshape(4, 3)[:3, :2]
            expected = expected if keys == "age, sex" else expected.T
            assert made.apply(list(counts), None) == expected.ravel().tolist()

    def test_means_need_one_middle_in_every_group(self) -> None:
        """Else the noises of its sum and its count go together."""
        made = found("SELECT sex, AVG(age) AS m FROM t GROUP BY sex", columns=["sex", "age"])
        assert made.middle == 20.5
        products = weights(made, True) @ weights(made, None).T
        assert np.abs(np.diag(products)).max() < 1e-9
        assert aligned("SELECT age, AVG(age) AS m FROM t GROUP BY age") is None

    def test_noise_on_an_answer_is_that_of_its_weights(self) -> None:
        """Theorem 13: sigma^2 ||W||^2, of the widest group."""
        for sql, centred in (
            ("SELECT sex, SUM(age) AS s FROM t WHERE age > 19 GROUP BY sex", False),
            ("SELECT sex, AVG(age) AS s FROM t WHERE age > 19 GROUP BY sex", True),
            ("SELECT sex, COUNT(*) AS s FROM t GROUP BY sex", None),
        ):
            made = found(sql, columns=["sex", "age"])
            rows = (weights(made, centred) ** 2).sum(axis=1)
            assert made.norm(centred) ** 2 == pytest.approx(rows.max())


class TestStrategy:
    PREFIXES = Strategy(tuple(tuple(int(j <= i) for j in range(7)) for i in range(7)))
    BOTH = Strategy(
        tuple(map(tuple, np.vstack([np.eye(7, dtype=int), np.ones((1, 7), dtype=int)])))
    )
    STATEMENTS = (
        "SELECT COUNT(*) AS k FROM t WHERE age >= 19 AND age <= 21",
        "SELECT SUM(age) AS s FROM t",
        "SELECT COUNT(age) AS k FROM t WHERE age <> 20",
    )

    @pytest.mark.parametrize("strategy", [PREFIXES, BOTH])
    @pytest.mark.parametrize("sql", STATEMENTS)
    def test_answers_are_unbiased_with_the_variance_of_the_paper(
        self, strategy: Strategy, sql: str
    ) -> None:
        """Theorem 15: W B^+, variance sigma^2 ||W B^+||^2."""
        centred = False if "SUM" in sql else None
        plain, made = found(sql), found(sql, strategy=strategy)
        b = np.array(strategy.matrix)
        assert made.apply(list(b @ EXACT), centred) == pytest.approx(plain.apply(EXACT, centred))
        composed = weights(plain, centred) @ np.linalg.pinv(b)
        assert made.norm(centred) ** 2 == pytest.approx((composed**2).sum(axis=1).max())
        generator = np.random.default_rng(2)
        drawn = np.array(
            [made.apply(list(e), centred) for e in generator.normal(0, 1, (2_000, len(b)))]
        )
        widest = drawn.var(axis=0).max()
        assert widest == pytest.approx(made.norm(centred) ** 2, rel=0.25)
        assert widest != pytest.approx(plain.norm(centred) ** 2, rel=0.05)

    def test_its_sensitivity_is_the_largest_column_rounded_up(self) -> None:
        assert self.PREFIXES.sensitivity == 3  # the root of 7
        assert self.BOTH.sensitivity == 2
        assert Strategy(((2**20, 0), (0, 1))).sensitivity == 2**20
        assert histogram("t", 1, AGES, ["age"], strategy=self.PREFIXES).sensitivity(ZCDP) == 3.0

    def test_what_is_measured_is_the_product(self) -> None:
        view = histogram("t", 1, AGES, ["age"], strategy=self.PREFIXES)
        assert [v // view.scale for v in view.measured(EXACT)] == list(np.cumsum(EXACT))
        assert view.lattice_sensitivity(ZCDP) == 3 * view.scale

    @pytest.mark.parametrize(
        "matrix",
        [
            (), ((),), ((1, 2), (1,)), ((0.5, 1), (1, 0)), (("a",),), None, 5, ((1, math.nan),),
            ((2**32, 0), (0, 1)), ((-(2**21),),),
        ],
    )  # fmt: skip
    def test_it_is_a_matrix_of_whole_numbers(self, matrix: Any) -> None:
        with pytest.raises(RequestError, match="matrix of whole numbers"):
            Strategy(matrix)

    @pytest.mark.parametrize(
        "matrix", [((1, 1, 1),), ((1, 0), (2, 0)), ((0, 0), (0, 0)), ((1, 2), (2, 4), (3, 6))]
    )
    def test_it_tells_all_bins_apart(self, matrix: Any) -> None:
        """Otherwise answers would be biased, with intervals that do not show it."""
        with pytest.raises(RequestError, match="does not determine all bins"):
            Strategy(matrix)

    def test_it_has_a_column_for_each_bin(self) -> None:
        with pytest.raises(RequestError, match="the strategy must have 7 columns"):
            histogram("t", 1, AGES, ["age"], strategy=Strategy(((1, 0), (0, 1))))

    @pytest.mark.parametrize(
        "sql", ["SELECT AVG(age) AS m FROM t", "SELECT age, COUNT(*) AS k FROM t GROUP BY age"]
    )
    def test_means_and_groups_are_answered_otherwise(self, sql: str) -> None:
        """The noises of a sum and its count, or of two groups, would go together."""
        assert aligned(sql) is not None
        assert aligned(sql, strategy=self.PREFIXES) is None


class TestDeclaring:
    SCHEMA = Schema(
        {"a": Category(["x", "y"]), "n": Integer(0, 9), "big": Integer(0, 10**6), "r": Real(0, 1),
         "d": Date("2024-01-01", "2024-01-31")}
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("columns", "bins", "word"),
        [
            ("a", None, "different column names"),
            ([], None, "different column names"),
            (["a", "a"], None, "different column names"),
            (["A"], None, "no declared column"),
            (["z"], None, "no declared column"),
            (["a"], {"z": [1, 2]}, "no declared column"),
            (["r"], None, "Real without bins"),
            (["big"], None, "too many values"),
            (["a"], {"a": [1, 2]}, "category cannot have bins"),
            (["n"], {"n": [5]}, "at least two edges"),
            (["n"], {"n": [5, 3]}, "bins need at least two edges in increasing order"),
            (["n"], {"n": [-1, 3]}, "outside the bounds"),
            (["n"], {"n": [0.5, 3]}, "whole numbers"),
            (["n"], {"n": "05"}, "list of edges"),
            (["d"], {"d": ["2023-01-01", "2024-01-31"]}, "outside the bounds"),
        ],
    )
    def test_what_cannot_be_a_view_is_refused(self, columns: Any, bins: Any, word: str) -> None:
        with pytest.raises((RequestError, SchemaError), match=word) as refusal:
            histogram("t", 1, self.SCHEMA, columns, bins)
        assert str(refusal.value)

    def test_edges_that_are_no_list_are_refused(self) -> None:
        with pytest.raises(SchemaError, match="rising edges within the bounds") as refusal:
            histogram("t", 1, self.SCHEMA, ["n"], {"n": 5})  # type: ignore[dict-item]
        assert refusal.value.hint == "Write bins={'age': [17, 30, 90]}."
        assert histogram("t", 1, self.SCHEMA, ["n"], {"n": [0, 5, 9]}).size == 3

    def test_it_has_at_most_100_000_bins(self) -> None:
        wide = {"big": list(range(0, 40_001, 10))}
        view = histogram("t", 1, self.SCHEMA, ["big", "a"], wide)
        assert view.size == (4_000 + 1 + 1) * 3
        with pytest.raises(RequestError, match="132,066 bins, more than the 100,000"):
            histogram("t", 1, self.SCHEMA, ["big", "a", "n"], wide)

    def test_every_row_falls_into_one_bin(self) -> None:
        for column, bins in (("n", [3, 5, 7]), ("n", None), ("r", [0.2, 0.5]), ("d", None)):
            given = {} if bins is None else {column: bins}
            (axis,) = histogram("t", 1, self.SCHEMA, [column], given).keys
            scale = self.SCHEMA[column].scale
            assert axis.numbers.support == ((scale.low, scale.high),)
            assert [number for _, _, number in axis.numbers.pieces] == [*range(axis.size - 1)]
            assert axis.numbers.null == axis.size - 1

    def test_equal_definitions_have_one_name(self) -> None:
        one = histogram("t", 1, self.SCHEMA, ["n"], {"n": [0, 9]}, "first")
        assert one.id == histogram("t", 1, self.SCHEMA, ["n"], {"n": [0, 9]}, "second").id
        others = [
            histogram("t", 2, self.SCHEMA, ["n"], {"n": [0, 9]}),
            histogram("u", 1, self.SCHEMA, ["n"], {"n": [0, 9]}),
            histogram("t", 1, self.SCHEMA, ["n"], {"n": [0, 5]}),
            histogram("t", 1, self.SCHEMA, ["n"]),
        ]
        assert len({one.id, *(other.id for other in others)}) == 5


KINDS = Schema(
    {
        "c": Category(["x", "y", "rest"], other="rest"),
        "o": Category(["x", "y"]),
        "i": Integer(0, 9),
        "b": Integer(0, 99, bins=[0, 10, 50, 99]),
        "r": Real(0.0, 10.0, bins=[0.0, 2.5, 10.0]),
        "d": Date("2024-01-01", "2024-01-31", bins=["2024-01-01", "2024-01-10", "2024-01-31"]),
        "e": Date("2024-01-01", "2024-01-05"),
    }
)


def untidy(count: int = 400) -> pd.DataFrame:
    """Every make of value: inside, on the edges, outside, missing."""
    generator = np.random.default_rng(5)

    def pick(*values: Any) -> list[Any]:
        return [values[i] for i in generator.integers(0, len(values), count)]

    days = [None, *pd.date_range("2023-12-30", "2024-02-02")]
    return pd.DataFrame(
        {
            "c": pd.Series(pick("x", "y", "z", "rest", None), dtype="string"),
            "o": pd.Series(pick("x", "y", "z", None), dtype="string"),
            "i": pd.Series(pick(-5, 0, 3, 4, 9, 12, None), dtype="Int64"),
            "b": pd.Series(pick(-1, 0, 10, 11, 50, 51, 99, 120, None), dtype="Int64"),
            "r": pick(-1.0, 0.0, 2.5, np.nextafter(2.5, 3), 7.0, 10.0, 11.0, np.nan, np.inf),
            "d": pd.Series(pick(*days), dtype="datetime64[us]"),
            "e": pd.Series(pick(*days), dtype="datetime64[us]"),
        }
    )


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """What the schema makes of it, by pandas: bounds clamp, the undeclared becomes other or missing."""
    made = pd.DataFrame(index=frame.index)
    made["c"] = frame["c"].where(frame["c"].isin(["x", "y"]) | frame["c"].isna(), "rest")
    made["o"] = frame["o"].where(frame["o"].isin(["x", "y"]))
    made["i"] = frame["i"].clip(0, 9)
    made["b"] = frame["b"].clip(0, 99)
    made["r"] = frame["r"].where(np.isfinite(frame["r"])).clip(0, 10)
    for column, last in (("d", "2024-01-31"), ("e", "2024-01-05")):
        made[column] = frame[column].clip(pd.Timestamp("2024-01-01"), pd.Timestamp(last))
    return made


def labels(frame: pd.DataFrame, column: str) -> pd.Series:
    """The group of each row, by pandas."""
    edges = {
        "b": [0, 10, 50, 99], "r": [0.0, 2.5, 10.0],
        "d": pd.to_datetime(["2024-01-01", "2024-01-10", "2024-01-31"]),
    }.get(column)  # fmt: skip
    if edges is not None:
        return pd.cut(frame[column], edges, include_lowest=True, labels=False)
    if column == "e":
        return frame[column].dt.day - 1
    order = {"c": ["x", "y", "rest"], "o": ["x", "y"], "i": range(10)}[column]
    return frame[column].map({value: place for place, value in enumerate(order)})


class TestCounts:
    """With noise that adds none, against pandas."""

    @staticmethod
    def with_pairs(open_: Opened) -> Curator:
        pairs = [["c", "i"], ["b", "r"], ["o", "d"], ["e", "i"]]
        return open_(
            Table("t", untidy(), KINDS), noise=NoNoise(), budget=Budget(rho=10**6), views=pairs
        )

    @pytest.fixture(scope="class")
    @classmethod
    def curator(cls, shared: Opened) -> Curator:
        return cls.with_pairs(shared)

    def declared(self, curator: Curator, sql: str) -> Any:
        """The answer, from declared views alone."""
        answer = curator.session("b").query(sql, rho=1)
        assert all("histogram" in made for made in answer.definitions.values())
        assert answer.stamp == "test"
        return answer

    @pytest.mark.parametrize("column", list(KINDS))
    def test_groups_of_every_kind(self, curator: Curator, column: str) -> None:
        answer = self.declared(curator, f"SELECT {column}, COUNT(*) AS k FROM t GROUP BY {column}")
        expected = labels(tidy(untidy()), column).value_counts()
        assert answer.estimates[0].count == tuple(
            float(expected.get(place, 0)) for place in range(len(answer.groups))
        )

    @pytest.mark.parametrize(
        ("condition", "chosen"),
        [
            ("c = 'rest'", lambda t: t["c"] == "rest"),
            ("o IS NULL", lambda t: t["o"].isna()),
            ("o IS NOT NULL AND d IS NULL", lambda t: t["o"].notna() & t["d"].isna()),
            ("i > 3", lambda t: t["i"] > 3),
            ("i <> 3", lambda t: t["i"] != 3),
            # unknown is not true
            ("NOT (i = 3 OR c = 'x')", lambda t: t["i"].isin([0, 4, 9]) & t["c"].isin(["y", "rest"])),
            ("b > 10 AND r <= 2.5", lambda t: (t["b"] > 10) & (t["r"] <= 2.5)),
            ("b <= 10 OR r IS NULL", lambda t: (t["b"] <= 10).fillna(False) | t["r"].isna()),
            ("d > '2024-01-10'", lambda t: t["d"] > pd.Timestamp("2024-01-10")),
            ("e = '2024-01-05'", lambda t: t["e"] == pd.Timestamp("2024-01-05")),
            ("i IN (0, 9) AND c IN ('x', 'y')", lambda t: t["i"].isin([0, 9]) & t["c"].isin(["x", "y"])),
        ],
    )  # fmt: skip
    def test_conditions(self, curator: Curator, condition: str, chosen: Any) -> None:
        answer = self.declared(curator, f"SELECT COUNT(*) AS k FROM t WHERE {condition}")
        mask = chosen(tidy(untidy())).fillna(False).astype(bool)
        assert answer.estimates[0].count == (float(mask.sum()),)

    def test_sums_and_means(self, curator: Curator) -> None:
        sql = "SELECT c, SUM(i) AS s, AVG(i) AS m, COUNT(i) AS k FROM t WHERE i > 0 GROUP BY c"
        answer = self.declared(curator, sql)
        known = tidy(untidy())
        groups = known[known["i"] > 0].groupby("c")["i"]
        order = ["x", "y", "rest"]
        sums, means, counts = answer.estimates
        assert sums.total == tuple(float(groups.sum()[c]) for c in order)
        assert means.estimate == pytest.approx(tuple(groups.mean()[c] for c in order))
        assert counts.count == tuple(float(groups.count()[c]) for c in order)

    def test_two_columns_at_once(self, curator: Curator) -> None:
        answer = self.declared(curator, "SELECT r, b, COUNT(*) AS k FROM t GROUP BY b, r")
        known = tidy(untidy())
        counts = pd.crosstab(labels(known, "b"), labels(known, "r"))
        assert [e.count for e in answer.estimates] == [
            tuple(float(n) for n in counts.to_numpy().ravel())
        ]

    def test_they_agree_with_views_of_their_own(self, opened: Opened, silent: Any) -> None:
        own = opened(Table("t", untidy(), KINDS), noise=silent, budget=Budget(rho=10**6))
        with_views = opened(
            Table("t", untidy(), KINDS), noise=silent, budget=Budget(rho=10**6),
            views=[["c", "i", "o"]],
        )  # fmt: skip
        for sql in (
            "SELECT c, COUNT(*) AS k FROM t WHERE o = 'x' OR i IS NULL GROUP BY c",
            "SELECT o, SUM(i) AS s FROM t WHERE c <> 'y' GROUP BY o",
            "SELECT c, o, AVG(i) AS m FROM t GROUP BY o, c",
        ):
            plain, made = (c.session("b").query(sql, rho=1) for c in (own, with_views))
            assert plain.definitions.keys() != made.definitions.keys()
            assert plain.groups == made.groups
            for one, other in zip(plain.estimates, made.estimates, strict=True):
                assert one.estimate == pytest.approx(other.estimate)

    def test_the_table_is_scanned_once(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dpnb.engines.duckdb import DuckDBEngine

        curator = self.with_pairs(opened)
        monkeypatch.setattr(DuckDBEngine, "measure", lambda *_: 1 / 0)
        monkeypatch.setattr(DuckDBEngine, "histograms", lambda *_: 1 / 0)
        for group in "cbde":
            sql = f"SELECT {group}, COUNT(*) AS k FROM t GROUP BY {group}"
            assert self.declared(curator, sql).spent.rho == 1


class TestMeans:
    """An AVG from one synopsis: S and C of the same noisy bins."""

    @pytest.mark.parametrize("scale", [1.0, 0.8])
    def test_its_interval_covers_as_often_as_it_says(
        self, scale: float, size: Callable[[int], int], reaches: Callable[..., bool]
    ) -> None:
        """At its own noise; with noise taken for a fifth smaller than it is it does not (power)."""
        made = found("SELECT AVG(age) AS m FROM t WHERE age <= 22")
        exact = np.array([30, 40, 30, 90, 50, 10, 5])
        inside = np.arange(18, 23)
        mean = (exact[:5] * inside).sum() / exact[:5].sum()
        sigma, alpha = 12.0, 0.1
        generator = np.random.default_rng(7)
        hits = []
        for errors in generator.normal(0, sigma, (size(3_000), 7)):
            noisy = list(exact + errors)
            answer = estimate(
                "m", Function.AVG, "age",
                total=made.apply(noisy, True),
                total_distribution=NoiseDistribution("gaussian", scale * sigma * made.norm(True)),
                count=made.apply(noisy, None),
                count_distribution=NoiseDistribution("gaussian", scale * sigma * made.norm(None)),
                middle=made.middle, reach=made.reach, look=1, alpha=alpha, each=alpha,
            )  # fmt: skip
            hits.append(answer.low[0] <= mean <= answer.high[0])
        assert reaches(hits, 1 - alpha) == (scale == 1)

    def test_a_mean_of_one_value_is_that_value(self, opened: Opened) -> None:
        curator = opened(views=[["n"]])
        frame = (
            curator.session("b").query("SELECT AVG(n) AS m FROM t WHERE n = 3", rho=1).to_frame()
        )
        assert list(frame.iloc[0]) == [3, 3, 3]

    def test_an_error_is_met(self, opened: Opened) -> None:
        """Accuracy first: on groups of at least so many rows."""
        curator = opened(views=[["sex", "n"]], budget=Budget(rho=100))
        answer = curator.session("b").query(
            "SELECT sex, AVG(n) AS m, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY sex",
            error={"m": 0.5, "k": 20, "s": 90}, rows=60,
        )  # fmt: skip
        assert len(answer.levels) == 1
        frame = answer.to_frame()
        for alias, error in (("k", 20), ("s", 90)):
            half = (frame[f"{alias}_high"] - frame[f"{alias}_low"]) / 2
            assert (half <= error * (1 + 1e-9)).all()
        # 60 rows in either group, of which the noise may hide some
        price = curator.session("b").price(
            "SELECT sex, AVG(n) AS m FROM t GROUP BY sex", error=0.5, rows=60
        )
        assert price.widths[0][2] <= 0.5


def test_alignments_of_equal_length() -> None:
    """Each bin belongs to one group at most."""
    made = found(
        "SELECT sex, COUNT(*) AS k FROM t WHERE age > 20 GROUP BY sex", columns=["sex", "age"]
    )
    assert len(made.group) == len(made.values) == made.view.size == 21
    assert set(made.group) == {-1, 0, 1}
