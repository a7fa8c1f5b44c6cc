"""A PostgreSQL server for the tests, from the machine's packages: its own folder, port and users."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg

OWNER = "keeper"
PASSWORD = "s3cret/p@ss:w%rd"  # every character that a URL needs written otherwise


def programs() -> Path:
    """The folder of the newest PostgreSQL server's programs."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4])
    )
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    assert initdb, "these tests need PostgreSQL: apt-get install postgresql"
    return Path(initdb).parent


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """Initialised and started on entering, stopped and removed on leaving."""

    def __init__(self) -> None:
        self.port = free_port()
        self.schemas = 0

    def __enter__(self) -> Server:
        self.folder = Path(tempfile.mkdtemp(prefix="dpnb-postgres-"))
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            for path in (self.folder, secret):
                shutil.chown(path, "postgres", "postgres")
        self.run("initdb", "-U", "chief", "-A", "scram-sha-256", f"--pwfile={secret}",
                 "-E", "UTF8", "--locale=C", "--no-sync")  # fmt: skip
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nfsync = on\n"
                f"unix_socket_directories = '{self.folder}'\n"
            )
        try:
            self.start()
            self.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def run(self, program: str, *arguments: str) -> None:
        command = [str(programs() / program), "-D", str(self.folder / "data"), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        self.run("pg_ctl", "-w", "-s", "-l", str(self.folder / "log"), "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop as in a power cut, or in another of pg_ctl's modes."""
        self.run("pg_ctl", "-w", "-s", "-m", mode, "stop")

    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8")

    def url(self, database: str = "postgres", *, user: str = OWNER, schema: str = "",
            port: int | None = None) -> str:  # fmt: skip
        """The address of a database, as a user would write it."""
        tail = f"?options=-csearch_path%3D{schema}" if schema else ""
        place = f"127.0.0.1:{port or self.port}/{database}"
        return f"postgresql://{user}:{quote(PASSWORD, safe='')}@{place}{tail}"

    def schema(self, owner: str = OWNER) -> str:
        """A new schema; one ledger has room in it."""
        self.schemas += 1
        name = f"ledger_{self.schemas}"
        self.execute(f"CREATE SCHEMA {name} AUTHORIZATION {owner}")
        return name

    def execute(self, statement: str, schema: str = "", *, values: tuple[object, ...] = (),
                triggers: bool = True) -> list[tuple]:  # fmt: skip
        """Run a statement as the superuser; without triggers nothing stands in its way."""
        url = self.url(user="chief", schema=schema)
        with psycopg.connect(url, autocommit=True) as connection:
            if not triggers:
                connection.execute("SET session_replication_role = replica")
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []
