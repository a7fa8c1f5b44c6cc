"""The help of every magic: what it does, an example that runs, all options, what it costs."""

from __future__ import annotations

import builtins
import re

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import dpnb
from dpnb.magics.cells import Dpnb

pytestmark = pytest.mark.fast

CELLS = {"dpquery", "dpinfer", "dpexplain", "dpdecide", "dprisk"}
LINES = {"dpopen", "dprehearse", "dpdiscover", "dpbudget", "dptables", "dphistory"}
NAMES = sorted(CELLS | LINES)
FREE = {"dpopen", "dprehearse", "dpinfer", "dpbudget", "dptables", "dphistory"}
BEFORE = {
    # what an example builds on
    "dpinfer": ["dpopen"],
    "dpexplain": ["dpopen", "dpquery"],
    "dpopen": [],
    "dpdiscover": [],
}


def magic(name):
    return getattr(Dpnb, name)


def help_of(name: str) -> str:
    return magic(name).__doc__


def words_of(name: str) -> str:
    """Return the help without the usage above it and the lists of options below."""
    usage, _, rest = help_of(name).partition("\n\n  %")[2].partition("\n\n")
    assert usage
    return re.split(r"\n(?:positional arguments|options):\n", rest)[0]


def examples(name: str) -> list[str]:
    """Return the cells of the example."""
    words = words_of(name)
    cells = re.findall(r"^Example: ``(%\w[^`]*)``", words, re.MULTILINE)
    for block in re.findall(r"::\n\n((?:    .*\n|\n)+)", words + "\n"):
        lines = "\n".join(line[4:] for line in block.splitlines())
        cells += [cell.strip() for cell in re.split(r"(?m)^(?=%%)", lines) if cell.strip()]
    return cells


def test_these_are_all_magics(shell):
    found = {
        name
        for kind in ("line", "cell")
        for name, held in shell.ip.magics_manager.magics[kind].items()
        if isinstance(getattr(held, "__self__", None), Dpnb)
    }
    assert found == CELLS | LINES


@pytest.mark.parametrize("name", NAMES)
class TestHelp:
    def test_begins_with_how_it_is_typed(self, name):
        sign = "%%" if name in CELLS else "%"
        assert help_of(name).startswith(f"::\n\n  {sign}{name} ")

    def test_says_in_one_line_what_it_does(self, name):
        first, _, rest = words_of(name).partition("\n")
        assert first.endswith(".")
        assert len(first) <= 100
        assert rest.startswith("\n")

    def test_says_what_it_costs(self, name):
        words = words_of(name)
        if name in FREE:
            assert re.search(r"\bfree\b", words, re.IGNORECASE)
        else:
            assert re.search(r"\bcosts?\b|nothing is spent", words)

    def test_lists_every_option_with_its_default(self, name):
        shown = " ".join(help_of(name).split())
        for action in magic(name).parser._actions:
            assert action.help, action.dest
            for option in action.option_strings:
                assert option in help_of(name)
            stated = (action.help % {}).replace("\n", " ")
            assert " ".join(stated.split()) in shown
            if action.default not in (None, False):
                assert "default" in stated, action.dest
                assert action.default in ("", "certified", "fnr", "tight") or (
                    str(action.default) in stated
                )

    def test_its_example_runs(self, name, shell, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        # some spend so much of what is left that they ask first
        monkeypatch.setattr(builtins, "input", lambda _: "y")
        assert examples(name)
        if name == "dpdiscover":
            cities = ["Ulm"] * 400 + ["Bonn"] * 300
            shell.names["people"] = dpnb.Table(
                "people",
                pd.DataFrame({"n": [1] * 700, "city": cities}),
                dpnb.Schema({"n": dpnb.Integer(0, 9)}, undeclared=["city"]),
            )
            opening = "%dpopen people --epsilon 3 --delta 1e-6 --key-delta 1e-7"
            assert shell.run(opening).error is None
        for other in BEFORE.get(name, ["dpopen"]):
            for cell in examples(other):
                assert shell.run(cell).error is None, cell
        for cell in examples(name):
            ran = shell.run(cell)
            assert ran.error is None, (cell, ran.error)


def test_an_example_of_a_cell_magic_shows_its_result(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for cell in examples("dpopen") + examples("dpquery"):
        ran = shell.run(cell)
    assert "Married-civ-spouse" in repr(ran.result)
    assert isinstance(shell.names["income"], dpnb.Answer)


def test_a_question_mark_shows_the_help(shell):
    assert isinstance(shell.ip, InteractiveShell)
    found = shell.ip.object_inspect("%dpquery")
    assert found["docstring"].strip() == help_of("dpquery").strip()
