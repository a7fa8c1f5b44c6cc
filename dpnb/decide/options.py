"""The options of a decision: which errors are bounded, how, and at what cost at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.codes import scalar, truth
from dpnb.errors import RequestError, given
from dpnb.privacy.loss import amount, is_picked
from dpnb.releases.accuracy import HISTORY
from dpnb.releases.options import (
    AMOUNT,
    LIST,
    NUMBER,
    POSITIVE,
    SHARE,
    Option,
    by_name,
    or_null,
    whole,
)

Mode: TypeAlias = Literal["certified", "margin", "rr", "hybrid"]
MODES: tuple[Mode, ...] = ("certified", "margin", "rr", "hybrid")
STUDY_MODES = ("paper", "probe", "probe-naive", "probe-ent", "naive", "ppwlm", "ddpwlm")
"""Published methods, only for tables that are declared public."""
TWO_PHASES = ("paper", "probe", "probe-naive")
"""Published methods that reserve a part of the bound on false negatives for a second phase."""

STEPS = 6
"""Largest number of steps of a decision, the first one included."""
LEAST_SHARE = 1e-9
"""Smallest bound on an error: the coins of randomised response are exact to 2**-64."""
_SIZE = {"anyOf": [POSITIVE, by_name(POSITIVE)]}
_WIDTHS = {"anyOf": [POSITIVE, {**LIST, "items": NUMBER, "minItems": 2, "maxItems": 2}]}
_GROUP = {**LIST, "items": {"type": ["string", "integer"]}, "minItems": 1}
_THRESHOLD = {**LIST, "prefixItems": [_GROUP, NUMBER], "minItems": 2, "maxItems": 2}
OPTIONS = (
    Option("beta", SHARE, 0.05, "number",
           "false negatives: how often a group that meets the condition may be left out; 0.05 by default"),
    Option("alpha", SHARE, 0.1, "number", "share of false positives allowed; 0.1 by default"),
    Option("mode", {"enum": [*MODES, *STUDY_MODES]}, "certified", "text",
           "certified (the default): step by step until false positives are proven rare; margin: one "
           "step, errors bounded except near the threshold; rr: randomized response, which bounds both "
           "errors; hybrid: one step, then rr for groups in doubt"),
    Option("protect", {"enum": ["fnr", "fpr"]}, "fnr", "text",
           "fnr (the default) bounds false negatives of each group in advance; fpr bounds false positives"),
    Option("u", or_null(_SIZE), None, "by alias",
           "distance from the threshold within which a value is in doubt at first: 50, or n=100,mean=2"),
    Option("ranges", or_null({"anyOf": [_WIDTHS, by_name(_WIDTHS)]}), None, "by alias",
           "instead of u, which is 30% of it: the range of the values"),
    Option("rows", or_null(_SIZE), None, "by alias",
           "size of the groups for which the u of an AVG holds: 200, or mean=200"),
    Option("confidence", SHARE, 0.95, "number", "of the final certificate; 0.95 by default"),
    Option("steps", or_null(whole(1, STEPS)), None, "whole", "stop after this many steps", metavar="N"),
    Option("most", or_null(AMOUNT), None, "amount", "highest total privacy cost, or :name",
           metavar="AMOUNT"),
    Option("thresholds",
           {**or_null(by_name({**LIST, "items": _THRESHOLD})),
            "description": "For :name in HAVING, a number for each group."},
           None, "mapping",
           "variable with a number for each group: {'quota': {'a': 100, 'b': 50}} for :quota",
           metavar="NAME"),
    HISTORY,
)  # fmt: skip
"""The options of ``%%dpdecide`` and ``Session.decide``."""
_LEAST, _BITS = 1e-30, 512

PerAlias: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options of ``Session.decide``; see there.

    Attributes
    ----------
    beta, alpha : float
        Bounds on the probability of missing a group that satisfies the condition, and on false
        positives.
    confidence : float
        Confidence of the certificate.
    mode : {'certified', 'margin', 'rr', 'hybrid'}, or a published method
    protect : {'fnr', 'fpr'}
        Which error is bounded for each group beforehand; the other one is certified afterwards.
    u, ranges, rows : number or mapping by alias, or None
    thresholds : mapping of name to mapping of group to number
    steps : int or None
        How many steps to take; None for as many as needed.
    most : Fraction or None
        The most that the decision may cost in total.
    history : bool
        Whether values that were seen before may enter the certificate.
    """

    beta: float
    alpha: float
    confidence: float
    mode: str
    protect: Literal["fnr", "fpr"]
    u: PerAlias | float | None
    ranges: PerAlias | float | None
    rows: PerAlias | float | None
    thresholds: Mapping[str, Mapping[Any, Fraction]]
    steps: int | None
    most: Fraction | None
    history: bool
    conditional: bool

    @property
    def bound(self) -> float:
        """The bound that holds for every group beforehand."""
        return self.beta if self.protect == "fnr" else self.alpha

    @property
    def goal(self) -> float:
        """The rate of the other error that the certificate should reach."""
        return self.alpha if self.protect == "fnr" else self.beta


