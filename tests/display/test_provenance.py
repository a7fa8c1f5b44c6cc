"""What the owner sees of several analysts: the same facts in text, HTML, figure and live view."""

from __future__ import annotations

import json
import math
import pickle
import re
from dataclasses import replace
from fractions import Fraction
from html import unescape
from itertools import chain, combinations, pairwise
from unittest import mock

import ipywidgets
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import dpnb
from dpnb.display.cards.provenance import provenance_html
from dpnb.display.cards.provenance_tables import heat_map, units
from dpnb.display.cards.provenance_timeline import course, path, spread
from dpnb.display.cards.provenance_widget import ProvenanceWidget
from dpnb.display.cards.provenance_words import MAX_COLUMNS, MOST_ALONE, coalition_text
from dpnb.display.text import MAX_ROWS
from dpnb.errors import LedgerError
from dpnb.formats import part_text
from dpnb.owner.report import Spending
from dpnb.privacy.loss import amount_text
from tests.kit.html import Reading, compare

pytestmark = pytest.mark.fast

MARKUP = "<img src=x onerror=alert(1)>"
MEAN = "SELECT g, AVG(x) AS mean FROM people GROUP BY g"
COUNT = "SELECT g, COUNT(*) AS n FROM people GROUP BY g"
NASTY = f'SELECT COUNT(*) AS "{MARKUP}" FROM people WHERE x > 3'
MECHANISMS = ("path", "additive", "vanilla")


class ZeroNoise:
    """No noise: what is shown here are charges, which do not depend on it."""

    def gaussian(self, exact, sigma):
        return list(exact)

    def laplace(self, exact, scale):
        return list(exact)


def curated(analysts=None, mechanism="path", budget=None, **options):
    rows = [("ab"[i % 2], i % 10) for i in range(40)]
    schema = dpnb.Schema({"g": dpnb.Category(["a", "b"]), "x": dpnb.Integer(0, 9)})
    table = dpnb.Table("people", pd.DataFrame(rows, columns=["g", "x"]), schema)
    return dpnb.Curator(
        [table],
        budget=budget or dpnb.Budget(rho=1, delta=1e-6),
        analysts=analysts or {"alice": 4, "bob": 1, "carol": 2},
        policy=options.pop("policy", dpnb.Policy(mechanism=mechanism)),
        views=options.pop("views", [["g"]]),
        noise=ZeroNoise(),
        **options,
    )


def used(**options):
    """Three analysts: a view that two share, statements, a grant, and one who was disabled."""
    curator = curated(**options)
    alice, bob, carol = map(curator.session, ("alice", "bob", "carol"))
    alice.query(COUNT, rho=0.1)
    bob.query(COUNT, rho=0.04)
    alice.query(MEAN, rho=0.2)
    carol.query(NASTY, rho=0.03)
    curator.limit("bob", rho="0.05")
    curator.grant("alice", "bob", rho="0.02")
    bob.query("SELECT COUNT(*) AS n FROM people WHERE x > 5", rho=0.02)
    curator.disable("carol")
    return curator


def at_noon(provenance):
    """The same as if everything had happened at known minutes."""
    timeline = tuple(
        replace(one, time=f"2026-11-21T12:{minute:02}:00+00:00")
        for minute, one in enumerate(provenance.timeline)
    )
    columns = tuple(replace(one, id=f"c{i}") for i, one in enumerate(provenance.columns))
    ids = {old.id: new.id for old, new in zip(provenance.columns, columns, strict=True)}
    cells = {(row, ids[column]): known for (row, column), known in provenance.cells.items()}
    rules = tuple(replace(one, time="2026-11-21T11:59:00+00:00") for one in provenance.rules)
    return replace(provenance, timeline=timeline, columns=columns, cells=cells, rules=rules)


@pytest.fixture(scope="module")
def curator():
    return used()


@pytest.fixture(scope="module")
def provenance(curator):
    return at_noon(curator.provenance)


@pytest.fixture(scope="module")
def reading(provenance):
    return Reading(provenance_html(provenance))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def section(html, name):
    """Return the rows of one table as lists of texts."""
    found = re.search(rf'<table class="dpnb-table {name}">(.*?)</table>', html, re.DOTALL)[1]
    return [Reading(row).cells for row in re.findall(r"<tr.*?</tr>", found, re.DOTALL)]


