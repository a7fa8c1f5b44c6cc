"""One card for each kind of result, which draws it as text, HTML, figure or widget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnb.display.document import Document
from dpnb.display.latex import document_latex
from dpnb.display.markdown import document_markdown
from dpnb.display.page import document_html
from dpnb.display.text import document_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _no_widget(result: Any, token: str = "") -> Any:
    from dpnb.display.widgets import html_widget

    return html_widget(result._repr_html_())


@dataclass(frozen=True, slots=True)
class Card:
    """The renderings of one kind of result. Each callable takes the result.

    Attributes
    ----------
    text : callable
        Returns the result as text for a terminal.
    html : callable
        Returns the result as HTML. If there is a live widget, it also takes the widget's token; the
        HTML is then folded to one line while the widget is alive.
    markdown, latex : callable
        Return the result as Markdown and as LaTeX; None if not supported.
    plot : callable
        Draws the result on the given axes, or on new ones for None; None if not supported.
    widget : callable
        Returns a widget for the result, with a token; by default a widget with the static HTML.
    """

    text: Callable[[Any], str]
    html: Callable[..., str]
    markdown: Callable[[Any], str] | None = None
    plot: Callable[[Any, Axes | None], Axes] | None = None
    widget: Callable[..., Any] = _no_widget
    latex: Callable[[Any], str] | None = None


def document_card(
    document: Callable[[Any], Document], plot: Callable[[Any, Axes | None], Axes] | None = None
) -> Card:
    """Return the card of a result that is shown as a document."""
    return Card(
        lambda result: document_text(document(result)),
        lambda result, token="": document_html(document(result)),
        lambda result: document_markdown(document(result)),
        plot,
        latex=lambda result: document_latex(document(result)),
    )
