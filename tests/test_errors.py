"""Every error says what to do about what is wrong."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest

import dpnb
from dpnb import errors

pytestmark = pytest.mark.fast

KINDS = {name for name, held in vars(errors).items() if inspect.isclass(held)}


@cache
def raised() -> list[tuple[str, ast.Call]]:
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in sorted(Path(dpnb.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and node.args
        if isinstance(node.func, ast.Name) and node.func.id in KINDS
    ]


def test_every_error_names_its_hint():
    without = []
    for place, call in raised():
        what, *others = call.args
        if isinstance(what, ast.Starred):
            continue
        named = [one.value for one in call.keywords if one.arg == "hint"]
        hint = (others or named or [ast.Constant("")])[0]
        if isinstance(hint, ast.Constant) and not hint.value:
            without.append(f"{place} {ast.unparse(what)}")
    assert without == []


def test_a_hint_is_a_sentence():
    wrong = []
    for place, call in raised():
        for one in call.args[1:2]:
            if isinstance(one, ast.Constant) and one.value:
                text = one.value
                if not (text[0].isupper() or not text[0].isalpha()) or text[-1] not in ".?!)":
                    wrong.append(f"{place} {text}")
    assert wrong == []


def test_a_message_is_one_line_of_what_where_and_how():
    error = errors.SqlError("this is odd", "Write that.", line=2, column=5, text="odd")
    assert str(error) == "this is odd (line 2, column 5: 'odd'). Write that."
    assert error._render_traceback_() == [f"SqlError: {error}"]
