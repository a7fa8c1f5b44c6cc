"""Every refusal of dpnb, read from its source: ``python -m tests.kit.refusals`` writes docs/errors.md.

A refusal is a place that makes an error, or that hands a message to a function which makes one. Its message and
its hint are templates: what is known only when it happens is shown as *name*. Functions are read path by path, so
that a message meets the hint of its own branch.
"""

from __future__ import annotations

import ast
import html
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tests.kit import prose, source

PAGE = prose.ROOT / "docs" / "errors.md"
ROOMS = {
    "Statements": ("sql/",),
    "Options, cells and answers": ("magics/", "answers/", "estimation/estimates.py", "estimation/formula.py",
                                   "estimation/intervals.py", "estimation/quantile.py", "estimation/variance.py",
                                   "formats.py", "session.py", "curator.py", "display/"),
    "Schema and tables": ("schema/", "codes.py", "datasets/", "engines/draft.py"),
    "Data": ("engines/",),
    "Budget": ("privacy/", "ledger/configuration.py", "ledger/accountant.py", "ledger/mechanism.py"),
    "Ledger": ("ledger/ledger.py", "ledger/sqlite.py", "ledger/postgres.py", "ledger/locks.py"),
    "Decisions": ("decide/", "privacy/response.py", "studies/"),
    "Explanations": ("explain/",),
    "Inference": ("answers/domain.py", "answers/evidence.py", "answers/fresh.py", "answers/infer.py",
                  "answers/inference.py", "answers/inferred.py", "answers/marginals.py", "answers/estimating.py",
                  "answers/merging.py", "answers/options.py", "releases/held.py", "answers/price.py",
                  "answers/reuse.py", "estimation/", "owner/claims.py", "studies/bayes.py"),
    "Finding undeclared values": ("discover/",),
    "Risk": ("risk/", "studies/rdr.py"),
    "Several analysts": ("ledger/", "views/", "releases/", "owner/"),
    "Service, lessons and command line": ("server/", "lessons.py", "cli.py"),
}  # fmt: skip
"""In the order in which a user meets them: what they are about, and where they are made. The longest prefix counts."""
_HEAD = """# Messages and what to do

Every message of dpnb says what is wrong and then what to do. A refused request costs nothing, unless the message
says otherwise.

This page lists all messages. *Words like this* stand for something that dpnb fills in: a name, a number, or a part of
your statement. The hints on this page are written for Python, such as `rho=0.05`. In a cell or on the command line,
you see the option instead, such as `--rho 0.05`. Every error is a subclass of `dpnb.DpnbError`.

<!-- Written by python -m tests.kit.refusals from the source. Do not edit. -->
"""
_TEXTS = ("what", "hint", "again")
"""Parameters that hand a message on."""
RETURNED = {"obstacle": "SqlError"}
"""Functions that return a message and a hint, and the error that these become."""
_NAMES = {
    "self.slip.hint": "what to change at that place",
    "level.sentence": "the reason",
    "found.reason": "the reason",
    "_either": "what else is possible",
    "_meant": "Did you mean an option?",
    "problem": "what is wrong",
    "unbinned_sentence": "what to declare",
    "_more": "how to choose other attributes",
    "type.__name__": "type",
    "given": "value",
    "left_over": "amount", "price": "amount", "whose": "", "loss_text": "amount", "amount_text": "amount",
    "_asked": "amount", "e": "error",
}  # fmt: skip
_MANY = 24
"""Alternatives of one text, and paths through one function, that are followed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One message that a place can give. ``what`` and ``hint`` hold slots, ``\\x02name\\x03``."""

    kind: str
    what: str
    hint: str
    file: str
    function: str
    first: int
    last: int

    @property
    def room(self) -> str:
        """What it is about."""
        fits = [
            (prefix, room)
            for room, prefixes in ROOMS.items()
            for prefix in prefixes
            if self.file.startswith(prefix)
        ]
        return max(fits, key=lambda one: len(one[0]), default=("", "Options, cells and answers"))[1]

    def matches(self, what: str) -> bool:
        """Return whether a message may be this one."""
        parts = [re.escape(part) for part in re.split("\x02.*?\x03", self.what)]
        return re.fullmatch(".*".join(parts).rstrip(".\\"), what.rstrip("."), re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that makes an error from texts it is given."""

    file: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, str]
    made: tuple[tuple[str, str, str], ...]
    first: int
    last: int


@dataclass
class Module:
    """One file, with what its names stand for."""

    file: str
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    named: list[tuple[str, str, ast.FunctionDef, set[str]]] = field(default_factory=list)
    """Each function with its qualified name, its class, and what it calls."""


def slot(name: str) -> str:
    return f"\x02{name}\x03"


def package() -> Iterator[Module]:
    """Yield the modules of dpnb."""
    for file, tree in source.modules().items():
        module = Module(file, tree)
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                module.constants[node.targets[0].id] = node.value
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                module.constants[node.target.id] = node.value
        for name, outer, function in _functions(module.tree, ""):
            called = {_called(one) for one in source.calls(function)}
            module.named.append((name, outer, function, called))
            module.functions.setdefault(function.name, function)
        for node in source.nodes_of(file):
            if isinstance(node, ast.ImportFrom) and node.module:
                origin = node.module.removeprefix("dpnb.").replace(".", "/") + ".py"
                module.imports |= {one.asname or one.name: origin for one in node.names}
        yield module


class Reader:
    """Reads all modules, as often as helpers of helpers are found."""

    def __init__(self) -> None:
        self.modules = list(package())
        self.named = {module.file: module for module in self.modules}
        self.kinds = {
            node.name: node.name
            for module in self.modules
            if module.file == "errors.py"
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        }
        self.helpers: dict[str, list[Helper]] = {}
        self.found: list[Refusal] = []
        known = -1
        while known != sum(map(len, self.helpers.values())):
            known = sum(map(len, self.helpers.values()))
            self.found = []
            helpers: dict[str, list[Helper]] = {}
            for module in self.modules:
                if module.file != "errors.py":
                    self.read(module, helpers)
            self.helpers = helpers

    def read(self, module: Module, helpers: dict[str, list[Helper]]) -> None:
        makers = {*self.kinds, *self.helpers, "", *RETURNED}
        for name, outer, function, called in module.named:
            if function.name not in RETURNED and not called & makers:
                continue
            path = Paths(self, module, function)
            made = path.follow()
            handed = []
            for one in made:
                if any(slot(f"@{text}") in one.what + one.hint for text in _TEXTS):
                    handed.append((one.kind, one.what, one.hint))
                else:
                    self.found.append(
                        replace(one, function=name, what=_plain(one.what), hint=_plain(one.hint))
                    )
            if handed:
                called = outer if function.name == "__init__" else function.name
                parameters, defaults = _parameters(function)
                helpers.setdefault(called, []).append(
                    Helper(module.file, parameters, defaults, tuple(dict.fromkeys(handed)),
                           function.lineno, function.end_lineno or 0)
                )  # fmt: skip

    def helper(self, module: Module, call: ast.Call) -> Helper | None:
        """Return what a call hands its texts to."""
        name = _called(call)
        fits = [
            one
            for one in self.helpers.get(name, ())
            if len(call.args) <= len(one.parameters)
            and len(call.args) + len(call.keywords) + len(one.defaults) >= len(one.parameters)
        ]
        own = [one for one in fits if one.file == module.file]
        if own or name in module.functions:
            return own[0] if own else None
        return fits[0] if fits else None


def _functions(
    tree: ast.AST, inside: str, outer: str = ""
) -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Yield functions with their qualified names and their classes."""
    bodies = (getattr(tree, name, ()) for name in ("body", "orelse", "finalbody", "handlers"))
    for node in itertools.chain.from_iterable(bodies):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{inside}{node.name}", outer, node  # type: ignore[misc]
            yield from _functions(node, f"{inside}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{inside}{node.name}.", node.name)
        else:
            yield from _functions(node, inside, outer)


def _parameters(function: ast.FunctionDef) -> tuple[tuple[str, ...], dict[str, str]]:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    filled = dict(zip(reversed(names), reversed(given.defaults), strict=False))
    filled |= {
        one.arg: value
        for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if value
    }
    names = [*names, *(one.arg for one in given.kwonlyargs)]
    defaults = {
        name: str(value.value or "") if isinstance(value, ast.Constant) else slot(name)
        for name, value in filled.items()
    }
    return tuple(name for name in names if name not in ("self", "cls")), defaults


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _plain(text: str) -> str:
    """Return a text whose parameters are slots like others."""
    return text.replace("\x02@", "\x02")


def _filled(text: str, texts: Mapping[str, str]) -> str:
    """Return a helper's text with what a call hands it."""
    return re.sub("\x02@(\\w+)\x03", lambda one: texts.get(one[1], slot(one[1])), text)


Texts = dict[str, str]
"""What the names of a function hold on one path: texts with slots."""


class Paths:
    """Follows a function path by path."""

    def __init__(
        self, reader: Reader, module: Module, function: ast.FunctionDef, deep: int = 0
    ) -> None:
        self.reader, self.module, self.function, self.deep = reader, module, function, deep
        self.made: dict[Refusal, None] = {}

    def follow(self) -> list[Refusal]:
        names, _ = _parameters(self.function)
        self.block(self.function.body, [{name: slot(f"@{name}") for name in names}])
        return list(self.made)

    def block(self, body: Iterable[ast.stmt], paths: list[Texts]) -> list[Texts]:
        """Return the paths that go on after some statements."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if not paths:
                break
            paths = self.step(node, paths)
            paths = [dict(one) for one in dict.fromkeys(tuple(sorted(p.items())) for p in paths)][
                :_MANY
            ]
        return paths

    def step(self, node: ast.stmt, paths: list[Texts]) -> list[Texts]:
        inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        if isinstance(node, ast.Try):
            inner += [handler.body for handler in node.handlers]
        if isinstance(node, ast.Match):
            inner += [case.body for case in node.cases]
        if any(inner):
            for part in (getattr(node, name, None) for name in ("test", "iter", "subject")):
                self.calls(part, paths)
            for item in getattr(node, "items", ()):
                self.calls(item.context_expr, paths)
            if isinstance(node, ast.If) and inner[1]:
                return self.block(inner[0], paths) + self.block(inner[1], paths)
            after = [one for body in inner if body for one in self.block(body, paths)]
            with_ = isinstance(node, ast.With | ast.AsyncWith)
            return after + ([] if with_ and after else paths)
        self.calls(node, paths)
        if isinstance(node, ast.Raise | ast.Return | ast.Continue | ast.Break):
            if (
                isinstance(node, ast.Return)
                and self.function.name in RETURNED
                and isinstance(node.value, ast.Tuple)
            ):
                for path in paths:
                    for pair in self.tuples(node.value, path):
                        self.make(RETURNED[self.function.name], pair[0], pair[1], node)
            return []
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return [
                after
                for path in paths
                for after in self.assigned(node.targets[0], node.value, path)
            ]
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            return [
                {**path, name: path[name] + more} if name in path else path
                for path in paths
                for more in self.texts(node.value, path)
            ]
        return paths

    def assigned(self, target: ast.expr, value: ast.expr, path: Texts) -> Iterator[Texts]:
        if isinstance(target, ast.Name):
            for text in self.texts(value, path):
                yield _with(path, target.id, text)
        elif isinstance(target, ast.Tuple):
            names = [one.id if isinstance(one, ast.Name) else "" for one in target.elts]
            held = [one for one in self.tuples(value, path) if len(one) == len(names)]
            for texts in held or [tuple(map(slot, names))]:
                after = path
                for name, text in zip(names, texts, strict=True):
                    after = _with(after, name, text)
                yield after
        else:
            yield path

    def calls(self, node: ast.AST | None, paths: list[Texts]) -> None:
        """Note the errors that an expression makes."""
        if node is None:
            return
        for call in source.calls(node):
            for path in paths:
                self.call(call, path)

    def call(self, call: ast.Call, path: Texts) -> None:
        name = _called(call)
        again = isinstance(call.func, ast.Call) and _called(call.func) == "type"
        if name in self.reader.kinds or again:
            positions: tuple[str, ...] = ("what", "hint", "where")
            for texts in self.arguments(call, positions, {"hint": "", "where": ""}, path):
                self.make(name or "RequestError", texts["what"], texts["hint"], call)
            return
        helper = self.reader.helper(self.module, call)
        if helper is None:
            return
        for texts in self.arguments(call, helper.parameters, helper.defaults, path):
            for kind, what, hint in helper.made:
                filled = [_filled(text, texts) for text in (what, hint)]
                self.make(kind, filled[0], filled[1], call)

    def arguments(
        self, call: ast.Call, names: tuple[str, ...], defaults: Mapping[str, str], path: Texts
    ) -> Iterator[Texts]:
        """Yield the texts of a call's arguments; those that hang together change together."""
        given: list[tuple[tuple[str, ...], list[tuple[str, ...]]]] = []
        place = 0
        for truth in self.truths(call):
            given, place = [], 0
            for one in call.args:
                if isinstance(one, ast.Starred):
                    given.append((names[place : place + 2], self.tuples(one.value, path, truth)))
                    place += 2
                elif place < len(names):
                    given.append(
                        (names[place : place + 1], [(t,) for t in self.texts(one, path, truth)])
                    )
                    place += 1
            for keyword in call.keywords:
                if keyword.arg in names:
                    given.append(
                        ((keyword.arg,), [(t,) for t in self.texts(keyword.value, path, truth)])
                    )
            for chosen in itertools.islice(
                itertools.product(*(texts for _, texts in given)), _MANY
            ):
                found = dict(defaults)
                for (wanted, _), texts in zip(given, chosen, strict=True):
                    found |= dict(zip(wanted, texts, strict=False))
                if all(name in found for name in names[:1]):
                    yield {**{name: slot(name) for name in names}, **found}

    @staticmethod
    def truths(call: ast.Call) -> Iterator[dict[str, bool]]:
        tests = {
            ast.dump(one.test): None for one in source.nodes(call) if isinstance(one, ast.IfExp)
        }
        for values in itertools.product((True, False), repeat=min(len(tests), 4)):
            yield dict(zip(tests, values, strict=False))

    def make(self, kind: str, what: str, hint: str, node: ast.AST) -> None:
        # what another error said is listed where that is made
        if (
            re.fullmatch("\x02(message|what|error|texts)\x03", what)
            or not re.sub("\x02[^@]*?\x03", "", what).strip()
        ):
            return
        first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        self.made[Refusal(kind, what, hint, self.module.file, "", first, last)] = None

    def texts(self, node: ast.expr, path: Texts, truth: Mapping[str, bool] = {}) -> list[str]:
        """Return the texts that an expression may be."""
        found = list(dict.fromkeys(self._texts(node, path, truth)))
        return found if len(found) <= _MANY else [slot(self.name(node))]

    def _texts(self, node: ast.expr, path: Texts, truth: Mapping[str, bool]) -> Iterable[str]:
        match node:
            case ast.Constant(value=value):
                return ["" if value is None else str(value)]
            case ast.JoinedStr(values=parts):
                return self.joined([self.part(one, path, truth) for one in parts])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = truth.get(ast.dump(test))
                both = [body, orelse] if chosen is None else [body if chosen else orelse]
                return [text for one in both for text in self.texts(one, path, truth)]
            case ast.BoolOp(values=values):
                return [text for one in values for text in self.texts(one, path, truth) if text]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = self.joined([self.texts(left, path, truth), self.texts(right, path, truth)])
                return found if any(" " in text for text in found) else [slot(self.name(node))]
            case ast.Name(id=name):
                return self.named(name, path)
            case ast.Subscript(value=ast.Name(id=name)) if isinstance(
                self.module.constants.get(name), ast.Dict
            ):
                held = self.module.constants[name]
                return [text for one in held.values for text in self.texts(one, {}, truth)]  # type: ignore[attr-defined]
            case ast.Call():
                return self.returned(node, path, truth)
            case _:
                return [slot(self.name(node))]

    def joined(self, parts: list[list[str]]) -> list[str]:
        return ["".join(texts) for texts in itertools.islice(itertools.product(*parts), _MANY)]

    def part(self, node: ast.expr, path: Texts, truth: Mapping[str, bool]) -> list[str]:
        if not isinstance(node, ast.FormattedValue):
            return self.texts(node, path, truth)
        value, spec = node.value, node.format_spec
        number = self.number(value)
        if number is not None:
            pattern = (
                spec.values[0].value if isinstance(spec, ast.JoinedStr) and spec.values else ""
            )  # type: ignore[attr-defined]
            return [format(number, pattern)]
        if node.conversion == -1:
            return self.texts(value, path, truth)
        return [slot(self.name(value))]

    def constant(self, name: str) -> ast.expr | None:
        """Return what a module's name stands for, here or where it is imported from."""
        for file in (self.module.file, self.module.imports.get(name, "")):
            module = self.reader.named.get(file)
            if module is not None and name in module.constants:
                return module.constants[name]
        return None

    def number(self, node: ast.expr) -> float | None:
        held = self.constant(node.id) if isinstance(node, ast.Name) else None
        parts = [] if held is None else source.nodes(held)
        plain = all(isinstance(one, ast.Constant | ast.BinOp | ast.operator) for one in parts)
        value = eval(ast.unparse(held)) if held is not None and plain else None  # noqa: S307 - numbers
        return value if isinstance(value, int | float) else None

    def named(self, name: str, path: Texts) -> list[str]:
        if name in path:
            return [path[name]]
        held = self.constant(name)
        if held is not None and not isinstance(held, ast.Dict):
            return self.texts(held, {})
        return [slot(self.name(ast.Name(name)))]

    def returned(self, call: ast.Call, path: Texts, truth: Mapping[str, bool]) -> Iterable[str]:
        name = _called(call)
        if name == "nearest":
            return ["Did you mean \x02name\x03?"]
        if name == "given":
            return [slot(self.name(call.args[0]))]
        if isinstance(call.func, ast.Attribute):
            if name in ("strip", "rstrip", "replace", "lower"):
                return self.texts(call.func.value, path, truth)
            held = call.func.value
            if name == "get" and isinstance(held, ast.Name) and held.id in self.module.constants:
                every = self.module.constants[held.id]
                values = [*getattr(every, "values", ()), *call.args[1:]]
                return [text for one in values for text in self.texts(one, path, truth)]
            if name == "join" and call.args and isinstance(call.args[0], ast.Tuple):
                first, last = (self.texts(one, path)[0] for one in call.args[0].elts)
                return [f"{first}{slot('one of them')}{last}"]
        function = self.module.functions.get(name)
        if function is None or name in _NAMES or not _gives_text(function) or self.deep:
            return [slot(self.name(call))]
        own = Paths(self.reader, self.module, function, 1)
        return [text for node in _returns(function) for text in own.texts(node, {})]

    def tuples(
        self, node: ast.expr, path: Texts, truth: Mapping[str, bool] = {}
    ) -> list[tuple[str, ...]]:
        """Return the tuples of texts that an expression may be."""
        match node:
            case ast.Tuple(elts=elements):
                return list(itertools.product(*(self.texts(one, path, truth) for one in elements)))
            case ast.IfExp(body=body, orelse=orelse):
                return [*self.tuples(body, path), *self.tuples(orelse, path)]
            case ast.Name(id=name) if isinstance(self.module.constants.get(name), ast.Tuple):
                return self.tuples(self.module.constants[name], {})
            case ast.Name(id=name) if name in path:
                return []
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=args):
                held = getattr(self.module.constants.get(name), "values", ())
                return [pair for one in (*held, *args[1:]) for pair in self.tuples(one, path)]
            case ast.Call() if _called(node) in self.module.functions and not self.deep:
                function = self.module.functions[_called(node)]
                names, _ = _parameters(function)
                own = Paths(self.reader, self.module, function, 1)
                given = {}
                pairs: list[tuple[str, ...]] = []
                for name, one in zip(names, node.args, strict=False):
                    if isinstance(one, ast.Name) and isinstance(
                        self.module.constants.get(one.id), ast.Tuple
                    ):
                        pairs += self.tuples(one, {})
                    given[name] = self.texts(one, path)[0]
                return [
                    pair for one in _returns(function) for pair in own.tuples(one, given)
                ] + pairs
            case _:
                return [(slot(self.name(node)), "")] if isinstance(node, ast.Call) else []

    def name(self, node: ast.expr) -> str:
        """Return how a reader may call what an expression stands for."""
        written = ast.unparse(node)
        if f"{self.function.name}.{written}" in _NAMES or written in _NAMES:
            return _NAMES.get(f"{self.function.name}.{written}", _NAMES.get(written, ""))
        match node:
            case ast.Call(func=ast.Name(id="len")):
                return "number"
            case ast.Call(func=ast.Attribute(attr="join"), args=[inner, *_]):
                return self.name(inner)
            case ast.Call(
                func=ast.Attribute(value=inner, attr="strip" | "rstrip" | "upper" | "replace")
            ):
                return self.name(inner)
            case ast.Call() if _called(node) in _NAMES:
                return _NAMES[_called(node)]
            case ast.Call(args=[inner, *_]):
                return self.name(inner)
            case ast.Call(func=ast.Attribute(value=inner)):
                return self.name(inner)
            case ast.Attribute(attr="__name__"):
                return "type"
            case ast.Attribute(attr=attribute):
                return {"what": "message", "shown": "name"}.get(
                    attribute, attribute.strip("_").replace("_", " ")
                )
            case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.UnaryOp(operand=inner):
                return self.name(inner)
            case ast.BinOp(left=left):
                return self.name(left)
            case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
                return self.name(inner)
            case ast.JoinedStr(values=parts):
                return next(
                    (self.name(p.value) for p in parts if isinstance(p, ast.FormattedValue)), "text"
                )
            case ast.IfExp(body=inner):
                return self.name(inner)
            case ast.Name(id=name):
                return name.strip("_").replace("_", " ").lower() if name != "e" else "error"
            case _:
                return "value"


