"""What the owner sees of several analysts in JupyterLab, live and in every state it is reopened in."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.kit.pages import ask_kernel, convert, outline, outputs, settles

pytestmark = pytest.mark.lab

SETUP = """
import dpnb, pandas as pd
from dataclasses import replace
rows = [("a", i % 10) for i in range(500)] + [("b", i % 10) for i in range(300)]
schema = dpnb.Schema({"g": dpnb.Category(["a", "b"]), "x": dpnb.Integer(0, 9)})
table = dpnb.Table("people", pd.DataFrame(rows, columns=["g", "x"]), schema)
curator = dpnb.Curator(
    [table], budget=dpnb.Budget(epsilon=3, delta=1e-6), views=[["g"]],
    analysts={"alice": 4, "bob": 1, "carol-of-the-long-name@hospital.example": 2},
)
alice, bob = curator.session("alice"), curator.session("bob")
carol = curator.session("carol-of-the-long-name@hospital.example")
alice.query("SELECT g, COUNT(*) AS n FROM people GROUP BY g", rho=0.01)
bob.query("SELECT g, COUNT(*) AS n FROM people GROUP BY g", rho=0.004)
bob.query('SELECT COUNT(*) AS "<img src=x onerror=alert(1)>" FROM people WHERE x > 3', rho=0.006)
alice.query("SELECT AVG(x) AS mean FROM people", rho=0.05)
for at in range(40):
    sign, name = "=" if at < 20 else "<>", "ab"[at % 2]
    carol.query(f"SELECT COUNT(*) AS n FROM people WHERE x {sign} {at // 2 % 10} AND g = '{name}'",
                rho=0.00002 * (1 + at))
curator.disable("carol-of-the-long-name@hospital.example");
"""
SHOWN = "curator.provenance"
LIVE = """
widget = replace(curator.provenance, renew=lambda: curator.provenance).widget()
widget
"""
SECRETS = ("alice", "carol", "people", "SELECT COUNT", "rho 0.185")
TITLE = "How much was released to each analyst?"


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The notebook, run once in the front end."""
    lab.write("owner.ipynb", SETUP, SHOWN, LIVE)
    page = new_page()
    lab.open(page, "owner.ipynb")
    lab.run(page)
    outputs(page, 2).locator(".dpnb-prov-reckon").wait_for()
    return page


@pytest.fixture(scope="module")
def saved(lab, opened):
    """The notebook as the front end saves it by itself, without widget state."""
    opened.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    text = (lab.root / "owner.ipynb").read_text()
    assert "widgets" not in json.loads(text)["metadata"]
    return text


@pytest.fixture
def page(lab, opened):
    """The live notebook in its first state: light, wide, nobody ticked, numbers in rho."""
    opened.set_viewport_size({"width": 1100, "height": 900})
    lab.theme(opened, "Light")
    opened.mouse.move(5, 5)
    part = live(opened)
    part.scroll_into_view_if_needed()
    part.get_by_role("button", name="None").click()
    part.get_by_role("button", name="rho", exact=True).click()
    return opened


def record(page):
    return outputs(page, 1).first


def live(page):
    return outputs(page, 2).first


def box(page, name):
    return live(page).get_by_role("checkbox", name=re.compile(f"^{name}"))


def result(page):
    return live(page).locator(".dpnb-prov-result")


def cells(table):
    """Return the first row of a heat map, as texts."""
    return table.locator("tbody tr").first.locator("th, td").all_inner_texts()


def assert_fits(page, part):
    """Nothing is wider than the output, but for what scrolls by itself."""
    wide = part.evaluate(
        """part => { const root = part.querySelector('.dpnb'), edge = root.getBoundingClientRect().right;
          return [...root.querySelectorAll('*')].filter(node => !node.closest('.dpnb-scroll')
            && node.getClientRects().length && node.getBoundingClientRect().right > edge + 1)
            .map(node => node.outerHTML.slice(0, 80)); }"""
    )
    assert wide == []


