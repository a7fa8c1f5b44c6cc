"""Which rows a view tells about, and what views cost the worst-off row.

Theorem 13 of docs/methods/bayes.md.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import pytest

from dpnb.ledger.accountant import Accountant
from dpnb.ledger.mechanism import LevelTarget
from dpnb.privacy import parallel
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import PURE
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.parallel import Region, region, worst, worst_in, worst_off
from dpnb.schema import predicates

EVERY: Any = {"and": []}
NOBODY: Any = {"or": []}
TENTH = Fraction(1, 10)


def definition(where: Any = EVERY, **changes: Any) -> dict[str, Any]:
    """The public definition of a view of table t, version 1."""
    return {
        "table": "t", "version": 1, "unit": None, "keys": [], "where": where,
        "measure": ["count", None], **changes,
    }  # fmt: skip


def within(column: str, *intervals: tuple[float, float], null: bool = False) -> list[Any]:
    """A condition on one column, in plain form."""
    return [column, [list(pair) for pair in intervals], null]


def rows(*wheres: Any) -> list[Region]:
    return [region(definition(where)) for where in wheres]


def total(*wheres: Any) -> Fraction:
    """The loss of different views of level 1/10."""
    return worst(dict.fromkeys(rows(*wheres), TENTH))


class TestRegion:
    def test_a_condition_is_one_box(self) -> None:
        where = {"and": [within("a", (1, 3)), within("b", (0, 0), (5, 9), null=True)]}
        assert region(definition(where)).boxes == (
            (("a", ((1, 3),), False), ("b", ((0, 0), (5, 9)), True)),
        )

    def test_keys_and_counted_columns_are_not_missing(self) -> None:
        present = ((-math.inf, math.inf),)
        found = region(definition(keys=["a"], measure=["count", "b"])).boxes
        assert found == ((("a", present, False), ("b", present, False)),)
        found = region(definition(measure=["sum", "b", "0", "1", 0, 9])).boxes
        assert found == ((("b", present, False),),)
        found = region(definition(measure=["count", {"+": ["a", "b"]}])).boxes
        assert found == ((),)

    def test_missing_keys_and_conditions_meet(self) -> None:
        where = within("a", (1, 3), null=True)
        assert region(definition(where, keys=["a"])).boxes == ((("a", ((1, 3),), False),),)
        assert region(definition(within("a", null=True), keys=["a"])).boxes == ()

    def test_a_histogram_and_ids_cut_to_fewer_groups_cover_everything(self) -> None:
        cut = {"unit": ["person", 5], "measure": ["units", None, 2, True]}
        for changes in ({"histogram": [], "keys": ["a"]}, {**cut, "keys": ["a"]}):
            assert region(definition(within("a", (1, 3)), **changes)).boxes == ((),)

    def test_a_unit_of_many_rows_shares_like_a_row(self) -> None:
        plain = region(definition(within("a", (1, 3)), keys=["a"]))
        for measure in (["count", None], ["units", None, 5, False]):
            wide = {"unit": ["person", 5], "measure": measure, "keys": ["a"]}
            assert region(definition(within("a", (1, 3)), **wide)) == plain

    def test_equal_meaning_of_boxes_is_one_region(self) -> None:
        one = {"and": [within("a", (1, 5)), {"or": [within("b", (0, 1)), within("c", (0, 1))]}]}
        other = {"or": [
            {"and": [within("c", (0, 1)), within("a", (1, 5))]},
            {"and": [within("a", (1, 5)), within("b", (0, 1))]},
        ]}  # fmt: skip
        first, second = rows(one, other)
        assert first == second
        assert hash(first) == hash(second)

    def test_a_condition_of_too_many_boxes_is_loosened_never_tightened(self) -> None:
        pairs = [{"or": [within(f"a{i}", (0, 0)), within(f"b{i}", (0, 0))]} for i in range(20)]
        (found,) = rows({"and": pairs})
        assert 0 < len(found.boxes) <= predicates.MOST_BOXES
        outside = within("a0", (1, 1)), within("b0", (1, 1))
        assert total({"and": pairs}, EVERY) == 2 * TENTH
        assert total({"and": pairs}, {"and": [*outside]}) == TENTH
        many = {"or": [within(f"a{i}", (0, 0)) for i in range(predicates.MOST_BOXES + 1)]}
        assert rows(many)[0].boxes == ((),)

    @pytest.mark.parametrize("where", [{"not": []}, ["a"], None, {"and": [7]}])
    def test_what_is_no_condition_is_refused(self, where: Any) -> None:
        with pytest.raises((ValueError, TypeError)):
            region(definition(where))


class TestWorst:
    def test_nothing_costs_nothing_and_one_view_its_level(self) -> None:
        assert worst({}) == 0
        assert total(EVERY) == TENTH

    def test_the_worked_history(self) -> None:
        """Rows of 0 and 1 of Xiao and Xiong's example, over cells 0 to 3 of one column."""
        history = [
            ((0, 1), "0.05"), ((2, 3), "0.1"), ((3, 3), "0.05"), ((2, 2), "0.1"),
        ]  # fmt: skip
        levels: dict[Region, Fraction] = {}
        for (ends, level), expected in zip(history, ("0.05", "0.1", "0.15", "0.2"), strict=True):
            levels[rows(within("x", ends))[0]] = Fraction(level)
            assert worst(levels) == Fraction(expected)
        levels[rows(within("x", (1, 1), (3, 3)))[0]] = Fraction("0.1")
        assert worst(levels) == Fraction("0.25")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param(within("a", (0, 5)), within("a", (5, 9)), id="one code in common"),
            pytest.param(
                within("a", (0, 1), (5, 6)), within("a", (2, 3), (6, 7)), id="second parts"
            ),
            pytest.param(
                within("a", (0, 5), null=True), within("a", (6, 9), null=True), id="missing in both"
            ),
            pytest.param(within("a", (0, 5)), within("b", (0, 5)), id="different columns"),
            pytest.param(
                {"or": [within("a", (1, 1)), within("b", (1, 1))]},
                {"or": [within("a", (2, 2)), within("b", (2, 2))]},
                id="either column",
            ),
            pytest.param(within("a", (0.0, 0.5)), within("a", (0.5, 1.0)), id="floats"),
            pytest.param(within("a", (0, 0)), EVERY, id="everything"),
        ],
    )
    def test_regions_that_meet_add_up(self, one: Any, other: Any) -> None:
        assert total(one, other) == 2 * TENTH
        assert total(other, one) == 2 * TENTH

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param(within("a", (0, 5)), within("a", (6, 9)), id="next codes"),
            pytest.param(within("a", (0, 9)), within("a", null=True), id="missing or not"),
            pytest.param(
                within("a", (0.0, 0.5)),
                within("a", (math.nextafter(0.5, 1), 1.0)),
                id="next floats",
            ),
            pytest.param(
                {"and": [within("a", (0, 5)), within("b", (0, 5))]},
                {"or": [within("a", (6, 9)), within("b", (6, 9))]},
                id="a box and its complement",
            ),
            pytest.param(
                {"and": [within("a", (0, 5)), within("b", (0, 5))]},
                {"and": [within("b", (6, 9)), within("c", (0, 5))]},
                id="in the second column",
            ),
        ],
    )
    def test_disjoint_regions_share(self, one: Any, other: Any) -> None:
        assert total(one, other) == TENTH
        assert worst(dict(zip(rows(one, other), (TENTH, Fraction(1, 3)), strict=True))) == (
            Fraction(1, 3)
        )

    def test_three_that_meet_in_pairs_only_cost_two(self) -> None:
        parts = [within("a", (0, 1)), within("a", (1, 2)), within("a", (0, 0), (2, 2))]
        assert total(*parts) == 2 * TENTH

    def test_versions_and_tables_add_up(self) -> None:
        here = definition(within("a", (0, 1)))
        there = definition(within("a", (2, 3)))
        for changes in ({"table": "u"}, {"version": 2}):
            levels = {region(here): TENTH, region({**there, **changes}): TENTH}
            assert worst(levels) == 2 * TENTH

    def test_what_holds_no_row_is_not_free(self) -> None:
        assert total(NOBODY) == TENTH
        assert total(NOBODY, within("a", (0, 1))) == TENTH
        levels = dict(zip(rows(NOBODY, within("a", (0, 1))), (Fraction(1), TENTH), strict=True))
        assert worst(levels) == 1

    def test_it_is_exact_to_the_last_digit(self) -> None:
        tiny = Fraction(1, 10**30)
        one, two, three = rows(within("a", (0, 0)), within("a", (1, 1)), within("a", (1, 2)))
        assert worst({one: Fraction(1, 3), two: Fraction(1, 3) + tiny}) == Fraction(1, 3) + tiny
        assert worst({one: Fraction(1, 3), two: Fraction(1, 3), three: tiny}) == (
            Fraction(1, 3) + tiny
        )

    def test_columns_that_no_view_joins_cost_no_enumeration(self) -> None:
        """Ten values of each of 30 columns would be 10**30 cells."""
        parts = [within(f"c{i}", (code, code)) for i in range(30) for code in range(10)]
        assert total(*parts) == 30 * TENTH

    def test_importing_it_takes_no_numpy(self) -> None:
        told = "import sys, dpnb, dpnb.privacy.parallel; print('numpy' in sys.modules)"
        found = subprocess.run(
            [sys.executable, "-c", told], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == "False"


SIZES = {"a": 4, "b": 3, "c": 4}
"""Codes of each column, missing aside."""
ALL_CELLS = [
    dict(zip(SIZES, codes, strict=True))
    for codes in itertools.product(*([*range(size), None] for size in SIZES.values()))
]


def a_condition(random_: random.Random, depth: int = 2) -> Any:
    if depth and random_.random() < 0.6:
        word = random_.choice(["and", "or"])
        return {word: [a_condition(random_, depth - 1) for _ in range(random_.randrange(4))]}
    column = random_.choice(list(SIZES))
    lows = [code for code in range(SIZES[column]) if random_.random() < 0.4]
    ends = [(low, min(low + random_.randrange(2), SIZES[column] - 1)) for low in lows]
    return within(column, *ends, null=random_.random() < 0.3)


def holds(condition: Any, cell: Mapping[str, int | None]) -> bool:
    """Whether a row of the cell satisfies a condition."""
    if isinstance(condition, dict):
        ((word, parts),) = condition.items()
        found = [holds(part, cell) for part in parts]
        return all(found) if word == "and" else any(found)
    column, intervals, null = condition
    code = cell[column]
    return null if code is None else any(low <= code <= high for low, high in intervals)


def covered(view: Mapping[str, Any], cell: Mapping[str, int | None]) -> bool:
    present = all(cell[key] is not None for key in view["keys"])
    counted = view["measure"][1] is None or cell[view["measure"][1]] is not None
    return "histogram" in view or (present and counted and holds(view["where"], cell))


def a_view(random_: random.Random) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "table": random_.choice("ttu"),
        "version": random_.choice([1, 1, 2]),
        "keys": random_.sample(list(SIZES), random_.choice([0, 0, 1, 2])),
        "measure": ["count", random_.choice([None, None, "a"])],
        **({"histogram": []} if random_.random() < 0.05 else {}),
    }
    return definition(a_condition(random_), **changes)