def _with(path: Texts, name: str, text: str) -> Texts:
    """Return a path on which a name holds a text; for what is no sentence the name stands for itself."""
    words = re.sub("\x02.*?\x03", "", text)
    kept = {other: held for other, held in path.items() if other != name}
    return {**kept, name: text} if " " in words.strip() or not text else kept


def _gives_text(function: ast.FunctionDef) -> bool:
    return isinstance(function.returns, ast.Name) and function.returns.id == "str"


def _returns(function: ast.FunctionDef) -> list[ast.expr]:
    return [
        one.value
        for one in source.nodes(function)
        if isinstance(one, ast.Return) and one.value is not None
    ]


def page(found: Iterable[Refusal]) -> str:
    """Return the page that lists refusals by room and class."""
    lines = [_HEAD]
    listed = {(one.room, one.kind, _shown(one.what, stop=True), _shown(one.hint)) for one in found}
    for room in ROOMS:
        kinds = sorted({kind for where, kind, *_ in listed if where == room})
        if kinds:
            lines.append(f"## {room}\n")
        for kind in kinds:
            lines += [f"### {kind}\n", "| message | what to do |", "|---|---|"]
            rows = sorted(one[2:] for one in listed if one[:2] == (room, kind))
            for what, hints in itertools.groupby(rows, key=lambda one: one[0]):
                said = [hint for _, hint in hints if hint and hint not in ("*hint*", "*again*")]
                lines.append(f"| {what} | {'<br>'.join(said)} |")
            lines.append("")
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _shown(text: str, *, stop: bool = False) -> str:
    """Return a template as Markdown in a table."""
    parts = re.split("\x02(.*?)\x03", " ".join(text.split()))
    for place, part in enumerate(parts):
        escaped = re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(part, quote=False))
        parts[place] = (
            escaped if place % 2 == 0 else f"*{escaped.strip()}*" if escaped.strip() else ""
        )
    whole = "".join(parts).strip()
    return whole.rstrip(".") if stop else whole


if __name__ == "__main__":
    PAGE.write_text(page(Reader().found), "utf-8")