def read_options(
    *,
    beta: object = 0.05,
    alpha: object = 0.1,
    confidence: object = 0.95,
    mode: object = "certified",
    protect: object = "fnr",
    u: object = None,
    ranges: object = None,
    rows: object = None,
    thresholds: object = None,
    steps: object = None,
    most: object = None,
    history: object = True,
) -> Options:
    """Check the options of a decision; public facts only.

    Raises
    ------
    RequestError
    """
    modes = (*MODES, *STUDY_MODES)
    if not isinstance(mode, str) or mode not in modes:
        raise RequestError(
            f"mode must be a known method, got {given(mode)}",
            f"Use one of {', '.join(MODES)}; for study, on public tables, also {', '.join(STUDY_MODES)}.",
        )
    if not isinstance(protect, str) or protect not in ("fnr", "fpr"):
        raise RequestError(
            f"protect must be 'fnr' or 'fpr', got {given(protect)}",
            "Use 'fnr' to bound false negatives, or 'fpr' to bound false positives.",
        )
    if protect == "fpr" and mode != "certified":
        raise RequestError(
            f"protect='fpr' does not work with mode={given(mode)}",
            "Leave protect out, or use mode='certified' (--mode certified).",
        )
    sides = {"beta": _share(beta, "beta"), "alpha": _share(alpha, "alpha")}
    # a certified share may be any; a bound for every group must be below one half
    certified = mode == "certified" or mode in STUDY_MODES
    free = ("alpha" if protect == "fnr" else "beta") if certified else None
    for name, value in sides.items():
        most_ = 1.0 if name == free else 0.5
        if not LEAST_SHARE <= value < most_:
            raise RequestError(
                f"{name} must be at least {LEAST_SHARE:g} and below {most_:g}, got {value:g}",
                f"Give {name}=0.05.",
            )
    sure = _real(confidence, "Write confidence=0.95.", "confidence")
    if not 0 < sure < 1:
        raise RequestError(
            f"confidence must be between 0 and 1, got {sure:g}", "Give confidence=0.95."
        )
    return Options(
        sides["beta"], sides["alpha"], sure, mode, "fnr" if protect == "fnr" else "fpr",
        _per_alias(u, "u"), _per_alias(ranges, "ranges", pairs=True), _per_alias(rows, "rows"),
        _thresholds(thresholds), _steps(steps), None if most is None else amount(most, "most"),
        truth(history, "history"), is_picked(most),
    )  # fmt: skip


def _share(value: object, name: str) -> float:
    return _real(value, f"Write {name}=0.05.", name)


def _steps(steps: object) -> int | None:
    steps = scalar(steps)
    if steps is None:
        return None
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= STEPS:
        raise RequestError(
            f"steps must be a whole number from 1 to {STEPS}, got {given(steps)}",
            "Give steps=3, or leave it out.",
        )
    return steps


def positive(value: object, name: str) -> float:
    """Return a positive number of moderate size."""
    number = _real(value, "Give a number above 0, such as 100.", name)
    if not number >= _LEAST:
        raise RequestError(f"{name} must be above 0, got {number:g}", "Give a number above 0.")
    return number


def _real(value: object, hint: str, name: str) -> float:
    number = scalar(value)
    if isinstance(number, bool) or not isinstance(number, (int, float, Fraction)):
        raise RequestError(f"{name} must be a number", hint)
    if not -(10**30) < number < 10**30:
        raise RequestError(f"{name} is out of range", hint)
    return float(number)


def _per_alias(value: object, name: str, *, pairs: bool = False) -> PerAlias | float | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return _width(value, name) if pairs else positive(value, name)
    return {
        str(alias): _width(entry, name) if pairs else positive(entry, name)
        for alias, entry in value.items()
    }


_WIDTH = "Give a width such as 500, or two ends such as (0, 500)."


def _width(value: object, name: str) -> float:
    """Return the width of a range, given as a number or as two ends."""
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise RequestError(f"{name} must be one number or two, got {len(value)}", _WIDTH)
        low, high = (_real(end, _WIDTH, name) for end in value)
        return positive(high - low, name)
    return positive(value, name)


def _thresholds(value: object) -> Mapping[str, Mapping[Any, Fraction]]:
    if value is None:
        return {}
    hint = (
        "Write thresholds={'quota': {'a': 100, 'b': 50}}, with every group, HAVING COUNT(*) > :quota, "
        "and u=30."
    )
    if not isinstance(value, Mapping):
        raise RequestError("thresholds must be a dict", hint)
    thresholds: dict[str, Mapping[Any, Fraction]] = {}
    for name, numbers in value.items():
        if hasattr(numbers, "to_dict"):
            numbers = numbers.to_dict()
        if not isinstance(numbers, Mapping):
            raise RequestError(f"the thresholds {given(name)} must map groups to numbers", hint)
        thresholds[str(name)] = {
            group: _number(threshold, str(name)) for group, threshold in numbers.items()
        }
    return thresholds


def _number(value: object, name: str) -> Fraction:
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise RequestError(
            f"a threshold of {given(name)} must be a number", "Give one for each group."
        )
    if not -(10**30) < value < 10**30:
        raise RequestError(f"a threshold of {given(name)} is out of range", "Give finite numbers.")
    if isinstance(value, Fraction):
        if value.denominator.bit_length() > _BITS:
            raise RequestError(f"a threshold of {given(name)} has too many digits", "Round it.")
        return value
    return Fraction(str(value))
