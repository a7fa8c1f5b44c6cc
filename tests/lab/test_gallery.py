"""Every kind of result once, in JupyterLab: one look, in both themes, narrow, enlarged, and by key."""

from __future__ import annotations

import contextlib
import math
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.kit.pages import assert_accessible
from tests.lab.gallery import CELLS, SETUP

pytestmark = pytest.mark.lab

MEASURES = (Path(__file__).parent / "gallery.js").read_text(encoding="utf-8")
WINDOWS = {"wide": (1100, 1), "narrow": (600, 1), "zoomed": (640, 2)}
"""Width in CSS pixels, and device pixels of each: a window of 1280 at 200 % has 640 of two."""
_ALL_DRAWN = """() => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.notebookConfig = { ...notebook.notebookConfig, windowingMode: 'none' };
}"""
_SQL = re.compile(r"\b(SELECT|COUNT\(|SUM\(|AVG\(|HAVING|WHERE)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?")
_NUMBER = r"(-?\d[\d,]*(?:\.(\d+))?)"
_INTERVAL = re.compile(rf"(?<![\w.]){_NUMBER}( %)? to {_NUMBER}( %)?(?![\w,])")


@pytest.fixture(scope="module")
def opened(lab, new_page):
    """The gallery, run once in the front end."""
    lab.write("gallery.ipynb", SETUP, *CELLS.values())
    page = new_page()
    lab.open(page, "gallery.ipynb")
    page.evaluate(_ALL_DRAWN)
    lab.run(page)
    page.evaluate(MEASURES)
    page.locator(".dpnb-risk-release").last.wait_for(state="attached")
    return page


@pytest.fixture(scope="module")
def page(lab, opened):
    return opened


def window(page, name):
    """Look through a window of that name."""
    width, pixels = WINDOWS[name]
    page.set_viewport_size({"width": width, "height": 1200})
    metrics = {"width": width, "height": 1200, "deviceScaleFactor": pixels, "mobile": False}
    page.context.new_cdp_session(page).send("Emulation.setDeviceMetricsOverride", metrics)
    page.wait_for_timeout(500)


def look(page, what):
    return page.evaluate(f"window.gallery.{what}()")


@contextlib.contextmanager
def planted(page, html):
    """Put something that breaks a rule into the first result."""
    page.evaluate("html => window.gallery.plant(html)", html)
    yield
    page.evaluate("window.gallery.clear()")


def bad_numbers(words):
    """Return the texts with a number that is written in another way than all others."""
    found = []
    for text in words:
        plain = _DATE.sub("", text.replace("\N{NO-BREAK SPACE}", " "))
        if _SQL.search(plain):
            continue
        long = re.search(r"(?<![\w.,/:'])-?\d{4,}(?![\w:])", plain)
        idle = re.search(r"\de[+-]?0\d|\de\+\d", plain)
        close = re.search(r"\d%", plain)
        if long or idle or close:
            found.append(text)
    return found


def bad_intervals(words):
    """Return the intervals whose ends do not have the decimals that their width deserves."""
    found = []
    for text in words:
        for low, one, left, high, two, right in _INTERVAL.findall(
            _DATE.sub("", text.replace("\N{NO-BREAK SPACE}", " "))
        ):
            start, end = (float(value.replace(",", "")) for value in (low, high))
            decimals = (len(one), len(two))
            half = (end - start) / 2
            due = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 0
            # of rounded ends a margin of error just below a power of ten may look as large as it
            alike = decimals[0] == decimals[1] and (bool(left) == bool(right))
            if not alike or (decimals[0] and abs(decimals[0] - due) > 1):
                found.append(f"{low}{left} to {high}{right}")
    return found


def test_every_cell_has_an_output(page):
    outputs = page.locator(".jp-Notebook .jp-CodeCell").all()
    empty = [
        name
        for name, cell in zip(CELLS, outputs[1:], strict=True)
        if not cell.locator(".jp-OutputArea-output").count()
    ]
    assert empty == []
    assert look(page, "silent") == 0


