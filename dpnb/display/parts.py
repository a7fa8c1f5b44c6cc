"""What every result in HTML is made of: text, heads, styles, scripts, and a page around it."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from dpnb.display.text import plain, stamps
from dpnb.stamps import Stamp

STATIC = Path(__file__).parent / "static"
_IMPORTED = re.compile(r'(?<= from )"\./(\w+\.js)"')


def text(value: str) -> str:
    """Return a text as HTML that reads as that text."""
    return escape(plain(value))


def one_line(value: str) -> str:
    """Return a text on one line, as HTML."""
    return text(" ".join(value.split()))


def framed(content: str) -> str:
    """Return content with its styles."""
    # pages that typeset formulas would read names with dollar signs as such
    classes = "dpnb mathjax_ignore tex2jax_ignore"
    return f'<div class="{classes}"><style>{_css()}</style>{content}</div>'


@cache
def _css() -> str:
    return (STATIC / "answer.css").read_text(encoding="utf-8")


@cache
def module(name: str) -> str:
    """Return a script together with what it imports.

    In a notebook it has no address that a relative import could start from.
    """
    source = (STATIC / name).read_text(encoding="utf-8")
    return _IMPORTED.sub(lambda found: json.dumps(_address(found[1])), source)


@cache
def _address(name: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module(name).encode()).decode()


def script(view: str, state: dict[str, Any], token: str) -> str:
    """Return the script that upgrades the record around it.

    Base64 keeps every value clear of the HTML parser. A front end may run the script beside the
    record instead of inside it. Where a page forbids the import, the table stays as it is.

    Parameters
    ----------
    view : str
        File name of the view.
    state : dict
        What the view starts from, as the widget's traits.
    token : str
        Names the live widget that accompanies the record; empty for none.
    """
    packed = json.dumps({**state, "token": token}, allow_nan=False)
    blob = base64.b64encode(packed.encode()).decode()
    return (
        "<script>(() => { const script = document.currentScript;"
        ' const root = script.closest(".dpnb") || script.parentNode.querySelector(".dpnb");'
        f' Promise.all([import("{_address(view)}"), import("{_address("record.js")}")])'
        f'.then(([view, record]) => record.upgrade(view.default, root, "{blob}")); }})()</script>'
    )


def stamped(stamp: Stamp, conditional: bool) -> str:
    """Return the stamps of a result, each in a box; nothing for what needs none."""
    return "".join(map(boxed, stamps(stamp, conditional)))


def boxed(value: str) -> str:
    """Return a strong line in a box."""
    return (
        '<p class="dpnb-stamp"><strong style="border:2px solid;padding:2px 8px">'
        f"{text(value)}</strong></p>"
    )


def caption(value: str) -> str:
    """Return the caption of a table."""
    return f'<caption style="text-align:left;font-weight:bold">{text(value)}</caption>'


def head(value: str) -> str:
    """Return the head of a column; an empty one heads nothing."""
    if not value:
        return "<td></td>"
    return f'<th scope="col" style="text-align:left">{text(value)}</th>'


def row_head(value: str) -> str:
    """Return the head of a row."""
    return f'<th scope="row" style="text-align:left;font-weight:normal">{text(value)}</th>'


def write_page(path: str | Path, html: str) -> None:
    """Write a result as a page that needs nothing else.

    Parameters
    ----------
    path : str or Path
    html : str
        A result, as :mod:`dpnb.display.html` writes it.
    """
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>dpnb result</title>\n"
        "<style>:root{color-scheme:light dark}"
        "body{font:14px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}"
        f"</style>\n</head>\n<body>\n<main>\n{html}\n</main>\n</body>\n</html>\n"
    )
    Path(path).write_text(page, encoding="utf-8")
