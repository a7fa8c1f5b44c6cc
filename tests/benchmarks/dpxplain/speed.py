"""Cost of an explanation against one plain DuckDB statement, and of its parts.

    python -m tests.benchmarks.dpxplain.speed [--rows 1146552] [--large 10000000] [--runs 9]

Generated persons shaped like the paper's IPUMS extract: attributes of 22, 8, 29, 6, 15 and 36 values
explain why an income of 0..200000 differs between two sexes. CPU is user + system time of all
threads, median over runs that take turns. Ours is a whole ``session.explain`` of a question already
asked, each time at another rho so that nothing comes from the ledger. Theirs is one statement with
GROUPING SETS for the same counts and sums, from the same Parquet file (what is required), and from the
strongest comparator we know: the same rows in memory, texts as ENUM, warm.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

import dpnb
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.explain import mechanism
from dpnb.explain.mechanism import Influences
from dpnb.explain.plan import ExplanationPlan
from dpnb.explain.predicates import Attribute, Item, Space
from tests.benchmarks.dpxplain.common import NOISE, Case, cpu, timed
from tests.kit.verdicts import at_most, finish

SIZES = {"relate": 22, "marst": 8, "race": 29, "citizen": 6, "classwkr": 15, "educ": 36}
SEXES = ("Male", "Female", "NIU")
SQL = "SELECT sex, AVG(inctot) AS income FROM cps GROUP BY sex"
PUBLISHED = {1: 67, 2: 3_078, 3: 79_634}


def schema() -> dpnb.Schema:
    return dpnb.Schema(
        {
            **{name: dpnb.Category(values(name)) for name in SIZES},
            "sex": dpnb.Category(SEXES),
            "age": dpnb.Integer(0, 100),
            "inctot": dpnb.Integer(0, 200_000),
        }
    )


def values(name: str) -> list[str]:
    return [f"{name} {i}" for i in range(SIZES[name])]


def generate(path: Path, rows: int) -> None:
    """Write the persons as Parquet, a million at a time."""
    generator = np.random.default_rng(1)
    lists = {**{name: values(name) for name in SIZES}, "sex": list(SEXES)}
    with duckdb.connect() as con:
        for name, texts in lists.items():
            con.execute(f"CREATE TYPE {name}_type AS ENUM ({', '.join(map(repr, texts))})")
        columns = ", ".join(f"{name} {name}_type" for name in lists)
        con.execute(f"CREATE TABLE persons ({columns}, age TINYINT, inctot INTEGER)")
        for start in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - start)
            part = {}
            for name, size in SIZES.items():
                shares = 1 / np.arange(1, size + 1)
                part[name] = generator.choice(size, count, p=shares / shares.sum()).astype(np.uint8)
            part["sex"] = generator.integers(0, 2, count).astype(np.uint8)
            part["age"] = generator.integers(15, 90, count).astype(np.int8)
            base = generator.integers(0, 120_000, count)
            gap = 15_000 * (part["sex"] == 0) * (part["relate"] < 3)
            part["inctot"] = (base + gap + 1_500 * part["educ"].astype(int)).astype(np.int32)
            selected = ", ".join(f"enum_range(NULL::{n}_type)[{n} + 1]" for n in lists)
            con.execute(f"INSERT INTO persons SELECT {selected}, age, inctot FROM part")
        con.execute(f"COPY persons TO '{path}' (FORMAT parquet)")


def grouping_sets(length: int, source: str) -> str:
    sets = (", ".join(names) for names in itertools.combinations(SIZES, length))
    return (
        f"SELECT sex, {', '.join(SIZES)}, COUNT(*), SUM(inctot) FROM {source} "
        "WHERE sex IN ('Male', 'Female') "
        f"GROUP BY GROUPING SETS ({', '.join(f'(sex, {names})' for names in sets)})"
    )


def opened(path: Path) -> tuple[dpnb.Session, dpnb.Question]:
    session = dpnb.Session(dpnb.Table("cps", path, schema()), budget=dpnb.Budget(rho=10_000))
    return session, session.query(SQL, rho="0.1").compare("Male", "Female", planned=True)


def explaining(
    session: dpnb.Session, question: dpnb.Question, length: int
) -> Callable[[int], dpnb.Explanation]:
    """Explain once more, at a level not asked before."""

    def explain(i: int) -> dpnb.Explanation:
        made = session.explain(
            question, rho=str(0.3 + i / 1000), length=length, attributes=list(SIZES)
        )
        if made.stored:
            raise AssertionError("this explanation came from the ledger")
        return made

    return explain


def in_memory(path: Path) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    columns = []
    for name, texts in {**{name: values(name) for name in SIZES}, "sex": list(SEXES)}.items():
        con.execute(f"CREATE TYPE {name}_type AS ENUM ({', '.join(map(repr, texts))})")
        columns.append(f"{name}::{name}_type AS {name}")
    con.execute(f"CREATE TABLE cps AS SELECT {', '.join(columns)}, age, inctot FROM '{path}'")
    return con


def ratios(path: Path, lengths: list[int], runs: int) -> dict[int, dict[str, float]]:
    """Measure explanations and plain statements in turn; CPU seconds."""
    session, question = opened(path)
    found = {}
    with session, duckdb.connect() as plain, in_memory(path) as memory:
        for length in lengths:
            from_file = grouping_sets(length, f"'{path}'")
            from_memory = grouping_sets(length, "cps")
            ours, theirs, warm = timed(
                explaining(session, question, length),
                lambda _, sql=from_file: plain.execute(sql).fetchnumpy(),
                lambda _, sql=from_memory: memory.execute(sql).fetchnumpy(),
                runs=runs if length < 3 else max(3, runs // 2),
            )
            found[length] = {
                "candidates": explaining(session, question, length)(100 + length).candidates,
                "ours": ours[0],
                "wall": ours[1],
                "parquet": theirs[0],
                "memory": warm[0],
            }
    return found


def print_ratios(found: dict[int, dict[str, float]], rows: int) -> None:
    print(f"\n{rows:,} rows, CPU seconds")
    print("length predicates   dpnb (wall)     Parquet ratio  in memory ratio  published (wall)")
    for length, row in found.items():
        told = f"{PUBLISHED[length]:,} s" if rows == 1_146_552 else ""
        print(
            f"{length:>6} {row['candidates']:>10,.0f} {row['ours']:>6.3f} ({row['wall']:.3f}) "
            f"{row['parquet']:>10.3f} {row['ours'] / row['parquet']:>5.2f} "
            f"{row['memory']:>10.3f} {row['ours'] / row['memory']:>5.2f} {told:>17}"
        )


def peak(path: Path, length: int) -> dict[str, float]:
    """Open and explain once in this process, which did nothing else."""
    used = cpu()
    session, question = opened(path)
    with session:
        opening = cpu() - used
        explaining(session, question, length)(0)
        explaining(session, question, length)(1)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"opening": opening, "megabytes": megabytes}


def in_process(work: str, *arguments: object) -> dict[str, float]:
    """Run one of this file's works in a fresh process; returns what it found."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.dpxplain.speed",
        "--only",
        work,
        *map(str, arguments),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout or "null")


