"""Building blocks of every result in HTML: text, heads, styles, scripts, and a page around it."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from dpnb.display.marks import GREY
from dpnb.display.text import stamps
from dpnb.errors import RequestError, given, printable
from dpnb.private import Stamp

STATIC = Path(__file__).parent / "static"
INTERRUPTED = (
    "Interrupted. Check the budget. If you press again, anything already paid for is free."
)
"""Text of a widget's button after Ctrl-C."""
_PERCENT = re.compile(r"(?<=\d) %")
_IMPORTED = re.compile(r'(?<= from )"\./(\w+\.js)"')


def text(value: str) -> str:
    """Return a text escaped for HTML; a number stays on one line with its percent sign."""
    return _PERCENT.sub("&nbsp;%", escape(printable(value)))


def one_line(value: str) -> str:
    """Return a text on one line, as HTML."""
    return text(" ".join(value.split()))


def framed(content: str) -> str:
    """Return content with its styles."""
    # pages that typeset formulas would read names with dollar signs as formulas
    classes = "dpnb mathjax_ignore tex2jax_ignore"
    return f'<div class="{classes}"><style>{_css()}</style>{content}</div>'


@cache
def _css() -> str:
    return (STATIC / "answer.css").read_text(encoding="utf-8")


@cache
def module(name: str) -> str:
    """Return a script together with its imports.

    In a notebook a script has no address, so relative imports do not work.
    """
    source = (STATIC / name).read_text(encoding="utf-8")
    return _IMPORTED.sub(lambda match: json.dumps(_address(match[1])), source)


@cache
def _address(name: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module(name).encode()).decode()


def script(view: str, state: dict[str, Any], token: str) -> str:
    """Return the script that makes the static HTML around it interactive.

    Base64 hides every value from the HTML parser. A front end may run the script beside the static
    HTML instead of inside it. If a page forbids the import, the table stays as it is.

    Parameters
    ----------
    view : str
        File name of the view.
    state : dict
        Initial state of the view, like the widget's traits.
    token : str
        Names the live widget that the static HTML accompanies; empty for none.
    """
    payload = json.dumps({**state, "token": token}, allow_nan=False)
    blob = base64.b64encode(payload.encode()).decode()
    return (
        "<script>(() => { const script = document.currentScript;"
        ' const root = script.closest(".dpnb") || script.parentNode.querySelector(".dpnb");'
        f' Promise.all([import("{_address(view)}"), import("{_address("record.js")}")])'
        f'.then(([view, record]) => record.upgrade(view.default, root, "{blob}")); }})()</script>'
    )


def stamped(stamp: Stamp, conditional: bool) -> str:
    """Return the stamps of a result, each in a box; '' if there are none."""
    return "".join(map(boxed, stamps(stamp, conditional)))


def boxed(value: str) -> str:
    """Return a text in bold in a box."""
    return (
        '<p class="dpnb-stamp"><strong style="border:2px solid;padding:2px 8px">'
        f"{text(value)}</strong></p>"
    )


def caption(value: str, *, part: bool = False) -> str:
    """Return the caption of a table: the title of a result, or of a part of one."""
    name = ' class="dpnb-head"' if part else ""
    return f'<caption{name} style="text-align:left;font-weight:bold">{text(value)}</caption>'


def title(value: str) -> str:
    """Return the title of a result that is not a single table."""
    return f'<p class="dpnb-title"><strong>{text(value)}</strong></p>'


def section(value: str) -> str:
    """Return the title of a part of a result."""
    return f'<p class="dpnb-head"><strong>{text(value)}</strong></p>'


def said(*sentences: str, name: str = "dpnb-said") -> str:
    """Return sentences as a paragraph, one on each line; '' if there are none."""
    lines = "<br>".join(text(sentence) for sentence in sentences if sentence)
    return f'<p class="{name}">{lines}</p>' if lines else ""


def strong(sentence: str) -> str:
    """Return the most important sentence, in bold."""
    return f'<p class="dpnb-said"><strong>{text(sentence)}</strong></p>'


def notes(*sentences: str) -> str:
    """Return sentences in small print: costs, guarantees, hints."""
    return said(*sentences, name="dpnb-notes")


def opened(summary: str, content: str, *, first: bool = False) -> str:
    """Return content in a collapsible section that needs no script; ``first`` starts it open."""
    state = ' open="open"' if first else ""
    return (
        f'<details{state}><summary data-lm-suppress-shortcuts="true">{text(summary)}</summary>'
        f"{content}</details>"
    )


def meter(share: float, striped: float = 0.0) -> str:
    """Return a share as a bar, followed by a striped bar for a second share."""
    stripes = f"repeating-linear-gradient(135deg,{GREY} 0 2px,transparent 2px 6px)"
    share = min(max(share, 0.0), 1.0)
    parts = [
        (share, "", GREY),
        (min(max(striped, 0.0), 1.0 - share), ' class="dpnb-striped"', stripes),
    ]
    bars = "".join(
        f'<div{name} style="display:inline-block;width:{100 * part:.2f}%;height:10px;'
        f'background:{ground}"></div>'
        for place, (part, name, ground) in enumerate(parts)
        if part or not place
    )
    return (
        f'<div class="dpnb-meter" style="max-width:420px;height:10px;border:1px solid {GREY};'
        f'line-height:0;overflow:hidden;white-space:nowrap">{bars}</div>'
    )


def head(value: str) -> str:
    """Return the head of a column; for an empty text a cell without a head."""
    if not value:
        return "<td></td>"
    return f'<th scope="col" style="text-align:left">{text(value)}</th>'


def row_head(value: str) -> str:
    """Return the head of a table line."""
    return f'<th scope="row" style="text-align:left;font-weight:normal">{text(value)}</th>'


def write_page(path: str | Path, html: str) -> None:
    """Write a result as a self-contained page.

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
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise RequestError(
            f"cannot write {given(str(path))}: {error.strerror}", "Name another file."
        ) from None
