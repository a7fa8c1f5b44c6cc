"""Options of inferences: confidence, margin of error, and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dpnb.errors import RequestError
from dpnb.releases.accuracy import EACH
from dpnb.releases.kinds import POSITIVE, SHARE, Choice, Kind, Range, Truth, Whole
from dpnb.releases.options import Option, read_values

Method: TypeAlias = Literal["blue", "mc", "pc", "guaranteed"]
MOST_CHOSEN = 10**6


class PriorKind(Kind):
    """Public knowledge about a number, as plain data."""

    @property
    def schema(self) -> dict[str, Any]:
        """Anything; reading is stricter."""
        return {"description": "'nonnegative', or public knowledge as an object; null for none."}

    def read(self, value: object, name: str) -> Any:
        """Return the plain data, which describes a prior."""
        from dpnb.estimation.prior import read_prior

        read_prior(value)
        return value


OPTIONS = (
    Option("confidence", SHARE, None, "of the confidence intervals; 0.95 by default",
           metavar="C"),
    Option("error", POSITIVE, None, "margin of error: with what confidence does it hold?",
           metavar="E"),
    Option("between", Range(), None,
           "with what confidence does the value lie in here?", metavar=("LOW", "HIGH")),
    replace(EACH, help="confidence for each interval on its own"),
    Option("guaranteed", Truth(), False, "wider intervals that hold whatever you asked before"),
    Option("method", Choice(("blue", "mc", "pc")), "blue",
           "blue (the default); mc or pc: published methods, for comparison"),
    Option("prior", PriorKind(), None, "use that the value is 0 or more", flag="nonnegative", means="nonnegative"),
    Option("chosen", Whole(1, MOST_CHOSEN, 10, "any"), 1,
           "out of how many results you picked this one; 1 by default; any: no limit", metavar="N"),
)  # fmt: skip
"""The options of an inference."""


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options of ``Session.infer``; see there.

    ``confidence`` is None if it is to be computed for ``error`` or ``between``. ``chosen`` is 'any'
    if the question may be any choice among all that past answers say.
    """

    confidence: float | None
    error: float | None
    between: tuple[float, float] | None
    each: bool
    method: Method
    prior: Any
    chosen: int | Literal["any"]

    def alpha(self, intervals: int) -> float:
        """Return the failure probability of one of ``intervals`` confidence intervals."""
        confidence = 0.95 if self.confidence is None else self.confidence
        if self.chosen == "any":
            return 1 - confidence
        return (1 - confidence) / (1 if self.each else intervals) / self.chosen


def read_options(options: Mapping[str, Any]) -> Options:
    """Read the options of an inference. Uses public facts only.

    Raises
    ------
    RequestError
        For a value of another kind, and for options that do not go together.
    """
    values = read_values(OPTIONS, options)
    error, between, confidence = values["error"], values["between"], values["confidence"]
    method, guaranteed, prior = values["method"], values["guaranteed"], values["prior"]
    if between is not None and (error is not None or confidence is not None):
        raise RequestError(
            "between finds the confidence of an interval, so error and confidence do not go with it",
            "Leave error and confidence out.",
        )
    if confidence is None and error is None and between is None:
        confidence = 0.95
    if guaranteed and (method != "blue" or error is not None or between is not None):
        raise RequestError(
            "guaranteed bounds take a confidence, but not method, error or between",
            "Leave method, error and between out.",
        )
    if values["chosen"] == "any" and (method != "blue" or confidence is None or prior is not None):
        raise RequestError(
            "chosen='any' takes a confidence, but not error, between, method or prior",
            "Leave error, between, method and prior out.",
        )
    if prior is not None and (method != "blue" or guaranteed):
        raise RequestError(
            "a prior needs method='blue', without guaranteed bounds",
            "Leave method and guaranteed out.",
        )
    if confidence is None and (prior is not None or method != "blue"):
        raise RequestError(
            "finding the confidence of an error or interval needs method='blue' and no prior",
            "Give a confidence, and use .between() of the inference.",
        )
    return Options(
        confidence,
        error,
        between,
        values["intervals"] == "each",
        "guaranteed" if guaranteed else method,
        prior,
        values["chosen"],
    )