class TestRecord:
    """What a notebook keeps needs neither scripts nor a kernel."""

    def test_it_says_in_words_what_all_have_learned(self, page):
        told = ask_kernel(page, "repr(curator.provenance).split(chr(10))[0]")
        assert re.match(r"Released to all analysts together: at most rho 0\.0\d+ \(epsilon", told)
        expect(record(page).get_by_text(told)).to_be_visible()

    def test_text_from_outside_stays_text(self, page):
        text = "<img src=x onerror=alert(1)>"
        assert text in record(page).inner_text() + record(page).text_content()
        assert page.locator(".dpnb img").count() == 0

    def test_wide_tables_scroll_inside_and_the_names_stay(self, page):
        scroll = record(page).locator(".dpnb-scroll").first
        width, inner = scroll.evaluate("el => [el.clientWidth, el.scrollWidth]")
        assert inner > 2 * width
        scroll.evaluate("el => { el.scrollLeft = 9999 }")
        left = scroll.evaluate(
            "el => el.querySelector('tbody th').getBoundingClientRect().left"
            " - el.getBoundingClientRect().left"
        )
        assert abs(left) < 2
        heads = scroll.locator("thead th").all_inner_texts()
        assert len(heads) == 2 + 31
        assert "and 14 more" in heads[-1]
        scroll.evaluate("el => { el.scrollLeft = 0 }")
        assert_fits(page, record(page))

    def test_the_chart_lies_where_the_numbers_say(self, page):
        """The end of the thick line is as far below the cap as the numbers say."""
        line, cap, low = (
            record(page)
            .locator(".dpnb-prov-plot")
            .evaluate(
                """plot => [plot.querySelector('path.dpnb-prov-line-0').getBoundingClientRect().top,
              plot.querySelector('.dpnb-prov-cap').getBoundingClientRect().top,
              plot.getBoundingClientRect().bottom]"""
            )
        )
        share = float(ask_kernel(page, "float(curator.budget.spent.rho / curator.budget.cap.rho)"))
        assert (low - line) / (low - cap) == pytest.approx(share, abs=0.03)

    def test_every_line_of_the_chart_is_named(self, page):
        labels = (
            record(page)
            .locator(".dpnb-prov-label")
            .evaluate_all(
                "all => all.map(node => [node.dataset.label, node.getBoundingClientRect().top])"
            )
        )
        assert {name for name, _ in labels} >= {"all together", "alice", "bob"}
        tops = sorted(top for _, top in labels)
        assert all(after - before > 12 for before, after in pairwise(tops))

    def test_details_open_by_key(self, page):
        summary = record(page).locator("summary", has_text="How to read this")
        summary.focus()
        page.keyboard.press("Enter")
        expect(record(page).get_by_text("For one person this means")).to_be_visible()
        page.keyboard.press("Enter")
        expect(record(page).get_by_text("For one person this means")).to_be_hidden()


class TestLive:
    """In a front end with a kernel."""

    def test_ticked_analysts_are_reckoned_by_the_kernel(self, page):
        expect(result(page)).to_have_text("Tick the analysts who might share their answers.")
        for names in (("alice",), ("alice", "bob"), ("bob",)):
            live(page).get_by_role("button", name="None").click()
            for name in names:
                box(page, name).check()
            loss = ask_kernel(page, f"str(float(curator.coalition{names!r}.rho))")
            expect(result(page)).to_contain_text(f"at most rho {float(loss):.4g} (epsilon ")
            expect(result(page)).to_contain_text("of the total budget")
        assert ask_kernel(page, "','.join(widget.chosen)") == "bob"

    def test_all_of_them_are_what_the_budget_says(self, page):
        live(page).get_by_role("button", name="All").click()
        spent = ask_kernel(page, "str(float(curator.budget.spent.rho))")
        expect(result(page)).to_contain_text(f"rho {float(spent):.4g} (")

    def test_analysts_are_ticked_from_python(self, page):
        ask_kernel(page, "setattr(widget, 'chosen', ('alice', 'bob'))")
        expect(result(page)).to_contain_text("Released to alice and bob together")
        expect(box(page, "alice")).to_be_checked()
        expect(box(page, "carol")).not_to_be_checked()

    def test_numbers_can_be_epsilons(self, page):
        table = live(page).locator(".dpnb-prov-heat")
        own = cells(table)
        button = live(page).get_by_role("button", name="epsilon", exact=True)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        expect(table.locator("caption")).to_have_text("Released, by view and analyst, in epsilon")
        expect(live(page).get_by_text("Epsilons do not add up")).to_be_visible()
        shown = cells(table)
        assert shown[0] == own[0] == "alice"
        known = ask_kernel(page, "f'{curator.coalition(\"alice\").epsilon_at(1e-6):.4g}'")
        assert shown[1] == known != own[1]

    def test_by_key_alone(self, page):
        """Tab leads to every control, the space bar ticks, and the notebook keeps its cells."""
        count = page.locator(".jp-Cell").count()
        live(page).get_by_role("button", name="Refresh").focus()
        for _ in range(40):
            page.keyboard.press("Tab")
            if box(page, "alice").evaluate("el => el === document.activeElement"):
                break
        page.keyboard.press("Space")
        expect(result(page)).to_contain_text("Released to alice: at most")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(result(page)).to_contain_text("alice and bob together")
        settles(lambda: outline(page), "solid")
        page.keyboard.press("b")
        page.keyboard.press("a")
        assert page.locator(".jp-Cell").count() == count

    def test_a_heat_map_scrolls_by_key(self, page):
        scroll = live(page).locator(".dpnb-scroll").first
        scroll.evaluate("el => { el.scrollLeft = 0; el.focus({ preventScroll: true }) }")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("el => el.scrollLeft > 0", arg=scroll.element_handle())

    def test_every_control_keeps_its_keys(self, page):
        controls = page.locator(".dpnb :is(button, summary, input, [tabindex])")
        assert controls.count() > 15
        for control in controls.all():
            assert control.get_attribute("data-lm-suppress-shortcuts") == "true"

    def test_refresh_shows_what_was_asked_since_and_keeps_the_rest(self, page):
        box(page, "bob").check()
        live(page).get_by_role("button", name="epsilon", exact=True).click()
        before = ask_kernel(page, "str(len(curator.provenance.timeline))")
        ask_kernel(
            page,
            "alice.query('SELECT COUNT(*) AS n FROM people WHERE x = 5', "
            "rho=0.0001 * len(curator.provenance.timeline)).spent.rho",
        )
        live(page).get_by_role("button", name="Refresh").click()
        news = live(page).locator(".dpnb-prov-news")
        expect(news).to_have_text(f"Up to date, with {int(before) + 1} charges.")
        expect(live(page).locator(".dpnb-prov-heat caption")).to_contain_text("in epsilon")
        expect(box(page, "bob")).to_be_checked()
        expect(result(page)).to_contain_text("Released to bob: at most")
        focused = page.evaluate("document.activeElement.textContent")
        assert focused == "Refresh"


