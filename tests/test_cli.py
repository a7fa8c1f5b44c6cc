"""The command line: exit codes, texts, and a service in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

import dpnb
from dpnb.cli import _authenticator, _curator, _declaring, _parser, main
from dpnb.server import tokens
from dpnb.server.app import create_app
from tests.kit.inside import ask, runner

TOML = """
source = "people.csv"
[columns.sex]
type = "category"
values = ["Female", "Male"]
[columns.wage]
type = "integer"
low = 0
high = 100
[budget]
rho = "0.5"
delta = "1e-6"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"sex": ["Female", "Male"] * 50, "wage": range(100)}).to_csv(
        "people.csv", index=False
    )
    (tmp_path / "people.toml").write_text(TOML)
    return tmp_path


def run(capsys, *words):
    code = main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


class TestAnalyst:
    def test_add_prints_the_token_alone_once(self, home, capsys):
        code, out, err = run(
            capsys, "analyst", "add", "alice", "--privilege", "4", "--privilege", "1"
        )
        assert code == 0
        assert tokens.TOKEN.fullmatch(out.strip())
        assert out.strip() not in err
        assert "DPNB_TOKEN" in err
        assert stat.S_IMODE((home / "tokens.json").stat().st_mode) == 0o600

    def test_list_revoke_renew(self, home, capsys):
        _, first, _ = run(capsys, "analyst", "add", "alice", "--privilege", "4",
                          "--expires", "2099-01-31")  # fmt: skip
        code, out, _ = run(capsys, "analyst", "list")
        assert code == 0
        assert re.fullmatch(r"alice\tprivilege 4\tsince \d{4}-\d\d-\d\d\tuntil 2099-01-31\n", out)
        assert first.strip() not in out
        assert run(capsys, "analyst", "revoke", "alice")[0] == 0
        assert "revoked" in run(capsys, "analyst", "list")[1].split("\t")[3]
        code, second, _ = run(capsys, "analyst", "renew", "alice")
        assert code == 0
        assert second != first
        code, _, said = run(capsys, "analyst", "set", "alice", "--privilege", "2")
        assert (code, "alice has privilege 2" in said) == (0, True)
        assert "\tprivilege 2\t" in run(capsys, "analyst", "list")[1]
        (home / "tokens.json").write_text(
            (home / "tokens.json").read_text().replace("2\n", "22\n", 1)
        )
        assert "kept out: a privilege must be from 1 to 10" in run(capsys, "analyst", "list")[1]
        assert run(capsys, "analyst", "remove", "alice")[0] == 0
        assert run(capsys, "analyst", "list")[1] == ""

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("analyst", "list"), "does not exist"),
            (("analyst", "revoke", "alice"), "dpnb analyst add"),
            (("analyst", "add", "owner", "--privilege", "4"), "is reserved"),
            (("analyst", "add", "a b", "--privilege", "4"), "cannot be the name of an analyst"),
            (("analyst", "add", "alice", "--privilege", "99"), "from 1 to 10, got 99"),
            (("analyst", "add", "alice", "--privilege", "4", "--expires", "soon"), "2027-01-31"),
            (
                ("analyst", "add", "alice", "--privilege", "4", "--tokens", "no/where"),
                "cannot be written",
            ),
        ],
    )
    def test_errors_are_one_line_and_code_1(self, home, capsys, words, said):
        code, out, err = run(capsys, *words)
        assert (code, out) == (1, "")
        assert said in err
        assert err.startswith("dpnb: ")
        assert err.count("\n") == 1

    def test_the_version_is_that_of_the_package(self, capsys):
        with pytest.raises(SystemExit, match="0"):
            main(["--version"])
        assert capsys.readouterr().out == f"dpnb {dpnb.__version__}\n"

    @pytest.mark.parametrize("words", [(), ("nope",), ("analyst",), ("analyst", "add", "alice")])
    def test_mistyped_commands_are_code_2(self, home, capsys, words):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2
        assert "usage" in capsys.readouterr().err