Views: TypeAlias = Sequence[tuple[dict[str, Any], Fraction]]


UNIT = 210
"""Every level of these views is a whole number of so many parts."""


def held(view: Mapping[str, Any]) -> tuple[int, ...]:
    """The numbers of the cells that a view covers."""
    return _held(json.dumps(view))


@cache
def _held(text: str) -> tuple[int, ...]:
    view = json.loads(text)
    return tuple(number for number, cell in enumerate(ALL_CELLS) if covered(view, cell))


def by_brute_force(views: Views, inside: Mapping[str, Any] | None = None) -> Fraction:
    """The same from all cells, each view on its own; views without rows have a cell of their own.

    ``inside``: from the cells of this view only, in its table and version.
    """
    found = Fraction(0)
    for place in {(view["table"], view["version"]) for view, _ in views}:
        sums, empty = [0] * len(ALL_CELLS), 0
        for view, level in views:
            if (view["table"], view["version"]) == place:
                seen, whole = held(view), int(level * UNIT)
                empty += 0 if seen else whole
                for number in seen:
                    sums[number] += whole
        if inside is not None and (inside["table"], inside["version"]) == place:
            found += Fraction(max((sums[number] for number in held(inside)), default=0), UNIT)
        else:
            found += Fraction(max(*sums, empty), UNIT)
    return found


