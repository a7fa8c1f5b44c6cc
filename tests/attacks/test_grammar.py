"""Statements of the whole grammar say, cost and draw the same whatever the rows are."""

from __future__ import annotations

import json
import os
from contextlib import closing
from unittest import mock

from dpnb import Budget, Table
from dpnb.answers.answer import Answer
from dpnb.curator import Curator
from dpnb.errors import DpnbError
from tests.fuzz.grammar import DECLARED, rows_of
from tests.fuzz.whole import statement
from tests.kit.noise import BlindNoise

SEED = 21
STATEMENTS = 600 if os.environ.get("DPNB_ALL") else 8
LEVEL = {"rho": 0.04}


def shown(answer: Answer) -> list[str]:
    """Return an answer in every form that leaves a session."""
    return [
        repr(answer),
        answer._repr_html_(),
        answer.to_markdown(),
        answer.to_frame(cut=False).to_csv(),
        json.dumps(answer.to_dict(), sort_keys=True),
        json.dumps(answer.record(), sort_keys=True),
    ]


def stream(block: int, texts: list[str]) -> list[object]:
    """Return all that is said of statements about the rows of a block, with the draws."""
    rows, noise = rows_of(SEED, block), BlindNoise()
    # what is public is the same: expressions may read it
    rows |= {name: rows_of(SEED, 0)[name] for name, one in DECLARED.items() if one.key}
    tables = [
        Table(name, rows[name], one.schema, one.unit, public=one.key is not None, key=one.key)
        for name, one in DECLARED.items()
    ]
    said: list[object] = []
    # the ledger's name is drawn at random, whatever the data
    with (
        mock.patch("secrets.token_bytes", bytes),
        closing(Curator(tables, budget=Budget(rho=1_000), noise=noise)) as held,
    ):
        session = held.session()
        for text in texts:
            try:
                said.append(repr(session.price(text, **LEVEL)))
                answer = session.query(text, **LEVEL)
                said += [str(answer.spent), answer.groups, sorted(answer.levels), *shown(answer)]
                if answer.hidden_by:
                    said += shown(answer.all_groups())
            except DpnbError as error:
                assert error.__cause__ is None
                said.append((type(error).__name__, str(error)))
        # the draws are asked for alike, whatever they hide
        said.append([(draw.name, len(draw.exact), draw.scale) for draw in noise.draws])
        said.append(str(session.budget.spent))
    return said


def test_nothing_rests_on_the_rows():
    texts = [statement(SEED, number).text for number in range(STATEMENTS)]
    base = stream(0, texts)
    for block in (1, 2):
        assert stream(block, texts) == base
    assert len(base) > STATEMENTS
