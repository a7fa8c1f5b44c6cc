"""The format of requests and replies: JSON, and the few values that JSON does not have.

Amounts stay exact: JSON numbers are read back as the same float, and fractions are sent as text. A
value that no request accepts is sent as the name of its type, so that it is refused with the same
message as in one process.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpnb.codes import scalar
from dpnb.errors import RequestError
from dpnb.privacy.loss import Picked, PickedRational

MAX_DEPTH = 24
"""Deepest nesting of lists and objects in a request."""
REPLY_DEPTH = 300
"""Deepest nesting in a reply, where formulas and conditions are trees."""
_DIGITS = 4_000
_PLAIN = (str, int, float, bool, type(None))
_RATIONAL = re.compile(r"-?[0-9]{1,200}(/[0-9]{1,200})?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_NOT_FINITE = ("inf", "-inf", "nan")


def malformed(what: str) -> RequestError:
    """Return the error for a body that cannot be read."""
    return RequestError(what, "Send a JSON object as /v2/openapi.json describes it.")


def dumps(value: Any, most: int = MAX_DEPTH) -> bytes:
    """Return a value as JSON in ASCII, nested at most ``most`` deep."""
    return json.dumps(encode(value, most), allow_nan=False, separators=(",", ":")).encode("ascii")


def reply(value: Any) -> bytes:
    """Return a result as JSON; its data are plain, except for numbers that are not finite."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError):
        return dumps(value, REPLY_DEPTH)


def loads(body: bytes, most: int = MAX_DEPTH) -> Any:
    """Read JSON strictly: UTF-8, no NaN, no name twice in one object, no deep nesting.

    Raises
    ------
    RequestError
        For anything else.
    """
    try:
        document = json.loads(
            body.decode("utf-8"),
            parse_float=_float,
            parse_int=_integer,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise malformed("the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise malformed("the body is not UTF-8") from None
    except ValueError:
        raise malformed("the body is not valid JSON") from None
    _check_depth(document, most)
    return document


def encode(value: Any, most: int = MAX_DEPTH) -> Any:
    """Return a value as plain JSON data, at most ``most`` deep; the inverse of :func:`decode`."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$number": str(value)}
    if kind is int:
        return value if value.bit_length() < 3 * _DIGITS else {"$type": "int"}
    if most < 0:
        raise RequestError("a value is nested too deeply", "Flatten it.")
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else str(key): encode(item, most - 1)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return [encode(item, most - 1) for item in value]
    return _encode_rare(value)


def _encode_rare(value: Any) -> Any:
    if isinstance(value, (PickedRational, Picked)):
        rational = isinstance(value, PickedRational)
        return {"$picked_fraction": str(value)} if rational else {"$picked": repr(float(value))}
    if isinstance(value, Fraction):
        return {"$fraction": str(value)}
    if isinstance(value, datetime.date) and type(value).__name__ != "NaTType":
        name = "$datetime" if isinstance(value, datetime.datetime) else "$date"
        return {name: value.isoformat()}
    plain = scalar(value)
    if plain is not value:
        return encode(plain)
    for base in (str, int, float):
        if isinstance(value, base):
            return encode(base(value))
    return {"$type": type(value).__name__}


def decode(value: Any) -> Any:
    """Return the value that :func:`encode` wrote.

    Raises
    ------
    RequestError
        For a special value that :func:`encode` does not write.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, text),) = value.items()
        if name.startswith("$") and isinstance(text, str):
            return _decode_rare(name, text)
    return {name: decode(item) for name, item in value.items()}


def _decode_rare(name: str, text: str) -> Any:
    try:
        if name == "$number" and text in _NOT_FINITE:
            return float(text)
        if name == "$picked" and len(text) < 40:
            return Picked(text)
        if name in ("$fraction", "$picked_fraction") and _RATIONAL.fullmatch(text):
            return Fraction(text) if name == "$fraction" else PickedRational(text)
        if name == "$date":
            return datetime.date.fromisoformat(text)
        if name == "$datetime":
            return datetime.datetime.fromisoformat(text)
        if name == "$type" and _NAME.fullmatch(text):
            return _opaque(text)()
    except (ValueError, ArithmeticError):
        pass
    raise malformed(f"{name} has the wrong type")


class _Opaque:
    """Placeholder for a value of a type that no request accepts."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"a {type(self).__name__}"


@lru_cache(maxsize=64)
def _opaque(name: str) -> type[_Opaque]:
    return type(name, (_Opaque,), {"__slots__": ()})


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError
    return int(text)


def _constant(text: str) -> Any:
    raise ValueError(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _check_depth(value: Any, most: int) -> None:
    layer = [value]
    for _ in range(most + 1):
        following: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                following += item.values()
            elif isinstance(item, list):
                following += item
        layer = following
        if not layer:
            return
    raise malformed("the JSON is nested too deeply")
