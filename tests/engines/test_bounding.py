"""At most max_rows rows of each id are kept: once, by a secret order of its own rows, in every engine alike."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.engines import bounding
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import SchemaError
from dpnb.schema.predicates import EVERY, Within
from dpnb.sql.values import Column
from dpnb.views.measures import Count, Scan, Sum, Units, sum_of
from tests.kit.groups import own

SCHEMA = Schema(
    {
        "g": Category(list("abcd")),
        "x": Integer(-5, 60),
        "wide": Integer(-(2**53), 2**53),
        "r": Real(-1000, 1000),
        "d": Date("2020-01-01", "2020-12-31"),
    }
)
KEY = b"a secret key of 32 bytes, or so.."


def purchases(rows: int, people: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": rng.integers(0, people, rows),
            "g": rng.choice([*"abcd", None], rows),
            "x": rng.integers(-10, 70, rows),
            "wide": rng.integers(-(2**53), 2**53, rows),
            "r": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(0, 300, rows)),
            "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, rows), "D"),
        }
    )


def engine(frame, unit, schema=SCHEMA, key=KEY) -> DuckDBEngine:
    made = DuckDBEngine(Table("t", frame, schema, unit))
    made.bound(key)
    return made


def kept(frame, unit, schema=SCHEMA, key=KEY) -> pd.DataFrame:
    made = engine(frame, unit, schema, key)
    names = [f"c{i}" for i in range(len(schema))]
    rows = made._connection.execute(f"SELECT u, {', '.join(names)} FROM rows").fetchall()
    made.close()
    found = pd.DataFrame(rows, columns=["u", *names]).sort_values(["u", *names])
    return found.reset_index(drop=True)


class TestKeptRows:
    def test_nobody_has_more_than_the_bound_and_nobody_with_fewer_loses_one(self):
        frame = purchases(5_000, 700)
        sizes = frame.groupby("id").size()
        found = kept(frame, Unit("id", max_rows=5)).groupby("u").size()
        assert (found == sizes.clip(upper=5)).all()
        assert sizes.max() > 5 > sizes.min()

    def test_what_is_kept_is_repeatable_and_does_not_depend_on_the_order_of_rows(self):
        frame = purchases(5_000, 500)
        first = kept(frame, Unit("id", max_rows=4))
        shuffled = kept(frame.sample(frac=1, random_state=1), Unit("id", max_rows=4))
        pd.testing.assert_frame_equal(first, shuffled)

    def test_one_person_changes_nothing_about_the_others(self):
        frame = purchases(5_000, 500)
        unit = Unit("id", max_rows=4)
        whole = kept(frame, unit)
        without = kept(frame[frame["id"] != 7], unit)
        others = whole[whole["u"] != 7].reset_index(drop=True)
        assert len(others) < len(whole)
        pd.testing.assert_frame_equal(others, without)

    def test_another_key_keeps_other_rows(self):
        frame = purchases(2_000, 100)
        unit = Unit("id", max_rows=4)
        assert not kept(frame, unit).equals(kept(frame, unit, key=b"another key"))

    def test_people_with_equal_rows_keep_different_ones(self):
        """An order of rows alone would keep the same row of everybody, and bias every answer."""
        frame = pd.DataFrame({"id": np.repeat(np.arange(4_000), 2), "g": ["a", "b"] * 4_000})
        found = kept(frame, Unit("id", max_rows=1), Schema({"g": Category(["a", "b"])}))
        share = found["c0"].mean()
        assert 0.45 < share < 0.55

    def test_every_row_has_the_same_chance(self):
        """Over keys and people: rows far apart and rows next to each other."""
        frame = pd.DataFrame({"id": np.repeat(range(50), 10), "x": np.tile(range(10), 50)})
        schema, unit = Schema({"x": Integer(0, 9)}), Unit("id", max_rows=3)
        times = np.zeros(10)
        for number in range(3):
            times += np.bincount(kept(frame, unit, schema, b"key %d" % number)["c0"], minlength=10)
        assert times.sum() == 450
        # 45 expected, standard deviation 5.6
        assert 12 < times.min() < times.max() < 78

    @pytest.mark.parametrize("as_text", [False, True])
    def test_rows_without_an_id_are_left_out(self, as_text):
        frame = pd.DataFrame({"id": [1.0, np.nan, 2.0, 2.0], "x": [1, 2, 3, 4]})
        if as_text:
            frame["id"] = frame["id"].map(lambda one: None if np.isnan(one) else f"p{one:.0f}")
        found = kept(frame, Unit("id", max_rows=5), Schema({"x": Integer(0, 9)}))
        assert found["c0"].tolist() == [1, 3, 4]

    def test_one_person_with_a_million_rows_counts_like_any_other(self):
        frame = pd.DataFrame({"id": np.zeros(1_000_000, int), "x": 1})
        frame.loc[:9, "id"] = np.arange(10)
        found = kept(frame, Unit("id", max_rows=3), Schema({"x": Integer(0, 9)}))
        assert len(found) == 3 + 9

    @pytest.mark.parametrize(
        "ids",
        [
            np.array([-(2**53) + 1, 2**53 - 1, 0, -1], dtype=np.int64),
            pd.array([-(2**63), 2**63 - 1, 0, -1], dtype="Int64"),
            np.array([1.0, -2.0, 2.0**52, 5e15]),
            np.array(["", "ä", "x" * 1000, "'; --"], dtype=object),
            pd.Categorical(["a", "b", "c", None]),
            np.array([True, False, True, False]),
            np.array([2**53 - 1, 2**32, 7, 0], dtype=np.uint64),
        ],
        ids=["whole", "nullable", "real", "text", "category", "bool", "unsigned"],
    )
    def test_ids_may_be_anything_whole_or_written(self, ids):
        frame = pd.DataFrame({"id": ids, "x": [1, 2, 3, 4]})
        found = kept(frame, Unit("id", max_rows=1), Schema({"x": Integer(0, 9)}))
        assert 1 < len(found) <= 4

    def test_the_id_may_be_declared_as_well(self):
        frame = pd.DataFrame({"ID": [1, 1, 2], "x": [1, 2, 3]})
        schema = Schema({"ID": Integer(0, 9), "x": Integer(0, 9)})
        assert len(kept(frame, Unit("ID", max_rows=1), schema)) == 2

    def test_a_parquet_file_and_its_frame_keep_the_same_rows(self, tmp_path):
        frame = purchases(3_000, 200)
        frame.to_parquet(tmp_path / "t.parquet")
        unit = Unit("id", max_rows=3)
        from_file = kept(tmp_path / "t.parquet", unit)
        pd.testing.assert_frame_equal(from_file, kept(frame, unit))

    def test_what_comes_last_decides_only_between_rows_that_are_equal_in_all_else(self):
        frame = purchases(5_000, 100)
        frame["r"] = frame["r"].abs() > 200
        schema = Schema({"g": Category(list("abcd")), "r": Integer(0, 1), "x": Integer(-5, 60)})
        unit = Unit("id", max_rows=10)

        def others(frame, last) -> pd.DataFrame:
            made = DuckDBEngine(Table("t", frame, schema, unit))
            made.bound(KEY, last)
            found = made._connection.execute("SELECT u, c0, c1 FROM rows ORDER BY ALL").fetchdf()
            made.close()
            return found

        before = others(frame, ["x"])
        # whatever its values are, the rows kept are the same in all else
        for values in (frame["x"].to_numpy()[::-1], np.zeros(5_000, int), [None] * 5_000):
            changed = frame.assign(x=pd.array(values, dtype="Int64"))
            pd.testing.assert_frame_equal(others(changed, ["x"]), before)
            assert not others(changed, []).equals(others(frame, []))

    def test_undeclared_columns_may_come_last_and_all_columns_may(self):
        frame = purchases(2_000, 50).assign(city=[f"city {i % 7}" for i in range(2_000)])
        schema = Schema({"g": Category(list("abcd"))}, undeclared=["city"])
        unit = Unit("id", max_rows=3)
        found = []
        for last in ([], ["city"], ["g"], ["g", "city"]):
            made = DuckDBEngine(Table("t", frame, schema, unit))
            made.bound(KEY, last)
            found.append(made._connection.execute("SELECT * FROM rows ORDER BY ALL").fetchall())
            made.close()
        assert found[0] == found[3]
        assert len(set(map(str, found))) == 3
        assert {len(rows) for rows in found} == {3 * 50}

    def test_a_missing_id_column_is_refused_by_name(self):
        with pytest.raises(SchemaError, match="no column 'person'"):
            engine(purchases(10, 3), Unit("person", max_rows=3))

    def test_dates_are_no_ids(self):
        with pytest.raises(SchemaError, match="ids of the privacy unit are"):
            engine(purchases(10, 3), Unit("d", max_rows=3))


def vectors(frame, unit, scan) -> list[list[int]]:
    made = engine(frame, unit)
    exact = made.measure(scan)
    made.close()
    return [list(exact.reveal(i)) for i in range(len(scan.measures))]


class TestSupremum:
    """Adding or removing one id changes a vector by its sensitivity at most, and the bound is reached."""

    def changes(self, frame, unit, scan, ids) -> list[list[np.ndarray]]:
        whole = vectors(frame, unit, scan)
        parts = (vectors(frame[frame["id"] != one], unit, scan) for one in ids)
        return [[np.subtract(a, b) for a, b in zip(whole, part, strict=True)] for part in parts]

    @pytest.mark.parametrize("rows", [1, 3, 10])
    def test_counts_and_sums(self, rows):
        total = sum_of(Column("x"), SCHEMA, centred=False)
        assert isinstance(total, Sum)
        scan = Scan(own(SCHEMA, "g"), EVERY, ((Count(None), EVERY), (total, EVERY)))
        worst = np.zeros(2)
        frame = purchases(400, 20)
        frame.loc[frame["id"] < 2, ["g", "x"]] = ["a", 60]
        for moved in self.changes(frame, Unit("id", max_rows=rows), scan, range(5)):
            worst = np.maximum(worst, [np.abs(one).sum() for one in moved])
        assert worst.tolist() == [rows, rows * total.sensitivity]

    @pytest.mark.parametrize(("rows", "groups"), [(1, 1), (3, 1), (10, 2), (10, 4), (2, 9)])
    def test_different_ids(self, rows, groups):
        most = min(rows, groups, 4)
        units = Units(most, groups < min(rows, 4))
        scan = Scan(own(SCHEMA, "g"), EVERY, ((units, EVERY), (Count(None), EVERY)))
        worst = 0
        for moved in self.changes(purchases(400, 8), Unit("id", rows, groups), scan, range(4)):
            assert set(np.abs(moved[0])) <= {0, 1}
            worst = max(worst, np.abs(moved[0]).sum())
        assert worst == most

    def test_all_measures_of_a_cut_scan_see_few_groups_of_an_id(self):
        scan = Scan(own(SCHEMA, "g"), EVERY, ((Count(None), EVERY),), groups=2)
        for (moved,) in self.changes(purchases(400, 8), Unit("id", 20, 2), scan, range(4)):
            assert np.count_nonzero(moved) == 2

    def test_ids_are_counted_as_in_plain_sql_where_nothing_is_cut(self):
        frame = purchases(2_000, 300)
        unit = Unit("id", max_rows=1_000, max_groups=4)
        young = Within("x", ((0, 20),))
        scan = Scan(own(SCHEMA, "g"), EVERY, ((Units(4, False), EVERY), (Units(4, False), young)))
        every, some = vectors(frame, unit, scan)
        clamped = frame.assign(x=frame["x"].clip(-5, 60))
        assert every == clamped.groupby("g")["id"].nunique().tolist()
        inside = clamped[clamped["x"].between(0, 20)]
        assert some == inside.groupby("g")["id"].nunique().tolist()


class TestFingerprint:
    def test_it_tells_who_has_which_row(self):
        frame = purchases(100, 10)
        other = frame.assign(id=frame["id"].to_numpy()[::-1])
        prints = []
        for one in (frame, frame.sample(frac=1, random_state=2), other):
            made = DuckDBEngine(Table("t", one, SCHEMA, Unit("id", 3)))
            prints.append(made.fingerprint(KEY))
            made.close()
        assert prints[0] == prints[1] != prints[2]


def test_the_order_of_rows_is_a_linear_form_modulo_a_prime():
    """Remainders that are left out change nothing, whatever the sizes of the terms."""
    kinds = {f"c{i}": kind for i, kind in enumerate([*SCHEMA.values()] * 8)}
    whole = {name: kind for name, kind in kinds.items() if not isinstance(kind, Real)}
    rng = np.random.default_rng(4)
    for names in ([*whole], [*whole][:3], [*whole][:1]):
        codes = {
            name: int(rng.integers(int(kinds[name].scale.low), int(kinds[name].scale.high) + 1))
            for name in names
        }
        number, selected = (
            -(2**62) + 5,
            ", ".join(f"{code} AS {name}" for name, code in codes.items()),
        )
        order = bounding.order_of_rows({name: kinds[name] for name in names}, str(number), KEY)
        ((found,),) = duckdb.sql(f"SELECT {order} FROM (SELECT {selected})").fetchall()
        terms = []
        for name, code in codes.items():
            scale = kinds[name].scale
            if scale.high - scale.low < 2**35:
                terms.append(code - int(scale.low))
            else:
                # SQL's remainders have the sign of the number
                primes = (2**31 - 1, 2**31 - 19)
                terms += [(abs(code) % one) * (1 if code > 0 else -1) + one for one in primes]
        expected = 1
        for part, numbers in (("row id", [number]), ("row", terms)):
            total = bounding.coefficient(KEY, f"{part} constant")
            total += sum(
                term * bounding.coefficient(KEY, f"{part} {place}")
                for place, term in enumerate(numbers)
            )
            expected = expected * total % bounding.PRIME
        assert found == expected
