"""From the text of a statement to a ``Query``.

sqlglot parses the text, and an allow-list of shapes decides what is accepted. Anything else is
refused with its position and a hint. Refusals depend on public facts only and come before any
access to data. The text itself is never run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlglot import expressions as exp

from dpnb.errors import SqlError, given
from dpnb.schema.predicates import EVERY, And, Predicate, simplify
from dpnb.schema.table import Table
from dpnb.sql.aggregates import Aggregates
from dpnb.sql.conditions import Conditions
from dpnb.sql.constants import Constants
from dpnb.sql.contributions import Contributions
from dpnb.sql.correlated import check_correlated
from dpnb.sql.expressions import Arguments
from dpnb.sql.having import HavingReader
from dpnb.sql.keys import Keys
from dpnb.sql.levels import LevelReader, aggregated, check_rows
from dpnb.sql.members import listed
from dpnb.sql.persons import PersonsReader, name_keys, name_results
from dpnb.sql.public import Evaluate
from dpnb.sql.quantiles import spread
from dpnb.sql.query import Key, Query, Union
from dpnb.sql.quoting import meant, names_of
from dpnb.sql.relations import read_from
from dpnb.sql.results import combined
from dpnb.sql.rewriting import chosen, counted, filtered, rewritten, turned
from dpnb.sql.silence import silent
from dpnb.sql.source import Node, Source, others
from dpnb.sql.spellings import spelled
from dpnb.sql.split import Splitter
from dpnb.sql.substitution import substituted
from dpnb.sql.union import parts, several_error, united

_HINTS = {
    "laterals": ("LATERAL is not supported", "Write one SELECT over one table."),
    "into": ("INTO is not supported", "Leave INTO out."),
    "sample": ("sampling is not supported", "Leave it out; noise is added for you."),
    "hint": ("hints are not supported", "Leave the hint out."),
    "locks": ("FOR UPDATE is not supported", "Leave it out."),
}


def parse(
    text: str,
    tables: Mapping[str, Table],
    params: Mapping[str, object] | None = None,
    *,
    deciding: bool = False,
    thresholds: Collection[str] = (),
    answering: bool = False,
    public: Evaluate | None = None,
) -> Query:
    """Read one statement.

    Parameters
    ----------
    text : str
        At most 20,000 characters; one SELECT over one table and the tables looked up from its rows.
        A closing ``;`` is allowed.
    tables : mapping of str to Table
        The catalogue; only declarations are used.
    params : mapping, optional
        Values of the bound parameters ``:name`` (str, int, float or date).
    deciding : bool
        Whether the statement is for a decision, which allows COUNT(DISTINCT column).
    thresholds : collection of str
        Parameters of HAVING that stand for another number in each group.
    answering : bool
        Whether the statement is for an answer. Only then may it say in OPTIONS which epsilon it
        asks for, and list groups without an aggregate.
    public : callable, optional
        Returns the rows of a subquery over public tables.

    Returns
    -------
    Query

    Raises
    ------
    SqlError
        With line, column, the offending text and what to write instead.
    """
    found = _parsed(text, tables, params, deciding, thresholds, answering, public)
    if isinstance(found, Union):
        raise several_error()
    return found


def answered(
    text: str,
    tables: Mapping[str, Table],
    params: Mapping[str, object] | None = None,
    public: Evaluate | None = None,
) -> Query | Union:
    """Read a statement for an answer, which may be several combined by UNION ALL or sets of keys."""
    return _parsed(text, tables, params, False, (), True, public)


@silent()
def _parsed(
    text: str,
    tables: Mapping[str, Table],
    params: Mapping[str, object] | None,
    deciding: bool,
    thresholds: Collection[str],
    answering: bool,
    public: Evaluate | None,
) -> Query | Union:
    if params is not None and not isinstance(params, Mapping):
        raise SqlError(
            f"params must be a dict, got {given(params)}", "Pass params={'name': value}."
        )
    Source(text)

    def read(mended: str) -> Query | Union:
        source = Source(mended)
        try:
            written = turned(source, tables, combined(source, tables, source.tree()))
            if public is not None:
                written = filtered(tables, written)
            written = chosen(source, written)
            written = listed(tables, written)
            check_correlated(source, written)
            if isinstance(written, exp.Select):
                written = counted(source, tables, written)
            written = spelled(source, written)
            tree = substituted(source, tables, written, public, params)
            found = parts(source, tables, written, tree, Constants(source, params or {}))
            if deciding and found.several:
                raise several_error()
            queries: list[Query] = []
            for part in found.listed:
                statement = _Statement(
                    source, tables, params or {}, thresholds, deciding, answering
                )
                queries.append(statement.query(part.select, part.written, inner=found.several))
            if found.several:
                union = united(source, found, queries, Arguments(statement.conditions))
                source.check()
                return union
            (query,) = queries
        except RecursionError:
            raise SqlError("the statement is nested too deeply", "Flatten it.") from None
        if query.promise is not None and not answering:
            raise SqlError(
                "only a query takes its privacy cost from OPTIONS",
                "Leave epsilon and delta out of OPTIONS.",
            )
        source.check()
        return query

    try:
        return read(text)
    except SqlError as error:
        failure = meant(error, text, names_of(tables), read)
    raise failure


class _Statement:
    """Reader of one SELECT."""

    conditions: Conditions

    def __init__(
        self,
        source: Source,
        tables: Mapping[str, Table],
        params: Mapping[str, object],
        thresholds: Collection[str],
        deciding: bool,
        answering: bool,
    ) -> None:
        self.refuse = source.refuse
        self.source = source
        self.tables = tables
        self.params = params
        self.thresholds = thresholds
        self.deciding = deciding
        self.answering = answering

    def query(self, select: exp.Select, written: exp.Select, *, inner: bool = False) -> Query:
        """Read a statement, also one that computes with the results of a query in FROM."""
        units = (table.unit for table in self.tables.values())
        ids = {unit.column.casefold() for unit in units if unit is not None}
        results = None if self.deciding else aggregated(select, ids)
        if results is None:
            return self.released(select, written, inner=inner)
        query = self.query(results, written, inner=True)
        reader = LevelReader(self.conditions, Arguments(self.conditions), query.shown.outermost)
        return replace(query, shown=query.shown.then(reader.read(select)))

    def released(self, select: exp.Select, written: exp.Select, *, inner: bool) -> Query:
        """Read a statement over a table."""
        check_rows(self.source, select)
        clauses = (
            "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
            "qualify", "windows", "distinct", "kind",
        )  # fmt: skip
        for name in others(select.args, *clauses):
            what, hint = _HINTS.get(
                name, (f"{name.strip('_').upper()} is not supported", "Leave it out.")
            )
            value = select.args[name]
            node = value[0] if isinstance(value, list) else value
            self.refuse(what, hint, node)
        if select.args.get("kind"):
            self.refuse("SELECT AS is not supported", "List the columns.", select)
        select.set("expressions", spread(self.source, select.expressions))
        persons = PersonsReader(self.source, self.tables, self.params)
        scope = read_from(self.source, self.tables, select, persons.relation)
        name_results(select, scope.relations)
        self.schema = scope.base.schema
        self.conditions = Conditions(self.source, scope, self.params)
        of_keys = rewritten(self.source, select, self.conditions)
        name_keys(select, scope.relations)
        contributions = Contributions(self.source, scope, written)
        aggregates = Aggregates(self.conditions, contributions)
        where = self.where(scope.condition, (*scope.present, of_keys))
        aggregates.arguments.rows = where
        keys = Keys(self.conditions, select.args.get("group"), where)
        aggregates.statistics.keys = keys.keys
        splitter = Splitter(aggregates, keys, deciding=self.deciding, inner=inner)
        split = splitter.read(select)
        if not (split.aggregates or split.derived or self.deciding):
            self.check_listed(select, split.keys, inner=inner)
        having = select.args.get("having") if self.deciding else None
        reader = HavingReader(aggregates, self.thresholds)
        return Query(
            table=scope.base.name,
            keys=split.keys,
            aggregates=split.aggregates,
            where=where,
            having=None if having is None else reader.read(having.this, split.aggregates),
            shown=split.shown,
            derived=split.derived,
            promise=contributions.promise(split.keys),
            undeclared=tuple(self.conditions.domains.undeclared.items()),
            schema=self.schema,
        )

    def check_listed(self, select: exp.Select, keys: Sequence[Key], *, inner: bool) -> None:
        """Refuse a statement without an aggregate, unless as a whole it asks for declared groups."""
        hint = "Add COUNT(*), SUM(x) or AVG(x)."
        if not keys:
            self.refuse("this statement asks for no result", hint, select)
        if inner or not self.answering:
            self.refuse("only a whole query lists groups without an aggregate", hint, select)

    def where(self, node: Node | None, present: Sequence[Predicate]) -> Predicate:
        """Combine the condition of WHERE with those of joins that drop rows, and of HAVING on keys."""
        written = EVERY if node is None else self.conditions.predicate(node)
        return simplify(And((*present, written)), self.schema)
