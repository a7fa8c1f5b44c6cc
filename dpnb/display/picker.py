"""The picker of a level: a live widget for the owner of the data, which stores nothing.

Everything it shows is exact. It is sent by message when a view asks for it: messages are kept nowhere,
while a widget's traits are stored with the notebook by some front ends, and by batch runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import display

from dpnb.display.parts import STATIC, module
from dpnb.display.risk import losses_html, notice_html, picker_body, risk_css, risk_html
from dpnb.display.widgets import is_live
from dpnb.errors import DpnbError, RequestError
from dpnb.privacy.loss import PickedRational, is_picked
from dpnb.risk import frames, offers
from dpnb.risk.preferences import descending, threshold

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.answers.listing import Price
    from dpnb.risk.choice import Choice
    from dpnb.risk.profile import RiskProfile

_VIEW = "application/vnd.jupyter.widget-view+json"
_UNKNOWN = "It did not work, for a reason that is not known. Look at the budget, then try again."
_INTERRUPTED = "Interrupted. Look at the budget; pressed again, what was paid for is free."
_CHANGED = "The price has changed since it was shown. Press again if you agree."
_UNSEEN = "Tick the box first."


class RiskPicker(anywidget.AnyWidget):
    """A slider over levels that shows whom an answer would expose. For the owner of the data.

    Parameters
    ----------
    profile : RiskProfile
    tau : number
        The threshold of floor / max at first, from 0 to 1.
    candidates : sequence of numbers, optional
        Levels in the session's currency; few round ones by default.

    Attributes
    ----------
    profile : RiskProfile
    candidates : tuple of Fraction
        Rising.
    tau : float
    at : int
        Index of the picked candidate, settable from both sides. At first the largest one at which
        floor / max is at least ``tau``, else the smallest. No part of the widget's stored state.
    answer : Answer or None
        What was released once the button was pressed.

    Raises
    ------
    RequestError
        For a threshold or a candidate out of range, and for a closed profile.
    """

    _esm = module("risk.js")
    _css = (STATIC / "answer.css").read_text(encoding="utf-8") + risk_css()

    at = traitlets.Int(0)

    def __init__(
        self,
        profile: RiskProfile,
        *,
        tau: object = 0.95,
        candidates: Sequence[object] | None = None,
    ) -> None:
        self.profile = profile
        self.tau = threshold(tau)
        self.candidates: tuple[Fraction, ...] = (
            frames.coarse(profile.currency)
            if candidates is None
            else tuple(reversed(descending(candidates)))
        )
        if not profile.public or is_picked(candidates, tau):
            self.candidates = tuple(map(PickedRational, self.candidates))
        self.answer: Answer | None = None
        self.token = uuid4().hex
        self._prices: list[Price] = []
        self._answered: dict[str, Any] | None = None
        self._hearing = self._open = False
        first = frames.start(profile, self.candidates, self.tau)
        super().__init__()
        self.at = first
        self._open = True
        self.on_msg(self._hear)

    # what was picked

    @property
    def level(self) -> Fraction:
        """The picked level in the session's currency."""
        return self.candidates[self.at]

    @property
    def choice(self) -> Choice:
        """The picked level as a choice; of a sensitive table it is conditional on the data."""
        return self.profile.picked(self.level)

    @property
    def epsilon(self) -> float | None:
        """The picked level as epsilon, to be passed on; marked as picked on sensitive tables."""
        return self.choice.epsilon

    @property
    def rho(self) -> float | None:
        """The picked level as rho, to be passed on; marked as picked on sensitive tables."""
        return self.choice.rho

    @traitlets.validate("at")
    def _a_candidate(self, proposal: Any) -> int:
        at: int = proposal.value
        if not 0 <= at < len(self.candidates):
            raise RequestError(
                f"{at} is no candidate", f"Set at from 0 to {len(self.candidates) - 1}."
            )
        return at

    @traitlets.observe("at")
    def _moved(self, change: Any) -> None:
        if self._open and not self._hearing:
            self.send({"at": self.at})

    # what views ask

    def _hear(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Answer a view's message; what no view sends is ignored."""
        if not isinstance(content, Mapping) or not self._open:
            return
        if content.get("ask") == "frames":
            self._show()
        elif self._is_candidate(content.get("at")):
            self._pick(content["at"])
        elif self._is_candidate(content.get("answer")):
            self._release(content["answer"], known=content.get("known") is True)

    def _is_candidate(self, at: object) -> bool:
        if isinstance(at, bool) or not isinstance(at, int):
            return False
        return 0 <= at < len(self.candidates)

    def _pick(self, at: int) -> None:
        # not told back: a slider on the move would jump
        self._hearing = True
        try:
            self.at = at
        finally:
            self._hearing = False

    def _show(self) -> None:
        """Send everything a view shows."""
        try:
            shown = frames.frames(self.profile, self.candidates, self.tau)
            self._prices = offers.prices(self.profile, self.candidates)
        except DpnbError as error:
            self.send({"failed": _sentence(error)})
            return
        self.send(
            {
                "frames": {**shown, "at": self.at},
                "body": picker_body(shown, self._prices, stamp=self.profile.stamp),
                "token": self.token,
                "offers": self._offers(),
                "answered": self._answered,
            }
        )

    def _offers(self) -> list[dict[str, Any]]:
        return [
            {
                "text": offers.offer_text(level, price),
                "affordable": price.affordable,
                "held": price.spent.level(price.currency) == 0,
                "accuracy": offers.accuracy_texts(price),
            }
            for level, price in zip(self.candidates, self._prices, strict=True)
        ]

    def _release(self, at: int, *, known: bool) -> None:
        """Release the answer at a level, and send what it cost or why there is none."""
        said: dict[str, Any] = {"failed": _UNKNOWN}
        try:
            self._pick(at)
            said = self._answer(known=known)
        except DpnbError as error:
            said = {"failed": _sentence(error)}
        except KeyboardInterrupt:
            said = {"failed": _INTERRUPTED}
        finally:
            with contextlib.suppress(DpnbError):
                self._prices = offers.prices(self.profile, self.candidates)
                said["offers"] = self._offers()
            self.send(said)

    def _answer(self, *, known: bool) -> dict[str, Any]:
        if not (known or self.profile.public):
            return {"failed": _UNSEEN}
        price = self.profile.price(self.level)
        if not self._prices or price.spent != self._prices[self.at].spent:
            return {"failed": _CHANGED}
        self.answer = self.profile.answer(self.level)
        told = f"Answered. {self.answer.cost_sentence()} It is in picker.answer."
        if self.profile.cumulative:
            told += " Run the cell again to count it in."
        self._answered = {"text": told, "losses": self._losses(self.answer)}
        return {"answered": self._answered}

    def _losses(self, answer: Answer) -> str:
        try:
            lines = frames.ends(self.profile.signed_losses(answer))
        except DpnbError:
            return ""  # too many different contributions to show one by one
        # it may be finer than what was asked for
        shown = sum(map(Fraction, answer.levels.values()), Fraction(0))
        return losses_html(lines, offers.name(shown, self.profile.currency))

    # owner-only

    def close(self) -> None:
        """Take the picker off the screen and forget what it showed."""
        self._open, self._answered, self._prices = False, None, []
        super().close()

    def __repr__(self) -> str:
        return "<RiskPicker: exact, for the owner only: shown live, kept nowhere>"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def _sentence(error: DpnbError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def display_picker(picker: RiskPicker, mode: str = "auto") -> None:
    """Display a picker in the running cell: what may be kept, and the live view after it.

    Parameters
    ----------
    picker : RiskPicker
    mode : {'auto', 'static', 'widget'}
        As for :func:`dpnb.display.widgets.display_result`. What is kept of a sensitive table is a
        notice that says nothing; of a public one it is the static rendering.

    Raises
    ------
    RequestError
        For another mode.
    """
    live = is_live(mode)
    token = picker.token if live else ""
    if picker.profile.public:
        text = repr(picker.profile)
        html = risk_html(picker.profile, picker.tau, token, picker.candidates)
    else:
        text, html = repr(picker), notice_html(token)
    display({"text/plain": text, "text/html": html}, raw=True)
    if live:
        # an output of its own, empty where widgets are not shown
        view = {"version_major": 2, "version_minor": 0, "model_id": picker.model_id}
        display({_VIEW: view, "text/plain": ""}, raw=True)
