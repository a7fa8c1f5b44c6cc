"""What a reader sees of an answer in JupyterLab, live and in every state it can be reopened in."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.kit.pages import (
    ask_kernel,
    assert_accessible,
    convert,
    focused,
    outline,
    outputs,
    overflow,
    settles,
    view,
)

pytestmark = pytest.mark.lab

SETUP = """
import dpnb
from dpnb.display.widgets import display_result
session = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=3, delta=1e-6))
answer = session.query('''
    SELECT marital_status, COUNT(*) AS n, AVG(high_income) AS rich
    FROM adult GROUP BY marital_status ORDER BY n DESC
''', rho=0.1)
"""
SHOWN = "display_result(answer)"
LINKED = "widget = answer.widget()\nwidget"
FIRST, SECOND = "Married-civ-spouse", "Never-married"
VERDICT = re.compile(
    rf"\(95 % confidence\): {FIRST} is higher than {SECOND} by [\d,]+ to [\d,]+ in n"
)


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The notebook, run once in the front end."""
    lab.write("live.ipynb", SETUP, SHOWN, LINKED)
    page = new_page()
    lab.open(page, "live.ipynb")
    lab.run(page)
    page.locator("[data-dpnb-live]").first.wait_for()
    return page


@pytest.fixture
def page(lab, opened):
    """The live notebook in its first state: light, wide, nothing chosen."""
    opened.set_viewport_size({"width": 1100, "height": 900})
    lab.theme(opened, "Light")
    for live in opened.locator("[data-dpnb-live]").all():
        live.locator(".dpnb-ask select").first.select_option("")
        show = live.locator(".dpnb-show select")
        show.select_option("0")
    return opened


@pytest.fixture(scope="module")
def saved(lab, opened):
    """The notebook as the front end saved it, without widget state."""
    opened.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    notebook = json.loads((lab.root / "live.ipynb").read_text())
    assert "widgets" not in notebook["metadata"]
    return notebook


@pytest.fixture(scope="module")
def trusted(lab, saved, new_page):
    (lab.root / "trusted.ipynb").write_text(json.dumps(saved))
    page = new_page()
    lab.open(page, "trusted.ipynb")
    return page


@pytest.fixture(scope="module")
def untrusted(lab, saved, new_page):
    changed = json.loads(json.dumps(saved))
    changed["cells"][0]["source"] = "# from someone else"
    (lab.root / "untrusted.ipynb").write_text(json.dumps(changed))
    page = new_page()
    lab.open(page, "untrusted.ipynb")
    return page


@pytest.fixture(scope="module")
def executed(lab):
    lab.write("batch.ipynb", SETUP, "display_result(answer, 'widget')", SHOWN)
    path = lab.root / "batch.ipynb"
    convert("notebook", path, "--execute", "--inplace")
    subprocess.run([sys.executable, "-m", "jupyter", "trust", path], check=True, env=lab.env)
    return path


def choose(part):
    part.get_by_label("Is").select_option(label=FIRST)
    part.get_by_label("higher than").select_option(label=SECOND)


