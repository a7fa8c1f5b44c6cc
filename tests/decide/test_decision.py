"""Decisions through a session: what they select, cost and say, and what the ledger keeps of them."""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import closing
from fractions import Fraction
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpnb
from dpnb import Category, Decision, Integer, Real, Schema, Table
from dpnb.curator import Curator
from dpnb.decide import apportion
from dpnb.decide.options import STEPS
from dpnb.decide.price import DecisionPrice
from dpnb.display.cards import decision as decision_card
from dpnb.display.cards import decision_words
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, EngineError, InterruptedRequestError, RequestError, SqlError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.runner import Runner
from tests.kit.inside import ask, owner
from tests.kit.noise import ContinuousNoise, NoNoise

SCHEMA = Schema(
    {
        "city": Category(["a", "b", "c", "d", "e", "f", "nowhere"]),
        "sex": Category(["F", "M"]),
        "age": Integer(0, 110),
        "pay": Real(-20, 80),
    },
    complete=["city", "sex", "age"],
)
SQL = "SELECT city, COUNT(*) AS n FROM t GROUP BY city HAVING COUNT(*) > 100 AND AVG(age) > 40"


def rows(count=1_500, seed=3):
    generator = np.random.default_rng(seed)
    city = generator.choice(list("abcdef"), count, p=[0.3, 0.25, 0.2, 0.15, 0.08, 0.02])
    shift = np.array([30, 50, 45, 70, 20, 60])[[list("abcdef").index(one) for one in city]]
    return pd.DataFrame(
        {
            "city": city,
            "sex": generator.choice(["F", "M"], count),
            "age": np.clip(generator.normal(shift, 15).round(), 0, 110).astype(int),
            "pay": np.where(
                generator.random(count) < 0.1,
                np.nan,
                np.clip(generator.normal(20, 20, count), -20, 80),
            ),
        }
    )


FRAME = rows()
TABLE = Table("t", FRAME, SCHEMA)
BUDGETS = {ZCDP: dpnb.Budget(rho=1000), PURE: dpnb.Budget(epsilon=1000)}


HUGE = {ZCDP: dpnb.Budget(rho=10**14), PURE: dpnb.Budget(epsilon=10**10)}


def opened(privacy=ZCDP, noise=None, **options):
    budget = BUDGETS[privacy] if noise is None else HUGE[privacy]
    return dpnb.Session(TABLE, budget=budget, noise=noise, **options)


@pytest.fixture(params=[ZCDP, PURE])
def session(request):
    return opened(request.param)


# what is selected

AGGREGATES = {
    "COUNT(*)": (0, 500),
    "COUNT(pay)": (0, 400),
    "COUNT(*) FILTER (WHERE sex = 'F')": (0, 250),
    "COUNT(DISTINCT age)": (0, 70),
    "SUM(age)": (0, 20_000),
    "SUM(pay)": (-500, 9_000),
    "AVG(age)": (10, 80),
    "AVG(pay)": (0, 40),
    "AVG(age) FILTER (WHERE sex = 'M')": (10, 80),
}


@st.composite
def comparisons(draw):
    aggregate = draw(st.sampled_from(sorted(AGGREGATES)))
    low, high = AGGREGATES[aggregate]
    number = draw(st.integers(low + 1, high)) - 0.497
    if draw(st.booleans()):
        return f"{aggregate} BETWEEN {number} AND {number + draw(st.integers(5, high))}"
    operator = draw(st.sampled_from([">", ">=", "<", "<="]))
    if draw(st.booleans()):
        return f"{number} {operator} {aggregate}"
    return f"{aggregate} {operator} {number}"


HAVINGS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=600 if os.environ.get("DPNB_LONG") == "1" else 36)
@given(
    privacy=st.sampled_from([ZCDP, PURE]),
    mode=st.sampled_from(["certified", "margin", "rr", "hybrid"]),
    having=HAVINGS,
)
def test_without_noise_a_decision_is_what_the_data_say(privacy, mode, having):
    options = {"beta": 0.01, "alpha": 0.01, "mode": mode, "history": False}
    options |= {"rows": 1, "steps": 1} if mode == "certified" else {"rows": 1}
    sql = f"SELECT city FROM t GROUP BY city HAVING {having}"
    session = opened(privacy, NoNoise())
    try:
        names = [alias for alias, _ in session.price(sql, **options, u=None).readings]
    except RequestError as error:
        assert re.search("exclude each other|every group|by the declared bounds", str(error))
        return
    made = session.decide(sql, u=dict.fromkeys(names, 0.5 if mode == "margin" else 0.02), **options)
    truth = duckdb.sql(f"SELECT city FROM FRAME GROUP BY city HAVING {having}").fetchall()
    assert [one for one in made.selected if one != "nowhere"] == sorted(city for (city,) in truth)


