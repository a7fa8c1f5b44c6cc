"""The bound parameters that a statement names: no other variable of a notebook is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAMED = re.compile(r":\s*([^\W\d]\w*)")


def named(statements: Sequence[object], params: Any) -> Any:
    """Return the parameters that occur in statements as ``:name``.

    This includes names inside texts and comments, because only the service parses SQL. Anything but
    a mapping is passed on, to be refused with the same message as in one process.
    """
    if not isinstance(params, Mapping):
        return params
    texts = [text for text in statements if isinstance(text, str)]
    names = dict.fromkeys(name for text in texts for name in _NAMED.findall(text))
    return {name: _scalar(params[name]) for name in names if name in params}


def _scalar(value: Any) -> Any:
    """Return a value, or only its type if it is a list or mapping, which no parameter may be."""
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)):
        return {"$type": type(value).__name__}
    return value