class TestLive:
    """In a front end with a kernel."""

    def test_the_record_is_one_line_and_the_widget_is_the_only_look(self, page):
        record, live = outputs(page).all()
        expect(record.get_by_text("Saved copy of this result")).to_be_visible()
        expect(record.locator("table")).to_be_hidden()
        expect(live.locator("table")).to_be_visible()
        assert record.bounding_box()["height"] < 40

    def test_the_record_can_be_opened_and_holds_every_aggregate(self, page):
        record = outputs(page).first
        record.get_by_text("Saved copy of this result").click()
        expect(record.get_by_role("columnheader", name="rich")).to_be_visible()
        expect(record.get_by_role("columnheader", name="n", exact=True)).to_be_visible()
        expect(record.locator("select")).to_have_count(3)
        for control in record.locator("select, button").all():
            expect(control).to_be_hidden()
        record.get_by_text("Saved copy of this result").click()
        expect(record.locator("table")).to_be_hidden()

    def test_two_groups_are_picked_by_click(self, page):
        rows = view(page).locator("tbody tr")
        rows.nth(0).click()
        rows.nth(1).click()
        expect(view(page).locator("output")).to_contain_text(VERDICT)
        expect(rows.nth(0).get_by_role("button")).to_have_text("A")
        expect(rows.nth(1).get_by_role("button")).to_have_attribute("aria-pressed", "true")

    def test_the_aggregate_can_be_switched(self, page):
        choose(view(page))
        view(page).get_by_label("Show").select_option(label="rich")
        expect(view(page).locator("output")).to_contain_text("in rich")
        expect(view(page).get_by_role("columnheader", name="rich")).to_be_visible()
        expect(view(page).get_by_role("columnheader", name="n", exact=True)).to_be_hidden()

    def test_what_is_picked_is_known_in_python_and_back(self, page):
        linked = outputs(page, 2).first
        linked.locator("tbody tr").nth(0).click()
        linked.locator("tbody tr").nth(1).click()
        # the front end sends the second pick when the kernel has taken in the first
        settles(lambda: ask_kernel(page, "str(len(widget.selected))"), "2")
        said = linked.locator("output").inner_text()
        assert ask_kernel(page, "widget.question.sentence") == said
        ask_kernel(page, "setattr(widget, 'selected', list(answer.rows[2:4]))")
        expect(linked.get_by_label("Is")).to_have_value(re.compile(r"\d+"))
        expect(linked.locator("tbody tr").nth(2).get_by_role("button")).to_have_text("A")

    def test_dark_theme_reaches_what_is_drawn_already(self, lab, page):
        ink = "el => getComputedStyle(el).color"
        name = view(page).locator("tbody th").first
        light = name.evaluate(ink)
        lab.theme(page, "Dark")
        settles(lambda: name.evaluate(ink) != light, True)

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_axe_finds_nothing(self, lab, page, theme):
        lab.theme(page, theme)
        choose(view(page))
        assert_accessible(page)

    def test_a_narrow_window_needs_no_sideways_scrolling(self, page):
        choose(view(page))
        page.set_viewport_size({"width": 600, "height": 900})
        settles(lambda: overflow(page) <= 0, True)

    def test_after_a_reload_the_widget_is_back_with_its_selection(self, lab, page):
        view(page).locator("tbody tr").nth(2).click()
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.reload()
        lab.wait(page)
        expect(view(page).locator("tbody tr").nth(2).get_by_role("button")).to_have_text("A")
        expect(outputs(page).first.locator("table")).to_be_hidden()


class TestKeyboard:
    """Keys belong to the control that has the focus, in command mode too."""

    def cells(self, page):
        return page.locator(".jp-Cell").count()

    def test_two_groups_are_picked_by_key(self, page):
        before = self.cells(page)
        view(page).locator(".dpnb-pick").first.focus()
        for key in ("Space", "ArrowDown", "Enter"):
            page.keyboard.press(key)
        expect(view(page).locator("output")).to_contain_text(VERDICT)
        for key in ("End", "Home", "b", "a", "x", "ArrowUp"):
            page.keyboard.press(key)
        assert self.cells(page) == before
        settles(lambda: focused(page), f"Pick {FIRST}")

    def test_a_list_is_set_by_letters_and_arrows(self, page):
        before = self.cells(page)
        which = view(page).get_by_label("Is")
        which.focus()
        page.keyboard.type("d")
        expect(which.locator("option:checked")).to_have_text("Divorced")
        page.keyboard.press("ArrowDown")
        expect(which.locator("option:checked")).to_have_text("Separated")
        page.keyboard.type("b")
        assert self.cells(page) == before

    def test_tab_leads_through_every_control_once(self, page):
        choose(view(page))
        view(page).get_by_label("Show").focus()
        seen = []
        for _ in range(3):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.tagName"))
        assert seen == ["BUTTON", "SELECT", "SELECT"]

    def test_the_focus_is_visible(self, page):
        view(page).locator(".dpnb-pick").first.focus()
        page.keyboard.press("ArrowDown")
        settles(lambda: outline(page), "solid")

    def test_every_control_keeps_its_keys(self, page):
        controls = page.locator(".dpnb :is(select, button, summary, input, [tabindex])")
        assert controls.count() > 20
        for control in controls.all():
            assert control.get_attribute("data-lm-suppress-shortcuts") == "true"