@pytest.mark.parametrize("privacy", [ZCDP, PURE])
def test_a_group_without_rows_counts_as_0(privacy):
    session = opened(privacy, NoNoise())
    made = session.decide("SELECT city FROM t GROUP BY city HAVING COUNT(*) < 50", u=1)
    assert "nowhere" in made.selected
    few = session.decide(
        "SELECT city FROM t GROUP BY city HAVING COUNT(*) < 50 AND AVG(age) < 110",
        u={"count": 1, "avg_age": 0.1}, rows=1, mode="rr",
    )  # fmt: skip
    assert "nowhere" not in few.selected


@pytest.mark.parametrize(
    ("operator", "there"), [(">", False), (">=", True), ("<", False), ("<=", True)]
)
def test_a_group_exactly_at_the_threshold_is_judged_as_sql_does(operator, there):
    count = int((FRAME["city"] == "c").sum())
    made = opened(noise=NoNoise()).decide(
        f"SELECT city FROM t GROUP BY city HAVING COUNT(*) {operator} {count}", mode="rr"
    )
    assert ("c" in made.selected) is there


def test_protecting_from_false_alarms_is_the_mirror():
    session = opened(noise=NoNoise())
    made = session.decide(SQL, protect="fpr", rows=100, alpha=0.05, beta=0.2)
    assert made.selected == ["b", "c", "d"]
    assert made.fpr_bound == 0.05
    assert made.condition == "n > 100 AND AVG(age) > 40"
    assert [one.sign for one in made.tests] == [-1, -1]


def test_thresholds_may_differ_by_group(session):
    quotas = {"a": 1000, "b": 1, "c": 1000, "d": 1, "e": 1000, "f": 1000, "nowhere": 1000}
    made = session.decide(
        "SELECT city FROM t GROUP BY city HAVING COUNT(*) > :quota",
        thresholds={"quota": quotas}, u=20,
    )  # fmt: skip
    assert made.selected == ["b", "d"]
    assert made.tests[0].text == "COUNT(*) > :quota"
    assert made.tests[0].limits[1] == 1
    series = session.decide(
        "SELECT city FROM t GROUP BY city HAVING COUNT(*) > :quota",
        thresholds={"quota": pd.Series(quotas)}, u=20,
    )  # fmt: skip
    assert series.stored


@pytest.mark.parametrize("mode", ["certified", "rr", "hybrid"])
def test_each_condition_has_its_own_thresholds(mode):
    names = [*"abcdef", "nowhere"]
    counts = FRAME.groupby("city").size().reindex(names, fill_value=0)
    low = {name: int(count) - (5 if name != "c" else -5) for name, count in counts.items()}
    high = {name: int(count) + (5 if name != "d" else -5) for name, count in counts.items()}
    session = opened(noise=NoNoise())
    sql = "SELECT city FROM t GROUP BY city HAVING COUNT(*) BETWEEN :low AND :high"
    made = session.decide(sql, thresholds={"low": low, "high": high}, u=1, mode=mode)
    assert made.selected == ["a", "b", "e", "f", "nowhere"]
    # written in another way it is the same decision
    turned = {(name,): low[name] for name in reversed(names)}
    assert session.decide(sql, thresholds={"low": turned, "high": high}, u=1, mode=mode).stored
    with pytest.raises(RequestError, match="twice"):
        session.decide(sql, thresholds={"low": {**low, ("a",): 5}, "high": high}, u=1)


def test_several_keys_and_none(session):
    made = session.decide("SELECT sex, city FROM t GROUP BY sex, city HAVING COUNT(*) > 150", u=10)
    assert made.keys == ("sex", "city")
    counts = FRAME.groupby(["sex", "city"]).size()
    assert made.selected == [key for key, count in counts.items() if count > 150]
    whole = session.decide("SELECT COUNT(*) AS n FROM t HAVING COUNT(*) > 100")
    assert whole.groups == ((),)
    assert whole.selected == [()]


# what it costs


def test_each_step_costs_its_increment(session):
    price = session.price(SQL, beta=0.05)
    assert isinstance(price, DecisionPrice)
    spent = [session.decide(SQL, steps=count).spent for count in range(1, 7)]
    total = session.budget.spent
    privacy = session.budget.privacy
    levels = [cost.level(privacy) for cost in price.costs]
    assert levels[0] == price.first.level(privacy) == spent[0].level(privacy)
    assert [one.level(privacy) for one in spent] == [
        after - before for before, after in zip([0, *levels], levels, strict=False)
    ]
    assert total.level(privacy) == levels[-1] == price.spent.level(privacy)
    factor = 2 if privacy == PURE else 4
    assert levels == [levels[0] * factor**step for step in range(6)]


def test_asked_again_it_is_free_and_the_same(session):
    made = session.decide(SQL)
    again = session.decide(f"  {SQL.replace('n FROM', 'n  FROM')}\n")
    assert again.stored
    assert again.spent.level(again.privacy) == 0
    assert (again.chosen, again.readings, again.taken) == (
        made.chosen, made.readings, made.taken,
    )  # fmt: skip
    assert session.price(SQL, beta=0.05).spent.level(made.privacy) == 0
    assert session.budget.spent == made.charged


