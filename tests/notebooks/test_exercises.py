"""What the check of an exercise says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

PATH = Path(__file__).parents[2] / "notebooks" / "exercises.py"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("exercises", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


HINTS = [("a", "A hint."), (lambda answer: answer < 0, "Not negative.")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (..., "Not answered yet. Put your answer"),
        (3, "✓ Right. Because.\n"),
        ("a", "✗ Not yet. A hint.\n"),
        (" A", "✗ Not yet. A hint.\n"),
        (-1, "✗ Not yet. Not negative.\n"),
        ("b", "✗ Not yet. Try again, or open the solution below.\n"),
        (None, "✗ Not yet. Try again, or open the solution below.\n"),
        ([1, 2], "✗ Not yet. Try again, or open the solution below.\n"),
    ],
)
def test_each_kind_of_answer_is_told(check, capsys, answer, said):
    check(answer, 3, "Because.", HINTS)
    assert capsys.readouterr().out.startswith(said)


def test_a_rule_may_tell_what_is_right(check, capsys):
    check(2.96, lambda answer: abs(answer - 3) < 0.1, "Near enough.")
    check("three", lambda answer: abs(answer - 3) < 0.1, "Near enough.")
    said = capsys.readouterr().out.splitlines()
    assert said == ["✓ Right. Near enough.", "✗ Not yet. Try again, or open the solution below."]


@pytest.mark.parametrize("text", ["3", " 0.03", "1,012", "5 %", "1e-6"])
@pytest.mark.parametrize("right", [3, lambda answer: abs(answer - 3) < 0.1])
def test_a_number_in_quotes_is_named_as_such(check, capsys, text, right):
    check(text, right, "Because.", [(lambda answer: True, "A hint for all.")])
    said = capsys.readouterr().out
    assert said == f"✗ Not yet. {text!r} is text, not a number. Write it without quotes.\n"
