"""The command `dpnb lessons`: copies, starts JupyterLab, runs without a browser; what it says of mistakes."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import webbrowser
from types import SimpleNamespace

import pytest

from dpnb import lessons
from dpnb.cli import main
from tests.kit import notebooks

LINK = "http://127.0.0.1:8888/lab/tree/01_first_private_query.ipynb?token=t"
LINK_OF = lessons._link
"""As it is: the fixture below puts another in its place."""


class Server:
    """What is left of JupyterLab when nothing is started."""

    code = 0

    def __init__(self, command, env):
        Server.command, Server.env = command, env

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def wait(self):
        return Server.code


@pytest.fixture(autouse=True)
def _started(monkeypatch):
    """Pretend that JupyterLab is installed, starts at once, and is stopped at once."""
    monkeypatch.setattr(Server, "code", 0)
    monkeypatch.setattr(lessons, "find_spec", lambda name: name)
    monkeypatch.setattr(lessons.subprocess, "Popen", Server)
    monkeypatch.setattr(lessons, "_link", lambda server: LINK)


def run(capsys, *words):
    code = main(["lessons", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.fast
class TestCopies:
    def test_everything_that_lessons_link_and_read_comes_along(self, tmp_path, capsys):
        folder = tmp_path / "a new" / "folder"
        code, out, _ = run(capsys, folder)
        assert code == 0
        assert f"Copied to {folder}: 13 files." in out
        for path in lessons.lesson_files():
            assert (folder / path.name).read_bytes() == path.read_bytes()
            assert not (folder / path.name).is_symlink()
        text = "".join(path.read_text() for path in folder.glob("*.ipynb"))
        named = re.findall(r"\]\(([\w.]+\.(?:ipynb|md))\b|read_parquet\(\\\"([^\\]+)", text)
        assert {"SECURITY.md", "glossary.ipynb", "online_retail.parquet"} < {
            a or b for a, b in named
        }
        assert all((folder / (a or b)).exists() for a, b in named)

    def test_ledgers_and_other_files_of_a_reader_stay_where_they_are(self, tmp_path, monkeypatch):
        # a ledger is as secret as its data
        monkeypatch.setattr(lessons, "__file__", str(tmp_path / "dpnb" / "lessons.py"))
        folder = tmp_path / "notebooks"
        folder.mkdir()
        for name in (lessons.FIRST, "adult.ledger", "Untitled.ipynb", "mine.parquet"):
            (folder / name).write_text("")
        assert lessons.lesson_files() == [folder / lessons.FIRST]

    def test_what_was_edited_is_kept_and_named_and_what_was_removed_comes_again(
        self, tmp_path, capsys
    ):
        run(capsys, tmp_path)
        (tmp_path / lessons.FIRST).write_text("mine")
        (tmp_path / "exercises.py").unlink()
        code, out, _ = run(capsys, tmp_path)
        assert code == 0
        assert (tmp_path / lessons.FIRST).read_text() == "mine"
        assert (tmp_path / "exercises.py").exists()
        assert f"Copied to {tmp_path}: 1 file." in out
        assert f"Not copied, because yours differ: {lessons.FIRST}. Remove or rename" in out

    def test_a_second_time_there_is_nothing_to_say(self, tmp_path, capsys):
        run(capsys, tmp_path)
        _, out, _ = run(capsys, tmp_path)
        assert "opied" not in out

    def test_by_default_into_a_folder_here(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        run(capsys)
        assert (tmp_path / "lessons" / lessons.FIRST).exists()


@pytest.mark.fast
class TestJupyterLab:
    def test_it_opens_the_first_lesson_for_this_machine_only(self, tmp_path, capsys):
        code, out, err = run(capsys, tmp_path)
        assert (code, err) == (0, "")
        assert Server.command[-1] == str(tmp_path / lessons.FIRST)
        assert {"--ip=127.0.0.1", f"--ServerApp.root_dir={tmp_path}"} <= {*Server.command}
        assert out.endswith(f"open {LINK}\nStop it with Ctrl-C.\n")

    @pytest.mark.parametrize("root", [True, False])
    def test_root_is_told_and_let_in(self, root, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
        code, out, _ = run(capsys, tmp_path)
        assert code == 0
        assert ("--allow-root" in Server.command) is root
        assert ("You are root" in out) is root

    def test_its_token_is_new_each_time_and_on_no_command_line(self, tmp_path, capsys, monkeypatch):
        monkeypatch.delenv("JUPYTER_TOKEN", raising=False)
        run(capsys, tmp_path)
        token = Server.env["JUPYTER_TOKEN"]
        assert len(token) == 48
        assert token not in "".join(Server.command)
        run(capsys, tmp_path)
        assert Server.env["JUPYTER_TOKEN"] != token

    @pytest.mark.parametrize(
        ("environment", "found", "seen"),
        [
            ({}, True, False),  # a browser in the terminal
            ({"DISPLAY": ":0"}, True, True),
            ({"WAYLAND_DISPLAY": "wayland-0"}, True, True),
            ({"BROWSER": "firefox"}, True, True),
            ({"DISPLAY": ":0"}, False, False),
        ],
    )
    def test_a_browser_is_opened_where_there_is_one(self, environment, found, seen, monkeypatch):
        def get():
            if not found:
                raise webbrowser.Error

        monkeypatch.setattr(lessons.sys, "platform", "linux")
        monkeypatch.setattr(webbrowser, "get", get)
        assert lessons.has_browser(environment) is seen

    @pytest.mark.parametrize("seen", [True, False])
    def test_the_link_is_printed_in_any_case(self, seen, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(lessons, "has_browser", lambda environment: seen)
        _, out, _ = run(capsys, tmp_path)
        assert ("--no-browser" in Server.command) is not seen
        assert LINK in out

    def test_if_it_cannot_start_that_is_an_error(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(Server, "code", 1)
        monkeypatch.setattr(lessons, "_link", lambda server: "")
        code, out, err = run(capsys, tmp_path)
        assert code == 1
        assert "http" not in out
        assert err.startswith("dpnb: JupyterLab ended with exit code 1.")


@pytest.fixture
def locked(tmp_path):
    """A folder of somebody else's, for which root becomes nobody."""
    own = os.geteuid()
    tmp_path.chmod(0)
    if own == 0:
        os.seteuid(65534)
    yield tmp_path
    os.seteuid(own)
    tmp_path.chmod(0o700)


