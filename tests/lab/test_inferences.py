"""What a reader sees of an inference in JupyterLab, live and in every state of reopening."""

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
    outputs,
    overflow,
    settles,
)

pytestmark = pytest.mark.lab

SETUP = """
%load_ext dpnb
%dpopen adult --epsilon 3 --delta 1e-6
"""
ASKED = """
%%dpquery --rho 0.02 -q --yes
SELECT marital_status, COUNT(*) AS n, AVG(high_income) AS rich FROM adult GROUP BY marital_status
"""
ONE = """
%%dpinfer -o known
SELECT COUNT(*) AS n FROM adult WHERE marital_status IN ('Divorced', 'Widowed')
"""
GROUPS = """
%%dpinfer -o groups
SELECT marital_status, COUNT(*) AS n, AVG(high_income) AS rich
FROM adult GROUP BY marital_status ORDER BY n DESC
"""
LINKED = "widget = known.widget()\nwidget"
FIRST, SECOND = "Married-civ-spouse", "Never-married"
CHANCE = re.compile(
    r"Given past answers alone, the probability that n is above 100 is (more than 99\.9|100) %"
)


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The notebook, run once in the front end."""
    lab.write("known.ipynb", SETUP, ASKED, ONE, GROUPS, LINKED)
    page = new_page()
    lab.open(page, "known.ipynb")
    lab.run(page)
    page.locator("[data-dpnb-live]").nth(2).wait_for()
    return page


@pytest.fixture
def page(lab, opened):
    """The live notebook in its first state: light, wide."""
    opened.set_viewport_size({"width": 1100, "height": 900})
    lab.theme(opened, "Light")
    return opened


@pytest.fixture(scope="module")
def saved(lab, opened):
    """The notebook as the front end saved it, without widget state."""
    opened.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    return json.loads((lab.root / "known.ipynb").read_text())


def live(page, cell=2):
    return outputs(page, cell).nth(1)


class TestLive:
    """In a front end with a kernel."""

    def test_the_record_is_folded_while_the_widget_lives(self, page):
        record = outputs(page, 2).first
        expect(record.get_by_text("Saved copy of this result")).to_be_visible()
        expect(record.locator("table").first).to_be_hidden()
        expect(live(page).locator("svg")).to_be_visible()

    def test_a_claim_is_reckoned_in_the_kernel(self, page):
        part = live(page)
        number = part.get_by_label("number to compare with")
        number.fill("100")
        said = part.locator("output").first
        expect(said).to_have_text(CHANCE)
        part.get_by_label("above or below").select_option("1")
        expect(said).to_contain_text("below 100 is ")
        number.fill("")
        expect(said).to_have_text("Write a number.")
        number.fill("100")
        part.get_by_label("above or below").select_option("0")
        expect(said).to_have_text(CHANCE)

    def test_the_slider_starts_at_the_interval_shown_and_widens_it(self, page):
        part = live(page)
        shown = part.locator("tbody td").nth(1).inner_text()
        said = part.locator(".dpnb-sure output")
        expect(said).to_have_text(f"95 % confidence interval: {shown}")
        slider = part.get_by_label("Confidence")
        width = part.locator(".dpnb-width .dpnb-mark").bounding_box()["width"]
        slider.focus()
        page.keyboard.press("End")
        expect(said).to_contain_text("99.99 % confidence interval: ")
        expect(slider).to_have_attribute("aria-valuetext", "99.99 %")
        mark = part.locator(".dpnb-width .dpnb-mark")
        settles(lambda: mark.bounding_box()["width"] > width, True)

    @pytest.mark.parametrize("presses", [0, 10, 20])
    def test_the_shading_of_the_curve_follows_the_slider(self, page, presses):
        part = live(page)
        part.get_by_label("Confidence").focus()
        page.keyboard.press("Home")
        for _ in range(presses):
            page.keyboard.press("ArrowRight")

        def share(inner, outer):
            boxes = [part.locator(one).bounding_box() for one in (inner, outer)]
            return boxes[0]["width"] / boxes[1]["width"]

        def apart():
            shaded = share(".dpnb-density .dpnb-within", ".dpnb-density .dpnb-ground")
            return abs(shaded - share(".dpnb-width .dpnb-mark", ".dpnb-width"))

        settles(lambda: apart() < 0.02, True)

    def test_a_group_is_picked_by_row_and_by_list(self, page):
        part = live(page, 3)
        part.locator("tbody tr").nth(1).click()
        expect(part.get_by_label("About")).to_have_value("1")
        expect(part.locator("output").first).to_contain_text(f"n of {SECOND} is above")
        part.get_by_label("About").select_option("0")
        expect(part.locator(".dpnb-picked")).to_contain_text(FIRST)
        part.get_by_label("Show").select_option("1")
        expect(part.locator("output").first).to_contain_text(f"rich of {FIRST} is above")
        expect(part.get_by_role("columnheader", name="rich")).to_be_visible()
        part.get_by_label("Show").select_option("0")

    def test_what_is_claimed_is_known_in_python_and_back(self, page):
        linked = outputs(page, 4).first
        ask_kernel(page, "setattr(widget, 'number', 250.0)")
        expect(linked.get_by_label("number to compare with")).to_have_value("250")
        linked.get_by_label("number to compare with").fill("300")
        settles(lambda: ask_kernel(page, "str(widget.number)"), "300.0")
        told = ask_kernel(page, "widget.said")
        expect(linked.locator("output").first).to_have_text(told)

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_axe_finds_nothing(self, lab, page, theme):
        lab.theme(page, theme)
        for cell in (2, 3):
            live(page, cell).get_by_text("Past answers used").first.click()
        assert_accessible(page)
        for cell in (2, 3):
            live(page, cell).get_by_text("Past answers used").first.click()

    def test_a_narrow_window_needs_no_sideways_scrolling(self, page):
        page.set_viewport_size({"width": 600, "height": 900})
        settles(lambda: overflow(page) <= 0, True)


class TestKeyboard:
    """Keys belong to the control that has the focus, in command mode too."""

    def test_a_claim_and_a_confidence_are_set_by_key_alone(self, page):
        part, cells = live(page), page.locator(".jp-Cell").count()
        part.get_by_label("above or below").focus()
        page.keyboard.press("ArrowDown")
        expect(part.locator("output").first).to_contain_text("is below")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Tab")
        settles(lambda: focused(page), "number to compare with")
        page.keyboard.press("Control+a")
        page.keyboard.type("100")
        expect(part.locator("output").first).to_have_text(CHANCE)
        page.keyboard.press("Tab")
        for key in ("Home", "ArrowRight", "b", "a", "x"):
            page.keyboard.press(key)
        expect(part.locator(".dpnb-sure output")).to_contain_text("52 % confidence interval: ")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(part.get_by_role("columnheader", name="past answer")).to_be_visible()
        page.keyboard.press("Enter")
        assert page.locator(".jp-Cell").count() == cells

    def test_every_control_keeps_its_keys(self, page):
        controls = page.locator(".dpnb :is(select, button, summary, input, [tabindex])")
        assert controls.count() > 15
        for control in controls.all():
            assert control.get_attribute("data-lm-suppress-shortcuts") == "true"


class TestReopened:
    """The next day the widget is gone; the record stands."""

    def test_trusted_the_record_unfolds_and_its_slider_needs_no_kernel(self, lab, saved, new_page):
        (lab.root / "known-trusted.ipynb").write_text(json.dumps(saved))
        page = new_page()
        lab.open(page, "known-trusted.ipynb")
        record = outputs(page, 2).first
        expect(record.locator("table").first).to_be_visible()
        expect(record.locator("svg")).to_be_visible()
        expect(record.get_by_label("number to compare with")).to_have_count(0)
        record.get_by_label("Confidence").focus()
        page.keyboard.press("Home")
        expect(record.locator("output")).to_contain_text("50 % confidence interval: ")

    def test_untrusted_the_table_stands_and_nothing_runs(self, lab, saved, new_page):
        changed = json.loads(json.dumps(saved))
        changed["cells"][0]["source"] = "# from someone else"
        (lab.root / "known-untrusted.ipynb").write_text(json.dumps(changed))
        page = new_page()
        lab.open(page, "known-untrusted.ipynb")
        record = outputs(page, 2).first
        expect(record.locator("table").first.locator("tbody tr")).to_have_count(1)
        expect(record.get_by_text("How likely each value is")).to_be_hidden()
        assert page.locator(".dpnb-on, .dpnb button").count() == 0
        record.get_by_text("Past answers used").click()
        expect(record.get_by_text("The value is the sum of weight × released.")).to_be_visible()
        assert live(page).inner_text().strip() == ""

    def test_without_javascript_an_exported_notebook_shows_it(self, lab, saved, new_page):
        path = lab.root / "known-saved.ipynb"
        path.write_text(json.dumps(saved))
        convert("html", path)
        page = new_page(java_script_enabled=False)
        page.goto(path.with_suffix(".html").as_uri())
        expect(page.locator("table").first.locator("tbody tr")).to_have_count(1)
        expect(page.locator("svg").first).to_be_visible()
        page.get_by_text("Past answers used").first.click()
        expect(page.locator("caption", has_text="sum of weight × released").first).to_be_visible()

    def test_a_page_of_its_own_works_offline(self, lab, page, new_page):
        path = lab.root / "known.html"
        ask_kernel(page, f"groups.to_html({str(path)!r})")
        alone = new_page(viewport={"width": 360, "height": 800})
        alone.goto(path.as_uri())
        alone.get_by_label("About").select_option("1")
        expect(alone.locator("output")).to_contain_text("of this value on its own")
        assert alone.evaluate("document.documentElement.scrollWidth") <= 360
