"""Metadata files of SmartNoise: what means the same here is taken, the rest is refused by name."""

from __future__ import annotations

import sys

import pytest
import yaml

from dpnb import Boolean, Budget, Date, Integer, Real, Schema, Session, Table, Unit
from dpnb.errors import SchemaError
from dpnb.schema.smartnoise import read

pytestmark = pytest.mark.fast

AGE = {"type": "int", "lower": 0, "upper": 100}
ID = {"type": "int", "private_id": True}


def file(table=None, **columns):
    entries = {"row_privacy": True} if table is None else table
    return yaml.safe_dump({"": {"PUMS": {"people": {**entries, **(columns or {"age": AGE})}}}})


def schema(table=None, **columns):
    return Schema.of(read(file(table, **columns), "people.yaml"))


def refused(text):
    with pytest.raises(SchemaError) as caught:
        Schema.of(read(text, "people.yaml"))
    assert caught.value.hint
    return caught.value


def test_columns_have_their_kinds_and_bounds():
    found = schema(
        age=AGE,
        rooms={"type": "int", "lower": 1.0, "upper": 9, "nullable": False, "name": "rooms"},
        wage={"type": "float", "lower": -0.5, "upper": 200, "nullable": True},
        married={"type": "boolean", "nullable": False},
        day={"type": "datetime", "lower": "2020-01-01", "upper": "2020-12-31"},
        city={"type": "string", "cardinality": 12, "nullable": False},
        notes={"type": "unknown"},
    )
    assert dict(found) == {
        "age": Integer(0, 100),
        "rooms": Integer(1, 9),
        "wage": Real(-0.5, 200),
        "married": Boolean(),
        "day": Date("2020-01-01", "2020-12-31"),
    }
    assert set(found.complete) == {"rooms", "married"}
    assert found.undeclared == ("city",)
    assert found.unit is None


@pytest.mark.parametrize(("table", "most"), [({}, 1), ({"max_ids": 7, "row_privacy": False}, 7)])
def test_the_private_id_is_the_privacy_unit(table, most):
    found = schema(table, age=AGE, pid=ID)
    assert found.unit == Unit("pid", max_rows=most)
    assert list(found) == ["age"]


def test_options_that_change_nothing_here_are_accepted():
    flags = dict.fromkeys(
        ("sample_max_ids", "clamp_counts", "clamp_columns", "use_dpsu", "censor_dims"), False
    )
    with_options = schema(
        {"row_privacy": True, "rows": 1000, "rows_exact": 1003, **flags}, age={**AGE, "card": 3}
    )
    assert with_options == schema(age=AGE)


def test_names_lose_the_quotes_of_a_dialect():
    text = yaml.safe_dump(
        {"engine": "postgres", "db": {"s": {'"people"': {"row_privacy": True, "`the age`": AGE}}}}
    )
    content = read(text, "x.yaml")
    assert content["name"] == "people"
    assert list(content["columns"]) == ["the age"]


DRAFT = "this is a draft: the file does not say whose rows these are"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (file({}), DRAFT, "Write private_id: True in the column"),
        (file({"row_privacy": False, "max_ids": 3}), DRAFT, "Write private_id: True in the column"),
        (file({}, age=AGE, a=ID, b={**ID}), "a and b together identify a person", "Make them one column"),
        (file({"row_privacy": True}, age=AGE, pid=ID), "and the file has private_id", "Delete one of the two."),
        (file({"row_privacy": True, "max_ids": 2}), "and the file has max_ids: 2", "Delete one of the two."),
        (file({"row_privacy": "yes"}), "row_privacy must be True or False", "Write True or False."),
        (file({}, age=AGE, pid={**ID, "private_id": "False"}), "private_id of 'pid' must be", "Write True or False."),
        (file({"max_ids": "3"}, age=AGE, pid=ID), "max_ids must be a whole number", "Write max_ids: 1."),
        (file({"max_ids": 0}, age=AGE, pid=ID), "max_rows must be a whole number from 1", "Write max_rows=3."),
        (file(age={"type": "int"}), "column 'age' has no lower and upper bound", "Add lower and upper"),
        (file(day={"type": "datetime"}), "column 'day' has no lower and upper bound", "Add lower and upper"),
        (file(age={**AGE, "missing_value": 0}), "has missing_value", "Leave it out, and fill in"),
        (file(age={**AGE, "sensitivity": 1}), "has sensitivity", "Leave it out."),
        (file(age={**AGE, "uper": 1}), "has an unknown option 'uper'", "Did you mean upper?"),
        (file(age={"type": "number"}), "has type 'number'", "Use one of int, float"),
        (file(age={"lower": 0}), "has type None", "Use one of int, float"),
        (file({"row_privacy": True, "max_id": 2}), "column 'max_id' has no entries", "Write the metadata as"),
        (file(age={**AGE, "lower": 101}), "", ""),
        (file(age={**AGE, "lower": ".5"}), "", ""),
        (file(age={"type": "datetime", "lower": "x", "upper": "y"}), "", ""),
        (file(city={"type": "string"}), "a schema needs at least one column", "Write Schema"),
        ("a: {s: {t: {age: {type: int, lower: 0, lower: 1}}}}", "'lower' stands twice", "Delete one of them."),
        ("a: {s: {t: {row_privacy: true, row_privacy: false}}}", "'row_privacy' stands twice", "Delete one"),
        ("a: {s: {t: &t {row_privacy: true}, u: *t}}", "the file repeats a part by its name", "Write the part out."),
        ("a: {s: {t: {row_privacy: true, yes: {type: int}}}}", "the name True is not a text", "Put it in quotes."),
        ("a: {s: {t: {}, u: {}}}", "the file has several tables: t, u", "Put each into a file of its own."),
        ("a: {s: {t: {}}}\nb: {s: {t: {}}}", "the file has several databases", "Keep one of them."),
        ("a: {s: {day: {row_privacy: true, d: {type: datetime, lower: 2020-01-01 10:00:00, upper: 2020-01-02}}}}",
         "the bounds of 'd' have a time of day", "Write days: 2024-01-31."),
        ("- 1", "the file has no entries", "Write the metadata as"),
        ("", "the file has no entries", "Write the metadata as"),
        ("a: [", "the file is not valid YAML in line 1", "Correct the file there."),
        ("[" * 1500, "the file is not valid YAML", "Correct the file there."),
        ("a: !!python/object/apply:os.system ['true']", "the file is not valid YAML in line 1", "Correct the file there."),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_by_name(text, what, hint):
    error = refused(text)
    assert what in error.what
    assert error.hint.startswith(hint)


def test_a_table_opens_with_the_rows_beside_its_file(tmp_path):
    path = tmp_path / "PUMS.yaml"
    path.write_text(file({"max_ids": 2}, age=AGE, pid=ID))
    with pytest.raises(SchemaError, match="the file has no 'source'") as caught:
        Table.load(path)
    assert "Put the rows beside it, in PUMS.csv or PUMS.parquet" in caught.value.hint
    (tmp_path / "PUMS.csv").write_text("pid,age\n1,30\n1,40\n2,50\n")
    table = Table.load(path)
    assert (table.name, table.unit, table.schema) == ("people", Unit("pid", 2), Schema.load(path))
    with Session(table, budget=Budget(rho=1)) as session:
        assert session.query(
            "SELECT COUNT(DISTINCT pid) AS n FROM people", rho=1
        ).to_frame().shape == (1, 3)


def test_a_file_without_pyyaml_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    error = refused("a: 1")
    assert (error.what, error.hint) == (
        "a .yaml file needs PyYAML",
        "Run pip install 'dpnb[yaml]'.",
    )