def levels_of(views: Views) -> dict[Region, Fraction]:
    found: dict[Region, Fraction] = {}
    for view, level in views:
        where = region(view)
        found[where] = found.get(where, Fraction(0)) + level
    return found


SEEDS = 200


def of_seed(seed: int) -> Views:
    random_ = random.Random(seed)  # noqa: S311
    return [
        (a_view(random_), Fraction(random_.randrange(1, 50), random_.choice([1, 3, 7, 10])))
        for _ in range(random_.randrange(1, 14))
    ]


class TestAgainstBruteForce:
    """Each of them runs over all seeds: so many tests of a few microseconds would cost a hundred times that."""

    def test_it_is_the_maximum_over_all_cells(self, monkeypatch: pytest.MonkeyPatch) -> None:
        few = parallel._FEW
        for seed in range(SEEDS):
            views = of_seed(seed)
            levels, total = levels_of(views), by_brute_force(views)
            monkeypatch.setattr(parallel, "_FEW", few)
            assert worst(levels) == total, seed
            # the same when sets that are part of others stay
            monkeypatch.setattr(parallel, "_FEW", 0)
            parallel._group.cache_clear()
            assert worst(levels) == total, seed

    def test_in_a_region_it_is_the_maximum_over_its_cells(self) -> None:
        """So when levels rise in one region only, the maximum is the old one or one in it."""
        for seed in range(SEEDS):
            views = of_seed(seed)
            levels, total = levels_of(views), by_brute_force(views)
            for raised, _ in views:
                where, least = region(raised), by_brute_force(views, inside=raised)
                found = worst_in(levels, where)
                assert least <= found <= total, seed
                place = (raised["table"], raised["version"])
                own = [one for one, _ in views if (one["table"], one["version"]) == place]
                if held(raised) and len(where.boxes) <= 8 and all(region(one).boxes for one in own):
                    assert found == least, seed
                more = [(view, level + 7 * (region(view) == where)) for view, level in views]
                risen = levels_of(more)
                assert max(total, worst_in(risen, where)) == by_brute_force(more), seed

    @pytest.mark.parametrize("most", [0, 3, 10])
    def test_it_is_never_below_when_there_are_too_many(
        self, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever is short: cells, boxes in them, regions that meet, or regions told apart."""
        for seed in range(SEEDS):
            views = of_seed(seed)
            levels, total = levels_of(views), by_brute_force(views)
            raised = []
            for view, _ in views[:2]:
                where = region(view)
                more = [(one, level + 7 * (one is view)) for one, level in views]
                raised.append((where, {**levels, where: levels[where] + 7}, by_brute_force(more)))
            for short in range(3):
                limits = [most if place == short else 10**4 for place in range(3)]
                names = ("MOST_CELLS", "MOST_HELD", "MOST_MET")
                for name, limit in zip(names, limits, strict=True):
                    monkeypatch.setattr(parallel, name, limit)
                monkeypatch.setattr(parallel, "MOST_IN_ALL", limits[-1])
                # each number of kept sets with each of the others, in half of all combinations
                monkeypatch.setattr(parallel, "MOST_KEPT", 2 * ((most + short) % 2))
                assert total <= worst(levels), seed
                for where, risen, most_of_all in raised:
                    assert max(total, worst_in(risen, where)) >= most_of_all, seed


class TestTime:
    def test_many_regions_that_meet_are_priced_quickly(
        self, seconds: Callable[[float], float]
    ) -> None:
        """Random ranges of two columns: nobody can make the ledger slow for all."""
        accountant, random_ = Accountant(Budget(rho=1000)), random.Random(2)  # noqa: S311
        times = []
        for number in range(600):
            ends = [sorted(random_.sample(range(10_000), 2)) for _ in range(2)]
            where = {"and": [["x", [ends[0]], False], ["y", [ends[1]], False]]}
            targets = {f"v{number}": LevelTarget(TENTH + Fraction(number, 10**7))}
            begun = time.process_time()
            cost = accountant.cost("a", targets, {f"v{number}": definition(where)})
            accountant.note("a", cost)
            times.append(time.process_time() - begun)
        assert sum(times) < seconds(2)
        assert statistics.median(times[-40:]) <= 10 * max(statistics.median(times[40:80]), 5e-4)


class TestWorstOff:
    def test_each_component_is_a_bound_of_its_own(self) -> None:
        """One epsilon of 2 has rho 2; two of 1 have rho 1."""
        one, other, third = rows(
            within("a", (0, 0)), {"and": [within("a", (1, 1))]}, within("a", (1, 2))
        )
        learned = {
            one: PrivacyLoss.of(Fraction(2), PURE),
            other: PrivacyLoss.of(Fraction(1), PURE),
            third: PrivacyLoss.of(Fraction(1), PURE),
        }
        assert worst_off(learned) == PrivacyLoss(Fraction(2), Fraction(2))

    def test_without_an_epsilon_there_is_none(self) -> None:
        learned = dict.fromkeys(
            rows(within("a", (0, 0)), within("a", (1, 1))), PrivacyLoss(rho=TENTH)
        )
        assert worst_off(learned) == PrivacyLoss(rho=TENTH)

    def test_deltas_add_up_wherever_they_are(self) -> None:
        learned = dict.fromkeys(
            rows(within("a", (0, 0)), within("a", (1, 1))),
            PrivacyLoss(TENTH, TENTH, Fraction(1, 10**9)),
        )
        assert worst_off(learned) == PrivacyLoss(TENTH, TENTH, Fraction(2, 10**9))

    def test_nothing_learned_is_no_loss(self) -> None:
        assert worst_off({}) == PrivacyLoss.none()
