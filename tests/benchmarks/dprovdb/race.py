"""Eight processes race for the last of one budget while they are killed.

    python -m tests.benchmarks.dprovdb.race [--postgres] [--requests 10000] [--kills 50]

Each process is an analyst with a curator of her own on the same ledger: a file, or with ``--postgres``
a database of a server that is started for it. She asks for counts at random levels, now and then for
something she was answered before, and writes each answer into a file of her own, synced to disk, only
after she got it. Random ones are killed (SIGKILL) and start again. The owner raises the limit in small
steps, so that all the time the processes race for what was just added. In the end a fold over the
ledger's entries that shares no code with the package says what was charged.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve()
DATA = HERE.parents[2] / "data" / "german_credit.csv"
SCHEMA = {
    "age": {"type": "integer", "low": 18, "high": 80},
    "credit_amount": {"type": "integer", "low": 0, "high": 20_000},
}
ANALYSTS = {f"analyst{number}": 1 + number for number in range(8)}
FIRST_CAP, STEPS = Fraction(1, 4), 20
CHEAPEST = Fraction(1, 1000)
PATIENCE = 1800


def table():
    """Return the sensitive table."""
    import dpnb

    return dpnb.Table("credit", DATA, dpnb.Schema.from_dict(SCHEMA))


def statement(generator: random.Random) -> tuple[str, str]:
    """Return one of 1,000 statements and one of seven levels."""
    age, amount = 20 + generator.randrange(40), 500 * (1 + generator.randrange(25))
    sql = f"SELECT COUNT(*) AS n FROM credit WHERE age > {age} AND credit_amount < {amount}"
    return sql, f"0.00{1 + generator.randrange(7)}"


# the processes that race


def work(order: dict) -> None:
    """Ask until told to stop or killed; write down each answer after it came."""
    import dpnb

    generator = random.Random(os.getpid())  # noqa: S311
    mine: list[tuple[str, str, list]] = []
    with Path(f"{order['answers']}.{os.getpid()}").open("a", encoding="utf-8") as file:
        curator = dpnb.Curator(table(), ledger=order["ledger"])
        session = curator.session(order["analyst"])
        while not Path(order["stop"]).exists():
            sql, rho = statement(generator)
            before = None
            if mine and generator.random() < 0.1:
                sql, rho, before = generator.choice(mine)
            outcome = {"analyst": order["analyst"], "sql": sql, "rho": rho}
            try:
                answer = session.query(sql, rho=rho)
                numbers = answer.estimates[0].count
                outcome |= {
                    "numbers": numbers,
                    "levels": dict(answer.levels),
                    "again": before is not None,
                }
                if before is not None and (list(before) != list(numbers) or answer.spent.rho != 0):
                    outcome["wrong"] = "asked again, it was another answer, or not free"
                mine.append((sql, rho, numbers))
            except dpnb.DpnbError as error:
                outcome |= {"refused": type(error).__name__}
            file.write(json.dumps(outcome, default=list) + "\n")
            file.flush()
            os.fsync(file.fileno())


def fork_for_orders() -> None:
    """Fork for each line with an order; print the child's process id. An empty line: wait for all."""
    import opendp.prelude  # noqa: F401
    import pandas as pd  # noqa: F401

    import dpnb.engines.duckdb
    import dpnb.session
    import dpnb.sql.parser  # noqa: F401

    children = []
    for line in sys.stdin:
        if not line.strip():
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            children = []
            print(json.dumps(codes), flush=True)
            continue
        child = os.fork()
        if child == 0:
            try:
                work(json.loads(line))
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                traceback.print_exc()
                os._exit(3)
            os._exit(0)
        children.append(child)
        print(child, flush=True)


class Racers:
    """The processes, started by one that forks."""

    def __init__(self, place: dict) -> None:
        self.place = place
        self.forker = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.dprovdb.race", "--fork"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.running = {name: self.start(name) for name in ANALYSTS}

    def start(self, analyst: str) -> int:
        """Start an analyst's process."""
        self.forker.stdin.write(json.dumps({**self.place, "analyst": analyst}) + "\n")
        self.forker.stdin.flush()
        return int(self.forker.stdout.readline())

    def kill(self, analyst: str) -> None:
        """Kill an analyst's process and start another one."""
        os.kill(self.running[analyst], signal.SIGKILL)
        self.running[analyst] = self.start(analyst)

    def finish(self) -> list[int]:
        """Tell all to stop; return how each of them ended."""
        Path(self.place["stop"]).touch()
        self.forker.stdin.write("\n")
        self.forker.stdin.flush()
        codes = json.loads(self.forker.stdout.readline())
        self.forker.stdin.close()
        self.forker.wait(60)
        return codes


