"""What needs more than Python is run with ``--all`` or DPNB_ALL=1, and then a missing program fails."""

from __future__ import annotations

import os

import pytest

_MARKS = {
    "lab": "drives a real JupyterLab in Chromium",
    "node": "runs JavaScript in Node",
}

os.environ["MPLBACKEND"] = "agg"


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also run what needs Node or Chromium")
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


def pytest_configure(config):
    for name, meaning in _MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all") or os.environ.get("DPNB_ALL") == "1":
        return
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in _MARKS)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def regenerate(pytestconfig) -> bool:
    """Whether golden files are to be written instead of read."""
    return bool(pytestconfig.getoption("--regenerate"))
