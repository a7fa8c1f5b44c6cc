"""The price of a statement, and how it would be answered: from past, refined or new releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dpnb.privacy.loss import PrivacyLoss
from dpnb.results import Bill, Billed, Documented, to_plain

Width: TypeAlias = tuple[str, int | None, float | None]
"""An aggregate, the group size or None, and its margin of error or None."""


Way: TypeAlias = Literal["history", "refined", "new"]


@dataclass(frozen=True, slots=True)
class Origin:
    """How an answer was obtained, and what past answers saved.

    Attributes
    ----------
    way : {'history', 'refined', 'new'}
        'history': past answers were accurate enough, nothing was bought. 'refined': an old release
        was made more accurate. 'new': a new release. The latter two are merged with past answers.
    alone : PrivacyLoss
        What the answer would have cost at that moment without past answers to other statements.
    past : int
        Number of past answers to other statements behind it.
    """

    way: Way
    alone: PrivacyLoss
    past: int

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as plain data (JSON)."""
        return {"way": self.way, "alone": self.alone.to_dict(), "past": self.past}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Origin:
        """Build an origin from :meth:`to_dict`."""
        return cls(data["way"], PrivacyLoss.from_dict(data["alone"]), int(data["past"]))


@dataclass(frozen=True, slots=True, repr=False)
class Price(Billed, Documented):
    """What a statement would cost, and its margins of error. Nothing was spent.

    Attributes
    ----------
    sql : str
    bill : Bill
        The cost now, and what is left before it is paid.
    affordable : bool
        Whether the statement would be answered now.
    refusal : str
        Why not, in the words of the refusal; empty if it would be answered.
    widths : tuple of (alias, rows or None, margin of error or None)
        For each aggregate its margin of error; for AVG in groups of ``rows`` rows. None for
        formulas other than weighted sums: their intervals depend on the released values.
    origin : Origin or None
        How earlier answers to other statements would help.
    bought : tuple of str
        For each statement its epsilon, if that is less than requested: levels of a pure session lie
        on a grid.
    counted : str
        A sentence if ids may be in more groups than they count in; '' otherwise.

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
    refusal: str
    widths: tuple[Width, ...]
    origin: Origin | None = None
    bought: tuple[str, ...] = ()
    counted: str = ""

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
            refusal=next((price.refusal for price in prices if price.refusal), ""),
            widths=tuple(
                (f"{i}: {alias}", size, width)
                for i, price in enumerate(prices, start=1)
                for alias, size, width in price.widths
            ),
            origin=None,
            bought=tuple(epsilon for price in prices for epsilon in price.bought),
            counted=" ".join(dict.fromkeys(price.counted for price in prices if price.counted)),
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
        return to_plain(self, origin=origin)

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
