"""Checks of the lessons' exercises."""

from __future__ import annotations

from collections.abc import Sequence


def check(
    answer: object, right: object, why: str, hints: Sequence[tuple[object, str]] = ()
) -> None:
    """Say whether an answer is right, and if so, why.

    `answer` is `...` as long as there is none. `right` is the right answer, or a function that tells
    whether an answer is right. `hints` are wrong answers, or functions that tell them, each with a
    sentence that helps.
    """
    if answer is ...:
        print(
            "Not answered yet: put your answer in place of the three dots above, and run both cells."
        )
    elif _is(answer, right):
        print(f"Right. {why}")
    else:
        helpful = [sentence for wrong, sentence in hints if _is(answer, wrong)]
        print(f"Not yet. {(helpful or ['Try again, or open the solution below.'])[0]}")


def _is(answer: object, wanted: object) -> bool:
    if isinstance(answer, str) and isinstance(wanted, str):
        return answer.strip().casefold() == wanted.casefold()
    try:
        return bool(wanted(answer) if callable(wanted) else answer == wanted)
    except Exception:  # noqa: BLE001  # whatever a reader puts there, it is not the answer
        return False
