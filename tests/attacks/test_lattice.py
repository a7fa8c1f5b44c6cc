"""The last bits of floating-point numbers, which give exact values away where noise is added to floats.

Mironov (2012): noise drawn and added as floats leaves holes, and which numbers can occur depends on the exact
value. Promised: released vectors lie on a lattice of public spacing, every point of which can occur on every
table; whatever is shown beside them, in any form, is computed from these points alone. Not promised: the last
digits of sums; values of Real columns are rounded to a public grid first.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.sql.parser import parse
from tests.kit.html import packed

SCHEMA = Schema({"s": Category(["a", "b"]), "r": Real(-10, 10, bins=[-10, 0, 10])})
# not one of them is a point of a coarse grid, and some are beyond the bounds
ODD = [
    0.1, 0.2, 0.30000000000000004, 1e-300, 2.0**-60, 3.3333333333333335, 9.999999999999998, -0.0, 5e-324,
    math.nan, math.inf, -math.inf, 1e17, -1 / 3, math.pi, 1 - 2.0**-53,
]  # fmt: skip
FRAME = pd.DataFrame({"s": ["a", "b"] * (len(ODD) // 2), "r": ODD})
TABLES = {
    "all": FRAME,
    "a row less": FRAME.iloc[1:],
    "a tiny row more": pd.concat([FRAME, pd.DataFrame({"s": ["a"], "r": [1e-200]})]),
    "nobody": FRAME.iloc[:0],
}
STATEMENTS = [
    "SELECT SUM(r) AS x FROM t",
    "SELECT s, SUM(r) AS x, COUNT(r) AS n FROM t GROUP BY s",
    "SELECT s, AVG(r) AS m FROM t GROUP BY s",
    "SELECT r, SUM(r * r - r / 3) AS x FROM t GROUP BY r",
    "SELECT s, SUM(r) / COUNT(*) AS f, 3 * COUNT(*) AS k FROM t GROUP BY s",
    "SELECT VARIANCE(r) AS v, STDDEV(r) AS d FROM t",
    "SELECT s, MEDIAN(r) AS q FROM t GROUP BY s",
]


class Fixed:
    """Releases the same points whatever the table."""

    def gaussian(self, exact, scale):
        return [3 * 2**40 + 12_345 * i + int(scale) % 997 for i in range(len(exact))]

    laplace = gaussian


def leaves(estimates):
    for found in estimates:
        yield from leaves(found.leaves) if found.leaves else [found]


def vectors(answer):
    """The released vectors: of a formula, those of its aggregates."""
    return [
        vector
        for found in leaves(answer.estimates)
        for vector in (found.total, found.count)
        if vector is not None
    ]


def spacings(sql, privacy):
    """The lattices of a statement's views, from what is public."""
    query = parse(sql, {"t": Table("t", FRAME.iloc[:0], SCHEMA)})
    asked = read_accuracy(query, privacy, None, **{"rho" if privacy == ZCDP else "epsilon": 1})
    return {view.granularity for view in plan(query, asked, 1, privacy).views.values()}


def opened(name="all", noise=None, **budget):
    table = Table("t", TABLES[name], SCHEMA)
    return dpnb.Session(table, budget=dpnb.Budget(**budget), noise=noise)


BUDGETS = {ZCDP: {"rho": 90}, PURE: {"epsilon": 90}}


@pytest.fixture(scope="module", params=BUDGETS)
def sessions(request):
    """A privacy definition, its unit, and a session of it on each table."""
    made = {name: opened(name, **BUDGETS[request.param]) for name in TABLES}
    yield request.param, *BUDGETS[request.param], made
    for session in made.values():
        session.close()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_released_numbers_lie_on_a_lattice_that_the_data_do_not_choose(sql, sessions):
    privacy, unit, made = sessions
    coarsest = min(spacings(sql, privacy))
    for session in made.values():
        found = vectors(session.query(sql, **{unit: 1}))
        assert found
        for value in (value for vector in found for value in vector):
            assert (Fraction(value) / coarsest).denominator == 1


