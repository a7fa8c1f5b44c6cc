"""Messages that no other test meets: what is asked, and what is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from sqlglot import exp

from dpnb import (
    Budget,
    Category,
    Curator,
    Date,
    Integer,
    Policy,
    Real,
    Schema,
    Session,
    Table,
    datasets,
)
from dpnb.answers.reading import read
from dpnb.cli import _authenticator
from dpnb.decide.options import read_options
from dpnb.errors import DpnbError, given
from dpnb.estimation.blue import RowSpace
from dpnb.ledger.configuration import read_analysts, read_budget
from dpnb.magics.explaining import read_question
from dpnb.privacy.definition import PURE
from dpnb.releases.plan import basic_level
from dpnb.server.service import serve
from dpnb.server.tokens import TokenFile, revoke
from dpnb.server.wire import encode
from dpnb.sql.parser import parse

pytestmark = pytest.mark.fast

SCHEMA = Schema({"sex": Category(["F", "M"]), "n": Integer(0, 9)})
FRAME = pd.DataFrame({"sex": ["F", "M", "F"], "n": [1, 2, 3]})
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"


def table(name: str = "t", **options: Any) -> Table:
    return Table(name, FRAME, SCHEMA, **options)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(table(), budget=Budget(rho=100)) as session:
        session.query(BY_SEX, rho=1)
        yield session


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    made = Curator([table()], budget=Budget(rho=1), analysts={"alice": 4})
    yield made
    made.close()


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


DECLARED: list[tuple[Callable[[], object], str]] = [
    (lambda: Integer(0, 9, bins=5), "bins must be a list of edges, got 5"),
    (lambda: Real(0, 9, bins="ab"), "bins must be a list of edges, got 'ab'"),
    (lambda: Date("2026-01-01", "2026-12-31", bins=5), "bins must be a list of edges, got 5"),
    (
        lambda: datasets.census(rows=-1),
        "rows must be a whole number, got -1",
    ),
    (lambda: Budget(rho=1, doubling="yes"), "doubling must be True or False, got 'yes'"),
    (lambda: Budget(epsilon=1, delta=1e-6, accountant="best"), "accountant must be"),
    (lambda: Budget(rho=1, delta=1e-6, accountant="basic"), "the accountant 'basic' needs epsilon"),
    (lambda: Budget(epsilon=1, delta=0.5, accountant="gdp"), "delta must be between 1e-15 and 0.1"),
    (lambda: Budget(epsilon=51, delta=1e-6, accountant="gdp"), "epsilon must be at most 50"),
    (lambda: Budget(rho=1001, delta=1e-6, accountant="gdp"), "rho must be at most 1,000"),
    (lambda: basic_level(10**9, Budget(epsilon=1, delta=1e-6).delta), "epsilon is out of range"),
    (lambda: read_budget(None, None, None, None, {"rhoo": 1}), "[budget] has an unknown entry"),
    (lambda: read_analysts(["alice"]), "[analysts] must give each analyst a privilege"),
    (lambda: Policy(most_colluders=0), "most_colluders"),
    (lambda: read("'a' > " + " " * 20_000), "more than 2,000. Pass the weights as a mapping"),
    (lambda: read_options(u="x"), "u must be a number"),
    (lambda: read_options(ranges=("x", 5)), "ranges must be a number"),
    (lambda: read_options(ranges=(0, 1e40)), "ranges is out of range"),
    (lambda: RowSpace(0), "A domain needs at least one cell"),
    (lambda: encode(nested(300)), "a value is nested too deeply"),
]


@pytest.mark.parametrize(("wrong", "said"), DECLARED, ids=[said for _, said in DECLARED])
def test_declarations(wrong, said):
    with pytest.raises(DpnbError, match=re.escape(said)):
        wrong()


ASKED: list[tuple[Callable[[Session], object], str]] = [
    (lambda s: s.query(BY_SEX, rho=1).compare("F", "M", planned=1), "planned"),
    (lambda s: s.query(BY_SEX, rho=1).compare("F", "M", 5), "aggregate"),
    (lambda s: read_question("a", None, SimpleNamespace(of=None, planned=False),
                             {"a": s.query(BY_SEX, rho=1)}, "tight"), "there is no question"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "said"), ASKED, ids=[said for _, said in ASKED])
def test_requests(session, wrong, said):
    with pytest.raises(DpnbError, match=re.escape(said)):
        wrong(session)


OWNED: list[tuple[Callable[[Curator], object], str]] = [
    (lambda c: c.limit(5, rho=0.1), "needs the name of an analyst or a view"),
    (lambda c: c.register(["bob"]), "analysts must be a dict with privileges"),
    (lambda c: c.add_view(["sex"], bins=[1]), "bins must be a dict by column"),
    (lambda c: c.add_view(["sex"], strategy=[[1]]), "strategy"),
    (lambda c: c.add_view(["n"], bins={"n": [3, 1]}), "bins"),
    (lambda c: c.protect("SELECT COUNT(*) FROM t", ">", 2, name=5), "name of a claim"),
    (lambda c: c.risk(BY_SEX, cumulative="yes"), "cumulative"),
    (lambda c: c.unprotect("nothing"), "there is no claim 'nothing'"),
]


@pytest.mark.parametrize(("wrong", "said"), OWNED, ids=[said for _, said in OWNED])
def test_the_owners_requests(curator, wrong, said):
    with pytest.raises(DpnbError, match=re.escape(said)):
        wrong(curator)


class TestDiscovery:
    """Which table has the column."""

    @pytest.mark.parametrize(
        ("undeclared", "said"),
        [
            ((), "no table has undeclared columns"),
            (("city",), "several tables have undeclared columns"),
        ],
    )
    def test_must_be_clear(self, undeclared, said):
        frame = FRAME.assign(city="Lyon")
        schema = Schema({"sex": Category(["F", "M"])}, undeclared=undeclared)
        budget = Budget(epsilon=3, delta=1e-6, key_delta=1e-7)
        with (
            Session([Table(name, frame, schema) for name in "ab"], budget=budget) as session,
            pytest.raises(DpnbError, match=said),
        ):
            session.discover("city", rho=0.01)


def test_a_path_with_a_pattern_is_not_read(tmp_path):
    FRAME.to_parquet(tmp_path / "[a].parquet")
    with pytest.raises(DpnbError, match=r"the path contains one of"):
        Session(Table("t", tmp_path / "[a].parquet", SCHEMA), budget=Budget(rho=1))


def test_a_limit_of_pure_epsilon_is_fixed():
    made = Curator([table()], budget=Budget(epsilon=1))
    try:
        with pytest.raises(DpnbError, match=PURE):
            made.limit(epsilon=2)
    finally:
        made.close()


SERVED: list[tuple[dict[str, Any], str]] = [
    ({"host": 5}, "host must be a string and port a whole number, got 5 and 8899"),
    ({"prefix": "x"}, "the prefix must be a path that starts with /, got 'x'"),
    ({"limits": 5}, "limits must be a Limits, got 5"),
    ({"authenticator": 5}, "the authenticator must have identify(), got 5"),
    ({"tokens": 5}, "tokens, certificate and key must be paths of files"),
]


@pytest.mark.parametrize(("options", "said"), SERVED, ids=[said for _, said in SERVED])
def test_a_service(curator, options, said):
    with pytest.raises(DpnbError, match=re.escape(said)):
        serve(curator, **options)


def test_groups_are_for_a_hub_and_tokens_for_a_file(monkeypatch):
    both = SimpleNamespace(group=["analysts=4"], tokens="tokens.json")
    with pytest.raises(DpnbError, match="--group is for a JupyterHub, --tokens for a file"):
        _authenticator(both)
    monkeypatch.setattr("dpnb.cli.is_service", lambda: True)
    with pytest.raises(DpnbError, match="no group of the Hub has a privilege"):
        _authenticator(SimpleNamespace(group=[], tokens=None))


def test_a_token_of_nobody_cannot_be_revoked(tmp_path):
    from dpnb.server import tokens

    tokens.add(tmp_path / "tokens.json", "alice", [4])
    assert TokenFile(tmp_path / "tokens.json").known()
    with pytest.raises(DpnbError, match="there is no analyst 'bob'"):
        revoke(tmp_path / "tokens.json", "bob")


class TestShapes:
    """What DuckDB's reader never lets through is refused nevertheless, whatever a later version reads."""

    @pytest.mark.parametrize(
        ("sql", "change", "said"),
        [
            ("SELECT COUNT(*) FILTER (WHERE n > 3) FROM t",
             lambda tree: tree.find(exp.Filter).set("expression", exp.true()), "FILTER needs a condition"),
            ("SELECT MEDIAN(n) FILTER (WHERE n > 3) FROM t",
             lambda tree: tree.find(exp.Filter).set("expression", exp.true()), "FILTER needs a condition"),
            ("SELECT COUNT(*) FROM t", lambda tree: tree.set("hint", exp.Hint(expressions=[exp.var("x")])),
             "hints are not supported"),
            ("SELECT COUNT(*) FROM t JOIN t AS u ON t.n = u.n",
             lambda tree: tree.args["joins"][0].set("match_condition", exp.true()), "this join is not supported"),
            ("SELECT VARIANCE(n) FROM t", lambda tree: tree.find(exp.Variance).set("this", None),
             "VARIANCE takes one column"),
        ],
    )  # fmt: skip
    def test_are_refused(self, monkeypatch, sql, change, said):
        from dpnb.sql.source import Source

        read_tree = Source.tree

        def changed(source: Source) -> exp.Select:
            tree = read_tree(source)
            change(tree)
            return tree

        monkeypatch.setattr(Source, "tree", changed)
        with pytest.raises(DpnbError, match=said):
            parse(sql, {"t": table()})


class TestGiven:
    """What a message shows of an argument."""

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("yes", "'yes'"), (None, "None"), (True, "True"), (1.5, "1.5"), (95, "95"),
            ("x" * 500, repr("x" * 57 + "...")), (1 << 70, "a value of type int"),
            (FRAME, "a value of type DataFrame"), (["secret"], "a value of type list"),
        ],
    )  # fmt: skip
    def test_is_short_and_plain_or_only_its_type(self, value, shown):
        assert given(value) == shown