@pytest.mark.fast
class TestMistakes:
    @pytest.mark.parametrize("run_it", [(), ("--run",)])
    def test_without_jupyterlab_nothing_is_copied(self, run_it, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(lessons, "find_spec", lambda name: None)
        code, _, err = run(capsys, tmp_path / "new", *run_it)
        assert code == 1
        assert err == "dpnb: JupyterLab is not installed. Run pip install 'dpnb[lessons]'.\n"
        assert not (tmp_path / "new").exists()

    def test_a_file_is_no_folder(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        code, _, err = run(capsys, tmp_path / "file")
        assert code == 1
        assert err == f"dpnb: {tmp_path / 'file'} is a file. Name a folder: dpnb lessons FOLDER.\n"

    def test_nor_does_it_hold_one(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        code, _, err = run(capsys, tmp_path / "file" / "below")
        assert code == 1
        assert "cannot copy the lessons" in err

    @pytest.mark.parametrize("below", ["", "new", "new/deeper"])
    def test_a_folder_that_must_not_be_written_to(self, below, capsys, locked):
        folder = locked / below
        code, _, err = run(capsys, folder)
        assert code == 1
        assert err == (
            f"dpnb: cannot copy the lessons to {folder}: Permission denied. "
            "Name a folder that you may write to: dpnb lessons FOLDER.\n"
        )

    def test_an_unknown_option(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            main(["lessons", "--browser"])
        assert "unrecognized arguments: --browser" in capsys.readouterr().err


LESSON = (
    "%load_ext dpnb\n%dpopen adult --rho 1",
    "%%dpquery --rho 0.1\nSELECT COUNT(*) AS persons FROM adult",
    "1 / 0",
)


@pytest.mark.kernel
def test_without_a_browser_answers_are_printed_with_intervals_and_costs(
    tmp_path, capsys, monkeypatch
):
    """Of a lesson that a reader has edited."""
    monkeypatch.undo()
    monkeypatch.setattr(lessons, "find_spec", lambda name: name)
    path = tmp_path / lessons.FIRST
    refused = notebooks.cell("%%dpquery --rho 0.1\nSELECT MAX(age) FROM adult")
    refused.metadata["tags"] = ["raises-exception"]
    path.write_text(notebooks.text(notebooks.made(*LESSON[:2], refused)))
    before = path.read_bytes()
    code, out, err = run(capsys, tmp_path, "--run")
    assert (code, err) == (0, "")
    shown = out.partition("SELECT COUNT(*) AS persons")[2]
    assert re.search(r"persons +95 % interval\n *32,\d{3} +32,\d{3} to 32,\d{3}\n", shown)
    assert "Privacy cost: rho 0.1" in shown
    assert "SqlError: MIN and MAX cannot be answered" in shown
    page = path.with_suffix(".html")
    assert out.endswith(f"Saved the lesson with its answers and pictures: {page}\n")
    assert "dpnb-table" in page.read_text()
    assert path.read_bytes() == before


@pytest.mark.kernel
def test_a_cell_that_fails_is_told_after_the_rest(tmp_path, capsys, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(lessons, "find_spec", lambda name: name)
    path = tmp_path / lessons.FIRST
    path.write_text(notebooks.text(notebooks.made(LESSON[2])))
    code, _, err = run(capsys, tmp_path, "--run")
    assert code == 1
    assert err.startswith("dpnb: a cell failed: ZeroDivisionError: division by zero.")
    assert path.with_suffix(".html").exists()


def test_a_page_that_cannot_be_written_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nbclient.NotebookClient.execute", lambda self, **_: None)
    path = tmp_path / lessons.FIRST
    path.write_text(notebooks.text(notebooks.made(LESSON[1])))
    page = path.with_suffix(".html")
    page.mkdir()
    code, _, err = run(capsys, tmp_path, "--run")
    assert code == 1
    assert err.startswith(f"dpnb: cannot write {page}: Is a directory. Remove it, or name another")
    page.rmdir()
    assert run(capsys, tmp_path, "--run")[0] == 0
    assert page.is_file()


@pytest.mark.parametrize("number", range(1, 10))
def test_any_lesson_runs_by_its_number(number, tmp_path, capsys, monkeypatch):
    ran = []
    monkeypatch.setattr("nbclient.NotebookClient.execute", lambda self, **_: ran.append(self.nb))
    monkeypatch.setattr("nbconvert.HTMLExporter.from_notebook_node", lambda *_: ("a page", {}))
    code, out, _ = run(capsys, tmp_path, "--run", number)
    (path,) = tmp_path.glob(f"0{number}_*.ipynb")
    assert (code, len(ran)) == (0, 1)
    assert f"Running {path.name} ..." in out
    assert ran[0].cells == notebooks.read(path).cells
    assert path.with_suffix(".html").read_text() == "a page"


@pytest.mark.fast
@pytest.mark.parametrize("number", ["0", "10", "two", "02", ""])
def test_a_lesson_that_there_is_not(number, tmp_path, capsys):
    code, _, err = run(capsys, tmp_path / "new", "--run", number)
    assert code == 1
    assert err.startswith("dpnb: there is no lesson ")
    assert "Give a number from 1 to 9: dpnb lessons FOLDER --run 2." in err
    assert not (tmp_path / "new").exists()


@pytest.mark.fast
def test_the_first_lesson_has_such_cells():
    cells = json.loads((lessons.lesson_files()[0]).read_text())["cells"]
    assert sum("".join(cell["source"]).startswith("%%dp") for cell in cells) >= 5


def test_the_link_is_said_when_somebody_listens(monkeypatch):
    """JupyterLab writes down its port before it listens on it."""
    asked = []
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]

        def running():
            asked.append(port)
            if len(asked) == 3:
                one.listen()
            return [{"pid": 7, "port": port, "url": f"http://127.0.0.1:{port}/", "token": "t"}]

        app = SimpleNamespace(list_running_servers=running)
        monkeypatch.setitem(sys.modules, "jupyter_server", SimpleNamespace(serverapp=app))
        monkeypatch.setitem(sys.modules, "jupyter_server.serverapp", app)
        link = LINK_OF(SimpleNamespace(pid=7, poll=lambda: None))
    assert link == LINK.replace("8888", str(port))
    assert len(asked) == 3
