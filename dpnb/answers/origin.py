"""How an answer of a wished error was come by: from past answers, from more of them, or anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dpnb.answers.numbers import loss_text
from dpnb.privacy.loss import Currency, PrivacyLoss

Way: TypeAlias = Literal["history", "refined", "new"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The way an answer went, and what past answers saved.

    Attributes
    ----------
    way : {'history', 'refined', 'new'}
        'history': past answers were accurate enough, nothing was bought. 'refined': an old release was
        made more accurate. 'new': a new release. The latter two are merged with past answers.
    alone : PrivacyLoss
        What the answer would have cost at that moment without past answers to other statements.
    past : int
        How many past answers to other statements it rests on.
    """

    way: Way
    alone: PrivacyLoss
    past: int

    def sentence(self, spent: PrivacyLoss, currency: Currency, delta: float | None) -> str:
        """Return which way the answer went, what it saved, and what it would have cost alone."""
        past = "one past answer" if self.past == 1 else f"{self.past} past answers"
        saved = self.alone.level(currency) - spent.level(currency)
        alone = f"alone it would have cost {loss_text(self.alone, currency, delta)}"
        if self.way == "history" and not self.past:
            return f"Known without any answer, for no row can be in it; {alone}."
        if self.way == "history":
            return f"Worked out from {past}, without a look at the data; {alone}."
        bought = "An old release was refined" if self.way == "refined" else "A new release was made"
        merged = f"{bought} and merged with {past}"
        if saved <= 0:
            return f"{merged}."
        return f"{merged}; {alone}, so {loss_text(PrivacyLoss.of(saved, currency), currency, None)} was saved."

    def forecast(self, currency: Currency, delta: float | None) -> str:
        """Return how the answer would be come by, and what it would cost alone."""
        if self.way == "history" and not self.past:
            return f"Known without any answer, for no row can be in it; alone it would cost {loss_text(self.alone, currency, delta)}."
        past = "one past answer tells" if self.past == 1 else f"{self.past} past answers tell"
        alone = f"alone it would cost {loss_text(self.alone, currency, delta)}"
        if self.way == "history":
            return f"{past[0].upper()}{past[1:]} it; {alone}."
        return f"{past[0].upper()}{past[1:]} a part of it; {alone}."

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as plain data (JSON)."""
        return {"way": self.way, "alone": self.alone.to_dict(), "past": self.past}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Origin:
        """Build an origin from :meth:`to_dict`."""
        return cls(data["way"], PrivacyLoss.from_dict(data["alone"]), int(data["past"]))