# what is left


def outcomes(place: dict) -> list[dict]:
    """Return what the processes wrote down; a line cut off by a kill does not count."""
    answers = Path(place["answers"])
    files = sorted(answers.parent.glob(f"{answers.name}.*"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").split("\n")[:-1]]


def count(place: dict, seen: dict[Path, tuple[int, int]]) -> int:
    """Return the number of requests so far, by reading what the files gained."""
    answers = Path(place["answers"])
    for path in answers.parent.glob(f"{answers.name}.*"):
        offset, lines = seen.get(path, (0, 0))
        with path.open("rb") as file:
            file.seek(offset)
            new = file.read()
        seen[path] = offset + len(new), lines + new.count(b"\n")
    return sum(lines for _, lines in seen.values())


def rows(ledger: str) -> list[tuple[int, str, str]]:
    """Return number, body and hash of each entry, past the package."""
    if ledger.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(ledger) as connection:
            return connection.execute(
                "SELECT seq, body, hash FROM dpnb_entry ORDER BY seq"
            ).fetchall()
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise AssertionError("the file is damaged")
        return connection.execute("SELECT seq, body, hash FROM entry ORDER BY seq").fetchall()


class Fold:
    """What the entries say, by rules written anew: the finest version of each view is paid for once.

    Attributes
    ----------
    chained : bool
        Whether each hash is that of the one before and the body.
    within : bool
        Whether after each entry the total was within the limit of that moment, and each analyst's
        within hers.
    true : bool
        Whether each entry was charged exactly what it added to the total and to the analyst's.
    least : Fraction
        The least that was ever left of the limit.
    released : dict
        From (view, level) to the one vector that was ever released.
    known : set
        (analyst, statement, view, level) of all answers.
    """

    def __init__(self, ledger: str) -> None:
        self.chained = self.within = self.true = True
        self.released: dict[tuple[str, Fraction], list[int]] = {}
        self.known: set[tuple[str, str, str, Fraction]] = set()
        self.answers = self.priced = 0
        digest = hashlib.sha256(b"dpnb ledger").hexdigest()
        finest: dict[str, Fraction] = {}
        own: dict[tuple[str, str], Fraction] = {}
        spent: Counter[str] = Counter()
        self.total = Fraction(0)
        for place, (sequence, body, stored) in enumerate(rows(ledger), 1):
            digest = hashlib.sha256(f"{digest}\n{body}".encode()).hexdigest()
            self.chained &= sequence == place and stored == digest
            entry = json.loads(body)
            if entry["kind"] == "open":
                self.most = self.cap = self.least = Fraction(entry["budget"]["rho"])
            if entry["kind"] == "limit":
                self.cap = Fraction(entry["limit"]["rho"])
            if entry["kind"] != "answer":
                continue
            self.answers += 1
            added, learned = Fraction(0), Fraction(0)
            analyst = entry["analyst"]
            for view, text in entry["levels"].items():
                level = Fraction(text)
                added += max(level, finest.get(view, Fraction(0))) - finest.get(view, Fraction(0))
                finest[view] = max(level, finest.get(view, Fraction(0)))
                before = own.get((analyst, view), Fraction(0))
                own[analyst, view] = max(level, before)
                learned += own[analyst, view] - before
                self.known.add((analyst, entry["sql"], view, level))
            for view, versions in entry["knots"].items():
                for text, vector in versions:
                    self.true &= (view, Fraction(text)) not in self.released
                    self.released[view, Fraction(text)] = vector
            self.true &= Fraction(entry["spent"]["rho"]) == added
            self.true &= Fraction(entry["row"]["rho"]) == learned
            self.priced += added > 0
            self.total += added
            spent[analyst] += learned
            self.within &= self.total <= self.cap
            self.least = min(self.least, self.cap - self.total)
            self.within &= spent[analyst] <= self.most * ANALYSTS[analyst] / max(ANALYSTS.values())


def race(ledger: str, folder: Path, requests: int, kills: int) -> None:
    """Run the race and say what came of it."""
    import dpnb
    from tests.kit.verdicts import finish, must

    place = {
        "ledger": ledger, "answers": str(folder / "answers"), "stop": str(folder / "stop"),
    }  # fmt: skip
    most = FIRST_CAP * STEPS
    owner = dpnb.Curator(
        table(), budget=dpnb.Budget(rho=most), ledger=ledger, analysts=ANALYSTS
    )  # fmt: skip
    owner.limit(rho=FIRST_CAP)
    begun = time.perf_counter()
    generator = random.Random(1)  # noqa: S311
    racers = Racers(place)
    seen: dict[Path, tuple[int, int]] = {}
    caps, killed, done, late = 1, 0, 0, 0.0
    while done < requests and late < PATIENCE:
        time.sleep(generator.uniform(0.02, 0.1))
        done, late = count(place, seen), time.perf_counter() - begun
        if killed < kills and done >= (killed + 1) * requests // (kills + 1):
            racers.kill(generator.choice(list(ANALYSTS)))
            killed += 1
        if caps < STEPS and done >= caps * requests // STEPS:
            caps += 1
            owner.limit(rho=FIRST_CAP * caps)
    codes = racers.finish()
    seconds = time.perf_counter() - begun
    owner.close()

    found = outcomes(place)
    answered = [one for one in found if "numbers" in one]
    refused = Counter(one["refused"] for one in found if "refused" in one)
    fold = Fold(ledger)
    scale = 1 << 22
    lost = [
        one
        for one in answered
        for view, text in one["levels"].items()
        if (one["analyst"], one["sql"], view, Fraction(text)) not in fold.known
        or [value / scale for value in fold.released[view, Fraction(text)]] != one["numbers"]
    ]
    begun = time.perf_counter()
    different = 0
    with_reopened = dpnb.Curator(table(), ledger=ledger)
    replay = time.perf_counter() - begun
    spent = with_reopened.budget.spent.rho
    sessions = {name: with_reopened.session(name) for name in ANALYSTS}
    asked = {(one["analyst"], one["sql"], one["rho"]): one["numbers"] for one in answered}
    for (analyst, sql, rho), numbers in asked.items():
        again = sessions[analyst].query(sql, rho=rho)
        same = list(again.estimates[0].count) == numbers
        different += not (again.stored and again.spent.rho == 0 and same)
    unchanged = with_reopened.budget.spent.rho == spent == fold.total
    with_reopened.close()

    print(f"\n{'PostgreSQL' if ledger.startswith('postgresql:') else 'file'}")
    print(f"requests                 {len(found):,}")
    print(
        f"  answered               {len(answered):,}, {sum(o['again'] for o in answered):,} again"
    )
    print(f"  refused                {dict(refused)}")
    print(f"kills                    {killed}, {codes.count(-signal.SIGKILL)} hit")
    print(f"seconds                  {seconds:.0f}; {len(found) / seconds:.0f} requests a second")
    print(
        f"entries with an answer   {fold.answers:,}, {fold.priced:,} with a price for all together"
    )
    print(f"  nobody was left to get   {fold.answers - len(asked)}")
    print(f"reading the ledger anew  {replay:.1f} s")
    print(
        f"total / cap              {float(fold.total):g} / {float(fold.cap):g}; "
        f"at times {float(fold.least):g} was left"
    )
    must(len(found) >= requests, f"{len(found):,} requests were made")
    must(codes.count(-signal.SIGKILL) >= kills, f"{killed} processes were killed")
    must(set(codes) <= {0, -signal.SIGKILL}, "no process ended in another way")
    must(set(refused) <= {"BudgetError"}, "nothing was refused but for the budget")
    must(
        fold.least < CHEAPEST,
        "they raced for the last of it: at times less was left than any costs",
    )
    must(fold.within, "after each entry the total was within the limit, and each analyst's, too")
    must(fold.true, "each entry was charged exactly what it added")
    must(fold.chained, "the chain of hashes is intact")
    must(
        not lost,
        f"all {len(answered):,} answers that came are in the ledger, with the same numbers",
    )
    must(
        not any("wrong" in one for one in found), "during the race, asking again was free and equal"
    )
    must(not different, f"afterwards {len(asked):,} requests were free and equal")
    must(unchanged, "the package's total is that of the fold, before and after asking again")
    finish()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fork", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    if options.fork:
        fork_for_orders()
        return
    with tempfile.TemporaryDirectory() as folder:
        if not options.postgres:
            race(str(Path(folder) / "ledger"), Path(folder), options.requests, options.kills)
        from tests.kit.postgres import Server

        with Server() as server:
            race(server.url(schema=server.schema()), Path(folder), options.requests, options.kills)


if __name__ == "__main__":
    main()
