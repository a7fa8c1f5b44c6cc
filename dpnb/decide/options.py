"""The options of a decision: which errors are bounded, how, and at what cost at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.codes import scalar
from dpnb.errors import RequestError, given
from dpnb.privacy.loss import is_picked
from dpnb.releases.accuracy import HISTORY
from dpnb.releases.kinds import (
    AMOUNT,
    LIST,
    NUMBER,
    POSITIVE,
    SHARE,
    Choice,
    Kind,
    Named,
    Number,
    Range,
    Whole,
)
from dpnb.releases.options import Option, read_values

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
_GROUP = {**LIST, "items": {"type": ["string", "number", "boolean"]}, "minItems": 1}
_THRESHOLD = {**LIST, "prefixItems": [_GROUP, NUMBER], "minItems": 2, "maxItems": 2}


class Width(Kind):
    """The width of a range, given as a number or as two ends."""

    @property
    def schema(self) -> dict[str, Any]:
        """A number, or an array of two."""
        return {"anyOf": [POSITIVE.schema, Range().schema]}

    def read(self, value: object, name: str) -> float:
        """Return the width."""
        positive = Number("500", 0)
        if not isinstance(value, (list, tuple)):
            return positive.read(value, name)
        if len(value) != 2:
            option, _, _ = name.partition(" ")
            raise RequestError(
                f"{name} must be one number or two, got {len(value)}",
                f"Write {option}=500, or both ends, {option}=(0, 500).",
            )
        low, high = Range().read(value, name)
        return positive.read(high - low, name)


class Thresholds(Kind):
    """For each ``:name`` in HAVING, a number for each group."""

    @property
    def schema(self) -> dict[str, Any]:
        """An object of arrays of pairs: the group, its number."""
        each = {**LIST, "items": _THRESHOLD}
        return {
            "type": "object",
            "additionalProperties": each,
            "description": "For :name in HAVING, a number for each group.",
        }

    def read(self, value: object, name: str) -> Mapping[str, Mapping[Any, Fraction]]:
        """Return the exact numbers by group."""
        hint = (
            "Write thresholds={'quota': {'a': 100, 'b': 50}}, with every group, HAVING COUNT(*) > :quota, "
            "and u=30."
        )
        if not isinstance(value, Mapping):
            raise RequestError(f"{name} must be a dict", hint)
        thresholds: dict[str, Mapping[Any, Fraction]] = {}
        for variable, numbers in value.items():
            if hasattr(numbers, "to_dict"):
                numbers = numbers.to_dict()
            if not isinstance(numbers, Mapping):
                raise RequestError(
                    f"the thresholds {given(variable)} must map groups to numbers", hint
                )
            thresholds[str(variable)] = {
                group: _number(threshold, str(variable)) for group, threshold in numbers.items()
            }
        return thresholds


_RATE = Number("0.05", 0, 1)
_LISTED = f"{', '.join(MODES)}; for study, on public tables, also {', '.join(STUDY_MODES)}"
OPTIONS = (
    Option("beta", _RATE, 0.05,
           "false negatives: how often a group that meets the condition may be left out; 0.05 by default"),
    Option("alpha", _RATE, 0.1,
           "share of the list that may be wrong where it is certified; 0.1 by default"),
    Option("mode", Choice((*MODES, *STUDY_MODES), _LISTED), "certified",
           "certified (the default): step by step until few groups in doubt are selected; margin: one "
           "step, errors bounded except near the threshold; rr: randomized response, which bounds both "
           "errors; hybrid: one step, then rr for groups in doubt"),
    Option("protect", Choice(("fnr", "fpr")), "fnr",
           "fnr (the default) bounds false negatives of each group in advance; fpr bounds false positives"),
    Option("u", Named(POSITIVE), None,
           "distance from the threshold within which a value is in doubt at first: 50, or n=100,mean=2"),
    Option("ranges", Named(Width()), None,
           "instead of u, which is 30% of it: the range of the values"),
    Option("rows", Named(POSITIVE), None,
           "size of the groups for which the u of an AVG holds: 200, or mean=200"),
    Option("confidence", SHARE, 0.95, "of the final certificate; 0.95 by default"),
    Option("steps", Whole(1, STEPS, 3), None, "stop after this many steps", metavar="N"),
    Option("most", AMOUNT, None, "highest total privacy cost, or :name",
           metavar="AMOUNT"),
    Option("thresholds", Thresholds(), None,
           "variable with a number for each group: {'quota': {'a': 100, 'b': 50}} for :quota",
           metavar="NAME"),
    HISTORY,
)  # fmt: skip
"""The options of ``%%dpdecide`` and ``Session.decide``."""
_BITS = 512

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
        """The rate of the other error at which no further step is taken."""
        return self.alpha if self.protect == "fnr" else self.beta


def read_options(**options: object) -> Options:
    """Read the options of a decision; public facts only.

    Raises
    ------
    RequestError
        For a value of another kind, and for options that do not go together.
    """
    values = read_values(OPTIONS, options)
    mode, protect = values["mode"], values["protect"]
    if protect == "fpr" and mode != "certified":
        raise RequestError(
            f"protect='fpr' does not work with mode={given(mode)}",
            "Leave protect out, or use mode='certified' (--mode certified).",
        )
    # a certified share may be any; a bound for every group must be below one half
    certified = mode == "certified" or mode in STUDY_MODES
    free = ("alpha" if protect == "fnr" else "beta") if certified else None
    for name in ("beta", "alpha"):
        most = 1.0 if name == free else 0.5
        if not LEAST_SHARE <= values[name] < most:
            raise RequestError(
                f"{name} must be at least {LEAST_SHARE:g} and below {most:g}, got {values[name]:g}",
                f"Give {name}=0.05.",
            )
    thresholds = values["thresholds"] or {}
    return Options(**{**values, "thresholds": thresholds}, conditional=is_picked(options))


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
