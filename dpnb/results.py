"""Results: released values and plain data; their display is looked up by name on first use.

A result names its card, a part of ``dpnb.display.cards``, as pandas names its plotting backend. So
results need no screen, and without ``dpnb.display`` they still hold their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss
from dpnb.private import Stamp

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_DISPLAY = "dpnb.display"


class Shown:
    """Base of objects that a notebook cell shows."""

    __slots__ = ()
    card: ClassVar[str]
    """Module and name of its card in ``dpnb.display.cards``."""

    def __repr__(self) -> str:
        try:
            text: str = card_of(self).text(self)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith(_DISPLAY):
                raise
            return self._plain_repr()
        return text

    def _plain_repr(self) -> str:
        """Return the fields and values, for use without ``dpnb.display``."""
        names = [field.name for field in fields(self) if not field.name.startswith("_")]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({values})"

    def _repr_html_(self) -> str:
        html: str = card_of(self).html(self)
        return html

    def to_html(self, path: str) -> None:
        """Write the result as a self-contained HTML page.

        Parameters
        ----------
        path : str
            The file to write. An existing one is replaced.
        """
        display("elements").write_page(path, self._repr_html_())


class Written(Shown):
    """Base of objects that can be put into a text."""

    __slots__ = ()

    def to_markdown(self) -> str:
        """Return what is shown as Markdown.

        Returns
        -------
        str
            GitHub-flavoured Markdown.
        """
        markdown: str = card_of(self).markdown(self)
        return markdown


class Documented(Written):
    """Base of objects that are shown as a document, which is the same in every medium."""

    __slots__ = ()

    def to_latex(self) -> str:
        """Return what is shown as LaTeX, which needs no package.

        Returns
        -------
        str
            A ``tabular`` for each table, with sentences around it.
        """
        latex: str = card_of(self).latex(self)
        return latex


class Result(Shown):
    """Base of objects that a notebook cell shows and that can be drawn."""

    __slots__ = ()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result, and return the matplotlib Axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
            The axes, for example to change or save the picture.
        """
        axes: Axes = card_of(self).plot(self, ax)
        return axes

    def widget(self) -> Any:
        """Return the result as a Jupyter widget.

        Returns
        -------
        ipywidgets widget
            Jupyter shows it if it is the last line of a cell.
        """
        return card_of(self).widget(self)


def display(module: str) -> Any:
    """Return a module of ``dpnb.display`` by name."""
    return import_module(f"{_DISPLAY}.{module}")


def card_of(result: Shown) -> Any:
    """Return the card of a result, a ``dpnb.display.cards.Card``."""
    module, _, name = result.card.partition(".")
    return getattr(display(f"cards.{module}"), name)


@dataclass(frozen=True, slots=True, repr=False)
class Bill(Documented):
    """What a request cost, what is left, and caveats on its result.

    Attributes
    ----------
    spent, remaining, cap : PrivacyLoss
        Cost of the request, what is left after it, and the limit.
    privacy : PrivacyDefinition
        Privacy definition of these losses.
    delta : float or None
        The session's delta, at which epsilons are shown.
    stored : bool
        Whether the request was answered from the ledger.
    kept : bool
        Whether the ledger outlives the kernel.
    stamp : str
        Why the numbers are not private or not about real data, see ``dpnb.private``; else ''.
    conditional : bool
        Whether the privacy cost was picked by looking at the data. The guarantee then holds only
        given that choice.
    """

    card = "bill.BILL"

    spent: PrivacyLoss
    remaining: PrivacyLoss
    cap: PrivacyLoss
    privacy: PrivacyDefinition
    delta: float | None
    stored: bool = False
    kept: bool = True
    stamp: Stamp = ""
    conditional: bool = False

    def share(self) -> float:
        """Return the cost as a share of what is left; infinite if nothing is left."""
        cost, left = self.spent.level(self.privacy), self.remaining.level(self.privacy)
        if cost == 0:
            return 0.0
        return float(cost / left) if left else math.inf

    @classmethod
    def taken(cls, values: dict[str, Any]) -> Bill:
        """Build a bill from plain data, and remove its values from them."""
        arguments = {field.name: values.pop(field.name) for field in fields(cls)}
        for name in ("spent", "remaining", "cap"):
            arguments[name] = PrivacyLoss.from_dict(arguments[name])
        arguments["privacy"] = PrivacyDefinition(arguments["privacy"])
        return cls(**arguments)