@pytest.mark.parametrize("theme", ["Light", "Dark"])
class TestThemes:
    def test_axe_finds_nothing(self, lab, page, theme):
        lab.theme(page, theme)
        assert_accessible(page)

    def test_colours_of_text_are_few(self, lab, page, theme):
        lab.theme(page, theme)
        page.wait_for_timeout(500)
        assert look(page, "coloured") == []


@pytest.mark.parametrize("name", WINDOWS)
class TestWindows:
    def test_nothing_is_wider_than_its_output_or_clipped(self, lab, page, name):
        window(page, name)
        assert look(page, "wide") == []

    def test_no_text_lies_on_another(self, lab, page, name):
        window(page, name)
        assert look(page, "overlapping") == []

    def test_sizes_of_text_are_of_the_scale(self, lab, page, name):
        window(page, name)
        assert look(page, "sized") == []


def test_numbers_are_written_alike(page):
    window(page, "wide")
    words = look(page, "words")
    assert len(words) > 500
    # what is to be copied into a schema is Python
    assert bad_numbers([re.sub(r"dpnb\.\w+\([^)]*\)", "", text) for text in words]) == []


def test_intervals_have_the_digits_that_their_width_deserves(page):
    window(page, "wide")
    words = look(page, "words")
    assert sum(len(_INTERVAL.findall(text)) for text in words) > 100
    assert bad_intervals(words) == []


def by_key(page):
    """Return what Tab does not reach within its output, and where its focus is not seen."""
    assert look(page, "count") > 100
    missed, unseen = [], []
    for first, *rest in look(page, "outputs"):
        page.evaluate("place => window.gallery.start(place)", first)
        reached = {first}
        for _ in rest:
            page.keyboard.press("Tab")
            place, ring, what = look(page, "focused")
            reached.add(place)
            if not ring:
                unseen.append(what)
        missed += {first, *rest} - reached
    return missed, unseen


def test_every_control_is_reached_by_tab_with_its_focus_seen(page):
    window(page, "wide")
    assert by_key(page) == ([], [])


class TestPower:
    """Each check finds what breaks its rule."""

    @pytest.mark.parametrize(
        ("what", "html"),
        [
            ("wide", "<p style='width:3000px'>wide</p>"),
            ("wide", "<p style='width:40px;overflow:hidden;white-space:nowrap'>cut at its end</p>"),
            (
                "wide",
                "<div style='width:40px;overflow:auto'><p style='width:90px'>by mouse</p></div>",
            ),
            ("overlapping", "<p style='height:9px'>one</p><p style='margin-top:-9px'>another</p>"),
            ("sized", "<p style='font-size:17px'>large</p>"),
            ("coloured", "<p style='color:#123456'>blue</p>"),
        ],
    )
    def test_of_what_is_measured(self, page, what, html):
        window(page, "wide")
        with planted(page, html):
            assert len(look(page, what)) > 0
        assert look(page, what) == []

    def test_of_axe(self, page):
        with planted(page, "<button data-lm-suppress-shortcuts='true'></button>"):
            found = Axe().run(page, context=".planted", options={})
        assert found.violations_count > 0

    def test_of_keys(self, page):
        window(page, "wide")
        bare = "<button style='outline:none' data-lm-suppress-shortcuts='true'>bare</button>"
        with planted(page, f"{bare * 2}<button tabindex='0' inert=''>never</button>"):
            _, unseen = by_key(page)
        assert unseen

    @pytest.mark.parametrize(
        "text", ["12345 rows", "delta 1e-06", "95% interval", "from 1234 on", "rho 1.00e-05"]
    )
    def test_of_numbers(self, text):
        assert bad_numbers([text]) == [text]

    @pytest.mark.parametrize(
        "text", ["1.5 to 2.25", "10.123 to 20.456", "0.12 to 0.1234", "5 to 6 %"]
    )
    def test_of_intervals(self, text):
        assert bad_intervals([text])

    def test_what_is_right_is_let_pass(self):
        right = [
            "0.1078 to 0.1135",
            "4,425 to 4,451",
            "-0.34 to 0.23",
            "7.71 % to 9.00 %",
            "1 to 103",
        ]
        assert bad_intervals(right) == []
        assert bad_numbers([*right, "2026-11-22 09:48 UTC", "delta 1e-6", "1/4096"]) == []