class TestWords:
    def test_the_first_sentence_says_what_all_have_learned_of_which_cap(self, provenance, reading):
        told = (
            "Released to all analysts together: at most rho 0.35 (epsilon 4.25 at delta 1e-6), "
            "35 % of the total budget."
        )
        rho = float(provenance.spent.rho)
        told = told.replace("4.25", amount_text(provenance.spent.epsilon_at(1e-6)))
        told = told.replace("0.35", amount_text(rho)).replace(
            "35 %", part_text(provenance.spent.rho, Fraction(1))
        )
        assert repr(provenance).startswith(told + "\nTotal budget: rho 1 (epsilon")
        assert told in reading.text.replace("\N{NO-BREAK SPACE}", " ")

    def test_nothing_was_answered(self):
        provenance = curated().provenance
        told = "Nothing was released to all analysts together so far."
        for text in (repr(provenance), Reading(provenance._repr_html_()).text):
            assert told in text
            assert "no answers to compare" in text
        assert "Nothing was spent yet." in Reading(provenance._repr_html_()).text
        provenance.plot()

    def test_what_all_together_know_is_that_of_the_budget(self, curator, provenance):
        assert provenance.spent == curator.budget.spent
        assert provenance.coalition("alice", "bob", "carol") == provenance.spent

    def test_what_the_owner_decided_is_told_with_dates(self, provenance, reading):
        assert [one.kind for one in provenance.rules] == ["policy", "limit", "grant"]
        for rule in provenance.rules:
            for text in (repr(provenance), reading.text.replace("\N{NO-BREAK SPACE}", " ")):
                assert rule.text in text
        assert repr(provenance).count("2026-11-21 11:59") == 3
        assert "Your decisions" in reading.text
        curator = curated(analysts={"alice": 4})
        for i in range(MAX_ROWS):
            curator.protect("SELECT COUNT(*) AS n FROM people", ">", i, name=f"{i} {MARKUP}")
        found = curator.provenance
        assert "1 older rule: see to_frame(rules=True)." in repr(found)
        assert MARKUP not in found._repr_html_()
        assert f"(39 {MARKUP})" in unescape(found._repr_html_())

    def test_several_rows_of_one_analyst_have_one_limit_in_all(self, provenance):
        told = "An analyst with several privileges has the largest of their limits in total."
        assert told not in repr(provenance)
        found = curated(analysts={"alice": (4, 1), "bob": 1}).provenance
        for text in (repr(found), Reading(found._repr_html_()).text):
            assert told in text

    def test_a_cap_that_was_lowered_is_told(self):
        curator = used()
        curator.limit(rho="0.1")
        told = "at delta 1e-6), more than the total budget, which was lowered.\nTotal budget: rho 0.1 ("
        assert told in repr(curator.provenance)
        assert "lowered" in coalition_text(curator.provenance, ["alice"])

    def test_fairness_names_its_scale_and_what_equal_numbers_would_give(self, provenance):
        low, high = provenance.ndcfg_range
        assert (low, high) == (1.0, pytest.approx(3.10628371951))
        text = repr(provenance)
        assert (
            f"Fairness (nDCFG): {provenance.ndcfg:.2f}, on a scale from 1.00 (only privilege 1"
            in text
        )
        assert provenance.ndcfg_even == pytest.approx((1 + 1 / math.log2(1.5) + high) / 3)
        assert "got more answers than the others" in text

    @pytest.mark.parametrize(
        ("answered", "word"), [((9, 0, 0), "got more answers"), ((1, 1, 1), "got as many")]
    )
    def test_fairness_is_told_as_a_comparison(self, provenance, answered, word):
        rows = tuple(
            replace(row, answered=count)
            for row, count in zip(provenance.rows, answered, strict=True)
        )
        assert f"privilege {word}" in repr(replace(provenance, rows=rows))

    def test_equal_privileges_cannot_be_compared(self):
        curator = curated({"a": 3, "b": 3})
        curator.session("a").query(COUNT, rho=0.1)
        assert "All analysts have privilege 3" in repr(curator.provenance)

    def test_a_coalition_is_told_as_a_sentence(self, provenance):
        assert coalition_text(provenance, ["alice", "bob"]).startswith(
            "Released to alice and bob together: at most rho "
        )
        assert coalition_text(provenance, ["bob"]).startswith("Released to bob: at most rho 0.06 (")
        unused = curated().provenance
        assert coalition_text(unused, ["bob"]) == "Nothing was released to bob so far."

    def test_epsilon_alone_is_counted_by_a_basic_ledger(self):
        budget = dpnb.Budget(epsilon=3, delta=1e-6, accountant="basic")
        curator = curated(mechanism="additive", budget=budget, views=[])
        curator.session("alice").query(COUNT, epsilon=0.5)
        text = repr(curator.provenance)
        assert "at most epsilon 0.5 and delta 1e-9, 17 % of the total budget" in text
        assert "rho" not in text
        assert [unit.name for unit in units(curator.provenance)] == ["epsilon"]
        reading = Reading(curator.provenance._repr_html_()).text
        assert "Analysts, in epsilon" in reading
        assert "the numbers here are upper bounds" in reading

    def test_one_analyst_alone_has_no_coalitions(self):
        schema = dpnb.Schema({"x": dpnb.Integer(0, 9)})
        table = dpnb.Table("t", pd.DataFrame({"x": [1, 2]}), schema)
        curator = dpnb.Curator([table], budget=dpnb.Budget(rho=1), noise=ZeroNoise())
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho=0.1)
        html = curator.provenance._repr_html_()
        assert "Released to the analyst: at most rho 0.1, 10 % of the total budget." in repr(
            curator.provenance
        )
        assert "Released to them together" not in html
        assert "ε" not in Reading(html.split("How to read this")[0]).text


