"""Inference sees released values and public facts, nothing else: not the data, not what others hold."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.errors import DpnbError, RequestError
from dpnb.privacy.definition import PURE, ZCDP
from tests.kit.inside import ask
from tests.kit.noise import NoNoise
from tests.kit.streams import LONG, compared, entries

SCHEMA = Schema(
    {"sex": Category(["F", "M"]), "n": Integer(0, 9, bins=[0, 4, 9]), "wage": Real(0, 100)},
    complete=["sex", "n"],
)
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"
BY_BOTH = "SELECT sex, n, COUNT(*) AS k FROM t GROUP BY sex, n"
ALL = "SELECT COUNT(*) AS k FROM t"
MEN = "SELECT COUNT(*) AS k FROM t WHERE sex = 'M'"


def people(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], rows),
            "n": rng.integers(0, 10, rows),
            "wage": rng.uniform(0, 100, rows),
        }
    )


BASE = people()
# one row less, far away, nobody, and what is not in the domain
OTHERS = {
    "a neighbour": BASE.iloc[1:],
    "other people": people(900, seed=5),
    "nobody": BASE.iloc[:0],
    "strange values": pd.DataFrame(
        {"sex": ["F", "?", None], "n": [-4, 99, None], "wage": [np.nan, np.inf, -1e300]}
    ),
}


class Blind(NoNoise):
    """Releases the same numbers whatever the data are."""

    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(1)

    def gaussian(self, exact, sigma):
        return [round(50 * 2**22 + e) for e in self.generator.normal(0, sigma, len(exact))]

    def laplace(self, exact, scale):
        return [round(50 * 2**22 + e) for e in self.generator.laplace(0, scale, len(exact))]


class Untouchable:
    """An engine that must not be used."""

    def __getattr__(self, name):
        raise AssertionError(f"the engine was asked for {name}")


BUDGETS = {ZCDP: {"rho": "0.6", "delta": 1e-6}, PURE: {"epsilon": 6}}


def opened(frame=BASE, noise=None, budget=None, **options):
    # the ledger's name is drawn at random, whatever the data
    with mock.patch("secrets.token_bytes", bytes):
        return dpnb.Curator(
            Table("t", frame, SCHEMA),
            budget=dpnb.Budget(**(budget or {"rho": 1_000, "delta": 1e-6})),
            noise=noise or NoNoise(),
            **options,
        )


@pytest.fixture
def curators():
    made = []

    def open_(*arguments, **options):
        made.append(opened(*arguments, **options))
        return made[-1]

    yield open_
    for curator in made:
        curator.close()


def told(work):
    """What a result says, or the text of a refusal."""
    try:
        made = work()
    except DpnbError as error:
        return str(error)
    if isinstance(made, list):
        return [one.to_dict() for one in made]
    return made.to_dict()


def transcript(session, unit):
    """Everything that a long conversation says."""
    level = {unit: "0.02" if unit == "rho" else "0.25"}
    asked = [
        (BY_BOTH, level), (ALL, {"error": 40}), (ALL, {"error": 12}), (MEN, {"error": 10}), (ALL, {"error": 9}),
        ("SELECT AVG(wage) AS m FROM t", level), ("SELECT sex, AVG(wage) AS m FROM t GROUP BY sex", level),
        ("SELECT AVG(n) AS m FROM t", {"error": 2, "rows": 50}),
        ("SELECT SUM(n) AS s FROM t WHERE sex = 'F'", {"error": 70}),
        (BY_SEX, {"error": 5}), (BY_SEX, {"error": 1}), (ALL, {"error": 0.5}), (ALL, {"error": 12}),
    ]  # fmt: skip
    inferred = [
        (ALL, {}), (BY_SEX, {"error": 5}), (BY_SEX, {"guaranteed": True}), (ALL, {"between": (80, 120)}),
        (MEN, {"confidence": 0.8, "error": 3}), (MEN, {"prior": {"uniform": [0, 500]}}), (ALL, {"chosen": 9}),
        ("SELECT n, COUNT(*) AS k FROM t GROUP BY n", {}), ("SELECT COUNT(*) AS k FROM t WHERE n = 7", {}),
        ("SELECT AVG(wage) AS m, SUM(wage) AS s FROM t", {}), (ALL, {"error": 0}), (ALL, {"chosen": "any"}),
    ]  # fmt: skip
    # distributions of mixed Laplace noise take their time
    apart = 3 if LONG else 12
    for number, (sql, options) in enumerate(asked):
        yield told(lambda sql=sql, options=options: session.price(sql, **options))
        yield told(lambda sql=sql, options=options: session.query(sql, **options))
        yield str(session.budget)
        for other, more in inferred[number % apart :: apart]:
            yield told(lambda sql=other, options=more: session.infer(sql, **options))
    yield told(lambda: session.price([BY_SEX, ALL, MEN], error=15))
    yield [row[2:] for row in session.history.rows]


@pytest.mark.parametrize("privacy", BUDGETS)
def test_with_the_same_releases_other_data_change_nothing(privacy, curators, tmp_path):
    """Ways, levels, costs, refusals and intervals follow from what was released."""
    unit, seen = {ZCDP: "rho", PURE: "epsilon"}[privacy], []
    listed = compared(OTHERS, zcdp=("a neighbour", "strange values"), pure=("other people",))
    others = [OTHERS[name] for each, name in listed if each == privacy]
    for number, frame in enumerate([BASE, *others]):
        path = tmp_path / str(number)
        curator = curators(frame, noise=Blind(), budget=BUDGETS[privacy], ledger=path)
        said = list(transcript(curator.session(), unit))
        curator.close()
        seen.append((json.dumps(said, sort_keys=True), json.dumps(entries(path), sort_keys=True)))
    assert all(other == seen[0] for other in seen[1:])
    # and it was worth comparing
    text = seen[0][0]
    assert all(f'"way": "{way}"' in text for way in ("history", "new", "refined"))
    assert "past answers do not determine this" in text
    assert "is left" in text


@pytest.mark.parametrize("name", OTHERS)
def test_refusals_are_the_same_words_on_other_data(name):
    """Without any trick: the noise is the real one, only the refusals are compared."""
    asked = (
        ("SELECT COUNT(wage) FROM t", {}), (BY_SEX, {}), ("SELECT COUNT(*) FROM t WHERE n = 3", {}),
        ("SELECT AVG(wage) FROM t", {}), ("SELECT SUM(n) FROM t", {}), (MEN, {"method": "exact"}),
        ("SELECT n, COUNT(*) FROM t GROUP BY n", {"between": (1, 2)}),
        ("SELECT COUNT(*) * COUNT(*) AS f FROM t", {}),
    )  # fmt: skip

    def refusals(frame):
        curator = dpnb.Curator(Table("t", frame, SCHEMA), budget=dpnb.Budget(rho=1, delta=1e-6))
        with curator.session() as session:
            session.query("SELECT n, COUNT(*) AS k FROM t GROUP BY n", rho=0.1)
            found = [
                told(lambda sql=sql, more=more: session.infer(sql, **more)) for sql, more in asked
            ]
        curator.close()
        return found

    texts = refusals(BASE), refusals(OTHERS[name])
    assert all(isinstance(text, str) for text in texts[0])
    assert texts[0] == texts[1]


class TestNoWayToTheData:
    """The modules of inference lead to no engine."""

    PACKAGE = Path(dpnb.__file__).parent
    ANSWERS = (
        "domain", "evidence", "fresh", "infer", "inference", "inferred", "marginals", "estimating", "merging",
        "options", "reuse",
    )  # fmt: skip
    MODULES = (
        *sorted(PACKAGE.joinpath("estimation").glob("*.py")),
        *map(PACKAGE.joinpath("answers", "{}.py").with_stem, ANSWERS),
        PACKAGE / "releases" / "held.py",
        PACKAGE / "owner" / "claims.py",
        PACKAGE / "studies" / "bayes.py",
    )
    # decides and merges; handing a request on to the engine is its duty as a request
    REQUEST = "reuse.py"

    def imported(self, path):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                yield from ((node.module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)

    def test_they_are_found(self):
        assert {"infer.py", "evidence.py", "history.py", self.REQUEST} <= {
            path.name for path in self.MODULES
        }
        assert all(path.is_file() for path in self.MODULES)

    @pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
    def test_they_import_values_only(self, path):
        values = set()
        if path.name == self.REQUEST:
            values = {("dpnb.engines.scans", "Engine"), ("dpnb.privacy.noise", "Noise")}
        leading = ("dpnb.engines", "dpnb.privacy.noise", "dpnb.ledger.ledger", "dpnb.releases.runner", "dpnb.verbs", "dpnb.curator",
                   "dpnb.session", "dpnb.schema.table", "duckdb", "opendp", "pandas", "sqlite3")  # fmt: skip
        wrong = [
            (module, name)
            for module, name in self.imported(path)
            if module.startswith(leading) and (module, name) not in values
        ]
        # frames are made of results, never read
        assert [one for one in wrong if one != ("pandas", "")] == []

    @pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
    def test_they_measure_nothing(self, path):
        if path.name == self.REQUEST:
            return
        names = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, (ast.Attribute, ast.Name))
        }
        assert not names & {
            "measure_views",
            "marginals",
            "contributions",
            "fingerprint",
            "_engines",
            "engines",
        }

    def test_inferring_works_without_any_engine(self, curators):
        curator = curators()
        session = curator.session()
        session.query(BY_BOTH, rho=0.1)
        session.query("SELECT sex, AVG(n) AS m FROM t GROUP BY sex", rho=0.1)
        engines = curator._runner.engines
        curator._runner.engines = {"t": Untouchable()}
        try:
            assert session.infer(BY_SEX, guaranteed=True).told
            assert session.infer("SELECT COUNT(n) AS k FROM t").told
            assert session.infer("SELECT AVG(n) AS m FROM t").told
            with pytest.raises(RequestError):
                session.infer("SELECT SUM(wage) FROM t")
            found = session.query("SELECT COUNT(n) AS k FROM t", error=50)
            assert found.origin.way == "history"
            session.price(ALL, error=3)
        finally:
            curator._runner.engines = engines


class TestOthers:
    """One analyst's inference never uses what another one holds."""

    def conversation(self, curators, busy):
        curator = curators(analysts={"a": 1, "b": 1}, views=["sex"])
        alice, bob = curator.session("a"), curator.session("b")

        def others(*statements):
            for sql in statements if busy else ():
                bob.query(sql, rho=2)
                told(lambda sql=sql: bob.infer(sql))

        others(ALL, BY_SEX, "SELECT n, COUNT(*) AS k FROM t GROUP BY n")
        yield told(lambda: alice.infer(ALL))
        alice.query(BY_BOTH, rho=0.02)
        others(BY_BOTH, "SELECT COUNT(n) AS k FROM t", MEN)
        for sql in (
            ALL,
            "SELECT COUNT(n) AS k FROM t",
            BY_SEX,
            "SELECT n, COUNT(*) AS k FROM t GROUP BY n",
        ):
            yield told(lambda sql=sql: alice.infer(sql))
            yield told(lambda sql=sql: alice.infer(sql, guaranteed=True))
            price = alice.price(sql, error=20)
            yield price.origin and price.origin.past, price.widths
        yield [
            one.query("SELECT COUNT(n) AS k FROM t", error=60).to_dict()["estimates"]
            for one in [alice]
        ]

    def test_whatever_others_bought(self, curators):
        quiet, busy = (list(self.conversation(curators, busy)) for busy in (False, True))
        assert quiet == busy
        assert "no past answer to you is about this table" in quiet[0]

    def test_the_number_of_rows_that_are_searched_is_her_own(self, curators):
        curator = curators(analysts={"a": 1, "b": 1})
        alice, bob = curator.session("a"), curator.session("b")
        alice.query(BY_SEX, rho=0.02)
        for level in ("0.1", "0.2", "0.3"):
            bob.query(BY_BOTH, rho=level)
            bob.query(BY_SEX, rho=level)
        found = alice.infer(BY_SEX)
        assert len(found.joint.names) == 2
        assert [source.sd for source in found.sources] == pytest.approx([5.0, 5.0], rel=1e-6)

    def test_who_may_not_ask_may_not_infer(self, curators):
        curator = curators(analysts={"a": 1, "b": 1})
        session = curator.session("a")
        session.query(BY_SEX, rho=0.1)
        assert session.infer(BY_SEX).told
        curator.disable("a")
        with pytest.raises(RequestError):
            session.infer(BY_SEX)
        curator.enable("a")
        assert session.infer(BY_SEX).told
        with pytest.raises(DpnbError):
            ask(curator, "nobody", "infer", BY_SEX, {})

    def test_answers_about_old_data_are_left_aside(self, curators, tmp_path):
        path = tmp_path / "l"
        old = curators(ledger=path)
        old.session().query(BY_SEX, rho=1)
        old.close()
        new = curators(OTHERS["other people"], ledger=path, new_version=True)
        session = new.session()
        with pytest.raises(
            RequestError, match="no past answer to you is about this table on version 2"
        ):
            session.infer(BY_SEX)
        assert session.price(MEN, error=5).origin is None
        session.query(BY_SEX, rho=1)
        found = session.infer(BY_SEX)
        assert sum(found.estimate) == pytest.approx(900)
        assert len(found.joint.names) == 2


