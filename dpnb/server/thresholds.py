"""Thresholds by group over HTTP: a JSON name cannot be a group, so pairs with numbers are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnb.errors import RequestError, given

_HINT = "Send {name: [[[label, ...], number], ...]}, each group once."


def send_thresholds(value: Any) -> Any:
    """Return thresholds as lists of groups and numbers; anything but a mapping unchanged.

    Parameters
    ----------
    value : mapping of name to mapping of group to number
        A group is a label or a tuple of labels; a pandas Series serves as the inner mapping.
    """
    if not isinstance(value, Mapping):
        return value
    return {str(name): _pairs(numbers) for name, numbers in value.items()}


def _pairs(numbers: Any) -> Any:
    if hasattr(numbers, "to_dict"):
        numbers = numbers.to_dict()
    if not isinstance(numbers, Mapping):
        # any other list would be read as pairs
        return {"$type": "list"} if isinstance(numbers, (list, tuple)) else numbers
    return [
        [list(group) if isinstance(group, tuple) else [group], number]
        for group, number in numbers.items()
    ]


def read_thresholds(value: Any) -> Any:
    """Return the thresholds that :func:`send_thresholds` wrote; anything but a mapping unchanged.

    Raises
    ------
    RequestError
        If a list does not contain groups with their numbers, or contains a group twice.
    """
    if not isinstance(value, Mapping):
        return value
    return {name: _read_pairs(name, pairs) for name, pairs in value.items()}


def _read_pairs(name: str, pairs: Any) -> Any:
    if isinstance(pairs, Mapping):
        raise _unreadable(name)
    if not isinstance(pairs, list):
        return pairs
    thresholds: dict[Any, Any] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], list):
            raise _unreadable(name)
        labels, number = pair
        if any(isinstance(label, (list, Mapping)) for label in labels):
            raise _unreadable(name)
        # as written in a notebook: 'a', or ('a', 'b') for several keys
        thresholds[labels[0] if len(labels) == 1 else tuple(labels)] = number
    if len(thresholds) < len(pairs):
        raise _unreadable(name)
    return thresholds


def _unreadable(name: str) -> RequestError:
    return RequestError(f"the thresholds {given(name)} must be a list of groups and numbers", _HINT)
