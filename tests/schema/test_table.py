"""A table is a name, a source, its public facts and whom it protects."""

from __future__ import annotations

import copy
import pickle

import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Table, Unit
from dpnb.errors import SchemaError

SCHEMA = Schema({"n": Integer(0, 9)})
FRAME = pd.DataFrame({"n": [1, 2]})


class TestDeclaration:
    @pytest.mark.parametrize("name", ["t", "_t1", "Adult", "a" * 63])
    def test_plain_names_are_taken(self, name):
        assert Table(name, FRAME, SCHEMA).name == name

    @pytest.mark.parametrize("name", ["", "1t", "a b", 'a"b', "a;b", "größe", "a" * 64, None, 5])
    def test_other_names_are_refused(self, name):
        with pytest.raises(SchemaError, match="is not a table name"):
            Table(name, FRAME, SCHEMA)

    def test_the_schema_is_a_schema(self):
        with pytest.raises(SchemaError, match="Write dpnb.Schema"):
            Table("t", FRAME, {"n": Integer(0, 9)})

    def test_a_unit_is_part_of_what_is_public(self):
        table = Table("t", FRAME, SCHEMA, unit=Unit("id", max_rows=3))
        assert table.unit == table.schema.unit == Unit("id", 3, None)
        assert table.columns == ("n", "id")
        assert "unit=id" in repr(table)
        unit = {"column": "id", "max_rows": 3}
        assert table.definition()["unit"] == unit
        assert Unit.from_dict(unit) == table.unit
        bounded = Unit("id", 3, 1)
        assert bounded.to_dict() == {**unit, "max_groups": 1}
        assert Unit.from_dict(bounded.to_dict()) == bounded != table.unit
        assert SCHEMA.unit is None

    @pytest.mark.parametrize(
        "unit",
        [
            {"column": "", "max_rows": 3},
            {"column": "id", "max_rows": 0},
            {"column": "id", "max_rows": 3, "max_groups": 0},
            {"column": "id", "max_rows": 2**20 + 1},
            {"column": "id", "max_rows": True},
            {"column": "id", "max_rows": 2.0},
        ],
    )
    def test_bounds_of_nothing_are_refused(self, unit):
        with pytest.raises(SchemaError):
            Unit(**unit)

    @pytest.mark.parametrize("kind", ["number", "TEXT", "", 7, True, ["text"]])
    def test_a_kind_of_ids_that_is_unknown_is_refused(self, kind):
        with pytest.raises(SchemaError, match="the kind of ids must be 'text', got") as refusal:
            Unit("id", 3, kind=kind)
        assert "Write kind='text'" in refusal.value.hint
        assert repr(Unit("id", 3, kind="text")).endswith(", kind='text')")

    def test_a_unit_is_a_unit(self):
        with pytest.raises(SchemaError, match="the unit must be a dpnb.Unit, got 'id'"):
            Table("t", FRAME, SCHEMA, unit="id")

    def test_the_definition_holds_public_facts_only(self):
        assert Table("t", FRAME, SCHEMA).definition() == {
            "name": "t",
            "columns": {"n": {"type": "integer", "low": 0, "high": 9}},
            "aliases": [],
            "complete": [],
            "unit": None,
            "public": False,
        }

    @pytest.mark.parametrize("public", ["false", "", None, 0, 1])
    def test_public_is_true_or_false(self, public):
        with pytest.raises(SchemaError, match="public must be True or False, got"):
            Table("t", FRAME, SCHEMA, public=public)

    def test_public_is_declared(self, tmp_path):
        assert "public" in repr(Table("t", FRAME, SCHEMA, public=True))
        text = 'source = "t.csv"\n{}[columns.n]\ntype = "integer"\nlow = 0\nhigh = 9\n'
        path = tmp_path / "t.toml"
        for line, public in (("", False), ("public = true\n", True)):
            path.write_text(text.format(line))
            assert Table.load(path).public is public
        path.write_text(text.format('public = "yes"\n'))
        with pytest.raises(SchemaError, match="public = true"):
            Table.load(path)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"in_memory": "n"}, "in_memory must be a list of columns, got 'n'"),
            ({"in_memory": ["n", "age"]}, "in_memory has 'age', which is not a declared column"),
            ({"in_memory": [3]}, "in_memory has 3, which is not a declared column"),
            ({"memory_mb": 0}, "memory_mb must be a number above 0, got 0"),
            ({"memory_mb": "2 GB"}, "memory_mb must be a number above 0, got '2 GB'"),
            ({"memory_mb": float("nan")}, "memory_mb must be a number above 0, got nan"),
            ({"memory_mb": True}, "memory_mb must be a number above 0, got True"),
        ],
    )
    def test_columns_in_memory_are_declared_ones_within_a_bound(self, options, message):
        with pytest.raises(SchemaError) as refusal:
            Table("t", FRAME, SCHEMA, **options)
        assert refusal.value.what == message

    @pytest.mark.parametrize("options", [{"in_memory": ["n"]}, {"memory_mb": 10**400}])
    def test_columns_of_a_server_stay_there(self, options):
        Table("t", FRAME, SCHEMA, **options)
        with pytest.raises(SchemaError, match="PostgreSQL or Spark cannot be kept in memory"):
            Table("t", "postgresql://u@h/db#t", SCHEMA, **options)

    def test_columns_in_memory_are_no_part_of_what_is_public(self, tmp_path):
        path = tmp_path / "t.toml"
        path.write_text(
            'source = "t.csv"\nin_memory = ["N"]\nmemory_mb = 0.5\n'
            '[columns.n]\ntype = "integer"\nlow = 0\nhigh = 9\n'
        )
        table = Table.load(path)
        assert (table.in_memory, table.memory_mb) == (("n",), 0.5)
        assert table.definition() == Table("t", "t.csv", SCHEMA).definition()


