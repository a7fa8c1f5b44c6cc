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


@pytest.fixture(scope="session")
def new_page(browser, outside):
    """Open a page in a context of its own."""

    def guard(route):
        if "://127.0.0.1:" in route.request.url:
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    def opened(**options):
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}} | options)
        context.set_default_timeout(120_000)
        context.route(re.compile("^(https?|wss?)://"), guard)
        return context.new_page()

    return opened


@pytest.fixture(autouse=True)
def _nothing_leaves_this_machine(outside):
    yield
    assert outside == []