class Billed:
    """Base of objects with a bill, whose amounts are properties of the object."""

    __slots__ = ()
    bill: Bill

    @property
    def spent(self) -> PrivacyLoss:
        """Privacy cost, now or if carried out."""
        return self.bill.spent

    @property
    def remaining(self) -> PrivacyLoss:
        """What is left of the budget."""
        return self.bill.remaining

    @property
    def cap(self) -> PrivacyLoss:
        """The limit."""
        return self.bill.cap

    @property
    def privacy(self) -> PrivacyDefinition:
        """Privacy definition of the losses."""
        return self.bill.privacy

    @property
    def delta(self) -> float | None:
        """The delta at which epsilons are shown, or None."""
        return self.bill.delta

    @property
    def stored(self) -> bool:
        """Whether the request was answered from the ledger."""
        return self.bill.stored

    @property
    def kept(self) -> bool:
        """Whether the ledger outlives the kernel."""
        return self.bill.kept

    @property
    def stamp(self) -> Stamp:
        """Why the numbers are not private or not about real data; else ''."""
        return self.bill.stamp

    @property
    def conditional(self) -> bool:
        """Whether the privacy cost was picked by looking at the data."""
        return self.bill.conditional


B = TypeVar("B", bound=Billed)


def rebilled(result: B, **changes: Any) -> B:
    """Return a result with another bill."""
    return replace(result, bill=replace(result.bill, **changes))  # type: ignore[type-var]


def to_plain(value: Any, **written: Any) -> dict[str, Any]:
    """Return a dataclass as plain data, with the values of its bill among its own.

    ``written`` has values that replace those of fields. Fields that a comparison ignores are left
    out.
    """
    data: dict[str, Any] = {}
    for field in fields(value):
        if not field.compare:
            continue
        field_value = written[field.name] if field.name in written else getattr(value, field.name)
        if isinstance(field_value, Bill):
            data |= to_plain(field_value)
        else:
            data[field.name] = (
                field_value.to_dict()
                if isinstance(field_value, PrivacyLoss)
                else with_lists(field_value)
            )
    return data


@dataclass(frozen=True, slots=True, repr=False)
class InfoTable(Documented):
    """A captioned table of texts.

    Attributes
    ----------
    caption : str
    header : tuple of str
    rows : tuple of tuples of str
    stamp : str
        As in ``Answer``.
    notes : tuple of str
        Sentences below the table.

    Examples
    --------
    >>> list(session.tables.to_frame()["column"])[:2]
    ['sex', 'age']
    """

    card = "info_table.INFO_TABLE"

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


def with_lists(value: Any) -> Any:
    """Replace tuples by lists, also inside other values."""
    if isinstance(value, Mapping):
        return {key: with_lists(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_lists(item) for item in value]
    return value


def format_time(time: str) -> str:
    """Format a time of the ledger as day, hour and minute."""
    return time[:16].replace("T", " ")


@dataclass(frozen=True, slots=True)
class Asked:
    """One answered request in its analyst's history."""

    time: str
    sql: str
    spent: PrivacyLoss
    conditional: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain data (JSON)."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Asked:
        """Build the request from :meth:`to_dict`."""
        return cls(**{**data, "spent": PrivacyLoss.from_dict(data["spent"])})


@dataclass(frozen=True, slots=True, repr=False)
class BudgetStatus(Billed, Documented):
    """Total budget, what was spent, and what remains.

    Attributes
    ----------
    bill : Bill
        The total, what was spent, and what remains.
    analyst : str or None
        The analyst whose account this is; None for the budget of all together.

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
        """Return the bill of a request that led to this status.

        Parameters
        ----------
        spent : PrivacyLoss
            What the request cost.
        stored : bool
            Whether it was answered from the ledger.
        conditional : bool
            Whether its privacy cost was picked by looking at the data.

        Returns
        -------
        Bill
            A bill with the same limit and remaining budget.
        """
        return replace(self.bill, spent=spent, stored=stored, conditional=conditional)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain data (JSON).

        Returns
        -------
        dict of str to value
            Strings, numbers, lists and dicts.
        """
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BudgetStatus:
        """Build the status from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            The result of :meth:`to_dict`.

        Returns
        -------
        BudgetStatus
            Equal to the original.
        """
        values = dict(data)
        return cls(Bill.taken(values), **values)