class TestTables:
    def test_the_record_is_as_it_was_reviewed(self, provenance, regenerate):
        compare("provenance.html", provenance_html(provenance), regenerate)

    def test_an_analyst_has_a_line(self, provenance):
        lines = {
            cells[0]: cells[1:] for cells in section(provenance_html(provenance), "dpnb-prov-rows")
        }
        spent, left = (amount_text(part) for part in (0.05, 0.01))
        assert lines["bob"][0] == "1"
        assert lines["bob"][1].startswith(spent)
        assert "released 0.06" in lines["bob"][1]
        assert lines["bob"][2] == "100 %"
        assert lines["bob"][4].startswith(left)
        assert "released" not in lines["carol ✗ disabled"][1]
        assert lines["all together"][2] == "35 %"

    def test_a_row_without_anything_left_says_so(self):
        curator = curated()
        curator.limit("bob", rho=0)
        assert "✗ used up" in Reading(curator.provenance._repr_html_()).text

    def test_cells_are_numbers_shaded_by_their_share_of_the_limit(self, provenance):
        html = heat_map(provenance)
        for row in provenance.rows:
            line = next(one for one in re.findall(r"<tr>.*?</tr>", html) if f">{row.name}" in one)
            known = [loss for (name, _), loss in provenance.cells.items() if name == row.name] + [
                row.known
            ]
            shares = sorted(float(found) for found in re.findall(r"--dpnb-share:([\d.]+)", line))
            wanted = sorted(min(100, float(100 * loss.rho / row.limit.rho)) for loss in known)
            assert shares == pytest.approx(wanted, abs=0.05)
            for loss in known:
                assert f">{amount_text(loss.rho)}</td>" in line

    def test_columns_say_what_they_are_and_come_largest_first(self, provenance):
        top = section(provenance_html(provenance), "dpnb-prov-heat")[0]
        assert [head.split("SELECT")[0] for head in top[2:]] == [
            "statement (1 of 2)", "viewg", "statement (2 of 2)", "statement", "statement",
        ]  # fmt: skip
        known = [column.known.rho for column in provenance.columns]
        foot = section(provenance_html(provenance), "dpnb-prov-heat")[-1]
        assert [Fraction(text) for text in foot[2:]] == sorted(known, reverse=True)

    def test_limits_of_views_have_a_line_of_their_own(self):
        policy = dpnb.Policy(views="equal")
        curator = curated(policy=policy, views=[["g"], ["x"]])
        curator.session("alice").query(COUNT, rho=0.1)
        lines = section(curator.provenance._repr_html_(), "dpnb-prov-heat")
        limit = curator.provenance.columns[0].limit
        assert lines[-1] == ["limit", "1", *[amount_text(limit.rho, left=True)] * 2]
        assert [cells[0] for cells in lines] == [
            "analyst",
            "alice",
            "bob",
            "carol",
            "all together",
            "limit",
        ]

    def test_many_columns_are_folded_and_the_total_is_at_most_their_sum(self):
        curator = curated()
        alice = curator.session("alice")
        for x in range(10):
            for sign in ("<", ">", "=", "<>"):
                alice.query(f"SELECT COUNT(*) AS n FROM people WHERE x {sign} {x}", rho="0.001")
        provenance = curator.provenance
        lines = section(provenance._repr_html_(), "dpnb-prov-heat")
        count = len(provenance.columns)
        assert count > MAX_COLUMNS + 1
        assert lines[0][-1] == f"and {count - MAX_COLUMNS} more, at most"
        assert {len(line) for line in lines} == {2 + MAX_COLUMNS + 1}
        values = [float(text) for text in lines[1][1:]]
        # x < 1, x < 2, ... and x <> 0, x <> 1, ... meet, x = 0, x = 1, ... do not
        assert values[0] == pytest.approx(float(alice.budget.spent.rho))
        assert 0.001 < values[0] < sum(values[1:])
        assert "the row that is affected most" in repr(provenance)
        assert "the row that is affected most" in provenance._repr_html_()
        frame = provenance.to_frame(cells=True)
        assert len(frame) == len(provenance.cells)
        assert frame["rho_known"].sum() == pytest.approx(0.001 * count)
        assert f"{count - MAX_COLUMNS} more columns" in repr(provenance)
        assert f"All {count} columns in full" in provenance._repr_html_()

    def test_many_analysts_are_cut_and_counted(self):
        curator = curated({f"a{i}": 1 + i % 3 for i in range(MAX_ROWS + 5)})
        curator.session("a3").query(COUNT, rho=0.1)
        html = curator.provenance._repr_html_()
        assert len(section(html, "dpnb-prov-rows")) == 1 + MAX_ROWS + 1
        assert "5 more analysts: see to_frame()." in Reading(html).text
        groups = section(html, "dpnb-prov-groups")[1:]
        assert len(groups) == MOST_ALONE + 1
        assert groups[0][0] == "a3"
        assert groups[-1][0] == f"all {MAX_ROWS + 5} together"

    def test_what_the_owner_released_is_a_line_of_its_own(self):
        curator = curated()
        curator.session("alice").query(COUNT, rho=0.1)
        curator.risk("SELECT SUM(x) AS total FROM people").answer(Fraction("0.05"))
        provenance = curator.provenance
        lines = {cells[0]: cells for cells in section(provenance._repr_html_(), "dpnb-prov-heat")}
        assert lines["you (the owner)"][1] == "0.05"
        assert lines["all together"][1] == "0.15"
        assert "to all analysts and to you, together" in repr(provenance)

    def test_each_pair_of_few_is_shown_with_its_exact_loss(self, provenance):
        lines = {
            cells[0]: cells[1] for cells in section(provenance_html(provenance), "dpnb-prov-groups")
        }
        names = ("alice", "bob", "carol")
        groups = {
            " + ".join(group): group for size in (1, 2) for group in combinations(names, size)
        }
        groups["all 3 together"] = names
        assert set(groups) | {"who"} == set(lines)
        for label, group in groups.items():
            loss = provenance.coalition(*group)
            shown = f"{amount_text(loss.rho)}ε {amount_text(loss.epsilon_at(1e-6))}"
            assert lines[label] == shown

    def test_there_are_no_scripts_no_ids_and_no_addresses(self, provenance):
        html = provenance_html(provenance)
        assert "<script" not in html
        for tag, attrs in Reading(html).tags:
            assert not {"id", "src", "href", "onclick"} & set(attrs)
            if tag == "summary" or "tabindex" in attrs:
                assert attrs["data-lm-suppress-shortcuts"] == "true"
        assert not re.search(r"https?:|@import|url\(", html)

    def test_every_bar_has_its_number_beside_it(self, provenance):
        html = provenance_html(provenance)
        table = html[html.index("dpnb-prov-rows") : html.index("</table>")]
        for width, text in re.findall(
            r'<div style="width:([\d.]+)%[^>]*></div></div><span>([^<]*)</span>', table
        ):
            # rounded up, and the bar is as long as its exact share
            assert text in (part_text(Fraction(width), Fraction(100)), "✗ used up")

    def test_a_page_of_its_own(self, provenance, tmp_path):
        provenance.to_html(str(tmp_path / "page.html"))
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "How much was released to each analyst?" in page


