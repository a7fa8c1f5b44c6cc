"""A magic in a function sees the function's variables, has a value, and binds what it says it binds."""

from __future__ import annotations

import textwrap

import pandas as pd
import pytest

from dpnb import Answer, Budget, Category, Integer, Schema, Session, Table
from dpnb.discover.discovery import Discovery
from dpnb.errors import RequestError
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

COUNT = "SELECT COUNT(*) AS n FROM t WHERE g ="


@pytest.fixture(scope="module")
def table() -> Table:
    frame = pd.DataFrame({"g": ["a"] * 10 + ["b"] * 20 + ["c"] * 30, "x": 1, "word": "w"})
    return Table("t", frame, Schema({"g": Category(["a", "b", "c"]), "x": Integer(0, 1)}))


def session(table: Table) -> Session:
    return Session(table, budget=Budget(rho=1000), noise=NoNoise())


@pytest.fixture
def asked(shell, table):
    """A shell with an open session, a variable x of the notebook, and n(answer)."""
    shell.names.update(t=session(table), x="a", y="a", n=lambda a: int(a.to_frame().n.iloc[0]))
    assert shell.run("%dpopen t").error is None
    return shell


def outcome(shell, cell: str):
    ran = shell.run(textwrap.dedent(cell))
    assert ran.error is None, ran.error
    return ran.result


NESTED = {
    "an argument": """
        def f(x):
            found = %dpquery --rho 1 {count} :x
            return n(found)
        f("b"), f("c")
        """,
    "a variable of the function alone": """
        def f():
            wanted = "b"
            found = %dpquery --rho 1 {count} :wanted
            wanted = "c"
            again = %dpquery --rho 1 {count} :wanted
            return n(found), n(again)
        f()
        """,
    "the argument of an outer function": """
        def outer(x):
            def inner():
                found = %dpquery --rho 1 {count} :x
                return n(found)
            return inner()
        outer("b"), outer("c")
        """,
    "a closure whose function has ended": """
        def make(x):
            def ask():
                found = %dpquery --rho 1 {count} :x
                return n(found)
            return ask
        first, second = make("b"), make("c")
        first(), second()
        """,
    "two functions further out": """
        def outer(x):
            def middle():
                def inner():
                    found = %dpquery --rho 1 {count} :x
                    return n(found)
                return inner
            return middle
        outer("b")()(), outer("c")()()
        """,
    "a method": """
        class Asker:
            x = "a"
            def __init__(self, x):
                self.x = x
            def ask(self):
                x = self.x
                found = %dpquery --rho 1 {count} :x
                return n(found)
        Asker("b").ask(), Asker("c").ask()
        """,
    "the body of a class": """
        class B:
            x = "b"
            found = %dpquery --rho 1 {count} :x
        class C:
            x = "c"
            found = %dpquery --rho 1 {count} :x
        n(B.found), n(C.found)
        """,
    "a generator": """
        def ask():
            for x in "bc":
                found = %dpquery --rho 1 {count} :x
                yield n(found)
        tuple(ask())
        """,
    "a coroutine": """
        async def ask(x):
            found = %dpquery --rho 1 {count} :x
            return n(found)
        async def both():
            return tuple([await ask(x) for x in "bc"])
        # without a loop: a browser's test may have left one running in this thread
        try:
            both().send(None)
        except StopIteration as end:
            answers = end.value
        answers
        """,
    "a list comprehension": """
        ask = get_ipython().run_line_magic
        tuple([n(get_ipython().run_line_magic("dpquery", "--rho 1 {count} :x")) for x in "bc"])
        """,
    "a comprehension in a function": """
        def f(x, *others):
            return [n(get_ipython().run_line_magic("dpquery", "--rho 1 {count} :x")) for _ in "1"]
        (*f("b"), *f("c"))
        """,
    "a lambda": """
        f = lambda x: n(get_ipython().run_line_magic("dpquery", "--rho 1 {count} :x"))
        f("b"), f("c")
        """,
    "a cell magic in a function": """
        def f(x):
            return n(get_ipython().run_cell_magic("dpquery", "--rho 1", "{count} :x"))
        f("b"), f("c")
        """,
    "a block of the notebook": """
        seen = []
        for x in "bc":
            found = %dpquery --rho 1 {count} :x
            seen.append(n(found))
        tuple(seen)
        """,
}


