"""The price of an explanation and its expected accuracy, from public and released numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.answers.assembly import status
from dpnb.answers.question import Question
from dpnb.errors import RequestError
from dpnb.explain.plan import ExplanationPlan
from dpnb.formats import figure
from dpnb.ledger.store import Store
from dpnb.privacy.loss import PrivacyLoss, amount_text, ceiling_digits
from dpnb.results import Bill, Billed, Documented, to_plain


def scale_of(question: Question) -> tuple[float | None, str]:
    """Return the divisor that turns influences into shares of the difference, or why there is none.

    d = |difference| for COUNT and SUM, times the smallest count for AVG (DPXPlain, Equation 7).
    Near 0 the shares would explode or flip (docs/methods/dpxplain.md, definition 2). Uses released
    values only.
    """
    if question.estimate is None or not question.enough:
        return (
            None,
            "Influences are absolute, not in per cent: a group may have too few rows to divide by.",
        )
    if question.low <= 0 <= question.high:
        return None, "Influences are absolute, not in per cent: the difference may be 0."
    scale = abs(float(question.estimate)) * (
        1.0 if question.rows is None else max(1.0, question.rows)
    )
    if not 0 < scale < math.inf:
        return None, "Influences are absolute, not in per cent: the difference may be 0."
    return scale, ""


@dataclass(frozen=True, slots=True, repr=False)
class ExplanationPrice(Billed, Documented):
    """What an explanation would cost, and its margins of error. Nothing was spent.

    Attributes
    ----------
    bill : Bill
        The cost now, and what is left before it is paid.
    affordable : bool
    refusal : str
        As in ``Price``.
    unsaid : bool
        Whether nobody gave a cost: an explanation that was released before costs nothing, a new one
        a fifth of what is left.
    candidates : int
        |P|.
    confidence : float
    rho : mapping of str to str
        Budget of each part.
    unbinned : mapping of str to str
        As in ``Explanation``.
    valid : bool
        Whether the difference is more than noise; otherwise explaining it needs ``anyway=True``.
    relative : bool
        Whether margin of error and resolution are shares of the released difference.
    margin_of_error : float
        Of the influences' confidence intervals, as they would be shown.
    resolution : float
        How far influences must lie apart for ranks to tell them apart.
    largest : float or None
        Bound on the influence of every predicate, in the unit of ``margin_of_error``; None if the
        rows of the smallest group were not counted.

    Examples
    --------
    >>> session.price(question, rho=0.5).affordable
    True
    """

    card = "explanation.PRICE"

    bill: Bill
    affordable: bool
    refusal: str
    unsaid: bool
    candidates: int
    confidence: float
    rho: Mapping[str, str]
    unbinned: Mapping[str, str]
    valid: bool
    relative: bool
    margin_of_error: float
    resolution: float
    largest: float | None

    def share(self) -> float:
        """Return the cost as a share of what is left; infinite when nothing is left.

        Returns
        -------
        float
            At least 0.
        """
        return self.bill.share()

    @property
    def too_wide(self) -> bool:
        """Whether the influences' margin of error is more than three quarters of the difference."""
        return self.relative and self.margin_of_error > 0.75

    @property
    def hopeless(self) -> bool:
        """Whether no influence can be larger than its margin of error, so that nothing comes out."""
        return self.largest is not None and self.largest <= self.margin_of_error

    def check_worth(self) -> None:
        """Refuse to spend on an explanation that would be mostly noise.

        Uses public and released numbers only.

        Raises
        ------
        RequestError
            Nothing was charged.
        """
        if not (self.affordable and self.spent.rho > 0):
            return
        if self.unsaid and self.too_wide:
            margin = 100 * self.margin_of_error
            raise RequestError(
                "with a fifth of what is left, the influences' margin of error would be "
                f"{figure(margin, margin)} % of the difference",
                "Explain a larger difference, or say what it may cost: rho=..., or error=0.2 for a margin of "
                "20 % of the difference. Nothing was charged.",
            )
        if self.hopeless:
            raise RequestError(
                "the smallest group has too few rows: every influence would be lost in the noise",
                f"{self._remedy()}Compare larger groups, or pass anyway=True. Nothing was charged.",
            )

    def _remedy(self) -> str:
        """Return the rho at which an influence can be twice its margin of error; '' if too much."""
        largest = self.largest or 0.0
        paid = sum(map(Fraction, self.rho.values()))
        enough = float(paid) * (2 * self.margin_of_error / largest) ** 2 if largest else math.inf
        if not enough <= self.remaining.rho:
            return ""
        amount = amount_text(ceiling_digits(enough)).replace(",", "")
        return f"Give rho={amount} or more. "

    def to_dict(self) -> dict[str, Any]:
        """Return the price as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExplanationPrice:
        """Build the price from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        ExplanationPrice
            Equal to the original.
        """
        values = dict(data)
        return cls(bill=Bill.taken(values), **values)


def price(
    plan: ExplanationPlan,
    question: Question,
    analyst: str,
    store: Store,
    cost: PrivacyLoss,
    largest: float | None,
    refusal: str,
) -> ExplanationPrice:
    """Return the price of a plan for which ``cost`` is still to be paid.

    ``largest`` is a bound on all influences, in their own units; ``refusal`` says why the
    explanation would be refused now.
    """
    budget = status(store, analyst)
    scale, _ = scale_of(question)
    divisor = 1.0 if scale is None else scale
    return ExplanationPrice(
        bill=budget.charged(cost),
        affordable=not refusal,
        refusal=refusal,
        unsaid=plan.unsaid,
        candidates=plan.space.size,
        confidence=plan.design.confidence,
        rho=plan.budgets.to_dict(),
        unbinned=dict(plan.space.unbinned),
        valid=question.valid,
        relative=scale is not None,
        margin_of_error=plan.margin_of_error / divisor,
        resolution=plan.resolution / divisor,
        largest=None if largest is None else largest / divisor,
    )
