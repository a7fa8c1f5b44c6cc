"""The tree searches of DProvDB's BFS workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

BINS = 50
Node: TypeAlias = tuple[Fraction, Fraction]
"""Both ends, as shares of the domain."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search over one attribute; called breadth-first, but it takes the last child first.

    Attributes
    ----------
    low, high : int
        The attribute's domain, of 50 equal bins.
    branches : int
        Children of a node.
    stop : int
        Narrower nodes do not exist.
    threshold : int
        Nodes with a larger noisy count are expanded.
    """

    column: str
    low: int
    high: int
    branches: int
    stop: int
    threshold: int

    def children(self, node: Node) -> list[Node]:
        """Return the children of a node."""
        low, high = node
        part = (high - low) / self.branches
        if part * (self.high - self.low) < self.stop:
            return []
        return [(low + i * part, low + (i + 1) * part) for i in range(self.branches)]

    def size(self) -> int:
        """Return the number of nodes of the whole tree."""
        nodes, count = [(Fraction(0), Fraction(1))], 0
        while nodes:
            count += 1
            nodes.extend(self.children(nodes.pop()))
        return count

    def walk(self, ask: Callable[[int, int, int], float]) -> Iterator[None]:
        """Visit one node after the other; ``ask(first bin, end, variance)`` returns a noisy count."""
        stack, asked = [(Fraction(0), Fraction(1))], 0
        while stack:
            node = stack.pop()
            asked += 1
            first, end = math.floor(node[0] * BINS), math.ceil(node[1] * BINS)
            if ask(first, end, 25_000 - 100 * asked) > self.threshold:
                stack.extend(self.children(node))
            yield

    def condition(self, first: int, end: int, edges: list[float]) -> str:
        """Return the bins from ``first`` up to ``end`` as SQL: right-closed, the first has both ends."""
        above = ">=" if first == 0 else ">"
        return f"{self.column} {above} {edges[first]!r} AND {self.column} <= {edges[end]!r}"


def alternate(search: Search, asks: list[Callable[[int, int, int], float]]) -> None:
    """Let several analysts search, each in turn."""
    walks = [search.walk(ask) for ask in asks]
    while walks:
        walks = [walk for walk in walks if next(walk, "over") is None]


SEARCHES = {
    "adult": Search("age", 1, 140, 5, 1, 5),
    "tpch": Search("o_totalprice", 500, 600_000, 6, 4000, 6000),
}
SIZES = {"adult": 156, "tpch": 43}
"""Nodes of the whole trees (docs/methods/dprovdb.md, T18)."""
