"""Names and values that are code somewhere else: markup, scripts, SQL, formulas, terminal controls.

Promised: in every rendering (text, HTML, widgets, Markdown, figures, refusals) they are read as the texts that they
are; none opens a tag, ends a statement or a script, moves a cursor or turns the direction of writing. Not
promised: what another program makes of exact data. ``to_frame`` and ``to_dict`` hold values as they were declared
or discovered, and a spreadsheet may take one that begins with = + - @ for a formula.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from html import unescape

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import dpnb
from dpnb import Category, DpnbError, Integer, Schema, Table
from tests.kit.html import Reading, packed

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script></style><script>alert(1)</script>",
    "\" onmouseover='alert(1)' x=\"",
    "<!--",
    "javascript:alert(1)",
    "{{7*7}}${7*7}#{7*7}%s%n",
    "&lt;b&gt;",
    "'; DROP TABLE t; --",
    '" OR 1=1 /*',
    ":id",
    "=cmd|'/C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1:A9)",
    "\t=1+1",
    "[click](javascript:alert(1)) ![x](http://evil/) `x` **b** | # h\n---",
    "$\\input{/etc/passwd}$",
    "$\\frac{",
    "$$ \\href{javascript:alert(1)}{x} $$",
    "\x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07 \x9b2J",
    "\u202egpj.exe\u2066\u200f\u200b",
    "a\r\nb\x00c\x08",
    "x" * 1_000,
    "\U0001f468\u200d\U0001f469 \u0301 名 שלום",
]
NAME = 'x"<img src=x onerror=alert(1)>$\\frac{\x1b[31m\u202e'
ALIAS = "=n</script>$\\frac{\x1b[31m"
QUOTED, AS = (f'"{text.replace(chr(34), 2 * chr(34))}"' for text in (NAME, ALIAS))
TABLE = Table(
    "t",
    pd.DataFrame({"s": HOSTILE * 40, NAME: range(len(HOSTILE) * 40)}),
    Schema(
        {"s": Category(HOSTILE), NAME: Integer(0, 2_000, bins=[0, 500, 2_000])},
        complete=["s", NAME],
    ),
)
BY = f"SELECT s, COUNT(*) AS {AS}, AVG({QUOTED}) AS m FROM t GROUP BY s"
DECIDED = f"SELECT s, SUM({QUOTED}) AS {AS} FROM t GROUP BY s HAVING SUM({QUOTED}) > 100"


@pytest.fixture(scope="module")
def results():
    with dpnb.Session(TABLE, budget=dpnb.Budget(rho=1_000, delta=1e-6)) as session:
        answer = session.query(BY, rho=1)
        session.query(f"SELECT s, {QUOTED}, COUNT(*) AS n FROM t GROUP BY s, {QUOTED}", rho=1)
        question = answer.compare(HOSTILE[0], HOSTILE[17])
        yield {
            "answer": answer,
            "question": question,
            "explanation": session.explain(question, k=2, rho=1, anyway=True),
            "decision": session.decide(DECIDED, beta=0.05, u=3_000),
            "inference": session.infer(f"SELECT s, COUNT(*) AS {AS} FROM t GROUP BY s"),
            "price": session.price(BY, rho=2),
            "tables": session.tables,
            "history": session.history,
            "budget": session.budget,
        }


KINDS = ["answer", "question", "explanation", "decision", "inference", "price", "tables", "history", "budget"]  # fmt: skip
DRAWN = KINDS[:5]


def steering(text):
    """Characters that no reader sees and that change what a reader sees."""
    return {c for c in text if not c.isprintable() and c != "\n"}


def check_html(html):
    reading = Reading(html)
    for tag, attributes in reading.tags:
        assert tag not in ("img", "a", "iframe", "object", "embed", "link", "meta", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        assert not {"href", "src", "action", "formaction", "srcdoc", "xlink:href"} & set(attributes)
    assert html.count("</script>") == html.count("<script>") <= 1
    assert html.count("</style>") == html.count("<style>")
    assert "<!--" not in html
    assert not steering(html)
    return reading


@pytest.mark.parametrize("kind", KINDS)
def test_in_text(kind, results):
    shown = repr(results[kind])
    assert not steering(shown)
    assert len(shown.splitlines()) < 120


@pytest.mark.parametrize("kind", KINDS)
def test_in_html(kind, results):
    check_html(results[kind]._repr_html_())


def test_a_reader_of_html_gets_each_text_as_it_is(results):
    reading = Reading(results["answer"]._repr_html_())
    for value in HOSTILE:
        if value.isprintable():
            assert value in reading.cells, value
    data = packed(results["answer"]._repr_html_())["data"]
    assert not steering("".join(data["names"]))


@pytest.mark.parametrize("kind", DRAWN)
def test_in_widgets(kind, results):
    widget = results[kind].widget()
    state = {k: v for k, v in widget.get_state().items() if k in ("data", "value")}
    assert state
    for text in (
        text for part in ([state["data"]] if "data" in state else []) for text in texts_of(part)
    ):
        if "<table" in text or "<div" in text:
            check_html(text)
    if "value" in state:
        check_html(state["value"])
    widget.close()


def texts_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts_of(item)


@pytest.mark.parametrize("kind", ["answer", "explanation", "decision"])
def test_in_markdown(kind, results):
    shown = results[kind].to_markdown()
    assert not steering(shown)
    # what is left of markup once escapes are taken off
    bare = re.sub(r"\\.", "", shown)
    assert "<" not in bare
    assert "](" not in bare
    assert "`" not in bare
    assert "$" not in bare
    tables = [block.splitlines() for block in bare.split("\n\n") if block.startswith("|")]
    for table in tables:
        assert len({line.count("|") for line in table}) == 1
    if kind == "answer":
        assert [len(table) for table in tables] == [len(HOSTILE) + 2]


@pytest.mark.parametrize("kind", DRAWN)
def test_in_figures(kind, results, tmp_path):
    with warnings.catch_warnings():
        # a label of 1,000 letters leaves no room, and fonts lack some letters
        warnings.simplefilter("ignore")
        axes = results[kind].plot()
        axes.figure.savefig(tmp_path / "drawn.svg")
    drawn = (tmp_path / "drawn.svg").read_text("utf-8")
    assert "<script" not in drawn
    assert "<img" not in drawn
    assert not steering(drawn) - {"\u200d"}
    plt.close(axes.figure)


@pytest.mark.parametrize("kind", ["answer", "explanation", "decision", "inference", "question"])
def test_on_pages(kind, results, tmp_path):
    results[kind].to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<script>") <= 1
    assert not [tag for tag, _ in Reading(page).tags if tag == "img"]
    assert not steering(page)


REFUSED = [
    lambda session, answer: session.query("SELECT COUNT(*) FROM t WHERE s = '\x1b[31mrex'", rho=1),
    lambda session, answer: session.query('SELECT COUNT(*) FROM t WHERE "x\x1b[31m" = 1', rho=1),
    lambda session, answer: session.query("SELECT COUNT(*) FROM t WHERE nothing = 1", rho=1),
    lambda session, answer: session.query("SELECT COUNT(*) FROM \"t\x1b[31m\u202e\"", rho=1),
    lambda session, answer: session.query("SELECT \x1b[31m COUNT(*) FROM t", rho=1),
    lambda session, answer: session.query(BY, rho="\x1b[31m1"),
    lambda session, answer: session.explain(answer.compare(*HOSTILE[:2]), attributes=["\x1b[31m"]),
    lambda session, answer: session.discover("x\u202e", rho=1),
    lambda session, answer: answer.compare("\x1b[31mrex", HOSTILE[1]),
    lambda session, answer: answer.compare(*HOSTILE[18:20], "\x1b[31m"),
    lambda session, answer: answer.estimates_of("\u202e"),
    lambda session, answer: session.infer("SELECT MAX(s) AS \"\x1b[31m\" FROM t"),
    lambda session, answer: session.decide(f"SELECT s FROM t GROUP BY s HAVING {QUOTED} > 1"),
]  # fmt: skip


@pytest.mark.parametrize("work", REFUSED, ids=range(len(REFUSED)))
def test_in_refusals(work, results):
    """An error's text is printed to terminals and into outputs as it is."""
    with dpnb.Session(TABLE, budget=dpnb.Budget(rho=9)) as session:
        with pytest.raises(DpnbError) as caught:
            work(session, results["answer"])
        shown = [str(caught.value), *caught.value._render_traceback_()]
    for text in shown:
        assert not steering(text)
        assert "\n" not in text
        assert len(text) < 12_000


