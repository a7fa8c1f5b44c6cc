"""Small tables of public facts: prices, budget, history, declared columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.answers.origin import Origin
from dpnb.answers.plain import listed
from dpnb.answers.words import KERNEL, bought_sentence, left_text
from dpnb.formats import figure, loss_text
from dpnb.privacy.loss import Currency, PrivacyLoss, amount_text, unit
from dpnb.private import Stamp

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Listing:
    """A captioned table of texts.

    Attributes
    ----------
    caption : str
    header : tuple of str
    rows : tuple of tuples of str
    stamp : str
        As in ``Answer``.
    notes : tuple of str
        Sentences that stand below.

    Examples
    --------
    >>> list(session.tables.to_frame()["column"])[:2]
    ['sex', 'age']
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    stamp: Stamp = ""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a data frame of texts.

        Returns
        -------
        pandas.DataFrame
            One row for each line.
        """
        import pandas as pd

        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.header))

    def __repr__(self) -> str:
        from dpnb.display.text import listing_text

        return listing_text(self)

    def _repr_html_(self) -> str:
        from dpnb.display.html import listing_html

        return listing_html(self)


Width: TypeAlias = tuple[str, int | None, float | None]
"""An aggregate, the group size or None, and the margin of error of its intervals or None."""


@dataclass(frozen=True, slots=True)
class Price:
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

    def listing(self) -> Listing:
        """Return the price as a table.

        Returns
        -------
        Listing
            A table that prints, and shows in a notebook.
        """
        rows = tuple(
            (
                alias,
                "any size" if size is None else f"{size:,} rows",
                "depends on the values" if width is None else f"± {figure(width, width)}",
            )
            for alias, size, width in self.widths
        )
        caption, note = price_words(
            self.spent, self.remaining, self.cap, self.currency, self.delta,
            affordable=self.affordable,
        )  # fmt: skip
        notes = [note]
        if self.bought:
            notes.append(bought_sentence(self.bought))
        if self.origin is not None:
            notes.append(self.origin.forecast(self.currency, self.delta))
        header = ("aggregate", "group size", "expected margin of error")
        return Listing(caption, header, rows, self.stamp, tuple(notes))

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

    def __repr__(self) -> str:
        return repr(self.listing())

    def _repr_html_(self) -> str:
        return self.listing()._repr_html_()


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


def price_words(
    spent: PrivacyLoss,
    remaining: PrivacyLoss,
    cap: PrivacyLoss,
    currency: Currency,
    delta: float | None,
    *,
    affordable: bool,
) -> tuple[str, str]:
    """Return a price, and what it would leave."""
    left = remaining.level(currency)
    if affordable:
        after = f"This would leave {left_text(remaining - spent, cap, currency)}"
    elif spent.level(currency) <= left:
        after = f"Only delta {amount_text(remaining.delta, left=True)} is left"
    else:
        after = f"Only {unit(currency)} {amount_text(left, left=True)} is left"
    free = spent.level(currency) == 0
    cost = "free" if free else loss_text(spent, currency, delta)
    return f"Price: {cost}", f"{after}. Nothing was spent."


def minute(time: str) -> str:
    """Return a time of the ledger as day, hour and minute."""
    return time[:16].replace("T", " ")


_BOUNDS = (
    "The limit bounds what the answers to this analyst reveal. Answers that others pass on come on "
    "top. The owner's total budget bounds all analysts together."
)


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


@dataclass(frozen=True, slots=True)
class BudgetStatus:
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

    cap: PrivacyLoss
    spent: PrivacyLoss
    remaining: PrivacyLoss
    currency: Currency
    delta: float | None
    kept: bool
    analyst: str | None = None
    stamp: Stamp = ""

    def listing(self) -> Listing:
        """Return the status as a table.

        Returns
        -------
        Listing
            A table that prints, and shows in a notebook.
        """
        rows = tuple(
            (word, loss_text(loss, self.currency, self.delta, left=word == "left"))
            for word, loss in (
                ("total" if self.analyst is None else "limit", self.cap),
                ("spent", self.spent),
                ("left", self.remaining),
            )
        )
        whose = "" if self.analyst is None else f" of {self.analyst}"
        promise = () if self.analyst is None else (_BOUNDS,)
        note = () if self.kept else (KERNEL,)
        header = ("", "privacy loss")
        return Listing(f"Privacy budget{whose}", header, rows, self.stamp, (*promise, *note))

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

    def __repr__(self) -> str:
        return repr(self.listing())

    def _repr_html_(self) -> str:
        from dpnb.display.html import budget_html

        return budget_html(self)
