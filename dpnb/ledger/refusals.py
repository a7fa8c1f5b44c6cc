"""Refused requests, with the limit that refused each: for the owner of the data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss, amount_text

log = logging.getLogger("dpnb.refusals")
"""One line for each refused request: analyst, kind, privacy cost, limit. No statement."""
_MOST_TEXT = 2_000
MOST_KEPT = 1_000
"""Refusals that the ledger keeps for one account: they are free, and must not fill the disk."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One request that a limit refused. Nothing was charged, and no data were read.

    Attributes
    ----------
    row : str
        The account that asked.
    verb : {'query', 'explain', 'decide', 'discover'}
    asked : str
        The statement, or a description of the request; at most 2,000 characters.
    cost : PrivacyLoss
        What it would have cost the account.
    limit : str
        The limit that refused it, in words.
    time : str
        UTC time of the first such refusal.
    """

    row: str
    verb: str
    asked: str
    cost: PrivacyLoss
    limit: str
    time: str = ""

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Refusal:
        """Read an entry of the ledger."""
        return cls(
            str(entry["analyst"]), str(entry["verb"]), str(entry["asked"]),
            PrivacyLoss.from_dict(entry["cost"]), str(entry["limit"]), str(entry["time"]),
        )  # fmt: skip

    def entry(self) -> dict[str, Any]:
        """Return the entry of the ledger, without its time."""
        return {
            "kind": "refusal", "analyst": self.row, "verb": self.verb,
            "asked": self.asked[:_MOST_TEXT], "cost": self.cost.to_dict(), "limit": self.limit,
        }  # fmt: skip

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for repeated refusals of the same request."""
        return self.row, self.verb, self.asked[:_MOST_TEXT], self.cost, self.limit

    def line(self, privacy: PrivacyDefinition) -> str:
        """Return the log line: no statement, and no number from an answer."""
        cost = f"{privacy.parameter} {amount_text(self.cost.level(privacy))}"
        if self.cost.delta:
            cost += f", delta {amount_text(self.cost.delta)}"
        return f"refused {self.row} {self.verb}: {cost}, {self.limit}"
