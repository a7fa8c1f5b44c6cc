"""HAVING as a Boolean function of conditions: signed aggregates above signed thresholds.

NOT is pushed to the leaves, so every condition protects the groups where it is true
(docs/methods/probe.md, definition 1). The function is monotone in its conditions, and is stored as
a table over all their truth values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.decide.naming import atom_text
from dpnb.errors import RequestError
from dpnb.schema.schema import Schema
from dpnb.sql.query import Aggregate, Compare, Having
from dpnb.sql.ranges import range_of

MOST_ATOMS = 12

Bools: TypeAlias = npt.NDArray[np.bool_]
Set: TypeAlias = frozenset[int]
_NEGATED = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Atom:
    """One condition: ``sign`` times the aggregate is above ``sign`` times the threshold.

    Attributes
    ----------
    aggregate : Aggregate
    sign : {1, -1}
        1 for > and >=, -1 for < and <=.
    threshold : Fraction or str
        A number, or the name of a mapping with one number for each group.
    strict : bool
        Whether equality counts as false. The AVG of no rows is missing: neither true nor false.
    """

    aggregate: Aggregate
    sign: Literal[1, -1]
    threshold: Fraction | str
    strict: bool

    @property
    def operator(self) -> str:
        """The comparison operator in SQL."""
        return (">" if self.sign > 0 else "<") + ("" if self.strict else "=")

    def complement(self) -> Atom:
        """Return the negation: true exactly where this one is not, in groups that have rows."""
        sign: Literal[1, -1] = -1 if self.sign > 0 else 1
        return Atom(self.aggregate, sign, self.threshold, not self.strict)

    def implies(self, other: Atom) -> bool:
        """Return whether ``other`` holds wherever this one does, in exact and in noisy values.

        Averages with different thresholds have separate noise, so neither implies the other.
        """
        same = not self.aggregate.function.is_mean or self.threshold == other.threshold
        return same and self._orders(other)

    def _orders(self, other: Atom) -> bool:
        """Return whether ``other`` is true wherever this one is, whatever the data."""
        if self.sign != other.sign or not self.aggregate.means(other.aggregate):
            return False
        if isinstance(self.threshold, str) or isinstance(other.threshold, str):
            return self.threshold == other.threshold and (self.strict or not other.strict)
        gap = self.sign * (self.threshold - other.threshold)
        return gap > 0 or (gap == 0 and (self.strict or not other.strict))

    def excludes(self, other: Atom) -> bool:
        """Return whether the two are never true together."""
        return self._orders(other.complement())


@dataclass(frozen=True, slots=True)
class Node:
    """AND or OR of conditions, given by their positions."""

    operator: Literal["AND", "OR"]
    parts: tuple[Tree, ...]


Tree: TypeAlias = int | Node


@dataclass(frozen=True, slots=True)
class Condition:
    """A monotone Boolean function of conditions.

    Attributes
    ----------
    atoms : tuple of Atom
        Distinct, and each makes a difference.
    tree : Tree
        The formula as written, with NOT pushed to the leaves and equal conditions merged.
    implicants : tuple of frozenset of int
        The smallest sets of conditions that make it true when all of them are.
    clauses : tuple of frozenset of int
        The smallest sets of conditions that make it false when all of them are false.
    table : bool array, shape (2**n,)
        Its values: at index k, condition i is true when bit i of k is set.
    """

    atoms: tuple[Atom, ...]
    tree: Tree
    implicants: tuple[Set, ...]
    clauses: tuple[Set, ...]
    table: Bools

    def value(self, truth: Bools) -> Bools:
        """Return its value; ``truth``: bool array, shape (atoms, groups)."""
        bits = 1 << np.arange(len(self.atoms), dtype=np.int64)
        outcomes: Bools = self.table[bits @ truth.astype(np.int64)]
        return outcomes

    def chance(self, chances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the probability that it is true when its conditions are independent.

        ``chances``: the probability of each condition, float array, shape (atoms, groups).
        """
        if self.read_once:
            return _chance(self.tree, chances)
        folded = np.broadcast_to(self.table.astype(float)[:, None], (len(self.table), 1))
        for p in chances[::-1]:
            # the last condition is the highest bit of the index
            half = len(folded) // 2
            folded = folded[:half] * (1 - p) + folded[half:] * p
        return np.broadcast_to(folded[0], chances.shape[1:])

    def complement(self) -> Condition:
        """Return the function that is true exactly where this one is not."""

        def turned(tree: Tree) -> Tree:
            if isinstance(tree, int):
                return tree
            parts = tuple(turned(part) for part in tree.parts)
            return Node("OR" if tree.operator == "AND" else "AND", parts)

        atoms = tuple(atom.complement() for atom in self.atoms)
        return Condition(atoms, turned(self.tree), self.clauses, self.implicants, ~self.table[::-1])

    @property
    def leaves(self) -> tuple[int, ...]:
        """The conditions in the order written, repeated ones each time."""
        return tuple(_leaves(self.tree))

    @property
    def read_once(self) -> bool:
        """Whether each condition is written once."""
        return len(set(self.leaves)) == len(self.leaves)


