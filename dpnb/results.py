"""What a cell shows: released values and plain data. How they look is found by name, when they are shown.

A result names its card, which lives in ``dpnb.display.cards``, as pandas names its plotting backend: so
results need no screen, and without ``dpnb.display`` they still hold their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from dpnb.private import Stamp

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_DISPLAY = "dpnb.display"


class Shown:
    """Something that a cell shows."""

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
        """Return the values by name, for where nothing can draw them."""
        shown = [one.name for one in fields(self) if not one.name.startswith("_")]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    def _repr_html_(self) -> str:
        html: str = card_of(self).html(self)
        return html

    def to_html(self, path: str) -> None:
        """Write the result as a page that needs nothing else.

        Parameters
        ----------
        path : str
            The file to write. An existing one is replaced.
        """
        display("elements").write_page(path, self._repr_html_())


class Result(Shown):
    """Something that a cell shows and that can be drawn."""

    __slots__ = ()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result; returns the matplotlib Axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
            To change or save the picture.
        """
        drawn: Axes = card_of(self).plot(self, ax)
        return drawn

    def widget(self) -> Any:
        """Return the result as a Jupyter widget.

        Returns
        -------
        ipywidgets widget
            It shows itself as the last line of a cell.
        """
        return card_of(self).widget(self)


def display(module: str) -> Any:
    """Return a module of ``dpnb.display`` by its name there."""
    return import_module(f"{_DISPLAY}.{module}")


def card_of(result: Shown) -> Any:
    """Return the card of a result, a ``dpnb.display.cards.Card``."""
    module, _, name = result.card.partition(".")
    return getattr(display(f"cards.{module}"), name)


@dataclass(frozen=True, slots=True, repr=False)
class Listing(Shown):
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

    card = "listing.LISTING"

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


def listed(value: Any) -> Any:
    """Return a value with lists in place of tuples, all the way down."""
    if isinstance(value, Mapping):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [listed(item) for item in value]
    return value