class TestFile:
    def write(self, folder, text):
        path = folder / "t.toml"
        path.write_text(text, "utf-8")
        return path

    def test_a_table_is_read_from_toml_with_its_source_beside_it(self, tmp_path):
        (tmp_path / "rows.csv").write_text("n\n1\n", "utf-8")
        path = self.write(
            tmp_path, 'source = "rows.csv"\n[columns.n]\ntype = "integer"\nlow = 0\nhigh = 9\n'
        )
        table = Table.load(path)
        assert table.name == "t"
        assert table.schema == SCHEMA
        with dpnb.Session(table, budget=dpnb.Budget(rho=1)) as session:
            assert len(session.query("SELECT COUNT(*) FROM t", rho=1).to_frame()) == 1

    @pytest.mark.parametrize("entry", ["source", "columns"])
    def test_missing_entries_are_named(self, tmp_path, entry):
        text = {
            "source": "[columns.n]\ntype='integer'\nlow=0\nhigh=9\n",
            "columns": "source='rows.csv'\n",
        }[entry]
        with pytest.raises(SchemaError, match=f"the file has no '{entry}'"):
            Table.load(self.write(tmp_path, text))

    def test_a_unit_is_read_and_written(self, tmp_path):
        text = "source='a.csv'\n[columns.n]\ntype='integer'\nlow=0\nhigh=9\n[unit]\ncolumn='id'\n"
        path = self.write(tmp_path, text + "max_rows=4\nmax_groups=2\n")
        table = Table.load(path)
        assert table.unit == Schema.load(path).unit == Unit("id", 4, 2)
        again = tmp_path / "again.toml"
        again.write_text(table.schema.to_toml())
        assert Schema.load(again) == table.schema
        plain = Table.load(self.write(tmp_path, text + "max_rows=4\n"))
        assert plain.unit == Unit("id", 4)
        again.write_text(plain.schema.to_toml())
        assert Schema.load(again) == plain.schema
        texts = Table.load(self.write(tmp_path, text + "max_rows=4\nkind='text'\n"))
        assert texts.unit == Unit("id", 4, kind="text") != plain.unit
        assert texts.definition()["unit"] == {"column": "id", "max_rows": 4, "kind": "text"}
        again.write_text(texts.schema.to_toml())
        assert Schema.load(again) == texts.schema
        for wrong in ("", "max_rows=4\nother=1\n"):
            with pytest.raises(SchemaError, match="max_rows"):
                Table.load(self.write(tmp_path, text + wrong))


class TestSecrecy:
    def test_the_repr_shows_no_data(self):
        frame = pd.DataFrame({"c": ["Mallory-the-secret"]})
        table = Table("t", frame, Schema({"c": Category(["a"])}))
        assert repr(table) == "Table('t', 1 declared columns, unit=row)"
        assert "Mallory" not in f"{table} {table!r} {[table]}"

    @pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_it_cannot_be_pickled_or_copied(self, use):
        with pytest.raises(TypeError, match="cannot be pickled"):
            use(Table("t", FRAME, SCHEMA))
