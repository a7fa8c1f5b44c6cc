"""Spelling of messages for the place where they appear: Python's arguments, or options.

Messages are written with Python's arguments, ``rho=0.05``. In notebook cells and on the command
line, where users type options, they are shown with options, ``--rho 0.05``.
"""

from __future__ import annotations

import re

_VALUED = frozenset(
    {
        "rho", "epsilon", "delta", "key_delta", "error", "rows", "confidence", "between", "method",
        "chosen", "mode", "protect", "beta", "alpha", "u", "ranges", "steps", "most", "k", "length",
        "table", "tau", "form",
    }
)  # fmt: skip
"""Arguments whose options have the same name and take the value."""
_FLAGS = {
    "anyway=True": "--anyway",
    "guaranteed=True": "--guaranteed",
    "joint=True": "--joint",
    "planned=True": "--planned",
    "new_version=True": "--new-version",
    "new_anchor=True": "--new-anchor",
    "history=False": "--no-history",
    "looks=any": "--any-look",
    "looks=1": "no --any-look",
    "intervals=each": "--each",
    "intervals=simultaneous": "no --each",
    "connective=or": "--any-of",
    "prior=nonnegative": "--nonnegative",
}
_MAGICS = {
    "query": "%%dpquery",
    "infer": "%%dpinfer",
    "explain": "%%dpexplain",
    "decide": "%%dpdecide",
    "discover": "%dpdiscover",
}
_PARAMETER = re.compile(r"Pass params=\{'(\w+)': \.\.\.\}")
_ARGUMENT = r"\b([a-z_]+)=(\.\.\.|'[^']*'|\([^()]*\)|\{[^{}]*\}|(?:[^\s,;().]|\.(?=\w))*)"
_PYTHON = re.compile(
    rf"\b(?:budget=)?(?:dpnb\.)?Budget\((?P<amounts>[^()]*)\)"
    rf"|\bsession\.(?P<verb>{'|'.join(_MAGICS)})\b(?:\((?:sql|'(?P<column>\w+)')?\))?"
    rf"|(?P<call>[\w.]+\([^()]*\))"
    rf"|(?P<argument>{_ARGUMENT})"
)
_TWICE_NAME = re.compile(r"(?<![-\w])([a-z_]+) \(--\1\)")
_TWICE_OPTION = re.compile(r"(--[^()]+) \(\1\)")


def with_options(text: str) -> str:
    """Replace Python's arguments in a message by options.

    Examples
    --------
    >>> with_options("Give rho=0.05, or error=50.")
    'Give --rho 0.05, or --error 50.'
    >>> with_options("Open a zcdp session: Budget(epsilon=3, delta=1e-6).")
    'Open a zcdp session: --epsilon 3 --delta 1e-6.'
    >>> with_options("What past answers give is free: session.infer(sql).")
    'What past answers give is free: %%dpinfer.'
    """
    text = _PARAMETER.sub(r"Define \1 in the notebook", text)
    text = _TWICE_NAME.sub(r"--\1", _PYTHON.sub(_spelled, text))
    return _TWICE_OPTION.sub(r"\1", text)


def _spelled(match: re.Match[str]) -> str:
    if match["amounts"]:
        options = [_option(*pair) for pair in re.findall(_ARGUMENT, match["amounts"])]
        return match[0] if None in options or not options else " ".join(map(str, options))
    if match["verb"]:
        return _MAGICS[match["verb"]] + (f" {match['column']}" if match["column"] else "")
    if match["argument"]:
        name, _, value = match["argument"].partition("=")
        return _option(name, value) or match[0]
    return match[0]


def _option(name: str, value: str) -> str | None:
    """Return an argument as an option, or None if there is no such option."""
    if value.startswith("{"):
        value = value.strip("{}").replace("': ", "=").replace("'", "").replace(", ", ",")
    plain = value.strip("'()").replace(", ", " ")
    if name in _VALUED:
        return f"--{name.replace('_', '-')} {plain}".strip()
    return _FLAGS.get(f"{name}={plain}")