def test_another_machine_may_solve_it_a_little_differently(session):
    sql = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 100 OR (SUM(age) > 900 AND COUNT(pay) > 90)"
    made = session.decide(sql, steps=2)
    spent = session.budget.spent
    original = apportion._solved

    def otherwise(*given):
        return tuple(share * (1 - 1e-7) for share in original(*given))

    with mock.patch.object(apportion, "_solved", otherwise):
        again = session.decide(sql, steps=2)
        assert again.stored
        assert (again.readings, again.tests, again.chosen) == (
            made.readings, made.tests, made.chosen,
        )  # fmt: skip
        assert session.budget.spent == spent
        third = session.decide(sql, steps=3)
    assert third.taken[:2] == made.taken
    assert third.readings[0].values != made.readings[0].values


@pytest.mark.parametrize("mode", ["certified", "margin", "rr", "hybrid"])
def test_what_was_paid_for_is_priced_at_nothing(session, mode):
    privacy = session.budget.privacy
    before = session.price(SQL, mode=mode, u={"n": 90, "avg_age": 20})
    made = session.decide(SQL, mode=mode, u={"n": 90, "avg_age": 20})
    assert made.spent.level(privacy) <= before.spent.level(privacy)
    after = session.price(SQL, mode=mode, u={"n": 90, "avg_age": 20})
    assert after.spent.level(privacy) == after.first.level(privacy) == 0


def test_a_decision_outlives_the_kernel(tmp_path):
    first = opened(ledger=tmp_path / "l")
    made = first.decide(SQL, steps=2)
    first.close()
    second = dpnb.Session(TABLE, ledger=tmp_path / "l")
    again = second.decide(SQL, steps=2)
    assert again.stored
    assert again.readings == made.readings
    more = again.refine()
    assert len(more.taken) == 3
    assert more.spent == again.next_cost
    assert more.taken[:2] == made.taken


def test_one_look_at_the_table(session):
    sql = (
        "SELECT city FROM t GROUP BY city HAVING (COUNT(*) > 100 AND AVG(age) > 40 AND SUM(pay) > 10) "
        "OR COUNT(DISTINCT age) > 20 OR COUNT(*) FILTER (WHERE sex = 'F') BETWEEN 30 AND 80"
    )
    big = {"count": 50, "avg_age": 9, "sum_pay": 500, "distinct_age": 20, "count_2": 30}
    looks = []
    original = DuckDBEngine.measure

    def measure(self, scan):
        looks.append(scan)
        return original(self, scan)

    with mock.patch.object(DuckDBEngine, "measure", measure):
        made = session.decide(sql, u=big, steps=1)
    assert len(looks) == 1
    assert len(looks[0].measures) == len(made.readings) == 5


def test_the_ledger_says_what_was_decided(session):
    session.decide(SQL, steps=2)
    session.decide(SQL, mode="rr")
    listed = [row[2] for row in session.history]
    assert [text.partition(":")[0] for text in listed] == [
        "decide, step 1", "decide, step 2", "decide, randomised response",
    ]  # fmt: skip


def test_values_of_a_decision_serve_queries_and_inference():
    session = opened()
    session.decide("SELECT city FROM t GROUP BY city HAVING COUNT(*) > 100", steps=3)
    held = session.budget.spent.rho
    price = session.price("SELECT city, COUNT(*) AS n FROM t GROUP BY city", rho=float(held) / 2)
    assert price.spent.rho == 0
    inferred = session.infer("SELECT COUNT(*) AS n FROM t")
    assert inferred.low < len(FRAME) < inferred.high or abs(inferred.estimate - 1500) < 100


# what was seen before


@pytest.mark.parametrize("privacy", [ZCDP, PURE])
def test_what_was_seen_before_decides_for_free_but_bounds_nothing(privacy):
    session = opened(privacy)
    unit = "rho" if privacy == ZCDP else "epsilon"
    session.query("SELECT city, COUNT(*) AS n FROM t GROUP BY city", **{unit: 20})
    sql = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 100"
    spent = session.budget.spent
    assert session.price(sql, beta=0.05).free
    made = session.decide(sql)
    assert session.budget.spent == spent
    assert made.status == "certified"
    assert (made.fnr_bound, made.past, made.taken) == (None, True, ())
    assert made.selected == ["a", "b", "c", "d", "e"]
    assert "released before you wrote the statement" in " ".join(
        text for _, text in decision_words.statements(made)
    )
    assert made.readings[0].values[0] == pytest.approx((FRAME.city == "a").sum(), abs=5)
    # with a bound on misses it takes noise of its own
    fresh = session.decide(sql, steps=1)
    assert fresh.fnr_bound == 0.05
    assert fresh.spent.level(session.budget.privacy) > 0
    alone = session.decide(sql, history=False)
    assert alone.fnr_bound == 0.05
    assert not alone.past


