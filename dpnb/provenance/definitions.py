"""Reads views back from the public definitions that the ledger keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpnb.engines.base import Axis, Count, Measure, sum_of
from dpnb.provenance.histograms import Histogram, Strategy
from dpnb.provenance.views import View
from dpnb.scale import Interval, Scale
from dpnb.schema import Schema
from dpnb.sql.canonical import read_predicate, read_value


def read_view(definition: Mapping[str, Any], schema: Schema) -> View:
    """Build a view from its :meth:`View.definition` and the schema of its data version.

    Raises
    ------
    ValueError
        When the schema has no place for it.
    """
    table, version = str(definition["table"]), int(definition["version"])
    keys, where = tuple(definition["keys"]), read_predicate(definition["where"])
    if "histogram" in definition:
        axes = tuple(
            Axis(column, _cells(cells, schema[column].scale))
            for column, cells in definition["histogram"]
        )
        matrix = definition["strategy"]
        strategy = None if matrix is None else Strategy(tuple(map(tuple, matrix)))
        made = ", ".join(keys)
        return Histogram(
            table, version, keys, where, Count(None), name=made, axes=axes, strategy=strategy
        )
    return View(table, version, keys, where, _measure(definition["measure"], schema))


def _measure(data: Sequence[Any], schema: Schema) -> Measure:
    value = read_value(data[1])
    if data[0] == "count":
        return Count(value)
    if value is not None:
        for centred in (False, True):
            made = sum_of(value, schema, centred=centred)
            if made.definition() == list(data):
                return made
    raise ValueError("this measure fits no declared column")


def _cells(data: Mapping[str, Sequence[Any]], scale: Scale) -> tuple[Interval, ...]:
    if "each" in data:
        first, last = data["each"]
        return tuple((code, code) for code in range(first, last + 1))
    stops = data["to"]
    starts = [*data["from"], *(scale.next(stop) for stop in stops[:-1])]
    return tuple(zip(starts, stops, strict=True))