class TestLooks:
    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_it_is_accessible(self, lab, page, theme):
        lab.theme(page, theme)
        box(page, "alice").check()
        expect(result(page)).to_contain_text("Released to alice")
        # all in view, see looking.assert_accessible
        page.set_viewport_size({"width": 1100, "height": 5000})
        page.evaluate("document.body.style.overflow = 'visible'")
        for _ in range(5):
            page.wait_for_timeout(300)
            record(page).evaluate("part => part.scrollIntoView()")
            found = Axe().run(page, context=".jp-Notebook .jp-OutputArea", options={})
            passed = [rule for rule in found.response["passes"] if rule["id"] == "color-contrast"]
            checked = len(passed[0]["nodes"]) if passed else 0
            if found.violations_count == 0 and checked > 200:
                break
        assert found.violations_count == 0, found.generate_report()
        assert checked > 200

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_numbers_stand_out_from_their_cells(self, lab, page, theme):
        """At least 4.5:1, tints included, which axe does not look through."""
        lab.theme(page, theme)
        page.wait_for_timeout(500)
        found = (
            record(page)
            .locator(".dpnb-heat")
            .evaluate_all(
                """cells => {
              const canvas = document.createElement('canvas');
              canvas.width = canvas.height = 1;
              const pen = canvas.getContext('2d', { willReadFrequently: true });
              const mixed = (...colors) => {
                pen.clearRect(0, 0, 1, 1);
                for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
                return [...pen.getImageData(0, 0, 1, 1).data];
              };
              const bright = color => {
                const [r, g, b] = color.map(v => v / 255).map(v =>
                  v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const ground = getComputedStyle(cells[0].closest('tr').firstChild).backgroundColor;
              return cells.map(cell => {
                const style = getComputedStyle(cell);
                const under = [ground, style.backgroundColor];
                const [a, b] = [bright(mixed(...under)), bright(mixed(...under, style.color))];
                return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
                  parseFloat(style.getPropertyValue('--dpnb-share')), style.backgroundColor];
              });
            }"""
            )
        )
        assert len(found) > 40
        assert max(share for _, share, _ in found) > 60
        assert len({tint for _, _, tint in found}) > 10
        assert min(contrast for contrast, _, _ in found) >= 4.5

    @pytest.mark.parametrize("theme", ["Light", "Dark"])
    def test_in_a_narrow_window_nothing_is_cut(self, lab, page, theme):
        lab.theme(page, theme)
        page.set_viewport_size({"width": 340 + 250, "height": 900})
        for part in (record(page), live(page)):
            part.evaluate("part => { part.querySelector('.dpnb').style.width = '340px' }")
            assert_fits(page, part)
            expect(part.locator(".dpnb-prov-rows thead")).to_be_hidden()
            names = (
                part.locator(".dpnb-prov-rows tbody tr")
                .first.locator("td")
                .evaluate_all("all => all.map(cell => getComputedStyle(cell, '::before').content)")
            )
            assert names[:3] == ['"privilege"', '"spent"', '"of the limit"']
            part.evaluate("part => { part.querySelector('.dpnb').style.width = '' }")


