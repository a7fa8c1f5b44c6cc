"""The grammatical features of random statements, and few statements in which as many pairs of them meet.

Most defects need two things to come together: an operator and a kind of column, a filter and a sum. A
statement costs two hundred times as much to ask as to write, so :func:`search` looks at many and keeps
those in which pairs meet that do not meet in the others. Those of the tests' seed are stored; when the
random statements change, write them anew:

    python -m tests.fuzz.features

A pair is two features of one statement, or a bond: two things that stand directly at one another, such
as an operator and its constant, or what was changed in a broken statement and the clause around it.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from tests.fuzz.reference import OPERATIONS
from tests.fuzz.statements import BLOCK, WORLDS, Node, Ref, Statement, statement, world_of

Pair: TypeAlias = tuple[str, ...]

RANDOM = 20_000
"""The chosen statements have as many pairs as so many random ones."""
CANDIDATES = 10 * RANDOM
"""They are chosen from so many."""
SEED = 1
"""The seed of the tests."""
CHOSEN = Path(__file__).with_name("chosen.json")
KINDS = ("valid", "having", "refused", "mutated", "excessive", "garbage")
_FORMULAS = {"+", "-", "*", "/", "neg", "EXP", "LN", "SQRT"}


@dataclass(slots=True)
class Features:
    """What a valid statement is made of."""

    found: set[str] = field(default_factory=set)
    bonds: set[Pair] = field(default_factory=set)
    steady: set[Pair] = field(default_factory=set)
    """Functions of what is the same in every row."""

    @classmethod
    def of(cls, asked: Statement) -> Features:
        features = cls()
        features._frame(asked)
        if asked.where is not None:
            features._condition(asked.where, "WHERE", "WHERE")
        for output in asked.outputs:
            features._formula(output.formula, "SELECT")
        return features

    def _frame(self, asked: Statement) -> None:
        """Note everything but conditions and what is aggregated."""
        assert asked.source is not None
        text, found = asked.text, self.found
        before = re.search(r"(\s+)from\s+", text, re.IGNORECASE)
        assert before is not None
        written = [one for one in asked.source.texts if text.startswith(one, before.end())]
        source = f"FROM {max(written, key=len)}"
        found.add(source)
        # how it is written matters to the parser alone
        self.bonds |= {*combinations((source, _case(text[:6]), before[1], _end(text)), 2)}
        found.add(f"{len(asked.keys)} group columns")
        for ref, alias in asked.keys:
            found.add(f"group column {column(ref)}")
            if alias != ref.name:
                found.add("group column renamed")
        if _items(text[7 : before.start()]) < len(asked.keys) + len(asked.outputs):
            found.add("group column not selected")
        if len(asked.outputs) > 1:
            found.add("several outputs")
        if asked.outputs[0].alias is None:
            found.add("output without a name")
        keys = {alias for _, alias in asked.keys}
        for alias, descending in asked.order:
            what = "group column" if alias in keys else "output"
            found.add(f"ORDER BY {what}{' DESC' if descending else ''}")
        if asked.limit is not None:
            found.add("LIMIT")
            self.bonds.add(("LIMIT", str(asked.limit)))

    def _condition(self, node: Node, clause: str, within: str) -> None:
        if node.op in ("and", "or", "not"):
            self.found.add(f"{clause} {node.op}")
            self.bonds.add((within, node.op))
            for part in node.parts:
                self._condition(part, clause, node.op)
            return
        ref = node.parts[0]
        operator, constants = _atom(node)
        self.found |= {f"{clause} {operator}", f"condition on {column(ref)}"}
        self.bonds |= {(within, operator), (column(ref), operator)}
        turned = node.op == "compare" and node.text.endswith(ref.texts)
        if turned:
            self.bonds.add((operator, "turned"))
        at = node.text.endswith if turned else node.text.startswith
        self._name(ref, max((one for one in ref.texts if at(one)), key=len, default=""))
        for constant in constants:
            self.bonds |= {(column(ref), str(constant)), (operator, str(constant))}

    def _name(self, ref: Ref, written: str) -> None:
        self.bonds.add((column(ref), "written", written))

    def _formula(self, node: Node, within: str) -> None:
        if node.op == "number":
            self.found.add("formula with a number")
            self.bonds.add((within, node.parts[0]))
        elif node.op in _FORMULAS:
            self.found.add(f"formula {node.op}")
            self.bonds.add((within, f"formula {node.op}"))
            for place, part in enumerate(node.parts):
                self._formula(part, f"formula {node.op} {place}")
        else:
            self._aggregate(node, within)

    def _aggregate(self, node: Node, within: str) -> None:
        argument, condition = node.parts[:2]
        function = node.op
        if function in ("QUANTILE", "VARIANCE"):
            # both go by many names
            function = re.match(r"\w+", node.text)[0].upper()  # type: ignore[index]
        if function == "COUNT":
            function = "COUNT(*)" if argument is None else "COUNT of a value"
        self.found.add(function)
        self.bonds.add((within, function))
        if condition is not None:
            self.found.add("FILTER")
            self.bonds.add((function, "FILTER"))
            self._condition(condition, "inside", "FILTER")
        if isinstance(argument, Ref):
            share = node.parts[2]
            self.bonds |= {
                (function, share),
                (function, column(argument)),
                (column(argument), share),
            }
        elif argument is not None:
            self._expression(argument, function, function)
            if len(outcomes(argument)) < 2:
                self.steady.add((function, "the same in every row"))

    def _expression(self, node: Node, function: str, within: str) -> None:
        """Note what is aggregated by a function."""
        self.bonds |= {(within, node.op), (function, node.op)}
        if node.op == "column":
            (ref,) = node.parts
            self.found.add(f"value of {column(ref)}")
            self.bonds |= {(function, column(ref)), (within, column(ref))}
            self._name(ref, node.text)
            return
        self.found.add(f"value {node.op}")
        if node.op == "number":
            self.bonds.add((within, node.parts[0]))
        elif node.op == "case":
            branches, default = node.parts
            self.found.add(f"CASE {'with' if default is not None else 'without'} ELSE")
            for test, value in branches:
                self._condition(test, "inside", "WHEN")
                self._expression(value, function, "THEN")
            if default is not None:
                self._expression(default, function, "ELSE")
        else:
            for place, part in enumerate(node.parts):
                self._expression(part, function, f"{node.op} {place}")


def _case(word: str) -> str:
    return "upper case" if word.isupper() else "lower case" if word.islower() else "mixed case"


def _end(text: str) -> str:
    return text[len(text.rstrip(" ;\n")) :]


def column(ref: Ref) -> str:
    return f"{ref.place}.{ref.name}"


def outcomes(node: Node) -> set[Fraction]:
    """Return some values that an expression can have, two of each column."""
    if node.op == "column":
        return {Fraction(1, 3), Fraction(7, 11)}
    if node.op == "number":
        return {Fraction(node.parts[0])}
    if node.op == "case":
        branches, default = node.parts
        values = [*(value for _, value in branches), *([] if default is None else [default])]
        return set().union(*map(outcomes, values))
    if node.op == "missing":
        return set()
    if node.op == "neg":
        return {-value for value in outcomes(node.parts[0])}
    left, right = map(outcomes, node.parts)
    return {OPERATIONS[node.op](a, b) for a in left for b in right}


def _items(text: str) -> int:
    """Return how many columns a SELECT list has."""
    depth, commas = 0, 0
    for sign in re.findall(r"[(),]", text):
        depth += (sign == "(") - (sign == ")")
        commas += sign == "," and depth == 0
    return commas + 1


def _atom(node: Node) -> tuple[str, Sequence[Any]]:
    """Return the operator of a condition without parts, and its constants."""
    if node.op == "compare":
        return node.parts[1], node.parts[2:]
    negated = "not " * node.parts[-1]
    if node.op == "null":
        return f"is {negated}null", ()
    return f"{negated}{node.op}", node.parts[1] if node.op == "in" else node.parts[1:3]


def pairs_of(asked: Statement, register: Register, *, words: bool = True) -> int:
    """Return the pairs of features that meet in a statement, a bit for each."""
    if asked.kind == "valid":
        features = Features.of(asked)
        if features.steady:
            # what is the same in every row is refused
            return register.bound(features.steady)
        return register.meeting(features.found) | register.bound(features.bonds)
    if asked.kind == "having":
        return register.bound(("HAVING", one) for one in Features.of(asked).found)
    # single words matter to the parser alone
    return register.bound(mark for mark in asked.marks if words or len(mark) > 2)


class Register:
    """The features that were met, and a bit for each pair of them and for each bond."""

    BONDS = 2**13
    """Most bonds; their bits are the first."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.bonds: dict[Pair, int] = {}

    def meeting(self, found: Iterable[str]) -> int:
        """Return the pairs of some features: below each one, in a triangle, those of lower numbers."""
        numbers = [self.features.setdefault(one, len(self.features)) for one in found]
        own, pairs = sum(1 << number for number in numbers), 0
        for number in numbers:
            pairs |= (own & ((1 << number) - 1)) << number * (number - 1) // 2
        return pairs << self.BONDS

    def bound(self, bonds: Iterable[Pair]) -> int:
        found = 0
        for bond in bonds:
            found |= 1 << self.bonds.setdefault(bond, len(self.bonds))
        assert len(self.bonds) <= self.BONDS
        return found

    def without(self, feature: str, pairs: int) -> int:
        """Return the pairs that are left when a feature is gone."""
        every = self.meeting(self.features)
        return pairs & ~(every & ~self.meeting(self.features.keys() - {feature}))


