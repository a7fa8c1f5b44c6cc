"""Where a magic is called: the variables in sight there, and whether its value is shown.

IPython turns the lines of a cell into calls such as ``run_line_magic('dpquery', '--rho :level ...')``.
Their texts name variables that Python does not see, so a function would not keep those of the
functions around it.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from dpnb.errors import RequestError
from dpnb.magics.lines import read_options, split_binding, split_statement

_RUNNERS = ("run_line_magic", "run_cell_magic")
_SHOW_THEMSELVES = ("dpopen", "dprehearse", "dprisk")
"""Magics with a value that only an assignment takes."""
_FUNCTIONS = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
)  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that a magic may name.

    Attributes
    ----------
    own : mapping of str to value
        Those of the function that the magic is in, and of the functions around it.
    names : mapping of str to value
        All of them; a function's variable hides one of the notebook.
    local : frozenset of str
        Names that an assignment in the notebook does not reach: variables of the function.
    """

    own: Mapping[str, Any]
    names: Mapping[str, Any]
    local: frozenset[str]

    def check_bindable(self, name: str) -> None:
        """Refuse to keep a result in a variable of the notebook that the function cannot see.

        Raises
        ------
        RequestError
        """
        if name in self.local:
            raise RequestError(
                f"{name} is a variable of this function, which a magic cannot set",
                f"Assign the value: {name} = %dpquery ..., without -o.",
            )


def scope_of(shell: Any) -> Scope:
    """Return the variables in sight where the running magic was called."""
    frame = _frame_after(*_RUNNERS)
    notebook = shell.user_ns
    if frame is None or frame.f_locals is notebook:
        return Scope({}, dict(notebook), frozenset())
    module = {} if frame.f_globals is notebook else frame.f_globals
    own = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    code = frame.f_code
    local = frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    return Scope(own, {**notebook, **module, **own}, local)


def called_by(function: str) -> bool:
    """Return whether a function of this name is running."""
    return _frame_after(function) is not None


def _frame_after(*functions: str) -> FrameType | None:
    """Return the frame that called the innermost running function with one of these names."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name not in functions:
        frame = frame.f_back
    return None if frame is None else frame.f_back


class Calls(ast.NodeTransformer):
    """Prepares the magics' calls in a cell, for ``InteractiveShell.ast_transformers``.

    In a function, a call becomes ``(call, lambda: (names,))[0]``: so the function keeps the variables
    around it that the text names. A value that is not to be shown becomes ``(call, None)[1]``.
    """

    def __init__(self, magics: Any) -> None:
        self.dpnb = magics
        self._depth = 0

    def visit(self, node: ast.AST) -> ast.AST:
        """Return a node with prepared calls."""
        inside = isinstance(node, _FUNCTIONS)
        hidden = isinstance(node, ast.Expr) and self._is_hidden(node.value)
        self._depth += inside
        self.generic_visit(node)
        self._depth -= inside
        if isinstance(node, ast.Expr) and hidden:
            node.value = _picked(node.value, ast.Constant(None), 1)
        if isinstance(node, ast.Call) and self._depth and self._name(node):
            return self._keeping(node)
        return node

    def _keeping(self, node: ast.Call) -> ast.AST:
        """Return a magic's call that keeps the variables which its text names."""
        texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
        words = {word for text in texts if isinstance(text, str) for word in _WORD.findall(text)}
        kept = ", ".join(sorted(word for word in words if not keyword.iskeyword(word)))
        return _picked(node, ast.parse(f"lambda: [{kept}]", mode="eval").body, 0)

    def _name(self, node: ast.AST) -> str:
        """Return the name of the magic of dpnb that a node calls; '' for other nodes."""
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name("get_ipython")), attr=runner),
                args=[ast.Constant(str(name)), _, *_],
            ) if runner in _RUNNERS:
                kind = "line" if runner == "run_line_magic" else "cell"
                return name if name in self.dpnb.magics[kind] else ""
        return ""

    def _is_hidden(self, node: ast.AST) -> bool:
        name = self._name(node)
        if not name or name in _SHOW_THEMSELVES:
            return bool(name)
        match node:
            case ast.Call(args=[_, ast.Constant(str(line)), *body]):
                _, line = split_binding(line)
                line, _ = split_statement(line, "" if body else None)
                try:
                    options = read_options(getattr(self.dpnb, name), line)
                except RequestError:
                    # the magic itself will say so
                    return False
                return bool(getattr(options, "quiet", False))
        return False


def _picked(first: ast.expr, second: ast.expr, place: int) -> ast.expr:
    pair = ast.Tuple([first, second], ast.Load())
    chosen = ast.Subscript(pair, ast.Constant(place), ast.Load())
    return ast.fix_missing_locations(ast.copy_location(chosen, first))
