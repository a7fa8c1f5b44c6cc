"""What ``%%dpdecide`` reads: which errors are bounded, how uncertain at first, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnb.errors import RequestError, given, nearest
from dpnb.magics.lines import read_amount, read_number, read_whole


def decision_options(options: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Session.decide`` from a magic's options."""
    given: dict[str, Any] = {"mode": options.mode, "protect": options.protect}
    for name in ("beta", "alpha", "confidence"):
        given[name] = read_number(getattr(options, name), f"--{name}")
    for name in ("u", "ranges", "rows"):
        text = getattr(options, name)
        if text is not None:
            given[name] = _by_alias(text, f"--{name}")
    if options.steps is not None:
        given["steps"] = read_whole(options.steps, "--steps")
    if options.most is not None:
        given["most"] = read_amount(options.most, "--most", names)
    if options.thresholds is not None:
        given["thresholds"] = _thresholds(options.thresholds, names)
    if options.no_history:
        given["history"] = False
    return given


def _by_alias(text: str, option: str) -> float | dict[str, float]:
    """Return 50 for '50', and a number for each aggregate for 'n=100,mean=2'."""
    if "=" not in text:
        return read_number(text, option)
    pairs = [part.partition("=") for part in text.split(",")]
    found = {alias.strip(): read_number(number, option) for alias, _, number in pairs}
    if len(found) < len(pairs):
        raise RequestError(
            f"{option} names an aggregate twice", f"Write {option} n=100,mean=2, each once."
        )
    return found


def _thresholds(name: str, names: Mapping[str, Any]) -> Mapping[str, Any]:
    held = names.get(name)
    if isinstance(held, Mapping):
        return held
    known = [key for key, value in names.items() if isinstance(value, Mapping) and key[:1] != "_"]
    hint = nearest(name, known) if known else "Write limits = {'quota': {'a': 100, 'b': 50}} first."
    raise RequestError(f"there is no dict named {given(name)}", hint)