def test_in_statements_they_are_values():
    """Bound, quoted or declared, no value ends its place: each selects its own rows alone."""
    with dpnb.Session(TABLE, budget=dpnb.Budget(rho=10**9)) as session:
        for value in HOSTILE:
            asked = [("SELECT COUNT(*) AS n FROM t WHERE s = :v", {"v": value})]
            if "\x00" not in value:
                quoted = value.replace("'", "''")
                asked.append((f"SELECT COUNT(*) AS n FROM t WHERE s IN ('{quoted}')", None))
            for sql, params in asked:
                answer = session.query(sql, params=params, rho=10**5)
                assert answer.estimates[0].estimate[0] == pytest.approx(40, abs=0.5)
        assert list(session.query("SELECT COUNT(*) AS n FROM t", rho=10**5).to_frame()["n"].round())


class TestExports:
    """Data are data: exports hold each value as it is, and what reads them must not run it."""

    def test_frames_and_json_hold_values_as_they_are(self, results):
        answer = results["answer"]
        frame = answer.to_frame()
        assert list(frame["s"]) == HOSTILE
        assert list(frame.columns[1:2]) == [ALIAS]
        assert [group for (group,) in json.loads(json.dumps(answer.to_dict()))["groups"]] == HOSTILE

    def test_a_csv_of_a_frame_keeps_its_cells_apart_and_formulas_as_they_are(self, results):
        text = results["answer"].to_frame().to_csv(index=False, lineterminator="\n")
        lines = list(csv.reader(io.StringIO(text, newline="")))
        assert [line[0] for line in lines[1:]] == HOSTILE
        assert {len(line) for line in lines} == {7}
        # a spreadsheet would work these out
        assert sum(line[0][0] in "=+-@\t" for line in lines) == 5

    def test_html_of_a_frame_is_not_ours_and_escapes_too(self, results):
        html = results["answer"].to_frame().to_html()
        assert "<img" not in html
        assert HOSTILE[0] in unescape(html)


class TestDiscovered:
    """Whoever writes rows chooses their texts: one that enough rows have is shown, as text."""

    def test_found_values_are_shown_as_texts(self):
        frame = pd.DataFrame({"n": 1, "who": [text for text in HOSTILE for _ in range(300)]})
        table = Table("t", frame, Schema({"n": Integer(0, 9)}, undeclared=["who"]))
        budget = dpnb.Budget(rho=10, key_delta="0.01")
        with dpnb.Session(table, budget=budget) as session:
            found = session.discover("who", rho=5)
        assert len(found.to_frame()) >= len(HOSTILE) - 1
        assert not steering(repr(found))
        check_html(found._repr_html_())
