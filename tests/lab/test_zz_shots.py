import json, importlib.util, pytest
from pathlib import Path

spec = importlib.util.spec_from_file_location("tv", str(Path(__file__).parent / "test_views.py"))
tv = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tv)
pytestmark = pytest.mark.lab
opened = tv.opened
page = tv.page
saved = tv.saved
trusted = tv.trusted
untrusted = tv.untrusted
S = "/root/w/shots/"


def test_shots(lab, page, trusted, untrusted):
    def snap(p, n):
        p.wait_for_timeout(400)
        p.screenshot(path=S + n + ".png")

    v = tv.view(page)
    v.locator("table").scroll_into_view_if_needed()
    snap(page, "live-empty-light")
    v.locator("tbody tr").nth(0).click()
    v.locator("tbody tr").nth(1).click()
    page.mouse.move(5, 5)
    snap(page, "live-light")
    tv.outputs(page).first.get_by_text("Record of this answer").click()
    snap(page, "live-record-opened")
    tv.outputs(page).first.get_by_text("Record of this answer").click()
    lab.theme(page, "Dark")
    v.get_by_label("Show").select_option(label="rich")
    tv.view(page).get_by_label("above").select_option(label="Married-AF-spouse")
    snap(page, "live-dark")
    v.locator(".dpnb-pick").nth(1).focus()
    page.keyboard.press("ArrowDown")
    snap(page, "live-dark-focus")
    lab.theme(page, "Light")
    page.set_viewport_size({"width": 600, "height": 900})
    v.locator("table").scroll_into_view_if_needed()
    snap(page, "narrow")
    page.evaluate("void window.jupyterapp.commands.execute('application:toggle-left-area')")
    snap(page, "narrow-nosidebar")
    print(
        [
            (w.evaluate("el=>[el.className,el.scrollWidth,el.clientWidth]"))
            for w in page.locator(".jp-OutputArea-output").all()
        ]
    )
    tv.choose(tv.outputs(trusted).first)
    snap(trusted, "reopened-trusted")
    snap(untrusted, "reopened-untrusted")
    lab.theme(untrusted, "Dark")
    snap(untrusted, "reopened-untrusted-dark")
    lab.theme(untrusted, "Light")
