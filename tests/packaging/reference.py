"""Write the reference of the public names, from their docstrings, as web pages.

    python -m tests.packaging.reference              into build/reference, which is never committed
    python -m tests.packaging.reference FOLDER

Needs ``pip install -e '.[test]'``. A name or a docstring that cannot be shown ends it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pdoc
from jinja2 import pass_context

import dpnb

ROOT = Path(__file__).parents[2]
PAGES = (
    "dpnb.errors",
    "dpnb.results",
    "dpnb.magics.cells",
    "dpnb.answers.price",
    "dpnb.explain.price",
    "dpnb.decide.price",
    "dpnb.server.auth",
    "dpnb.server.limits",
    "dpnb.datasets",
)
"""Pages beside that of ``dpnb``: errors, the magics, and what public methods take and return."""
_TEMPLATE = """
{%- extends "default/module.html.jinja2" -%}
{%- macro decorators(doc) -%}
{% for one in doc.decorators if one in ("@classmethod", "@staticmethod") %}
<div class="decorator decorator-{{ one[1:] }}">{{ one }}</div>
{% endfor %}
{%- endmacro -%}
"""


def markdown(docstring: str) -> str:
    """Return a docstring without the marks of reStructuredText, which the pages do not read."""
    usage, mark, rest = docstring.partition("\n\n  %")
    if mark and usage == "::":
        # the help of a magic: how it is typed, words, lists of options
        typed, _, rest = rest.partition("\n\n")
        words, *options = re.split(r"\n(?=positional arguments:\n|options:\n)", rest)
        blocks = [textwrap.indent(one.strip("\n"), "    ") for one in options]
        first = textwrap.indent(textwrap.dedent(f"  %{typed}"), "    ")
        docstring = "\n\n".join([first, words.strip("\n"), *blocks])
    docstring = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", docstring)
    return re.sub(r"(\w)::\n\n", r"\1:\n\n", docstring)


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    for name in dpnb.__all__:
        # most are loaded when they are first used, and are no member before
        setattr(dpnb, name, getattr(dpnb, name))
    before = pdoc.render.env.filters["to_markdown"]

    @pass_context
    def readable(context: Any, docstring: str) -> Any:
        return before(context, markdown(docstring))

    with tempfile.TemporaryDirectory() as own, warnings.catch_warnings():
        (Path(own) / "module.html.jinja2").write_text(_TEMPLATE, "utf-8")
        warnings.simplefilter("error")
        pdoc.render.configure(docformat="numpy", show_source=False, template_directory=Path(own))
        pdoc.render.env.filters["to_markdown"] = readable
        try:
            pdoc.pdoc("dpnb", r"!dpnb\..+", *PAGES, output_directory=folder)
        finally:
            pdoc.render.env.filters["to_markdown"] = before


def main() -> None:
    """Write the reference where the command line says."""
    parser = argparse.ArgumentParser(description="The reference of the public names of dpnb.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "reference")
    folder = parser.parse_args().folder
    write(folder)
    print(folder / "dpnb.html")


if __name__ == "__main__":
    main()