@dataclass(frozen=True)
class Choice:
    """Statements of one world and kind, by number; which pairs meet in them, and how many in RANDOM."""

    world: str
    kind: str
    numbers: tuple[int, ...]
    pairs: int
    expected: int
    register: Register

    @property
    def coverage(self) -> int:
        return self.pairs.bit_count()

    def __str__(self) -> str:
        return (
            f"{self.coverage:>10,}  pairs of features meet in {len(self.numbers):,} statements, "
            f"{self.world}, {self.kind}; {self.expected:,} in {RANDOM:,} random ones"
        )


@cache
def choose(seed: int, world: str) -> dict[str, Choice]:
    """Return the chosen statements over some tables, for each kind: stored ones, or by a search."""
    if seed != SEED:
        return search(seed, world)
    register, made = Register(), {}
    for kind, stored in json.loads(CHOSEN.read_text("utf-8"))[world].items():
        pairs = 0
        for number in stored["numbers"]:
            pairs |= _pairs(statement(seed, number), register, world)
        made[kind] = Choice(
            world, kind, tuple(stored["numbers"]), pairs, stored["expected"], register
        )
    return made


def search(seed: int, world: str) -> dict[str, Choice]:
    """Choose among the statements over some tables, for each kind."""
    pools: dict[str, dict[int, tuple[int, int]]] = {kind: {} for kind in KINDS}
    register = Register()
    for first in range(0, CANDIDATES, BLOCK):
        if world_of(first).name == world:
            for number in range(first, first + BLOCK):
                asked = statement(seed, number)
                pools[asked.kind][number] = _pairs(asked, register, world), len(asked.text)
    return {kind: chosen(world, kind, pool, register) for kind, pool in pools.items()}


