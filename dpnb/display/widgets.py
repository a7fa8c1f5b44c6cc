"""Live results as widgets, and the display of results in a notebook cell."""

from __future__ import annotations

from uuid import uuid4

from IPython.core.getipython import get_ipython
from IPython.display import display
from ipywidgets.widgets.widget_string import HTML

from dpnb.errors import RequestError, given
from dpnb.results import Result, card_of

_VIEW = "application/vnd.jupyter.widget-view+json"


def html_widget(html: str) -> HTML:
    """Return a static result as a widget, for use in layouts."""
    return HTML(html)


def display_result(result: Result, mode: str = "auto") -> None:
    """Display a result in the running cell.

    Parameters
    ----------
    result : Result
        A result with a live widget: an answer, decision, explanation or inference.
    mode : {'auto', 'static', 'widget'}
        'static' displays text, and HTML that scripts make interactive. 'widget' adds the live
        widget in a second output; the HTML is folded while the widget is alive, and stays when it
        is gone. 'auto' is 'widget' if a person runs the cell in a front end, and 'static' in batch
        runs and terminals.

    Raises
    ------
    RequestError
        For another mode.
    """
    live = is_live(mode)
    token = uuid4().hex if live else ""
    card = card_of(result)
    html = card.html(result, token)
    widget = card.widget(result, token) if live else None
    display({"text/plain": repr(result), "text/html": html}, raw=True)
    if widget is not None:
        # An output with a widget shows nothing once the widget is gone, so the static HTML has an
        # output of its own. The empty text keeps this one empty where widgets are not shown.
        view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
        display({_VIEW: view, "text/plain": ""}, raw=True)


def is_live(mode: str) -> bool:
    """Return whether a cell that runs now with this mode displays a widget.

    In mode 'auto' it does if a notebook editor sent the cell: JupyterLab, Notebook and VS Code name
    the cell in the request's metadata, nbclient does not.
    """
    if mode not in ("auto", "static", "widget"):
        raise RequestError(
            f"there is no display mode {given(mode)}", "Use 'auto', 'static' or 'widget'."
        )
    kernel = getattr(get_ipython(), "kernel", None)
    from_editor = kernel is not None and "cellId" in kernel.get_parent().get("metadata", {})
    return mode == "widget" or (mode == "auto" and from_editor)