def _chance(tree: Tree, chances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the probability of a tree that names each condition once."""
    if isinstance(tree, int):
        return np.asarray(chances[tree])
    parts = [_chance(part, chances) for part in tree.parts]
    if tree.operator == "AND":
        return np.asarray(np.prod(parts, axis=0))
    return np.asarray(1 - np.prod([1 - part for part in parts], axis=0))


def _leaves(tree: Tree) -> list[int]:
    if isinstance(tree, int):
        return [tree]
    return [leaf for part in tree.parts for leaf in _leaves(part)]


def read_condition(having: Having | None, schema: Schema) -> Condition:
    """Return the condition that a HAVING clause states.

    Raises
    ------
    RequestError
        For = and <>, for conditions that hold in all groups or in none, and for more than 12
        conditions.
    """
    if having is None:
        raise RequestError(
            "without HAVING there is nothing to decide", "Add HAVING COUNT(*) > 100, or use query."
        )
    atoms: list[Atom] = []
    tree = _tree(having, atoms, negated=False)
    if len(atoms) > MOST_ATOMS:
        raise RequestError(
            f"there are {len(atoms)} different conditions, more than the {MOST_ATOMS} that are allowed",
            "Use fewer at a time.",
        )
    for atom in atoms:
        check_open(atom, schema)
    return condition_of(atoms, tree)


def condition_of(atoms: Sequence[Atom], tree: Tree) -> Condition:
    """Return a tree as a function of its conditions, without those that make no difference.

    Raises
    ------
    RequestError
        When no group, or every group, satisfies it whatever the data.
    """
    minimal_sets = minimal(_table(tree, len(atoms)))
    implicants = _reduced(
        minimal_sets,
        lambda one, other: atoms[one].implies(atoms[other]),
        lambda one, other: atoms[one].excludes(atoms[other]),
        shorten=True,
    )
    if not implicants:
        raise RequestError(
            "no group can satisfy this HAVING: its conditions exclude each other",
            "Change one of them.",
        )
    if set(implicants) != set(minimal_sets):
        # noisy values are combined in the form that the shares were computed for
        tree = _sum_of_products(implicants)
    table = _table(tree, len(atoms))
    clauses = _reduced(
        minimal(~table[::-1]),
        lambda one, other: atoms[other].implies(atoms[one]),
        lambda one, other: _exhaust(atoms[one], atoms[other]),
        shorten=False,
    )
    if not clauses:
        raise RequestError(
            "every group satisfies this HAVING: there is nothing to decide",
            "Change one of its conditions.",
        )
    for sets, join in ((implicants, _sum_of_products), (clauses, _product_of_sums)):
        members = sorted({i for one in sets for i in one})
        if len(members) < len(atoms):
            # the other conditions make no difference
            new_sets = [frozenset(members.index(i) for i in one) for one in sets]
            return condition_of([atoms[i] for i in members], join(new_sets))
    return Condition(tuple(atoms), tree, tuple(implicants), tuple(clauses), table)


def _exhaust(atom: Atom, other: Atom) -> bool:
    """Return whether one of two conditions holds in every group; an AVG may be missing in some."""
    return not atom.aggregate.function.is_mean and atom.complement().implies(other)


def _sum_of_products(implicants: Sequence[Set]) -> Tree:
    return _joined("OR", [_joined("AND", sorted(implicant)) for implicant in implicants])


def _product_of_sums(clauses: Sequence[Set]) -> Tree:
    return _joined("AND", [_joined("OR", sorted(clause)) for clause in clauses])


def _joined(operator: Literal["AND", "OR"], parts: Sequence[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else Node(operator, tuple(parts))


def _tree(having: Having, atoms: list[Atom], *, negated: bool) -> Tree:
    if isinstance(having, Compare):
        return _leaf(having, atoms, negated=negated)
    if having.operator == "NOT":
        return _tree(having.parts[0], atoms, negated=not negated)
    parts = tuple(_tree(part, atoms, negated=negated) for part in having.parts)
    is_and = (having.operator == "AND") != negated
    # nested brackets with the same operator are redundant
    flat = [
        inner
        for part in parts
        for inner in (
            part.parts if isinstance(part, Node) and (part.operator == "AND") == is_and else (part,)
        )
    ]
    flat = list(dict.fromkeys(flat))
    return flat[0] if len(flat) == 1 else Node("AND" if is_and else "OR", tuple(flat))


def _leaf(compare: Compare, atoms: list[Atom], *, negated: bool) -> int:
    if compare.operator not in _NEGATED:
        raise RequestError(
            f"{compare.operator} cannot be decided: noise hides whether two numbers are equal",
            "Use >, >=, <, <= or BETWEEN.",
        )
    operator = _NEGATED[compare.operator] if negated else compare.operator
    # two names may mean the same aggregate
    matches = (atom.aggregate for atom in atoms if atom.aggregate.means(compare.aggregate))
    aggregate = next(matches, compare.aggregate)
    atom = Atom(aggregate, 1 if operator[0] == ">" else -1, compare.value, "=" not in operator)
    if atom not in atoms:
        atoms.append(atom)
    return atoms.index(atom)


def check_open(atom: Atom, schema: Schema) -> None:
    """Refuse a condition whose answer follows from public bounds.

    Raises
    ------
    RequestError
    """
    if isinstance(atom.threshold, str):
        return
    low, high = range_of(atom.aggregate, schema)
    where = " in a group with rows" if atom.aggregate.function.is_mean else ""
    if atom.sign < 0:
        low, high = -high, -low
    limit = atom.sign * atom.threshold
    never = high < limit or (atom.strict and high == limit)
    always = low > limit or (not atom.strict and low == limit)
    if never or always:
        raise RequestError(
            f"by the declared bounds, {atom_text(atom, schema)} is {'never' if never else 'always'} true{where}",
            "Change the number, or remove this condition if there are others.",
        )


def _table(tree: Tree, count: int) -> Bools:
    """Return the value of a tree for all truth values of its conditions."""
    index = np.arange(1 << count)

    def value(node: Tree) -> Bools:
        if isinstance(node, int):
            return (index >> node & 1).astype(bool)
        operation = np.logical_and if node.operator == "AND" else np.logical_or
        return np.asarray(operation.reduce([value(part) for part in node.parts]))

    return value(tree)


def minimal(table: Bools) -> list[Set]:
    """Return the smallest sets of conditions that make a monotone function true."""
    count = len(table).bit_length() - 1
    index = np.arange(len(table))
    least = table.copy()
    for bit in range(count):
        has_bit = (index >> bit & 1).astype(bool)
        least &= ~(has_bit & table[index & ~(1 << bit)])
    return [
        frozenset(bit for bit in range(count) if int(bits) >> bit & 1)
        for bits in np.flatnonzero(least)
    ]


def _reduced(
    sets: Sequence[Set],
    covers: Callable[[int, int], bool],
    settles: Callable[[int, int], bool],
    *,
    shorten: bool,
) -> list[Set]:
    """Drop impossible and redundant sets, and from each set the members that others cover.

    Members are dropped only if ``shorten``. Sets are stored as bits here, as there may be nearly a
    thousand.
    """
    members = sorted({member for subset in sets for member in subset})
    pairs = [(a, b) for a in members for b in members if a != b]
    if not any(covers(a, b) or settles(a, b) for a, b in pairs):
        return list(sets)
    covered = {a: sum(1 << b for b in members if a != b and covers(a, b)) for a in members}
    settled = [(1 << a) | (1 << b) for a, b in pairs if settles(a, b)]
    closures: dict[int, int] = {}
    for subset in sets:
        bits = sum(1 << a for a in subset)
        if any(bits & pair == pair for pair in settled):
            continue
        within = 0
        for a in subset:
            within |= covered[a]
        closures[bits & ~within if shorten else bits] = bits | within
    return [
        frozenset(a for a in members if least >> a & 1)
        for least, closure in closures.items()
        if not any(_absorbs(other, closures, least, closure) for other in closures)
    ]


def _absorbs(other: int, closures: dict[int, int], bits: int, closure: int) -> bool:
    """Return whether a set makes another one redundant; of two equivalent sets, the first stays."""
    if other == bits or other & ~closure:
        return False
    mutual = not bits & ~closures[other]
    return not mutual or list(closures).index(other) < list(closures).index(bits)
