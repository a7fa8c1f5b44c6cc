"""Results made by hand, whose bill is given value by value."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from dpnb.results import Bill

R = TypeVar("R")
NAMES = {one.name for one in fields(Bill)}


def built(kind: type[R], **values: Any) -> R:
    """Build a result; the bill's values stand among its own."""
    bill = Bill(**{name: value for name, value in values.items() if name in NAMES})
    return kind(bill=bill, **{name: value for name, value in values.items() if name not in NAMES})


def changed(result: R, **changes: Any) -> R:
    """Return a result with other values, of its bill too."""
    if hasattr(result, "bill"):
        bill = {name: changes.pop(name) for name in NAMES & changes.keys()}
        changes["bill"] = replace(result.bill, **bill)
    return replace(result, **changes)  # type: ignore[type-var]
