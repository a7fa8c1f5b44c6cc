"""What the check of an exercise says."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

pytestmark = pytest.mark.fast

PATH = Path(__file__).parents[2] / "notebooks" / "exercises.py"


@pytest.fixture(scope="module")
def exercises():
    spec = importlib.util.spec_from_file_location("exercises", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check(exercises):
    return exercises.check


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


@pytest.mark.parametrize(
    "answer", ["abe", "ABE", "a, b, e", "bea", ["a", "B", "e"], ("abe",), "'a' 'b' 'e'"]
)
def test_letters_count_however_they_are_written(exercises, answer):
    assert exercises.letters(answer) == set("abe")


@pytest.mark.parametrize("answer", [3, None, [1, 2]])
def test_what_is_no_text_has_no_letters(exercises, check, capsys, answer):
    check(
        answer,
        lambda given: exercises.letters(given) == set("abe"),
        "",
        [(lambda _: True, "Letters.")],
    )
    assert capsys.readouterr().out == "✗ Not yet. Letters.\n"


def checked(exercises, lesson, variable, answer, **names):
    """Return what the check of one exercise prints of an answer."""
    cells = json.loads(next(PATH.parent.glob(f"{lesson}*.ipynb")).read_text())["cells"]
    sources = [
        "".join(cell["source"]) for cell in cells if "check" in cell["metadata"].get("tags", [])
    ]
    (source,) = (one for one in sources if re.search(rf"check\(\n    {variable},", one))
    said = io.StringIO()
    known = {"check": exercises.check, "letters": exercises.letters, variable: answer, **names}
    with contextlib.redirect_stdout(said):
        exec(source, known)  # noqa: S102
    return said.getvalue()


def answered(sql):
    return SimpleNamespace(
        sql=sql, to_frame=lambda: pd.DataFrame({"sex": ["F", "M"], "n": [10_771, 21_790]})
    )


@pytest.mark.parametrize(
    ("lesson", "variable", "answer"),
    [("05", "times_wider", 20), ("05", "times_wider", 19.88), ("05", "times_wider", 19.9), ("06", "at_most", 1.1),
     ("06", "at_most", 1.0986), ("08", "hand_over", "B, E"), ("08", "hand_over", ["b", "e"]), ("09", "reached", "ABE"),
     ("09", "reached", "a, b, e"), ("07", "both_rho", 0.06)],
)  # fmt: skip
def test_right_answers_are_accepted_however_they_are_given(exercises, lesson, variable, answer):
    assert checked(exercises, lesson, variable, answer).startswith("✓ Right.")


@pytest.mark.parametrize(
    ("lesson", "variable", "answer", "hint"),
    [("05", "times_wider", 21, "Look at max_rows"), ("06", "at_most", 1.12, "You are near"),
     ("08", "hand_over", "BC", "The ledger holds"), ("09", "reached", "AB", "There is more"),
     ("07", "both_rho", 0.04, "Across different views, the costs add up")],
)  # fmt: skip
def test_wrong_answers_get_the_hint_that_fits(exercises, lesson, variable, answer, hint):
    assert hint in checked(exercises, lesson, variable, answer)


def test_what_another_analyst_asked_is_not_said_to_be_bobs(exercises):
    history = SimpleNamespace(to_frame=lambda: pd.DataFrame({"statement": ["SELECT 1"]}))
    bob = SimpleNamespace(history=history)
    assert "Bob paid" in checked(exercises, "09", "by_sex", answered("SELECT 1"), bob=bob)
    assert "not Bob's answer" in checked(exercises, "09", "by_sex", answered("SELECT 2"), bob=bob)


def test_a_forgotten_education_is_named(exercises):
    session = SimpleNamespace(infer=lambda sql: SimpleNamespace(estimate=float(len(sql))))
    said = checked(
        exercises,
        "03",
        "statement",
        "SELECT COUNT(*) FROM adult WHERE sex = 'Male'",
        session=session,
    )
    assert "men of every education" in said
