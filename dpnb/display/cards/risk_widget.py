"""The picker of a privacy cost: a live widget for the owner of the data, which stores nothing.

For a sensitive table it opens without exact values; after a look everything it shows is exact. A
view asks for its contents by message. Messages are stored nowhere, while some front ends and batch
runs store a widget's traits with the notebook.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import display

from dpnb.display.cards.answer import cost_sentence
from dpnb.display.cards.risk import (
    counts_body,
    losses_html,
    notice_html,
    picker_body,
    risk_css,
    risk_html,
    risk_text,
)
from dpnb.display.elements import INTERRUPTED, STATIC, module
from dpnb.display.widgets import is_live
from dpnb.errors import DpnbError, RequestError
from dpnb.privacy.loss import PickedRational, amount_text, is_picked
from dpnb.risk import frames, offers
from dpnb.risk.choosing import best, by_rule, check_counts, from_counts, released, shown_limit
from dpnb.risk.preferences import descending

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.answers.price import Price
    from dpnb.risk.choice import Choice
    from dpnb.risk.profile import RiskProfile
    from dpnb.risk.safe_counts import SafeCounts

_VIEW = "application/vnd.jupyter.widget-view+json"
_UNKNOWN = "The answer failed for an unknown reason. Check the budget, then try again."
_CHANGED = "The privacy cost has changed since it was shown. Press again if you agree."
_UNSEEN = "Tick the box first."


class RiskPicker(anywidget.AnyWidget):
    """A limit, and three ways to choose a privacy cost from it. For the owner of the data.

    The public rule and safe counts show no exact values. A look shows whom each privacy cost would
    expose, and later changes are marked as data-dependent (docs/methods/rdr.md, statement 17).

    Parameters
    ----------
    profile : RiskProfile
    tau, guesses : number
        The initial limit, as floor / indicator or in guesses right of 100; 55 guesses by default.
    candidates : sequence of numbers, optional
        Privacy costs that a look shows, in the session's privacy definition; a few round ones by
        default.

    Attributes
    ----------
    profile : RiskProfile
    candidates : tuple of Fraction
        The privacy costs to choose from, ascending.
    limit : Limit
        The limit as set in the view.
    at : int
        Index of the candidate that was chosen by looking, settable from both sides; -1 if none was.
        For a public table, which anyone may look at, it starts at the largest candidate within the
        limit. Not part of the widget's stored state.
    counts : SafeCounts or None
        The safe counts in use.
    answer : Answer or None
        The answer that the button released last.

    Raises
    ------
    RequestError
        For a limit or a candidate out of range, and for a closed profile.
    """

    _esm = module("risk.js")
    _css = (STATIC / "answer.css").read_text(encoding="utf-8") + risk_css()

    at = traitlets.Int(-1)

    def __init__(
        self,
        profile: RiskProfile,
        *,
        tau: object = None,
        guesses: object = None,
        candidates: Sequence[object] | None = None,
    ) -> None:
        profile.check_open()
        self.profile = profile
        self.limit = shown_limit(profile, tau, guesses)
        self._limits = frames.limits(self.limit.guesses)
        self._asked = self.limit
        self.candidates: tuple[Fraction, ...] = (
            frames.coarse(profile.privacy)
            if candidates is None
            else tuple(reversed(descending(candidates)))
        )
        self._marked = is_picked(tau, guesses)
        if not profile.public or self._marked or is_picked(candidates):
            self.candidates = tuple(map(PickedRational, self.candidates))
        self.counts: SafeCounts | None = None
        self.answer: Answer | None = None
        self.token = uuid4().hex
        self._prices: list[Price] = []
        self._price: Price | None = None
        self._answered: dict[str, Any] | None = None
        self._told: dict[str, Any] = {}
        self._hearing = self._open = self._repaints = False
        first = -1
        if profile.public:
            first = frames.start(profile, self.candidates, self.limit.guesses)
        self._looked = profile.public
        self._settled = self._rule()
        super().__init__()
        self.at = first
        self._open = True
        self.on_msg(self._hear)

    # the choice

    @property
    def guesses(self) -> float:
        """The limit in guesses right of 100."""
        return self.limit.guesses

    @property
    def tau(self) -> float:
        """The limit as floor / indicator."""
        return self.limit.tau or self.profile.ratio_at(self.limit.level)

    @property
    def choice(self) -> Choice:
        """The choice by the rule, from safe counts, or by looking (marked as data-dependent)."""
        if self.at < 0:
            return self._settled
        return self.profile.picked(self.candidates[self.at])

    @property
    def level(self) -> Fraction | None:
        """The privacy cost in the session's privacy definition; None if the limit is used up."""
        return self.choice.level

    @property
    def epsilon(self) -> float | None:
        """The privacy cost as epsilon, to pass on; marked if it was chosen by looking."""
        return self.choice.epsilon

    @property
    def rho(self) -> float | None:
        """The privacy cost as rho, to pass on; marked if it was chosen by looking."""
        return self.choice.rho

    @traitlets.validate("at")
    def _a_candidate(self, proposal: Any) -> int:
        at: int = proposal.value
        if self._open and not 0 <= at < len(self.candidates):
            raise RequestError(
                f"there is no candidate {at}", f"Set at from 0 to {len(self.candidates) - 1}."
            )
        return at

    @traitlets.observe("at")
    def _moved(self, change: Any) -> None:
        if not self._open or self.at < 0:
            return
        self._note_look()
        if not self._hearing:
            self.send({"at": self.at})

    # messages from views

    def _hear(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Answer a view's message; ignore any other."""
        if not isinstance(content, Mapping) or not self._open:
            return
        if content.get("ask") == "frames":
            self._show()
        elif _index(content.get("limit"), len(self._limits)):
            self._attempt(lambda: self._set_limit(content["limit"]))
        elif content.get("way") == "look":
            self._look()
        elif content.get("way") in ("rule", "counts"):
            self._attempt(self._by_rule if content["way"] == "rule" else self._buy, moved=True)
        elif self.counts is not None and _index(content.get("count"), len(self.counts.levels)):
            self._attempt(lambda: self._by_counts(content["count"]), moved=True)
        elif self._looked and _index(content.get("at"), len(self.candidates)):
            self._pick(content["at"])
        elif _index(content.get("answer"), len(self.candidates) if self._looked else 0, least=-1):
            self._release(content["answer"], known=content.get("known") is True)

    def _attempt(self, act: Callable[[], None], *, moved: bool = False) -> None:
        """Carry out a view's request, and send what has changed, or why it failed."""
        outcome: dict[str, Any] = {}
        try:
            act()
        except DpnbError as error:
            outcome = {"failed": _sentence(error)}
        except KeyboardInterrupt:
            outcome = {"failed": INTERRUPTED}
        with contextlib.suppress(DpnbError):
            self._told = self._priced()
        # the slider may have moved since: do not send its position unless it was reset
        at = {"at": self.at} if moved else {}
        self.send({**self._told, "which": self._which, **at, **outcome})

    @property
    def _which(self) -> int:
        return [threshold["guesses"] for threshold in self._limits].index(self.limit.guesses)

    def _set_limit(self, which: int) -> None:
        """Set another limit, and repeat the choice by the rule or from counts."""
        value = float(self._limits[which]["guesses"])
        original = value == self._asked.guesses
        self.limit = self._asked if original else shown_limit(self.profile, None, value)
        if self.counts is not None:
            self._count()
        elif self.at < 0:
            self._settled = self._rule()

    def _by_rule(self) -> None:
        self.counts = None
        self._settled = self._rule()
        self._unpick()

    def _settle(self) -> None:
        """Repeat the choice by the rule after other spending; a choice from paid counts stays."""
        if self.counts is None:
            self._settled = self._rule()

    def _rule(self) -> Choice:
        return by_rule(self.profile, self.limit, picked=self._marked)

    def _buy(self) -> None:
        self._count()
        self._unpick()

    def _count(self) -> None:
        """Buy or reuse safe counts, and choose the largest line that meets the usual target."""
        target = self.profile.counts_target()
        self.counts = released(self.profile, self.limit, target, picked=self._marked)
        self._by_counts(best(self.profile, self.counts, target))

    def _by_counts(self, k: int) -> None:
        if self.counts is not None:
            self._settled = from_counts(
                self.profile, self.counts, self.profile.counts_target(), k, self.limit
            )
            self._unpick()

    def _unpick(self) -> None:
        self._open = False
        self.at = -1
        self._open = True

    def _look(self) -> None:
        try:
            self._note_look()
        except DpnbError as error:
            self.send({"failed": _sentence(error)})
            return
        if self.at < 0:
            self._pick(frames.start(self.profile, self.candidates, self.limit.guesses))
        self._show()

    def _note_look(self) -> None:
        """Settle the limit before exact values are shown; later limits mark what follows."""
        if not self._looked:
            self._rule()
            self.profile.context.note_look()
            self.profile.context.write_look()
        self._looked = True

    def _pick(self, at: int) -> None:
        # not sent back to the view: a moving slider would jump
        self._hearing = True
        try:
            self.at = at
        finally:
            self._hearing = False

    def _show(self) -> None:
        """Send everything a view shows."""
        try:
            contents = None
            if self._looked:
                contents = frames.frames(self.profile, self.candidates, self._asked.guesses)
                self._prices = offers.prices(self.profile, self.candidates)
            self.profile.check_open()
            self._settle()
            self._told = self._priced()
        except DpnbError as error:
            self.send({"failed": _sentence(error)})
            return
        self._watch()
        self.send(
            {
                "frames": None if contents is None else {**contents, "at": self.at},
                "limits": self._limits,
                "which": self._which,
                "public": self.profile.public,
                "body": picker_body(self.profile, contents, self._prices),
                "token": self.token,
                "answered": self._answered,
                **self._told,
            }
        )

    def _priced(self) -> dict[str, Any]:
        """Return what depends on the budget: offers, the settled choice, the price of counts."""
        settled, level = self._settled, self._settled.level
        self._price = None if level is None else self.profile.price(level)
        counts = self.counts
        return {
            "offers": self._offers(),
            "settled": {
                "way": "rule" if counts is None else "counts",
                "lines": [settled.sentence, *settled.notes()],
                "marked": settled.conditional,
                "offer": _offer(level, self._price),
            },
            "counts": None if counts is None else {
                "html": counts_body(counts),
                "at": settled.detail.get("k", 0),
                "names": [f"line {k + 1}" for k in range(len(counts.levels))],
            },
            **self._target(),
        }  # fmt: skip

    def _target(self) -> dict[str, Any]:
        """Return the price of safe counts or why they cannot be bought, and whether they can be."""
        target, left = (
            self.profile.counts_target(),
            self.profile.budget.remaining.level(self.profile.privacy),
        )
        try:
            check_counts(self.profile, self.limit, target)
        except RequestError as error:
            return {"target": error.what, "buyable": False}
        if target.held:
            return {"target": "already paid for", "buyable": True}
        cost_text, rest = (
            offers.name(target.cost, self.profile.privacy),
            amount_text(left, left=True),
        )
        if target.cost > left:
            return {"target": f"{cost_text} is needed, but only {rest} is left", "buyable": False}
        return {"target": f"costs {cost_text} of the {rest} left", "buyable": True}

    def _offers(self) -> list[dict[str, Any]]:
        return [
            _offer(level, price)
            for level, price in zip(self.candidates, self._prices, strict=False)
        ]

    # changes by later cells

    def _watch(self) -> None:
        """Repaint after each notebook cell, from the first view on."""
        shell = get_ipython()
        if shell is None or self._repaints:
            return
        self._repaints = True
        alive = weakref.ref(self)

        def repaint(*_: object) -> None:
            picker = alive()
            if picker is None or not picker._open:
                shell.events.unregister("post_run_cell", repaint)
            else:
                picker._repaint()

        shell.events.register("post_run_cell", repaint)

    def _repaint(self) -> None:
        """Send what a later notebook cell has changed: offers, and the choice by the rule."""
        try:
            if self._looked:
                self._prices = offers.prices(self.profile, self.candidates)
            self._settle()
            update = self._priced()
        except DpnbError:
            return
        if update != self._told:
            self._told = update
            self.send(update)

    def _release(self, at: int, *, known: bool) -> None:
        """Release the answer for candidate ``at`` (-1: the settled choice); send the outcome."""
        outcome: dict[str, Any] = {"failed": _UNKNOWN}
        try:
            if at < 0:
                self._unpick()
            else:
                self._pick(at)
            outcome = self._answer(known=known)
        except DpnbError as error:
            outcome = {"failed": _sentence(error)}
        except KeyboardInterrupt:
            outcome = {"failed": INTERRUPTED}
        finally:
            with contextlib.suppress(DpnbError):
                if self._looked:
                    self._prices = offers.prices(self.profile, self.candidates)
                self._told = self._priced()
                outcome = {**self._told, **outcome}
            self.send(outcome)

    def _answer(self, *, known: bool) -> dict[str, Any]:
        choice = self.choice
        if choice.level is None:
            return {"failed": choice.sentence}
        if choice.conditional and not (known or self.profile.public):
            return {"failed": _UNSEEN}
        quote = self._price
        if self.at >= 0:
            quote = self._prices[self.at] if self._prices else None
        price = self.profile.price(choice.level)
        if quote is None or price.spent != quote.spent:
            return {"failed": _CHANGED}
        self.answer = self.profile.answer(choice)
        message = f"Answered. {cost_sentence(self.answer)} The answer is in picker.answer."
        if self.profile.cumulative:
            message += " Run the cell again to include it."
        self._answered = {
            "text": message, "losses": self._losses(self.answer) if self._looked else ""
        }  # fmt: skip
        return {"answered": self._answered}

    def _losses(self, answer: Answer) -> str:
        try:
            lines = frames.ends(self.profile.signed_losses(answer))
        except DpnbError:
            return ""  # too many different contributions to show one by one
        # the answer may be more accurate than requested
        total = sum(map(Fraction, answer.levels.values()), Fraction(0))
        return losses_html(lines, offers.name(total, self.profile.privacy))

    # owner-only

    def close(self) -> None:
        """Remove the picker from the screen and forget what it showed."""
        self._open, self._answered, self._prices, self._told = False, None, [], {}
        super().close()

    def __repr__(self) -> str:
        return "<RiskPicker: exact, for the owner only: shown live in a notebook, kept nowhere>"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def _offer(level: Fraction | None, price: Price | None) -> dict[str, Any]:
    """Return the text of the button that releases an answer, and whether that is affordable."""
    if level is None or price is None:
        return {
            "text": "Your limit allows no further answer",
            "affordable": False,
            "held": False,
            "accuracy": [],
        }
    return {
        "text": offers.offer_text(level, price),
        "affordable": price.affordable,
        "held": price.spent.level(price.privacy) == 0,
        "accuracy": offers.accuracy_texts(price),
    }


def _index(value: object, count: int, *, least: int = 0) -> bool:
    """Return whether a value in a view's message is an index from ``least`` to ``count`` - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < count


def _sentence(error: DpnbError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def display_picker(picker: RiskPicker, mode: str = "auto") -> None:
    """Display a picker in the running cell: first the part to keep, then the live view.

    Parameters
    ----------
    picker : RiskPicker
    mode : {'auto', 'static', 'widget'}
        As for :func:`dpnb.display.widgets.display_result`. A notebook keeps a notice without values
        for a sensitive table, and the static rendering for a public one.

    Raises
    ------
    RequestError
        For another mode.
    """
    live = is_live(mode)
    token = picker.token if live else ""
    if picker.profile.public:
        text = risk_text(picker.profile, picker.guesses, picker.candidates)
        html = risk_html(picker.profile, picker.guesses, token, picker.candidates)
    else:
        text, html = repr(picker), notice_html(token)
    display({"text/plain": text, "text/html": html}, raw=True)
    if live:
        # a separate output, which is empty where widgets are not shown
        view = {"version_major": 2, "version_minor": 0, "model_id": picker.model_id}
        display({_VIEW: view, "text/plain": ""}, raw=True)
