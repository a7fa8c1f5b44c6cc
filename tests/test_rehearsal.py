"""A rehearsal is like the session in everything but its rows, which are made up; it is free, and says so."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dpnb import Budget, Category, Curator, Date, Integer, Real, Schema, Session, Table, Unit
from dpnb.answers.answer import Answer
from dpnb.answers.inference import Inference
from dpnb.answers.price import Price
from dpnb.answers.question import Question
from dpnb.decide.decision import Decision
from dpnb.decide.price import DecisionPrice
from dpnb.display.cards.risk import risk_page, risk_text
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, LedgerError, RequestError
from dpnb.explain.explanation import Explanation
from dpnb.explain.price import ExplanationPrice
from dpnb.ledger.policy import Policy
from dpnb.privacy.definition import BASIC, PURE, ZCDP
from dpnb.private import STAMPS
from dpnb.results import BudgetStatus
from dpnb.schema.synthetic import generated
from tests.kit.inside import owner, runner
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401

WORDS = "GENERATED DATA: nothing here is real."
SCHEMA = Schema(
    {
        "city": Category(["north", "south", "west"]),
        "age": Integer(17, 90, bins=[17, 30, 50, 90]),
        "wage": Real(-5, 250, bins=[-5, 20, 60, 250]),
        "hired": Date("2001-01-01", "2024-12-31", bins=["2001-01-01", "2012-12-31", "2024-12-31"]),
    },
    complete=["city", "hired"],
)
SQL = "SELECT city, COUNT(*) AS n, AVG(age) AS m FROM staff GROUP BY city"
HAVING = "SELECT city, COUNT(*) AS n FROM staff GROUP BY city HAVING COUNT(*) > 30"


def staff(rows: int = 60, city: str = "south", unit: Unit | None = None, **more: object) -> Table:
    frame = pd.DataFrame(
        {
            "city": pd.Series([city] * rows, dtype="string"),
            "age": np.arange(rows) % 40 + 20,
            "wage": np.arange(rows) / 7,
            "hired": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(rows), unit="D"),
            "person": np.arange(rows) // 2,
        }
    ).astype({"hired": "datetime64[us]"})
    return Table("staff", frame, SCHEMA, unit, **more)


@pytest.fixture
def session():
    with Session(staff(), budget=Budget(rho=1, delta="1e-6")) as opened:
        yield opened


def rows_of(session: Session, name: str = "staff") -> pd.DataFrame:
    return owner(session).tables[name].source


class TestRows:
    def test_fit_the_schema_and_spread_over_it(self):
        rows = generated("staff", SCHEMA, 5_000).source
        assert list(rows) == list(SCHEMA)
        assert set(rows["city"].cat.categories) == {"north", "south", "west"}
        counts = rows["city"].value_counts()
        assert list(counts.index) == ["north", "south", "west"]
        assert counts.min() > 500
        for name, kind in SCHEMA.items():
            if name == "city":
                continue
            low, high = (pd.Timestamp(x) if name == "hired" else x for x in (kind.low, kind.high))
            found = rows[name].dropna()
            assert low <= found.min() < low + (high - low) * 0.05
            assert high - (high - low) * 0.05 < found.max() <= high
            edges = pd.Series([pd.Timestamp(x) if name == "hired" else x for x in kind.bins])
            assert pd.cut(found, edges).value_counts().min() > 500

    def test_only_columns_that_may_lack_values_lack_some(self):
        missing = generated("staff", SCHEMA, 5_000).source.isna().mean()
        assert (missing[["city", "hired"]] == 0).all()
        assert missing[["age", "wage"]].between(0.01, 0.06).all()

    def test_groups_differ_so_that_there_is_something_to_find(self):
        rows = generated("staff", SCHEMA, 5_000).source
        means = rows.groupby("city", observed=True)["wage"].mean()
        assert means["west"] > means["south"] > means["north"]

    def test_the_same_seed_gives_the_same_rows(self):
        first, again, other = (generated("t", SCHEMA, 100, seed).source for seed in (1, 1, 2))
        assert first.equals(again)
        assert not first.equals(other)
        assert not first.equals(generated("u", SCHEMA, 100, 1).source)

    def test_extreme_declarations(self):
        schema = Schema(
            {
                "i": Integer(-(2**53), 2**53),
                "r": Real(-1e149, 1e149),
                "s": Real(1, 1 + 1e-8),
                "d": Date("0001-01-01", "9999-12-31"),
                "c": Category([f"v{i}" for i in range(65_535)]),
                "one": Category(["only"]),
            }
        )
        table = generated("t", schema, 2_000)
        session = Session(table, budget=Budget(rho=10_000))
        answer = session.query(
            "SELECT COUNT(*) AS n, COUNT(i), COUNT(r), COUNT(d) FROM t", rho=9_000
        )
        values = [one.estimate[0] for one in answer.estimates]
        assert values[0] == pytest.approx(2_000, abs=2)
        assert all(1_850 < value < 2_000 for value in values[1:])
        session.close()

    @pytest.mark.parametrize("rows", [0, 1])
    def test_hardly_any_rows(self, rows):
        for unit in (None, Unit("person", max_rows=3)):
            assert len(generated("t", SCHEMA.protecting(unit), rows).source) == rows

    @pytest.mark.parametrize("rows", [-1, 10_000_001, 2.5, "many", None, True])
    def test_rows_are_a_whole_number(self, rows, session):
        with pytest.raises(RequestError, match="rows must be a whole number, got"):
            session.rehearse(rows)

    @pytest.mark.parametrize("seed", [-1, 0.5, "a", None, False])
    def test_so_is_the_seed(self, seed, session):
        with pytest.raises(RequestError, match="seed must be a whole number, got"):
            session.rehearse(10, seed)


class TestUnits:
    @pytest.mark.parametrize("most", [1, 3, 40])
    def test_an_id_has_about_as_many_rows_as_are_kept(self, most):
        unit = Unit("person", max_rows=most)
        sizes = generated("t", SCHEMA.protecting(unit), 6_000).source["person"].value_counts()
        assert most <= sizes.mean() <= most + 1
        assert (sizes > most).any()

    def test_a_declared_column_of_ids_keeps_to_its_declaration(self):
        for column in ("city", "age", "wage"):
            rows = generated("t", SCHEMA.protecting(Unit(column, max_rows=2)), 500).source
            assert list(rows) == list(SCHEMA)
            assert rows[column].notna().all()
        assert rows["wage"].between(-5, 250).all()

    def test_prices_are_those_of_the_session(self):
        unit = Unit("person", max_rows=3)
        with Session(staff(unit=unit), budget=Budget(rho=1)) as session:
            rehearsal = session.rehearse(500)
            assert owner(rehearsal).tables["staff"].unit == unit
            one, other = (s.price(SQL, rho="0.1") for s in (session, rehearsal))
            assert one.widths == other.widths
            assert one.spent == other.spent
            rehearsal.query(SQL, rho="0.1")


class TestIndependence:
    def test_it_does_not_depend_on_the_data(self):
        found = []
        for table in (staff(), staff(7, "north"), staff(0)):
            with Session(table, budget=Budget(rho=1)) as session:
                session.query(SQL, rho="0.25")
                rehearsal = session.rehearse(300, seed=4)
                assert session.budget.remaining == rehearsal.budget.cap
                found.append(rows_of(rehearsal))
        for one, other in itertools.pairwise(found):
            pd.testing.assert_frame_equal(one, other)

    def test_the_data_are_not_looked_at(self, session, monkeypatch):
        real = runner(session).engines["staff"]
        measure = DuckDBEngine.measure

        def guarded(engine, scan):
            assert engine is not real
            return measure(engine, scan)

        monkeypatch.setattr(DuckDBEngine, "measure", guarded)
        rehearsal = session.rehearse(300)
        assert rehearsal.query(SQL, rho="0.1").stamp == "rehearsal"
        assert "staff" not in repr(session._backend.tables["staff"].source)

    def test_nothing_is_charged_or_written(self, tmp_path):
        path = tmp_path / "staff.ledger"
        with Session(staff(), budget=Budget(rho=1), ledger=path) as session:
            session.query(SQL, rho="0.1")
            before, files = path.read_bytes(), sorted(tmp_path.iterdir())
            status, asked = session.budget, session.history
            rehearsal = session.rehearse(300)
            answer = rehearsal.query(SQL, rho="0.5")
            rehearsal.explain(answer.compare("north", "west"), rho="0.1", anyway=True)
            rehearsal.close()
            assert path.read_bytes() == before
            assert sorted(tmp_path.iterdir()) == files
            assert session.budget == status
            assert session.history == asked
            assert session.query(SQL, rho="0.1").stored

    def test_noise_is_real(self, session):
        drawn = {
            session.rehearse(200, seed=1).query(SQL, rho="0.001").estimates[0].estimate
            for _ in range(3)
        }
        assert len(drawn) == 3

    def test_its_answers_do_not_enter_the_session(self, session):
        answer = session.rehearse(300).query(SQL, rho="0.1")
        with pytest.raises(RequestError):
            session.explain(answer.compare("north", "west"), anyway=True)
        with pytest.raises(RequestError):
            session.infer("SELECT COUNT(*) AS n FROM staff")

    def test_generated_rows_cannot_enter_a_private_ledger(self, tmp_path):
        path = tmp_path / "staff.ledger"
        Session(staff(), budget=Budget(rho=1), ledger=path).close()
        with pytest.raises(LedgerError, match="generated data cannot enter a private ledger"):
            Curator(staff(), ledger=path, rehearsal=True)

    def test_a_ledger_of_generated_rows_stays_one(self, tmp_path):
        path = tmp_path / "staff.ledger"
        Curator(staff(), budget=Budget(rho=1), ledger=path, rehearsal=True).close()
        with Session(staff(), ledger=path) as session:
            assert session.query(SQL, rho="0.1").stamp == "rehearsal"


class TestBudget:
    @pytest.mark.parametrize(
        "budget",
        [
            Budget(rho="0.7"),
            Budget(rho="0.7", delta="1e-6"),
            Budget(epsilon=3, delta="1e-6"),
            Budget(epsilon=2),
            Budget(epsilon=3, delta="1e-6", accountant="gdp"),
        ],
    )
    def test_is_what_is_left(self, budget):
        amount = {"epsilon": "0.3"} if budget.privacy == PURE else {"rho": "0.02"}
        with Session(staff(), budget=budget) as session:
            session.query(SQL, **amount)
            left, rehearsal = session.budget, session.rehearse(100)
            found = rehearsal.budget
            assert found.privacy == left.privacy
            assert found.cap == found.remaining == left.remaining
            assert found.delta == left.delta
            # nothing that was paid before makes it cheaper in either
            other = "SELECT COUNT(*) AS n FROM staff WHERE age > 30"
            assert session.price(other, **amount).spent == rehearsal.price(other, **amount).spent
            rehearsal.query(other, **amount)

    def test_counts_by_basic_composition_where_the_session_does(self):
        budget = Budget(epsilon=3, delta="1e-6", accountant="basic")
        policy = Policy(mechanism="additive")
        curator = Curator([staff()], budget=budget, analysts={"alice": 2, "bob": 4}, policy=policy)
        alice = curator.session("alice")
        alice.query(SQL, epsilon="0.3")
        rehearsal = alice.rehearse(100)
        found, left = rehearsal.budget, alice.budget.remaining
        assert (found.privacy, found.remaining) == (BASIC, left)
        other = "SELECT COUNT(*) AS n FROM staff WHERE age > 30"
        assert (
            alice.price(other, epsilon="0.3").spent == rehearsal.price(other, epsilon="0.3").spent
        )
        assert rehearsal.query(other, epsilon="0.3").stamp == "rehearsal"
        curator.close()

    def test_is_the_whole_once_nothing_is_left(self):
        for budget in (Budget(rho="0.1"), Budget(epsilon=1)):
            amount = {"rho": "0.1"} if budget.privacy == ZCDP else {"epsilon": 1}
            with Session(staff(), budget=budget) as session:
                session.query("SELECT COUNT(*) AS n FROM staff", **amount)
                assert session.rehearse(50).budget.remaining == budget.cap

    def test_refuses_what_the_session_would_refuse_in_the_same_words(self, session):
        session.query(SQL, rho="0.9")
        rehearsal, other = session.rehearse(100), "SELECT COUNT(*) AS n FROM staff WHERE age > 40"
        refusals = []
        for one in (session, rehearsal):
            with pytest.raises(BudgetError) as caught:
                one.query(other, rho="0.2")
            refusals.append(str(caught.value))
        # in a rehearsal nothing was asked before
        assert (
            refusals[0].replace("What follows from past answers is free: session.infer(sql). ", "")
            == (refusals[1])
        )
        assert rehearsal.query(other, rho="0.1").remaining.rho == 0

    def test_of_one_of_several_analysts_is_hers(self):
        curator = Curator([staff()], budget=Budget(rho=1), analysts={"alice": 2, "bob": 4})
        alice = curator.session("alice")
        alice.query(SQL, rho="0.1")
        rehearsal = alice.rehearse(100)
        assert rehearsal.budget.cap == alice.budget.remaining
        assert rehearsal.query(SQL, rho="0.1").stamp == "rehearsal"
        rehearsal.close()
        assert alice.query(SQL, rho="0.1").stored
        curator.close()

    @pytest.mark.parametrize("public", [True, False])
    def test_studies_are_for_public_tables_there_too(self, public):
        with Session(staff(public=public), budget=Budget(epsilon=3)) as session:
            rehearsal = session.rehearse(200)
            for one in (session, rehearsal):
                if public:
                    made = one.decide(HAVING, mode="naive", u=10)
                    assert "NOT PRIVATE: a published method" in repr(made)
                    assert (WORDS in repr(made)) == (one is rehearsal)
                else:
                    with pytest.raises(
                        RequestError,
                        match="mode='naive' needs a public table: it simulates on exact values",
                    ):
                        one.decide(HAVING, mode="naive", u=10)

    def test_of_a_rehearsal_is_one_again(self, session):
        assert repr(session.rehearse(50).rehearse(50)).startswith(WORDS)

    def test_outlives_the_session(self, session):
        rehearsal = session.rehearse(50)
        session.close()
        rehearsal.query(SQL, rho="0.1")


@pytest.fixture(scope="module")
def results():
    session = Session(staff(), budget=Budget(rho=2, delta="1e-6"))
    rehearsal = session.rehearse(2_000, seed=3)
    answer = rehearsal.query(SQL, rho="0.1")
    question = answer.compare("north", "west")
    made = {
        Answer: answer,
        Question: question,
        Explanation: rehearsal.explain(question, rho="0.1"),
        Decision: rehearsal.decide(HAVING, most="0.1"),
        Inference: rehearsal.infer("SELECT COUNT(*) AS n FROM staff"),
        Price: rehearsal.price(SQL, rho="0.2"),
        ExplanationPrice: rehearsal.price(question),
        DecisionPrice: rehearsal.price(HAVING, beta=0.05),
        BudgetStatus: rehearsal.budget,
        "history": rehearsal.history,
        "together": Price.together(
            rehearsal.price([SQL, HAVING.partition(" HAVING")[0]], rho="0.2")
        ),
        "bootstrap": answer.bootstrap("m", draws=100),
        "risk": owner(rehearsal).risk("SELECT SUM(age) AS s FROM staff"),
    }
    yield made
    session.close()
    plt.close("all")


KINDS = [
    Answer, Question, Explanation, Decision, Inference, Price, ExplanationPrice, DecisionPrice,
    BudgetStatus, "history", "together", "bootstrap",
]  # fmt: skip


class TestStamp:
    @pytest.mark.parametrize("kind", KINDS)
    def test_stands_above_everything_in_text_and_html(self, results, kind):
        assert repr(results[kind]).startswith(WORDS)
        html = results[kind]._repr_html_()
        assert html.count(WORDS) == 1
        # a box in the colour of the page, in light and dark
        assert f'<strong style="border:2px solid;padding:2px 8px">{WORDS}</strong>' in html
        _, _, body = html.partition("</style>")
        above, _, _ = body.partition(WORDS)
        assert "<table" not in above
        assert "<svg" not in above

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if not isinstance(kind, str)])
    def test_survives_as_plain_data(self, results, kind):
        data = json.loads(json.dumps(results[kind].to_dict(), default=str))
        assert data["stamp"] == "rehearsal"
        if kind is not Question:
            assert repr(kind.from_dict(data)).startswith(WORDS)

    @pytest.mark.parametrize("kind", [Answer, Explanation, Decision])
    def test_stands_in_markdown(self, results, kind):
        assert results[kind].to_markdown().startswith(f"**{WORDS}**")

    @pytest.mark.parametrize("kind", [Answer, Question, Explanation, Decision, Inference])
    def test_stands_above_figures(self, results, kind):
        assert WORDS in results[kind].plot().get_title(loc="left").replace("\n", " ")

    @pytest.mark.parametrize("kind", [Answer, Explanation, Decision, Inference])
    def test_stands_in_widgets(self, results, kind):
        widget = results[kind].widget()
        assert repr(widget).startswith(WORDS)
        assert WORDS in widget.data["body"]

    @pytest.mark.parametrize("kind", [Answer, Explanation, Decision, Inference])
    def test_stands_on_pages(self, results, kind, tmp_path):
        results[kind].to_html(str(tmp_path / "page.html"))
        assert WORDS in (tmp_path / "page.html").read_text()

    def test_stands_in_records_and_on_sessions(self, results, session):
        assert results[Answer].record()["stamp"] == "rehearsal"
        assert (
            repr(session.rehearse(10))
            == f"{WORDS} Session(staff; left: rho 1 (epsilon 7.766 at delta 1e-6))"
        )

    def test_stands_on_choices_by_risk(self, results):
        assert repr(results["risk"].choose(0.9, private=False)).startswith(WORDS)
        assert repr(results["risk"].suggest(0.9)).startswith(WORDS)
        assert WORDS in results["risk"].plot(reveal=True).get_title(loc="left")
        assert risk_text(results["risk"]).startswith(WORDS)
        assert risk_page(results["risk"]).count(WORDS) == 1

    def test_stands_on_answers_that_are_stored_refined_or_worked_out(self, session):
        rehearsal = session.rehearse(300)
        asked = [rehearsal.query(SQL, rho="0.1"), rehearsal.query(SQL, rho="0.1")]
        asked += [
            rehearsal.query(SQL, rho="0.2"),
            rehearsal.query(SQL, error={"n": 100, "m": 50}, rows=200),
        ]
        asked += rehearsal.query_all([SQL, "SELECT COUNT(*) AS n FROM staff"], rho="0.2")
        asked.append(rehearsal.decide(HAVING, steps=1).refine())
        assert {one.stamp for one in asked} == {"rehearsal"}

    def test_nothing_of_the_session_itself_has_it(self, session):
        session.rehearse(10)
        for shown in (session, session.budget, session.history, session.query(SQL, rho="0.1")):
            assert "REHEARSAL" not in repr(shown)

    def test_test_noise_is_told_on_budgets_and_prices_too(self):
        class Fixed:
            def gaussian(self, exact, sigma):
                return list(exact)

        with Session(staff(), budget=Budget(rho=1), noise=Fixed()) as session:
            for shown in (
                session.budget,
                session.price(SQL, rho="0.1"),
                session.query(SQL, rho="0.1"),
            ):
                assert repr(shown).startswith(STAMPS["test"])


def test_ids_that_one_table_declares_and_another_does_not_can_be_joined():
    ids = Category([f"p{i}" for i in range(50)])
    left = Table(
        "o", pd.DataFrame({"id": ["p1"], "x": [1]}), Schema({"x": Integer(0, 1)}), Unit("id", 3)
    )
    schema = Schema({"ID": ids, "y": Integer(0, 1)})
    right = Table("h", pd.DataFrame({"ID": ["p1"], "y": [1]}), schema, Unit("ID", 1))
    curator = Curator([left, right], budget=Budget(rho=1))
    sql = "SELECT h.y, COUNT(*) AS n FROM o JOIN h ON o.id = h.ID GROUP BY h.y"
    real = curator.session().query(sql, rho=0.1)
    tried = curator.session().rehearse(rows=200).query(sql, rho=0.1)
    assert list(real.to_frame()) == list(tried.to_frame())
    assert tried.to_frame()["n"].sum() > 50
    curator.close()