class TestNothingGoesBack:
    """What was inferred is no release: it is not charged, not stored, not inferred from."""

    def test_the_history_and_the_ledger_stay_as_they_are(self, curators, tmp_path):
        path = tmp_path / "l"
        curator = curators(ledger=path)
        session = curator.session()
        session.query(BY_SEX, rho=0.02)
        before, asked = entries(path), session.history.rows
        for _ in range(3):
            first = session.infer(BY_SEX).to_dict()
            assert session.query("SELECT COUNT(sex) AS k FROM t", error=30).origin.way == "history"
            assert session.query(ALL, error=30).origin.way == "history"
            session.infer(ALL, guaranteed=True)
            assert session.infer(BY_SEX).to_dict() == first
        assert entries(path) == before
        assert session.history.rows == asked
        held = curator._runner.store.accountant.synopses.held
        assert len(held) == 1

    def test_a_merged_answer_counts_once(self, curators):
        session = curators().session()
        session.query(BY_SEX, rho=0.02)
        session.query(ALL, error=10)
        found = session.infer(ALL)
        names = [name.rpartition("/")[0] for name in found.joint.names]
        # the sum of one release's two groups, one value of the other; the merged value is none
        assert len(names) == len(set(names)) == 2
        wanted = 1 / (1 / 50 + (1.959963984540054 / 10) ** 2 - 1 / 50)
        assert found.joint.covariance()[0, 0] == pytest.approx(wanted, rel=1e-4)


