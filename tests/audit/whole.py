"""The exact privacy loss of whole sessions, on tables so small that all of them can be tried.

The noise here is blind: it answers the same whatever it is given, and notes what it was given. So a session
goes the same way on neighbouring tables, as an adaptive analyst who saw the same numbers would, and what its
releases lose is a sum over its draws of how far the exact values lie apart, in noise scales. That must not
exceed what was charged. (A pure session draws a whole chain of levels at once and keeps the finer ones to
itself, so there the scale is that of the finest level that was shown.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Literal
from unittest import mock

import numpy as np
import pandas as pd

import dpnb
from dpnb import Category, Integer, Real, Schema, Table, Unit
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.privacy.calibrate import safe_scale
from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.noise import Noise
from dpnb.privacy.path import Version, variance_of
from dpnb.views.view import View
from tests.kit.loaded import LoadedEngine
from tests.kit.noise import BlindNoise, Draw

BUDGETS = {ZCDP: dpnb.Budget(rho=1_000, delta=1e-6), PURE: dpnb.Budget(epsilon=60)}
Row = tuple[Any, ...]


class Blind(BlindNoise):
    """Also stands for what draws several times at once, and selects from the middle."""

    def laplace_chain(
        self, exact: Sequence[int], levels: Sequence[Fraction], sensitivity: int, _: Noise
    ) -> tuple[Version, ...]:
        """Stand for ``privacy.path.laplace_chain``; the scale of what was shown is known at the end."""
        shown = tuple(self._pattern("chain", exact, float(sensitivity)))
        return tuple(Version(level, shown) for level in levels)

    def gaussian_around(
        self, numerators: Sequence[int], denominator: int, variance: Fraction, _: Noise
    ) -> list[int]:
        """Stand for ``privacy.noise.gaussian_around``, whose centres need not be whole."""
        scale = denominator * math.sqrt(variance)
        return [value // denominator for value in self._pattern("gaussian", numerators, scale)]

    def settled(self, finest: Sequence[Fraction]) -> tuple[Draw, ...]:
        """Return the draws; each chain at the finest level that was shown of it."""
        levels = iter(finest)
        return tuple(
            Draw("laplace", one.exact, safe_scale(next(levels), int(one.scale), PURE))
            if one.name == "chain"
            else one
            for one in self.draws
        )

    def largest(self, scores: Any, scale: float) -> int:
        self._note("largest", scores, scale)
        return len(scores) // 2

    def top_k(
        self, active: Any, scores: Any, size: int, k: int, scale: float, _: object
    ) -> list[int]:
        """Stand for ``privacy.one_off.top_k``, which leaves out the candidates whose score is 0."""
        dense = np.zeros(size, dtype=np.int64)
        dense[active] = scores
        for _ in range(k):
            self.largest(dense, scale)
        return list(range(0, size, size // k))[:k]

    def coins(self, probability: float, count: int) -> list[bool]:
        raise AssertionError("what coins are tossed for is not seen here: see cases.py")

    def below(self, count: int) -> int:
        return count - 1


def rho_of(one: Draw, other: Draw) -> float:
    """Return the rho that a draw loses between two exact inputs."""
    assert (one.name, one.scale, len(one.exact)) == (other.name, other.scale, len(other.exact))
    apart = [a - b for a, b in zip(one.exact, other.exact, strict=True)]
    if not any(apart):
        return 0.0
    if one.name == "gaussian":
        return math.fsum((step / one.scale) ** 2 for step in apart) / 2
    if one.name == "laplace":
        return (math.fsum(abs(step) / one.scale for step in apart)) ** 2 / 2
    assert one.name == "largest", f"the loss of {one.name} is not known here"
    return ((max(apart) - min(apart)) / one.scale) ** 2 / 8


def epsilon_of(one: Draw, other: Draw) -> float:
    """Return the epsilon that a draw loses between two exact inputs."""
    assert (one.name, one.scale, len(one.exact)) == (other.name, other.scale, len(other.exact))
    apart = [a - b for a, b in zip(one.exact, other.exact, strict=True)]
    assert one.name != "gaussian", "Gaussian noise in a pure session"
    if one.name == "laplace":
        return math.fsum(abs(step) / one.scale for step in apart)
    assert one.name == "largest", f"the loss of {one.name} is not known here"
    return (max(apart) - min(apart)) / one.scale


@dataclass(frozen=True)
class Run:
    """What a session drew, and what it was charged."""

    drawn: tuple[Draw, ...]
    charged: float
    privacy: PrivacyDefinition


def loss(one: Run, other: Run) -> float:
    """Return the rho, or epsilon, that a session loses between two tables."""
    lost = epsilon_of if one.privacy == PURE else rho_of
    return math.fsum(
        lost(mine, theirs) for mine, theirs in zip(one.drawn, other.drawn, strict=True)
    )


SCHEMA = Schema(
    {
        "s": Category(["a", "b"]),
        "x": Integer(-2, 3, bins=[-2, 0, 3]),
        "r": Real(0, 10, bins=[0, 5, 10]),
    }
)
ROWS: tuple[Row, ...] = (
    ("a", 3, 10.0),
    ("b", -2, 0.0),
    ("a", 9, -7.5),
    (None, None, 5.0),
    ("stranger", 1, None),
)
"""At the bounds, beyond them, missing and undeclared."""
PLAIN: tuple[Row, ...] = (("a", 3, 10.0), ("a", -2, 0.0), ("b", 3, 0.0), ("b", -2, 10.0))
"""With two values of everything: an influence needs some rows left of either group."""
BLOCKS: tuple[tuple[Row, ...], ...] = (
    (ROWS[0],),
    (ROWS[0], ROWS[0]),
    (ROWS[0], ROWS[1], ROWS[1]),
    (ROWS[1], ROWS[2], ROWS[3], ROWS[0]),
    (ROWS[4],),
)
"""All rows of one id."""


@cache
def _table(rows: tuple[Row, ...], unit: Unit | None = None) -> Table:
    columns: dict[str, Any] = {"s": "string", "x": "Int64", "r": "Float64"}
    if unit:
        frame = pd.DataFrame(rows, columns=["id", *columns]).astype({"id": "Int64"} | columns)
    else:
        frame = pd.DataFrame(rows, columns=list(columns)).astype(columns)
    return Table("t", frame, SCHEMA, unit=unit)


class _Loaded(LoadedEngine):
    """An engine of rows that another one has loaded, or kept of ids under the same key."""

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        if self._shared._key not in (b"", key):
            raise AssertionError("the key of an earlier session")
        if not self._shared._key:
            self._shared.bound(key)
        self._key = self._shared._key


@cache
def _rows(table: Table) -> DuckDBEngine:
    """Return the rows of a table, which all sessions share."""
    return DuckDBEngine(table)


Script = Callable[[dpnb.Curator], None]


def run(table: Table, script: Script, privacy: PrivacyDefinition) -> Run:
    """Return what a script draws and costs on a table."""
    noise = Blind()
    # what is kept of an id rests on the ledger's secret, which is the same on both tables
    with (
        mock.patch("secrets.token_bytes", bytes),
        mock.patch("dpnb.engines.choice.engine_of", lambda table: _Loaded(table, _rows(table))),
    ):
        curator = dpnb.Curator(table, budget=BUDGETS[privacy], noise=noise)
    with (
        mock.patch("dpnb.privacy.path.gaussian_around", noise.gaussian_around),
        mock.patch("dpnb.explain.mechanism.top_k", noise.top_k),
        mock.patch("dpnb.answers.query.laplace_chain", noise.laplace_chain),
        mock.patch("dpnb.decide.steps.laplace_chain", noise.laplace_chain),
    ):
        script(curator)
    spent, synopses = curator.budget.spent, curator._runner.store.accountant.synopses
    finest = [synopses.finest[view] for view in synopses.paths]
    curator.close()
    charged = spent.epsilon if privacy == PURE else spent.rho
    return Run(noise.settled(finest), float(charged), privacy)


def _chosen(kinds: int, most: int, *, few: bool) -> Iterator[tuple[int, ...]]:
    """Yield multisets of at most so many of ``kinds``.

    When they are to be few, those of two are each kind with the next, the last with the first, and the
    first with itself.
    """
    for size in range(most + 1):
        for chosen in itertools.combinations_with_replacement(range(kinds), size):
            if not few or size < 2 or chosen[-1] - chosen[0] in (1, kinds - 1) or not any(chosen):
                yield chosen


def row_tables(
    rows: Sequence[Row], most: int, *, few: bool = False
) -> Iterator[tuple[tuple[int, ...], Table]]:
    """Yield tables of at most so many of ``rows``, all or few, with the places of theirs."""
    for chosen in _chosen(len(rows), most, few=few):
        yield chosen, _table(tuple(rows[place] for place in chosen))


def pairs_of(
    rows: Sequence[Row], largest: Collection[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], Table]]:
    """Yield tables of some of ``rows``, named by their places, and all that have one row less."""
    fewer = {
        chosen[:place] + chosen[place + 1 :] for chosen in largest for place in range(len(chosen))
    }
    for chosen in (*largest, *sorted(fewer)):
        yield chosen, _table(tuple(rows[place] for place in chosen))


def id_tables(
    most: int, unit: Unit, *, few: bool = False
) -> Iterator[tuple[tuple[int, ...], Table]]:
    """Yield tables of at most so many ids, each with one of ``BLOCKS``; ids keep their number."""
    for chosen in _chosen(len(BLOCKS), most, few=few):
        # an id is known by its block, and by how many have the same before it
        rows = tuple(
            (10 * place + sum(chosen[i] == place for i in range(turn)), *row)
            for turn, place in enumerate(chosen)
            for row in BLOCKS[place]
        )
        yield chosen, _table(rows, unit)


def worst(
    tables: Iterator[tuple[tuple[int, ...], Table]],
    script: Script,
    privacy: PrivacyDefinition = ZCDP,
) -> tuple[float, float]:
    """Return the largest loss over all neighbouring tables, and the largest charge."""
    runs = {chosen: run(table, script, privacy) for chosen, table in tables}
    found = 0.0
    for chosen, one in runs.items():
        for place in range(len(chosen)):
            fewer = chosen[:place] + chosen[place + 1 :]
            if fewer in runs:
                found = max(found, loss(one, runs[fewer]))
    charges = {one.charged for one in runs.values()}
    assert len(charges) == 1, "what is charged depends on the data"
    return found, charges.pop()


def _at(curator: dpnb.Curator, level: str) -> dict[str, str]:
    """Return a level as an option."""
    pure = curator._runner.store.accountant.privacy == "pure"
    return {"epsilon" if pure else "rho": level}


def _queries(*statements: str, levels: Sequence[str] = ("0.5",)) -> Script:
    def script(curator: dpnb.Curator) -> None:
        session = curator.session()
        for sql in statements:
            for level in levels:
                session.query(sql, **_at(curator, level))

    return script


def _explaining(sql: str, aggregate: str, **options: Any) -> Script:
    def script(curator: dpnb.Curator) -> None:
        session = curator.session()
        question = session.query(sql, rho="0.1").compare("a", "b", aggregate)
        session.explain(question, rho=2, anyway=True, **options)

    return script


def _deciding(sql: str, **options: Any) -> Script:
    def script(curator: dpnb.Curator) -> None:
        curator.session().decide(sql, beta=0.05, **options)

    return script


def _choosing(sql: str, **options: Any) -> Script:
    def script(curator: dpnb.Curator) -> None:
        curator.risk(sql).choose(0.9, **_at(curator, "1"), **options, mode="paper")

    return script


def _counting(sql: str) -> Script:
    def script(curator: dpnb.Curator) -> None:
        curator.risk(sql).choose(guesses=90, at_most=50, **_at(curator, "1"))

    return script


PARTS = [f"SELECT COUNT(*) AS n FROM t WHERE x = {value}" for value in range(-2, 4)]
GROUPS = "SELECT s, COUNT(*) AS n, SUM(x) AS total, AVG(r) AS mean FROM t GROUP BY s"

Audited = tuple[Script, float]
"""A script, and the share of its charge that some pair of small tables loses at least. It is not all where
larger tables would be needed, or where a search stopped before all its draws."""

ON_ROWS: dict[str, Audited] = {
    "a count": (_queries("SELECT COUNT(*) FROM t"), 1),
    "a sum": (_queries("SELECT SUM(x) FROM t"), 1),
    "a sum of reals by bins": (_queries("SELECT x, SUM(r) FROM t GROUP BY x"), 1),
    "a mean": (_queries("SELECT AVG(x) AS m FROM t"), 1),
    "several aggregates": (_queries(GROUPS), 1),
    "a filter": (_queries("SELECT COUNT(*) FILTER (WHERE r > 2) AS k, COUNT(x) AS n FROM t"), 1),
    "arithmetic": (
        _queries("SELECT SUM(x * r - 2 * x) AS a, SUM(CASE WHEN r > 5 THEN -x END) AS b FROM t"),
        0.7,
    ),
    "CASE": (_queries("SELECT AVG(CASE WHEN s = 'a' THEN r END) AS m FROM t"), 1),
    "a variance": (_queries("SELECT VARIANCE(x) AS v FROM t"), 1),
    "a median": (_queries("SELECT MEDIAN(x) AS m FROM t"), 1),
    "refined": (_queries("SELECT SUM(x) FROM t", levels=("0.1", "0.3", "0.2", "1")), 1),
    "overlapping": (
        _queries("SELECT COUNT(*) FROM t", "SELECT s, COUNT(*) FROM t GROUP BY s", GROUPS),
        1,
    ),
    "disjoint parts": (_queries(*PARTS), 1),
    "disjoint parts, refined in turn": (_queries(*PARTS, levels=("0.1", "0.4")), 1),
    "a decision": (
        _deciding(
            "SELECT s FROM t GROUP BY s HAVING COUNT(*) > 5 AND SUM(x) > 3",
            u={"count": 20, "sum_x": 30},
            steps=3,
        ),
        1,
    ),
    "a quantile of the risks": (_choosing("SELECT SUM(x) AS v FROM t"), 0.25),
    "safe counts of them": (_counting("SELECT SUM(x) AS v FROM t"), 1),
    "their variance": (_choosing("SELECT SUM(x) AS v FROM t", method="variance"), 1),
}
UNIT = Unit("id", max_rows=2)
ON_IDS: dict[str, Audited] = {
    "a count": (_queries("SELECT COUNT(*) FROM t"), 1),
    "a sum": (_queries("SELECT SUM(x) FROM t"), 1),
    "groups": (_queries("SELECT s, COUNT(*) AS n FROM t GROUP BY s"), 1),
    "several aggregates": (_queries(GROUPS), 1),
    "ids": (_queries("SELECT COUNT(DISTINCT id) AS k FROM t"), 1),
    "ids of groups": (_queries("SELECT s, COUNT(DISTINCT id) AS k FROM t GROUP BY s"), 1),
    "refined": (_queries("SELECT SUM(x) FROM t", levels=("0.1", "0.3", "1")), 1),
    "disjoint parts": (_queries(*PARTS), 1),
    "a decision": (
        _deciding("SELECT s FROM t GROUP BY s HAVING COUNT(*) > 5", u=20, steps=3),
        1,
    ),
}
EXPLANATIONS: dict[str, Audited] = {
    "of counts": (_explaining(GROUPS, "n", k=2), 0.14),
    "of means": (_explaining(GROUPS, "mean", k=1, ranges=True), 0.2),
}
"""On tables of ``PLAIN`` rows."""


def less_noise() -> AbstractContextManager[object]:
    """Draw noise of a scale that is smaller by 1 %."""
    return mock.patch(
        "dpnb.privacy.path.variance_of",
        lambda sensitivity, level: variance_of(sensitivity, level * Fraction(102, 100)),
    )


def half_sensitivity() -> AbstractContextManager[object]:
    """Forget half of what an id can change."""
    right = View.lattice_sensitivity
    return mock.patch.object(
        View, "lattice_sensitivity", lambda view, privacy: right(view, privacy) // 2
    )


@dataclass(frozen=True)
class Defect:
    """What is done wrong on purpose, and where it must be found out.

    Attributes
    ----------
    name : str
    planted : callable
        The context in which it is done.
    unit : {'rows', 'ids'}
    scripts : tuple of str
        Of ``ON_ROWS`` or ``ON_IDS``.
    definitions : tuple of str
    """

    name: str
    planted: Callable[[], AbstractContextManager[object]]
    unit: Literal["rows", "ids"]
    scripts: tuple[str, ...]
    definitions: tuple[PrivacyDefinition, ...]

    def worst(self, script: str, privacy: PrivacyDefinition) -> tuple[float, float]:
        """Return the largest loss on tables of at most one row, or id, and the charge."""
        with self.planted():
            if self.unit == "rows":
                return worst(row_tables(ROWS, 1), ON_ROWS[script][0], privacy)
            return worst(id_tables(1, UNIT), ON_IDS[script][0], privacy)


DEFECTS = (
    Defect(
        "a scale smaller by 1 %",
        less_noise,
        "rows",
        ("a sum", "several aggregates", "refined", "disjoint parts"),
        (ZCDP,),
    ),
    Defect(
        "half the sensitivity",
        half_sensitivity,
        "ids",
        ("a count", "ids of groups", "refined"),
        (ZCDP, PURE),
    ),
)
