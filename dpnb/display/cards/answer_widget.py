"""An answer as a live widget: two groups can be picked and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from dpnb.display.cards.answer import answer_body, view_data
from dpnb.display.elements import STATIC, module
from dpnb.display.text import MAX_ROWS
from dpnb.errors import RequestError

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.answers.question import Question


class AnswerWidget(anywidget.AnyWidget):
    """An answer in which two groups can be picked and compared, free of charge.

    Parameters
    ----------
    answer : Answer
    token : str
        Names this widget to the static HTML that accompanies it.

    Attributes
    ----------
    data : dict
        Contents of the view. Released values only.
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
            aggregate=next((one.alias for one in (*answer.columns, *answer.estimates)), ""),
            token=token,
        )

    def __repr__(self) -> str:
        return repr(self._answer)

    @property
    def question(self) -> Question | None:
        """The question about the two selected groups; None if fewer are selected."""
        if len(self.selected) < 2:
            return None
        left, right = (self._answer.groups[group] for group in self.selected)
        return self._answer.compare(left, right, self.aggregate)

    @traitlets.validate("selected")
    def _up_to_two_shown_groups(self, proposal: Any) -> list[int]:
        groups: list[int] = proposal.value
        shown_rows = self._answer.rows[:MAX_ROWS] if self._answer.shown is None else ()
        if len(groups) > 2 or len(set(groups)) < len(groups) or not set(groups) <= set(shown_rows):
            raise RequestError(
                f"selected must be up to two different shown groups, got {groups}",
                f"Use indices of shown groups, such as {list(shown_rows[:2])}.",
            )
        return groups

    @traitlets.validate("aggregate")
    def _known_aggregate(self, proposal: Any) -> str:
        names = [column.alias for column in self._answer.columns] or [""]
        return (
            proposal.value
            if proposal.value in names
            else self._answer.estimates_of(proposal.value).alias
        )
