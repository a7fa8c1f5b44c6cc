"""Names in backticks or square brackets, as other systems write them: in double quotes here.

They are read from the text before it is parsed. Each sign takes the place of one, so positions stay.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'[^']*'|\"[^\"]*\""
    r"|(?P<tick>`[^`\"\n]+`)"
    r"|(?P<before>(?:^|[(,.=<>+*/-]|\b(?:SELECT|DISTINCT|ALL|FROM|JOIN|BY|AS|WHERE|AND|OR|NOT|ON|WHEN|THEN|ELSE|HAVING|TOP\s+\d+))\s*)"
    r"(?P<name>\[[^\W\d][^\[\]\"\n,:()']*\])",
    re.DOTALL | re.IGNORECASE,
)
"""Quoted texts and comments, and the names outside of them."""


def in_double_quotes(text: str) -> str:
    r"""Return a text with double quotes around names in backticks or square brackets.

    A list that can only be one, such as ``[0.25, 0.5]`` or ``x[1]``, stays.

    Examples
    --------
    >>> in_double_quotes("SELECT [age], `how many` FROM [t] WHERE city = '[x]'")
    'SELECT "age", "how many" FROM "t" WHERE city = \'[x]\''
    """

    def mended(match: re.Match[str]) -> str:
        name = match["tick"] or match["name"]
        return match[0] if name is None else f'{match["before"] or ""}"{name[1:-1]}"'

    if "`" not in text and "[" not in text:
        return text
    return _HIDDEN.sub(mended, text)