def shapes(size: int) -> dict[str, np.ndarray]:
    """Return synthetic influences in units of Delta."""
    generator = np.random.default_rng(1)
    return {
        "all 0": np.zeros(size),
        "all equal": np.full(size, 1_000.0),
        "normal, sd 1": generator.normal(0, 1, size),
        "normal, sd 1,000": generator.normal(0, 1_000, size),
        "heavy tailed": np.clip(100 * generator.standard_cauchy(size), -1e9, 1e9),
        "a staircase": np.arange(size) * 10.0,
    }


def mechanisms(size: int, runs: int) -> None:
    """Time selection, influences and ranks, given the exact influences."""
    case = Case(
        dpnb.datasets.adult(),
        "SELECT marital_status, AVG(high_income) AS high FROM adult GROUP BY marital_status",
        {"Married-civ-spouse": 1, "Never-married": -1},
    )
    items = tuple(Item(f"= {i}", i, i) for i in range(size))
    plan = case.plan("tight", "0.1")
    plan = ExplanationPlan(
        plan.target, Space((Attribute("x", size, items),)), plan.design, plan.budgets, plan.lattice
    )
    print(f"\nNoise, selection and ranks for {size:,} predicates, k=5, rho=.1 each (ms)")
    worst = 0.0
    for name, shape in shapes(size).items():
        scores = np.round(shape * plan.lattice.sensitivity).astype(np.int64)
        exact = Influences.of(np.arange(size), scores, size)
        ((used, wall),) = timed(
            lambda _, exact=exact: mechanism.release(plan, exact, NOISE), runs=10 * runs
        )
        worst = max(worst, used, wall)
        print(f"  {name:<18} CPU {1000 * used:>6.1f}  wall {1000 * wall:>6.1f}")
    at_most(1000 * worst, 60, f"explanation: noise and ranks of {size:,} predicates", "ms")


