"""Metadata files of SmartNoise, as what a table's TOML file says.

What means the same here is taken. Options that would change a number or a bound are refused by
name. The others have no effect: dpnb always bounds the rows of a person and moves values into their
bounds, shows all declared groups, and never needs the number of rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from dpnb.errors import SchemaError, given, nearest

ENDINGS = (".yaml", ".yml")
_FLAGS = ("row_privacy", "sample_max_ids", "clamp_counts", "clamp_columns", "use_dpsu", "censor_dims")  # fmt: skip
_TABLE = (*_FLAGS, "rows", "rows_exact", "max_ids")
_COLUMN = (
    "name", "type", "private_id", "lower", "upper", "nullable", "card", "cardinality",
    "missing_value", "sensitivity",
)  # fmt: skip
_TYPES = ("int", "float", "string", "boolean", "datetime", "unknown")


def read(text: str, path: str | Path) -> dict[str, Any]:
    """Return a metadata file as the contents of a TOML file.

    Raises
    ------
    SchemaError
        For a file that is not SmartNoise's, has several tables, does not say whose rows these are,
        or says something that has no meaning here.
    """
    file = _File(str(path))
    table_name, entries = file.table(file.parsed(text))
    return file.content(table_name, entries)


class _File:
    """Reader of one file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def refuse(self, what: str, hint: str) -> NoReturn:
        raise SchemaError(what, hint, self.path)

    def parsed(self, text: str) -> object:
        """Parse YAML without aliases and without names that stand twice."""
        try:
            import yaml
        except ImportError:
            raise SchemaError(
                "a .yaml file needs PyYAML", "Run pip install 'dpnb[yaml]'.", self.path
            ) from None

        try:
            if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
                self.refuse("the file repeats a part by its name", "Write the part out.")
            self.check_names(yaml.compose(text))
            return yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            place = "" if mark is None else f" in line {mark.line + 1}"
            raise SchemaError(
                f"the file is not valid YAML{place}", "Correct the file there.", self.path
            ) from None

    def check_names(self, node: Any) -> None:
        """Refuse a name that stands twice, of which YAML would take the last."""
        if not isinstance(getattr(node, "value", None), list):
            return
        parts = node.value
        if node.id == "mapping":
            names = [str(key.value) for key, _ in parts]
            for name in names:
                if names.count(name) > 1:
                    self.refuse(f"{given(name)} stands twice", "Delete one of them.")
            parts = [value for _, value in parts]
        for part in parts:
            self.check_names(part)

    def mapping(self, value: object, what: str) -> Mapping[str, Any]:
        """Return a mapping with texts as names."""
        if not isinstance(value, dict) or not value:
            self.refuse(
                f"{what} has no entries", "Write the metadata as database: schema: table: column."
            )
        for name in value:
            if not isinstance(name, str):
                self.refuse(f"the name {given(name)} is not a text", "Put it in quotes.")
        return value

    def table(self, content: object) -> tuple[str, Mapping[str, Any]]:
        """Return the name and the entries of the only table."""
        outer = {**self.mapping(content, "the file")}
        if len(outer) > 1:
            outer.pop("engine", None)
        if len(outer) > 1:
            self.refuse("the file has several databases", "Keep one of them.")
        (database,) = outer.values()
        tables = [
            (name, entries)
            for schema in self.mapping(database, "the database").values()
            for name, entries in self.mapping(schema, "the schema").items()
        ]
        if len(tables) > 1:
            names = ", ".join(name for name, _ in tables)
            self.refuse(f"the file has several tables: {names}", "Put each into a file of its own.")
        ((name, entries),) = tables
        return _bare(name), self.mapping(entries, f"the table {given(name)}")

    def content(self, name: str, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of a TOML file for a table."""
        columns = {key: value for key, value in entries.items() if key not in _TABLE}
        for flag in _FLAGS:
            self.truth(flag, entries.get(flag, False))
        most = entries.get("max_ids", 1)
        if isinstance(most, bool) or not isinstance(most, int):
            self.refuse(f"max_ids must be a whole number, got {given(most)}", "Write max_ids: 1.")
        kinds: dict[str, dict[str, Any]] = {}
        complete, undeclared, ids = [], [], []
        for key, value in columns.items():
            column = _bare(key)
            options = self.mapping(value, f"column {given(key)}")
            self.check_options(column, options)
            if self.truth(f"private_id of {column!r}", options.get("private_id", False)):
                ids.append(column)
            elif options["type"] == "string":
                undeclared.append(column)
            elif options["type"] != "unknown":
                kinds[column] = self.kind(column, options)
                if not self.truth(f"nullable of {column!r}", options.get("nullable", True)):
                    complete.append(column)
        return {
            "name": name, "columns": kinds, "complete": complete, "undeclared": undeclared,
            **self.protected(ids, most, rows=entries.get("row_privacy", False)),
        }  # fmt: skip

    def protected(self, ids: list[str], most: int, *, rows: bool) -> dict[str, Any]:
        """Return whose rows these are, which the file must say."""
        if len(ids) > 1:
            self.refuse(
                f"{' and '.join(ids)} together identify a person",
                "Make them one column, and write private_id: True there alone.",
            )
        if rows and (ids or most != 1):
            self.refuse(
                "row_privacy: True says that each person has one row, and the file has "
                f"{'private_id' if ids else f'max_ids: {most}'}",
                "Delete one of the two.",
            )
        if not rows and not ids:
            self.refuse(
                "this is a draft: the file does not say whose rows these are",
                "Write private_id: True in the column that says so, or row_privacy: True in the table.",
            )
        return (
            {"one_row_per_person": True} if rows else {"unit": {"column": ids[0], "max_rows": most}}
        )

    def truth(self, name: str, value: object) -> bool:
        """Return a flag; texts are refused, as other systems read them as true."""
        if not isinstance(value, bool):
            self.refuse(f"{name} must be True or False, got {given(value)}", "Write True or False.")
        return value

    def check_options(self, column: str, options: Mapping[str, Any]) -> None:
        """Refuse options that are unknown, or that have no meaning here."""
        for name in options:
            if name not in _COLUMN:
                self.refuse(
                    f"column {column!r} has an unknown option {given(name)}",
                    nearest(name, _COLUMN).replace("Declared", "Options"),
                )
        if options.get("type") not in _TYPES:
            self.refuse(
                f"column {column!r} has type {given(options.get('type'))}",
                f"Use one of {', '.join(_TYPES)}.",
            )
        if options.get("missing_value") is not None:
            self.refuse(
                f"column {column!r} has missing_value, and missing values stay missing here",
                "Leave it out, and fill in the values before you open the table.",
            )
        if options.get("sensitivity") is not None:
            self.refuse(
                f"column {column!r} has sensitivity, which follows from lower and upper here",
                "Leave it out.",
            )

    def kind(self, column: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the declaration of a column with public values."""
        if options["type"] == "boolean":
            return {"type": "boolean"}
        low, high = options.get("lower"), options.get("upper")
        if low is None or high is None:
            self.refuse(
                f"column {column!r} has no lower and upper bound",
                "Add lower and upper, or write type: unknown, which leaves the column out.",
            )
        if options["type"] == "datetime":
            ends = [str(end) for end in (low, high) if not isinstance(end, datetime.datetime)]
            if len(ends) < len((low, high)):
                self.refuse(
                    f"the bounds of {column!r} have a time of day", "Write days: 2024-01-31."
                )
            return {"type": "date", "low": ends[0], "high": ends[1]}
        whole = options["type"] == "int"
        bounds = [
            int(end) if whole and isinstance(end, float) and end.is_integer() else end
            for end in (low, high)
        ]
        return {"type": "integer" if whole else "real", "low": bounds[0], "high": bounds[1]}


def _bare(name: str) -> str:
    """Return a name without the quotes that SQL dialects put around it.

    Examples
    --------
    >>> _bare('"Sale-Amount"'), _bare("`Orders`"), _bare("[Orders]"), _bare("Orders")
    ('Sale-Amount', 'Orders', 'Orders', 'Orders')
    """
    pairs = ('""', "``", "[]")
    quoted = len(name) > 1 and name[0] + name[-1] in pairs
    return name[1:-1] if quoted else name