def test_the_past_takes_half_of_what_the_certificate_may_fail():
    def width(history):
        session = opened(noise=NoNoise())
        # far too coarse to narrow any interval
        session.query("SELECT city, COUNT(*) AS n FROM t GROUP BY city", rho="1e-6")
        made = session.decide(
            "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 200",
            u=20, steps=1, history=history,
        )  # fmt: skip
        assert made.past is history
        return made.readings[0].high[0] - made.readings[0].low[0]

    alone = 0.05 / 7 / STEPS
    ratio = stats.norm.isf(alone / 4) / stats.norm.isf(alone / 2)
    assert width(True) / width(False) == pytest.approx(ratio, rel=1e-3)


def test_the_bound_rests_on_fresh_noise_alone():
    # the old noise says that c is not above; fresh noise, none, says that it is
    class Late(NoNoise):
        def __init__(self):
            self.asked = 0

        def gaussian(self, exact, sigma):
            self.asked += 1
            shift = -10 * sigma if self.asked == 1 else 0
            return [value + round(shift) for value in exact]

    session = opened(noise=Late())
    answer = session.query("SELECT city, COUNT(*) AS n FROM t GROUP BY city", rho=0.0001)
    true = int((FRAME.city == "c").sum())
    assert answer.to_frame(cut=False).n[2] < true - 500
    made = session.decide(
        f"SELECT city FROM t GROUP BY city HAVING COUNT(*) > {true - 1}", u=100, steps=1
    )
    assert "c" in made.selected
    assert made.past
    # what is shown is merged with the old one
    level = Fraction(made.readings[0].level)
    weight = float(Fraction(1, 10_000) / level)
    shifted = true - 10 * weight / np.sqrt(2 * 0.0001)
    assert made.readings[0].values[2] == pytest.approx(shifted, abs=1e-3)


# what is refused


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beta": 0.5}, "below 0.5, got 0.5"),
        ({"beta": 0}, "between 0 and 1, got 0"),
        ({"beta": float("nan")}, "beta is out of range"),
        ({"beta": "x"}, "beta must be a number"),
        ({"alpha": 1}, "between 0 and 1, got 1"),
        ({"alpha": -0.1}, "between 0 and 1, got -0.1"),
        ({"alpha": 1e-10}, "at least 1e-09 and below 1, got 1e-10"),
        ({"alpha": 0.5, "mode": "rr"}, "below 0.5, got 0.5"),
        ({"mode": "best"}, "there is no mode 'best'"),
        ({"mode": "rr", "protect": "fpr"}, "does not work with mode='rr'"),
        ({"mode": "paper"}, "public"),
        ({"u": {"m": 5}}, "u is given for 'm'"),
        ({"u": 5}, "u is one number, but there are 2 aggregates"),
        ({"u": {"n": 0}}, "u of n must be above 0, got 0"),
        ({"u": {"n": 1e-25}}, "too small or too large"),
        ({"ranges": {"n": (5, 5)}}, "ranges of n must be above 0, got 0"),
        ({"steps": 7}, "6, got 7"),
        ({"steps": 0}, "6, got 0"),
        ({"most": 0}, "most must be above 0, got 0"),
        ({"most": "0.000001"}, "that you allowed"),
        ({"confidence": 1}, "between 0 and 1, got 1"),
        ({"history": "no"}, "history must be True or False, got 'no'"),
        ({"thresholds": 5}, "thresholds must be a dict"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_and_nothing_is_charged(options, text):
    session = opened()
    with pytest.raises(dpnb.DpnbError, match=text.replace("(", r"\(")):
        session.decide(SQL, **options)
    assert session.budget.spent.rho == 0


@pytest.mark.parametrize(
    ("having", "text"),
    [
        ("COUNT(*) = 5", "= cannot be decided"),
        ("COUNT(*) <> 5", "<> cannot be decided"),
        ("COUNT(*) > (SELECT 5)", "this must be a value"),
        ("COUNT(*) > age", "not a column"),
        ("COUNT(*) > 'many'", "this must be a number"),
        ("AVG(age) > 40", "depends on the number of rows in a group"),
        ("AVG(age) > 40 OR COUNT(*) > 5", "depends on the number of rows in a group"),
        ("COUNT(*) > 5 AND COUNT(*) < 3", "exclude each other"),
        ("COUNT(*) > 3 OR COUNT(*) < 5", "every group satisfies"),
        ("COUNT(*) >= 0", "always true"),
        ("COUNT(*) < 0", "never true"),
        ("AVG(age) > 110 AND COUNT(*) > 5", "never true"),
        ("SUM(age) < 0", "never true"),
        ("COUNT(*) > :quota", "has no value"),
        ("MAX(age) > 5", "MIN and MAX"),
        ("SUM(age) / COUNT(*) > 5", "compares one aggregate"),
        ("COUNT(DISTINCT age, sex) > 5", "DISTINCT. takes one column"),
        ("SUM(DISTINCT age) > 5", "single rows decide"),
        (" AND ".join(f"COUNT(*) FILTER (WHERE age > {i}) > 5" for i in range(13)), "13 different"),
    ],
)
def test_what_cannot_be_decided_is_refused(having, text):
    session = opened()
    with pytest.raises((SqlError, RequestError), match=text.replace("(", r"\(")):
        session.decide(f"SELECT city FROM t GROUP BY city HAVING {having}")
    assert session.budget.spent.rho == 0


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT city FROM t GROUP BY city", "nothing to decide"),
        ("SELECT city, COUNT(*) AS n FROM t GROUP BY city", "nothing to decide"),
        ("SELECT age FROM t GROUP BY pay HAVING COUNT(*) > 5", "no declared groups"),
        ("SELECT x FROM t GROUP BY x HAVING COUNT(*) > 5", "unknown column"),
        (f"{SQL} ORDER BY n", "all declared groups"),
        (f"{SQL} LIMIT 3", "all declared groups"),
        (
            "SELECT city, SUM(age) / COUNT(*) AS r FROM t GROUP BY city HAVING COUNT(*) > 5",
            "computed columns",
        ),
    ],
)
def test_what_is_no_decision_is_refused(sql, text):
    with pytest.raises((SqlError, RequestError), match=text):
        opened().decide(sql)