def _pairs(asked: Statement, register: Register, world: str) -> int:
    # single words are the same over all tables
    words = world == WORLDS[0].name or asked.kind == "refused"
    return pairs_of(asked, register, words=words)


def chosen(world: str, kind: str, pool: dict[int, tuple[int, int]], register: Register) -> Choice:
    """Take one after the other the statement in which most new pairs meet for its length."""
    met, random = 0, 0
    for number, (pairs, _) in pool.items():
        random |= pairs if number < RANDOM else 0
    expected = random.bit_count()

    def rank(number: int) -> tuple[float, int]:
        # long ones take longer to ask
        pairs, length = pool[number]
        return -(pairs & ~met).bit_count() / (100 + length), number

    taken: list[int] = []
    waiting = [rank(number) for number in pool]
    heapq.heapify(waiting)
    while waiting and met.bit_count() < expected:
        _, number = heapq.heappop(waiting)
        now = rank(number)
        if waiting and now > waiting[0]:
            # fewer of them are new than when it was last looked at
            heapq.heappush(waiting, now)
            continue
        met |= pool[number][0]
        taken.append(number)
    return Choice(world, kind, tuple(sorted(taken)), met, expected, register)


def main() -> None:
    """Choose for the seed of the tests, and store what was chosen."""
    found = {
        world: {
            kind: {"expected": choice.expected, "numbers": choice.numbers}
            for kind, choice in search(SEED, world).items()
        }
        for world in dict.fromkeys(one.name for one in WORLDS)
    }
    text = json.dumps(found, indent=1)
    # a line of numbers for each kind
    CHOSEN.write_text(re.sub(r"(?<=[\d\[,])\s+(?=[\d\]])", " ", text) + "\n", "utf-8")


if __name__ == "__main__":
    main()
