"""How tests look at a notebook in JupyterLab."""

from __future__ import annotations

import subprocess
import sys
import time

from axe_playwright_python.sync_playwright import Axe


def outputs(page, cell=1):
    return page.locator(".jp-Cell").nth(cell).locator(".jp-OutputArea-child")


def view(page):
    return outputs(page).nth(1)


def assert_accessible(page):
    # all in view; and axe takes what lies in a body without height for hidden, unless it may overflow
    page.set_viewport_size({"width": 1100, "height": 2200})
    page.evaluate("document.body.style.overflow = 'visible'")
    # JupyterLab fades colours when the theme changes and draws anew when the window does
    for _ in range(5):
        page.wait_for_timeout(300)
        found = Axe().run(page, context=".jp-Notebook .jp-OutputArea", options={})
        passed = [rule for rule in found.response["passes"] if rule["id"] == "color-contrast"]
        checked = len(passed[0]["nodes"]) if passed else 0
        if found.violations_count == 0 and checked > 30:
            break
    assert found.violations_count == 0, found.generate_report()
    assert checked > 30


def convert(target, path, *options):
    command = [sys.executable, "-m", "nbconvert", "--to", target, *options, path]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def settles(read, wanted):
    """Assert that what `read` returns becomes `wanted` soon: a page is drawn after the event."""
    deadline = time.monotonic() + 10
    while read() != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert read() == wanted


def focused(page):
    return page.evaluate("document.activeElement.ariaLabel")


def outline(page):
    """Return the style of the line around what has the focus."""
    return page.evaluate("getComputedStyle(document.activeElement).outlineStyle")


def overflow(page):
    """Return by how many pixels the widest output of the page exceeds its place."""
    return page.locator(".jp-OutputArea-output").evaluate_all(
        "all => Math.max(...all.map(el => el.scrollWidth - el.clientWidth))"
    )


def ask_kernel(page, expression):
    """Return what the kernel of the notebook computes, without adding a cell."""
    return page.evaluate(
        """async expression => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const code = { code: '', user_expressions: { asked: expression }, silent: false };
          const reply = await kernel.requestExecute(code).done;
          const asked = reply.content.user_expressions.asked;
          if (asked.status !== 'ok') throw Error(asked.evalue);
          return asked.data['text/plain'].replace(/^'|'$/g, '');
        }""",
        expression,
    )