def test_thresholds_are_for_all_groups():
    session, sql = opened(), "SELECT city FROM t GROUP BY city HAVING COUNT(*) > :q"
    with pytest.raises(RequestError, match="5 of 7 groups have no threshold 'q', such as 'c'"):
        session.decide(sql, thresholds={"q": {"a": 1, "b": 2}}, u=5)
    everywhere = dict.fromkeys([*"abcdef", "nowhere"], 5)
    with pytest.raises(RequestError, match="which is not a declared group"):
        session.decide(sql, thresholds={"q": {**everywhere, "z": 5}}, u=5)
    with pytest.raises(RequestError, match="does not follow from its threshold"):
        session.decide(sql, thresholds={"q": everywhere})
    with pytest.raises(RequestError, match="the same number for all groups"):
        session.decide(sql.replace("COUNT(*)", "AVG(age)"), thresholds={"q": everywhere}, rows=5)


def test_ledgers_that_cannot_account_for_it():
    sql = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 100"
    policy = dpnb.Policy(mechanism="additive")
    curator = dpnb.Curator(TABLE, budget=dpnb.Budget(rho=1), analysts={"ann": 1}, policy=policy)
    with pytest.raises(RequestError, match="noise paths"):
        curator.session("ann").decide(sql)


# when the budget ends


def test_a_cap_too_small_for_the_first_step_says_what_would_pass():
    session = dpnb.Session(TABLE, budget=dpnb.Budget(rho=0.0001))
    assert not session.price(SQL, beta=0.05).affordable
    with pytest.raises(BudgetError, match=r"Give u={'n': 700, 'avg_age': 129} \(--u n=700,avg"):
        session.decide(SQL)
    assert session.budget.spent.rho == 0
    assert session.price(SQL, u={"n": 700, "avg_age": 129}).affordable
    # hardly less would pass
    assert not session.price(SQL, u={"n": 690, "avg_age": 127}).affordable


def test_with_nothing_left_no_wider_u_is_advised():
    session = dpnb.Session(TABLE, budget=dpnb.Budget(rho=0.0001))
    session.query("SELECT COUNT(*) AS n FROM t", rho="0.0001")
    with pytest.raises(BudgetError) as refused:
        session.decide(SQL)
    assert "times as large" not in str(refused.value)


def test_a_cap_too_small_for_the_second_step_shows_what_was_paid():
    sql = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 310"
    need = opened().price(sql, beta=0.05).first.rho
    session = dpnb.Session(TABLE, budget=dpnb.Budget(rho=need * 2))
    made = session.decide(sql, steps=3)
    assert len(made.taken) == 1
    assert "is left" in made.reason
    assert made.fnr_bound == 0.05
    assert session.budget.spent.rho == need
    # a larger budget goes on where it stopped
    assert made.next_cost.rho == need * 3


def test_a_most_is_kept(session):
    privacy = session.budget.privacy
    price = session.price(SQL, beta=0.05, alpha=0.0001)
    most = price.costs[2].level(privacy)
    made = session.decide(SQL, alpha=0.0001, most=most)
    assert len(made.taken) <= 3
    assert made.charged.level(privacy) <= most
    if len(made.taken) == 3 and made.status == "not certified":
        assert "most" in made.reason or "expected" in made.reason
    assert session.price(SQL, beta=0.05, alpha=0.01, most=most).spent.level(privacy) <= most


