"""The command line: ``dpnb lessons``, ``dpnb serve`` and ``dpnb analyst``."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dpnb
from dpnb.curator import Curator
from dpnb.errors import DpnbError, RequestError, given
from dpnb.interrupt import end_at_signals
from dpnb.ledger.accounts import check_name
from dpnb.ledger.configuration import read_analysts, read_budget, read_policy
from dpnb.ledger.ledger import Ledger
from dpnb.ledger.policy import check_privilege, privileges_of
from dpnb.lessons import FOLDER, open_lessons, run_lesson
from dpnb.privacy.budget import Budget
from dpnb.schema.schema import read_file
from dpnb.schema.table import Table
from dpnb.server import tokens
from dpnb.server.auth import Authenticator, Declared, Privilege, highest, read_privilege
from dpnb.server.hub import HubAuthenticator, is_service
from dpnb.server.limits import Limits
from dpnb.server.service import is_loopback
from dpnb.spelling import with_options

TOKENS = "tokens.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 0, 1 for an error, 2 for a mistyped command."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except DpnbError as error:
        print(with_options(f"dpnb: {error}"), file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpnb", description="Differential privacy for a table and its analysts."
    )
    parser.add_argument("--version", action="version", version=f"dpnb {dpnb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_lessons(commands.add_parser("lessons", help="copy the lessons and open the first one"))
    _add_serve(commands.add_parser("serve", help="answer analysts over HTTP"))
    analyst = commands.add_parser("analyst", help="give analysts access, or take it away")
    _add_analyst(analyst.add_subparsers(required=True, metavar="COMMAND"))
    return parser


def _add_lessons(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", default=FOLDER, metavar="FOLDER",
        help="where to copy them, %(default)s by default; files that you changed stay",
    )  # fmt: skip
    parser.add_argument(
        "--run", nargs="?", const="1", dest="number", metavar="N",
        help="run lesson N, the first by default, without a browser, print its answers and save it as HTML",
    )  # fmt: skip
    parser.set_defaults(run=_lessons)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="+", metavar="TABLE.toml", help="files of the tables")
    parser.add_argument("--host", help="address to listen on; 127.0.0.1 by default")
    parser.add_argument("--port", type=int, help="port; 8899 by default, 0 for any free one")
    parser.add_argument("--rho", help="budget in zCDP; by default the [budget] of a table's file")
    parser.add_argument("--epsilon", help="total budget as epsilon; pure DP without --delta")
    parser.add_argument("--delta", help="delta of the budget")
    parser.add_argument("--key-delta", help="part of delta for finding undeclared values")
    parser.add_argument(
        "--ledger",
        metavar="PLACE",
        help="file, or postgresql://user@host/database#schema; by default TABLE.ledger",
    )
    parser.add_argument("--anchor", metavar="PATH", help="file that detects a restored ledger")
    parser.add_argument(
        "--new-anchor", action="store_true", help="start a new anchor for a ledger that has entries"
    )
    parser.add_argument(
        "--new-version", action="store_true", help="accept changed data; what was spent stays spent"
    )
    parser.add_argument(
        "--tokens", metavar="PATH", help=f"file that dpnb analyst writes; {TOKENS} by default"
    )
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME=PRIVILEGE",
        help="in a JupyterHub: a group and its privilege; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=int, metavar="N",
        help="highest privilege that an analyst may ever get; by default the highest at the start",
    )  # fmt: skip
    parser.add_argument("--certificate", metavar="PATH", help="certificate for TLS, in PEM")
    parser.add_argument("--key", metavar="PATH", help="key of the certificate, in PEM")
    parser.add_argument(
        "--insecure", action="store_true", help="let other machines connect without TLS"
    )
    parser.add_argument(
        "--rate", type=float, default=Limits().rate, metavar="N",
        help="requests per second of one analyst; %(default)g by default",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=Limits().seconds, metavar="N",
        help="how long one request may take; %(default)g by default",
    )  # fmt: skip
    parser.set_defaults(run=_serve)


def _add_analyst(commands: Any) -> None:
    def command(name: str, words: str, run: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=words)
        parser.add_argument(
            "--tokens",
            metavar="PATH",
            default=TOKENS,
            help="file of the tokens; %(default)s by default",
        )
        parser.set_defaults(run=run)
        return parser

    add = command("add", "add an analyst and print the token, once", _add)
    add.add_argument("name")
    renew = command("renew", "print a new token; the old one stops working", _renew)
    renew.add_argument("name")
    for parser in (add, renew):
        parser.add_argument(
            "--expires", metavar="DAY", help="last day of the token, such as 2027-01-31"
        )
    change = command("set", "give an analyst another privilege; the token stays", _set)
    change.add_argument("name")
    for parser in (add, change):
        parser.add_argument(
            "--privilege", action="append", type=int, required=True, metavar="N",
            help="privilege from 1 to 10: the higher, the larger the budget; may be repeated",
        )  # fmt: skip
    command("revoke", "stop accepting the token of an analyst", _revoke).add_argument("name")
    remove = command("remove", "remove an analyst and the token; the ledger keeps both", _remove)
    remove.add_argument("name")
    command("list", "list the analysts", _list)


def _lessons(options: argparse.Namespace) -> None:
    folder = Path(options.folder).absolute()
    if options.number is None:
        open_lessons(folder)
    else:
        run_lesson(folder, options.number)


def _add(options: argparse.Namespace) -> None:
    _show_token(
        tokens.add(Path(options.tokens), options.name, options.privilege, options.expires),
        options.name,
    )


def _renew(options: argparse.Namespace) -> None:
    _show_token(tokens.renew(Path(options.tokens), options.name, options.expires), options.name)


def _show_token(token: str, name: str) -> None:
    """Print only the token to stdout, so that it can be piped; explain it on stderr."""
    print(token)  # noqa: T201
    _say(f"This is the token of {name}, for DPNB_TOKEN. It is shown only once and not stored.")


def _revoke(options: argparse.Namespace) -> None:
    tokens.revoke(Path(options.tokens), options.name)
    _say(f"The token of {options.name} is no longer accepted.")


def _set(options: argparse.Namespace) -> None:
    tokens.set_privilege(Path(options.tokens), options.name, options.privilege)
    levels = ", ".join(map(str, options.privilege))
    _say(
        f"{options.name} has privilege {levels} from the next request on, if the ledger allows it."
    )


def _remove(options: argparse.Namespace) -> None:
    tokens.remove(Path(options.tokens), options.name)
    _say(f"{options.name} is removed. What was released to {options.name} stays in the ledger.")


def _list(options: argparse.Namespace) -> None:
    for entry in tokens.entries(Path(options.tokens)):
        levels = ",".join(map(str, entry.privilege))
        state = "revoked" if entry.revoked else f"until {entry.expires or 'revoked'}"
        state = f"kept out: {entry.obstacle}" if entry.obstacle else state
        print(f"{entry.name}\tprivilege {levels}\tsince {entry.created}\t{state}")  # noqa: T201


def _serve(options: argparse.Namespace) -> None:
    # requests run in parallel, so more threads for linear algebra would only wait for cores
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    host, port = _place(options, os.environ)
    limits = Limits(rate=options.rate, seconds=options.seconds)
    limits = replace(limits, burst=max(1, int(min(2 * options.rate, 1e6))))
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "") if is_service() else ""
    with _serving(), contextlib.ExitStack() as stack:
        authenticator = _declaring(options, _authenticator(options))
        curator = stack.enter_context(contextlib.closing(_curator(options, authenticator)))
        if not is_loopback(host) and options.certificate is None and options.insecure:
            _say(
                f"Warning: {host} without TLS. Tokens and answers can be read on the network, "
                "unless a proxy in front of the service has TLS."
            )
        curator.serve(
            host,
            port,
            authenticator=authenticator,
            certificate=options.certificate,
            key=options.key,
            insecure=options.insecure,
            limits=limits,
            prefix=prefix,
        )


def _place(options: argparse.Namespace, environment: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port from the options, else from the Hub's settings for its service."""
    url = urlsplit(environment.get("JUPYTERHUB_SERVICE_URL", "") if is_service() else "")
    host = options.host or url.hostname or "127.0.0.1"
    port = options.port if options.port is not None else url.port or 8899
    return host, port


