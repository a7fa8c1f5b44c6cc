"""Asks random statements of the whole grammar with one person, or one row, more and less.

    python -m tests.fuzz.neighbours --statements 10000 [--first K] [--seed N]

What all draws of a statement hide of one of them, in units of their noise, must be within the cost of the
statement. Leaves with 1 where it is not.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from unittest import mock

import numpy as np
import pyarrow as pa

from dpnb import Budget, Table
from dpnb.curator import Curator
from dpnb.errors import DpnbError, SqlError
from dpnb.ledger.accounts import ANALYST
from tests.fuzz.grammar import DECLARED, rows_of
from tests.fuzz.whole import BLOCK, statement
from tests.kit.inside import ask
from tests.kit.noise import BlindNoise, Draw

LEVEL = Fraction(1)
ROUNDED = 1e-9
"""What is lost where a scale is a float."""


def neighbours(seed: int, block: int, most: int) -> list[dict[str, pa.Table]]:
    """Return the tables of a block, and those without one person and one row of another table."""
    whole = rows_of(seed, block)
    ids = whole["visits"]["id"].to_numpy()
    rng = np.random.default_rng([seed, block])
    found = [whole]
    for who in rng.permutation(np.unique(ids))[:most]:
        less = dict(whole)
        for name in ("visits", "people"):
            less[name] = whole[name].filter(pa.array(whole[name]["id"].to_numpy() != who))
        rows = len(whole["sales"])
        if rows:
            left = np.arange(rows) != rng.integers(rows)
            less["sales"] = whole["sales"].filter(pa.array(left))
        found.append(less)
    return found


def curator_of(rows: dict[str, pa.Table]) -> tuple[Curator, BlindNoise]:
    """Open tables; which rows of a person are kept depends on that person's rows alone."""
    noise = BlindNoise()
    tables = [
        Table(name, rows[name], one.schema, one.unit, public=one.key is not None, key=one.key)
        for name, one in DECLARED.items()
    ]
    with mock.patch("secrets.token_bytes", bytes):
        return Curator(tables, budget=Budget(rho=10**9), noise=noise), noise


def used(one: list[Draw], other: list[Draw]) -> float:
    """Return the cost of telling two runs apart by what they drew."""
    assert [(draw.name, draw.scale, len(draw.exact)) for draw in one] == [
        (draw.name, draw.scale, len(draw.exact)) for draw in other
    ]
    return sum(
        sum((a - b) ** 2 for a, b in zip(mine.exact, theirs.exact, strict=True))
        / (2 * mine.scale**2)
        for mine, theirs in zip(one, other, strict=True)
    )


def examine(
    seed: int, numbers: Iterable[int], most: int = 4
) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Ask some statements, whose numbers rise; return what became of them, and what costs too little."""
    counts: Counter[str] = Counter()
    failures = []
    for block, some in itertools.groupby(numbers, lambda number: number // BLOCK):
        held = [curator_of(rows) for rows in neighbours(seed, block, most)]
        for number in some:
            asked = statement(seed, number)
            counts["asked"] += 1
            draws = []
            for curator, noise in held:
                before = len(noise.draws)
                try:
                    ask(curator, ANALYST, "query", asked.text, {"rho": LEVEL})
                except SqlError:
                    break
                except DpnbError as error:
                    failures.append((number, asked.text, f"{type(error).__name__}: {error}"))
                    break
                draws.append(noise.draws[before:])
            if not draws or not draws[0]:
                counts["refused" if not draws else "held already"] += 1
                continue
            if len(draws) < len(held):
                failures.append((number, asked.text, "was refused on one of two neighbours"))
                continue
            worst = max((used(draws[0], one) for one in draws[1:]), default=0.0)
            kinds = kinds_of(asked.text)
            for kind in kinds:
                counts[kind] += 1
                counts[f"{kind}, reached"] += worst > 0.7 * LEVEL
            if worst > float(LEVEL) * (1 + ROUNDED):
                failures.append((number, asked.text, f"uses {worst} of {LEVEL}"))
        spent = [(noise.draws, curator.budget.spent.rho) for curator, noise in held]
        for draws, cost in spent[1:]:
            whole = used(spent[0][0], draws)
            counts["blocks"] += 1
            if whole > float(cost) * (1 + ROUNDED):
                failures.append((block * BLOCK, "all together", f"uses {whole} of {float(cost)}"))
        for curator, _ in held:
            curator.close()
    return counts, failures


def kinds_of(text: str) -> list[str]:
    """Return the forms in a statement that have a sensitivity of their own."""
    marks = {
        "persons": "GROUP BY id", "a list of ids": "IN (SELECT id", "FILTER": "FILTER", "join": "JOIN",
        "COUNT(DISTINCT)": "COUNT(DISTINCT", "VARIANCE": "VAR", "quantile": "QUANTILE", "SUM": "SUM(",
        "AVG": "AVG(", "BOOL": "BOOL_", "distinct rows": "SELECT DISTINCT", "union": "UNION ALL", "rows": "FROM sales",
    }  # fmt: skip
    return ["answered", *(kind for kind, mark in marks.items() if mark in text)]


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--statements", type=int, default=1_000)
    reader.add_argument("--first", type=int, default=0)
    reader.add_argument("--seed", type=int, default=0)
    given = reader.parse_args()
    counts, failures = examine(given.seed, range(given.first, given.first + given.statements))
    for number, text, problem in failures:
        print(f"FAILED --seed {given.seed} {number}: {problem:.1000}\n    {text}")
    print("\n".join(f"{count:>10,}  {name}" for name, count in sorted(counts.items())))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
