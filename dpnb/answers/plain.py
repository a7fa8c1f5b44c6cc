"""Results as plain data that JSON holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def listed(value: Any) -> Any:
    """Return a value with lists in place of tuples, all the way down."""
    if isinstance(value, Mapping):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [listed(item) for item in value]
    return value
