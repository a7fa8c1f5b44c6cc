"""What a request can be told, one line for each option: cells, completion and the service read the same lines.

The methods of ``Session`` are written by hand, for editors and type checkers; a test holds them to these lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Written: TypeAlias = Literal[
    "text", "number", "whole", "amount", "names", "by alias", "percent", "parts", "pair", "any or whole",
    "mapping", "list", "alone",
]  # fmt: skip
"""How a cell writes a value; 'alone': the option has none, and stands for ``Option.means``."""

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
    """Return the schema of a value that may be missing."""
    return {"anyOf": [schema, {"type": "null"}]}


def by_name(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with such values."""
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
        In Python and on the wire.
    schema : mapping
        JSON schema of its values.
    default : object
        What holds when nobody says anything.
    written : str
        How a cell writes a value.
    help : str
        What it is for, as a cell's help says; '' where cells do not have it.
    flag : str
        In a cell, without its hyphens; by default the name.
    metavar : str
        What the help calls a value; by default the name.
    means : object
        The value that the flag stands for, where it has none of its own.
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
    """Return the names of some options."""
    return tuple(option.name for option in options)


def schema_of(options: Options) -> dict[str, Any]:
    """Return the JSON schema of an object that may have each of some options, and nothing else."""
    found = {option.name: dict(option.schema) for option in options}
    return {"type": "object", "properties": found, "additionalProperties": False}
