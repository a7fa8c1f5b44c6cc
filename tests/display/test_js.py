from __future__ import annotations

import itertools
import json
import math
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from dpnb.answers.compare import difference
from dpnb.answers.question import verdict
from dpnb.display.cards.answer import view_data
from dpnb.formats import end_text, figure, percent

JS = Path(__file__).parents[1] / "js"
CASES = JS / "cases.json"

_VALUES = [0.0, 0.5, 1.5, 2.5, -2.5, 0.25, 0.35, 1.005, -0.04, 12.3449, 999.5, 16115.4321,
           1234567.891, -98765.4321, 1e-5, 3e-10, 7.25e14, 1e15, -1.234e17, 1.7976931348623157e308]  # fmt: skip
_HALVES = [0.0, 1e-12, 1e-10, 0.001, 0.00046, 0.01, 0.1, 0.96, 1.0, 3.0, 10.0, 99.9, 1e6, 2e15]


def table_of_cases(answers):
    """Return what JavaScript must compute as Python does, as JSON text."""
    figures = [[value, half, figure(value, half)] for value in _VALUES for half in _HALVES]
    ends = [
        [value, half, *(end_text(value, half, side) for side in (-1, 1))]
        for value in [*_VALUES, -math.inf, math.inf]
        for half in [*_HALVES, math.inf]
        if math.isfinite(value) or half == math.inf
    ]
    questions = []
    for answer in answers:
        data = view_data(answer)
        for found, shown in zip(answer.estimates, data["aggregates"], strict=True):
            for left, first in enumerate(data["groups"]):
                for right, second in enumerate(data["groups"]):
                    if left == right:
                        continue
                    pair = {first: Fraction(1), second: Fraction(-1)}
                    low, high = difference(answer, found, pair, planned=False)
                    names = data["names"][left], data["names"][right]
                    formula = found.function == "FORMULA"
                    said = verdict(
                        *names, shown["name"], low, high, answer.confidence, kind=formula
                    )
                    questions.append([left, right, low, high, said, shown, data["names"]])
    grouped = {}
    for *case, shown, names in questions:
        key = json.dumps([shown, names])
        grouped.setdefault(key, {"aggregate": shown, "names": names, "pairs": []})
        grouped[key]["pairs"].append(case)
    verdicts = [
        [low, high, verdict("a", "b", "n", low, high, 0.95)]
        for low, high in itertools.pairwise(sorted(_VALUES))
        for low, high in [(low, high), (abs(high) / 1e4, abs(high)), (-abs(low), -abs(low) / 1e4)]
    ]
    table = {
        "figures": figures,
        "ends": [
            [str(one) if one in (-math.inf, math.inf) else one for one in case] for case in ends
        ],
        "sure": percent(0.95),
        "verdicts": verdicts,
        "unbounded": verdict("a", "b", "n", -math.inf, math.inf, 0.95),
        "questions": list(grouped.values()),
    }
    return json.dumps(table, indent=1, ensure_ascii=True) + "\n"


def test_the_table_of_cases_is_up_to_date(answer, nasty, laplace, regenerate):
    """Regenerate with ``python -m pytest tests/display --regenerate``."""
    text = table_of_cases([answer, nasty, laplace])
    if regenerate:
        CASES.write_text(text, encoding="utf-8")
    assert CASES.read_text(encoding="utf-8") == text


@pytest.mark.node
def test_javascript_computes_what_python_does():
    run = subprocess.run(
        ["node", "--test", *sorted(JS.glob("*.test.mjs"))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