class TestEscaping:
    """Statements and names of views come from outside."""

    def test_markup_in_a_statement_stays_text(self, provenance, reading):
        tags = {tag for tag, _ in reading.tags}
        assert "img" not in tags
        assert MARKUP in reading.text
        assert MARKUP in repr(provenance)
        assert {tag for tag, _ in reading.tags} <= {
            "div", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "span", "p", "br",
            "strong", "details", "summary", "svg", "path", "i",
        }  # fmt: skip

    def test_markup_in_every_name_stays_text(self, provenance):
        """Even if a name that cannot be registered got in."""
        evil = f'"><{MARKUP[1:]}\N{RIGHT-TO-LEFT OVERRIDE}'
        rows = tuple(
            replace(row, name=row.name + evil, analyst=row.name + evil) for row in provenance.rows
        )
        columns = tuple(replace(one, name=evil) for one in provenance.columns)
        cells = {(row + evil, column): loss for (row, column), loss in provenance.cells.items()}
        timeline = tuple(replace(one, row=one.row + evil) for one in provenance.timeline)
        bad = replace(provenance, rows=rows, columns=columns, cells=cells, timeline=timeline)
        for html in (provenance_html(bad), heat_map(bad, units(bad)[1])):
            reading = Reading(html)
            assert "img" not in {tag for tag, _ in reading.tags}
            assert not any("onerror" in attrs for _, attrs in reading.tags)
            assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in unescape(html)
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in repr(bad)

    @pytest.mark.parametrize("name", [MARKUP, "a b", 'a"b', "a<b", "a\n", ""])
    def test_such_a_name_cannot_be_registered(self, name):
        with pytest.raises(dpnb.DpnbError):
            curated({name: 1})


