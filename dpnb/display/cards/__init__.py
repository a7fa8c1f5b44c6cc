"""One card for each kind of result: how it is shown in a terminal, on a page, as a figure, as a widget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _no_widget(result: Any, token: str = "") -> Any:
    from dpnb.display.widgets import html_widget

    return html_widget(result._repr_html_())


@dataclass(frozen=True, slots=True)
class Card:
    """How one kind of result is rendered. Each takes the result.

    Attributes
    ----------
    text : callable
        Returns it for a terminal.
    html : callable
        Returns it as HTML. Of results with a live widget it also takes the widget's token, and is then
        folded to one line while that widget is alive.
    markdown : callable
        Returns it as Markdown; only where a result offers that.
    plot : callable
        Draws it on the axes given, or on new ones for None; only where a result offers that.
    widget : callable
        Returns a widget that shows it, with a token; the static HTML by default.
    """

    text: Callable[[Any], str]
    html: Callable[..., str]
    markdown: Callable[[Any], str] | None = None
    plot: Callable[[Any, Axes | None], Axes] | None = None
    widget: Callable[..., Any] = _no_widget
