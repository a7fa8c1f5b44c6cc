"""A decision as a live widget: number lines, the cost of other uncertain regions, the next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from dpnb.display.cards.decision import START, decision_body, decision_css, decision_data
from dpnb.display.cards.decision_offers import MULTIPLES
from dpnb.display.cards.decision_words import cost_sentence
from dpnb.display.elements import INTERRUPTED, STATIC, module
from dpnb.errors import DpnbError, RequestError, given
from dpnb.formats import loss_text

if TYPE_CHECKING:
    from dpnb.decide.decision import Decision

SHOWS = ("all", "selected", "doubt", "yes", "no")
"""Filters of a view: all groups, the selected ones, or those with one verdict."""
_UNKNOWN = "The step failed for an unknown reason. Check the budget, then try again."
_CHANGED = "This step was already taken. The next one is shown above."


class DecisionWidget(anywidget.AnyWidget):
    """A decision whose groups can be filtered, and that can take its next step.

    Parameters
    ----------
    decision : Decision
    token : str
        Names this widget to the static HTML that accompanies it.

    Attributes
    ----------
    decision : Decision
        The newest decision: each step returns a new one.
    data : dict
        Contents of the view. Released values only.
    condition : int
        Index of the condition whose number line is shown; settable from both sides.
    show : {'all', 'selected', 'doubt', 'yes', 'no'}
        Filter of the groups; settable from both sides.
    at : int
        Index of the multiple of the uncertain regions, from 1/8 (0) to 8 (12); settable from both
        sides.
    """

    _esm = module("decision.js")
    _css = (STATIC / "answer.css").read_text(encoding="utf-8") + decision_css()

    data = traitlets.Dict().tag(sync=True)
    condition = traitlets.Int(START["condition"]).tag(sync=True)
    show = traitlets.Unicode(START["show"]).tag(sync=True)
    at = traitlets.Int(START["at"]).tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)

    def __init__(self, decision: Decision, *, token: str = "") -> None:
        self.decision = decision
        self._acting = False
        super().__init__(data=_shown(decision), token=token)
        self.on_msg(self._hear)

    def __repr__(self) -> str:
        return repr(self.decision)

    @traitlets.validate("condition")
    def _a_condition(self, proposal: Any) -> int:
        most = max(len(self.decision.tests), 1)
        return _index(proposal.value, most, "condition")

    @traitlets.validate("at")
    def _a_multiple(self, proposal: Any) -> int:
        return _index(proposal.value, len(MULTIPLES), "at")

    @traitlets.validate("show")
    def _a_filter(self, proposal: Any) -> str:
        show: str = proposal.value
        if show not in SHOWS:
            raise RequestError(
                f"show must say which groups to show, got {given(show)}",
                f"Use one of {', '.join(SHOWS)}.",
            )
        return show

    # messages from views

    def _hear(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Take the step that a view confirmed; ignore any other message."""
        if not isinstance(content, Mapping) or self._acting:
            return
        after = content.get("refine")
        if isinstance(after, int) and not isinstance(after, bool):
            self._refine(after)

    def _refine(self, after: int) -> None:
        """Take the step after the first ``after`` ones, and send its cost or why it failed."""
        message, self._acting = {"failed": _UNKNOWN}, True
        try:
            message = self._step(after)
        except DpnbError as error:
            text = str(error)
            message = {"failed": text[:1].upper() + text[1:]}
        except KeyboardInterrupt:
            message = {"failed": INTERRUPTED}
        finally:
            self._acting = False
            self.send(message)

    def _step(self, after: int) -> dict[str, str]:
        # the user confirmed the price of this step only
        if after != len(self.decision.taken):
            return {"failed": _CHANGED}
        self.decision = self.decision.refine()
        self.data = _shown(self.decision)
        return {
            "refined": f"Done. {cost_sentence(self.decision)} The new decision is in widget.decision."
        }


def step_offer(decision: Decision) -> dict[str, Any]:
    """Return the texts of the button for the next step: its cost, or why it cannot be taken.

    Returns
    -------
    dict
        ``after``: steps taken; ``cost`` and ``text``; ``closed``: why it cannot be taken, or ''.
    """
    cost, text, closed = "", "", ""
    if decision.next_cost is None:
        closed = "This decision has no more steps."
    else:
        cost = loss_text(decision.next_cost, decision.privacy, None)
        left = loss_text(decision.remaining, decision.privacy, None, left=True)
        name = "One more step" if decision.taken else "A first step"
        text = f"{name} costs {cost}. Left: {left}."
        if decision.next_cost.exceeds(decision.remaining, decision.privacy):
            closed = f"{name} costs {cost}, but only {left} is left."
        elif decision.further is None:
            closed = "The session of this decision is closed. Run session.decide again to go on."
    return {"after": len(decision.taken), "cost": cost, "text": text, "closed": closed}


def _shown(decision: Decision) -> dict[str, Any]:
    return {
        **decision_data(decision), "step": step_offer(decision), "body": decision_body(decision),
    }  # fmt: skip


def _index(at: int, count: int, name: str) -> int:
    if not 0 <= at < count:
        raise RequestError(f"{name} must be from 0 to {count - 1}, got {at}", f"Set {name} to 0.")
    return at
