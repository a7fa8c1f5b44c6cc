"""The reference is written without a warning, and shows every public name and every magic."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpnb
from dpnb.magics.cells import Dpnb

pytestmark = pytest.mark.packaging

HERE = Path(__file__).parent
MAGICS = sorted(name for name in vars(Dpnb) if name.startswith("dp"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-W", "error", HERE / "reference.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*.html")
    }


def test_every_public_name_has_a_place(pages):
    for name in set(dpnb.__all__) - {"datasets"}:
        assert f'<section id="{name}">' in pages["dpnb"], name
    assert "dpnb/datasets.html" in pages["dpnb"]
    assert 'id="Session.query"' in pages["dpnb"]


def test_every_magic_has_one_with_its_usage(pages):
    for name in MAGICS:
        assert f'id="Dpnb.{name}"' in pages["dpnb/magics/cells"]
        assert re.search(rf"%{name} \[", pages["dpnb/magics/cells"])


def test_no_mark_of_another_format_is_left(pages):
    for name, page in pages.items():
        shown = re.sub(r"(?s)<(script|style)[ >].*?</\1>", "", page)
        assert not re.search(r":(?:class|meth|func|mod):|\w::\s*<", shown), name


def test_the_front_page_leads_to_the_others(pages):
    for name in set(pages) - {"dpnb", "index", "dpnb/server/auth", "dpnb/server/limits"}:
        assert f'href="{name}.html' in pages["dpnb"], name


def test_links_lead_somewhere(pages):
    for name, page in pages.items():
        folder = Path(name).parent
        for link in re.findall(r'href="([^"#:]+)\.html', page):
            place = (Path("/") / folder / link).as_posix()
            parts: list[str] = []
            for part in place.split("/"):
                parts = parts[:-1] if part == ".." else [*parts, part]
            assert "/".join(parts).lstrip("/") in pages, (name, link)


def test_nothing_is_fetched_from_elsewhere(pages):
    for page in pages.values():
        assert not re.search(r'(?:src|<link[^>]*href)="https?:', page)