class TestServe:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "token file"),
            (("--tokens", "nothing.json"), "nothing.json"),
            (("--group", "a=1"), "this process was not started by a JupyterHub"),
            (("--group", "a"), "--group a"),
        ],
    )
    def test_without_analysts_it_does_not_start(self, home, capsys, words, said):
        code, _, err = run(capsys, "serve", "people.toml", "--port", "0", *words)
        assert code == 1
        assert said.replace("--group a", "--group 'a'") in err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--host", "0.0.0.0"), "no TLS"),  # noqa: S104
            (("--certificate", "c.pem"), "key"),
            (("--rate", "0"), "rate"),
            (("--rho", "-1"), "rho"),
            (("--top", "3"), "from 1 to 3, got 4"),
            (("--ledger", "mysql://user:hunter2@host/db"), "postgresql://"),
        ],
    )
    def test_unusable_options_are_told(self, home, capsys, words, said):
        tokens.add(home / "tokens.json", "alice", [4])
        code, _, err = run(capsys, "serve", "people.toml", "--port", "0", *words)
        assert code == 1
        assert said in err
        assert "hunter2" not in err

    @pytest.fixture
    def filled(self, home):
        """A service's ledger of these people."""
        tokens.add(home / "tokens.json", "alice", [4])
        table = dpnb.Table.load(home / "people.toml")
        budget = dpnb.Budget(rho="0.5", delta="1e-6")
        analysts = {"alice": 4}
        dpnb.Curator(
            [table], budget=budget, ledger=home / "people.ledger", analysts=analysts
        ).close()
        return home

    def refused(self, capsys, *words):
        code, _, err = run(capsys, "serve", "people.toml", "--port", "0", *words)
        assert code == 1
        assert not re.search(r"=True|dpnb\.|analysts=", err)
        return err

    def test_a_notebooks_ledger_is_refused_in_the_words_of_the_command_line(self, home, capsys):
        tokens.add(home / "tokens.json", "alice", [4])
        table = dpnb.Table.load(home / "people.toml")
        dpnb.Session(table, budget=dpnb.Budget(rho=1), ledger=home / "people.ledger").close()
        err = self.refused(capsys)
        assert (
            "the ledger belongs to a session without analysts, as in a notebook (people.ledger)"
            in err
        )
        assert "Name another ledger with --ledger PLACE." in err

    def test_other_data_are_refused_so_too(self, filled, capsys):
        (filled / "people.csv").write_text("sex,wage\nFemale,1\n")
        assert "pass --new-version (what was spent is kept)" in self.refused(capsys)

    def test_a_missing_anchor_too(self, filled, capsys):
        err = self.refused(capsys, "--anchor", "elsewhere")
        assert "its anchor elsewhere is missing" in err
        assert "pass --new-anchor." in err

    def test_a_missing_budget_too(self, home, capsys):
        tokens.add(home / "tokens.json", "alice", [4])
        (home / "people.toml").write_text(TOML.partition("[budget]")[0])
        assert "Pass --epsilon 3 --delta 1e-6." in self.refused(capsys)

    def test_an_anchor_begins_when_the_owner_says_so(self, filled):
        words = ["serve", "people.toml", "--anchor", "elsewhere", "--new-anchor"]
        _curator(_parser().parse_args(words), tokens.TokenFile("tokens.json")).close()
        assert (filled / "elsewhere").exists()

    def test_a_table_that_is_not_there(self, home, capsys):
        tokens.add(home / "tokens.json", "alice", [4])
        assert run(capsys, "serve", "nothing.toml")[0] == 1

    def test_budgets_of_several_tables_agree(self, home, capsys):
        tokens.add(home / "tokens.json", "alice", [4])
        (home / "other.toml").write_text(TOML.replace('"0.5"', '"0.25"'))
        code, _, err = run(capsys, "serve", "people.toml", "other.toml", "--port", "0")
        assert code == 1
        assert "different 'budget'" in err


def served(file):
    """The curator that would serve a table's file, with the analysts let in who may ask."""
    options = _parser().parse_args(["serve", file])
    authenticator = _declaring(options, _authenticator(options))
    curator = _curator(options, authenticator)
    create_app(runner(curator), authenticator)
    return curator


