"""Views, read back from the public definitions in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpnb.codes import Interval, Scale
from dpnb.schema import partition, predicates
from dpnb.schema.schema import Schema
from dpnb.sql.canonical import read_value
from dpnb.sql.values import Column
from dpnb.views.histogram import Histogram, Strategy, axis
from dpnb.views.measures import Count, Distinct, Measure, Units, read_sum
from dpnb.views.view import View


def read_view(definition: Mapping[str, Any], schema: Schema) -> View:
    """Build a view from its :meth:`View.definition` and the schema of its table's version.

    Raises
    ------
    ValueError
        If the view does not fit the schema.
    """
    table, version = str(definition["table"]), int(definition["version"])
    where = predicates.read(definition["where"])
    if "histogram" in definition:
        axes = tuple(
            axis(column, schema[column], _bins(bins, schema[column].scale))
            for column, bins in definition["histogram"]
        )
        matrix = definition["strategy"]
        strategy = None if matrix is None else Strategy(tuple(map(tuple, matrix)))
        view_name = ", ".join(definition["keys"])
        return Histogram(
            table, version, axes, where, Count(None), schema=schema,
            name=view_name, strategy=strategy,
        )  # fmt: skip
    keys = tuple(partition.read(key, schema) for key in definition["keys"])
    measure, line = _measure(definition["measure"], schema), str(definition.get("line", ""))
    return View(table, version, keys, where, measure, line=line, schema=schema)


def _measure(data: Sequence[Any], schema: Schema) -> Measure:
    value = read_value(data[1])
    if data[0] == "units" and schema.unit is not None:
        return Units(int(data[2]), bool(data[3]))
    if data[0] == "count":
        return Count(value)
    if data[0] == "distinct" and isinstance(value, Column):
        return Distinct(value, *map(int, data[2:]))
    if data[0] == "sum" and value is not None:
        return read_sum(data, value, schema)
    raise ValueError("this measure fits no declared column")


def _bins(data: Mapping[str, Sequence[Any]], scale: Scale) -> list[Interval]:
    if "each" in data:
        first, last = data["each"]
        return [(code, code) for code in range(first, last + 1)]
    stops = data["to"]
    starts = [*data["from"], *(scale.next(stop) for stop in stops[:-1])]
    return list(zip(starts, stops, strict=True))