@pytest.mark.parametrize("place", NESTED)
def test_a_parameter_is_the_innermost_variable(asked, place):
    assert outcome(asked, NESTED[place].format(count=COUNT)) == (20, 30)


def test_without_one_it_is_the_notebooks(asked):
    cell = """
        def f():
            found = %dpquery --rho 1 {count} :x
            return n(found)
        f()
        """
    assert outcome(asked, cell.format(count=COUNT)) == 10


def test_a_module_of_its_own_has_its_own_globals(asked):
    source = "def f():\n    return get_ipython().run_line_magic('dpquery', \"--rho 1 %s :x\")\n"
    module = {"get_ipython": lambda: asked.ip, "x": "b"}
    exec(source % COUNT, module)  # noqa: S102 - a module that is not the notebook
    asked.names["f"] = module["f"]
    assert outcome(asked, "n(f())") == 20


@pytest.mark.parametrize(
    "line", ["--rho :level", "--error :level", "--error n=:level", "--rho 1 --confidence :level"]
)
def test_an_option_is_the_innermost_variable(asked, line):
    asked.names["level"] = 0.001
    cell = """
        def f(level):
            price = %dpquery {line} --dry-run SELECT COUNT(*) AS n FROM t
            return price
        f(0.5)
        """
    plain = f"%dpquery {line} --dry-run SELECT COUNT(*) AS n FROM t".replace(":level", "0.5")
    assert str(outcome(asked, cell.format(line=line))) == str(outcome(asked, plain))


class TestSessions:
    def test_on_names_the_innermost_variable(self, asked, table):
        asked.names["other"] = session(table)
        outcome(
            asked,
            f"""
            def f(t):
                found = %dpquery --rho 1 --on t {COUNT} 'a'
            f(other)
            """,
        )
        assert asked.names["other"].budget.spent.rho == 1
        assert asked.names["t"].budget.spent.rho == 0

    def test_a_variable_without_a_session_hides_one(self, asked):
        ran = asked.run(f"def f(t):\n    %dpquery --rho 1 --on t {COUNT} 'a'\nf(3)")
        assert isinstance(ran.error, RequestError)
        assert "there is no session 't'" in str(ran.error)
        assert asked.names["t"].budget.spent.rho == 0


