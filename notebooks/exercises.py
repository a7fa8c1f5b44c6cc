"""Checks of the lessons' exercises."""

from __future__ import annotations

from collections.abc import Sequence


def check(
    answer: object, right: object, why: str, hints: Sequence[tuple[object, str]] = ()
) -> None:
    """Print whether an answer is right, and why, or what is wrong with it.

    `answer` is `...` as long as there is none. `right` is the right answer, or a function that is
    true of right answers. `hints` are wrong answers, or functions that are true of them, each with
    the sentence to print. The first hint that fits is printed.
    """
    if answer is ...:
        print("Not answered yet. Put your answer in place of the three dots, then run both cells.")
    elif _is(answer, right):
        print(f"✓ Right. {why}")
    elif isinstance(answer, str) and _is_number(answer):
        print(f"✗ Not yet. {answer!r} is text, not a number. Write it without quotes.")
    else:
        fitting = [sentence for wrong, sentence in hints if _is(answer, wrong)]
        print(f"✗ Not yet. {(fitting or ['Try again, or open the solution below.'])[0]}")


def letters(answer: object) -> set[str]:
    """Return the letters of an answer, however they are written: "ab", "A, B", ["a", "b"]."""
    parts = answer if isinstance(answer, (list, tuple, set)) else [answer]
    if not all(isinstance(part, str) for part in parts):
        raise TypeError("letters are text")
    return {letter for letter in "".join(map(str, parts)).casefold() if letter.isalpha()}


def _is(answer: object, wanted: object) -> bool:
    if isinstance(answer, str) and isinstance(wanted, str):
        return answer.strip().casefold() == wanted.casefold()
    try:
        return bool(wanted(answer) if callable(wanted) else answer == wanted)
    except Exception:  # noqa: BLE001  # whatever a reader puts there, it is not the answer
        return False


def _is_number(text: str) -> bool:
    try:
        float(text.strip().removesuffix("%").replace(",", ""))
    except ValueError:
        return False
    return True
