"""Options of inferences: confidence, margin of error, and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dpnb.codes import truth
from dpnb.errors import RequestError, given
from dpnb.releases.accuracy import EACH
from dpnb.releases.options import AMOUNT, LIST, NUMBER, SHARE, TRUTH, Option, or_null, whole

Method: TypeAlias = Literal["blue", "mc", "pc", "guaranteed"]
MOST_CHOSEN = 10**6
OPTIONS = (
    Option("confidence", or_null(SHARE), None, "number", "of the confidence intervals; 0.95 by default",
           metavar="C"),
    Option("error", or_null(AMOUNT), None, "number", "margin of error: with what confidence does it hold?",
           metavar="E"),
    Option("between", or_null({**LIST, "items": NUMBER, "minItems": 2, "maxItems": 2}), None, "pair",
           "with what confidence does the value lie in here?", metavar=("LOW", "HIGH")),
    replace(EACH, help="confidence for each interval on its own"),
    Option("guaranteed", TRUTH, False, "alone", "wider intervals that hold whatever you asked before"),
    Option("method", {"enum": ["blue", "mc", "pc"]}, "blue", "text",
           "blue (the default); mc or pc: published methods, for comparison"),
    Option("prior", {"description": "'nonnegative', or public knowledge as an object; null for none."},
           None, "alone", "use that the value is 0 or more", flag="nonnegative", means="nonnegative"),
    Option("chosen", {"anyOf": [whole(1), {"const": "any"}]}, 1, "any or whole",
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
    """Check the options of an inference. Uses public facts only.

    Raises
    ------
    RequestError
    """
    error = _number(options.get("error"), "error")
    between = _pair(options.get("between"))
    confidence = _number(options.get("confidence"), "confidence")
    if between is not None and (error is not None or confidence is not None):
        raise RequestError(
            "between finds the confidence of an interval, so error and confidence do not go with it",
            "Leave error and confidence out.",
        )
    if confidence is None and error is None and between is None:
        confidence = 0.95
    if confidence is not None and not 0 < confidence < 1:
        raise RequestError(
            f"confidence must be between 0 and 1, got {confidence:g}",
            "Give a number such as 0.95.",
        )
    if error is not None and not error > 0:
        raise RequestError(f"error must be above 0, got {error:g}", "Give a positive number.")
    intervals = options.get("intervals", "simultaneous")
    if not isinstance(intervals, str) or intervals not in ("simultaneous", "each"):
        raise RequestError(
            f"intervals must be 'simultaneous' or 'each', got {given(intervals)}",
            "Write intervals='simultaneous' or intervals='each'.",
        )
    method, guaranteed = options.get("method", "blue"), options.get("guaranteed", False)
    if not isinstance(method, str) or method not in ("blue", "mc", "pc"):
        raise RequestError(f"there is no method {given(method)}", "Use 'blue', 'mc' or 'pc'.")
    truth(guaranteed, "guaranteed")
    if guaranteed and (method != "blue" or error is not None or between is not None):
        raise RequestError(
            "guaranteed bounds take a confidence, but not method, error or between",
            "Leave method, error and between out.",
        )
    chosen = _chosen(options.get("chosen", 1))
    if chosen == "any" and (
        method != "blue" or confidence is None or options.get("prior") is not None
    ):
        raise RequestError(
            "chosen='any' takes a confidence, but not error, between, method or prior",
            "Leave error, between, method and prior out.",
        )
    prior = options.get("prior")
    if prior is not None:
        from dpnb.estimation.prior import read_prior

        read_prior(prior)
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
        intervals == "each",
        "guaranteed" if guaranteed else method,  # type: ignore[arg-type]
        prior,
        chosen,
    )


def _chosen(chosen: object) -> int | Literal["any"]:
    if isinstance(chosen, str) and chosen == "any":
        return "any"
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 1 <= chosen <= MOST_CHOSEN:
        raise RequestError(
            f"chosen must be a whole number of questions or 'any', got {given(chosen)}",
            "Give chosen=10 when this was the best of 10, or chosen='any'.",
        )
    return chosen


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        example = {"confidence": "0.95", "error": "50", "between": "(100, 200)"}[name]
        raise RequestError(
            f"{name} must be a number, got {given(value)}", f"Write {name}={example}."
        )
    if not -(10**30) < value < 10**30:
        raise RequestError(f"{name} is out of range: {given(value)}", "Give a finite number.")
    return float(value)


def _pair(value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise RequestError(
            f"between must be two numbers, got {given(value)}", "Write between=(100, 200)."
        )
    low, high = (_number(end, "between") for end in value)
    if low is None or high is None:
        raise RequestError(
            f"between must be two numbers, got {given(value)}", "Write between=(100, 200)."
        )
    if low > high:
        raise RequestError(
            f"between starts at {low:g}, above its end {high:g}", "Swap the two numbers."
        )
    return low, high