class TestValues:
    @pytest.mark.parametrize("quiet", ["", "-q ", "--quiet "])
    def test_what_is_assigned_is_the_answer(self, asked, quiet):
        ran = asked.run(f"found = %dpquery {quiet}--rho 1 {COUNT} 'b'")
        assert ran.stdout == ""
        assert isinstance(asked.names["found"], Answer)

    def test_several_statements_are_several_answers(self, asked):
        outcome(asked, f"b, c = %dpquery -q --rho 1 {COUNT} 'b'; {COUNT} 'c'")
        assert outcome(asked, "n(b), n(c)") == (20, 30)

    @pytest.mark.parametrize("target", ["d['k']", "d.k"])
    def test_any_target_takes_it(self, asked, target):
        asked.run("class D(dict): pass\nd = D()")
        asked.run(f"{target} = %dpquery -q --rho 1 {COUNT} 'b'")
        assert outcome(asked, f"n({target})") == 20

    @pytest.mark.parametrize(
        "cell",
        [
            f"%dpquery -q --rho 1 {COUNT} 'b'",
            f"%%dpquery --quiet --rho 1\n{COUNT} 'b'",
            f"%%dpquery -q -o kept --rho 1\n{COUNT} 'b'",
            "%dpopen t",
            "get_ipython().run_line_magic('dpquery', \"-q --rho 1 " + COUNT + " 'b'\")",
        ],
    )
    def test_what_is_quiet_is_not_shown(self, asked, cell):
        ran = asked.run(cell)
        assert ran.error is None
        assert ran.result is None
        assert not ran.shown

    def test_every_magic_has_a_value(self, asked):
        cells = """
            opened = %dpopen t
            rehearsal = %dprehearse --rows 10
            budget = %dpbudget
            answer = %dpquery -q --rho 1 SELECT g, COUNT(*) AS n FROM t GROUP BY g
            decision = %dpdecide -q --most 900 --yes SELECT g FROM t GROUP BY g HAVING COUNT(*) > 15
            picker = %dprisk -q SELECT COUNT(*) AS n FROM t
            """
        outcome(asked, cells)
        kinds = {
            "opened": "Session", "rehearsal": "Session", "budget": "BudgetStatus",
            "answer": "Answer", "decision": "Decision", "picker": "RiskPicker",
        }  # fmt: skip
        assert {name: type(asked.names[name]).__name__ for name in kinds} == kinds

    def test_a_discovery_has_a_value(self, shell, table):
        schema = Schema({"x": Integer(0, 1)}, undeclared=["word"])
        budget = Budget(epsilon=5, delta=1e-6, key_delta=1e-7)
        other = Table("t", table.source, schema)
        shell.names["t"] = Session(other, budget=budget, noise=NoNoise())
        assert shell.run("found = %dpdiscover word --on t --rho 0.1 -q --yes").stdout == ""
        assert isinstance(shell.names["found"], Discovery)

    @pytest.mark.parametrize(("target", "named"), [("found", "found"), ("a, b", "NAME")])
    def test_a_cell_magic_cannot_be_assigned(self, asked, target, named):
        ran = asked.run(f"{target} = %%dpquery --rho 1\n{COUNT} 'a'")
        assert str(ran.error) == (
            "the value of %%dpquery cannot be assigned. "
            f"Write %%dpquery -o {named} as the first line of its cell."
        )
        assert asked.run(f"%%dpquery -o found --rho 1\n{COUNT} 'a'").error is None


class TestBinding:
    def test_in_a_function_it_sets_the_notebooks_variable(self, asked):
        cell = f"def f():\n    %dpquery -q -o kept --rho 1 {COUNT} 'b'\nf()\nn(kept)"
        assert outcome(asked, cell) == 20

    @pytest.mark.parametrize(
        "line", ["-o kept --rho 1", "kept << --rho 1"], ids=["option", "arrows"]
    )
    def test_a_variable_of_the_function_is_refused_before_anything_is_spent(self, asked, line):
        cell = f"def f(kept):\n    %dpquery {line} {COUNT} 'b'\nf(None)"
        ran = asked.run(cell)
        assert str(ran.error) == (
            "kept is a variable of this function, which a magic cannot set. "
            "Assign the value: kept = %dpquery ..., without -o."
        )
        assert asked.names["t"].budget.spent.rho == 0
        followed = (
            f"def f(kept):\n    kept = %dpquery --rho 1 {COUNT} 'b'\n    return n(kept)\nf(0)"
        )
        assert outcome(asked, followed) == 20


class TestOpening:
    @pytest.mark.parametrize("options", ["--rho :most", "--epsilon :most --delta :delta"])
    def test_a_budget_may_be_a_variable(self, shell, table, options):
        shell.names.update(table=table, most=3, delta=1e-6)
        assert shell.run(f"first = %dpopen table {options}").error is None
        plain = options.replace(":most", "3").replace(":delta", "1e-6")
        assert shell.run(f"second = %dpopen table {plain}").error is None
        assert shell.names["first"].budget.cap == shell.names["second"].budget.cap

    def test_names_of_files_may_be_variables_and_of_any_kind_of_path(self, shell, table, tmp_path):
        shell.names.update(table=table, path=tmp_path / "t.ledger", who="people")
        assert shell.run("%dpopen table --rho 1 --ledger :path --as :who").error is None
        assert (tmp_path / "t.ledger").exists()
        assert isinstance(shell.names["people"], Session)

    @pytest.mark.parametrize("option", ["--rho 1 --ledger", "--rho", "--epsilon 1 --delta"])
    def test_nothing_in_a_variable_is_not_left_out_silently(self, shell, table, option):
        shell.names.update(table=table, nothing=None)
        ran = shell.run(f"%dpopen table {option} :nothing")
        assert f"{option.split()[-1]} :nothing has no value" in str(ran.error)