@pytest.mark.parametrize("sessions", [ZCDP], indirect=True)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_every_form_holds_the_same_bits(sql, sessions):
    *_, made = sessions
    answer = made["all"].query(sql, rho=1)
    forms = [
        dpnb.answers.answer.Answer.from_dict(json.loads(json.dumps(answer.to_dict()))),
        pickle.loads(pickle.dumps(answer)),  # noqa: S301
    ]
    for form in forms:
        assert form == answer
    frame = answer.to_frame()
    lines = [*csv.DictReader(io.StringIO(frame.to_csv(index=False)))]
    for found in answer.estimates:
        shown = [math.nan if v is None else v for v in found.estimate]
        read = [float(line[found.alias] or "nan") for line in lines]
        for column in (frame[found.alias], read):
            assert np.array_equal(np.asarray(column, dtype=float), shown, equal_nan=True)
    data = packed(answer._repr_html_())["data"]
    released = {repr(value) for vector in vectors(answer) for value in vector}
    for one in data["aggregates"]:
        assert {repr(value) for value in one.get("value", [])} <= released


def shown(session, sql):
    """Every form of an answer, as it leaves."""
    ledger, answer = session.ledger, session.query(sql, rho=1)
    forms = [
        json.dumps(answer.to_dict()), json.dumps(answer.record()), answer._repr_html_(),
        json.dumps(packed(answer._repr_html_())), answer.to_frame().to_csv(), answer.to_markdown(),
        repr(answer), json.dumps(answer.widget().data), pickle.dumps(answer, 0).decode("latin-1"),
    ]  # fmt: skip
    # public names that are drawn anew for each ledger
    return [form.replace(ledger, "ledger").replace(answer.request, "request") for form in forms]


@pytest.fixture(scope="module")
def fixed():
    """A session on each table, all of which release the same points."""
    made = [opened(name, Fixed(), rho=90) for name in ("all", *TABLES)]
    yield made
    for session in made:
        session.close()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_is_shown_follows_from_the_points_alone(sql, fixed):
    """Where the same points are drawn on two tables, all forms agree to the last bit."""
    expected, *others = [shown(session, sql) for session in fixed]
    assert others == [expected] * len(TABLES)


GROUPS = 2_000


def released(value, **budget):
    """A sum for each of many groups, with a row of this value in each or with none."""
    schema = Schema({"g": Integer(0, GROUPS - 1), "r": Real(0, 1)})
    rows = pd.DataFrame({"g": range(GROUPS), "r": value}) if value is not None else None
    frame = pd.DataFrame({"g": [], "r": []}, dtype=float) if rows is None else rows
    with dpnb.Session(Table("t", frame, schema), budget=dpnb.Budget(**budget)) as session:
        answer = session.query("SELECT g, SUM(r) AS x FROM t GROUP BY g", **budget)
    return answer.estimates[0].total


def finest(value):
    """The place of the last binary digit of a float."""
    return Fraction(value).denominator.bit_length() - 1


class TestLastDigits:
    """A number whose last binary digit is very fine cannot be the sum of 1 and something."""

    FINE = 56

    @pytest.mark.parametrize("budget", [{"rho": 50}, {"epsilon": 10}], ids=[ZCDP, PURE])
    def test_they_are_the_same_on_neighbours(self, budget):
        places = {value: [*map(finest, released(value, **budget))] for value in (None, 1.0, 0.1)}
        assert len({max(found) for found in places.values()}) == 1
        assert max(places[None]) < self.FINE
        # every point of the lattice is as likely as its neighbours: half of the numbers need the last digit
        for found in places.values():
            last = sum(place == max(found) for place in found)
            assert stats.binomtest(last, GROUPS, 0.5).pvalue > 1e-9

    @pytest.mark.parametrize("budget", [{"rho": 50}, {"epsilon": 10}], ids=[ZCDP, PURE])
    def test_so_are_the_residues(self, budget):
        for value in (None, 1.0, 0.1):
            values = released(value, **budget)
            spacing = Fraction(1, 2 ** max(map(finest, values)))
            counts = np.bincount([int(Fraction(x) / spacing) % 16 for x in values], minlength=16)
            assert stats.chisquare(counts).pvalue > 1e-9

    def test_with_floating_noise_they_tell_the_tables_apart(self):
        noise = np.random.default_rng(1).laplace(0, 0.1, 20_000)
        assert max(map(finest, 1.0 + noise)) < self.FINE < max(map(finest, 0.0 + noise))
