"""An option is declared once: Python, cells, completion and the service know the same ones."""

from __future__ import annotations

import inspect
import json
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

import dpnb
from dpnb.answers.options import OPTIONS as INFERENCE
from dpnb.decide import options as decide
from dpnb.discover.request import OPTIONS as DISCOVERY
from dpnb.explain.options import OPTIONS as EXPLANATION
from dpnb.magics.arguments import read
from dpnb.magics.cells import Dpnb
from dpnb.magics.completion import candidates
from dpnb.magics.lines import options_of
from dpnb.releases.accuracy import OPTIONS as QUERY
from dpnb.releases.options import names, read_values, schema_of

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
    "confidence": "0.8", "error": {"query": "n=100,m=2", "infer": "50", "explain": "2%"},
    "rows": {"query": "200", "decide": "n=200"}, "between": ["1", "2"], "method": "mc", "chosen": "any",
    "beta": "0.2", "alpha": "0.2", "mode": {"explain": "paper", "decide": "rr"}, "protect": "fpr", "u": "50",
    "ranges": "n=9", "steps": "3", "most": "0.02", "thresholds": "limits", "k": "3", "epsilon": "0.5",
    "rho": {"query": "0.02", "explain": "topk=0.05,rank=0.1", "discover": "0.02"}, "lower": "0.3",
    "attributes": "a, b", "exclude": "a", "length": "2", "predicates": "conditions", "table": "people",
    "delta": "1e-9",
}  # fmt: skip
"""What a cell writes after each flag that takes a value."""
HELD = {"limits": {}, "conditions": ["age > 30"]}


def text_of(verb, option):
    if option.alone:
        return True
    found = WRITTEN[option.name]
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
        for line in (
            unsaid,
            {option.name: text_of(verb, option) for option in options if option.help},
        ):
            found = read(options, SimpleNamespace(**line), HELD)
            assert found.keys() == {option.name for option in options if option.help}
            check.validate(json.loads(json.dumps(found)))
        assert all(found[option.name] != option.default for option in options if option.help)


def test_what_is_read_stays_as_it_is_when_it_is_read_again():
    for verb, (options, _) in VERBS.items():
        line = {option.name: text_of(verb, option) for option in options if option.help}
        once = read_values(options, read(options, SimpleNamespace(**line), HELD))
        assert read_values(options, once) == once
        assert all(once[option.name] is not None for option in options if option.help)
