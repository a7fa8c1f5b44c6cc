"""Stamps on results that are not private answers about real data."""

from __future__ import annotations

from typing import Literal, TypeAlias

Stamp: TypeAlias = Literal["", "test", "rehearsal"]
"""Reason for a stamp: test noise, which is not meant for release, or generated data."""
STAMPS: dict[Stamp, str] = {
    "": "",
    "test": "NOT PRIVATE: made with test noise.",
    "rehearsal": "GENERATED DATA: nothing here is real.",
}
"""Text of each stamp."""
