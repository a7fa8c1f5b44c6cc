"""The rows of a table of persons, as a relation over the kept rows of its base table.

Each value is a function of the multiset of an id's kept rows: sums are whole numbers of ticks, and
where rows have an order, the secret order of an id's rows and then the codes of the value break
ties. So a row of the relation is the same in whichever order an engine reads the rows, and other
people's rows never change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpnb.engines.bounding import PRIME, order_of_rows
from dpnb.engines.dialect import clamp
from dpnb.engines.steps import literal
from dpnb.schema.columns import Kind, Real
from dpnb.schema.predicates import EVERY, Predicate
from dpnb.sql.features import Feature, Order, Per, Persons
from dpnb.sql.values import Column, Value, bounds_of
from dpnb.views.measures import sum_of

if TYPE_CHECKING:
    from dpnb.engines.dialect import Dialect


def persons_relation(sql: Dialect, persons: Persons, key: bytes, *, text: bool) -> str:
    """Return the relation of the rows of a table of persons; its columns are c0, c1, ... and u.

    Parameters
    ----------
    sql : Dialect
        Of the base table.
    persons : Persons
    key : bytes
        Secret key of the base table's order of rows.
    text : bool
        Whether its ids are texts.
    """
    rows = sql.relation(persons.columns)
    if persons.where != EVERY:
        rows = f"(SELECT * FROM {sql.only(rows, sql.predicate(persons.where), persons.columns)}) AS asked"
    values = [*map(sql.column, persons.keys), *(sql.value(key.codes) for key in persons.computed)]
    groups = ["u", *values]
    secret = _secret(sql, persons, key, text=text)
    packed = {one: _packed(sql, one, persons, secret) for one in persons.features if one.is_one_row}
    picks = [feature for feature, found in packed.items() if found is None]
    if picks:
        keys = ", ".join(groups)
        numbers = ", ".join(
            f"COUNT(*) OVER (PARTITION BY {keys}, {_asked(sql, feature)}) AS n{i}"
            for i, feature in enumerate(picks)
            if feature.per is Per.MODE
        )
        if numbers:
            rows = f"(SELECT *, {numbers} FROM {rows}) AS numbered"
        places = ", ".join(
            f"row_number() OVER (PARTITION BY {keys} ORDER BY "
            f"{', '.join([*_ordered(sql, feature, persons, f'n{i}'), *_ties(sql, feature, secret)])}) AS p{i}"
            for i, feature in enumerate(picks)
        )
        rows = f"(SELECT *, {places} FROM {rows}) AS placed"
    shown = [f"c{i}" for i in range(len(values))]
    for feature, kind in zip(persons.features, persons.feature_kinds(), strict=True):
        name = f"c{len(values)}"
        if found := packed.get(feature):
            number, code = found
            values.append(f"MIN({number})")
            name = f"{code.format(name)} AS {name}"
        elif feature.is_one_row:
            values.append(_picked(sql, feature, persons, f"p{picks.index(feature)}"))
        else:
            values.append(_computed(sql, feature, persons))
        if isinstance(kind, Real) and (not feature.is_one_row or feature.per is Per.MODE):
            # rounding may leave the bounds, on which the sensitivity rests
            name = f"{clamp(name, literal(kind.low), literal(kind.high))} AS {name}"
        shown.append(name)
    selected = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))
    grouped = f"SELECT u, {selected} FROM {rows} GROUP BY {', '.join(groups)}"
    return f"(SELECT u, {', '.join(shown)} FROM ({grouped}) AS grouped) AS persons"


def linked_relation(rows: str, columns: int, lines: Sequence[str], sizes: Sequence[int]) -> str:
    """Return the relation of some rows, each with the line of its id in other relations.

    Parameters
    ----------
    rows : str
        The relation of the rows, with ``columns`` columns c0, c1, ... and u.
    lines : sequence of str
        Relations with at most one row for each u, with as many columns as ``sizes`` says.
    """
    selected, joined, place = [f"own.c{i} AS c{i}" for i in range(columns)], "", columns
    for number, (line, size) in enumerate(zip(lines, sizes, strict=True)):
        selected.append(f"CASE WHEN l{number}.u IS NOT NULL THEN 0 END AS c{place}")
        selected += [f"l{number}.c{i} AS c{place + 1 + i}" for i in range(size)]
        joined += f" LEFT JOIN (SELECT * FROM {line}) AS l{number} ON own.u = l{number}.u"
        place += 1 + size
    chosen = ", ".join(["own.u AS u", *selected])
    return f"(SELECT {chosen} FROM (SELECT * FROM {rows}) AS own{joined}) AS linked"


def _secret(sql: Dialect, persons: Persons, key: bytes, *, text: bool) -> str:
    """Return the number from 0 to below the prime that orders rows of one id that are alike."""
    schema = persons.base.schema
    names = [*schema, *sorted(persons.columns - set(schema))]
    kinds: dict[str, Kind] = {sql.column(name): schema[name] for name in names}
    return order_of_rows(kinds, sql.id_number(text=text), key, (), sql.secret)


def _ties(sql: Dialect, feature: Feature, secret: str) -> list[str]:
    """Return the terms that order rows that are alike in a feature's own order."""
    columns = map(sql.column, sorted(_value(feature).columns))
    return [secret, *(f"{column} NULLS LAST" for column in columns)]


