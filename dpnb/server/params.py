"""Which bound parameters a statement names: nothing else of a notebook's variables is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAMED = re.compile(r":\s*([^\W\d]\w*)")


def named(statements: Sequence[object], params: Any) -> Any:
    """Return the parameters that stand in some statements as ``:name``.

    Inside of texts and comments, too: only the service reads SQL. What is no mapping is passed on, to
    be refused in the same words as in one process.
    """
    if not isinstance(params, Mapping):
        return params
    texts = [text for text in statements if isinstance(text, str)]
    found = dict.fromkeys(name for text in texts for name in _NAMED.findall(text))
    return {name: _scalar(params[name]) for name in found if name in params}


def _scalar(value: Any) -> Any:
    """Return a value; of one that no parameter may have, its type alone."""
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)):
        return {"$type": type(value).__name__}
    return value