class TestProtected:
    """A protected claim: decided from what an analyst holds, said in fixed words."""

    TEXT = (
        "this answer is withheld: it would nearly settle a claim that the owner protects. "
        "What follows from past answers is free: session.infer(sql). Nothing was charged."
    )

    def refusals(self, curators, frame):
        curator = curators(frame, noise=Blind())
        curator.protect(MEN, ">", 40, probability=0.8)
        session = curator.session()
        said = []
        for sql, rho in (
            (MEN, "0.0005"), (MEN, "0.001"), (BY_SEX, "0.001"), (MEN, "0.02"), (ALL, "0.1"), (BY_SEX, "1"),
            ("SELECT SUM(wage) AS s FROM t", "1"), ("SELECT COUNT(*) AS k FROM t WHERE sex = 'F'", "1"),
            (MEN, "5"),
        ):  # fmt: skip
            found = told(lambda sql=sql, rho=rho: session.query(sql, rho=rho))
            said.append(found if isinstance(found, str) else sorted(found))
            said.append(told(lambda: session.infer(MEN)))
        said.append(told(lambda: session.query(MEN, error=0.5)))
        return said

    def test_only_released_values_decide(self, curators):
        first = self.refusals(curators, BASE)
        assert self.TEXT in first
        for _, name in compared(OTHERS, zcdp=("a neighbour", "strange values")):
            assert self.refusals(curators, OTHERS[name]) == first, name

    def test_the_first_answer_and_other_statements_pass(self, curators):
        curator = curators()
        curator.protect(MEN, ">", 50, probability=0.8)
        session = curator.session()
        session.query(MEN, rho="0.02")
        with pytest.raises(RequestError) as refused:
            session.query(MEN, rho=1)
        assert str(refused.value) == self.TEXT
        spent = session.budget.spent
        assert session.infer(MEN).probability(">", 50) > 0.8
        assert session.query("SELECT SUM(wage) AS s FROM t WHERE sex = 'F'", rho=1)
        assert session.query("SELECT COUNT(*) AS k FROM t WHERE sex = 'F'", rho=1)
        assert session.query(MEN, rho="0.02").stored
        # others stand beside the men: only their own part was added
        assert session.budget.spent.rho > spent.rho

    def test_a_sum_of_others_that_settles_it_is_withheld_too(self, curators):
        curator = curators()
        curator.protect(MEN, ">", 50, probability=0.8)
        session = curator.session()
        session.query(MEN, rho="0.02")
        session.query("SELECT COUNT(*) AS k FROM t WHERE sex = 'F'", rho=1)
        with pytest.raises(RequestError, match="withheld"):
            # with the women it would tell the men
            session.query(ALL, rho=1)
        with pytest.raises(RequestError, match="withheld"):
            session.query(BY_SEX, error=3)

    def test_a_claim_that_is_not_so_is_open(self, curators):
        curator = curators()
        curator.protect(MEN, ">", 500, probability=0.8)
        curator.protect(MEN, "<", 20, probability=0.8, name="few")
        session = curator.session()
        for rho in ("0.02", 1, 5):
            assert session.query(MEN, rho=rho)

    def test_means_with_a_count_that_is_held_already(self, curators):
        curator = curators()
        curator.protect("SELECT AVG(n) AS m FROM t", ">", 1, probability=0.8)
        session = curator.session()
        session.query("SELECT COUNT(n) AS k FROM t", rho=3)
        session.query("SELECT AVG(n) AS m FROM t", rho="0.05")
        with pytest.raises(RequestError, match="withheld"):
            session.query("SELECT AVG(n) AS m FROM t", rho=1)
        assert session.query("SELECT COUNT(n) AS k FROM t WHERE sex = 'F'", rho=1)

    def test_others_are_judged_by_what_they_hold(self, curators):
        curator = curators(analysts={"a": 1, "b": 1})
        curator.protect(MEN, ">", 50, probability=0.8)
        alice, bob = curator.session("a"), curator.session("b")
        alice.query(MEN, rho="0.02")
        with pytest.raises(RequestError, match="withheld"):
            alice.query(MEN, rho=1)
        assert bob.query(MEN, rho=1)

    def test_it_outlives_the_curator(self, curators, tmp_path):
        path = tmp_path / "l"
        curator = curators(ledger=path)
        curator.protect(MEN, ">", 50, probability=0.8)
        curator.session().query(MEN, rho="0.02")
        curator.close()
        with pytest.raises(RequestError, match="withheld"):
            curators(ledger=path).session().query(MEN, rho=1)

    @pytest.mark.parametrize(
        ("sql", "operator", "value", "probability", "what"),
        [
            (BY_SEX, ">", 1, 0.9, "and no GROUP BY"),
            ("SELECT 2 * COUNT(*) AS f FROM t", ">", 1, 0.9, "and no GROUP BY"),
            ("SELECT COUNT(*), SUM(n) FROM t", ">", 1, 0.9, "and no GROUP BY"),
            (MEN, "=", 1, 0.9, "a claim compares with '>' or '<'"),
            (MEN, ">", "1", 0.9, "must be numbers"),
            (MEN, ">", float("nan"), 0.9, "out of range"),
            (MEN, ">", float("inf"), 0.9, "out of range"),
            (MEN, ">", 1, 0.5, "probability must be between 0.5 and 1, got 0.5"),
            (MEN, ">", 1, 1, "probability must be between 0.5 and 1, got 1"),
            (MEN, ">", 1, True, "must be numbers"),
        ],
    )
    def test_claims_that_make_no_sense_are_refused(
        self, curators, sql, operator, value, probability, what
    ):
        with pytest.raises(RequestError, match=what):
            curators().protect(sql, operator, value, probability=probability)


