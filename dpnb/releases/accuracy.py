"""The accuracy of a request: a privacy cost or an error, and how to state confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.errors import RequestError
from dpnb.privacy.definition import BASIC, PURE, PrivacyDefinition
from dpnb.privacy.loss import is_picked, refuse_rho, rho_meant
from dpnb.releases.kinds import AMOUNT, POSITIVE, SHARE, Choice, Named, Part, Truth, Whole
from dpnb.releases.options import Option, read_values
from dpnb.sql.query import Aggregate, Promise, Query

Intervals: TypeAlias = Literal["simultaneous", "each"]
ANY_LOOK = 6 / math.pi**2
"""Look 1's share of the failure probability; look i gets ANY_LOOK / i^2, and all add up to 1."""

EACH = Option(
    "intervals", Choice(("simultaneous", "each")), "simultaneous",
    "confidence for each interval on its own, not for all at once", flag="each", means="each",
)  # fmt: skip
HISTORY = Option("history", Truth(), True, "ignore past answers", flag="no-history", means=False)
CONFIDENCE = Option(
    "confidence", SHARE, 0.95,
    "of the confidence intervals, between 0 and 1; 0.95 by default",
)  # fmt: skip
OPTIONS = (
    Option("rho", AMOUNT, None,
           "privacy cost in zCDP, such as 0.02; :name takes the value of a variable"),
    Option("epsilon", AMOUNT, None, "privacy cost as an epsilon instead, or :name"),
    Option("error", Named(POSITIVE), None,
           "margin of error instead: 50, or n=50,mean=0.1"),
    Option("rows", Whole(1, None, 100), None,
           "with --error: size of the groups for which the error of an AVG holds"),
    CONFIDENCE,
    EACH,
    Option("looks", Choice((1, "any")), 1,
           "intervals that hold at every look, if you chose the accuracies beforehand",
           flag="any-look", means="any"),
    replace(HISTORY, help="with --error: ignore past answers"),
    Option("split", Part(), None),
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


def read_accuracy(
    query: Query, privacy: PrivacyDefinition, delta: Fraction | None, **options: object
) -> Accuracy:
    """Read the options of a query and return its accuracy. Uses public facts only.

    Raises
    ------
    RequestError
        Unless exactly one of rho, epsilon and error is given, or if an option makes no sense.
    """
    costs = [name for name in ("rho", "epsilon", "error") if options.get(name) is not None]
    if query.promise is not None:
        if costs:
            raise RequestError(
                f"the statement has its own epsilon in OPTIONS, and {costs[0]} is given besides",
                "Leave one of them out.",
            )
        delta = promised_delta(query.promise, privacy, delta)
        costs, options = ["epsilon"], {**options, "epsilon": query.promise.epsilon}
    if not costs and query.outputs:
        raise RequestError(
            "a request needs a privacy cost or a margin of error",
            f"Give {privacy.parameter}=0.05, or error=50.",
        )
    if len(costs) > 1:
        raise RequestError(
            f"{' and '.join(costs)} cannot be given together", f"Give {costs[0]} alone."
        )
    values = read_values(OPTIONS, options)
    level: Fraction | None = values["rho"]
    if level is not None:
        refuse_rho(privacy)
    elif values["epsilon"] is not None:
        level = values["epsilon"]
        if privacy.counts_rho:
            level = rho_meant(level, delta, privacy)
    error, rows = values["error"], values["rows"]
    errors = None if error is None else _errors(error, query, privacy.parameter)
    if errors is not None and rows is None and any(a.function.is_mean for a in query.measured):
        raise RequestError(
            "the error of an AVG depends on the size of the group",
            "Add rows=100: the error then holds for groups of at least 100 rows.",
        )
    if values["intervals"] == "each" and query.shown.combines:
        # the image of a box holds where all its sides hold at once
        raise RequestError(
            "results are computed from several others, whose confidence intervals must hold at once",
            "Leave intervals='each' out.",
        )
    return Accuracy(
        level=level,
        error=errors,
        rows=rows,
        confidence=values["confidence"],
        looks=values["looks"],
        intervals=values["intervals"],
        split=values["split"],
        conditional=is_picked(options),
        history=values["history"],
    )


def promised_delta(
    promise: Promise, privacy: PrivacyDefinition, delta: Fraction | None
) -> Fraction | None:
    """Return the delta at which a statement's own epsilon holds: the smaller of both.

    A larger delta than the session's would buy more noise reduction for the same epsilon; a smaller
    one is a stronger promise, and so a smaller rho. Pure differential privacy keeps every delta.
    """
    if promise.delta is None or privacy is PURE:
        return delta
    if privacy is BASIC:
        raise RequestError(
            "each release has the delta of the budget here", "Leave delta out of OPTIONS."
        )
    if promise.delta == 0:
        raise RequestError(
            "only a pure session keeps delta 0",
            "Leave delta out of OPTIONS, or write delta = 1e-6.",
        )
    return promise.delta if delta is None else min(delta, promise.delta)


def _errors(error: float | Mapping[str, float], query: Query, unit: str) -> dict[str, float]:
    """Return the requested error of each measured aggregate, including those inside formulas.

    ``unit`` is the privacy parameter of the session, rho or epsilon.
    """
    errors: dict[str, float] = {}

    def target(alias: str, value: float) -> None:
        errors[alias] = min(value, errors.get(alias, value))

    aliases = [output.alias for output in query.outputs]
    output_errors = error if isinstance(error, Mapping) else dict.fromkeys(aliases, error)
    if sorted(output_errors) != sorted(aliases):
        raise RequestError(
            "error must name each result exactly once",
            f"Give one number, or a dict for {', '.join(aliases)}.",
        )
    for output in query.outputs:
        value = output_errors[output.alias]
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
