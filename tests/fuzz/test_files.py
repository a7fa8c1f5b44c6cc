"""Declarations and ledgers that were damaged: the same state is opened, or a clear refusal is given.

Never is less charged than before, never does another error get out, and never does a refused opening
change a file. Mutations are drawn from fixed seeds; ``DPNB_LONG=1`` draws forty times as many.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sqlite3
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import DpnbError, Table
from dpnb.errors import LedgerError
from dpnb.ledger.accountant import NONE
from dpnb.ledger.configuration import read_budget, read_policy
from dpnb.ledger.store import Store
from dpnb.schema.schema import read_toml

LONG = 40 if os.environ.get("DPNB_LONG") == "1" else 1
DECLARED = """\
name = "people"
source = "people.csv"
public = false
aliases = [["job", "trade"]]
complete = ["sex"]
undeclared = ["city"]
views = ["sex", ["job", "wage"]]

[columns.sex]
type = "category"
values = ["F", "M"]

[columns.job]
type = "category"
values = ["clerk", "smith", "rest"]
other = "rest"

[columns.trade]
type = "category"
values = ["c", "s"]

[columns.wage]
type = "integer"
low = 0
high = 100
bins = [0, 50, 100]

[columns.height]
type = "real"
low = 0.5
high = 2.5

[columns.born]
type = "date"
low = 1920-01-01
high = 2020-12-31

[unit]
column = "person"
max_rows = 3
max_groups = 2

[budget]
epsilon = 9
delta = 1e-6
key_delta = 1e-7

[policy]
mechanism = "path"
expansion = 1.5
top = 4
collusion = [["alice", "bob"]]
"""
SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
OTHERS = (
    SQL,
    "SELECT job, AVG(wage) AS m FROM people WHERE height > 1.5 GROUP BY job",
    "SELECT COUNT(*) AS n FROM people WHERE born < DATE '1990-05-05'",
)


def write_data(folder):
    place = np.arange(400)
    pd.DataFrame(
        {
            "person": place // 2,
            "sex": np.where(place % 3 == 0, "F", "M"),
            "job": np.where(place % 5 == 0, "clerk", "smith"),
            "trade": np.where(place % 5 == 0, "c", "s"),
            "wage": place % 90,
            "height": 1 + place % 10 / 10,
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(place * 20, unit="D"),
            "city": np.where(place % 4 == 0, "Bath", "York"),
        }
    ).to_csv(folder / "people.csv", index=False)
    (folder / "people.toml").write_text(DECLARED)


def read_declaration(path):
    """Read all that a file declares, without its data."""
    content = read_toml(path)
    Table.load(path)
    read_budget(None, None, None, None, content.get("budget"))
    read_policy(content.get("policy"))


def opened(declaration, ledger, anchor=None):
    """Open a ledger as declared in a file."""
    content = read_toml(declaration)
    return dpnb.Curator(
        Table.load(declaration),
        budget=read_budget(None, None, None, None, content.get("budget")),
        policy=read_policy(content.get("policy")),
        views=content.get("views", ()),
        analysts={"alice": 4, "bob": 2},
        ledger=ledger,
        anchor=anchor,
    )


def state(store):
    """Everything that counts."""
    accountant, table = store.accountant, store.provenance
    return {
        "spent": accountant.spent,
        "cap": accountant.cap,
        "rows": {row: (table.spent(row), table.limit(row)) for row in table.rows},
        "charges": dict(accountant.charges),
        "releases": dict(accountant.releases),
        "paths": dict(accountant.synopses.paths),
        "analysts": dict(table.analysts),
        "grants": list(table.grants),
        "limits": dict(table.limits),
        "views": dict(table.views),
        "versions": dict(store.versions),
        "name": store.name,
        "sequence": store.ledger.sequence,
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A declaration, its data, and a ledger with everything in it; and another ledger of the same."""
    folder = tmp_path_factory.mktemp("home")
    write_data(folder)
    for name, words in (("ledger", OTHERS), ("other", OTHERS[:1] * 2)):
        curator = opened(folder / "people.toml", folder / name, folder / f"{name}.anchor")
        alice, bob = curator.session("alice"), curator.session("bob")
        for i, sql in enumerate(words):
            answer = alice.query(sql, rho=f"0.0{i + 1}")
        bob.query(SQL, rho="0.02")
        curator.limit("bob", rho="0.1")
        curator.grant("alice", "bob", rho="0.01", until="2999-01-01")
        if name == "ledger":
            alice.decide(f"{SQL} HAVING COUNT(*) > 50", mode="margin", u=200)
            alice.discover("city", rho="0.05")
            question = alice.query(SQL, rho="0.06").compare("F", "M")
            alice.explain(question, rho="0.05", k=1, anyway=True)
            curator.disable("bob")
            curator.protect("SELECT COUNT(*) FROM people WHERE sex = 'F'", ">", 1)
        assert answer.spent.rho > 0
        curator.close()
    return folder


