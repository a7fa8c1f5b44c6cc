"""Everything that other people's code and cells may rely on, a line for each: ``python -m tests.kit.public`` writes it down.

Names of the package, methods of ``Session`` and ``Curator``, magics with their options, and the wire. A line that goes
breaks somebody's notebook: it needs a line in CHANGELOG.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dpnb
from dpnb.magics.cells import Dpnb
from dpnb.server.limits import Limits
from dpnb.server.openapi import describe

PAGE = Path(__file__).with_name("public.txt")


def lines() -> Iterator[str]:
    """Yield what is public."""
    yield from (f"dpnb.{name}" for name in sorted(dpnb.__all__))
    for kind in (dpnb.Session, dpnb.Curator):
        yield f"{kind.__name__}{_signature(kind)}"
        for name in sorted(name for name in dir(kind) if not name.startswith("_")):
            found = inspect.getattr_static(kind, name)
            end = "" if isinstance(found, property) else _signature(getattr(kind, name))
            yield f"{kind.__name__}.{name}{end}"
    for place, sign in (("line", "%"), ("cell", "%%")):
        for name, function in sorted(Dpnb.magics[place].items()):
            parser = getattr(getattr(Dpnb, str(function), None), "parser", None)
            yield f"{sign}{name} {_options(parser)}".rstrip()
    described = describe("", Limits())
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            schema = body.get("schema", {})
            needed = schema.get("required", [])
            entries = [one if one in needed else f"[{one}]" for one in schema.get("properties", {})]
            yield f"{method.upper()} {path} {' '.join(entries)}".rstrip()
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield f"{name}: {' '.join(schema.get('properties', {}))}".rstrip()


def _signature(function: Any) -> str:
    """Return the names and the defaults of parameters."""
    found = inspect.signature(function)
    bare = [
        one.replace(annotation=one.empty) for one in found.parameters.values() if one.name != "self"
    ]
    return str(found.replace(parameters=bare, return_annotation=found.empty))


def _options(parser: Any) -> str:
    actions = [] if parser is None else parser._actions
    named = [action.option_strings[-1] for action in actions if action.option_strings]
    placed = [action.dest for action in actions if not action.option_strings]
    return " ".join([*placed, *sorted(named)])


def page() -> str:
    """Return the lines as one text."""
    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
