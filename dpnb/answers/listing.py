"""Small tables of public facts: prices, budget, history, declared columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.answers.origin import Origin
from dpnb.privacy.loss import Currency, PrivacyLoss
from dpnb.private import Stamp
from dpnb.results import Shown, listed

if TYPE_CHECKING:
    pass


Width: TypeAlias = tuple[str, int | None, float | None]
"""An aggregate, the group size or None, and the margin of error of its intervals or None."""


@dataclass(frozen=True, slots=True, repr=False)
class Price(Shown):
    """What a statement would cost, and its margins of error. Nothing was spent.

    Attributes
    ----------
    sql : str
    spent : PrivacyLoss
        The increase it would cost now.
    remaining : PrivacyLoss
        What is left before it.
    affordable : bool
    widths : tuple of (alias, rows or None, margin of error or None)
        For each aggregate its margin of error; for AVG on groups of ``rows`` rows. None
        for formulas other than weighted sums: their intervals depend on the released values.
    origin : Origin or None
        How earlier answers to other statements would help.
    stamp : str
        As in ``Answer``.
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
    spent: PrivacyLoss
    remaining: PrivacyLoss
    cap: PrivacyLoss
    currency: Currency
    delta: float | None
    confidence: float
    affordable: bool
    widths: tuple[Width, ...]
    origin: Origin | None = None
    stamp: Stamp = ""
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
            spent=sum((price.spent for price in prices[1:]), first.spent),
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
        return price_share(self.spent, self.remaining, self.currency)

    def to_dict(self) -> dict[str, Any]:
        """Return the price as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        origin = None if self.origin is None else self.origin.to_dict()
        return {**plain_losses(self), "origin": origin}

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
        values = read_losses(data)
        origin = values["origin"]
        values["origin"] = None if origin is None else Origin.from_dict(origin)
        values["widths"] = tuple(tuple(width) for width in values["widths"])
        values["bought"] = tuple(values["bought"])
        return cls(**values)


def plain_losses(value: Any) -> dict[str, Any]:
    """Return a dataclass of plain values and losses as plain data."""
    data = {field.name: getattr(value, field.name) for field in fields(value)}
    return {
        name: found.to_dict() if isinstance(found, PrivacyLoss) else listed(found)
        for name, found in data.items()
    }


def read_losses(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that :func:`plain_losses` wrote; lists stay lists."""
    losses = ("spent", "remaining", "cap")
    return {
        name: PrivacyLoss.from_dict(value) if name in losses else value
        for name, value in data.items()
    }


def price_share(spent: PrivacyLoss, remaining: PrivacyLoss, currency: Currency) -> float:
    """Return a cost as a share of what is left; infinite when nothing is left."""
    cost, left = spent.level(currency), remaining.level(currency)
    if cost == 0:
        return 0.0
    return float(cost / left) if left else float("inf")


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
        return plain_losses(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Asked:
        """Build the request from :meth:`to_dict`."""
        return cls(**read_losses(data))


@dataclass(frozen=True, slots=True, repr=False)
class BudgetStatus(Shown):
    """Total budget, what was spent of it, and what remains.

    Attributes
    ----------
    cap, spent, remaining : PrivacyLoss
    currency : {'zcdp', 'gdp', 'basic', 'pure'}
    delta : float or None
        Where epsilons are shown.
    kept : bool
        Whether the ledger outlives the kernel.
    analyst : str or None
        Whose row of the provenance table this is; None for the budget of all together.
    stamp : str
        As in ``Answer``.

    Examples
    --------
    >>> session.budget.spent.rho
    Fraction(0, 1)
    """

    card = "budget.BUDGET"

    cap: PrivacyLoss
    spent: PrivacyLoss
    remaining: PrivacyLoss
    currency: Currency
    delta: float | None
    kept: bool
    analyst: str | None = None
    stamp: Stamp = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return plain_losses(self)

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
        return cls(**read_losses(data))
