"""Every error says what to do about what is wrong."""

from __future__ import annotations

import ast
import inspect
import itertools
import re

import pytest

from dpnb import errors
from tests.kit import refusals, source

pytestmark = pytest.mark.fast

SAID_ON = re.compile(r"\bwhat\b|error\.|texts\[|\*reason$")
"""Messages that come from elsewhere: a parameter, another error, a reply."""
KINDS = {name for name, held in vars(errors).items() if inspect.isclass(held)}


@pytest.fixture(scope="module")
def reader():
    return refusals.Reader()


@pytest.fixture(scope="module")
def made() -> list[tuple[str, ast.Call]]:
    """Each place that makes an error, with its file as in the list of refusals."""
    return [
        (file, node)
        for file in source.modules()
        if file != "errors.py"
        for node in source.nodes_of(file)
        if isinstance(node, ast.Call) and node.args
        if isinstance(node.func, ast.Name) and node.func.id in KINDS
    ]


def test_every_error_names_its_hint(made):
    without = []
    for place, call in made:
        what, *others = call.args
        if isinstance(what, ast.Starred):
            continue
        named = [one.value for one in call.keywords if one.arg == "hint"]
        hint = (others or named or [ast.Constant("")])[0]
        if isinstance(hint, ast.Constant) and not hint.value:
            without.append(f"{place}:{call.lineno} {ast.unparse(what)}")
    assert without == []


def test_a_hint_is_a_sentence(made):
    wrong = []
    for place, call in made:
        for one in call.args[1:2]:
            if isinstance(one, ast.Constant) and one.value:
                text = one.value
                if not (text[0].isupper() or not text[0].isalpha()) or text[-1] not in ".?!)":
                    wrong.append(f"{place}:{call.lineno} {text}")
    assert wrong == []


def test_a_message_is_one_line_of_what_where_and_how():
    error = errors.SqlError("this is odd", "Write that.", line=2, column=5, text="odd")
    assert str(error) == "this is odd (line 2, column 5: 'odd'). Write that."
    assert error._render_traceback_() == [f"SqlError: {error}"]


class TestPage:
    """docs/errors.md lists every message."""

    def test_it_is_what_the_source_says(self, reader):
        written = refusals.PAGE.read_text("utf-8")
        assert refusals.page(reader.found) == written, "run python -m tests.kit.refusals"

    def test_each_place_that_makes_an_error_is_read(self, reader, made):
        """Or says on what another error said, or what a service sent."""
        helpers = itertools.chain.from_iterable(reader.helpers.values())
        read = {
            (one.file, line)
            for one in (*reader.found, *helpers)
            for line in range(one.first, one.last + 1)
        }
        missing = [
            f"{path}: {ast.unparse(call)}"
            for path, call in made
            if (path, call.lineno) not in read and not SAID_ON.search(ast.unparse(call.args[0]))
        ]
        assert missing == []

    def test_alternatives_of_one_place_meet_their_own_hints(self, reader):
        full = [one for one in reader.found if one.what == "the disk is full"]
        assert full
        assert {one.hint for one in full} == {"Make room; nothing was charged."}