def tables_by_columns(con, names: dict[str, str], where: str, sets) -> dict:
    """GROUPING SETS over the columns themselves."""
    listed = ", ".join(f"(g, {', '.join(names[n] for n in s)})" for s in sets)
    columns = ", ".join(names[name] for name in SIZES)
    return con.execute(
        f"SELECT {names['sex']} AS g, {columns}, GROUPING({columns}) AS place, COUNT(*) AS n, "
        f"SUM({names['inctot']}) AS t FROM rows WHERE {where} GROUP BY GROUPING SETS ({listed})"
    ).fetchnumpy()


def tables_from_all(con, names: dict[str, str], where: str, sets) -> list:
    """One grouping by all attributes, then sums of its cells."""
    columns = ", ".join(f"{names[n]} AS {n}" for n in [*SIZES, "sex"])
    found = con.execute(
        f"SELECT {columns}, COUNT(*) AS n, SUM({names['inctot']})::BIGINT AS t FROM rows "
        f"WHERE {where} GROUP BY ALL"
    ).fetchnumpy()
    return [rolled(found, s, found["n"], found["t"]) for s in sets]


def tables_from_rows(con, names: dict[str, str], where: str, sets) -> list:
    """The codes of all rows, counted by numpy."""
    columns = ", ".join(f"{names[n]} AS {n}" for n in [*SIZES, "sex", "inctot"])
    found = con.execute(f"SELECT {columns} FROM rows WHERE {where}").fetchnumpy()
    return [rolled(found, s, None, found["inctot"]) for s in sets]


def rolled(found, attributes, count, total) -> tuple[np.ndarray, np.ndarray]:
    joint = found["sex"].astype(np.int32)
    for name in attributes:
        joint = joint * (SIZES[name] + 1) + found[name]
    # float sums: exact below 2**53
    return np.bincount(joint, count), np.bincount(joint, total)


