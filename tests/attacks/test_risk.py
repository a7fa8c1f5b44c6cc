"""Risks are for the owner alone: what may be shared says the same on every table, and nothing leaks."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import logging
import pickle
import pprint
import re
import traceback
import warnings
from collections.abc import Mapping
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

import dpnb
from dpnb import Category, DpnbError, Integer, Real, Schema, Table
from dpnb.curator import Curator, owner_of
from dpnb.engines.contributions import Contributions
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.risk.preferences import Judged
from dpnb.risk.request import Tally
from tests.kit.streams import WatchedNoise, compared, entries, outcome, silence

SCHEMA = Schema(
    {
        "sex": Category(["F", "M", "?"]),
        "age": Integer(17, 90, bins=[17, 30, 60, 90]),
        "code": Integer(-5, 5),
        "wage": Real(0, 200, bins=[0, 10, 50, 200]),
    }
)


class TurningNoise(WatchedNoise):
    """Selects another candidate each time, whatever their scores are."""

    def largest(self, scores, scale):
        super().largest(scores, scale)
        return (7 * len(self.draws)) % len(scores)


def people(rows, seed=1):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": generator.choice(["F", "M", "stranger"], rows),
            "age": generator.normal(40, 20, rows).round(),
            "code": generator.integers(-9, 9, rows),
            "wage": generator.lognormal(3, 1, rows),
        }
    ).astype({"sex": "string", "code": "Int64"})


def changed(**values):
    frame = people(120)
    for name, value in values.items():
        frame[name] = pd.Series([value] * 120, dtype=frame[name].dtype)
    return frame


BASE = people(120)
TABLES = {
    "one row less": BASE.iloc[1:],
    "a heavy row more": pd.concat(
        [BASE, BASE.iloc[[0]].assign(age=1e308, wage=1e308, code=2**62)], ignore_index=True
    ),
    "many different rows": people(9_000, seed=2),
    "empty": BASE.iloc[:0],
    "one row": BASE.iloc[:1],
    "all missing": changed(sex=None, age=np.nan, code=None, wage=np.nan),
    "all alike": changed(sex="M", age=40.0, code=1, wage=1.5),
}
STATEMENTS = [
    "SELECT sex, SUM(wage) AS s, AVG(code) AS m FROM t WHERE age > 40 OR sex = 'F' GROUP BY sex",
    "SELECT SUM(CASE WHEN code > 0 THEN wage ELSE age END) AS s FROM t",
]
REFUSED = [
    "SELECT MAX(age) FROM t", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING age > 3",
    "SELECT COUNT(DISTINCT sex) FROM t", "SELECT COUNT(*) FROM t JOIN t AS u ON 1 = 1",
    "SELECT wage FROM t", "", "SELECT COUNT(*) FROM u",
]  # fmt: skip
BAD = [
    {"p": 2}, {"p": 0}, {"method": "nope"}, {"tau": 3}, {"candidates": []}, {"method": "tail", "at_most": -1},
    {"rho": 1, "epsilon": 1}, {"rho": -1}, {"epsilon": "x"}, {"method": "variance", "tau": 0},
]  # fmt: skip


def script(curator, unit):
    """Yield what each step that may be shared returns or raises, as text."""

    def told(found):
        return repr(found), found._repr_html_(), json.dumps(found.to_dict(), sort_keys=True)

    for sql in [*STATEMENTS, *REFUSED]:
        yield outcome(lambda q=sql: repr(curator.risk(q)))
    for sql in STATEMENTS:
        cumulative = "GROUP" in sql
        # after one-off releases in pure sessions the exact form of all that is known is refused
        yield outcome(lambda q=sql: repr(curator.risk(q, form="exact", cumulative=True)))
        form = "bound" if cumulative and unit == "epsilon" else "exact"
        for options in ({}, {"form": form, "split": "0.3", "by": "sex", "cumulative": cumulative}):
            profile = curator.risk(sql, **options)
            yield repr(profile), profile._repr_html_()
            for tau in (0, 0.95, "x"):
                for policy in ("cumulative", "paper-dynamic", "nope"):
                    yield outcome(lambda p=profile, t=tau, y=policy: told(p.suggest(t, policy=y)))
                yield outcome(lambda p=profile, t=tau: told(p.suggest(t, candidates=[1, 0.01])))
            for method in ("quantile", "tail", "variance"):
                for cost in ({}, {unit: "0.01"}, {unit: 1_000}, {unit: 0}):
                    yield outcome(
                        lambda p=profile, m=method, c=cost: told(
                            p.choose(0.5, method=m, **c, mode="paper")
                        )
                    )
            yield outcome(
                lambda p=profile: told(p.choose(0.9, p="0.5", candidates=[3, "0.1"], mode="paper"))
            )
            yield outcome(
                lambda p=profile: told(p.choose(0.9, method="tail", at_most=10**9, mode="paper"))
            )
            # wishes, which come before the next statement is looked at
            for target in ({"at_most": 80}, {"p": "0.9"}, {"at_most": 3}, {"at_most": 0}, {"p": 2}):
                yield outcome(lambda p=profile, w=target: told(p.choose(guesses=70, **w)))
            yield outcome(lambda p=profile: told(p.safe_counts(guesses=80, at_most=80)))
            yield outcome(lambda p=profile: p.counts_target(p=0.99).sentences())
            for bins in (16, 0):
                yield outcome(lambda p=profile, b=bins: told(p.share(bins=b)))
            for bad in BAD:
                yield outcome(lambda p=profile, b=bad: told(p.choose(**b, mode="paper")))
            yield outcome(lambda p=profile: repr(p.price(Fraction(1, 10))))
        yield (
            [
                (charge.sql, charge.spent.to_dict(), charge.query)
                for charge in curator._runner.store.accountant.history("owner")
            ],
            repr(curator.budget),
        )
    # until the budget is used up: refused at the same place everywhere
    for i in range(9):
        yield outcome(
            lambda p=profile, i=i: told(p.choose(0.9, **{unit: f"0.40{i}"}, mode="paper"))
        )


def stream(frame, unit, path, caplog, capfd, noise=None):
    noise = noise or TurningNoise()
    budget = dpnb.Budget(rho="2.2", delta=1e-6) if unit == "rho" else dpnb.Budget(epsilon=9)
    with silence(caplog, capfd):
        # the ledger's name is drawn at random, whatever the data
        with mock.patch("secrets.token_bytes", bytes):
            curator = Curator(Table("t", frame, SCHEMA), budget=budget, ledger=path, noise=noise)
        said = list(script(curator, unit))
        curator.close()
    assert noise.whole
    return said, noise.asked, entries(path)


BASES = {"rho": BASE, "epsilon": TABLES["one row less"]}
"""What all others are compared with."""


@pytest.fixture(scope="module")
def known():
    """What is said about the base table, by unit; filled by the first test that needs it."""
    return {}


def base_stream(known, unit, folder, caplog, capfd):
    if unit not in known:
        known[unit] = stream(BASES[unit], unit, folder / "base", caplog, capfd)
    return known[unit]


class TestMessages:
    @pytest.mark.parametrize(
        ("unit", "name"),
        compared(
            TABLES,
            rho=("a heavy row more", "many different rows"),
            epsilon=("empty",),
        ),
    )
    def test_what_may_be_shared_is_identical(self, name, unit, known, tmp_path, caplog, capfd):
        said, asked, written = stream(TABLES[name], unit, tmp_path / "other", caplog, capfd)
        base_said, base_asked, base_written = base_stream(known, unit, tmp_path, caplog, capfd)
        for mine, theirs in zip(said, base_said, strict=True):
            assert mine == theirs
        assert asked == base_asked
        assert written == base_written

    def test_the_script_meets_choices_and_every_kind_of_refusal(
        self, known, tmp_path, caplog, capfd
    ):
        said, asked, written = base_stream(known, "rho", tmp_path, caplog, capfd)
        text = json.dumps(said, default=str)
        for word in ("SqlError", "RequestError", "BudgetError", "Private selection", "Rule fixed"):
            assert word in text
        releases = [entry for entry in written if entry["kind"] == "release"]
        methods = {entry["query"]["mechanism"]["method"] for entry in releases}
        assert methods == {"quantile", "tail", "variance", "histogram", "safe counts"}
        assert len(asked) > len(releases) > 30

    def test_the_comparison_would_notice_a_leak(self):
        class Honest(TurningNoise):
            def _pattern(self, name, exact, scale):
                return self._note(name, exact, scale)

        found = []
        for frame in (BASE, TABLES["one row less"]):
            budget = dpnb.Budget(rho="2.2", delta=1e-6)
            curator = Curator(Table("t", frame, SCHEMA), budget=budget, noise=Honest())
            found.append(list(itertools.islice(script(curator, "rho"), 60)))
            curator.close()
        assert found[0] != found[1]

    def test_a_choice_by_exact_values_does_differ_and_is_marked(self):
        choices = []
        for frame in (TABLES["one row"], TABLES["empty"]):
            curator = Curator(
                Table("t", frame, SCHEMA), budget=dpnb.Budget(rho=9), noise=TurningNoise()
            )
            profile = curator.risk("SELECT COUNT(*) AS n FROM t")
            choices.append(profile.choose(0.95, private=False))
            curator.close()
        assert choices[0].level != choices[1].level
        assert all(choice.conditional for choice in choices)

    def test_what_was_looked_at_is_known_to_every_handle_of_the_owner(self):
        """A cell makes a new one each time: a limit that comes after a look is marked all the same."""
        table, sql = Table("t", TABLES["one row"], SCHEMA), "SELECT COUNT(*) AS n FROM t"
        with dpnb.Session(table, budget=dpnb.Budget(rho=9), noise=TurningNoise()) as session:
            assert not owner_of(session).risk(sql).suggest(guesses=60).conditional
            owner_of(session).risk(sql).rdr(rho=1)
            assert not owner_of(session).risk(sql).suggest(guesses=60).conditional
            assert owner_of(session).risk(sql).suggest(guesses=70).conditional


ROWS = 48_611
EXACT = {
    str(ROWS),
    f"{ROWS:,}",
    "16204",
    "16,204",
    "32407",
    "32,407",
    "63.2817",
    "6.32817",
    "0.632817",
}
SQL = "SELECT SUM(wage) AS s FROM t WHERE age > 17"


def tells(text):
    return {secret for secret in EXACT if secret in text}


def secretive():
    """48,611 rows, a third of them with wage 63.2817 and the others with none."""
    frame = pd.DataFrame(
        {"sex": "F", "age": 44, "code": 3, "wage": np.where(np.arange(ROWS) % 3 == 0, 63.2817, 0.0)}
    )
    return Table("t", frame, SCHEMA)


@pytest.fixture(scope="module")
def table():
    return secretive()


@pytest.fixture
def curator(table):
    found = Curator(table, budget=dpnb.Budget(rho=9, delta=1e-6))
    yield found
    found.close()


@pytest.fixture(scope="module")
def exact(table):
    """Everything on the way that holds exact values, by its class."""
    curator = Curator(table, budget=dpnb.Budget(rho=9, delta=1e-6))
    profile = curator.risk(SQL, by="sex")
    answer = curator.session().query(SQL, rho=1e-4)
    yield {
        "RiskProfile": profile,
        "Rows": profile._rows,
        "RiskContext": profile.context,
        "Indicators": profile.rdr(rho=1),
        "losses": profile.losses(rho=1),
        "top": profile.top(),
        "histogram": profile.histogram(),
        "by_group": profile.by_group(rho=1),
        "signed_losses": profile.signed_losses(answer),
        "Contributions": Contributions(np.array([-1]), np.array([[ROWS]]), np.array([ROWS])),
        "Tally": Tally(np.array([ROWS, 16_204])),
    }
    curator.close()


KINDS = [
    "RiskProfile", "Rows", "RiskContext", "Indicators", "losses", "top", "histogram", "by_group",
    "signed_losses", "Contributions", "Tally",
]  # fmt: skip


class TestExactValues:
    @pytest.mark.parametrize("kind", KINDS)
    def test_they_show_nothing_however_they_are_printed(self, kind, exact):
        item = exact[kind]
        texts = [
            repr(item), str(item), f"{item}", f"{item!s:>9}", "%s" % (item,), f"{[item]}",  # noqa: UP031
            pprint.pformat({"a": item}), ascii(item),
        ]  # fmt: skip
        shown, _ = DisplayFormatter().format(item)
        for text in [*texts, *map(str, shown.values())]:
            assert not tells(text)

    @pytest.mark.parametrize("kind", KINDS)
    def test_they_cannot_be_stored_or_copied(self, kind, exact):
        item = exact[kind]
        for use in (pickle.dumps, copy.copy, copy.deepcopy, lambda x: pickle.dumps(x, 0)):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(item)
        with pytest.raises(TypeError):
            json.dumps(item)
        if kind in ("RiskProfile", "RiskContext"):
            for use in (dataclasses.asdict, dataclasses.astuple):
                with pytest.raises(TypeError):
                    use(item)

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_listing_of_their_attributes_shows_values(self, kind, exact):
        """As ``vars()``, ``%whos`` and debuggers make them."""
        with pytest.raises(TypeError):
            vars(exact[kind])
        assert not hasattr(exact[kind], "__dict__")

    def test_columns_and_frames_are_what_the_owner_asked_for(self, exact):
        assert tells(repr(exact["top"].to_frame()))
        assert exact["Indicators"].counts.sum() == ROWS


FORBIDDEN = {
    "Curator", "DuckDBEngine", "Store", "Ledger", "Accountant", "RiskContext", "RiskProfile", "Rows",
    "Exact", "Indicators", "Contributions", "Tally", "Table", "DataFrame", "DuckDBPyConnection",
}  # fmt: skip


def public(root, depth=5):
    """Objects that public attributes lead to, with the way there."""
    seen, layer = {}, [("", root)]
    for _ in range(depth):
        following = []
        for way, item in layer:
            if isinstance(item, (str, bytes, int, float, type(None), type, Fraction)):
                continue
            if id(item) in seen:
                continue
            seen[id(item)] = way, item
            if isinstance(item, Mapping):
                following += [(f"{way}[{key!r}]", value) for key, value in item.items()]
            elif isinstance(item, (list, tuple, set, frozenset)):
                following += [(f"{way}[{i}]", value) for i, value in enumerate(item)]
            elif type(item).__module__.startswith("dpnb"):
                for name in dir(item):
                    if not name.startswith("_"):
                        following.append((f"{way}.{name}", getattr(item, name)))
        layer = following
    return seen.values()


class TestAnalystsSide:
    def test_no_public_attribute_leads_to_the_data_or_its_risks(self, curator):
        session, profile = curator.session(), curator.risk(SQL)
        choice = profile.choose(0.9, mode="paper")
        answer = session.query(SQL, rho=choice.rho)
        roots = [
            session, answer, choice, profile.suggest(0.9), profile.choose(0.9, private=False),
            profile.share(), session.price(SQL, rho=1), session.history, session.tables,
            session.budget, answer.compare({(): 1}, constant=3), profile.price(Fraction(1)),
        ]  # fmt: skip
        met = set()
        for root in roots:
            for way, item in public(root):
                met.add(type(item).__name__)
                assert type(item).__name__ not in FORBIDDEN, f"{type(root).__name__}{way}"
        assert {"Session", "Answer", "Choice", "RiskHistogram", "PrivacyLoss", "Price"} <= met

    def test_the_walk_would_find_them(self, curator):
        names = {type(item).__name__ for _, item in public(curator)}
        assert "Table" in names
        owner = mock.Mock(spec_set=["profile"])
        owner.profile = curator.risk(SQL)
        assert "RiskProfile" in {type(item).__name__ for _, item in public([owner.profile])}

    def test_a_session_has_no_way_to_ask_for_risks(self, curator):
        session = curator.session()
        assert not [name for name in dir(session) if "risk" in name.casefold()]
        assert len(session.history) == 0
        curator.risk(SQL).choose(0.9, mode="paper")
        # nor sees what the owner chose
        assert len(session.history) == 0

    def test_results_that_may_be_shared_hold_released_numbers_only(self, table):
        """With noise that ignores the data, any number of theirs is a leak."""
        curator = Curator(table, budget=dpnb.Budget(rho=9, delta=1e-6), noise=TurningNoise())
        profile = curator.risk(SQL)
        shown = [profile.choose(0.9, rho=1e-6, mode="paper"), profile.share(rho=1e-9), profile.suggest(0.9),
                 profile.choose(0.9, private=False)]  # fmt: skip
        for found in shown:
            formatted, _ = DisplayFormatter().format(found)
            for text in (json.dumps(found.to_dict()), pickle.dumps(found).decode("latin-1"),
                         *map(str, formatted.values())):  # fmt: skip
                assert not tells(text)
        curator.close()


class TestLedgerFile:
    def test_it_holds_no_exact_count(self, table, tmp_path):
        class Watching(TurningNoise):
            """Adds 1,000,003 to everything, and remembers what was there before."""

            def __init__(self):
                super().__init__()
                self.secrets = set()

            def _pattern(self, exact, scale):
                self.secrets |= {abs(x) for x in exact}
                return [x + 1_000_003 for x in exact]

            gaussian = laplace = _pattern

            def largest(self, scores, scale):
                self.secrets |= {abs(int(x)) for x in scores}
                return 5

        noise, path = Watching(), tmp_path / "ledger"
        curator = Curator(table, budget=dpnb.Budget(rho=9), ledger=path, noise=noise)
        profile = curator.risk(SQL)
        for method in ("quantile", "tail", "variance"):
            profile.choose(0.01 if method == "variance" else 0.9, method=method, mode="paper")
        profile.choose(guesses=60, at_most=50)
        profile.share()
        profile.choose(0.9, private=False)
        curator.close()
        secrets = {str(x) for x in noise.secrets if x > 1_000}
        assert {"16204", "32407"} <= secrets
        bodies = json.dumps([entry.get("drawn") for entry in entries(path)])
        bodies += json.dumps([entry.get("query") for entry in entries(path)])
        assert not secrets & set(re.findall(r"\d+", bodies))
        text = path.read_bytes().decode("latin-1")
        assert not {secret for secret in secrets if len(secret) > 4 and secret in text}

    def test_looking_leaves_no_trace_in_it(self, table, tmp_path):
        path = tmp_path / "ledger"
        curator = Curator(table, budget=dpnb.Budget(rho=9), ledger=path)
        before = path.read_bytes()
        profile = curator.risk(SQL, by="sex")
        profile.rdr(rho=1)
        profile.choose(0.9, private=False)
        profile.suggest(0.9)
        for options in BAD:
            with pytest.raises(DpnbError):
                profile.choose(**options, mode="paper")
        with pytest.raises(DpnbError):
            profile.choose(0.9, rho=10, mode="paper")
        curator.close()
        assert path.read_bytes() == before


class TestErrors:
    def failing(self, profile, answer, curator):
        """Calls that fail, each in its own way."""

        def judge(rdr, rows):
            raise ValueError(f"{rows.sum()} rows, {rdr}")

        yield lambda: profile.choose(private=False, preference=Judged(judge, 1.0))
        yield lambda: profile.choose(private=False, preference="nope")
        yield lambda: profile.choose(0.9, rho=99, mode="paper")
        yield lambda: profile.share(rho=99)
        yield lambda: profile.group_ratio("F", "nope", rho=1)
        yield lambda: profile.rdr(rho=-1)
        yield lambda: curator.risk("SELECT AVG(wage) AS s FROM t").signed_losses(answer)
        yield lambda: curator.risk(SQL, by="nope")
        yield lambda: curator.risk(SQL, mode="paper")
        yield lambda: profile.plot()
        yield lambda: profile.to_html("never.html")

    def test_no_refusal_holds_a_value_of_the_data(self, curator, caplog, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        profile = curator.risk(SQL, by="sex")
        answer = curator.session().query(SQL, rho=1e-4)
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            odd = Judged(lambda rdr, rows: 1 if 1.02 < rdr.max() < 1.5 else 0, 0.5)
            profile.choose(private=False, preference=odd)
            for use in self.failing(profile, answer, curator):
                with pytest.raises(DpnbError) as caught:
                    use()
                assert not tells(str(caught.value))
                assert not tells(repr(caught.value.args))
                assert caught.value.__context__ is None
                assert caught.value.__cause__ is None
        assert warned == []
        assert caplog.records == []
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("place", ["contributions", "scan", "draw", "measure"])
    def test_every_failure_becomes_one_text_without_a_cause(self, place, table, monkeypatch):
        class Broken(TurningNoise):
            def largest(self, scores, scale):
                raise ArithmeticError(f"{ROWS} rows, {scores}")

        def fail(*_, **__):
            raise ArithmeticError(f"{ROWS} rows")

        curator = Curator(table, budget=dpnb.Budget(rho=1), noise=Broken())
        profile = curator.risk(SQL)
        answer = curator.session().query(SQL, rho=0.5)
        if place == "scan":
            from dpnb.risk import request

            monkeypatch.setattr(request, "counted", fail)
        elif place != "draw":
            monkeypatch.setattr(DuckDBEngine, "contributions", fail)
        if place == "contributions":
            use = lambda: curator.risk(SQL)  # noqa: E731
        elif place == "measure":
            use = lambda: profile.signed_losses(answer)  # noqa: E731
        else:
            use = lambda: profile.choose(0.9, mode="paper")  # noqa: E731
        with pytest.raises(DpnbError, match="the engine could not carry out") as caught:
            use()
        assert not tells("".join(traceback.format_exception(caught.value)))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert curator.budget.spent.rho == Fraction(1, 2)
        curator.close()

    def test_a_whole_session_of_looking_says_nothing_to_logs_and_streams(
        self, curator, caplog, capfd
    ):
        with caplog.at_level(logging.DEBUG):
            profile = curator.risk(SQL, by="sex", cumulative=True)
            profile.rdr(rho=1)
            profile.sentence(rho=1, reveal=True)
            profile.top()
            curator.risk(SQL).choose(0.9, method="tail", mode="paper")
            curator.risk(SQL).share()
        assert caplog.records == []
        assert capfd.readouterr() == ("", "")


class TestRepetition:
    """No second look at the same thing comes for free."""

    def test_equal_requests_in_other_words_draw_once(self, table):
        noise = TurningNoise()
        curator = Curator(table, budget=dpnb.Budget(rho=9), noise=noise)
        for sql in (SQL, "select sum(wage) total\nfrom T where age > 17", f"{SQL} OR age > 20"):
            for options in (
                {}, {"p": "0.990"}, {"p": Fraction(99, 100)}, {"rho": 0.005}, {"rho": "1/200"},
                {"tau": 0.3}, {"candidates": [1]},
            ):  # fmt: skip
                curator.risk(sql).choose(**options, mode="paper")
            for options in ({"form": "exact"}, {"form": "linear"}, {"by": "sex"}):
                curator.risk(sql, **options).choose(mode="paper")
        assert len(noise.asked) == 1
        assert len(curator._runner.store.accountant.history("owner")) == 1
        curator.close()

    def test_other_draws_of_the_same_counts_are_charged(self, table):
        noise = TurningNoise()
        curator = Curator(table, budget=dpnb.Budget(rho=9), noise=noise)
        profile = curator.risk(SQL)
        for i in range(1, 20):
            profile.choose(0.9, p=f"0.9{i:02}", mode="paper")
            profile.share(bins=i)
            assert curator.budget.spent.rho == Fraction(2 * i, 200)
        assert len(noise.asked) == 38
        curator.close()

    def test_the_policy_of_the_paper_does_not_look_once_its_candidates_are_spent(
        self, table, monkeypatch
    ):
        """3.6 (b): rejected without a scan."""
        curator = Curator(table, budget=dpnb.Budget(rho=99), noise=TurningNoise())
        profile = curator.risk(SQL)
        curator.session().query(SQL, rho=10)
        monkeypatch.setattr(DuckDBEngine, "contributions", lambda *_: 1 / 0)
        monkeypatch.setattr(DuckDBEngine, "measure", lambda *_: 1 / 0)
        assert profile.suggest(0, policy="paper-dynamic").level is None
        assert curator.budget.spent.rho == 10
        curator.close()

    def test_a_choice_that_finds_nothing_is_charged_too(self, table):
        """3.6 (a)."""

        class Never(TurningNoise):
            def laplace(self, exact, scale):
                return [10**9] if len(exact) == 1 else [-(10**9)] * len(exact)

        curator = Curator(table, budget=dpnb.Budget(rho=9), noise=Never())
        choice = curator.risk(SQL).choose(0.9, method="tail", mode="paper")
        assert choice.level is None
        assert curator.budget.spent.rho == Fraction(1, 200)
        curator.close()