class TestKept:
    """The next day the record is there; of the live view nothing is."""

    def test_the_front_end_saves_the_record_and_nothing_of_the_view(self, saved):
        kept, shown = (json.dumps(cell["outputs"]) for cell in json.loads(saved)["cells"][1:])
        assert all(secret in kept for secret in SECRETS)
        assert not any(secret in shown for secret in SECRETS)

    def test_with_stored_state_it_keeps_code_and_styles_only(self, lab, opened):
        save = "@jupyter-widgets/jupyterlab-manager:saveWidgetState"
        opened.evaluate(f"window.jupyterapp.commands.execute('{save}')")
        opened.wait_for_timeout(500)
        opened.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        opened.wait_for_timeout(500)
        notebook = json.loads((lab.root / "owner.ipynb").read_text())
        opened.evaluate(f"window.jupyterapp.commands.execute('{save}')")
        stored = json.dumps(notebook["metadata"]["widgets"])
        assert "ProvenanceWidget" in stored
        assert not any(secret in stored for secret in SECRETS)

    def test_reopened_the_record_is_as_it_was(self, lab, saved, new_page):
        (lab.root / "owner-reopened.ipynb").write_text(saved)
        page = new_page()
        lab.open(page, "owner-reopened.ipynb")
        expect(record(page).get_by_text(TITLE)).to_be_visible()
        expect(record(page).locator(".dpnb-prov-heat")).to_be_visible()
        expect(record(page).locator(".dpnb-prov-figure svg")).to_be_visible()

    def test_untrusted_the_tables_stay_and_no_stray_words_of_the_chart(self, lab, saved, new_page):
        changed = json.loads(saved)
        changed["cells"][0]["source"] = "# from someone else"
        (lab.root / "owner-untrusted.ipynb").write_text(json.dumps(changed))
        page = new_page()
        lab.open(page, "owner-untrusted.ipynb")
        expect(record(page).get_by_text(TITLE)).to_be_visible()
        assert record(page).locator("style, svg").count() == 0
        expect(record(page).get_by_role("columnheader", name="of the limit")).to_be_visible()
        text = record(page).inner_text()
        assert "charges in order" not in text
        assert "How the budget was spent" in text

    def test_exported_without_javascript_it_is_whole(self, lab, saved, new_page):
        path = lab.root / "owner-export.ipynb"
        path.write_text(saved)
        convert("html", path)
        page = new_page(java_script_enabled=False)
        page.goto(path.with_suffix(".html").as_uri())
        expect(page.get_by_text(TITLE)).to_be_visible()
        expect(page.locator(".dpnb-prov-heat")).to_have_count(1)
        expect(page.locator(".dpnb-prov-label").first).to_be_visible()
        # on paper nothing can be opened, nor scrolled
        summary = page.locator("summary", has_text="columns in full")
        inside = summary.locator("xpath=..").locator("tbody tr").last
        expect(inside).not_to_be_visible()
        page.emulate_media(media="print")
        assert inside.evaluate("el => el.checkVisibility({ contentVisibilityAuto: true })")
        assert (
            page.locator(".dpnb-scroll").first.evaluate("el => getComputedStyle(el).overflowX")
            == "visible"
        )


class TestWithoutKernel:
    def test_the_view_says_so(self, lab, new_page):
        lab.write("owner-alone.ipynb", SETUP, LIVE)
        page = new_page()
        lab.open(page, "owner-alone.ipynb")
        lab.run(page)
        part = outputs(page, 1).first
        part.locator(".dpnb-prov-reckon").wait_for()
        page.evaluate(
            "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.shutdown()"
        )
        part.get_by_role("checkbox", name="alice").check()
        expect(part.locator(".dpnb-prov-result")).to_contain_text("The kernel does not answer")
