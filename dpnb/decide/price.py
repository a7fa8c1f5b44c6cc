"""The plan of a decision and its price: uses public facts only and spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpnb.decide.decision import Test
from dpnb.privacy.loss import PrivacyLoss
from dpnb.results import Bill, Billed, Shown, to_plain


@dataclass(frozen=True, slots=True, repr=False)
class DecisionPrice(Billed, Shown):
    """The plan of a decision: what it will measure, how finely, and what each step costs. Free.

    Attributes
    ----------
    sql, condition, mode, protect : str
    beta, alpha, confidence : float
    groups : int
    tests : tuple of Test
        With the uncertain regions of the first step.
    implicants : tuple of tuples of int
        The smallest sets of conditions that make HAVING true: within each, the shares add up to the
        bound.
    readings : tuple of (alias, text)
    costs : tuple of PrivacyLoss
        By step: the total cost up to there.
    bill : Bill
        The most that the decision may cost now, within ``most`` and ``steps``, and what is
        left before it.
    first : PrivacyLoss
        The current cost of its next step.
    response : PrivacyLoss or None
        The cost of randomised response, where the mode needs it.
    ceiling : PrivacyLoss
        The cost of answering by randomised response alone.
    free : bool
        Whether past answers alone suffice.
    affordable : bool
        Whether the next step would be answered now.
    refusal : str
        As in ``Price``.
    warnings : tuple of str

    Examples
    --------
    >>> sql = "SELECT job FROM people GROUP BY job HAVING COUNT(*) > 100"
    >>> session.price(sql, beta=0.05).groups
    3
    """

    card = "decision.PRICE"

    sql: str
    condition: str
    mode: str
    protect: str
    beta: float
    alpha: float
    confidence: float
    groups: int
    tests: tuple[Test, ...]
    implicants: tuple[tuple[int, ...], ...]
    readings: tuple[tuple[str, str], ...]
    costs: tuple[PrivacyLoss, ...]
    bill: Bill
    first: PrivacyLoss
    response: PrivacyLoss | None
    ceiling: PrivacyLoss
    free: bool
    affordable: bool
    refusal: str
    warnings: tuple[str, ...]

    def share(self) -> float:
        """Return the most it may cost as a share of what is left; infinite when nothing is left.

        Returns
        -------
        float
            At least 0.
        """
        return self.bill.share()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(
            self,
            costs=[part.to_dict() for part in self.costs],
            tests=[to_plain(part) for part in self.tests],
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DecisionPrice:
        """Build the plan from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        DecisionPrice
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        for name in ("first", "ceiling"):
            values[name] = PrivacyLoss.from_dict(values[name])
        cost = values["response"]
        values["response"] = None if cost is None else PrivacyLoss.from_dict(cost)
        values["costs"] = tuple(PrivacyLoss.from_dict(entry) for entry in values["costs"])
        values["tests"] = tuple(
            Test(**{**entry, "limits": tuple(entry["limits"])}) for entry in values["tests"]
        )
        for name in ("implicants", "readings"):
            values[name] = tuple(tuple(entry) for entry in values[name])
        values["warnings"] = tuple(values["warnings"])
        return cls(**values)