def test_the_most_is_of_all_steps_together(session):
    """Steps that were ordered, so that nothing else ends them before the most does."""
    costs = session.price(SQL, beta=0.05).costs
    privacy = session.budget.privacy
    made = session.decide(SQL, steps=6, most=costs[3].level(privacy) * Fraction(99, 100))
    assert len(made.taken) == 3
    assert "that you allowed (most)" in made.reason
    assert made.charged == session.budget.spent
    assert made.charged.level(privacy) == costs[2].level(privacy)


def test_hybrid_shows_its_first_pass_when_the_second_is_refused():
    # so uncertain that nearly every group is in doubt
    sql, options = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 310", {"u": 5_000}
    need = opened().price(sql, beta=0.05, mode="hybrid", **options).first.rho
    session = dpnb.Session(TABLE, budget=dpnb.Budget(rho=need * 2))
    made = session.decide(sql, mode="hybrid", **options)
    assert made.status == "partial"
    assert (made.fnr_bound, made.fpr_bound) == (0.025, None)
    assert "not paid for" in " ".join(text for _, text in decision_words.statements(made))
    assert "is left" in made.reason
    assert session.budget.spent.rho == need


def test_hybrid_shares_both_bounds_between_the_pass_and_the_response(session):
    sql = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 200"
    both = session.price(sql, mode="hybrid", u=20, beta=0.125, alpha=0.25)
    assert both.response == session.price(sql, mode="rr", beta=0.0625, alpha=0.125).response
    # six steps share a bound that is six times as large
    assert both.first == session.price(sql, u=20, beta=0.375).first


def test_a_cap_too_small_for_randomised_response_is_refused(session):
    privacy = session.budget.privacy
    price = session.price(SQL, mode="rr")
    budget = dpnb.Budget(rho=2) if privacy == ZCDP else dpnb.Budget(epsilon=2)
    assert price.ceiling.level(privacy) > 2
    small = dpnb.Session(TABLE, budget=budget)
    with pytest.raises(BudgetError, match="2 is left"):
        small.decide(SQL, mode="rr")
    assert small.budget.spent.level(privacy) == 0


def test_a_hopeless_decision_buys_nothing_more():
    # most groups lie just at the threshold
    city = np.repeat(list("abcdef"), 300)
    frame = pd.DataFrame({"city": city, "sex": "F", "age": 40, "pay": 1.0})
    session = dpnb.Session(Table("t", frame, SCHEMA), budget=dpnb.Budget(rho=1000))
    made = session.decide("SELECT city FROM t GROUP BY city HAVING COUNT(*) > 300")
    assert made.status == "not certified"
    assert "not expected" in made.reason
    assert len(made.taken) < 6
    assert made.refine().spent == made.next_cost


@pytest.mark.parametrize("by", ["refine", "widget"])
def test_what_its_asker_changes_later_is_of_no_further_step(session, by):
    """The price that is shown is that of the decision that was asked for."""
    u, params = {"n": 90.0}, {"c": 100}
    sql = "SELECT city, COUNT(*) AS n FROM t GROUP BY city HAVING COUNT(*) > :c"
    made = session.decide(sql, u=u, params=params, steps=1)
    before = session.budget.spent
    u["n"], params["c"] = 9.0, 40
    if by == "widget":
        widget = made.widget()
        widget._hear(widget, {"refine": 1}, [])
        more = widget.decision
    else:
        more = made.refine()
    assert len(more.taken) == 2
    assert more.taken[:1] == made.taken
    assert session.budget.spent - before == made.next_cost


def test_an_engine_that_fails_charges_nothing():
    session = opened()
    with (
        mock.patch.object(DuckDBEngine, "measure", side_effect=RuntimeError("exact 1234")),
        pytest.raises(EngineError) as failed,
    ):
        session.decide(SQL)
    assert "1234" not in str(failed.value)
    assert session.budget.spent.rho == 0


def test_an_interrupted_decision_shows_what_was_paid():
    session = opened()
    curator, cancel = owner(session), threading.Event()
    original = Runner.run

    def serve(self, request, event, identifier=None):
        found = original(self, request, event, identifier)
        cancel.set()
        return found

    with mock.patch.object(Runner, "run", serve):
        made = ask(curator, "analyst", "decide", SQL, {"alpha": 0.0001, "steps": 4}, cancel)
    assert len(made.taken) == 1
    assert "Interrupted" in made.reason
    early = threading.Event()
    early.set()
    with pytest.raises(InterruptedRequestError, match="Nothing was charged"):
        ask(curator, "analyst", "decide", SQL, {"beta": 0.02, "history": False}, early)


# what it says


@pytest.mark.parametrize("mode", ["rr", "margin", "certified"])
def test_bounds_are_rounded_up(session, mode):
    made = session.decide(SQL, mode=mode, beta=0.0124, alpha=0.0124, steps=1)
    said = decision_words.statements(made)[0][1]
    assert "at most 1.3 %" in said
    assert "1.2 %" not in said


