"""HTML as a reader gets it, and golden files."""

from __future__ import annotations

import base64
import difflib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "display" / "golden"
BLOB = re.compile(r'"([A-Za-z0-9+/]{40,}={0,2})"')


class Reading(HTMLParser):
    """What a reader gets: the text of each cell, all text, and every tag with its attributes.

    Spaces that do not break are spaces.
    """

    def __init__(self, html):
        super().__init__()
        self.cells, self.captions, self.tags, self.text, self._open = [], [], [], "", None
        self.feed(re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th", "caption"):
            self._open = self.captions if tag == "caption" else self.cells
            self._open.append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th", "caption"):
            self._open = None

    def handle_data(self, data):
        data = data.replace("\N{NO-BREAK SPACE}", " ")
        self.text += data
        if self._open is not None:
            self._open[-1] += data


def packed(html):
    return json.loads(base64.b64decode(BLOB.findall(html)[-1]))


def readable(html):
    """Leave out what has tests of its own, and break lines, so that a golden file can be reviewed."""
    html = re.sub(r"<style>.*?</style>", "<style>…</style>", html, flags=re.DOTALL)
    html = re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,…", html)
    html = BLOB.sub(lambda m: json.dumps(json.loads(base64.b64decode(m[1])), indent=1), html)
    return re.sub(r"(?=<(?:tr|th|td|p|div|caption|tbody|script))", "\n", html).lstrip() + "\n"


def compare(name, html, regenerate):
    """Hold HTML against its golden file, or write it anew."""
    found = readable(html)
    if regenerate:
        (GOLDEN / name).write_text(found, encoding="utf-8")
    golden = (GOLDEN / name).read_text(encoding="utf-8")
    lines = difflib.unified_diff(golden.splitlines(), found.splitlines(), lineterm="", n=0)
    assert found == golden, "\n".join(lines)
