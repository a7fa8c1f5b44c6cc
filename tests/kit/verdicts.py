"""What a benchmark must reach: one line each at the end, and exit code 1 when one is missed."""

from __future__ import annotations

import sys
from typing import NoReturn

_verdicts: list[tuple[bool, str]] = []


def must(passed: bool, what: str) -> None:
    """Note whether something reaches what it must; :func:`finish` prints it."""
    _verdicts.append((bool(passed), what))


def at_most(value: float, bound: float, what: str, unit: str = "") -> None:
    """Note a figure that must not be above a bound; the guard puts it into its table."""
    must(value <= bound, f"{what}: {_figure(value, unit)} (at most {bound:g})")


def at_least(value: float, bound: float, what: str, unit: str = "") -> None:
    """Note a figure that must not be below a bound."""
    must(value >= bound, f"{what}: {_figure(value, unit)} (at least {bound:g})")


def _figure(value: float, unit: str) -> str:
    shown = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()


def finish() -> NoReturn:
    """Print one line for each requirement and leave with 1 when one is missed."""
    print()
    for passed, what in _verdicts:
        print(f"{'PASS' if passed else 'FAIL'}  {what}")
    sys.exit(0 if all(passed for passed, _ in _verdicts) else 1)