def test_which_error_is_bounded_can_be_read(session):
    made = session.decide(SQL, steps=1)
    names = [name for name, _ in decision_words.statements(made)]
    assert len(names) == 3
    texts = [text for _, text in decision_words.statements(made)]
    assert "at most 5 % of being left out, whatever the data" in texts[0]
    assert texts[1].startswith("With 95 % confidence, ")
    assert "no bound" in names[2] or "only estimated" in names[2]
    response = session.decide(SQL, mode="rr")
    assert "Both errors" in decision_words.statements(response)[0][0]
    margin = session.decide(SQL, mode="margin")
    assert (
        "Closer to the thresholds, false positives are not bounded"
        in decision_words.statements(margin)[0][1]
    )


def test_an_average_alone_warns_of_empty_groups(session):
    made = session.price(
        "SELECT city FROM t GROUP BY city HAVING AVG(age) > 40", beta=0.05, rows=100
    )
    assert "Groups without rows" in made.warnings[0]
    assert session.price(SQL, beta=0.05).warnings == ()


def test_groups_that_where_excludes_are_no_groups_of_the_decision(session):
    few = "SELECT city FROM t WHERE city IN ('a', 'b') GROUP BY city HAVING COUNT(*) < 2000"
    for mode in ("certified", "rr"):
        made = session.decide(few, mode=mode, beta=1e-6)
        assert made.groups == (("a",), ("b",))
        assert made.selected == ["a", "b"]
        assert any("Groups without rows satisfy this" in one for one in made.warnings)
    with pytest.raises(RequestError, match="WHERE excludes every group"):
        session.price(
            "SELECT city, sex FROM t WHERE city = 'a' AND sex = 'F' AND (city = 'b' OR sex = 'M') "
            "GROUP BY city, sex HAVING COUNT(*) < 2000",
            beta=0.05,
        )


FILTERED = (
    "SELECT city, COUNT(*) AS people FROM t GROUP BY city HAVING COUNT(*) > 300 "
    "AND COUNT(*) FILTER (WHERE sex = 'F') > 200 AND people < 400 OR AVG(age) FILTER (WHERE sex = 'M') >= 50"
)
WORDS = (
    "(people > 300 AND COUNT(*) FILTER (WHERE sex = 'F') > 200 AND people < 400) "
    "OR AVG(age) FILTER (WHERE sex = 'M') >= 50"
)


def test_conditions_keep_their_own_words(session):
    """Not the made-up names of results, which drop filters."""
    price = session.price(FILTERED, rows=100, mode="certified")
    assert price.condition == WORDS
    assert decision_words.plan_sentences(price)[-2] == (
        "Use these aliases in options: count in COUNT(*) FILTER (WHERE sex = 'F') > 200, "
        "avg_age in AVG(age) FILTER (WHERE sex = 'M') >= 50."
    )
    u = {"people": 90, "count": 60, "avg_age": 5}
    made = session.decide(FILTERED, rows=100, u=u, steps=1)
    assert made.condition == WORDS
    assert "count_2" not in repr(made)
    assert "AVG(age) FILTER (WHERE sex = 'M') - 50, summed" in repr(made)
    assert [one.alias for one in made.readings] == ["people", "count", "avg_age"]
    assert "count" in made.to_frame()
    response = session.decide(FILTERED, mode="rr")
    assert response.condition == WORDS
    assert decision_words.plan_sentences(
        session.price(f"{SQL} AND SUM(pay) > 5 OR n > 500", mode="certified")
    )[-2] == ("Use these aliases in options: avg_age in AVG(age) > 40, sum_pay in SUM(pay) > 5.")


def test_words_that_are_the_name_of_a_result_stay(session):
    sql = "SELECT city, COUNT(*) AS count, SUM(age) AS sum_age FROM t GROUP BY city HAVING count > 5 AND SUM(age) > 9"
    assert session.price(sql, mode="rr").condition == "count > 5 AND sum_age > 9"


def test_long_words_are_cut_and_told_apart(session):
    ages = ", ".join(map(str, range(20, 70, 2)))
    sql = (
        f"SELECT city FROM t GROUP BY city HAVING COUNT(*) FILTER (WHERE age IN ({ages})) > 50 "
        f"AND COUNT(*) FILTER (WHERE age IN ({ages}, 80)) > 60"
    )
    first, second = session.price(sql, mode="rr").tests
    assert first.text.endswith("… (count) > 50")
    assert second.text.endswith("… (count_2) > 60")
    assert max(map(len, (first.text, second.text))) < 100


def test_a_refusal_of_bounds_names_the_filter(session):
    with pytest.raises(
        RequestError, match=r"COUNT\(\*\) FILTER \(WHERE sex = 'F'\) >= 0 is always"
    ):
        session.decide(
            "SELECT city FROM t GROUP BY city HAVING COUNT(*) FILTER (WHERE sex = 'F') >= 0"
        )


