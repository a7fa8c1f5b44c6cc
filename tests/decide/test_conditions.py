"""HAVING as a Boolean function: what is read, what is left out, and what it means."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpnb import Category, Schema
from dpnb.decide.conditions import Atom, Condition, Node, Tree, condition_of, read_condition
from dpnb.errors import RequestError, SqlError

Read = Callable[..., Condition]


def text(atom: Atom) -> str:
    return f"{atom.aggregate.alias} {atom.operator} {atom.threshold}"


def named(condition: Condition, sets: Any) -> set[frozenset[str]]:
    return {frozenset(text(condition.atoms[i]) for i in one) for one in sets}


def ways(condition: Condition) -> set[frozenset[str]]:
    """The prime implicants in words."""
    return named(condition, condition.implicants)


def sets(*given: str) -> set[frozenset[str]]:
    return {frozenset(one.split(" & ")) for one in given}


class TestReading:
    @pytest.mark.parametrize(
        ("having", "expected"),
        [
            ("count(*) > 10", ["count > 10"]),
            ("COUNT(*) >= 10", ["count >= 10"]),
            ("Count(*) < 10", ["count < 10"]),
            ("count(*) <= 10", ["count <= 10"]),
            ("10 < count(*)", ["count > 10"]),
            ("10 <= count(*)", ["count >= 10"]),
            ("10 > count(*)", ["count < 10"]),
            ("10 >= count(*)", ["count <= 10"]),
            ("-1 < sum(x)", ["sum_x > -1"]),
            ("sum(x) > -2.5", ["sum_x > -5/2"]),
            ("count(id) > 3", ["count_id > 3"]),
            ("count(DISTINCT id) > 3", ["distinct_id > 3"]),
            ("avg(x) >= 5", ["avg_x >= 5"]),
            ("avg(x) <= 5", ["avg_x <= 5"]),
            ("((count(*) > 10))", ["count > 10"]),
            ("NOT count(*) > 10", ["count <= 10"]),
            ("NOT count(*) >= 10", ["count < 10"]),
            ("NOT count(*) < 10", ["count >= 10"]),
            ("NOT count(*) <= 10", ["count > 10"]),
            ("NOT NOT count(*) > 10", ["count > 10"]),
            ("NOT (NOT (NOT (sum(x) > 1)))", ["sum_x <= 1"]),
            ("NOT 10 < count(*)", ["count <= 10"]),
            ("NOT avg(x) > 5", ["avg_x <= 5"]),
            ("avg(x) BETWEEN 5 AND 5", ["avg_x >= 5 & avg_x <= 5"]),
            ("count(*) BETWEEN 3 AND 9", ["count >= 3 & count <= 9"]),
            ("count(*) NOT BETWEEN 3 AND 9", ["count < 3", "count > 9"]),
            ("NOT (count(*) > 10 AND avg(x) <= 5)", ["count <= 10", "avg_x > 5"]),
            ("NOT (count(*) > 10 OR sum(x) <= 5)", ["count <= 10 & sum_x > 5"]),
            (
                "count(*) > 5 OR sum(x) > 4 AND sum(y) > 3",
                ["count > 5", "sum_x > 4 & sum_y > 3"],
            ),
            (
                "(count(*) > 5 or sum(x) > 4) and sum(y) > 3",
                ["count > 5 & sum_y > 3", "sum_x > 4 & sum_y > 3"],
            ),
            (
                "NOT (count(*) > 5 OR NOT (sum(x) > 4 AND NOT sum(y) > 3))",
                ["count <= 5 & sum_x > 4 & sum_y <= 3"],
            ),
        ],
    )
    def test_means_what_it_says(self, read: Read, having: str, expected: list[str]) -> None:
        assert ways(read(having)) == sets(*expected)

    def test_between_reads_one_aggregate_twice(self, read: Read) -> None:
        low, high = read("count(*) BETWEEN 3 AND 9").atoms
        assert low.aggregate == high.aggregate
        assert (low.sign, high.sign) == (1, -1)

    def test_signs_say_on_which_side_a_condition_is_true(self, read: Read) -> None:
        condition = read("count(*) > 5 AND sum(x) >= 4 AND sum(y) < 3 AND avg(x) <= 2")
        assert [(atom.sign, atom.strict) for atom in condition.atoms] == [
            (1, True), (1, False), (-1, True), (-1, False),
        ]  # fmt: skip

    def test_filters_tell_aggregates_apart_by_meaning(self, read: Read) -> None:
        same = "count(*) FILTER (WHERE y > 50) > 3 AND count(*) FILTER (WHERE NOT y <= 50) > 3"
        assert len(read(same).atoms) == 1
        other = "count(*) FILTER (WHERE y > 50) > 3 AND count(*) FILTER (WHERE y > 60) > 3"
        assert len(read(other).atoms) == 2
        assert len(read("count(*) FILTER (WHERE y > 50) > 3 AND count(*) > 3").atoms) == 2

    def test_results_of_select_can_be_named(self, read: Read) -> None:
        condition = read("rows > 5 AND count(*) < 9", select="k, count(*) AS rows")
        assert ways(condition) == sets("rows > 5 & rows < 9")

    @pytest.mark.parametrize("word", ["AND", "OR"])
    def test_two_names_of_one_result_are_one_condition(self, read: Read, word: str) -> None:
        condition = read(f"p > 5 {word} q > 5", select="k, count(*) AS p, count(*) AS q")
        assert len(condition.atoms) == 1
        assert condition.implicants == condition.clauses == (frozenset({0}),)

    def test_thresholds_of_groups_are_known_by_name(self, read: Read) -> None:
        condition = read("count(*) > :least AND :most >= sum(x)", thresholds=["least", "most"])
        assert ways(condition) == sets("count > least & sum_x <= most")

    def test_the_same_condition_is_one(self, read: Read) -> None:
        condition = read("count(*) > 5 AND 5 < COUNT(*) AND (count(*) > 5.0 OR NOT count(*) <= 5)")
        assert [text(atom) for atom in condition.atoms] == ["count > 5"]
        assert condition.tree == 0
        assert condition.read_once

    def test_brackets_of_the_same_kind_make_one_junction(self, read: Read) -> None:
        condition = read("count(*) > 5 AND (sum(x) > 4 AND (sum(y) > 3 AND sum(z) < -1))")
        assert condition.tree == Node("AND", (0, 1, 2, 3))
        condition = read("NOT (count(*) > 5 AND (sum(x) > 4 AND sum(y) > 3))")
        assert condition.tree == Node("OR", (0, 1, 2))

    def test_leaves_are_as_written(self, read: Read) -> None:
        condition = read("(count(*) > 5 OR sum(x) > 4) AND (sum(y) > 3 OR count(*) > 5)")
        assert condition.leaves == (0, 1, 2, 0)
        assert not condition.read_once
        assert read("(count(*) > 5 OR sum(x) > 4) AND sum(y) > 3").read_once


class TestWhatIsImplied:
    @pytest.mark.parametrize(
        ("having", "expected"),
        [
            ("count(*) > 5 AND count(*) > 9", ["count > 9"]),
            ("count(*) > 5 OR count(*) > 9", ["count > 5"]),
            ("sum(x) < 5 AND sum(x) < 9", ["sum_x < 5"]),
            ("sum(x) < 5 OR sum(x) < 9", ["sum_x < 9"]),
            ("sum(x) < -5 AND sum(x) < -9", ["sum_x < -9"]),
            ("count(*) > 5 AND count(*) >= 5", ["count > 5"]),
            ("count(*) > 5 OR count(*) >= 5", ["count >= 5"]),
            ("sum(x) < 5 AND sum(x) <= 5", ["sum_x < 5"]),
            ("avg(x) > 5 AND avg(x) >= 5", ["avg_x > 5"]),
            ("avg(x) > 5 OR avg(x) >= 5", ["avg_x >= 5"]),
            ("count(*) > :t AND count(*) >= :t", ["count > t"]),
            ("count(*) > 5 AND (count(*) > 3 OR sum(x) > 1)", ["count > 5"]),
            ("count(*) > 5 OR (count(*) > 9 AND sum(x) > 1)", ["count > 5"]),
            ("sum(x) > 1 AND (sum(x) > 1 OR sum(y) > 2)", ["sum_x > 1"]),
            ("count(*) BETWEEN 3 AND 9 AND count(*) BETWEEN 5 AND 12", ["count >= 5 & count <= 9"]),
            ("count(*) > 5 AND (count(*) < 3 OR sum(x) > 1)", ["count > 5 & sum_x > 1"]),
        ],
    )  # fmt: skip
    def test_is_left_out(self, read: Read, having: str, expected: list[str]) -> None:
        assert ways(read(having, thresholds=["t"])) == sets(*expected)

    @pytest.mark.parametrize(
        "having",
        [
            "count(*) > 5 AND sum(x) > 9",
            "count(*) > 5 AND count(id) > 9",
            "count(*) > 5 AND count(*) < 9",
            "count(*) > :t AND count(*) > :s",
            "count(*) > :t AND count(*) > 5",
            "count(*) < :t OR count(*) > :s",
            "avg(x) > 5 OR avg(x) < 9",
            "avg(x) > 5 AND avg(x) >= 9",
            "avg(x) > 5 OR avg(x) >= 9",
        ],
    )
    def test_nothing_else_is(self, read: Read, having: str) -> None:
        assert len(read(having, thresholds=["t", "s"]).atoms) == 2

    def test_conditions_of_which_one_always_holds_are_left_out(self, read: Read) -> None:
        assert ways(read("sum(x) > 1 AND (count(*) > 3 OR count(*) < 9)")) == sets("sum_x > 1")

    @pytest.mark.parametrize(
        "having",
        [
            "avg(x) > 5 AND (avg(x) > 9 OR count(*) > 100)",
            "avg(x) > 9 OR (avg(x) > 5 AND count(*) > 100)",
        ],
    )
    def test_what_bounds_the_errors_is_what_is_evaluated(self, read: Read, having: str) -> None:
        # noise may contradict what values imply: an AVG has an aggregate for each of its thresholds
        condition = read(having)
        count = len(condition.atoms)
        for implicant in condition.implicants:
            alone = np.array([[i in implicant] for i in range(count)])
            assert condition.value(alone).all()
        for clause in condition.clauses:
            others = np.array([[i not in clause] for i in range(count)])
            assert not condition.value(others).any()


class TestRefusals:
    @pytest.mark.parametrize(
        "having",
        [
            "count(*) > 9 AND count(*) < 3",
            "count(*) BETWEEN 9 AND 3",
            "count(*) > 5 AND count(*) <= 5",
            "sum(x) > 5 AND NOT sum(x) > 5",
            "avg(x) > 5 AND avg(x) < 5",
            "avg(x) >= 5 AND avg(x) < 5",
            "count(*) > :t AND count(*) < :t",
            "(count(*) > 9 OR sum(x) > 5) AND count(*) < 3 AND sum(x) < 1",
        ],
    )
    def test_contradictions(self, read: Read, having: str) -> None:
        with pytest.raises(RequestError, match="no group can satisfy"):
            read(having, thresholds=["t"])

    @pytest.mark.parametrize(
        "having",
        [
            "count(*) > 5 OR count(*) <= 5",
            "count(*) > 3 OR count(*) < 9",
            "sum(x) >= 5 OR sum(x) <= 5",
            "NOT (sum(x) > 5 AND sum(x) <= 5)",
            "count(*) >= :t OR count(*) < :t",
            "(count(*) > 3 AND sum(x) > 1) OR count(*) < 9 OR sum(x) < 5",
        ],
    )
    def test_what_every_group_satisfies(self, read: Read, having: str) -> None:
        with pytest.raises(RequestError, match="every group satisfies"):
            read(having, thresholds=["t"])

    @pytest.mark.parametrize(
        ("having", "word"),
        [
            ("count(*) >= 0", "always"),
            ("count(*) > -1", "always"),
            ("count(*) < 0", "never"),
            ("count(*) <= -1", "never"),
            ("0 <= count(*)", "always"),
            ("NOT count(*) < 0", "always"),
            ("count(DISTINCT id) >= 0", "always"),
            ("count(DISTINCT id) < 0", "never"),
            ("sum(y) >= 0", "always"),
            ("sum(y) < 0", "never"),
            ("sum(z) > 0", "never"),
            ("sum(z) <= 0", "always"),
            ("avg(x) < -30", "never"),
            ("avg(x) >= -30", "always"),
            ("avg(x) > 120", "never"),
            ("avg(x) > -31", "always"),
            ("avg(x) < 120.5", "always"),
            ("avg(y) > 100", "never"),
            ("avg(y) <= 100", "always"),
            ("sum(x) > 5 AND count(*) >= 0", "always"),
        ],
    )
    def test_what_the_declared_bounds_settle(self, read: Read, having: str, word: str) -> None:
        with pytest.raises(RequestError, match=f"by the declared bounds, .* {word} true"):
            read(having)

    @pytest.mark.parametrize(
        "having",
        [
            "count(*) > 0", "count(*) <= 0", "count(*) < 1", "count(*) >= 1", "sum(y) > 0",
            "sum(y) <= 0", "sum(z) < 0", "sum(z) >= 0", "sum(x) > 0", "sum(x) <= 0", "sum(x) >= -5",
            "avg(x) > -30", "avg(x) <= -30", "avg(x) < 120", "avg(y) >= 100",
        ],
    )  # fmt: skip
    def test_what_lies_just_within_them_is_open(self, read: Read, having: str) -> None:
        assert len(read(having).atoms) == 1

    @pytest.mark.parametrize("sign", ["=", "<>", "!="])
    def test_equality(self, read: Read, sign: str) -> None:
        for having in (f"count(*) {sign} 5", f"NOT count(*) {sign} 5", f"5 {sign} count(*)"):
            with pytest.raises(RequestError, match="noise hides whether"):
                read(having)

    def test_nothing_to_decide(self) -> None:
        with pytest.raises(RequestError, match="nothing to decide"):
            read_condition(None, Schema({"k": Category(["a"])}))

    def test_more_than_twelve_conditions(self, read: Read) -> None:
        sizes = [f"sum(y) FILTER (WHERE y > {i}) > {i + 1}" for i in range(13)]
        assert len(read(" AND ".join(sizes[:12])).atoms) == 12
        assert len(read(" AND ".join([*sizes[:12], sizes[0]])).atoms) == 12
        with pytest.raises(RequestError, match="13 different conditions"):
            read(" AND ".join(sizes))

    @pytest.mark.parametrize(
        "having",
        [
            "count(*) > (SELECT 5)",
            "count(*) > (SELECT max(x) FROM t)",
            "count(*) > x",
            "count(*) > t.x",
            "count(*) > count(id)",
            "count(*) BETWEEN x AND 9",
            "count(*) BETWEEN 3 AND (SELECT 9)",
            "count(*) > 'a'",
            "count(*) > NULL",
            "count(*) > TRUE",
            "count(*) > :unknown",
            "count(*) IN (5)",
            "count(*) IS NULL",
            "count(*)",
            "TRUE",
            "10 < 20",
            "y > 3",
            "min(x) > 3",
            "max(x) > 3",
            "median(x) > 3",
            "sum(DISTINCT x) > 3",
            "count(DISTINCT id, k) > 3",
            "sum(x) / count(*) > 3",
            "5 BETWEEN count(*) AND 9",
            "EXISTS (SELECT 1)",
        ],
    )
    def test_what_is_no_comparison_of_an_aggregate_with_a_number(
        self, read: Read, having: str
    ) -> None:
        with pytest.raises(SqlError):
            read(having)


# statements from a grammar, against SQL's three-valued logic

COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
ALL = {
    "count(*)": (0, 1, 2, 3, 4, 5, 6, 7),
    "sum(x)": (-3, -2, 0, 2, 3, 4, 5),
    "avg(y)": (None, 1, 2, 3, 4, 5, 6, 7),
}
LIMITS = {"count(*)": (2, 4, 6), "sum(x)": (-2, 2, 4), "avg(y)": (2, 4, 6)}
POINTS = [dict(zip(ALL, values, strict=True)) for values in itertools.product(*ALL.values())]
Truth = bool | None
Point = Mapping[str, int | None]


@dataclass(frozen=True)
class Written:
    """A condition as SQL, and what it is at some values of its aggregates."""

    sql: str
    at: Callable[[Point], Truth]


def both(first: Truth, second: Truth) -> Truth:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def neither(truth: Truth) -> Truth:
    return None if truth is None else not truth


def compared(aggregate: str, sign: str, limit: int) -> Callable[[Point], Truth]:
    def at(point: Point) -> Truth:
        value = point[aggregate]
        # an AVG of no rows is missing
        return None if value is None else bool(COMPARED[sign](value, limit))

    return at


@st.composite
def comparisons(draw: Any) -> Written:
    aggregate = draw(st.sampled_from(sorted(ALL)))
    limit, other = (draw(st.sampled_from(LIMITS[aggregate])) for _ in range(2))
    sign = draw(st.sampled_from([*COMPARED, "BETWEEN"]))
    if sign == "BETWEEN":
        low, high = compared(aggregate, ">=", limit), compared(aggregate, "<=", other)
        return Written(
            f"{aggregate} BETWEEN {limit} AND {other}", lambda at: both(low(at), high(at))
        )
    sql = draw(
        st.sampled_from([f"{aggregate} {sign} {limit}", f"{limit} {FLIPPED[sign]} {aggregate}"])
    )
    return Written(sql, compared(aggregate, sign, limit))


def joined(word: str, first: Written, second: Written) -> Written:
    sql = f"({first.sql}) {word} ({second.sql})"
    if word == "AND":
        return Written(sql, lambda at: both(first.at(at), second.at(at)))
    return Written(sql, lambda at: neither(both(neither(first.at(at)), neither(second.at(at)))))


statements = st.recursive(
    comparisons(),
    lambda part: (
        st.builds(joined, st.sampled_from(["AND", "OR"]), part, part)
        | st.builds(lambda one: Written(f"NOT ({one.sql})", lambda at: neither(one.at(at))), part)
    ),
    max_leaves=6,
)


def truths(condition: Condition, points: list[dict[str, int | None]]) -> np.ndarray:
    """The truth of each condition at some points, (conditions, points)."""
    names = {"count": "count(*)", "sum_x": "sum(x)", "avg_y": "avg(y)"}

    def holds(atom: Atom, point: Mapping[str, int | None]) -> bool:
        value = point[names[atom.aggregate.alias]]
        assert isinstance(atom.threshold, Fraction)
        if value is None:
            return False
        gap = atom.sign * (value - atom.threshold)
        return gap > 0 or (gap == 0 and not atom.strict)

    return np.array([[holds(atom, point) for point in points] for atom in condition.atoms])


class TestMeaning:
    @settings(max_examples=90)
    @given(statement=statements)
    def test_is_that_of_the_statement_wherever_it_is_not_settled(
        self, read: Read, statement: Written
    ) -> None:
        meant = np.array([statement.at(point) is True for point in POINTS])
        try:
            condition = read(statement.sql)
        except RequestError as error:
            assert meant.all() if "every group" in str(error) else not meant.any()
            return
        assert meant.any()
        assert not meant.all()
        truth = truths(condition, POINTS)
        assert np.array_equal(condition.value(truth), meant)
        # it is true where all of an implicant is, and false where all of a clause is
        ways = [truth[sorted(one)].all(axis=0) for one in condition.implicants]
        assert np.array_equal(np.any(ways, axis=0), meant)
        walls = [(~truth[sorted(one)]).all(axis=0) for one in condition.clauses]
        assert np.array_equal(~np.any(walls, axis=0), meant)
        # none of them can be left out for another; noises of averages imply nothing
        for sides in (ways, walls) if "avg" not in statement.sql else ():
            for one, other in itertools.permutations(sides, 2):
                assert not (one <= other).all()
        # the tree says the same as the table
        assert np.array_equal(at_tree(condition.tree, truth), meant)

    @settings(max_examples=60)
    @given(statement=statements)
    def test_the_complement_is_true_exactly_elsewhere(self, read: Read, statement: Written) -> None:
        try:
            condition = read(statement.sql)
        except RequestError:
            return
        turned = condition.complement()
        with_rows = [point for point in POINTS if point["avg(y)"] is not None]
        own, other = truths(condition, with_rows), truths(turned, with_rows)
        assert np.array_equal(other, ~own)
        assert np.array_equal(turned.value(other), ~condition.value(own))
        assert np.array_equal(at_tree(turned.tree, other), turned.value(other))
        assert turned.implicants == condition.clauses
        assert turned.clauses == condition.implicants
        again = turned.complement()
        assert (again.atoms, again.tree) == (condition.atoms, condition.tree)
        assert np.array_equal(again.table, condition.table)


def at_tree(tree: Tree, truth: np.ndarray) -> np.ndarray:
    if isinstance(tree, int):
        return truth[tree]
    parts = [at_tree(part, truth) for part in tree.parts]
    return np.all(parts, axis=0) if tree.operator == "AND" else np.any(parts, axis=0)


trees: st.SearchStrategy[Tree] = st.recursive(
    st.integers(0, 5),
    lambda part: st.builds(
        lambda word, parts: Node(word, tuple(parts)),
        st.sampled_from(["AND", "OR"]),
        st.lists(part, min_size=2, max_size=3),
    ),
    max_leaves=9,
)
MAJORITY = Node("OR", (Node("AND", (0, 1)), Node("AND", (0, 2)), Node("AND", (1, 2))))


def names_of(tree: Tree) -> set[int]:
    return {tree} if isinstance(tree, int) else set().union(*map(names_of, tree.parts))


def smallest(sets: list[frozenset[int]]) -> set[frozenset[int]]:
    return {one for one in sets if not any(other < one for other in sets)}


class TestUnrelatedConditions:
    @settings(max_examples=100)
    @given(tree=trees)
    @example(tree=MAJORITY)
    def test_implicants_and_clauses_are_the_smallest_sets_that_settle_it(
        self, unrelated: Callable[[int], list[Atom]], tree: Tree
    ) -> None:
        atoms = unrelated(6)
        condition = condition_of(atoms, tree)
        places = [atoms.index(atom) for atom in condition.atoms]
        subsets = [
            frozenset(one)
            for size in range(7)
            for one in itertools.combinations(sorted(names_of(tree)), size)
        ]

        def value(true: frozenset[int]) -> bool:
            return bool(at_tree(tree, np.array([i in true for i in range(6)])))

        ways = smallest([one for one in subsets if value(one)])
        walls = smallest([one for one in subsets if not value(frozenset(range(6)) - one)])
        assert {frozenset(places[i] for i in one) for one in condition.implicants} == ways
        assert {frozenset(places[i] for i in one) for one in condition.clauses} == walls
        assert len(condition.implicants) == len(ways)
        assert len(condition.clauses) == len(walls)
        # conditions that do not matter are left out
        assert set(places) == set().union(*ways)

    @settings(max_examples=60)
    @given(tree=trees, seed=st.integers(0, 2**32 - 1))
    @example(tree=MAJORITY, seed=1)
    def test_its_chance_is_that_of_all_truth_values_together(
        self, unrelated: Callable[[int], list[Atom]], tree: Tree, seed: int
    ) -> None:
        condition = condition_of(unrelated(6), tree)
        count = len(condition.atoms)
        chances = np.random.default_rng(seed).random((count, 4))
        chances[:, 3] = chances[:, 3] > 0.5
        expected = np.zeros(4)
        for truth in itertools.product([False, True], repeat=count):
            own = np.array(truth)[:, None]
            if at_tree(condition.tree, own).all():
                expected += np.where(own, chances, 1 - chances).prod(axis=0)
        assert condition.chance(chances) == pytest.approx(expected, abs=1e-12)

    def test_more_ways_than_can_be_listed_by_hand(
        self, unrelated: Callable[[int], list[Atom]]
    ) -> None:
        tree = Node("OR", tuple(Node("AND", one) for one in itertools.combinations(range(12), 6)))
        condition = condition_of(unrelated(12), tree)
        assert set(condition.implicants) == set(
            map(frozenset, itertools.combinations(range(12), 6))
        )
        assert set(condition.clauses) == set(map(frozenset, itertools.combinations(range(12), 7)))