class TestReopenedTrusted:
    """The next day: the widget is gone, the record stands."""

    def test_the_record_unfolds_and_answers_questions(self, trusted):
        record = outputs(trusted).first
        expect(record.locator("table")).to_be_visible()
        expect(record.locator(".dpnb-fold")).to_have_count(0)
        choose(record)
        expect(record.locator("output")).to_contain_text(VERDICT)

    def test_the_dead_widget_is_hidden(self, trusted):
        dead = view(trusted)
        expect(dead).to_contain_text("Error displaying widget")
        expect(dead).to_be_hidden()

    def test_run_again_it_is_one_look_again(self, lab, trusted):
        lab.run(trusted)
        expect(view(trusted).locator("table")).to_be_visible()
        expect(outputs(trusted).first.locator("table")).to_be_hidden()


class TestReopenedUntrusted:
    """Someone else's notebook: a plain table."""

    def test_the_table_stands_and_nothing_runs(self, untrusted):
        record = outputs(untrusted).first
        expect(record.locator("tbody tr")).to_have_count(7)
        expect(record.get_by_text("Privacy cost: rho 0.1")).to_be_visible()
        assert untrusted.locator(".dpnb-on, .dpnb select").count() == 0

    def test_intervals_are_drawn_without_styles(self, untrusted):
        widths = (
            outputs(untrusted)
            .first.locator("tbody td span")
            .evaluate_all("spans => spans.map(span => span.getBoundingClientRect().width)")
        )
        assert max(widths) > 50
        assert min(widths) >= 0

    def test_the_other_output_is_empty(self, untrusted):
        assert view(untrusted).inner_text().strip() == ""


class TestBatch:
    """Run by nbclient, which keeps the state of widgets."""

    def test_a_cell_shows_the_record_alone_unless_asked(self, executed):
        cells = json.loads(executed.read_text())["cells"]
        assert [len(cell["outputs"]) for cell in cells] == [0, 2, 1]
        assert set(cells[2]["outputs"][0]["data"]) == {"text/plain", "text/html"}

    def test_a_stored_widget_lives_without_its_kernel(self, executed, lab, new_page):
        page = new_page()
        lab.open(page, executed.name)
        alive = view(page).get_by_label("Is")
        lost = view(page).get_by_text("Error displaying widget: model not found")
        for _ in range(5):
            # the widget is drawn after the kernel has answered, which takes as long as the machine is busy
            expect(alive.or_(lost)).to_be_attached(timeout=60_000)
            if not lost.count():
                break
            # a slow kernel that comes while ipywidgets reads the file makes it stop looking there
            expect(outputs(page).first.locator("table")).to_be_visible()
            page.reload()
            lab.wait(page)
        choose(view(page))
        expect(view(page).locator("output")).to_contain_text(VERDICT)
        expect(outputs(page).first.locator("table")).to_be_hidden()


def test_without_javascript_an_exported_notebook_shows_the_table(lab, saved, new_page):
    path = lab.root / "saved.ipynb"
    path.write_text(json.dumps(saved))
    convert("html", path)
    page = new_page(java_script_enabled=False)
    page.goto(path.with_suffix(".html").as_uri())
    assert page.locator("table:visible").count() == 1
    expect(page.locator("tbody tr")).to_have_count(7)
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)


def test_a_page_of_its_own_is_interactive_offline(lab, page, new_page):
    path = lab.root / "answer.html"
    ask_kernel(page, f"answer.to_html({str(path)!r})")
    alone = new_page()
    alone.goto(path.as_uri())
    choose(alone)
    expect(alone.locator("output")).to_contain_text(VERDICT)