def _packed(
    sql: Dialect, feature: Feature, persons: Persons, secret: str
) -> tuple[str, str] | None:
    """Return a number that is least in the row that comes first, and the code of the value in it.

    The code is a template for the name of the least number, whose digits are the codes of the
    order, the secret and the code of the value. None if they do not fit into 63 bits: a window,
    which sorts all rows, takes several times as long.
    """
    schema, value = persons.base.schema, _value(feature)
    if feature.per is Per.MODE or not isinstance(value, Column):
        return None
    places = [*feature.order, (value.name, False, False)]
    if not all(schema[column].scale.integral for column, *_ in places):
        return None
    *order, own = (_digit(sql, schema[term[0]], term) for term in places)
    number, size = "0", 1
    for digit, count in (*order, (secret, PRIME), own):
        number, size = f"({number}) * {count} + {digit}", size * count
    if size > 2**63:
        return None
    last, low = f"{{0}} % {own[1]}", int(schema[value.name].scale.low)
    code = f"CASE WHEN {last} < {own[1] - 1} THEN {last} + ({low}) END"
    return _given(sql, feature.counted(schema), number), code


def _digit(sql: Dialect, kind: Kind, term: Order) -> tuple[str, int]:
    """Return a whole number that orders the rows by a column of whole numbers, and how many there are."""
    name, down, nulls_first = term
    code, low, high = (
        f"CAST({sql.column(name)} AS BIGINT)",
        int(kind.scale.low),
        int(kind.scale.high),
    )
    place = f"{high} - {code}" if down else f"{code} - ({low})"
    size = high - low + 1
    return (
        f"COALESCE({f'{place} + 1' if nulls_first else place}, {0 if nulls_first else size})",
        size + 1,
    )


def _ordered(sql: Dialect, feature: Feature, persons: Persons, number: str) -> list[str]:
    """Return the terms of a feature's own order; rows that do not count come last.

    ``number`` is the column with the number of rows that have the value, for MODE.
    """
    if feature.per is Per.MODE:
        value = _asked(sql, feature)
        return [f"CASE WHEN {value} IS NULL THEN 1 ELSE 0 END", f"{number} DESC", f"{value} ASC"]
    counted = feature.counted(persons.base.schema)
    first = [] if counted == EVERY else [f"CASE WHEN {sql.predicate(counted)} THEN 0 ELSE 1 END"]
    return [*first, *(_term(sql, term) for term in feature.order)]


def _term(sql: Dialect, term: Order) -> str:
    column, down, nulls_first = term
    return f"{sql.column(column)} {'DESC' if down else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _given(sql: Dialect, condition: Predicate, value: str) -> str:
    return value if condition == EVERY else f"CASE WHEN {sql.predicate(condition)} THEN {value} END"


def _asked(sql: Dialect, feature: Feature) -> str:
    """Return the value of a row, missing where the row does not count."""
    return _given(sql, feature.filter, sql.value(_value(feature)))


def _value(feature: Feature) -> Value:
    if feature.value is None:
        raise TypeError(f"{feature.per} of nothing")
    return feature.value


def _picked(sql: Dialect, feature: Feature, persons: Persons, place: str) -> str:
    """Return the value in the row that comes first."""
    value = _given(sql, feature.counted(persons.base.schema), sql.value(_value(feature)))
    return f"MIN(CASE WHEN {place} = 1 THEN {value} END)"


def _computed(sql: Dialect, feature: Feature, persons: Persons) -> str:
    """Return an aggregate of a group of rows, in whichever order they are."""
    if feature.per is Per.COUNT:
        if feature.value is None and feature.filter == EVERY:
            return "COUNT(*)"
        counted = "1" if feature.value is None else sql.value(feature.value)
        return f"COUNT({_given(sql, feature.filter, counted)})"
    value = _asked(sql, feature)
    match feature.per:
        case Per.DISTINCT:
            return f"COUNT(DISTINCT {value})"
        case Per.MIN | Per.EVERY:
            return f"MIN({value})"
        case Per.MAX | Per.SOME:
            return f"MAX({value})"
        case Per.MEDIAN:
            # engines interpolate in ways that differ in the last bit
            real = f"CAST({value} AS DOUBLE)"
            ends = (
                f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {real}{way})" for way in ("", " DESC")
            )
            return f"(({' + '.join(ends)}) / CAST(2 AS DOUBLE))"
    schema = persons.base.schema
    if bounds_of(_value(feature), schema).integral:
        total = f"CAST(SUM(CAST({value} AS BIGINT)) AS BIGINT)"
    else:
        measure = sum_of(_value(feature), schema, centred=False)
        ((ticks, _),) = sql.terms(measure, feature.filter)
        total = f"(CAST({ticks} AS DOUBLE) * {literal(float(measure.step))})"
    if feature.per is Per.SUM:
        return total
    # the divisor is never 0: without a value the sum is missing
    return f"(CAST({total} AS DOUBLE) / CAST(NULLIF(COUNT({value}), 0) AS DOUBLE))"
