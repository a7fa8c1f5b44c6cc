"""Each refusal of an explanation says what to do, and what it says is accepted."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Budget, Category, Integer, Real, Schema, Table, Unit
from dpnb.errors import RequestError
from dpnb.privacy.definition import PURE
from dpnb.releases.call import Call

COLUMNS = {
    "g": Category(["north", "south", "west"]),
    "job": Category(["a", "b", "c", "d"]),
    "sex": Category(["f", "m"]),
    "age": Integer(0, 120, bins=list(range(0, 121, 1))),
    "pay": Integer(0, 10),
    "wage": Real(0, 200),
}
SQL = "SELECT g, AVG(pay) AS m, COUNT(*) AS n, AVG(pay) - 1 AS f FROM t GROUP BY g"


def rows(count=400, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "g": rng.choice(["north", "south"], count, p=[0.7, 0.3]),
            "job": rng.choice(list("abcd"), count),
            "sex": rng.choice(["f", "m"], count),
            "age": rng.integers(0, 121, count),
            "pay": rng.integers(0, 11, count),
            "wage": rng.uniform(0, 200, count),
        }
    )


def opened(fast, columns=COLUMNS, table=None, **options):
    options = {"budget": Budget(rho=100, delta=1e-6)} | options
    made = table or Table("t", rows(), Schema(columns))
    return dpnb.Session(made, noise=fast(1), **options)


def ask(session, sql=SQL, alias="m", **accuracy):
    return session.query(sql, **({"rho": 1} | accuracy)).compare("north", "south", alias)


@pytest.fixture(scope="module")
def world(fast):
    """A session and its questions; only prices are asked of it."""
    with opened(fast) as session:
        yield SimpleNamespace(
            fast=fast, fine=fine(fast), session=session, question=ask(session), wide=wide(fast),
            refusals={},
        )  # fmt: skip


def wide(fast):
    """A session on many columns: too many sets and predicates of three."""
    many = {f"c{i}": Category([f"v{j}" for j in range(200)]) for i in range(60)}
    frame = pd.DataFrame({"g": ["north", "south"], **dict.fromkeys(many, "v0")})
    return opened(fast, table=Table("t", frame, Schema({"g": COLUMNS["g"], **many})))


def fine(fast):
    """A session on columns of so many bins that three of them have too many joint codes."""
    kind = Integer(0, 83_000, bins=list(range(83_001)))
    frame = pd.DataFrame({"g": ["north", "south"], "a": 1, "b": 2, "c": 3})
    columns = {"g": COLUMNS["g"], "a": kind, "b": kind, "c": kind}
    return opened(fast, table=Table("t", frame, Schema(columns)))


OPTIONS = [
    # refused, what the hint says, and what it says done
    ({"k": 0}, r"^Give a whole number such as 5\.$", {"k": 5}),
    ({"confidence": 1e-9}, "from 1e-06 to 0.999999999", {"confidence": 1e-6}),
    ({"confidence": 1 - 1e-12}, "from 1e-06 to 0.999999999", {"confidence": 0.999999999}),
    ({"joint": 1}, "joint=True", {"joint": True}),
    ({"mode": "fast"}, "mode='tight'", {"mode": "tight"}),
    ({"lower": 2}, "such as 0.5", {"lower": 0.5}),
    ({"rho": 1, "epsilon": 1}, "Give rho=0.05", {"rho": 0.05}),
    ({"rho": 1e-9}, "from 1e-8 to 1e6", {"rho": 1e-8}),
    ({"rho": 1e8}, "from 1e-8 to 1e6", {"rho": 1e6}),
    (
        {"rho": {"topk": 1, "influence": 1}},
        "Name each of them once, or give one number",
        {"rho": {"topk": 1, "influence": 1, "rank": 1}},
    ),
    (
        {"rho": {"topk": 1, "influence": 1, "rank": 1e9}},
        "from 1e-8 to 1e6",
        {"rho": {"topk": 1, "influence": 1, "rank": 1e6}},
    ),
    (
        {"predicates": ["age > 40"], "length": 2, "k": 1},
        "Leave out attributes, exclude, ranges, length and connective",
        {"predicates": ["age > 40"], "k": 1},
    ),
    ({"length": 4}, "such as 2", {"length": 2}),
    ({"length": 2, "connective": "xor"}, "connective='or'", {"length": 2, "connective": "or"}),
    ({"ranges": 1}, "ranges=True", {"ranges": True, "exclude": ["age"]}),
    ({"exclude": "age"}, r"exclude=\['a', 'b'\]", {"exclude": ["age", "job"], "k": 2}),
    ({"attributes": "age"}, r"attributes=\['a', 'b'\]", {"attributes": ["age", "job"]}),
    ({"attributes": ["agee"]}, "Did you mean age", {"attributes": ["age"]}),
    ({"attributes": ["job", "job"]}, "Remove one of them", {"attributes": ["job"], "k": 4}),
    ({"attributes": ["pay", "job"]}, "Name other attributes", {"attributes": ["job"], "k": 4}),
    ({"attributes": ["g"]}, "Name other attributes", {"attributes": ["sex"], "k": 2}),
    ({"attributes": ["job"], "length": 2}, "Name more columns", {"attributes": ["job", "sex"], "length": 2}),
    ({"attributes": ["job"], "length": 2}, "length=1 or less", {"attributes": ["job"], "length": 1, "k": 4}),
    ({"exclude": ["job", "sex", "age"]}, "exclude fewer", {"exclude": ["job", "sex"]}),
    ({"ranges": True}, "leave ranges out", {"ranges": False}),
    ({"predicates": "age > 40"}, r'predicates=\["age > 40"\]', {"predicates": ["age > 40"], "k": 1}),
    (
        {"predicates": [f"wage > {i / 10}" for i in range(1_001)]},
        "List fewer",
        {"predicates": [f"wage > {i / 10}" for i in range(1_000)]},
    ),
    ({"predicates": []}, r'such as \["age > 40"\]', {"predicates": ["age > 40"], "k": 1}),
    ({"predicates": [7]}, r'predicates=\["age > 40"\]', {"predicates": ["age > 40"], "k": 1}),
    ({"predicates": ["age > 7", "NOT age <= 7"]}, "Remove one of them", {"predicates": ["age > 7"], "k": 1}),
    ({"predicates": ["job = 'z'"]}, "'a', 'b'", {"predicates": ["job = 'a'"], "k": 1}),
    (
        {"predicates": ["age > 7 ORDER BY age"]},
        "Order by|column|alias|Write|aggregate",
        {"predicates": ["age > 7"], "k": 1},
    ),
    ({"predicates": ["age > 7;"]}, "Write only what would follow WHERE", {"predicates": ["age > 7"], "k": 1}),
]  # fmt: skip
WIDE = [
    ({"length": 3}, "Name fewer attributes", {"length": 3, "attributes": ["c0", "c1", "c2"]}),
    ({"length": 3}, "or a smaller length", {"length": 1}),
    (
        {"length": 3, "connective": "or", "attributes": ["c0", "c1", "c2"]},
        "a smaller length",
        {"length": 2, "connective": "or", "attributes": ["c0", "c1", "c2"]},
    ),
]


def anew(world, **change):
    """A question that was changed by hand, and the same asked anew."""
    return (
        lambda: world.session.price(replace(world.question, **change)),
        lambda: world.session.price(ask(world.session)),
    )


def no_question(world):
    answer = world.session.query(SQL, rho=1)
    return (
        # not through the waiting thread, whose errors keep no frames
        lambda: world.session._backend.price(Call("explain", None, {})),
        lambda: world.session.price(answer.compare("north", "south")),
    )


def pure(world):
    session = dpnb.Session(Table("t", rows(), Schema(COLUMNS)), budget=Budget(epsilon=9))
    other = opened(world.fast, budget=Budget(epsilon=3, delta=1e-6))
    sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    return (
        lambda: session.price(ask(session, sql, "n", rho=None, epsilon=1)),
        lambda: other.price(ask(other, sql, "n", rho="0.1")),
    )


def elsewhere(world):
    other = opened(world.fast)
    return lambda: other.price(world.question), lambda: other.price(ask(other))


def worked_out(world):
    """A free answer, of which nothing was bought; the same is bought without past answers."""
    session = opened(world.fast, table=Table("t", rows(), Schema(COLUMNS, complete=["sex"])))
    fine = "SELECT g, sex, COUNT(*) AS n FROM t GROUP BY g, sex"
    sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    session.query(fine, rho=1)
    free = ask(session, sql, "n", rho=None, error=50)
    return (
        lambda: session.price(free),
        lambda: session.price(ask(session, sql, "n", rho=None, error=50, history=False)),
    )


def older(world, tmp_path):
    first = opened(world.fast, ledger=tmp_path / "l")
    question = ask(first)
    first.close()
    changed = Table("t", rows(seed=2), Schema(COLUMNS))
    newer = opened(world.fast, table=changed, ledger=tmp_path / "l", budget=None, new_version=True)
    return lambda: newer.price(question), lambda: newer.price(ask(newer))


def other_aggregate(world, alias, instead):
    return (
        lambda: world.session.price(ask(world.session, alias=alias)),
        lambda: [world.session.price(ask(world.session, alias=name)) for name in instead],
    )


def of_ids(world):
    frame = rows().assign(person=range(400))
    schema = Schema({**COLUMNS, "person": Integer(0, 400)})
    table = Table("t", frame, schema, unit=Unit("person", max_rows=2))
    session = opened(world.fast, table=table)
    sql = (
        "SELECT g, COUNT(DISTINCT person) AS u, COUNT(*) AS n, SUM(pay) AS s, AVG(pay) AS m "
        "FROM t GROUP BY g"
    )
    return (
        lambda: session.price(ask(session, sql, "u")),
        lambda: [session.price(ask(session, sql, name)) for name in ("n", "s", "m")],
    )


def unnamed(world):
    """Hardly anything is left, of which a fifth would tell nothing of a difference of 150 rows."""
    session = opened(world.fast, budget=Budget(rho="1.002"))
    question = ask(session, alias="n")

    def named():
        assert session.price(question, error=0.2).margin_of_error == pytest.approx(0.2)
        session.explain(question, k=1, rho="0.001")
        assert session.explain(question, k=1).stored
        assert session.explain(question, k=2, anyway=True).spent.rho > 0

    return lambda: session.explain(question), named


def too_few(world):
    """120 rows and more, and a margin of error of 200: the rho of the hint makes it half of them."""
    session = opened(world.fast)
    question = ask(session, alias="n")

    def enough():
        with pytest.raises(RequestError) as caught:
            session.explain(question, rho="0.001")
        rho = re.search(r"rho=(\S+) or more", caught.value.hint)[1]
        assert session.explain(question, rho=rho).spent.rho > 0

    return lambda: session.explain(question, rho="0.001"), enough


def static(world):
    def one(views):
        policy = dpnb.Policy(views=views)
        curator = dpnb.Curator(
            Table("t", rows(), Schema(COLUMNS)), budget=Budget(rho=9), noise=world.fast(1),
            analysts={"alice": 1}, policy=policy,
        )  # fmt: skip
        curator.add_view(["g"])
        session = curator.session("alice")
        return lambda: session.price(
            ask(session, "SELECT g, COUNT(*) AS n FROM t GROUP BY g", "n", rho="0.1")
        )

    return one("equal"), one("water-filling")


def declared(world, columns, session, **options):
    """Without bins for a column: the line of the hint, put into the schema, makes a candidate of it."""
    question = ask(session)

    def done():
        with pytest.raises(RequestError) as caught:
            session.price(question, **options)
        line = re.search(r'"wage": dpnb\.Real\(.*?\]\)', caught.value.hint)[0]
        kinds = eval(f"{{{line}}}", {"dpnb": dpnb})  # noqa: S307
        binned = opened(world.fast, columns={**columns, **kinds})
        assert binned.price(ask(binned), k=4, **options).candidates == 4

    return lambda: session.price(question, **options), done


def no_candidates(world):
    bare = {name: COLUMNS[name] for name in ("g", "pay", "wage")}
    return declared(world, bare, opened(world.fast, columns=bare))


def two_values(world):
    """One bin cannot tell 0 from 1: a condition can."""
    columns = {name: COLUMNS[name] for name in ("g", "pay")} | {"age": Integer(0, 1)}
    session = opened(world.fast, columns=columns)
    return (
        lambda: session.price(ask(session)),
        lambda: session.price(ask(session), predicates=["age > 0"], k=1),
    )


def nothing_else(world):
    session = opened(world.fast, columns={name: COLUMNS[name] for name in ("g", "pay")})
    return (
        lambda: session.price(ask(session)),
        lambda: session.price(ask(session), predicates=["pay > 4"], k=1),
    )


def as_dear(world):
    """An error out of range, and the margin of error that the price shows."""
    price = world.session.price(world.question)
    return (
        lambda: world.session.price(world.question, error=1e-12),
        lambda: world.session.price(world.question, error=price.margin_of_error),
    )


ELSE = {
    "a forged text": ("Compare the groups again", lambda w, _: anew(w, aggregate="\ud800")),
    "a forged weight": ("numbers up to 1,000,000,000", lambda w, _: anew(w, weights=(1e300, -1.0))),
    "a forged place": ("Compare the groups again", lambda w, _: anew(w, index=9)),
    "a forged group": ("Declared: 'north', 'south'", lambda w, _: anew(w, groups=(("north",), ("moon",)))),
    "a group twice": ("Name each group once", lambda w, _: anew(w, groups=(("north",), ("north",)))),
    "no question": (r"answer\.compare\('a', 'b'\)", lambda w, _: no_question(w)),
    PURE: (r"new ledger with Budget\(epsilon=3, delta=1e-6\)", lambda w, _: pure(w)),
    "another session": ("Ask the query here first", lambda w, _: elsewhere(w)),
    "worked out": (r"history=False \(--no-history\)", lambda w, _: worked_out(w)),
    "older data": ("Ask the query here first", older),
    "computed": ("a COUNT, SUM or AVG", lambda w, _: other_aggregate(w, "f", ["m", "n"])),
    "ids": (r"COUNT\(\*\), a SUM or an AVG", lambda w, _: of_ids(w)),
    "static": (r"Policy\(views='water-filling'\)", lambda w, _: static(w)),
    "no bins": ("declare bins in the schema", lambda w, _: no_candidates(w)),
    "no bins for the attribute": (
        "declare bins in the schema",
        lambda w, _: declared(w, COLUMNS, w.session, attributes=["wage"]),
    ),
    "two values": (r'list conditions as predicates, such as \["age > 0"\]', lambda w, _: two_values(w)),
    "no columns": ("List conditions as predicates", lambda w, _: nothing_else(w)),
    "error": (r"session\.price\(question\)", lambda w, _: as_dear(w)),
    "too few rows": (r"^Give rho=0\.\d+ or more\. Compare larger groups", lambda w, _: too_few(w)),
    "all noise": (r"rho=\.\.\., or error=0\.2", lambda w, _: unnamed(w)),
}  # fmt: skip


def refused(world, name, request):
    """The hint of a refusal, and the lines that it came through; each request is made once."""
    if name not in world.refusals:
        with pytest.raises(RequestError) as caught:
            request()
        lines = [(Path(entry.path), entry.lineno + 1) for entry in caught.traceback]
        world.refusals[name] = caught.value.hint, lines
    return world.refusals[name]


def of(session):
    """The question of the wide table, or of the other one."""
    columns = session._backend.tables["t"].schema
    sql = SQL if "pay" in columns else "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    return ask(session, sql, "m" if "pay" in columns else "n")


def price(world, where, options):
    session = getattr(world, where)
    return session.price(of(session), **options)


CASES = [
    *(("session", *case) for case in OPTIONS),
    *(("wide", *case) for case in WIDE),
    ("fine", {"length": 3}, "a smaller length", {"length": 2}),
]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{c[1]!s:.50}" for c in CASES])
def test_options_as_the_hint_says_are_accepted(case, world):
    where, options, hint, done = CASES[case]
    said, _ = refused(world, case, partial(price, world, where, options))
    assert re.search(hint, said), said
    price(world, where, done)


@pytest.mark.parametrize("case", ELSE)
def test_what_the_hint_says_is_accepted(case, world, tmp_path):
    hint, make = ELSE[case]
    wrong, right = make(world, tmp_path)
    said, _ = refused(world, case, wrong)
    assert re.search(hint, said), said
    right()


def test_every_refusal_is_among_them(world, tmp_path):
    """Each place in dpnb/explain that raises an error was reached above."""
    folder = Path(dpnb.__file__).parent / "explain"
    places = {
        (path.name, node.lineno, node.end_lineno)
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and "RequestError" in ast.unparse(node)
    }
    requests = {
        **{i: partial(price, world, *case[:2]) for i, case in enumerate(CASES)},
        # of these only what was not made above is made here
        **{name: lambda m=make: m(world, tmp_path)[0]() for name, (_, make) in ELSE.items()},
    }
    reached = {
        place
        for name, request in requests.items()
        for path, at in refused(world, name, request)[1]
        if path.parent == folder
        for place in places
        if place[0] == path.name and place[1] <= at <= place[2]
    }
    assert places == reached
