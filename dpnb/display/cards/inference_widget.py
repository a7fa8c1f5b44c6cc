"""An inference as a live widget: the probability of a claim, and intervals at every confidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from dpnb.display.cards.inference import inference_body, inference_css, inference_data, value_name
from dpnb.display.elements import STATIC, module
from dpnb.display.text import MAX_ROWS
from dpnb.errors import RequestError, given, printable
from dpnb.formats import share_text

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.answers.inferred import Inferred

_ALMOST = 1e-12
_WORDS = {">": "above", "<": "below", ">=": "at least", "<=": "at most"}


class InferenceWidget(anywidget.AnyWidget):
    """An inference that shows the probability of a claim about a value, free of charge.

    Parameters
    ----------
    inference : Inference
    token : str
        Names this widget to the static HTML that accompanies it.

    Attributes
    ----------
    data : dict
        Contents of the view. Released values only.
    at : int
        Index of the value that the claim is about: the shown groups of the first aggregate from 0
        on, then those of the next one; settable from both sides.
    operator : {'>', '<', '>=', '<='}
        The comparison; settable from both sides.
    number : float
        The number to compare the value with; settable from both sides.
    said : str
        The probability of the claim in words, computed in Python.
    """

    _esm = module("inference.js")
    _css = (STATIC / "answer.css").read_text(encoding="utf-8") + inference_css()

    data = traitlets.Dict().tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)
    operator = traitlets.Unicode(">").tag(sync=True)
    number = traitlets.Float(0.0).tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)

    def __init__(self, inference: Inference, *, token: str = "") -> None:
        self._inference = inference
        self._rows = inference.rows[:MAX_ROWS]
        super().__init__(
            data={**inference_data(inference), "body": inference_body(inference)},
            number=_start(inference, self._rows),
            token=token,
        )
        self._reckon()

    def __repr__(self) -> str:
        return repr(self._inference)

    @property
    def probability(self) -> float | None:
        """The probability of the claim; None if past answers do not determine it."""
        aggregate, row = self._value()
        try:
            return self._inference.probability(
                self.operator, self.number, self._inference.groups[row], aggregate.alias
            )
        except RequestError:
            return None

    def _value(self) -> tuple[Inferred, int]:
        index, row = divmod(self.at, len(self._rows))
        return self._inference.aggregates[index], self._rows[row]

    @traitlets.observe("at", "operator", "number")
    def _asked(self, change: Any) -> None:
        self._reckon()

    def _reckon(self) -> None:
        """Compute the probability of the claim and put it into words."""
        if not self._rows:
            return
        aggregate, row = self._value()
        name, chance = value_name(self._inference, aggregate, row), self.probability
        if chance is None:
            self.said = f"Past answers do not determine {name}: ask for it with a query."
            return
        if aggregate.margin_of_error(row) > 0:
            # with noise nothing is certain; a float may only be too close to 0 or 1 to show it
            chance = min(max(chance, _ALMOST), 1 - _ALMOST)
        claim = f"{name} is {_WORDS[self.operator]} {number_text(self.number)}"
        sources = "past answers and the prior"
        if self._inference.prior is None:
            sources = "past answers alone"
        self.said = f"Given {sources}, the probability that {claim} is {share_text(chance)}."

    @traitlets.validate("at")
    def _a_shown_value(self, proposal: Any) -> int:
        at: int = proposal.value
        most = len(self._rows) * len(self._inference.aggregates)
        if not 0 <= at < max(most, 1):
            raise RequestError(
                f"at must be a shown value, got {at}", f"Set at from 0 to {most - 1}."
            )
        return at

    @traitlets.validate("operator")
    def _a_comparison(self, proposal: Any) -> str:
        operator: str = proposal.value
        if operator not in _WORDS:
            raise RequestError(f"there is no comparison {given(operator)}", "Use >, <, >= or <=.")
        return operator

    @traitlets.validate("number")
    def _a_finite_number(self, proposal: Any) -> float:
        number: float = proposal.value
        if not math.isfinite(number):
            raise RequestError(
                f"a finite number is expected, got {given(number)}", "Give a finite number."
            )
        return number


def number_text(number: float) -> str:
    """Return a number as the reader wrote it, with thousands separators."""
    return printable(f"{number:,.12g}")


def _start(inference: Inference, rows: tuple[int, ...]) -> float:
    """Return the initial number to compare with: the first estimate, rounded to useful digits."""
    for aggregate in inference.aggregates:
        for row in rows:
            value, half = aggregate.estimate[row], aggregate.margin_of_error(row)
            if value is None or not math.isfinite(half):
                continue
            digits = -math.floor(math.log10(half)) if half > 0 else 0
            return round(value, digits) + 0.0
    return 0.0
