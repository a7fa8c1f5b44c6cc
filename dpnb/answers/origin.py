"""How an answer reached a requested error: from past answers, a refined one, or a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dpnb.formats import loss_text
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
        alone = f"Asked alone, it would have cost {loss_text(self.alone, currency, delta)}"
        if self.way == "history" and not self.past:
            return f"This follows from the declared values: no row can match. {alone}."
        if self.way == "history":
            return f"Computed from {past}, without reading the data. {alone}."
        bought = "A past release was refined" if self.way == "refined" else "A new release was made"
        merged = f"{bought} and combined with {past}."
        if saved <= 0:
            return merged
        return f"{merged} {alone}. This saved {loss_text(PrivacyLoss.of(saved, currency), currency, None)}."

    def forecast(self, currency: Currency, delta: float | None) -> str:
        """Return how the answer would reach the error, and what it would cost alone."""
        alone = f"Asked alone, it would cost {loss_text(self.alone, currency, delta)}."
        if self.way == "history" and not self.past:
            return f"This follows from the declared values: no row can match. {alone}"
        past = "One past answer gives" if self.past == 1 else f"{self.past} past answers give"
        part = "this" if self.way == "history" else "a part of this"
        return f"{past} {part}. {alone}"

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as plain data (JSON)."""
        return {"way": self.way, "alone": self.alone.to_dict(), "past": self.past}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Origin:
        """Build an origin from :meth:`to_dict`."""
        return cls(data["way"], PrivacyLoss.from_dict(data["alone"]), int(data["past"]))