class TestTimeline:
    def test_the_course_ends_where_the_table_is(self, provenance):
        names, points = course(provenance)
        assert names == ["all together", "alice", "bob", "carol"]
        assert points[0] == [0.0] * 4
        known = {row.name: float(row.known.rho) for row in provenance.rows}
        assert points[-1] == pytest.approx(
            [float(provenance.spent.rho), *(known[n] for n in names[1:])]
        )
        assert all(
            a <= b for before, after in pairwise(points) for a, b in zip(before, after, strict=True)
        )

    def test_of_many_charges_the_last_one_is_drawn(self, provenance):
        one = provenance.timeline[0]
        long = replace(provenance, timeline=(one,) * 1234)
        names, points = course(long)
        assert len(names) == len(points[0])
        assert len(points) <= 402
        assert points[-1][0] == pytest.approx(1234 * float(one.table.rho))

    def test_what_cost_nothing_is_no_step(self, provenance):
        free = Spending(
            "2026-11-21T13:00:00+00:00", "bob", dpnb.PrivacyLoss.none(), dpnb.PrivacyLoss.none()
        )
        longer = replace(provenance, timeline=(*provenance.timeline, free))
        assert course(longer) == course(provenance)
        assert "1 more was free." in Reading(provenance_html(longer)).text

    def test_steps_lie_between_their_points(self):
        assert path([100, 60, 60, 20]) == "M0 100.00H16.67V60.00H83.33V20.00H100"

    @pytest.mark.parametrize(
        ("places", "found"),
        [
            ([0, 50, 100], [0, 50, 100]),
            ([98, 99, 100], [80, 90, 100]),
            ([5, 5, 4], [14, 24, 4]),
            ([], []),
        ],
    )
    def test_labels_keep_apart_and_inside(self, places, found):
        assert spread(places, 10) == pytest.approx(found)

    def test_the_cap_is_in_the_picture_unless_it_is_far(self, provenance):
        near, far = (
            provenance_html(replace(provenance, cap=dpnb.PrivacyLoss(rho=Fraction(cap))))
            for cap in ("0.4", "5")
        )
        assert 'class="dpnb-prov-cap"' in near
        assert 'class="dpnb-prov-cap"' not in far
        assert 'data-label="↑ budget 5"' in far

    def test_words_and_table_say_what_the_chart_shows(self, provenance, reading):
        """The picture itself is hidden from those who listen."""
        assert (
            "5 charges, 2026-11-21 12:00 to 12:04 UTC. The total rose to rho 0.35 of 1. The largest"
            in reading.text
        )
        assert "increment was 0.2, by alice." in reading.text
        html = provenance_html(provenance)
        picture = html[html.index('<div class="dpnb-prov-figure"') :]
        picture = picture[: picture.index("<details>")]
        assert picture.startswith('<div class="dpnb-prov-figure" aria-hidden="true">')
        assert Reading(picture).text == ""  # its words are drawn by styles alone
        charges = html[html.index("The charges as a table") :]
        rows = section(charges, "dpnb-listing")
        assert rows[1][:2] == ["2026-11-21 12:04", "bob"]
        assert len(rows) == 1 + len(provenance.timeline)


