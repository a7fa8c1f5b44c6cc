"""The options of requests, declared once: cells, completion and the service read the same lines.

The methods of ``Session`` are written by hand, for editors and type checkers; a test compares them
with these lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Written: TypeAlias = Literal[
    "text", "number", "whole", "amount", "names", "by alias", "percent", "parts", "pair", "any or whole",
    "mapping", "list", "alone",
]  # fmt: skip
"""How a cell writes a value; 'alone': the flag has no value and stands for ``Option.means``."""

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
TRUTH: dict[str, Any] = {"type": "boolean"}
WHOLE: dict[str, Any] = {"type": "integer"}
LIST: dict[str, Any] = {"type": "array"}
POSITIVE = {**NUMBER, "exclusiveMinimum": 0}
SHARE = {**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}
AMOUNT = {
    "description": "A number, or a string with its decimal digits; both are exact.",
    "oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "maxLength": 60}],
}


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def by_name(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose values have a given schema."""
    return {"type": "object", "additionalProperties": schema}


def whole(low: int, high: int | None = None) -> dict[str, Any]:
    """Return the schema of whole numbers from ``low`` to ``high``."""
    return {**WHOLE, "minimum": low} | ({} if high is None else {"maximum": high})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a request.

    Attributes
    ----------
    name : str
        Its name in Python and on the wire.
    schema : mapping
        JSON schema of its values.
    default : object
        The value if the option is not given.
    written : str
        How a cell writes a value.
    help : str
        The text of a cell's help; '' if cells do not offer the option.
    flag : str
        Its name in a cell, without hyphens; by default ``name``.
    metavar : str
        The help's name for a value; by default ``name``.
    means : object
        The value that the flag stands for, if it takes none.
    """

    name: str
    schema: Mapping[str, Any]
    default: Any
    written: Written = "text"
    help: str = ""
    flag: str = ""
    metavar: str | tuple[str, str] = ""
    means: Any = True

    @property
    def spelled(self) -> str:
        """The option as a cell writes it."""
        return f"--{self.flag or self.name}"


Options: TypeAlias = Sequence[Option]


def names(options: Options) -> tuple[str, ...]:
    """Return the names of options."""
    return tuple(option.name for option in options)


def schema_of(options: Options) -> dict[str, Any]:
    """Return the JSON schema of an object that may have these options, and nothing else."""
    properties = {option.name: dict(option.schema) for option in options}
    return {"type": "object", "properties": properties, "additionalProperties": False}
