"""The accuracy of a request: a privacy cost or an error, and how to state confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.codes import scalar, truth
from dpnb.errors import RequestError, given
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import amount, is_picked, refuse_rho, rho_meant
from dpnb.releases.options import AMOUNT, SHARE, TRUTH, Option, by_name, or_null, whole
from dpnb.sql.query import Aggregate, Query

Intervals: TypeAlias = Literal["simultaneous", "each"]
ANY_LOOK = 6 / math.pi**2
"""Look 1's share of the failure probability; look i gets ANY_LOOK / i^2, and all add up to 1."""

EACH = Option(
    "intervals", {"enum": ["simultaneous", "each"]}, "simultaneous", "alone",
    "confidence for each interval on its own, not for all at once", flag="each", means="each",
)  # fmt: skip
HISTORY = Option(
    "history", TRUTH, True, "alone", "ignore past answers", flag="no-history", means=False
)
CONFIDENCE = Option(
    "confidence", SHARE, 0.95, "number",
    "of the confidence intervals, between 0 and 1; 0.95 by default",
)  # fmt: skip
OPTIONS = (
    Option("rho", or_null(AMOUNT), None, "amount",
           "privacy cost in zCDP, such as 0.02; :name takes the value of a variable"),
    Option("epsilon", or_null(AMOUNT), None, "amount", "privacy cost as an epsilon instead, or :name"),
    Option("error", or_null({"anyOf": [AMOUNT, by_name(AMOUNT)]}), None, "by alias",
           "margin of error instead: 50, or n=50,mean=0.1"),
    Option("rows", or_null(whole(1)), None, "number",
           "with --error: size of the groups for which the error of an AVG holds"),
    CONFIDENCE,
    EACH,
    Option("looks", {"enum": [1, "any"]}, 1, "alone",
           "intervals that hold at every look, if you chose the accuracies beforehand",
           flag="any-look", means="any"),
    replace(HISTORY, help="with --error: ignore past answers"),
    Option("split", or_null(AMOUNT), None),
)  # fmt: skip
"""The options of a query."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The requested accuracy: a level (``rho`` or ``epsilon``) or an ``error``, and its statement.

    Parameters
    ----------
    level : Fraction or None
        Privacy cost of the statement, in the session's privacy definition.
    error : mapping of alias to float, or None
        Requested margins of error of the displayed confidence intervals.
    rows : int or None
        Group size for which the error of an AVG holds.
    confidence : float
        Between 0 and 1.
    looks : 1 or 'any'
        1: confidence intervals hold for an accuracy that was fixed before looking. 'any': they hold
        at all looks together, wherever you stop, if the accuracies were fixed beforehand.
    intervals : {'simultaneous', 'each'}
        Whether the confidence is for all confidence intervals together or for each on its own.
    split : Fraction or None
        Share of an AVG's level that goes to its sum.
    conditional : bool
        Whether the level was chosen by looking at the data.
    history : bool
        Whether past answers to other statements may help to reach the error.
    """

    level: Fraction | None
    error: Mapping[str, float] | None
    rows: int | None
    confidence: float
    looks: Literal[1, "any"]
    intervals: Intervals
    split: Fraction | None
    conditional: bool = False
    history: bool = True

    def alpha(self, intervals: int, look: int) -> float:
        """Return the failure probability of one of ``intervals`` confidence intervals at a look.

        Simultaneous intervals share it equally (union bound); so do the looks, as 1/i^2.
        """
        alpha = 1 - self.confidence
        if self.intervals == "simultaneous":
            alpha /= intervals
        return alpha * ANY_LOOK / look**2 if self.looks == "any" else alpha

    def to_dict(self) -> dict[str, Any]:
        """Return the accuracy as plain data."""
        return {
            "level": None if self.level is None else str(self.level),
            "error": None if self.error is None else dict(sorted(self.error.items())),
            "rows": self.rows,
            "confidence": self.confidence,
            "looks": self.looks,
            "intervals": self.intervals,
            "split": None if self.split is None else str(self.split),
            "conditional": self.conditional,
            "history": self.history,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Accuracy:
        """Build an accuracy from :meth:`to_dict`."""
        amounts = {
            name: None if data[name] is None else Fraction(data[name])
            for name in ("level", "split")
        }
        return cls(**{**data, **amounts})


def _real(value: object, name: str, hint: str) -> float:
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise RequestError(f"{name} must be a number", hint)
    if not -(10**30) < value < 10**30:
        raise RequestError(f"{name} is out of range", hint)
    return float(value)


def read_accuracy(
    query: Query,
    privacy: PrivacyDefinition,
    delta: Fraction | None,
    *,
    rho: object = None,
    epsilon: object = None,
    error: object = None,
    rows: object = None,
    confidence: object = 0.95,
    looks: object = 1,
    intervals: object = "simultaneous",
    split: object = None,
    history: object = True,
) -> Accuracy:
    """Check the arguments of a request and return its accuracy. Uses public facts only.

    Raises
    ------
    RequestError
        Unless exactly one of rho, epsilon and error is given, or if an argument makes no sense.
    """
    amounts = {"rho": rho, "epsilon": epsilon, "error": error}
    names = [name for name, value in amounts.items() if value is not None]
    if not names:
        raise RequestError(
            "a request needs a privacy cost or a margin of error",
            f"Give {privacy.parameter}=0.05, or error=50.",
        )
    if len(names) > 1:
        raise RequestError(
            f"{' and '.join(names)} cannot be given together", f"Give {names[0]} alone."
        )
    level: Fraction | None = None
    if rho is not None:
        refuse_rho(privacy)
        level = amount(rho, "rho")
    elif epsilon is not None:
        if privacy.counts_rho:
            level = rho_meant(epsilon, delta, privacy)
        else:
            level = amount(epsilon, "epsilon")
    sure = read_confidence(confidence)
    if isinstance(looks, bool) or not isinstance(looks, (int, str)) or looks not in (1, "any"):
        raise RequestError(
            f"looks must be 1 or 'any', got {given(looks)}", "Write looks=1 or looks='any'."
        )
    if not isinstance(intervals, str) or intervals not in ("simultaneous", "each"):
        raise RequestError(
            f"intervals must be 'simultaneous' or 'each', got {given(intervals)}",
            "Write intervals='simultaneous' or intervals='each'.",
        )
    share = None if split is None else amount(split, "split")
    if share is not None and not Fraction(1, 1000) <= share <= Fraction(999, 1000):
        raise RequestError(
            f"split must be between 0.001 and 0.999, got {float(share):g}",
            "Give the share of the sum, such as 0.5.",
        )
    averages = [a for a in query.measured if a.function.is_mean]
    size = None
    if rows is not None:
        number = _real(rows, "rows", "Give a whole number of rows.")
        if not (number >= 1 and number == int(number)):
            raise RequestError(
                f"rows must be a whole number of at least 1, got {number:g}", "Give rows=100."
            )
        size = int(number)
    errors = None if error is None else _errors(error, query, privacy.parameter)
    if errors is not None and averages and size is None:
        raise RequestError(
            "the error of an AVG depends on the size of the group",
            "Add rows=100: the error then holds for groups of at least 100 rows.",
        )
    return Accuracy(
        level=level,
        error=errors,
        rows=size,
        confidence=sure,
        looks=1 if looks == 1 else "any",
        intervals="each" if intervals == "each" else "simultaneous",
        split=share,
        conditional=is_picked(rho, epsilon, error),
        history=truth(history, "history"),
    )


def read_confidence(value: object) -> float:
    """Return a confidence between 0 and 1.

    Raises
    ------
    RequestError
    """
    hint = "Give a number such as 0.95."
    sure = _real(value, "confidence", hint)
    if not 0 < sure < 1:
        raise RequestError(f"confidence must be between 0 and 1, got {sure:g}", hint)
    return sure


def _errors(error: object, query: Query, unit: str) -> dict[str, float]:
    """Return the requested error of each measured aggregate, including those inside formulas.

    ``unit`` is the privacy parameter of the session, rho or epsilon.
    """
    errors: dict[str, float] = {}

    def target(alias: str, value: float) -> None:
        errors[alias] = min(value, errors.get(alias, value))

    aliases = [output.alias for output in query.outputs]
    output_errors = error if isinstance(error, Mapping) else dict.fromkeys(aliases, error)
    if sorted(output_errors, key=str) != sorted(aliases):
        raise RequestError(
            "error must name each result exactly once",
            f"Give one number, or a dict for {', '.join(aliases)}.",
        )
    for output in query.outputs:
        value = _real(output_errors[output.alias], "error", "Give a positive number.")
        if not 0 < value < math.inf:
            raise RequestError(f"error must be above 0, got {value:g}", "Give a positive number.")
        if isinstance(output, Aggregate):
            target(output.alias, value)
            continue
        weights = output.weights()
        if not weights:
            raise RequestError(
                f"the error of {output.alias!r} cannot be fixed in advance, because it depends on the "
                "released values. Only a weighted sum of aggregates has a known error",
                f"Give {unit}=0.05 instead of error, and look at the confidence intervals.",
            )
        # a measured aggregate may have another alias than in the formula
        for aggregate in query.measured:
            if any(aggregate.means(leaf) for leaf, _ in weights):
                reach = sum(abs(weight) for _, weight in weights)
                # a little less, because interval ends are rounded outwards
                target(aggregate.alias, value / float(reach) * (1 - 1e-9))
    return errors