class TestPlainData:
    def test_it_is_charges_only(self, curator, provenance):
        data = json.loads(json.dumps(provenance.to_dict()))
        assert set(data) == {
            "rows", "columns", "cells", "timeline", "cap", "spent", "remaining", "privacy", "delta",
            "mechanism", "rules",
        }  # fmt: skip
        assert data["spent"] == provenance.spent.to_dict()
        assert len(data["cells"]) == len(provenance.cells)
        assert {type(value) for row in data["rows"] for value in row.values()} <= {
            str,
            int,
            bool,
            dict,
        }
        text = json.dumps(data)
        assert "knots" not in text
        assert "vector" not in text

    def test_what_it_reckons_with_holds_no_released_values(self):
        for mechanism in MECHANISMS:
            found = used(mechanism=mechanism).provenance.together.args[0]
            assert found.paths == {}
            assert all(
                not local.vector for made in found.locals.values() for local in made.values()
            )

    def test_the_frame_has_one_line_for_each_row(self, provenance):
        frame = provenance.to_frame()
        assert list(frame["analyst"]) == ["alice", "bob", "carol"]
        assert list(frame["active"]) == [True, True, False]


class TestCoalitions:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_snapshot_stays_as_it_was(self, mechanism):
        curator = used(mechanism=mechanism)
        before = curator.provenance
        known = before.coalition("alice", "bob")
        curator.limit("bob", rho="0.5")
        curator.session("bob").query(COUNT, rho=0.041)
        curator.session("alice").query(MEAN, rho=0.3)
        assert before.coalition("alice", "bob") == known
        assert curator.coalition("alice", "bob").rho > known.rho

    def test_on_paths_it_is_the_largest_cell_of_each_column_summed(self, provenance):
        """What a page could reckon from the cells is what the kernel says."""
        names = [row.name for row in provenance.rows]
        groups = chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
        for group in groups:
            by_hand = sum(
                (
                    max((provenance.cells[name, one.id].rho for name in group
                         if (name, one.id) in provenance.cells), default=Fraction(0))
                    for one in provenance.columns
                ),
                Fraction(0),
            )  # fmt: skip
            assert provenance.coalition(*group).rho == by_hand

    def test_several_privileges_of_one_are_one_box(self):
        curator = curated({"alice": (4, 1), "bob": 2})
        curator.session("alice").query(COUNT, rho=0.1)
        curator.session("alice", 1).query(COUNT, rho=0.05)
        curator.session("alice", 1).query(NASTY, rho=0.03)
        provenance = curator.provenance
        assert provenance.widget().analysts == ("alice", "bob")
        labels = [cells[0] for cells in section(provenance._repr_html_(), "dpnb-prov-groups")]
        assert labels == ["who", "alice", "bob", "both together"]
        assert provenance.coalition("alice").rho == Fraction("0.13")