def _authenticator(options: argparse.Namespace) -> Authenticator:
    """Return the authenticator: the Hub for its own service, else a file of tokens."""
    if options.group and options.tokens is None:
        return HubAuthenticator(dict(map(_group, options.group)))
    if options.group:
        raise RequestError("--group is for a JupyterHub, --tokens for a file", "Give one of them.")
    if is_service() and options.tokens is None:
        raise RequestError("no group of the Hub has a privilege", "Add --group NAME=PRIVILEGE.")
    return tokens.TokenFile(options.tokens or TOKENS)


def _declaring(options: argparse.Namespace, authenticator: Authenticator) -> Authenticator:
    """Return an authenticator that also knows the analysts in the tables' files."""
    privileges: dict[str, Privilege] = {}
    obstacles: dict[str, str] = {}
    for name, levels in read_analysts(_declared(options, "analysts")).items():
        try:
            privileges[check_name(name)] = read_privilege(privileges_of(levels))
        except RequestError as error:
            privileges[name], obstacles[name] = (), str(error)
    for name, obstacle in obstacles.items():
        logging.getLogger("dpnb.server").error("%s is kept out: [analysts]: %s", name, obstacle)
    return Declared(authenticator, privileges)


def _group(text: str) -> tuple[str, Privilege]:
    name, _, levels = text.rpartition("=")
    try:
        numbers = [int(level) for level in levels.split(",")]
    except ValueError:
        numbers = []
    if not name or not numbers:
        raise RequestError(
            f"--group {given(text)} is not NAME=PRIVILEGE", "Write --group analysts=4."
        )
    return name, read_privilege(numbers)