class TestProcess:
    @pytest.fixture
    def start(self, home):
        running = []

        def begin(*words):
            process = subprocess.Popen(
                [sys.executable, "-m", "dpnb", "serve", "people.toml", "--port", "0", *words],
                stderr=subprocess.PIPE, text=True, cwd=home, env={**os.environ, "PYTHONWARNINGS": ""},
            )  # fmt: skip
            running.append(process)
            lines = []
            for line in process.stderr:
                lines.append(line)
                found = re.match(r"answering on (http\S+)", line)
                if found:
                    return process, found.group(1), lines
            raise AssertionError("".join(lines))

        yield begin
        for process in running:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_it_serves_until_it_is_told_to_end_and_keeps_what_was_paid(self, home, start):
        token, paid = tokens.add(home / "tokens.json", "alice", [4]), []
        asked = ("SELECT COUNT(*) AS n FROM people", "SELECT SUM(wage) AS s FROM people")

        def paid_before(ask):
            for sql, first in zip(asked, paid, strict=False):
                assert not first.stored
                again = ask(sql)
                assert again.stored
                assert again.estimates == first.estimates

        for number, sql in zip((signal.SIGTERM, signal.SIGINT), asked, strict=True):
            later = tokens.add(home / "tokens.json", f"bob{len(paid)}", [2])
            process, url, _ = start()
            with dpnb.connect(url, token=token) as session:
                paid_before(lambda q, s=session: s.query(q, rho=0.1))
                paid.append(session.query(sql, rho=0.1))
                with pytest.raises(dpnb.DpnbError):
                    session.query(sql, rho=0.7)
            # as when the terminal is closed
            process.send_signal(signal.SIGHUP)
            with dpnb.connect(url, token=later) as session:
                assert session.budget.spent.rho == 0
            process.send_signal(number)
            rest = process.stderr.read()
            assert "refused alice query: rho 0.6, the analyst's own limit\n" in rest
            assert process.wait(15) == 0
            assert "Traceback" not in rest
            assert token not in rest
            assert "SELECT" not in rest
            assert stat.S_IMODE((home / "people.ledger").stat().st_mode) == 0o600
        curator = served("people.toml")
        paid_before(lambda q: ask(curator, "alice", "query", q, {"rho": 0.1}))
        curator.close()

    @pytest.mark.parametrize("moment", ["_parser", "wait", "_listen", "close"])
    def test_it_ends_well_at_any_moment(self, home, moment):
        """While it is imported, while it opens the data, before it listens, while it ends."""
        tokens.add(home / "tokens.json", "alice", [4])
        code = (
            "import os, signal, sys\n"
            "def look(frame, event, value):\n"
            f"    if frame.f_code.co_name == {moment!r} and 'dpnb' in frame.f_code.co_filename:\n"
            "        sys.settrace(None)\n"
            "        os.kill(os.getpid(), signal.SIGTERM)\n"
            "        print('ended too late', file=sys.stderr)\n"
            "sys.argv = ['dpnb', 'serve', 'people.toml', '--port', '0']\n"
            "from dpnb.__main__ import main\n"
            "sys.settrace(look)\n"
            "sys.exit(main())"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=home, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
        assert "too late" not in ended.stderr
        served("people.toml").close()

    def test_beyond_this_machine_without_tls_it_warns(self, home, start):
        tokens.add(home / "tokens.json", "alice", [4])
        _, url, lines = start("--host", "0.0.0.0", "--insecure")  # noqa: S104
        assert "Tokens and answers can be read on the network" in "".join(lines)
        assert url.startswith("http://0.0.0.0:")


class TestDeclared:
    """What a table's file says about several analysts."""

    def opened(self, home, text):
        (home / "people.toml").write_text(text)
        if not (home / "tokens.json").exists():
            tokens.add(home / "tokens.json", "alice", [4])
            tokens.add(home / "tokens.json", "bob", [1])
        return served("people.toml")

    def test_policy_and_views_are_those_of_the_file(self, home):
        policy = '[policy]\nmechanism = "vanilla"\nrows = "sum"\nexpansion = "1.5"\n'
        curator = self.opened(home, f'views = "attributes"\n{TOML}{policy}')
        try:
            found = curator.provenance
            assert found.mechanism == "vanilla"
            assert {column.name for column in found.columns} == {"sex", "wage"}
            limits = {row.name: row.limit for row in found.rows}
            assert 0 < limits["bob"].rho < limits["alice"].rho == dpnb.Budget(rho="0.5").cap.rho
        finally:
            curator.close()

    def test_analysts_of_the_file_are_registered_beside_those_with_a_token(self, home):
        curator = self.opened(home, f"{TOML}[analysts]\nalice = 4\ncarol = [2, 3]\n")
        try:
            assert [row.name for row in curator.provenance.rows] == [
                "alice", "carol", "carol#3", "bob",
            ]  # fmt: skip
        finally:
            curator.close()

    def test_a_described_view(self, home):
        views = "views = [ {columns = ['wage', 'sex'], bins = {wage = [0, 50, 100]}, name = 'w'} ]"
        curator = self.opened(home, f"{views}\n{TOML}")
        try:
            (column,) = curator.provenance.columns
            assert (column.name, column.kind) == ("w", "declared")
        finally:
            curator.close()

    def test_who_is_wrong_in_the_file_is_kept_out_and_the_others_are_not(self, home, caplog):
        for name, privilege in (("alice", 4), ("bob", 1), ("dora", 1)):
            tokens.add(home / "tokens.json", name, [privilege])
        analysts = "[analysts]\nalice = 2\nbob = 11\ncarol = 3\n'd d' = 1\n"
        curator = self.opened(home, TOML + analysts)
        try:
            assert [row.name for row in curator.provenance.rows] == ["alice", "carol", "dora"]
            assert "alice is kept out: [analysts] gives privilege 2, and the token 4" in caplog.text
            assert (
                "bob is kept out: [analysts]: a privilege must be from 1 to 10, got 11"
                in caplog.text
            )
            assert "d d is kept out: [analysts]: " in caplog.text
        finally:
            curator.close()
        options = _parser().parse_args(["serve", "people.toml"])
        declared = _declaring(options, tokens.TokenFile("tokens.json"))
        token = tokens.renew(home / "tokens.json", "alice")
        with ThreadPoolExecutor(1) as threads:

            def identify():
                sent = [(b"authorization", f"Bearer {token}".encode())]
                return threads.submit(asyncio.run, declared.identify(sent)).result()

            with pytest.raises(dpnb.DpnbError, match="has not allowed an analyst"):
                identify()
            tokens.set_privilege(home / "tokens.json", "alice", [2])
            assert identify().privilege == 2

    def test_a_privilege_that_a_ledger_does_not_allow_keeps_out_one_analyst(self, home, caplog):
        self.opened(home, TOML).close()
        tokens.set_privilege(home / "tokens.json", "alice", [5])
        tokens.set_privilege(home / "tokens.json", "bob", [2])
        curator = self.opened(home, TOML)
        try:
            assert {row.name: row.privilege for row in curator.provenance.rows} == {
                "alice": 4, "bob": 2,
            }  # fmt: skip
            assert "alice is kept out: a privilege must be from 1 to 4, got 5" in caplog.text
        finally:
            curator.close()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (f"{TOML}[policy]\nrow = 1\n", "[policy] has an unknown entry"),
            (f'{TOML}[policy]\nrows = "most"\n', "rows cannot be 'most'"),
            (f'views = "each"\n{TOML}', "views cannot be 'each'"),
            (f"views = [['height']]\n{TOML}", "there is no declared column 'height'"),
        ],
    )
    def test_what_makes_no_sense_is_told(self, home, capsys, text, said):
        tokens.add(home / "tokens.json", "alice", [4])
        (home / "people.toml").write_text(text)
        code, _, err = run(capsys, "serve", "people.toml", "--port", "0")
        assert code == 1
        assert said in err