class Talk:
    """A view's side of the conversation with a widget."""

    def __init__(self, widget):
        self.widget, self.heard = widget, []
        widget.send = self.heard.append

    def say(self, content):
        """Send a message as a view does; returns what was answered."""
        before = len(self.heard)
        self.widget._handle_custom_msg(content, [])
        return self.heard[before:]


@pytest.fixture
def widget(curator):
    return replace(curator.provenance, renew=lambda: curator.provenance).widget()


@pytest.fixture
def talk(widget):
    return Talk(widget)


class TestLiveView:
    def test_a_view_gets_everything_by_one_message(self, widget, talk):
        [told] = talk.say({"ask": "table"})
        assert set(told) == {"body", "heat", "analysts", "chosen", "renewed"}
        assert told["analysts"] == ["alice", "bob", "carol"]
        assert list(told["heat"]) == ["rho", "epsilon"]
        assert told["heat"]["rho"][0] in told["body"]
        assert told["heat"]["epsilon"][1].endswith("Epsilons do not add up.")
        json.dumps(told, allow_nan=False)

    def test_epsilons_are_those_of_the_losses(self, widget, talk):
        [told] = talk.say({"ask": "table"})
        lines = {cells[0]: cells for cells in section(told["heat"]["epsilon"][0], "dpnb-prov-heat")}
        for row in widget.provenance.rows:
            label = row.name if row.active else f"{row.name} (disabled)"
            assert lines[label][1] == amount_text(row.known.epsilon_at(1e-6))

    def test_the_kernel_reckons_exactly(self, curator, widget, talk):
        for places in ([0], [0, 1], [2, 1], [0, 1, 2]):
            [told] = talk.say({"together": places})
            names = [widget.analysts[place] for place in sorted(places)]
            loss = curator.coalition(*names)
            assert told["together"] == sorted(places)
            assert told["text"] == coalition_text(widget.provenance, names)
            assert told["share"] == pytest.approx(float(loss.rho))
            assert widget.chosen == tuple(names)
            assert widget.loss == loss

    def test_nobody_learns_nothing(self, widget, talk):
        assert talk.say({"together": []}) == [{"together": [], "text": "", "share": 0.0}]
        assert widget.loss.rho == 0

    def test_ticked_in_python_it_is_told_to_the_view(self, widget, talk):
        widget.chosen = ("bob", "alice")
        assert widget.chosen == ("alice", "bob")
        assert talk.heard[0] == {"chosen": [0, 1]}
        assert talk.heard[1]["text"].startswith("Released to alice and bob together")
        with pytest.raises(dpnb.DpnbError, match="no analyst 'mallory'"):
            widget.chosen = ("mallory",)

    @pytest.mark.parametrize(
        "content",
        [{}, [], "refresh", {"ask": "all"}, {"together": [3]}, {"together": [-1]}, {"together": [True]},
         {"together": "0"}, {"together": 0}, {"together": [0.0]}],
    )  # fmt: skip
    def test_what_no_view_sends_is_ignored(self, widget, talk, content):
        widget._handle_custom_msg(content, [])
        assert talk.heard == []

    def test_refresh_shows_what_was_asked_since(self):
        curator = used()
        widget = replace(curator.provenance, renew=lambda: curator.provenance).widget()
        talk = Talk(widget)
        widget.chosen = ("alice",)
        curator.add_analyst("dora", 1)
        curator.session("alice").query("SELECT COUNT(*) AS n FROM people WHERE x = 1", rho=0.01)
        [told] = talk.say({"ask": "refresh"})
        assert told["renewed"] == "Up to date, with 6 charges."
        assert told["analysts"][-1] == "dora"
        assert told["chosen"] == [0]
        assert widget.provenance == curator.provenance
        assert widget.loss == curator.coalition("alice")

    def test_without_a_source_it_says_that_it_is_of_one_moment(self, provenance):
        widget = replace(provenance, renew=None).widget()
        [told] = Talk(widget).say({"ask": "refresh"})
        assert "Run the cell again" in told["failed"]
        with pytest.raises(dpnb.DpnbError, match="cannot be refreshed"):
            widget.refresh()

    def test_a_failing_source_is_told_in_words(self, provenance):
        def broken():
            raise LedgerError("the ledger is gone", "Open it again.")

        widget = replace(provenance, renew=broken).widget()
        [told] = Talk(widget).say({"ask": "refresh"})
        assert told == {"failed": "The ledger is gone. Open it again."}

    def test_closed_it_is_silent(self, widget, talk):
        widget.close()
        assert talk.say({"ask": "table"}) == []


