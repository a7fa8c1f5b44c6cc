"""What a reader sees of a decision in JupyterLab, live and in every state of reopening."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.kit.pages import ask_kernel, assert_accessible, convert, outputs, overflow, settles

pytestmark = pytest.mark.lab

SETUP = """
from dpnb.display.widgets import display_result
from tests.kit import decisions as sample
taken = []
def further(step):
    taken.append(step)
    return sample.refined()
decision, both = sample.decision(further=further), sample.two_conditions()
"""
LINKED = "widget = decision.widget()\nwidget"


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The notebook, run once in the front end."""
    lab.write(
        "decide.ipynb", SETUP, "display_result(decision)", "display_result(both)", LINKED,
        "sample.price()",
    )  # fmt: skip
    page = new_page()
    lab.open(page, "decide.ipynb")
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
    return json.loads((lab.root / "decide.ipynb").read_text())


def live(page, cell=1):
    return outputs(page, cell).nth(1)


def steps_taken(page):
    return ask_kernel(page, "str(taken)")


class TestLive:
    """In a front end with a kernel."""

    def test_the_record_is_folded_while_the_widget_lives(self, page):
        record = outputs(page, 1).first
        expect(record.get_by_text("Saved copy of this result")).to_be_visible()
        expect(record.locator("table").first).to_be_hidden()
        expect(live(page).locator(".dpnb-lanes")).to_be_visible()

    def test_groups_are_filtered_in_the_table_and_on_the_line(self, page):
        part = live(page)
        show = part.get_by_label("Show groups")
        show.select_option("yes")
        expect(part.locator("tbody tr[data-verdict]:visible")).to_have_count(5)
        expect(part.locator("li:visible")).to_have_count(5)
        expect(part.get_by_text("Shown: 5 of 10 groups in the table, 5 on")).to_be_visible()
        show.select_option("no")
        expect(part.locator("li:visible")).to_have_count(2)
        show.select_option("all")
        expect(part.locator("li:visible")).to_have_count(12)

    def test_a_group_is_told_by_pointer_and_by_key(self, page):
        part, said = live(page), live(page).locator("output").first
        part.locator("li svg").nth(3).hover()
        expect(said).to_have_text(
            "EWR: noisy value 402, confidence interval 324 to 480. Overall: surely yes, selected."
        )
        part.get_by_label("Show groups").focus()
        page.keyboard.press("Tab")
        expect(said).to_contain_text("ATL: noisy value 742")
        page.keyboard.press("ArrowDown")
        expect(said).to_contain_text("DEN: noisy value 655")
        page.keyboard.press("End")
        expect(said).to_contain_text("KOA: noisy value -9")

    def test_a_condition_is_chosen_by_key(self, page):
        part, cells = live(page, 2), page.locator(".jp-Cell").count()
        part.get_by_label("Condition").focus()
        page.keyboard.press("ArrowDown")
        expect(part.get_by_text("Values are sums of distances")).to_be_visible()
        expect(part.get_by_text("Noisy values were tested against 140")).to_be_hidden()
        page.keyboard.press("b")
        page.keyboard.press("Home")
        expect(part.get_by_text("Noisy values were tested against 140")).to_be_visible()
        assert page.locator(".jp-Cell").count() == cells

    def test_other_uncertain_regions_are_priced(self, page):
        part = live(page)
        slider = part.get_by_label("Uncertain regions")
        slider.focus()
        page.keyboard.press("Home")
        expect(part.locator(".dpnb-price output")).to_contain_text("would cost epsilon 0.5464")
        expect(slider).to_have_attribute("aria-valuetext", "× 0.125")
        expect(part.get_by_label("Show groups")).to_have_value("all")

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_axe_finds_nothing(self, lab, page, theme):
        lab.theme(page, theme)
        for cell in (1, 2, 4):
            outputs(page, cell).last.scroll_into_view_if_needed()
            assert_accessible(page)

    def test_a_narrow_window_needs_no_sideways_scrolling(self, page):
        page.set_viewport_size({"width": 600, "height": 900})
        settles(lambda: overflow(page) <= 0, True)

    def test_every_control_keeps_its_keys(self, page):
        controls = page.locator(".dpnb :is(select, button, summary, input, [tabindex])")
        assert controls.count() > 15
        for control in controls.all():
            assert control.get_attribute("data-lm-suppress-shortcuts") == "true"


class TestRefining:
    """A step costs, so its price is shown before it is taken."""

    def test_what_cannot_be_taken_says_why(self, page):
        part = live(page, 2)
        expect(part.locator(".dpnb-refine button").first).to_be_disabled()
        expect(part.locator(".dpnb-refine output")).to_contain_text(
            "The session of this decision is closed"
        )

    def test_it_takes_two_presses_of_a_key(self, page):
        part = outputs(page, 3).first
        button, said = (
            part.locator(".dpnb-refine button").first,
            part.locator(".dpnb-refine output"),
        )
        button.dblclick()
        expect(said).to_contain_text("One more step costs epsilon 0.0683")
        part.get_by_role("button", name="Cancel").click()
        expect(button).to_have_text("Refine …")
        button.focus()
        page.keyboard.press("Enter")
        expect(button).to_have_text("Spend epsilon 0.0683 on one more step")
        assert steps_taken(page) == "[]"
        page.keyboard.press("Enter")
        expect(said).to_contain_text("Done. Privacy cost: epsilon 0.1366")
        assert steps_taken(page) == "[2]"
        expect(part.get_by_text("7 of 12 groups are selected")).to_be_visible()
        expect(button).to_be_focused()
        expect(button).to_be_disabled()
        assert ask_kernel(page, "widget.decision.status") == "certified"


class TestReopened:
    """The next day the widget is gone; the record stands."""

    def test_trusted_the_record_is_filtered_without_a_kernel(self, lab, saved, new_page):
        (lab.root / "decide-trusted.ipynb").write_text(json.dumps(saved))
        page = new_page()
        lab.open(page, "decide-trusted.ipynb")
        record = outputs(page, 1).first
        record.get_by_label("Show groups").select_option("doubt")
        expect(record.locator("li:visible")).to_have_count(5)
        expect(record.locator(".dpnb-refine")).to_have_count(0)

    def test_untrusted_tables_and_statements_stand(self, lab, saved, new_page):
        changed = json.loads(json.dumps(saved))
        changed["cells"][0]["source"] = "# from someone else"
        (lab.root / "decide-untrusted.ipynb").write_text(json.dumps(changed))
        page = new_page()
        lab.open(page, "decide-untrusted.ipynb")
        record = outputs(page, 1).first
        expect(record.locator("table").first.locator("tbody tr")).to_have_count(10)
        for words in ("bounded in advance", "certified for this result", "only estimated"):
            expect(record.get_by_text(words, exact=True).first).to_be_visible()
        expect(record.get_by_text("lines: confidence intervals")).to_be_hidden()
        assert page.locator(".dpnb-on, .dpnb button").count() == 0

    def test_without_javascript_an_exported_notebook_shows_it(self, lab, saved, new_page):
        path = lab.root / "decide-saved.ipynb"
        path.write_text(json.dumps(saved))
        convert("html", path)
        page = new_page(java_script_enabled=False)
        page.goto(path.with_suffix(".html").as_uri())
        expect(page.locator(".dpnb-lanes").first).to_be_visible()
        expect(page.locator("dt").first).to_contain_text("bounded in advance")