def alternatives(path: Path, lengths: list[int], runs: int) -> None:
    """Compare ways to get the tables of all attribute sets from the coded rows."""
    engine = DuckDBEngine(dpnb.Table("cps", path, schema()))
    engine._load_rows()
    con = engine._connection.cursor()
    names = {name: f"c{i}" for i, name in enumerate(schema())}
    where = f"{names['sex']} IN (0, 1)"
    print(f"\nWays to get all tables from the coded rows, CPU seconds\n{'':<36} length", end="")
    print("".join(f"{length:>8}" for length in lengths))
    figures: dict[str, list[float]] = {}
    for length in lengths:
        sets = list(itertools.combinations(SIZES, length))
        case = Case(
            dpnb.Table("cps", path, schema()),
            SQL,
            {"Male": 1, "Female": -1},
            engine,
            length=length,
            attributes=list(SIZES),
        )
        plan = case.plan("tight", "0.1")
        union, columns, bundle, rows, whole = timed(
            lambda _, s=sets: union_all(con, names, where, s),
            lambda _, s=sets: tables_by_columns(con, names, where, s),
            lambda _, s=sets: tables_from_all(con, names, where, s),
            lambda _, s=sets: tables_from_rows(con, names, where, s),
            lambda _, case=case, plan=plan: mechanism.measure(plan, engine),
            runs=max(3, runs // 2),
        )
        for name, figure in (
            ("UNION ALL of joint codes", union),
            ("GROUPING SETS over columns", columns),
            ("one grouping by all, summed by numpy", bundle),
            ("rows fetched, counted by numpy", rows),
            ("dpnb: arrays of codes, and the influences", whole),
        ):
            figures.setdefault(name, []).append(figure[0])
    engine.close()
    for name, row in figures.items():
        print(f"  {name:<41}" + "".join(f"{figure:>8.3f}" for figure in row))
    *others, chosen = figures.values()
    least = [min(column) for column in zip(*others, strict=True)]
    shares = ", ".join(f"{a / b:.2f}" for a, b in zip(chosen, least, strict=True))
    print(f"  the last, relative to the least of the others: {shares}")


def union_all(con, names: dict[str, str], where: str, sets) -> dict:
    """One branch for each set, grouped by one joint number: what other engines do."""
    branches = []
    for place, attributes in enumerate(sets):
        joint = "0"
        for name in attributes:
            code = f"COALESCE({names[name]}, {SIZES[name]})"
            joint = f"({joint}) * {SIZES[name] + 1} + CAST({code} AS INTEGER)"
        joint = f"({joint}) * {len(SEXES)} + CAST({names['sex']} AS INTEGER)"
        branches.append(
            f"SELECT {place} AS place, {joint} AS joint, COUNT(*) AS n, "
            f"CAST(SUM({names['inctot']}) AS BIGINT) AS t FROM rows WHERE {where} GROUP BY joint"
        )
    return con.execute(" UNION ALL ".join(branches)).fetchnumpy()


def report(options: argparse.Namespace, folder: Path) -> None:
    path = folder / "cps.parquet"
    in_process("generate", path, options.rows)
    found = ratios(path, [1, 2, 3], options.runs)
    print_ratios(found, options.rows)
    first, third = found[1], found[3]
    at_most(
        first["ours"] / first["parquet"], 1.2,
        f"explanation, {options.rows:,} rows: CPU over plain DuckDB",
    )  # fmt: skip
    at_most(third["ours"], 5, f"explanation, {third['candidates']:,.0f} predicates", "CPU s")
    mechanisms(10_000, options.runs)
    alternatives(path, [1, 2, 3], options.runs)
    if not options.large:
        return
    path = folder / "large.parquet"
    in_process("generate", path, options.large)
    fresh = in_process("peak", path, 1)
    found = {int(n): row for n, row in in_process("ratios", path, min(options.runs, 5)).items()}
    print_ratios(found, options.large)
    print(f"opened in {fresh['opening']:.1f} CPU s, peak memory {fresh['megabytes']:.0f} MB")
    ratio = found[1]["ours"] / found[1]["parquet"]
    at_most(ratio, 1.2, f"explanation, {options.large:,} rows: CPU over plain DuckDB")
    at_most(fresh["megabytes"], 1024, f"explanation, {options.large:,} rows: peak memory", "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_146_552)
    parser.add_argument("--large", type=int, default=10_000_000, help="0 leaves it out")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is None:
        with tempfile.TemporaryDirectory() as folder:
            report(options, Path(folder))
        finish()
    work, path, number = options.only[0], Path(options.only[1]), int(options.only[2])
    if work == "generate":
        generate(path, number)
    elif work == "peak":
        print(json.dumps(peak(path, number)))
    else:
        print(json.dumps(ratios(path, [1], number)))


if __name__ == "__main__":
    main()
