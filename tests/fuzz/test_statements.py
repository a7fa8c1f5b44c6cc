"""Random statements are answered as they mean, or refused in words; and the check would see if not.

The long form is ``python -m tests.fuzz.run --statements 1000000``.
"""

from __future__ import annotations

import re
from contextlib import closing
from fractions import Fraction

import pytest

from dpnb import Integer
from dpnb.engines import dialect, duckdb, normaliser
from dpnb.errors import SqlError
from dpnb.estimation import formula, quantile
from dpnb.schema import partition
from dpnb.schema.predicates import EVERY
from dpnb.schema.table import Table
from dpnb.sql import conditions, constants, relations, statistics
from dpnb.sql.expressions import Arguments
from dpnb.views import view
from tests.fuzz import run
from tests.fuzz.features import SEED, Features, choose
from tests.fuzz.run import FULL, TWINS, Report, Tables, chosen_of, examine, examine_chosen, size_of
from tests.fuzz.statements import BLOCK, statement
from tests.kit.one_database import one_database  # noqa: F401

WORLD_NAMES = ("plain", "sales", "people")


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_statements_are_answered_as_they_mean_or_refused_in_words(world):
    report = examine_chosen(SEED, world)
    choices = choose(SEED, world)
    asked = {kind: len(choice.numbers) for kind, choice in choices.items()}
    assert not report.failures
    assert report.counts["asked"] == sum(asked.values())
    assert report.counts["compared with the reference"] > 0.9 * asked["valid"]
    assert report.counts["compared with DuckDB"] > 0.04 * asked["mutated"]
    assert report.counts["compared with other data"] > 0.08 * report.counts["asked"]
    assert report.counts["refused, valid"] < 0.05 * asked["valid"]


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_as_many_features_meet_in_few_statements_as_in_many_random_ones(world):
    for kind, choice in choose(SEED, world).items():
        print(choice)
        assert choice.coverage >= 0.995 * choice.expected, kind


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_a_feature_that_is_no_longer_written_is_missed(world):
    choice = choose(SEED, world)["valid"]
    assert len(choice.register.features) > 110
    for feature in choice.register.features:
        left = choice.register.without(feature, choice.pairs).bit_count()
        assert left < 0.995 * choice.expected, feature


