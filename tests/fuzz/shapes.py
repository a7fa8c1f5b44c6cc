"""Shapes of random statements: what is in FROM, what is released of it, and what is shown of that."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.grammar import (
    Asked,
    Column,
    Expressions,
    Pair,
    Result,
    Scope,
    Shown,
    columns_of,
    put,
    same,
)  # fmt: skip

_DOUBLES = (
    "/",
    "FLOOR",
    "CEIL",
    "ROUND",
    "TRUNC",
    "SQRT",
    "LN",
    "EXP",
    "POWER",
    "^",
    "DOUBLE",
    "DECIMAL",
)
TESTS = ["{w} > 2", "{w} <= 5", "{w} BETWEEN 1 AND 9", "{w} <> 3", "{w} IN (1, 2, 3, 5)", "{w} % 2 = 0",
         "{w} * 2 > {v}", "NOT {w} > 4", "{w} > 1 OR {v} < 3", "{w} >= 1 AND {v} > 0"]  # fmt: skip
NUMBERS = ["{a} + 1", "{a} * 2 - {b}", "{a} / NULLIF({w}, 0)", "ROUND({w} / 4, 1)", "ABS({a} - 3)",
           "SIGN({w} - 3)", "FLOOR({w} / 3)", "{w} % 3", "{w} // 2", "COALESCE({a}, 0)", "GREATEST({a}, 1)",
           "LEAST({w}, {v})", "CASE WHEN {w} > 2 THEN {a} ELSE 0 END", "SQRT(ABS({a}))", "CEIL({w} / 2)",
           "LN(ABS({a}) + 1)", "POWER({w}, 2)", "IF({w} > 2, {a}, {b})", "-{a}", "({a} - {b}) / 2",
           "TRUNC({w} / 3)", "CASE WHEN {w} > 2 THEN 1 WHEN {w} > 0 THEN 2 END", "CAST({w} AS DOUBLE) / 4",
           "NULLIF({w}, 3)", "EXP({a} / 100)", "LOG(ABS({w}) + 1)"]  # fmt: skip
WINDOWS = ["SUM({w}) OVER ()", "{w} / NULLIF(SUM({w}) OVER (), 0)", "SUM({w}) OVER (ORDER BY {keys})",
           "{w} - LAG({w}) OVER (ORDER BY {keys})", "LEAD({w}) OVER (ORDER BY {keys})",
           "RANK() OVER (ORDER BY {w} DESC)", "ROW_NUMBER() OVER (ORDER BY {w}, {keys})",
           "DENSE_RANK() OVER (ORDER BY {w})", "COUNT(*) OVER ()", "MAX({w}) OVER (PARTITION BY {k})",
           "FIRST_VALUE({w}) OVER (ORDER BY {keys})", "AVG({w}) OVER (PARTITION BY {k})",
           "LAG({w}, 2) OVER (ORDER BY {keys} DESC)", "MIN({w}) OVER (ORDER BY {keys})",
           "SUM({w}) OVER (PARTITION BY {k} ORDER BY {keys})"]  # fmt: skip
TOTALS = ["SUM({w})", "AVG({w})", "MIN({w})", "MAX({w})", "COUNT(*)", "COUNT(*) FILTER (WHERE {w} > 2)",
          "SUM({w}) FILTER (WHERE {w} > 1)", "MAX({w}) - MIN({w})", "COUNT({w})", "SUM({w}) / 4",
          "SUM(CASE WHEN {w} > 2 THEN 1 ELSE 0 END)", "ROUND(AVG({w}), 1)"]  # fmt: skip
PAIRS = (
    "{x} {s} {y}", "NOT {x} {s} {y}", "{x} + 2 {s} {y}", "({x} {s} {y}) IS NOT TRUE", "{x} BETWEEN {y} AND {y} + 3",
    "{x} IS DISTINCT FROM {y}", "ABS({x} - {y}) {s} 4", "CASE WHEN {x} {s} {y} THEN {x} > 1 ELSE {y} > 3 END",
)  # fmt: skip
"""Conditions on two columns."""
SUBQUERIES = ["{shop} IN (SELECT shop FROM shops WHERE price > 3)", "{wage} > (SELECT AVG(price) FROM shops)",
              "{shop} IN (SELECT shop FROM shops JOIN makers USING (maker) WHERE land = 'Peru')",
              "EXISTS (SELECT 1 FROM makers WHERE land = 'Mali')", "{age} < (SELECT MAX(price) FROM shops)",
              "{shop} NOT IN (SELECT shop FROM shops WHERE kind = 'tool')",
              "{shop} = ANY (SELECT shop FROM shops WHERE price IS NOT NULL)"]  # fmt: skip


class Writer(Expressions):
    """Writes one statement after the other; ``features`` are those of the last one."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.count = 0

    def named(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def noted(self, kind: str, options: Sequence[str]) -> str:
        return self.form(kind, options)

    # FROM

    def source(self) -> Scope:
        """Return FROM."""
        shape = self.pick(["table"] * 4 + ["look-up"] * 2 + ["chain", "people", "query", "query", "cte", "persons", "persons", "persons", "persons and rows", "levels"])  # fmt: skip
        self.features.add(f"FROM {shape}")
        if shape == "table":
            return self.table()
        if shape in ("look-up", "chain"):
            return self.looked_up(chain=shape == "chain")
        if shape == "people":
            kind = self.pick(["JOIN", "LEFT JOIN"])
            columns = [*columns_of("visits", "v"), *columns_of("people", "p")]
            text = f"visits v {kind} people p ON v.id = p.id"
            return Scope(Pair(text, text), columns, ids="v.id", unit=True)
        if shape == "persons":
            return self.persons()
        if shape == "persons and rows":
            return self.persons_and_rows()
        if shape == "levels":
            return self.levels()
        return self.projected(cte=shape == "cte")

    def table(self) -> Scope:
        name = self.pick(["visits", "sales"])
        label = self.pick(["", "", "t"])
        text = f"{name} {label}".strip()
        unit = name == "visits"
        ids = f"{label}.id" if label else "id"
        return Scope(Pair(text, text), columns_of(name, label), ids=ids if unit else "", unit=unit)

    def looked_up(self, *, chain: bool) -> Scope:
        name = self.pick(["visits", "sales"])
        columns = [*columns_of(name, "v"), *columns_of("shops", "s", ["shop"])]
        unit = name == "visits"
        kind = self.pick(["JOIN", "LEFT JOIN"])
        text = f"{name} v {kind} shops s ON v.shop = s.shop"
        if not chain and self.chance(0.2):
            text = f"{name} v, shops s"
            ids = "v.id" if unit else ""
            return Scope(Pair(text, text), columns, ids=ids, unit=unit, where="v.shop = s.shop")
        if chain:
            text += f" {self.pick(['JOIN', 'LEFT JOIN'])} makers m ON s.maker = m.maker"
            columns += columns_of("makers", "m", ["maker"])
        return Scope(Pair(text, text), columns, ids="v.id" if unit else "", unit=unit)

    def projected(self, *, cte: bool) -> Scope:
        """Return a query that filters and computes."""
        inner = self.table() if self.chance(0.6) else self.looked_up(chain=self.chance(0.3))
        items, columns, name = [], [], self.named("q")
        for column in self.rng.sample(inner.columns, self.rng.randint(2, 5)):
            alias = self.named("x")
            if self.chance(0.5) or not column.listed:
                text, holds, bins = (
                    column.name,
                    column.holds,
                    column.bins.replace(column.name, alias),
                )
            else:
                holds = self.pick(["number", column.holds]) if column.holds != "real" else "real"
                text, bins = self.value(column, holds), ""
            items.append(f"{text} AS {alias}")
            columns.append(Column(alias, holds, column.base, column.listed, bins))
        if inner.unit:
            items.append(f"{inner.ids} AS id")
        tests = self.where(inner, 0.5)
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        query = f"SELECT {', '.join(items)} FROM {inner.source.text}{where}"
        if cte:
            scope = Scope(
                Pair(name, name), columns, [Pair(f"{name} AS ({query})", f"{name} AS ({query})")]
            )
        else:
            scope = Scope(same(f"({query}) AS {name}"), columns)
        scope.ids, scope.unit = ("id" if inner.unit else ""), inner.unit
        return scope

    def aggregate_of_person(self, inner: Scope) -> tuple[str, str]:
        """Return an aggregate of a person's rows, and what it holds."""
        numbers = [c for c in inner.columns if c.holds == "number" and c.listed]
        column = self.pick(numbers)
        x, test = column.name, self.test(self.pick([c for c in inner.columns if c.listed]))
        order = next((c.name for c in inner.columns if c.name.endswith("step")), "")
        forms = ["COUNT(*)", "COUNT({x})", "SUM({x})", "MIN({x})", "MAX({x})", "COUNT_IF({c})",
                 "SUM({x}) FILTER (WHERE {c})", "COUNT(DISTINCT {x})", "COUNT(*) FILTER (WHERE {c})",
                 "MODE() WITHIN GROUP (ORDER BY {x})", "SUM({e})", "SUM(CASE WHEN {c} THEN 1 ELSE 0 END)", "MAX({x}) - MIN({x})", "SUM({x}) + COUNT(*)"]  # fmt: skip
        forms += (
            ["FIRST({x} ORDER BY {o})", "LAST({x} ORDER BY {o})", "ARG_MAX({x}, {o})"]
            if order
            else []
        )
        form = self.noted(
            "of a person", [*forms, "AVG({x})", "BOOL_AND({c})", "BOOL_OR({c})", "MEDIAN({x})"]
        )
        value = self.number(column, 1)
        if "{e}" in form and any(word in value for word in _DOUBLES):
            # sums of doubles have no texts of their own
            value = x
        text = form.format(x=x, c=test, e=value, o=order)
        several = form in ("MAX({x}) - MIN({x})", "SUM({x}) + COUNT(*)")
        holds = (
            "mean"
            if form[:3] in ("AVG", "MED") or several
            else "truth"
            if form.startswith("BOOL")
            else "number"
        )
        return text, holds

    def grouped(self, inner: Scope, key: Column | None) -> tuple[Pair, list[Column]]:
        """Return a query with a row for each person, or each person and value of a column."""
        items = [same(f"{inner.ids} AS id")]
        columns = []
        if key is not None:
            alias = self.named("x")
            made = key.name
            if key.holds == "number" and self.chance(0.4):
                made = self.noted("key of persons", ["{x} // 3", "ABS({x}) % 4"]).format(x=key.name)
            items.append(same(f"{made} AS {alias}"))
            columns.append(Column(alias, key.holds, frozenset({alias}), key.listed))
        for _ in range(self.rng.randint(1, 3)):
            alias = self.named("a")
            text, holds = self.aggregate_of_person(inner)
            # DuckDB's COUNT_IF of missing values is missing
            text = f"CAST({text} AS INTEGER)" if holds == "truth" else text
            ref = text.replace("COUNT_IF(", "COUNT(*) FILTER (WHERE ", 1)
            items.append(Pair(f"{text} AS {alias}", f"{ref} AS {alias}"))
            columns.append(Column(alias, "number" if holds == "truth" else holds, frozenset({alias}), holds != "mean"))  # fmt: skip
        tests = self.where(inner, 0.3)
        end = f" WHERE {' AND '.join(tests)}" if tests else ""
        end += f" GROUP BY {inner.ids}" + (f", {made}" if key is not None else "")
        if self.chance(0.3):
            self.features.add("HAVING of persons")
            having = self.pick(
                [
                    "COUNT(*) >= 2",
                    "COUNT(*) BETWEEN 1 AND 3",
                    "SUM({x}) > 3",
                    "MAX({x}) < 9 OR COUNT(*) = 1",
                ]
            )
            end += " HAVING " + having.format(
                x=self.pick([c.name for c in inner.columns if c.holds == "number"])
            )
        texts = ", ".join(item.text for item in items), ", ".join(item.ref for item in items)
        return Pair(*(f"SELECT {one} FROM {inner.source.text}{end}" for one in texts)), columns

    def people_rows(self) -> Scope:
        inner = self.table()
        while not inner.unit:
            inner = self.table()
        return inner

    def persons(self) -> Scope:
        inner = self.people_rows()
        keys = [c for c in inner.columns if c.listed and not c.bins and "step" not in c.name]
        key = self.pick(keys) if self.chance(0.25) else None
        query, columns = self.grouped(inner, key)
        name = self.named("p")
        if self.chance(0.5):
            scope = Scope(Pair(name, name), columns, [put(f"{name} AS ({{}})", query)])
        else:
            scope = Scope(put(f"({{}}) AS {name}", query), columns)
        scope.persons = scope.unit = True
        return scope

    def persons_and_rows(self) -> Scope:
        """Return rows with what their persons have."""
        query, columns = self.grouped(replace(self.people_rows(), source=Pair("visits", "visits"), columns=columns_of("visits"), ids="id"), None)  # fmt: skip
        table = self.pick(["visits", "people"])
        source = put(f"{table} r JOIN ({{}}) AS p ON r.id = p.id", query)
        shown = [*columns_of(table, "r"), *(replace(c, name=f"p.{c.name}") for c in columns)]
        return Scope(source, shown, unit=True, persons=True)

    def levels(self) -> Scope:
        """Return persons made of persons with a second key."""
        inner = self.people_rows()
        key = self.pick(
            [c for c in inner.columns if c.listed and not c.bins and "step" not in c.name]
        )
        query, columns = self.grouped(inner, key)
        first = self.named("p")
        scope = Scope(Pair(first, first), columns, ids="id", unit=True)
        if not any(c.holds == "number" and c.listed for c in columns):
            return self.persons()
        second, found = self.grouped(scope, None)
        name = self.named("p")
        ctes = [put(f"{first} AS ({{}})", query), put(f"{name} AS ({{}})", second)]
        return Scope(Pair(name, name), found, ctes, persons=True, unit=True)

    def value(self, column: Column, holds: str) -> str:
        if holds == "number" or not column.listed:
            return self.number(column)
        return self.text(column) if holds == "text" else self.date(column)

    def where(self, scope: Scope, share: float) -> list[str]:
        """Return the parts of a condition that must all be true."""
        tests = [scope.where] if scope.where else []
        columns = [c for c in scope.columns if c.holds in ("number", "text", "date", "real")]
        while columns and self.chance(share) and len(tests) < 3:
            test = self.test(self.pick(columns))
            if self.chance(0.2):
                test = f"({test} OR {self.test(self.pick(columns))})"
            numbers = [c.name for c in columns if c.holds in ("number", "real")]
            if numbers and self.chance(0.15):
                form = self.noted("two columns", PAIRS)
                test = form.format(x=self.pick(numbers), y=self.pick(numbers), s=self.pick("<>="))
            tests.append(test)
        names = {c.name.split(".")[-1]: c.name for c in scope.columns}
        if {"shop", "wage", "age"} <= {*names} and self.chance(0.12):
            tests.append(self.noted("subquery", SUBQUERIES).format_map(names))
        if scope.ids and self.chance(0.08):
            self.features.add("ids in a list")
            having = self.pick(["COUNT(*) >= 2", "SUM(age) > 9", "MAX(step) > 12 AND COUNT(*) < 4"])
            lists = [
                f"{scope.ids} {word} (SELECT id FROM visits GROUP BY id HAVING {having})"
                for word in ("IN", "NOT IN")
            ]
            if "." in scope.ids:
                lists.append(
                    f"NOT EXISTS (SELECT 1 FROM visits z WHERE z.id = {scope.ids} AND z.age > 9)"
                )
            tests.append(self.pick(lists))
        return tests

    # what is released

    def key(self, scope: Scope) -> tuple[str, str, bool, Column]:
        """Return a key, what it is for DuckDB, whether it is a bin, and its column."""
        column = self.pick([c for c in scope.columns if c.listed or c.bins] or scope.columns)
        if (self.chance(0.45) or not column.listed) and (
            column.bins or "." in column.name or column.listed
        ):
            self.features.add(f"key: {column.holds}")
            ranked = bool(column.bins) or column.holds == "text"
            return column.name, column.bins or column.name, ranked, column
        text = self.value(column, self.pick(["number", column.holds, "text"]) if column.holds != "number" else self.pick(["number", "number", "text"]))  # fmt: skip
        return text, text, False, column

    def aggregate(self, scope: Scope) -> tuple[str, str, bool, str]:
        """Return an aggregate, what it is for DuckDB, whether it is a whole number, and what it is of nothing."""
        listed = [c for c in scope.columns if c.listed]
        numbers = [c for c in scope.columns if c.holds in ("number", "real", "mean")]
        plain = [c for c in listed if c.holds in ("number", "text", "date")]
        test = self.test(self.pick(plain or scope.columns))
        distinct = [c for c in listed if c.declared]
        forms = [
            "COUNT(*)",
            "COUNT(*)",
            "COUNT({any})",
            "COUNT_IF({c})",
            "COUNT(*) FILTER (WHERE {c})",
            *(["COUNT(DISTINCT {d})"] if distinct else []),
        ]
        if scope.ids:
            forms += ["COUNT(DISTINCT {id})", "COUNT({id})"]
        if numbers:
            forms += ["SUM({e})", "AVG({e})", "SUM({x})", "AVG({x})", "SUM({x}) FILTER (WHERE {c})", "AVG(({c})::INT)",
                      "SUM({x} * 2 - {y})", "SUM(CASE WHEN {c} THEN {x} ELSE {y} END)", "VAR_POP({x})", "STDDEV({x})",
                      "SUM(COALESCE({x}, 0) - COALESCE({y}, 0))", "SUM(CASE WHEN {c} THEN {x} END)", "AVG({x} + {y})",
                      "SUM(LEAST({x}, 5))", "VARIANCE({x})", "SUM(ABS({x} - {y}))", "AVG(LEAST({x}, {y}, 5) + 1)",
                      "SUM(COALESCE({x}, {y}) * 2)", "SUM(GREATEST({x} - 3, 0) * {y})", "COUNT(ABS(10 * {x} + {y}))",
                      "SUM(COALESCE(ABS({x}), 4) / 2)", "COUNT({x} || '-' || {any})"]  # fmt: skip
        form = self.noted("aggregate", forms)
        column = self.pick(numbers) if numbers else listed[0]
        value = column.name
        if "{e}" in form and column.holds != "mean":
            value = self.number(self.pick([c for c in scope.columns if c.holds != "mean"]))
        other = self.pick(numbers).name if numbers else ""
        text = form.format(any=self.pick(scope.columns).name, c=test, d=self.pick(distinct or scope.columns).name, x=column.name, y=other, e=value, id=scope.ids)  # fmt: skip
        real = any(c.name in text for c in scope.columns if not c.listed)
        ref = text
        if form.startswith(("COUNT", "SUM")):
            whole = form.startswith("COUNT") or (form == "SUM({x})" and not real)
            if not scope.unit and self.chance(0.1) and form in ("COUNT(*)", "SUM({x})"):
                self.features.add("words of others")
                text = f"{self.pick(['ANON_', 'DP_'])}{text}"
            return text, ref, whole, "0"
        if form == "AVG({x})" and not scope.unit and column.holds == "number" and self.chance(0.2):
            self.features.add("words of others, bounds")
            return (
                f"AVG({column.name}, contribution_bounds_per_row => (2, 7))",
                f"AVG(CASE WHEN {column.name} IS NOT NULL THEN LEAST(GREATEST({column.name}, 2), 7) END)",
                False,
                "NULL",
            )
        return text, ref, False, "NULL"

    def statement(self) -> Asked:
        """Return a statement."""
        self.features, self.count = set(), 0
        scope = self.source()
        tests = self.where(scope, 0.35)
        most = 2 if any(c.listed or c.bins for c in scope.columns) else 0
        keys = [self.key(scope) for _ in range(min(most, self.pick([0, 1, 1, 1, 2])))]
        if len({text for text, *_ in keys}) < len(keys):
            keys = keys[:1]
        results = []
        for number in range(self.pick([1, 1, 2, 2, 3])):
            text, ref, whole, nothing = self.aggregate(scope)
            results.append((Result(text, f"r{number}", self.named("n"), whole, nothing), ref))
        if not any(one.whole for one, _ in results):
            results.append(
                (Result("COUNT(*)", f"r{len(results)}", self.named("n"), True, "0"), "COUNT(*)")
            )
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        items = [f"{ref} AS k{i}" for i, (_, ref, *_) in enumerate(keys)]
        items += [f"{ref} AS {one.ref}" for one, ref in results]
        group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        base = f"SELECT {', '.join(items)} FROM {scope.source.ref}{where}{group}"
        kept = self.key_tests(keys)
        if kept:
            base = f"SELECT * FROM ({base}) WHERE {' AND '.join(ref for _, ref in kept)}"
        shape = Outer(
            self,
            [text for text, *_ in keys],
            [b for _, _, b, _ in keys],
            [one for one, _ in results],
        )
        text, ref, columns, ordered = shape.shown(f"{scope.source.text}{where}", kept)
        inner = [cte.ref for cte in scope.ctes]
        with_ = [cte.text for cte in scope.ctes]
        while columns and self.chance(0.2):
            self.features.add("query around results")
            name = self.named("s")
            text, ref, columns, ordered = around(self, text, ref, columns, name)
        prefix = f"WITH {', '.join(with_)} " if with_ else ""
        start = f"WITH {', '.join(inner)} " if inner else ""
        return Asked(
            prefix + text, tuple(ref for _, ref, *_ in keys), start + base,
            tuple((one.ref, one.nothing) for one, _ in results), ref,
            tuple(column.alias for column in columns), ordered, frozenset(self.features),
            tuple(b for _, _, b, _ in keys),
        )  # fmt: skip

    def key_tests(self, keys: Sequence[tuple[str, str, bool, Column]]) -> list[Pair]:
        """Return conditions on keys for HAVING: over the texts of the keys, and over k0, k1, ..."""
        found = []
        for place, (text, _, binned, _) in enumerate(keys):
            if binned or not self.chance(0.1):
                continue
            self.features.add("HAVING on a key")
            form = self.pick(
                ["{} IS NOT NULL", "NOT {} IS NULL", "COALESCE(LENGTH({}::VARCHAR), 0) > 0"]
            )
            found.append(Pair(form.format(f"({text})"), form.format(f"k{place}")))
        return found


class Outer:
    """What is shown of released results."""

    def __init__(
        self, writer: Writer, keys: list[str], binned: list[bool], results: list[Result]
    ) -> None:
        self.writer, self.pick, self.chance = writer, writer.pick, writer.chance
        self.keys, self.binned, self.results = keys, binned, results
        self.aliases: dict[str, str] = {}
        """The names of keys and results that are listed already."""

    def key(self, place: int) -> Pair:
        """Return a key to order by."""
        text = self.keys[place]
        if text in self.aliases and self.chance(0.6):
            text = self.aliases[text]
        return Pair(text, f"o{place}" if self.binned[place] else f"k{place}")

    def result(self, *, whole: bool = False) -> Pair:
        one = self.pick([r for r in self.results if r.whole or not whole])
        named = one.text in self.aliases and self.chance(0.6)
        return Pair(self.aliases[one.text] if named else one.text, one.ref)

    def filled(self, form: str) -> Pair:
        """Fill a form of numbers and windows."""
        keys = [self.key(place) for place in range(len(self.keys))]
        joined = Pair(", ".join(k.text for k in keys), ", ".join(k.ref for k in keys))
        names = {
            "w": self.result(whole=True), "v": self.result(whole=True), "a": self.result(), "b": self.result(),
            "keys": joined, "k": keys[0] if keys else joined,
        }  # fmt: skip
        return Pair(
            form.format(**{name: pair.text for name, pair in names.items()}),
            form.format(**{name: pair.ref for name, pair in names.items()}),
        )

    def entry(self) -> tuple[Pair, str, bool]:
        """Return a computed column, what it holds, and whether conditions may test it."""
        share = self.writer.rng.random()
        if share < 0.4 or not self.keys:
            form = self.writer.noted("number of results", NUMBERS)
            return (
                self.filled(form),
                "number",
                "{a}" not in form and "/" not in form and form[:3] != "LOG",
            )
        if share < 0.5:
            return self.filled("CASE WHEN {w} > 2 THEN 'many' ELSE 'few' END"), "text", True
        self.writer.features.add("window")
        form = self.writer.noted("window", WINDOWS)
        return self.filled(form), "number", "/" not in form and "AVG" not in form

    def shown(self, source: str, kept: list[Pair]) -> tuple[str, str, list[Shown], bool]:
        """Return the statement, the query over the released table, its columns, and whether it is ordered."""
        named = self.writer.named
        items: list[tuple[Pair, str, str, bool]] = []
        for place, text in enumerate(self.keys):
            alias = named("g")
            items.append((Pair(text, f"k{place}"), alias, "key", True))
        for one in self.results:
            if self.chance(0.8) or len(items) == len(self.keys):
                items.append((Pair(one.text, one.ref), one.alias, "number", one.whole))
        for pair, alias, *_ in items:
            self.aliases.setdefault(pair.text, alias)
        while self.chance(0.35):
            pair, holds, whole = self.entry()
            items.append((pair, named("e"), holds, whole))
        texts = ", ".join(f"{pair.text} AS {alias}" for pair, alias, *_ in items)
        refs = ", ".join(f"{pair.ref} AS {alias}" for pair, alias, *_ in items)
        group, having, end, ref_end = self.group(), "", "", ""
        tests = list(kept)
        if self.chance(0.2):
            tests.append(self.filled(self.writer.noted("HAVING", TESTS)))
        if tests:
            having = f" HAVING {' AND '.join(f'({t.text})' for t in tests)}"
            ref_end = f" WHERE {' AND '.join(f'({t.ref})' for t in tests)}"
        if self.keys and self.chance(0.1):
            self.writer.features.add("QUALIFY")
            test = self.filled("RANK() OVER (ORDER BY {w} DESC) <= 3")
            end, ref_end = f" QUALIFY {test.text}", f"{ref_end} QUALIFY {test.ref}"
        ordered = self.chance(0.25) and bool(self.keys)
        if ordered:
            terms = [self.result(whole=True)] if self.chance(0.6) else []
            last = [self.key(place) for place in range(len(self.keys))]
            words = [self.pick(["", " DESC"]) for _ in range(len(terms) + len(last))]
            order = [
                put(f"{{}}{word}", term) for term, word in zip([*terms, *last], words, strict=True)
            ]
            end += f" ORDER BY {', '.join(t.text for t in order)}"
            ref_end += f" ORDER BY {', '.join(t.ref for t in order)}"
            if self.chance(0.6):
                self.writer.features.add("LIMIT")
                limit = f" LIMIT {self.writer.rng.randint(0, 4)}" + self.pick(["", "", " OFFSET 1"])
                end, ref_end = end + limit, ref_end + limit
        columns = [Shown(alias, pair.ref, holds, whole) for pair, alias, holds, whole in items]
        text = f"SELECT {texts} FROM {source}{group}{having}{end}"
        return text, f"SELECT {refs} FROM released{ref_end}", columns, ordered

    def group(self) -> str:
        if not self.keys:
            return ""
        keys = [
            self.pick([text, self.aliases[text], str(place + 1)])
            for place, text in enumerate(self.keys)
        ]
        self.writer.features.add("GROUP BY")
        return f" GROUP BY {', '.join(keys)}"


def around(
    writer: Writer, text: str, ref: str, columns: list[Shown], name: str
) -> tuple[str, str, list[Shown], bool]:
    """Return a query around results."""
    whole = [c.alias for c in columns if c.whole and c.holds == "number"]
    labels = [c for c in columns if c.holds in ("key", "text")]
    if not whole:
        return text, ref, columns, False
    where = (
        f" WHERE {writer.pick(TESTS).format(w=writer.pick(whole), v=writer.pick(whole))}"
        if writer.chance(0.3)
        else ""
    )
    keys = writer.rng.sample(labels, writer.rng.randint(0, min(2, len(labels))))
    shown = [Shown(c.alias, "", c.holds, True) for c in keys]
    items = [c.alias for c in keys]
    for _ in range(writer.rng.randint(1, 3)):
        form, alias = writer.noted("total", TOTALS), writer.named("t")
        items.append(f"{form.format(w=writer.pick(whole))} AS {alias}")
        shown.append(Shown(alias, "", "number", "AVG" not in form and "/" not in form))
    group = f" GROUP BY {', '.join(c.alias for c in keys)}" if keys else ""
    query = f"SELECT {', '.join(items)} FROM ({{}}) AS {name}{where}{group}"
    return query.format(text), query.format(ref), shown, False
