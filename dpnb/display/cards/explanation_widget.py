"""An explanation as a live widget: table lines can be sorted, and one of them selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from dpnb.display.cards.explanation import explanation_body, explanation_data
from dpnb.display.elements import STATIC, module
from dpnb.display.text import MAX_ROWS
from dpnb.errors import RequestError

if TYPE_CHECKING:
    from dpnb.explain.explanation import Explanation, Row


class ExplanationWidget(anywidget.AnyWidget):
    """An explanation whose table lines can be sorted, and one of them selected.

    Parameters
    ----------
    explanation : Explanation
    token : str
        Names this widget to the static HTML that accompanies it.

    Attributes
    ----------
    data : dict
        Contents of the view. Released values only.
    selected : int
        Index in ``explanation.rows`` of the selected line, -1 for none; settable from both sides.
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
        """The selected line; None if none is selected."""
        return None if self.selected < 0 else self._explanation.rows[self.selected]

    @traitlets.validate("selected")
    def _a_shown_row_or_none(self, proposal: Any) -> int:
        row: int = proposal.value
        count = len(self._explanation.rows[:MAX_ROWS])
        if not -1 <= row < count:
            raise RequestError(
                f"selected must be a shown row, got {row}",
                f"Set selected to an index from 0 to {count - 1}, or to -1 for none.",
            )
        return row
