"""How an answer reached a requested error: from past answers, a refined one, or a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dpnb.privacy.loss import PrivacyLoss

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

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as plain data (JSON)."""
        return {"way": self.way, "alone": self.alone.to_dict(), "past": self.past}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Origin:
        """Build an origin from :meth:`to_dict`."""
        return cls(data["way"], PrivacyLoss.from_dict(data["alone"]), int(data["past"]))
