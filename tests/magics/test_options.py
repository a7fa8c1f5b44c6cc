"""An option is declared once: Python, cells, completion and the service know the same ones."""

from __future__ import annotations

import inspect
import json
from types import SimpleNamespace
from typing import get_args

import pytest
from jsonschema import Draft202012Validator

import dpnb
from dpnb.answers.options import OPTIONS as INFERENCE
from dpnb.decide import options as decide
from dpnb.discover.request import OPTIONS as DISCOVERY
from dpnb.explain.options import OPTIONS as EXPLANATION
from dpnb.magics.arguments import _READERS, read
from dpnb.magics.cells import Dpnb
from dpnb.magics.completion import candidates
from dpnb.magics.lines import options_of
from dpnb.releases.accuracy import OPTIONS as QUERY
from dpnb.releases.options import Written, names, schema_of

VERBS = {
    "query": (QUERY, "%%dpquery"),
    "infer": (INFERENCE, "%%dpinfer"),
    "explain": (EXPLANATION, "%%dpexplain"),
    "decide": (decide.OPTIONS, "%%dpdecide"),
    "discover": (DISCOVERY, "%dpdiscover"),
}
NOT_SAID = {"self", "sql", "question", "column", "params", "progress", "anyway"}
"""Parameters of methods that say what is asked of what, or how to wait."""
WRITTEN = {
    "text": "0.1", "number": "0.25", "whole": "3", "amount": "0.02", "names": "a, b", "by alias": "n=100,m=2",
    "percent": "2%", "parts": "topk=0.05,rank=0.1", "pair": ["1", "2"], "any or whole": "any",
    "mapping": "limits", "list": "conditions",
}  # fmt: skip
TEXTS = {
    "mode": {"explain": "paper", "decide": "rr"}, "protect": "fpr", "method": "mc", "table": "people",
    "rows": {"query": "200", "decide": "n=200"}, "lower": "0.3",
}  # fmt: skip
HELD = {"limits": {}, "conditions": ["age > 30"]}


def text_of(verb, option):
    found = TEXTS.get(option.name, WRITTEN.get(option.written))
    return found[verb] if isinstance(found, dict) else found


@pytest.mark.parametrize("verb", VERBS)
class TestEveryWay:
    def test_in_python(self, verb):
        options, _ = VERBS[verb]
        method = inspect.signature(getattr(dpnb.Session, verb)).parameters
        assert {name: one.default for name, one in method.items() if name not in NOT_SAID} == {
            option.name: option.default for option in options
        }

    def test_in_a_cell(self, verb):
        options, magic = VERBS[verb]
        flags = options_of(getattr(Dpnb, magic.lstrip("%")))
        assert len(set(flags)) == len(flags)
        told = [option.spelled for option in options if option.help]
        assert [flag for flag in flags if flag in told] == told
        assert set(told) <= set(candidates(f"{magic} ", {}))

    def test_what_a_cell_writes_is_what_the_service_takes(self, verb):
        options, _ = VERBS[verb]
        check = Draft202012Validator(schema_of(options))
        unsaid = dict.fromkeys(names(options))
        for line in (unsaid, {option.name: text_of(verb, option) or True for option in options}):
            found = read(options, SimpleNamespace(**line), HELD)
            assert found.keys() == {option.name for option in options if option.help}
            check.validate(json.loads(json.dumps(found)))
        assert all(found[option.name] != option.default for option in options if option.help)


def test_a_decision_reads_what_it_declares():
    parameters = inspect.signature(decide.read_options).parameters
    assert {name: one.default for name, one in parameters.items()} == {
        option.name: option.default for option in decide.OPTIONS
    }


def test_every_way_of_writing_is_read():
    assert {*_READERS, "alone"} == {*get_args(Written)}
    assert WRITTEN.keys() == _READERS.keys()