class TestNothingIsKept:
    """Front ends and batch runs store a widget's state; it holds code and styles, nothing else."""

    def test_the_state_is_the_same_whatever_the_ledger_holds(self, widget, talk):
        talk.say({"ask": "table"})
        talk.say({"together": [0, 1]})
        other = curated().provenance.widget()
        states = [{**one.get_state(), "layout": ""} for one in (widget, other)]
        assert states[0] == states[1]
        assert "chosen" not in states[0]

    def test_the_manager_keeps_no_more(self, widget, talk):
        talk.say({"ask": "table"})
        talk.say({"together": [0, 1]})
        kept = json.dumps(ipywidgets.Widget.get_manager_state()["state"][widget.model_id])
        for secret in ("alice", "people", "0.35", "How much was released"):
            assert secret not in kept

    def test_it_shows_nothing_of_itself(self, widget):
        assert repr(widget) == "<ProvenanceWidget: for the owner only: shown live, kept nowhere>"
        data, _ = widget._repr_mimebundle_()
        assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json"}

    def test_nothing_is_sent_before_a_view_asks(self, provenance):
        with mock.patch.object(ProvenanceWidget, "send") as send:
            provenance.widget()
        send.assert_not_called()

    def test_it_cannot_be_pickled(self, widget):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(widget)


class TestFigure:
    def test_every_cell_bears_its_number(self, provenance):
        ax = provenance.plot()
        texts = [text.get_text() for text in ax.texts]
        assert len(texts) == (len(provenance.rows) + 1) * (len(provenance.columns) + 1)
        for loss in provenance.cells.values():
            assert amount_text(loss.rho) in texts
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        assert names == ["alice", "bob", "carol (disabled)", "all together"]

    def test_numbers_stand_out_from_their_cells(self, provenance):
        ax = provenance.plot()
        image = ax.images[0]
        for text in ax.texts:
            x, y = map(int, text.get_position())
            ground = image.to_rgba(image.get_array()[y, x])
            ends = [bright(ground[:3]), 1.0 if text.get_color() == "white" else 0.0]
            assert (max(ends) + 0.05) / (min(ends) + 0.05) >= 4.5

    def test_the_axes_given_are_used(self, provenance):
        _, ax = plt.subplots()
        assert provenance.plot(ax=ax) is ax

    def test_dollars_are_no_formula(self):
        curator = curated(views=[])
        curator.session("alice").query('SELECT COUNT(*) AS "$x$" FROM people', rho=0.01)
        ax = curator.provenance.plot()
        ax.figure.canvas.draw()
        assert any(r"\$x\$" in tick.get_text() for tick in ax.get_xticklabels())


def bright(color):
    """Return the relative luminance of a colour."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


class TestBudget:
    """What an analyst is told of the own budget."""

    def test_it_names_the_analyst_and_what_is_promised(self, curator):
        status = curator.session("alice").budget
        told = (
            "The limit bounds what the answers to this analyst reveal. Answers that others pass on come "
            "on top. The owner's total budget bounds all analysts together."
        )
        assert told in repr(status)
        reading = Reading(status._repr_html_())
        assert "Privacy budget of alice" in reading.text
        assert told in reading.text

    def test_the_owner_is_told_of_all_together(self, curator):
        read = Reading(curator.budget._repr_html_()).text
        assert "Privacy budget" in read
        assert "Privacy budget of" not in read
