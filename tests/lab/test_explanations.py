"""What a reader sees of an explanation in JupyterLab, live and in every state of reopening."""

from __future__ import annotations

import json
import re

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
from dpnb.display.widgets import display_result
from tests.kit import explanations as sample
explanation, absolute = sample.explanation(), sample.absolute()
"""
LINKED = "widget = explanation.widget()\nwidget"
FIRST, LAST = "occupation = 'Exec-managerial'", "relationship = 'Own-child'"
HINT = "Pick a predicate to read what you can conclude from it."


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The notebook, run once in the front end."""
    lab.write("why.ipynb", SETUP, "display_result(explanation)", LINKED, "absolute")
    page = new_page()
    lab.open(page, "why.ipynb")
    lab.run(page)
    page.locator("[data-dpnb-live]").first.wait_for()
    return page


@pytest.fixture
def page(lab, opened):
    """The live notebook in its first state: light, wide, nothing picked, rows as they came."""
    opened.set_viewport_size({"width": 1100, "height": 900})
    lab.theme(opened, "Light")
    for part in opened.locator("[data-dpnb-live]").all():
        for pick in part.locator("[aria-pressed=true]").all():
            pick.click()
        part.get_by_role("button", name="predicate").click()
        part.get_by_role("button", name="influence").click()
    return opened


@pytest.fixture(scope="module")
def saved(lab, opened):
    """The notebook as the front end saved it, without widget state."""
    opened.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    return json.loads((lab.root / "why.ipynb").read_text())


def names(part):
    shown = part.locator("tbody th > span").all_inner_texts()
    return [text.split("\n")[0] for text in shown]


def sorting(part):
    heads = part.locator("th[data-sort]").all()
    return [head.get_attribute("aria-sort") for head in heads]


class TestLive:
    """In a front end with a kernel."""

    def test_the_record_is_folded_while_the_widget_lives(self, page):
        record, live = outputs(page).all()
        expect(record.get_by_text("Saved copy of this result")).to_be_visible()
        expect(record.locator("table")).to_be_hidden()
        expect(live.locator("table")).to_be_visible()

    def test_a_row_is_picked_by_click_and_given_back(self, page):
        part = view(page)
        said = part.locator("output")
        expect(said).to_have_text(HINT)
        part.locator("tbody tr").first.click()
        expect(said).to_contain_text(f"Leaving out the rows with {FIRST} lowers the difference to")
        expect(part.locator("[aria-pressed=true]")).to_have_text("✓")
        part.locator("tbody tr").last.click()
        expect(said).to_contain_text(f"No conclusion about {LAST}")
        expect(part.locator("[aria-pressed=true]")).to_have_count(1)
        part.locator("tbody tr").last.click()
        expect(said).to_have_text(HINT)

    def test_a_picked_row_stays_picked_when_rows_are_sorted(self, page):
        part = view(page)
        came = names(part)
        part.locator("tbody tr").first.click()
        part.get_by_role("button", name="rank").click()
        settles(lambda: sorting(part), [None, None, "ascending"])
        settles(lambda: names(part), [came[1], came[2], came[0], came[3], came[4]])
        expect(part.locator(".dpnb-picked")).to_contain_text(FIRST)
        part.get_by_role("button", name="predicate").click()
        settles(lambda: names(part), sorted(came))
        part.get_by_role("button", name="influence").click()
        settles(lambda: names(part), came)
        settles(lambda: sorting(part), [None, "descending", None])

    def test_what_is_picked_is_known_in_python_and_back(self, page):
        linked = outputs(page, 2).first
        linked.locator("tbody tr").nth(3).click()
        settles(lambda: ask_kernel(page, "str(widget.selected)"), "3")
        said = linked.locator("output").inner_text()
        words = "__import__('importlib').import_module('dpnb.display.cards.explanation_words')"
        sentence = f"{words}.row_sentence(explanation, widget.row)"
        told = ask_kernel(page, f"ascii({sentence}).encode().hex()")
        assert said in bytes.fromhex(told).decode()
        ask_kernel(page, "setattr(widget, 'selected', 1)")
        expect(linked.locator(".dpnb-picked")).to_contain_text("education = 'Bachelors'")
        ask_kernel(page, "setattr(widget, 'selected', -1)")
        expect(linked.locator("output")).to_have_text(HINT)

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_axe_finds_nothing(self, lab, page, theme):
        lab.theme(page, theme)
        view(page).locator("tbody tr").last.click()
        view(page).get_by_text("How to read this").click()
        assert_accessible(page)
        view(page).get_by_text("How to read this").click()

    def test_a_narrow_window_needs_no_sideways_scrolling(self, page):
        view(page).locator("tbody tr").first.click()
        page.set_viewport_size({"width": 600, "height": 900})
        settles(lambda: overflow(page) <= 0, True)

    def test_where_0_is_marked_is_where_bars_part(self, page):
        bars = outputs(page, 3).locator("td.dpnb-signed")
        ends = bars.evaluate_all(
            """cells => cells.map(cell => {
              const box = cell.getBoundingClientRect(), style = getComputedStyle(cell);
              const pad = parseFloat(style.paddingLeft), inner = box.width - 2 * pad;
              const zero = box.left + pad
                + inner * parseFloat(style.getPropertyValue('--dpnb-zero')) / 100;
              const mark = cell.querySelector('.dpnb-mark').getBoundingClientRect();
              return [mark.left - zero, mark.right - zero];
            })"""
        )
        assert [[left > 0, right > 0] for left, right in ends] == [[True, True]] * 2 + [
            [False, False]
        ]