def is_found(problem, world, features):
    """Whether a problem is found in the chosen statements with some features, where tables are full."""
    valid = set(choose(SEED, world)["valid"].numbers)
    compared = "other data" in problem
    for number, asked in chosen_of(SEED, world).items():
        if size_of(SEED, number) < FULL or compared != (number // BLOCK % TWINS == 0):
            continue
        with_them = [
            one
            for one in asked
            if one in valid and features <= Features.of(statement(SEED, one)).found
        ]
        if not with_them:
            continue
        tables, report = Tables(SEED, number), Report()
        with closing(tables):
            for one in with_them:
                tables.ask(one, report)
                if any(re.search(problem, text) for _, _, text in report.failures):
                    return True
    return False


def a_number_is_a_thousandth_too_large(patch):
    number = Arguments.number
    patch.setattr(
        Arguments, "number", lambda self, node: number(self, node) * Fraction(1_001, 1_000)
    )


def not_above_is_below(patch):
    patch.setitem(conditions.NEGATED, ">", "<")


def between_leaves_out_its_end(patch):
    compare = conditions.Conditions._compare

    def wrong(self, column, operator, node):
        return compare(self, column, "<" if operator == "<=" else operator, node)

    patch.setattr(conditions.Conditions, "_compare", wrong)


def a_filter_is_forgotten(patch):
    terms = dialect.Dialect.terms
    patch.setattr(
        dialect.Dialect, "terms", lambda self, measure, *_, **__: terms(self, measure, EVERY)
    )


def the_upper_bound_is_one_too_low(patch):
    patch.setattr(
        normaliser,
        "_within",
        lambda value, low, high: f"LEAST(GREATEST({value}, {low}), {high} - 1)",
    )


def bins_hold_their_left_ends(patch):
    intervals = partition._intervals

    def wrong(kind):
        found = intervals(kind)
        if not isinstance(kind, Integer) or kind.bins is None:
            return found
        pairs = zip(kind.bins[:-1], kind.bins[1:], strict=True)
        return [(low, high - (high != kind.bins[-1])) for low, high in pairs]

    patch.setattr(partition, "_intervals", wrong)
    # kept ones are right
    patch.setattr(partition, "_declared", partition._declared.__wrapped__)


def rows_that_lack_a_value_are_kept(patch):
    patch.setattr(Table, "needed", ())


def averages_are_over_all_rows(patch):
    patch.setattr(view, "Count", lambda value: views_count(None))


views_count = view.Count


def a_difference_is_a_sum(patch):
    patch.setitem(formula._OPERATIONS, "-", lambda a, b: a + b)


def a_sample_is_a_population(patch):
    for node, (name, _, root) in list(statistics._VARIANCES.items()):
        patch.setitem(statistics._VARIANCES, node, (name, False, root))


def quantiles_are_told_one_cell_too_high(patch):
    reached = quantile._reached

    def wrong(above, halves, share):
        first, last = reached(above, halves, share)
        return min(first + 1, len(above)), min(last + 1, len(above))

    patch.setattr(quantile, "_reached", wrong)


def rows_without_a_match_are_left_out(patch):
    check = relations.check_join
    patch.setattr(relations, "check_join", lambda source, node: check(source, node) or True)


def an_unexpected_exception(patch):
    def wrong(self, text, node):
        raise ZeroDivisionError("planted") if "e" in text else ValueError("planted")

    patch.setattr(constants.Constants, "_number", wrong)


def a_refusal_tells_of_the_data(patch):
    measure = duckdb.DuckDBEngine.measure

    def wrong(self, scan):
        exact = measure(self, scan)
        if sum(exact.reveal(0)) % 2:
            raise SqlError("this expression is not supported", "Ask for something else.")
        return exact

    patch.setattr(duckdb.DuckDBEngine, "measure", wrong)


def a_failing_engine(patch):
    patch.setattr(dialect.Dialect, "over", lambda self, left, right: f"({left} / nothing)")


def a_hang(patch):
    predicate = conditions.Conditions.predicate

    def wrong(self, node):
        if "in" in node.sql().casefold():
            while True:
                pass
        return predicate(self, node)

    patch.setattr(conditions.Conditions, "predicate", wrong)
    patch.setattr(run, "SECONDS", 0.2)


WRONG = "is not within|is far from|misses|is told of|cells .* miss"
OUTER = "FROM sales s LEFT JOIN items p USING (item)"
PLANTED = {
    a_number_is_a_thousandth_too_large: ({"value number"}, WRONG),
    not_above_is_below: ({"WHERE not", "WHERE >"}, WRONG),
    between_leaves_out_its_end: (set(), WRONG),
    a_filter_is_forgotten: ({"FILTER"}, WRONG),
    the_upper_bound_is_one_too_low: ({"SUM"}, WRONG),
    bins_hold_their_left_ends: ({"group column 0.i"}, WRONG),
    rows_that_lack_a_value_are_kept: ({"COUNT(*)"}, WRONG),
    averages_are_over_all_rows: ({"AVG"}, WRONG),
    a_difference_is_a_sum: ({"formula -"}, WRONG),
    a_sample_is_a_population: ({"VAR_SAMP"}, WRONG),
    quantiles_are_told_one_cell_too_high: ({"MEDIAN"}, WRONG),
    rows_without_a_match_are_left_out: ({OUTER}, WRONG),
    an_unexpected_exception: ({"WHERE ="}, "Error: planted"),
    a_refusal_tells_of_the_data: (set(), "other data: .* became"),
    a_failing_engine: ({"value /"}, "EngineError"),
    a_hang: ({"WHERE in"}, "takes more than"),
}
"""The features of the statements that find it, and what they find."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_is_wrong_is_found(plant, monkeypatch):
    features, problem = PLANTED[plant]
    choose(SEED, "plain")
    plant(monkeypatch)
    assert is_found(problem, "sales" if OUTER in features else "plain", features)


def test_nothing_is_found_without_anything_wrong():
    assert not examine(2, range(BLOCK)).failures


def test_a_number_makes_its_statement_again():
    assert statement(5, 12_345) == statement(5, 12_345)
    texts = {statement(5, number).text for number in range(500)}
    assert len(texts) > 450
    assert texts.isdisjoint(
        statement(6, number).text for number in range(500) if len(statement(6, number).text) > 60
    )
