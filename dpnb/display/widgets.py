"""Live results as widgets, and what a cell displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import display
from ipywidgets.widgets.widget_string import HTML

from dpnb.answers.answer import Answer
from dpnb.answers.inference import Inference
from dpnb.decide.decision import Decision
from dpnb.display.cards.decision import decision_html
from dpnb.display.cards.explanation import explanation_body, explanation_data, explanation_html
from dpnb.display.cards.inference import inference_html
from dpnb.display.decision_widget import DecisionWidget
from dpnb.display.elements import STATIC, module
from dpnb.display.html import answer_body, answer_html, view_data
from dpnb.display.inference_widget import InferenceWidget
from dpnb.display.text import MAX_ROWS
from dpnb.errors import RequestError, given

if TYPE_CHECKING:
    from dpnb.answers.question import Question
    from dpnb.explain.explanation import Explanation, Row

_VIEW = "application/vnd.jupyter.widget-view+json"


class AnswerWidget(anywidget.AnyWidget):
    """An answer in which two groups can be picked and compared, free of charge.

    Parameters
    ----------
    answer : Answer
    token : str
        Names this widget to the record that accompanies it.

    Attributes
    ----------
    data : dict
        What the view shows. Released values only.
    selected : list of int
        Indices in ``answer.groups`` of up to two shown groups; settable from both sides.
    aggregate : str
        Alias of the aggregate shown; settable from both sides.
    """

    _esm = module("answer.js")
    _css = STATIC / "answer.css"

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    aggregate = traitlets.Unicode().tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)

    def __init__(self, answer: Answer, *, token: str = "") -> None:
        self._answer = answer
        super().__init__(
            data={**view_data(answer), "body": answer_body(answer)},
            aggregate=answer.estimates[0].alias,
            token=token,
        )

    def __repr__(self) -> str:
        return repr(self._answer)

    @property
    def question(self) -> Question | None:
        """The question about the two selected groups; None while there are fewer."""
        if len(self.selected) < 2:
            return None
        left, right = (self._answer.groups[group] for group in self.selected)
        return self._answer.compare(left, right, self.aggregate)

    @traitlets.validate("selected")
    def _up_to_two_shown_groups(self, proposal: Any) -> list[int]:
        groups: list[int] = proposal.value
        shown = self._answer.rows[:MAX_ROWS]
        if len(groups) > 2 or len(set(groups)) < len(groups) or not set(groups) <= set(shown):
            raise RequestError(
                f"selected must be up to two different shown groups, got {groups}",
                f"Use indices of shown groups, such as {list(shown[:2])}.",
            )
        return groups

    @traitlets.validate("aggregate")
    def _known_aggregate(self, proposal: Any) -> str:
        return self._answer.estimates_of(proposal.value).alias


class ExplanationWidget(anywidget.AnyWidget):
    """An explanation whose rows can be sorted, and one of them picked.

    Parameters
    ----------
    explanation : Explanation
    token : str
        Names this widget to the record that accompanies it.

    Attributes
    ----------
    data : dict
        What the view shows. Released values only.
    selected : int
        Index in ``explanation.rows`` of the picked row, -1 for none; settable from both sides.
    """

    _esm = module("explanation.js")
    _css = STATIC / "answer.css"

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)

    def __init__(self, explanation: Explanation, *, token: str = "") -> None:
        self._explanation = explanation
        super().__init__(
            data={**explanation_data(explanation), "body": explanation_body(explanation)},
            token=token,
        )

    def __repr__(self) -> str:
        return repr(self._explanation)

    @property
    def row(self) -> Row | None:
        """The picked row; None while none is."""
        return None if self.selected < 0 else self._explanation.rows[self.selected]

    @traitlets.validate("selected")
    def _a_shown_row_or_none(self, proposal: Any) -> int:
        row: int = proposal.value
        shown = len(self._explanation.rows[:MAX_ROWS])
        if not -1 <= row < shown:
            raise RequestError(
                f"selected must be a shown row, got {row}",
                f"Set selected to an index from 0 to {shown - 1}, or to -1 for none.",
            )
        return row


def html_widget(html: str) -> HTML:
    """Return a static result as a widget, for use in layouts."""
    return HTML(html)


def display_result(result: Answer | Decision | Explanation | Inference, mode: str = "auto") -> None:
    """Display a result in the running cell.

    Parameters
    ----------
    result : Answer, Decision, Explanation or Inference
    mode : {'auto', 'static', 'widget'}
        'static' displays the record: text, and HTML that scripts make interactive. 'widget'
        displays the live widget in a second output; the record, folded while the widget lives, is
        what stays when it is gone. 'auto' is 'widget' where a person runs the cell in a front end,
        'static' in batch runs and terminals.

    Raises
    ------
    RequestError
        For another mode.
    """
    live = is_live(mode)
    token = uuid4().hex if live else ""
    widget: AnswerWidget | DecisionWidget | ExplanationWidget | InferenceWidget | None = None
    if isinstance(result, Answer):
        html = answer_html(result, token)
        widget = AnswerWidget(result, token=token) if live else None
    elif isinstance(result, Decision):
        html = decision_html(result, token)
        widget = DecisionWidget(result, token=token) if live else None
    elif isinstance(result, Inference):
        html = inference_html(result, token)
        widget = InferenceWidget(result, token=token) if live else None
    else:
        html = explanation_html(result, token)
        widget = ExplanationWidget(result, token=token) if live else None
    display({"text/plain": repr(result), "text/html": html}, raw=True)
    if widget is not None:
        # An output that holds a widget shows nothing else once the widget is gone, so the record has
        # its own; the empty text keeps this one empty where widgets are not shown.
        view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
        display({_VIEW: view, "text/plain": ""}, raw=True)


def is_live(mode: str) -> bool:
    """Return whether a cell run now with this mode displays a widget.

    In mode 'auto' it does when the cell was sent by a notebook editor: JupyterLab, Notebook and VS
    Code name the cell in the request's metadata, nbclient does not.
    """
    if mode not in ("auto", "static", "widget"):
        raise RequestError(
            f"there is no display mode {given(mode)}", "Use 'auto', 'static' or 'widget'."
        )
    kernel = getattr(get_ipython(), "kernel", None)
    named = kernel is not None and "cellId" in kernel.get_parent().get("metadata", {})
    return mode == "widget" or (mode == "auto" and named)