def test_hostile_labels_stay_as_they_are_in_plain_data(curators):
    labels = [
        "</script><b>x</b>",
        'it\'s "q" & `t` | p',
        "\u202egnp\u2066\x1b[31m",
        "naïve <img src=x onerror=alert(1)>",
    ]
    schema = Schema({'a"b': Category(labels), "n": Integer(0, 9)}, complete=['a"b', "n"])
    frame = pd.DataFrame({'a"b': labels * 5, "n": range(20)})
    curator = dpnb.Curator(Table("t", frame, schema), budget=dpnb.Budget(rho=100), noise=NoNoise())
    session = curator.session()
    session.query('SELECT "a""b", COUNT(*) AS k FROM t GROUP BY "a""b"', rho=1)
    session.query('SELECT COUNT(*) AS k FROM t WHERE "a""b" = \'it\'\'s "q" & `t` | p\'', rho=1)
    found = session.infer(ALL)
    data = json.loads(json.dumps(found.to_dict()))
    shown = {source["group"] for part in data["shares"] for source in part}
    assert shown == {*labels, ""}
    statements = {source["statement"] for part in data["shares"] for source in part}
    assert 'COUNT(*) WHERE "a""b" = \'it\'\'s "q" & `t` | p\'' in statements
    html = found._repr_html_()
    assert "<img" not in html
    assert "</script><b>" not in html
    assert "\x1b" not in repr(found)
    curator.close()
