"""Statements of the whole grammar say, cost and draw the same whatever the rows are."""

from __future__ import annotations

import os
from contextlib import closing

from dpnb import Budget, Table
from dpnb.curator import Curator
from dpnb.errors import DpnbError
from tests.fuzz.grammar import DECLARED, rows_of
from tests.fuzz.whole import statement
from tests.kit.noise import BlindNoise

SEED = 21
STATEMENTS = 600 if os.environ.get("DPNB_ALL") else 8
LEVEL = {"rho": 0.04}


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
    with closing(Curator(tables, budget=Budget(rho=1_000), noise=noise)) as held:
        session = held.session()
        for text in texts:
            try:
                said.append(repr(session.price(text, **LEVEL)))
                answer = session.query(text, **LEVEL)
                frame = answer.to_frame()
                said.append((str(answer.spent), answer.groups, list(frame), sorted(answer.levels)))
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