class TestKeyboard:
    """Keys belong to the control that has the focus, in command mode too."""

    def test_rows_are_sorted_and_picked_by_key_alone(self, page):
        part, cells = view(page), page.locator(".jp-Cell").count()
        part.get_by_role("button", name="predicate").focus()
        page.keyboard.press("Enter")
        settles(lambda: sorting(part), ["ascending", None, None])
        page.keyboard.press("Space")
        settles(lambda: sorting(part), ["descending", None, None])
        for key in ("Tab", "Tab", "Tab"):
            page.keyboard.press(key)
        for key in ("Home", "ArrowDown", "Space", "b", "a", "x"):
            page.keyboard.press(key)
        expect(part.locator("tbody tr").nth(1)).to_have_class(re.compile("dpnb-picked"))
        settles(lambda: focused(page), f"Pick {names(part)[1]}")
        page.keyboard.press("End")
        settles(lambda: focused(page), f"Pick {names(part)[-1]}")
        assert page.locator(".jp-Cell").count() == cells

    def test_the_longer_meanings_are_opened_by_key(self, page):
        part = view(page)
        part.get_by_text("How to read this").focus()
        page.keyboard.press("Enter")
        expect(part.get_by_text("Influence: how much the difference falls")).to_be_visible()
        page.keyboard.press("Space")
        expect(part.get_by_text("Influence: how much the difference falls")).to_be_hidden()

    def test_the_focus_is_visible(self, page):
        view(page).get_by_role("button", name="rank").focus()
        page.keyboard.press("Tab")
        settles(lambda: outline(page), "solid")

    def test_every_control_keeps_its_keys(self, page):
        controls = page.locator(".dpnb :is(select, button, summary, input, [tabindex])")
        assert controls.count() > 20
        for control in controls.all():
            assert control.get_attribute("data-lm-suppress-shortcuts") == "true"


class TestReopened:
    """The next day the widget is gone; the record stands."""

    def test_trusted_it_unfolds_and_can_be_sorted_and_picked(self, lab, saved, new_page):
        (lab.root / "why-trusted.ipynb").write_text(json.dumps(saved))
        page = new_page()
        lab.open(page, "why-trusted.ipynb")
        record = outputs(page).first
        expect(record.locator("table")).to_be_visible()
        expect(view(page)).to_be_hidden()
        record.get_by_role("button", name="predicate").click()
        settles(lambda: names(record) == sorted(names(record)), True)
        record.locator("tbody tr").filter(has_text="Bachelors").click()
        expect(record.locator("output")).to_contain_text("Leaving out the rows with education")

    def test_untrusted_the_table_stands_and_nothing_runs(self, lab, saved, new_page):
        changed = json.loads(json.dumps(saved))
        changed["cells"][0]["source"] = "# from someone else"
        (lab.root / "why-untrusted.ipynb").write_text(json.dumps(changed))
        page = new_page()
        lab.open(page, "why-untrusted.ipynb")
        record = outputs(page).first
        expect(record.locator("tbody tr")).to_have_count(5)
        assert page.locator(".dpnb-on, .dpnb button").count() == 0
        expect(record.get_by_text("could be noise")).to_be_visible()
        record.get_by_text("How to read this").click()
        expect(record.get_by_text("Influence: how much the difference falls")).to_be_visible()
        widths = record.locator("tbody td span").evaluate_all(
            "spans => spans.map(span => span.getBoundingClientRect().width)"
        )
        assert max(widths) > 50
        assert view(page).inner_text().strip() == ""

    def test_without_javascript_an_exported_notebook_shows_it(self, lab, saved, new_page):
        path = lab.root / "why-saved.ipynb"
        path.write_text(json.dumps(saved))
        convert("html", path)
        page = new_page(java_script_enabled=False)
        page.goto(path.with_suffix(".html").as_uri())
        table = page.locator("table").first
        expect(table.locator("tbody tr")).to_have_count(5)
        expect(page.get_by_text("Error displaying widget")).to_have_count(0)
        page.get_by_text("How to read this").first.click()
        expect(page.get_by_text("Influence: how much the difference falls").first).to_be_visible()

    def test_a_page_of_its_own_works_offline(self, lab, page, new_page):
        path = lab.root / "why.html"
        ask_kernel(page, f"explanation.to_html({str(path)!r})")
        alone = new_page(viewport={"width": 340, "height": 800})
        alone.goto(path.as_uri())
        alone.get_by_role("button", name="rank").click()
        alone.locator("tbody tr").first.click()
        expect(alone.locator("output")).to_contain_text("education = 'Bachelors'")
        assert alone.evaluate("document.documentElement.scrollWidth") <= 340