def _curator(options: argparse.Namespace, authenticator: Authenticator) -> Curator:
    """Return a curator of the named tables; a new ledger gets a policy that fits the analysts."""
    tables = [Table.load(path) for path in options.tables]
    ledger = options.ledger or str(Path(options.tables[0]).with_suffix(".ledger"))
    settings = {} if options.top is None else {"top": options.top}
    declared = _declared(options, "policy")
    opening = _opening(ledger)
    if opening is None:
        if not authenticator.top:
            raise RequestError(
                "there are no analysts yet", "Run dpnb analyst add NAME --privilege 4."
            )
        if not isinstance(declared, Mapping) or "top" not in declared:
            settings.setdefault("top", authenticator.top)
    elif opening.get("policy", "") is None:
        raise RequestError(
            "the ledger belongs to a session without analysts, as in a notebook",
            "Name another ledger with --ledger PLACE. The privacy costs of both add up.",
            ledger if "://" not in ledger else "",
        )
    policy = read_policy(declared, **settings)
    levels = [highest(analyst.privilege) for analyst in authenticator.known()]
    if opening is None and levels and policy is not None and policy.top is not None:
        # a new ledger that nobody could use would keep its top
        check_privilege(min(levels), policy.top)
    return Curator(
        tables,
        budget=_budget(options),
        ledger=ledger,
        anchor=options.anchor,
        new_anchor=options.new_anchor,
        # each of them is let in, or kept out, when the service starts
        analysts={},
        policy=policy,
        views=_declared(options, "views") or (),
        new_version=options.new_version,
    )


def _opening(place: str) -> dict[str, Any] | None:
    """Return the first entry of a ledger, or None if it has none yet."""
    ledger = Ledger(place)
    try:
        _, entry = next(iter(ledger.read_new()), (0, None))
        # a damaged entry is refused later, when the whole ledger is read
        return entry if entry is None or isinstance(entry, dict) else {}
    finally:
        ledger.close()


def _budget(options: argparse.Namespace) -> Budget | None:
    amounts = options.rho, options.epsilon, options.delta, options.key_delta
    stated = any(amount is not None for amount in amounts)
    return read_budget(*amounts, None if stated else _declared(options, "budget"))


def _declared(options: argparse.Namespace, entry: str) -> Any:
    """Return an entry of the tables' files about their shared ledger, or None."""
    contents = [read_file(path) for path in options.tables]
    declarations = [content[entry] for content in contents if entry in content]
    if any(declaration != declarations[0] for declaration in declarations):
        raise RequestError(
            f"the tables' files declare different {entry!r}",
            "The tables share one ledger: write it in one file.",
        )
    return declarations[0] if declarations else None


@contextlib.contextmanager
def _serving() -> Iterator[None]:
    """Set up this process: log requests to stderr, end at SIGTERM, and outlive the terminal."""
    logs = [logging.getLogger(name) for name in ("dpnb.server", "dpnb.refusals")]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    settings = [(log, log.level, log.propagate) for log in logs]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
    actions = end_at_signals()
    interval = sys.getswitchinterval()
    # requests compete for the interpreter: shorter turns serve stored answers a fifth faster
    sys.setswitchinterval(0.0005)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        for number, act in actions.items():
            signal.signal(number, act)
        for log, level, propagate in settings:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
