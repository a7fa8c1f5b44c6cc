"""What the owner sees of a risk picker in JupyterLab, and that a notebook keeps nothing of it."""

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
    view,
)

pytestmark = pytest.mark.lab

# beside the notebook, so that its numbers are in no cell
MODULE = """
import dpnb, pandas as pd
rows = [(73519, "F")] * 137 + [(4861, "M")] * 8219 + [(0, "M")] * 5003
schema = dpnb.Schema({"gain": dpnb.Integer(0, 99_999), "sex": dpnb.Category(["F", "M"])})
def curated(**options):
    table = dpnb.Table("people", pd.DataFrame(rows, columns=["gain", "sex"]), schema, **options)
    return dpnb.Curator([table], budget=dpnb.Budget(rho=1, delta=1e-6))
"""
SECRETS = ("73519", "73,519", "4861", "4,861", "8219", "8,219", "5003", "5,003", "13359", "13,359",
           "1.027", "stand out most")  # fmt: skip
LOOK = "Look first"
SETUP = (
    "%load_ext dpnb\nfrom people import curated\ncurator = curated()\n%dpopen curator --as owner"
)
PICK = "%%dprisk --by sex -o picker\nSELECT SUM(gain) AS total FROM people"
SECOND = """
from dpnb.display.cards.risk_widget import display_picker
other = curated().risk("SELECT SUM(gain) AS total FROM people").widget()
display_picker(other, 'widget')
"""
OPEN = """
shown = curated(public=True).risk("SELECT SUM(gain) AS total FROM people").widget(tau=0.9)
display_picker(shown, 'widget')
"""
NOTICE = "A private risk picker was shown here."


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The notebook, run once in the front end."""
    (lab.root / "people.py").write_text(MODULE)
    lab.write("risk.ipynb", SETUP, PICK, SECOND, OPEN)
    page = new_page()
    lab.open(page, "risk.ipynb")
    lab.run(page)
    page.locator("[data-dpnb-live]").nth(2).wait_for()
    for place in (1, 2):
        shown = outputs(page, place).nth(1)
        shown.scroll_into_view_if_needed()
        # no exact figure before a look
        expect(shown.get_by_text("No exact value is shown yet")).to_be_visible()
        expect(shown.locator(".dpnb-risk-range")).to_have_count(0)
        look = shown.get_by_role("button", name=LOOK)
        look.click()
        expect(shown.locator(".dpnb-risk-range")).to_be_visible()
        # the view is built anew: the focus stays
        expect(look).to_be_focused()
    return page


@pytest.fixture
def page(lab, opened):
    """The live notebook in its first state: light, wide, a limit of 55, looked at."""
    opened.set_viewport_size({"width": 1100, "height": 900})
    lab.theme(opened, "Light")
    part = view(opened)
    part.scroll_into_view_if_needed()
    if not part.locator(".dpnb-risk-range").count():
        part.get_by_role("button", name=LOOK).click()
    part.locator(".dpnb-risk-range tbody tr").nth(4).click()
    preset(part, "55").click()
    expect(sentence(part)).to_contain_text("At rho 0.05 ")
    return opened


@pytest.fixture
def part(page):
    return view(page)


@pytest.fixture(scope="module")
def saved(lab, opened):
    """The notebook as the front end saves it by itself, without widget state."""
    opened.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    text = (lab.root / "risk.ipynb").read_text()
    assert "widgets" not in json.loads(text)["metadata"]
    return text


def preset(part, guesses):
    return part.get_by_role("button", name=guesses, exact=True)


def slider(part):
    return part.get_by_role("slider", name="Privacy cost")


def sentence(part):
    return part.locator("output").first


def position(part):
    return slider(part).evaluate("el => [el.value, el.ariaValueText]")


def kept(part):
    return part.locator("[data-kept]").all_inner_texts()


def eventually(page, expression, wanted):
    settles(lambda: ask_kernel(page, expression), wanted)


def reveals(text):
    """Return which distinctive numbers of the data, or words on them, a text holds."""
    # code in base64 may hold any four digits; what a notebook shows is not in base64
    visible = re.sub(r"[A-Za-z0-9+/=]{200,}", "", text)
    # nor in the names of widgets, which are random letters and digits
    found = (re.search(rf"(?<![0-9A-Za-z]){re.escape(s)}(?![0-9A-Za-z])", visible) for s in SECRETS)
    return [hit.group() for hit in found if hit]


class TestLive:
    """In a front end with a kernel."""

    def test_the_notice_is_hidden_while_the_picker_lives(self, page):
        notice, live = outputs(page).all()
        expect(notice.get_by_text(NOTICE)).to_be_hidden()
        expect(notice.get_by_text("Saved copy of this result")).to_be_hidden()
        expect(live.locator(".dpnb-risk-range")).to_be_visible()
        assert notice.bounding_box()["height"] < 20

    def test_it_starts_where_python_does(self, page, part):
        settles(lambda: position(part), ["5", "rho 0.05 (epsilon 1.472 at delta 1e-6)"])
        assert ask_kernel(page, "str(picker.at)") == "5"
        told = ask_kernel(page, "picker.profile.sentence(rho=picker.rho, reveal=True)")
        expect(sentence(part)).to_have_text(told)

    def test_the_slider_moves_everything_without_asking_python(self, page, part):
        slider(part).focus()
        page.keyboard.press("End")
        settles(lambda: position(part), ["11", "rho 5 (epsilon 20.56 at delta 1e-6)"])
        expect(sentence(part)).to_contain_text("At rho 5")
        expect(part.locator("[aria-current=true]")).to_contain_text("rho 5")
        expect(part.locator(".dpnb-risk-range [aria-pressed=true]")).to_have_text("✓")
        expect(part.locator(".dpnb-risk-shape")).to_contain_text("at rho 5")
        expect(part.locator(".dpnb-risk-most")).to_have_text("most 88")
        expect(part.locator(".dpnb-risk-groups tbody tr").first).to_contain_text("88")
        expect(part.locator(".dpnb-risk-answer")).to_have_text(
            "rho 5 would cost rho 5, but only 1 is left"
        )
        eventually(page, "str(picker.at)", "11")

    def test_a_limit_moves_to_the_largest_level_within_it_and_python_knows_it(self, page, part):
        for name, at, tau in (("80", "10", "0.511"), ("60", "7", "0.892"), ("55", "5", "0.97")):
            preset(part, name).click()
            expect(slider(part)).to_have_value(at)
            expect(preset(part, name)).to_have_attribute("aria-pressed", "true")
            expect(part.locator("thead [data-limit]")).to_have_text(f"limit {name}")
            words = ["✓ within"] * (int(at) + 1) + ["✗ above"] * (11 - int(at))
            settles(lambda wanted=words: kept(part) == wanted, True)
            eventually(page, "str(picker.at)", at)
            eventually(page, "f'{picker.guesses:g} {picker.tau:.3g}'", f"{name} {tau}")

    def test_rows_above_the_limit_follow_it(self, part):
        beyond = part.locator("[data-beyond]")
        expect(beyond).to_have_text(["none"] * 6 + ["137 (1 %)"] * 6)
        preset(part, "80").click()
        expect(beyond).to_have_text(["none"] * 11 + ["137 (1 %)"])

    def test_what_was_chosen_by_looking_is_said_and_the_rule_is_free_of_it(self, page, part):
        looked = part.get_by_text("You chose this privacy cost by looking at the data.")
        expect(looked).to_be_visible()
        part.get_by_role("button", name="Use the rule for my limit").click()
        expect(looked).to_be_hidden()
        expect(sentence(part)).to_contain_text("guessed right at most 55 times in 100")
        expect(part.get_by_role("checkbox")).to_be_hidden()
        eventually(page, "str(picker.choice.conditional)", "False")
        # the limit was settled before the look; another one was not
        preset(part, "70").click()
        expect(looked).to_be_visible()

    def test_a_row_is_picked_by_click(self, page, part):
        part.locator(".dpnb-risk-range tbody tr").nth(2).click()
        expect(slider(part)).to_have_value("2")
        eventually(page, "str(picker.level)", "1/200")

    def test_what_is_set_in_python_is_shown(self, page, part):
        ask_kernel(page, "setattr(picker, 'at', 3)")
        expect(part.locator("[aria-current=true]")).to_contain_text("rho 0.01")
        expect(slider(part)).to_have_value("3")

    def test_bars_lie_beyond_the_line_where_words_say_so(self, part):
        ends = part.locator(".dpnb-risk-range td.dpnb-plot").evaluate_all(
            """cells => cells.map(cell => {
              const box = cell.getBoundingClientRect(), style = getComputedStyle(cell);
              const pad = parseFloat(style.paddingLeft), inner = box.width - 2 * pad;
              const line = inner * parseFloat(style.getPropertyValue('--dpnb-limit')) / 100;
              const mark = cell.querySelector('.dpnb-mark').getBoundingClientRect();
              return mark.right - box.left - pad - line;
            })"""
        )
        for end, word in zip(ends, kept(part), strict=True):
            assert end > -1 if "above" in word else end < 1

    def test_dark_theme_reaches_what_is_drawn_already(self, lab, page, part):
        ink = "el => getComputedStyle(el).color"
        light = sentence(part).evaluate(ink)
        lab.theme(page, "Dark")
        settles(lambda: sentence(part).evaluate(ink) != light, True)

    @pytest.mark.parametrize(("width", "sidebar"), [(600, True), (600, False), (340, False)])
    def test_a_narrow_window_needs_no_sideways_scrolling(self, page, part, width, sidebar):
        toggle = "window.jupyterapp.commands.execute('application:toggle-left-area')"
        if not sidebar:
            page.evaluate(toggle)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        expect(part.locator("[data-kept]").first).to_be_visible()
        expect(part.locator(".dpnb-risk-range td.dpnb-plot").first).to_be_visible()
        settles(lambda: overflow(page) <= 0, True)
        if not sidebar:
            page.evaluate(toggle)

    def test_after_a_reload_the_picker_is_back_where_it_was(self, lab, page, part):
        part.locator(".dpnb-risk-range tbody tr").nth(7).click()
        eventually(page, "str(picker.at)", "7")
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.reload()
        lab.wait(page)
        expect(slider(part)).to_have_value("7")
        expect(outputs(page).first.get_by_text(NOTICE)).to_be_hidden()

    def test_of_a_public_table_the_record_is_folded(self, page):
        record, live = outputs(page, 3).all()
        record.scroll_into_view_if_needed()
        expect(record.get_by_text("Saved copy of this result")).to_be_visible()
        expect(record.locator(".dpnb-risk-range")).to_be_hidden()
        expect(live.get_by_role("checkbox")).to_have_count(0)
        expect(live.get_by_role("button", name="yours 60")).to_have_attribute(
            "aria-pressed", "true"
        )

    def test_a_later_cell_repaints_it(self, lab, page, part):
        part.locator(".dpnb-risk-range tbody tr").nth(2).click()
        press = part.locator(".dpnb-risk-answer")
        expect(press).to_contain_text("Answer at rho 0.005: costs rho")
        ask_kernel(page, "picker.profile.answer(picker.candidates[2]).table")
        # what is asked so comes after its cell: the next one repaints
        ask_kernel(page, "1")
        expect(press).to_have_text("Answer at rho 0.005: free now")


class TestAnswering:
    """By the button, once the owner has said that the choice looked at the data."""

    def test_the_button_waits_for_the_box_then_answers(self, lab, page):
        part = outputs(page, 2).nth(1)
        part.scroll_into_view_if_needed()
        part.locator(".dpnb-risk-range tbody tr").nth(5).click()
        press = part.locator(".dpnb-risk-answer")
        expect(press).to_have_text("Answer at rho 0.05: costs rho 0.05 of the 1 left")
        expect(press).to_have_attribute("aria-disabled", "true")
        press.click(force=True)
        page.wait_for_timeout(300)
        assert ask_kernel(page, "str(other.answer)") == "None"
        part.get_by_role("checkbox", name="I know that this choice looked at the data").check()
        expect(press).to_have_attribute("aria-disabled", "false")
        press.focus()
        page.keyboard.press("Enter")
        expect(part.get_by_text("Answered. Privacy cost: rho 0.05")).to_be_visible()
        settles(lambda: focused_class(page), "dpnb-button dpnb-spend dpnb-risk-answer")
        assert ask_kernel(page, "str(other.answer.conditional)") == "True"
        expect(press).to_have_text("Answer at rho 0.05: free now")
        losses = part.locator("table").last
        expect(losses).to_contain_text("By the answer at rho 0.05")
        expect(losses.locator("tbody tr")).to_have_count(3)
        preset(part, "70").click()
        expect(part.get_by_text("Answered. Privacy cost: rho 0.05")).to_be_visible()

    def test_a_price_that_changed_is_told_and_the_button_works_again(self, page):
        part = outputs(page, 2).nth(1)
        part.get_by_role("checkbox").check()
        part.locator(".dpnb-risk-range tbody tr").nth(7).click()
        ask_kernel(page, "other.profile.answer(other.candidates[6]).table")
        press = part.locator(".dpnb-risk-answer")
        press.click()
        expect(part.locator("output").last).to_contain_text("The privacy cost has changed")
        expect(press).to_have_text("Answer at rho 0.2: costs rho 0.1 of the 0.9 left")
        press.click()
        expect(part.get_by_text("Answered. Privacy cost: rho 0.1")).to_be_visible()

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_axe_finds_nothing(self, lab, page, theme):
        lab.theme(page, theme)
        view(page).get_by_text("How to read this").click()
        slider(view(page)).focus()
        assert_accessible(page)
        view(page).get_by_text("How to read this").click()


class TestKeyboard:
    """Keys belong to the control that has the focus, in command mode too."""

    def test_a_level_is_picked_and_the_limit_set_by_key_alone(self, page, part):
        cells = page.locator(".jp-Cell").count()
        preset(part, "60").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(preset(part, "70")).to_have_attribute("aria-pressed", "true")
        eventually(page, "f'{picker.guesses:g}'", "70")
        settles(lambda: focused_text(page), "70")
        for _ in range(5):
            page.keyboard.press("Tab")
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowUp", "b", "a", "x", "d", "d"):
            page.keyboard.press(key)
        expect(slider(part)).to_have_value("3")
        page.keyboard.press("Tab")
        for key in ("ArrowDown", "Enter", "b", "a"):
            page.keyboard.press(key)
        expect(slider(part)).to_have_value("1")
        settles(lambda: focused(page), "Pick rho 0.002 (epsilon 0.2643 at delta 1e-6)")
        assert page.locator(".jp-Cell").count() == cells

    def test_the_box_and_the_sections_are_reached_by_key(self, page, part):
        part.get_by_text("Who stands out").focus()
        page.keyboard.press("Enter")
        expect(part.get_by_text("Largest contributions")).to_be_hidden()
        page.keyboard.press("Space")
        expect(part.get_by_text("Largest contributions")).to_be_visible()
        box = part.get_by_role("checkbox")
        box.focus()
        page.keyboard.press("Space")
        expect(box).to_be_checked()
        page.keyboard.press("Space")
        expect(box).not_to_be_checked()

    def test_the_focus_is_visible(self, page, part):
        for control in (slider(part), preset(part, "80"),
                        part.get_by_role("checkbox")):  # fmt: skip
            control.focus()
            page.keyboard.press("Shift+Tab")
            page.keyboard.press("Tab")
            style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style == "solid"

    def test_every_control_keeps_its_keys(self, page):
        controls = page.locator(".dpnb :is(select, button, summary, input, [tabindex])")
        assert controls.count() > 50
        for control in controls.all():
            assert control.get_attribute("data-lm-suppress-shortcuts") == "true"


class TestKept:
    """The next day nothing of it is there, however the notebook was saved."""

    def test_what_the_front_end_saves_reveals_nothing(self, saved):
        cells = json.loads(saved)["cells"]
        assert reveals(json.dumps(cells[:3])) == []
        assert NOTICE in json.dumps(cells[1])
        # of the public table the record is kept
        assert {"73,519", "4,861", "8,219", "stand out most"} <= set(reveals(json.dumps(cells[3])))

    def test_with_stored_state_it_reveals_nothing_either(self, lab, page):
        save = "@jupyter-widgets/jupyterlab-manager:saveWidgetState"
        page.evaluate(f"window.jupyterapp.commands.execute('{save}')")
        page.wait_for_timeout(500)
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.wait_for_timeout(500)
        notebook = json.loads((lab.root / "risk.ipynb").read_text())
        page.evaluate(f"window.jupyterapp.commands.execute('{save}')")
        stored = notebook["metadata"]["widgets"]
        assert "RiskPicker" in json.dumps(stored)
        assert reveals(json.dumps(stored)) == []
        assert reveals(json.dumps(notebook["cells"][:3])) == []

    def test_a_batch_run_that_stores_state_reveals_nothing(self, lab, opened):
        shown = "display_picker(picker, 'widget')"
        lab.write(
            "batch-risk.ipynb",
            SETUP,
            PICK,
            SECOND,
            shown,
            "picker",
            "picker.profile",
            "repr(picker)",
        )
        path = lab.root / "batch-risk.ipynb"
        convert("notebook", path, "--execute", "--inplace")
        text = path.read_text()
        assert "RiskPicker" in json.dumps(json.loads(text)["metadata"]["widgets"])
        assert reveals(text) == []
        assert text.count(NOTICE) == 4

    def test_reopened_there_is_the_notice(self, lab, saved, new_page):
        (lab.root / "risk-reopened.ipynb").write_text(saved)
        page = new_page()
        lab.open(page, "risk-reopened.ipynb")
        expect(outputs(page).first.get_by_text(NOTICE)).to_be_visible()
        expect(view(page)).to_be_hidden()
        lab.run(page)
        expect(view(page).get_by_text("No exact value is shown yet")).to_be_visible()
        expect(outputs(page).first.get_by_text(NOTICE)).to_be_hidden()

    def test_reopened_with_stored_state_there_is_the_notice_and_no_view(
        self, lab, opened, new_page
    ):
        page = new_page()
        lab.open(page, "batch-risk.ipynb")
        expect(outputs(page, 2).first.get_by_text(NOTICE)).to_be_visible()
        page.wait_for_timeout(500)
        assert outputs(page, 2).nth(1).inner_text().strip() == ""
        assert page.locator(".dpnb-risk-range").count() == 0

    def test_without_javascript_an_exported_notebook_shows_the_public_tables_only(
        self, lab, saved, new_page
    ):
        path = lab.root / "risk-saved.ipynb"
        path.write_text(saved)
        convert("html", path)
        page = new_page(java_script_enabled=False)
        page.goto(path.with_suffix(".html").as_uri())
        expect(page.get_by_text(NOTICE)).to_have_count(2)
        expect(page.locator(".dpnb-risk-range")).to_have_count(1)
        expect(page.locator(".dpnb-risk-range tbody tr")).to_have_count(12)


def focused_text(page):
    return page.evaluate("document.activeElement.textContent")


def focused_class(page):
    return page.evaluate("document.activeElement.className")