@pytest.fixture(scope="module")
def known(home):
    """The undamaged state."""
    store = Store(home / "ledger", home / "ledger.anchor")
    found = state(store)
    store.ledger.close()
    assert found["spent"] != NONE
    return found


class Place:
    """A folder in which a damaged copy is opened again and again."""

    STAYING = ("people.csv", "ledger.anchor.lock")

    def __init__(self, home, folder):
        self.home, self.folder = home, folder
        self.ledger, self.anchor = folder / "ledger", folder / "ledger.anchor"
        self.declaration = folder / "people.toml"
        for name in self.STAYING:
            shutil.copy(home / name, folder / name)
        self.outcomes = {"same": 0, "refused": 0}

    def put(self, ledger=None, declaration=None, anchor=None):
        """Lay a ledger, a declaration and an anchor down; by default the undamaged ones."""
        for path in self.folder.iterdir():
            if path.name not in self.STAYING:
                path.unlink()
        for path, given in (
            (self.ledger, ledger), (self.declaration, declaration), (self.anchor, anchor),
        ):  # fmt: skip
            path.write_bytes((self.home / path.name).read_bytes() if given is None else given)

    def content(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def check(self, what, known, whole=False):
        """Open what lies there: it has the known state, or it is refused and stays as it is."""
        before = self.content()
        try:
            if whole:
                curator = opened(self.declaration, self.ledger, self.anchor)
                found, close = state(curator._runner.store), curator.close
            else:
                store = Store(self.ledger, self.anchor)
                found, close = state(store), store.ledger.close
        except DpnbError as error:
            self.outcomes["refused"] += 1
            assert isinstance(error, LedgerError) or whole, (what, error)
            assert error.what, what
            assert error.__cause__ is None, what
            assert self.content() == before, f"{what}: a refused opening changed a file"
        else:
            self.outcomes["same"] += 1
            close()
            differing = [name for name in known if found[name] != known[name]]
            assert not differing, (what, differing)


@pytest.fixture
def place(home, tmp_path):
    return Place(home, tmp_path)


def mutated(content, generator):
    """Bytes that were damaged somewhere, and how."""
    data, turn = bytearray(content), generator.randrange(10)
    where, size = generator.randrange(len(data)), generator.choice((1, 2, 16, 100, 512, 4096))
    if turn == 0:
        data[where] ^= 1 << generator.randrange(8)
    elif turn == 1:
        for _ in range(generator.choice((1, 2, 5))):
            data[generator.randrange(len(data))] = generator.randrange(256)
    elif turn == 2:
        # the headers of the file and of its pages
        page = generator.randrange(len(data) // 4096 or 1) * 4096
        data[min(page + generator.randrange(108), len(data) - 1)] = generator.choice((0, 1, 2, 255))
    elif turn == 3:
        del data[where:]
    elif turn == 4:
        data[where : where + size] = bytes(len(data[where : where + size]))
    elif turn == 5:
        data[where : where + size] = generator.randbytes(len(data[where : where + size]))
    elif turn == 6:
        del data[where : where + size]
    elif turn == 7:
        data[where:where] = data[where : where + size]
    elif turn == 8:
        other = generator.randrange(len(data))
        first, second = data[where : where + 512], data[other : other + 512]
        data[other : other + len(first)], data[where : where + len(second)] = first, second
    else:
        data += generator.randbytes(size)
    return bytes(data), f"turn {turn} at {where}, {size}"


class TestLedgerBytes:
    def test_damaged_anywhere(self, place, known):
        content, generator = (place.home / "ledger").read_bytes(), random.Random(1)  # noqa: S311
        for number in range(600 * LONG):
            damaged, how = mutated(content, generator)
            place.put(damaged)
            place.check(f"mutation {number}: {how}", known, whole=number % 100 == 0)
        assert place.outcomes["same"] > 20
        assert place.outcomes["refused"] > 250 * LONG

    def test_every_byte_of_the_header(self, place, known):
        content = (place.home / "ledger").read_bytes()
        for where in range(108):
            for value in (0, 2, 255):
                damaged = bytearray(content)
                damaged[where] = value
                place.put(bytes(damaged))
                place.check(f"byte {where} is {value}", known)

    def test_cut_off_at_every_length(self, place, known):
        content = (place.home / "ledger").read_bytes()
        for size in {*range(130), *range(0, len(content), 2048)}:
            place.put(content[:size])
            place.check(f"cut off at {size}", known)
        assert place.outcomes["same"] == 0

    def test_the_name_of_its_table_changed(self, place, known):
        content = (place.home / "ledger").read_bytes()
        for other in (b"Entry", b"entrz", b"entry", b"sqlit", b"en'ry"):
            for count in (1, 2, 3):
                place.put(content.replace(b"entry", other, count))
                place.check((other, count), known)
                # even where everything can be given that a new ledger needs
                place.put(content.replace(b"entry", other, count))
                place.check((other, count), known, whole=True)

    def test_other_databases_are_left_alone(self, place, known):
        for statement in (
            "CREATE TABLE other (a)",
            "CREATE TABLE entry (a)",
            "PRAGMA user_version=7",
        ):
            place.put(b"")
            run(place.ledger, statement)
            place.check(statement, known)
            place.check(statement, known, whole=True)

    def test_a_damaged_anchor(self, place, known):
        content, generator = (place.home / "ledger.anchor").read_bytes(), random.Random(2)  # noqa: S311
        for number in range(100 * LONG):
            damaged, how = mutated(content, generator)
            place.put(anchor=damaged)
            before, number_before = place.content(), damaged.split()[:1]
            try:
                store = Store(place.ledger, place.anchor)
            except LedgerError:
                assert place.content() == before
                continue
            # a number that nobody could have written stands for an older state: it catches up
            assert number_before
            assert state(store) == known, (number, how)
            store.ledger.close()
            assert place.content() == before or place.content() == {
                **before,
                "ledger.anchor": content,
            }


def run(path, *statements):
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(*(statement if isinstance(statement, tuple) else (statement,)))
    connection.close()


def rows_of(path):
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT seq, body, hash FROM entry ORDER BY seq").fetchall()
    connection.close()
    return found


def write_rows(path, rows):
    run(path, "DELETE FROM entry", *(("INSERT INTO entry VALUES (?, ?, ?)", row) for row in rows))


def chained(bodies):
    """Rows of a chain that somebody made anew."""
    digest, rows = hashlib.sha256(b"dpnb ledger").hexdigest(), []
    for sequence, body in enumerate(bodies, start=1):
        digest = hashlib.sha256(f"{digest}\n{body}".encode()).hexdigest()
        rows.append((sequence, body, digest))
    return rows


class TestLedgerRows:
    def test_rows_deleted_edited_reordered_and_doubled(self, place, known):
        rows, generator = rows_of(place.home / "ledger"), random.Random(3)  # noqa: S311
        other = rows_of(place.home / "other")
        for number in range(160 * LONG):
            made, turn = list(rows), generator.randrange(8)
            i, j = generator.randrange(len(rows)), generator.randrange(len(rows))
            if turn == 0:
                del made[i]
            elif turn == 1:
                made = made[:i]
            elif turn == 2:
                made[i] = (made[i][0], edited(made[i][1], generator), made[i][2])
            elif turn == 3:
                made[i], made[j] = (made[i][0], *made[j][1:]), (made[j][0], *made[i][1:])
            elif turn == 4:
                made.append((len(made) + 1, *made[i][1:]))
            elif turn == 5:
                made = made[:i] + [(row[0] + 1, *row[1:]) for row in made[i:]]
            elif turn == 6:
                made[i] = (i + 1, *other[i % len(other)][1:])
            else:
                made = other[:i] + made[i:] if generator.random() < 0.5 else made[:i] + other[i:]
            place.put()
            write_rows(place.ledger, made)
            same = made == rows
            refused = place.outcomes["refused"]
            place.check(
                f"mutation {number}: turn {turn} at {i}, {j}", known, whole=number % 50 == 0
            )
            assert (place.outcomes["refused"] > refused) != same, (number, turn, i, j)

    def test_rows_of_other_kinds_and_tables(self, place, known):
        for statement in (
            "DROP TABLE entry",
            "ALTER TABLE entry RENAME TO entries",
            "ALTER TABLE entry RENAME COLUMN body TO text",
            "ALTER TABLE entry DROP COLUMN hash",
            "CREATE VIEW more AS SELECT * FROM entry",
            "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
            "CREATE INDEX i ON entry (hash)",
            "UPDATE entry SET body = CAST(x'ff00' AS TEXT) WHERE seq = 2",
            "UPDATE entry SET hash = CAST(x'ff' AS TEXT) WHERE seq = 2",
            "UPDATE entry SET body = '' WHERE seq = 1",
            "DELETE FROM entry",
            "PRAGMA journal_mode=WAL",
            "PRAGMA application_id=7",
        ):
            for whole in (False, True):
                place.put()
                run(place.ledger, statement)
                place.check(statement, known, whole=whole)

    def test_a_chain_made_anew_never_breaks_the_reader(self, place, known):
        bodies, generator = [row[1] for row in rows_of(place.home / "ledger")], random.Random(4)  # noqa: S311
        refused = 0
        for number in range(250 * LONG):
            made = list(bodies)
            i = generator.randrange(len(made))
            turn = generator.randrange(4)
            if turn == 0:
                made[i] = edited(made[i], generator)
            elif turn == 1:
                made.insert(generator.randrange(len(made)), made.pop(i))
            elif turn == 2:
                made.insert(i, made[generator.randrange(len(made))])
            else:
                made[i] = twisted(made[i], generator)
            place.put()
            place.anchor.unlink()
            write_rows(place.ledger, chained(made))
            before = place.content()
            try:
                store = Store(place.ledger, None)
            except LedgerError:
                refused += 1
                assert place.content() == before
            else:
                # whoever makes the chain anew can leave charges out, but the sums are those of what is there
                charged = [json.loads(body).get("spent") for body in made]
                total = sum((Fraction(one["rho"]) for one in charged if one), Fraction(0))
                assert store.accountant.spent.rho == total, number
                store.ledger.close()
        assert refused > 100 * LONG

    def test_entries_that_no_reader_can_read(self, place):
        bodies = [row[1] for row in rows_of(place.home / "ledger")]
        for other in (
            "[" * 200_000,
            "",
            "x",
            "[]",
            "1",
            "null",
            '"open"',
            "{}",
            bodies[0],
            "\udcff",
        ):
            for i in (0, 1, len(bodies)):
                if (other, i) == (bodies[0], 0):
                    continue
                place.put()
                place.anchor.unlink()
                with suppress(UnicodeEncodeError):
                    write_rows(place.ledger, chained([*bodies[:i], other, *bodies[i:]]))
                    before = place.content()
                    with pytest.raises(LedgerError):
                        Store(place.ledger, None)
                    assert place.content() == before

    def test_another_format_is_refused(self, place):
        for number in (0, 4, 6, -1, 5.5, "5", None, True, [5]):
            bodies = [row[1] for row in rows_of(place.home / "ledger")]
            bodies[0] = json.dumps({**json.loads(bodies[0]), "format": number})
            place.put()
            place.anchor.unlink()
            write_rows(place.ledger, chained(bodies))
            with pytest.raises(LedgerError):
                Store(place.ledger, None)


def edited(text, generator):
    """A text with a few letters changed."""
    letters = list(text)
    for _ in range(generator.choice((1, 1, 3))):
        i = generator.randrange(len(letters))
        turn = generator.randrange(3)
        if turn == 0:
            letters[i] = generator.choice('0123456789-/."[]{}ax')
        elif turn == 1:
            letters[i] = ""
        else:
            letters[i] *= 2
    return "".join(letters)


ODD = (
    None,
    True,
    0,
    -1,
    10**400,
    "1/0",
    "-1",
    "",
    "x",
    [],
    [[]],
    {},
    {"rho": "1"},
    1.5,
    "1e9",
    "nan",
)


def twisted(text, generator):
    """An entry in which something, however deep, is something else, or is missing."""
    entry = json.loads(text)
    at: object = entry
    while True:
        inner = [
            key
            for key, value in (at.items() if isinstance(at, dict) else enumerate(at))
            if isinstance(value, (dict, list)) and value
        ]
        if not inner or generator.random() < 0.5:
            break
        at = at[generator.choice(inner)]
    key = generator.choice(list(at) if isinstance(at, dict) else range(len(at)))
    if generator.random() < 0.3:
        del at[key]
    else:
        at[key] = generator.choice(ODD)
    return json.dumps(entry, sort_keys=True)


def mutated_lines(text, generator):
    """A declaration in which lines are dropped, doubled, swapped or changed, and how."""
    lines, turn = text.split("\n"), generator.randrange(9)
    i, j = generator.randrange(len(lines)), generator.randrange(len(lines))
    if turn == 0:
        del lines[i]
    elif turn == 1:
        lines.insert(j, lines[i])
    elif turn == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif turn == 3:
        lines = lines[: min(i, j)] + lines[max(i, j) :]
    elif turn in (4, 5):
        name = lines[i].partition("=")[0]
        lines[i] = f"{name}= {generator.choice(VALUES)}"
    elif turn == 6:
        value = lines[j].partition("=")[2]
        lines[i] = f"{lines[i].partition('=')[0]}={value}"
    elif turn == 7:
        lines.insert(i, f"{generator.choice(NAMES)} = {generator.choice(VALUES)}")
    else:
        lines[i] = edited(lines[i], generator) if lines[i] else "\ufeff"
    return "\n".join(lines), f"turn {turn} at {i}, {j}"


VALUES = (
    "0", "-1", "1", "1e999", "nan", "inf", "-inf", "9223372036854775807", "99999999999999999999",
    '""', '"x"', '"alice"', '"../people.csv"', "'/dev/null'", '"people.csv\\u0000"', "[]", "[[]]", "{}", "true",
    "false", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", '["F", "F"]', '["F", 1]', "[0, nan, 100]",
    "[100, 50, 0]", '[["job"]]', '["sex"]', "0.1", "1e-400", '"1/3"', "{ a = 1 }", '["attributes"]',
    '"attributes"', '[{ columns = ["sex"] }]', '[{ columns = 1 }]', '[{ x = 1 }]', '"category"', '"real"',
    '"path"', '"sum"',
)  # fmt: skip
NAMES = (
    "key", "draft", "name", "unit", "low", "high", "bins", "values", "other", "rho", "doubling",
    "accountant", "release_delta", "rows", "views", "reserve", "together", "most_colluders", "x", '""',
    '"\\u0000"',
)  # fmt: skip


class TestDeclarations:
    def same(self, declaration, place):
        """Whether a declaration says the same as the undamaged one, of what a ledger rests on."""
        content, usual = read_toml(declaration), read_toml(place.home / "people.toml")
        table, own = Table.load(declaration), Table.load(place.home / "people.toml")
        return table.definition() == own.definition() and all(
            content.get(name) == usual.get(name) for name in ("budget", "policy", "views")
        )

    def test_lines_and_letters_changed(self, place, known):
        generator, read = random.Random(6), 0  # noqa: S311
        names = {*known} - {"views", "sequence"}
        for number in range(600 * LONG):
            text, how = mutated_lines(DECLARED, generator)
            for _ in range(generator.choice((0, 0, 1, 2))):
                text, more = mutated_lines(text, generator)
                how += f", {more}"
            place.put(declaration=text.encode())
            before = place.content()
            try:
                read_declaration(place.declaration)
            except DpnbError as error:
                assert error.what, (number, how, text)
                assert place.content() == before
                continue
            except Exception as error:
                raise AssertionError(number, how, text) from error
            read += 1
            if read % 2 and LONG == 1:
                continue
            before = place.content()
            try:
                curator = opened(place.declaration, place.ledger, place.anchor)
            except DpnbError as error:
                assert error.what, (number, how, text)
                assert place.content() == before, (number, how, error, text)
                continue
            except Exception as error:
                raise AssertionError(number, how, text) from error
            found = state(curator._runner.store)
            curator.close()
            # more views may be declared; nothing else may change
            assert {name: found[name] for name in names} == {name: known[name] for name in names}, (
                how
            )
            assert {**found["views"], **known["views"]} == found["views"]
        assert read > 20 * LONG

    def test_bytes_changed(self, place):
        generator = random.Random(7)  # noqa: S311
        for number in range(400 * LONG):
            text, how = mutated(DECLARED.encode(), generator)
            place.put(declaration=text)
            try:
                read_declaration(place.declaration)
            except DpnbError as error:
                assert error.what
            except Exception as error:
                raise AssertionError(number, how, text) from error
            assert place.declaration.read_bytes() == text
