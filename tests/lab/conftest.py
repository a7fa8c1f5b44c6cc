"""A real JupyterLab, and Chromium, which may talk to this machine only."""

from __future__ import annotations

import re

import pytest

from tests.kit.jupyterlab import browsing, serving


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")) as lab:
        yield lab


@pytest.fixture(scope="session")
def outside():
    """Addresses beyond this machine that were asked for."""
    return []


@pytest.fixture(scope="session")
def browser():
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def new_page(browser, outside):
    """Open a page in a context of its own, until the module ends: JupyterLab goes on asking its server."""
    contexts = []

    def asked(request):
        if re.match(r"(https?|wss?)://(?!127\.0\.0\.1:)", request.url):
            outside.append(request.url)

    def opened(**options):
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}} | options)
        context.set_default_timeout(120_000)
        # what is beyond this machine has no address, see the flags of Chromium
        context.on("requestfailed", asked)
        contexts.append(context)
        page = context.new_page()
        page.on("websocket", asked)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(autouse=True)
def _nothing_leaves_this_machine(outside):
    yield
    assert outside == []
