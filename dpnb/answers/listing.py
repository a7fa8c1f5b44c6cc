"""Small tables of public facts: prices, budget, history, declared columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dpnb.answers.origin import Origin
from dpnb.privacy.loss import PrivacyLoss
from dpnb.results import Bill, Billed, Shown, plain

Width: TypeAlias = tuple[str, int | None, float | None]
"""An aggregate, the group size or None, and the margin of error of its intervals or None."""


@dataclass(frozen=True, slots=True, repr=False)
class Price(Billed, Shown):
    """What a statement would cost, and its margins of error. Nothing was spent.

    Attributes
    ----------
    sql : str
    bill : Bill
        What it would cost now, and what is left before it.
    affordable : bool
    widths : tuple of (alias, rows or None, margin of error or None)
        For each aggregate its margin of error; for AVG on groups of ``rows`` rows. None
        for formulas other than weighted sums: their intervals depend on the released values.
    origin : Origin or None
        How earlier answers to other statements would help.
    bought : tuple of str
        For each statement the epsilon that it would have, where that is less than it asks for: levels
        of a pure session lie on a grid.

    Examples
    --------
    >>> price = session.price("SELECT AVG(wage) AS wage FROM people", rho=0.1)
    >>> price.affordable
    True
    """

    card = "price.PRICE"

    sql: str
    bill: Bill
    confidence: float
    affordable: bool
    widths: tuple[Width, ...]
    origin: Origin | None = None
    bought: tuple[str, ...] = ()

    @classmethod
    def together(cls, prices: Sequence[Price]) -> Price:
        """Return the price of several statements that are asked one after the other.

        Parameters
        ----------
        prices : sequence of Price
            At least one.

        Returns
        -------
        Price
            With the sum of the costs.
        """
        first = prices[0]
        return replace(
            first,
            sql=";\n".join(price.sql for price in prices),
            bill=replace(first.bill, spent=sum((price.spent for price in prices[1:]), first.spent)),
            affordable=all(price.affordable for price in prices),
            widths=tuple(
                (f"{i}: {alias}", size, width)
                for i, price in enumerate(prices, start=1)
                for alias, size, width in price.widths
            ),
            origin=None,
            bought=tuple(epsilon for price in prices for epsilon in price.bought),
        )

    def share(self) -> float:
        """Return the cost as a share of what is left; infinite when nothing is left.

        Returns
        -------
        float
            At least 0.
        """
        return self.bill.share()

    def to_dict(self) -> dict[str, Any]:
        """Return the price as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        origin = None if self.origin is None else self.origin.to_dict()
        return plain(self, origin=origin)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Price:
        """Build the price from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Price
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        origin = values["origin"]
        values["origin"] = None if origin is None else Origin.from_dict(origin)
        values["widths"] = tuple(tuple(width) for width in values["widths"])
        values["bought"] = tuple(values["bought"])
        return cls(**values)


def minute(time: str) -> str:
    """Return a time of the ledger as day, hour and minute."""
    return time[:16].replace("T", " ")


@dataclass(frozen=True, slots=True)
class Asked:
    """One answered request, as its analyst sees it in the history."""

    time: str
    sql: str
    spent: PrivacyLoss
    conditional: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain data (JSON)."""
        return plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Asked:
        """Build the request from :meth:`to_dict`."""
        return cls(**{**data, "spent": PrivacyLoss.from_dict(data["spent"])})


@dataclass(frozen=True, slots=True, repr=False)
class BudgetStatus(Billed, Shown):
    """Total budget, what was spent of it, and what remains.

    Attributes
    ----------
    bill : Bill
        The total, what was spent of it, and what remains.
    analyst : str or None
        Whose row of the provenance table this is; None for the budget of all together.

    Examples
    --------
    >>> session.budget.spent.rho
    Fraction(0, 1)
    """

    card = "budget.BUDGET"

    bill: Bill
    analyst: str | None = None

    def charged(
        self, spent: PrivacyLoss, *, stored: bool = False, conditional: bool = False
    ) -> Bill:
        """Return the bill of a request after which this is the status.

        Parameters
        ----------
        spent : PrivacyLoss
            What the request cost.
        stored : bool
            Whether it was answered from the ledger.
        conditional : bool
            Whether its amount was picked by looking at the data.

        Returns
        -------
        Bill
            The same limit and rest.
        """
        return replace(self.bill, spent=spent, stored=stored, conditional=conditional)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BudgetStatus:
        """Build the status from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        BudgetStatus
            Equal to the original.
        """
        values = dict(data)
        return cls(Bill.taken(values), **values)
