"""What stands on every result that must not be taken for a private answer about real data."""

from __future__ import annotations

from typing import Literal, TypeAlias

Stamp: TypeAlias = Literal["", "test", "rehearsal"]
"""Why a result is stamped: made with noise that is not meant for release, or from generated data."""
STAMPS: dict[Stamp, str] = {
    "": "",
    "test": "NOT PRIVATE: made with test noise.",
    "rehearsal": "GENERATED DATA: nothing here is real.",
}
"""The words of each."""