def test_a_dry_run_spends_nothing_and_shows_the_plan(session):
    price = session.price(SQL, beta=0.05, alpha=0.1)
    assert price.condition == "n > 100 AND AVG(age) > 40"
    assert price.implicants == ((0, 1),)
    assert [one.u / one.rows for one in price.tests] == pytest.approx([30, 5.5])
    assert sum(one.share for one in price.tests) == pytest.approx(0.05)
    assert len(price.costs) == 6
    assert session.budget.spent.level(session.budget.privacy) == 0
    assert "Randomised response" in " ".join(decision_words.plan_sentences(price))
    assert DecisionPrice.from_dict(json.loads(json.dumps(price.to_dict()))) == price


@pytest.mark.parametrize("mode", ["certified", "margin", "rr", "hybrid"])
def test_a_decision_survives_json(session, mode):
    made = session.decide(SQL, mode=mode)
    back = Decision.from_dict(json.loads(json.dumps(made.to_dict())))
    assert back == made
    frame = back.to_frame()
    assert list(frame.columns[:3]) == ["city", "selected", "verdict"]
    assert len(frame) == 7
    assert list(frame.city[frame.selected]) == made.selected
    record = json.dumps(back.record())
    assert "row (add or remove one)" in record
    with pytest.raises(RequestError, match=r"not connected to a session|no more steps"):
        back.refine()


def test_epsilons_by_group_and_their_entropy():
    session = dpnb.Session(TABLE, budget=dpnb.Budget(epsilon=50))
    made = session.decide(SQL, mode="hybrid", u={"n": 50_000, "avg_age": 3_000})
    first = float(made.taken[0].spent.epsilon)
    more = first + float(Fraction(made.response))
    assert any(made.responded)
    assert made.epsilons == pytest.approx([more if one else first for one in made.responded])
    assert 0 <= made.min_entropy <= 1
    assert opened().decide(SQL).epsilons is None


# what certified means


CROWDED = Schema({"city": Integer(0, 199)})
"""Ten cities clearly above 100, thirty exactly at it, and the rest far below."""


def crowded(at=30):
    sizes = np.repeat([170, 100, 4], [10, at, 190 - at])
    return Table("t", pd.DataFrame({"city": np.repeat(np.arange(200), sizes)}), CROWDED)


class TestCertified:
    SQL = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 100"

    def decided(self, table, privacy, seed, **options):
        budget = dpnb.Budget(**{"rho" if privacy == ZCDP else "epsilon": 10_000})
        with closing(Curator(table, budget=budget, noise=ContinuousNoise(seed))) as curator:
            return curator.session().decide(self.SQL, **options)

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_it_speaks_of_the_list(self, privacy):
        """A tenth of 190 wrong cities is more than the ten right ones."""
        wrong = []
        for seed in range(6):
            made = self.decided(crowded(), privacy, seed, alpha=0.25)
            listed = np.flatnonzero(made.chosen)
            wrong.append((listed >= 10).mean())
            assert made.false <= 0.25
            assert (listed >= 10).sum() <= made.wrong_at_most
            assert made.status == "not certified"
            for text in (str(made), made._repr_html_(), decision_card.decision_markdown(made)):
                assert (
                    f"Not certified: {made.wrong_at_most} of the {len(listed)} selected groups may "
                    "be wrong."
                ) in text
                assert "A larger share of the list may be wrong." in text
        assert min(wrong) > 0.5

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    @pytest.mark.parametrize("at", [0, 1, 2])
    def test_it_is_said_where_the_list_is_right(self, privacy, at):
        for seed in range(3):
            made = self.decided(crowded(at), privacy, seed, alpha=0.2, steps=4)
            assert made.status == "certified"
            assert made.wrong_at_most <= 0.2 * len(made.selected)
            assert "Not certified" not in str(made)
            assert made.taken[-1].wrong == made.wrong_at_most / len(made.selected)

    def test_it_does_not_go_on_for_the_other_rate(self):
        """One in five of five is a fifth of those that do not satisfy it, and little of the list."""
        frame = pd.DataFrame({"city": np.repeat(np.arange(25), [170] * 20 + [100] * 2 + [4] * 3)})
        table = Table("t", frame, Schema({"city": Integer(0, 24)}))
        made = self.decided(table, ZCDP, 1, alpha=0.1)
        assert made.status == "certified"
        assert made.false > 0.1 >= made.wrong_at_most / len(made.selected)

    def test_a_decision_that_protects_the_list_counts_both(self):
        made = self.decided(crowded(), ZCDP, 1, protect="fpr", alpha=0.05, beta=0.2)
        doubtful = made.wrong_at_most / max(len(made.selected), 1)
        assert (made.status == "certified") == (doubtful <= 0.05 and made.missed <= 0.2)
