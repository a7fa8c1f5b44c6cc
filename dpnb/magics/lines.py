"""Code shared by the magics: options, sessions, confirmation before spending, progress."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dpnb.answers.price import Price
from dpnb.arguments import MOST
from dpnb.codes import number
from dpnb.curator import Curator
from dpnb.decide.price import DecisionPrice
from dpnb.errors import RequestError, closest, given, nearest
from dpnb.formats import loss_text, part_text
from dpnb.ledger.configuration import read_analysts, read_budget, read_policy
from dpnb.privacy.budget import Budget
from dpnb.schema.schema import read_file
from dpnb.schema.smartnoise import ENDINGS
from dpnb.schema.table import Table
from dpnb.session import Session

if TYPE_CHECKING:
    from dpnb.backend import LocalBackend
    from dpnb.discover.discovery import DiscoveryPrice
    from dpnb.explain.price import ExplanationPrice

_BINDING = re.compile(r"\s*([^\W\d]\w*)\s*<<(.*)", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_OWNERS = ("rho", "epsilon", "delta", "key_delta", "ledger", "anchor", "new_anchor", "new_version")
"""Options of %dpopen that only the owner of the data may set."""
_UNKNOWN = re.compile(r"unrecognized arguments: (--[\w-]+).*", re.DOTALL)
_ASSIGNED = re.compile(r"unrecognized arguments: (\w+)=(\S+).*", re.DOTALL)
_NEEDED = re.compile(r"the following arguments are required: (\w+)")
_HOW = {
    "answer": "Name the answer: %%dpexplain income, after %%dpquery -o income.",
    "source": "Name what to open: %dpopen adult --epsilon 3 --delta 1e-6.",
    "column": "Name the column: %dpdiscover city.",
}
"""Hint for a missing first argument, by its name."""
_SELECT = re.compile(r"\b(explain\s+)?(select|with)\b", re.IGNORECASE)


def read_options(magic: Callable[..., Any], line: str) -> Any:
    """Parse a magic's line; a mistyped option is an error that fails the run, unlike UsageError."""
    from IPython.core.error import UsageError
    from IPython.core.magic_arguments import parse_argstring

    name = magic.__name__
    try:
        return _unquoted(parse_argstring(magic, line))
    except UsageError as error:
        problem = str(error).strip()
    except ValueError:
        problem = "a quote is not closed"
    assignment = _ASSIGNED.fullmatch(problem)
    if assignment and f"--{assignment[1]}" in options_of(magic):
        raise RequestError(
            f"%{name}: options begin with two hyphens", f"Write --{assignment[1]} {assignment[2]}."
        )
    raise RequestError(
        f"%{name}: {problem}", _meant(magic, problem) or f"See %{name}? for its options."
    )


def _unquoted(options: Any) -> Any:
    """Return options without the quotes that IPython keeps around values with blanks."""
    for name, value in vars(options).items():
        if isinstance(value, str) and _QUOTED.fullmatch(value):
            setattr(options, name, value[1:-1])
    return options


def options_of(magic: Any) -> list[str]:
    """Return the options of a magic, as they are written."""
    return [option for option in magic.parser._option_string_actions if option[:2] == "--"]


def _meant(magic: Any, problem: str) -> str | None:
    """Return a hint for a mistyped option or a missing argument; None if nothing is clear."""
    missing_match = _NEEDED.fullmatch(problem)
    if missing_match:
        return _HOW.get(missing_match[1])
    unknown_match = _UNKNOWN.fullmatch(problem)
    options = options_of(magic)
    if unknown_match and unknown_match[1] in ("--rho", "--epsilon") and "--most" in options:
        return MOST
    close = closest(unknown_match[1], options, alike=0.7) if unknown_match else ""
    return f"Did you mean {close}?" if close else None


def split_binding(line: str) -> tuple[str | None, str]:
    """Split ``name << rest`` into the name and the rest."""
    match = _BINDING.fullmatch(line)
    return (match.group(1), match.group(2)) if match else (None, line)


def split_statement(line: str, cell: str | None) -> tuple[str, str]:
    """Split a magic into options and statement; a line magic's statement starts at SELECT."""
    if cell is not None:
        return line, cell
    match = _SELECT.search(line)
    return (line[: match.start()], line[match.start() :]) if match else (line, "")


def read_number(text: str, option: str, names: Mapping[str, Any]) -> float:
    """Return the value of an option as a number."""
    value = number(read_amount(text, option, names))
    try:
        return float(text if value is None else value)
    except ValueError:
        raise RequestError(
            f"{option} {given(text)} is not a number", f"Write {option} 100."
        ) from None


def read_whole(text: str, option: str, names: Mapping[str, Any]) -> int:
    """Return the value of an option as a whole number."""
    value = read_number(text, option, names)
    if not value.is_integer():
        raise RequestError(f"{option} {given(text)} is not a whole number", f"Write {option} 3.")
    return int(value)


def listed(text: str) -> list[str]:
    """Return the names or numbers in a text, separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_amount(text: str | None, option: str, names: Mapping[str, Any]) -> Any:
    """Return an amount as written, or the value of the variable in ``:name``."""
    if text is None or not text.startswith(":"):
        return text
    if names.get(text[1:]) is None:
        raise RequestError(
            f"{option} {text} has no value", "Define it in the notebook, or write a number."
        )
    return names[text[1:]]


def find_session(
    name: str | None, opened: Mapping[str, Session], namespace: Mapping[str, Any]
) -> Session:
    """Return the session that ``--on`` names, or the one opened last."""
    if name is None:
        if opened:
            return list(opened.values())[-1]
        sessions = {
            id(v): v for k, v in namespace.items() if isinstance(v, Session) and k[:1] != "_"
        }
        if len(sessions) == 1:
            return next(iter(sessions.values()))
        raise RequestError("no session is open", "Run %dpopen adult --epsilon 3 --delta 1e-6.")
    candidate = opened.get(name, namespace.get(name))
    if isinstance(candidate, Curator):
        return candidate.session()
    if not isinstance(candidate, Session):
        hint = nearest(name, list(opened)) if opened else "Open it with %dpopen."
        raise RequestError(f"there is no session {given(name)}", hint)
    return candidate


def name_of(session: Session, opened: Mapping[str, Session], namespace: Mapping[str, Any]) -> str:
    """Return the name under which a session was opened, or else its variable."""
    candidates = [*opened.items(), *((k, v) for k, v in namespace.items() if k[:1] != "_")]
    return next((name for name, candidate in candidates if candidate is session), "session")


def open_session(
    source: str, options: Any, namespace: Mapping[str, Any]
) -> tuple[str, Session, bool]:
    """Open the source of ``%dpopen``; return its name, the session, and whether it is new."""
    if "://" in source:
        return open_service(source, options)
    variable = namespace.get(source)
    if isinstance(variable, Session):
        return source, variable, False
    if isinstance(variable, Curator):
        several = variable._runner.store.provenance.policy is not None
        return source, variable.session(options.name if several else None), False
    toml = None
    if source.lower().endswith((".toml", *ENDINGS)):
        table, toml = Table.load(source), read_file(source)
    elif isinstance(variable, Table):
        table = variable
    elif source == "adult":
        from dpnb.datasets import adult

        table = adult()
    elif source.lower().endswith((".csv", ".parquet")):
        filename = Path(source).with_suffix(".toml").name
        raise RequestError(
            f"{given(source)} does not say what is public",
            f"Draft a file that does: import dpnb, pathlib; pathlib.Path({filename!r}).write_text(dpnb.draft_schema({source!r})). "
            f"Replace what it guesses by public knowledge, answer its question, and open {filename}.",
        )
    elif hasattr(variable, "columns"):
        raise RequestError(
            f"{source} is a {type(variable).__name__}, which does not say what is public",
            f"Declare it: table = dpnb.Table('people', {source}, schema), and open table.",
        )
    else:
        raise RequestError(
            f"there is no table {given(source)}",
            "Name a .toml file, a variable that holds a dpnb.Table, or the built-in adult.",
        )
    declared = None if toml is None else toml.get("budget")
    amounts = options.rho, options.epsilon, options.delta, options.key_delta
    budget = read_budget(*amounts, declared)
    ledger = options.ledger
    if budget is None and is_new(ledger):
        if ledger is not None:
            raise RequestError(
                f"the ledger {given(ledger)} does not exist",
                "Check its name, or add --epsilon 3 --delta 1e-6 to start it.",
            )
        raise RequestError(
            "a new session needs a budget", "Add --epsilon 3 --delta 1e-6, or --rho 0.5."
        )
    return (*open_table(table, budget, toml or {}, options), True)


def open_table(
    table: Table, budget: Budget | None, declared: Mapping[str, Any], options: Any
) -> tuple[str, Session]:
    """Open a session on a table with its declared views, policy and analysts; return its name, too.

    If there are several analysts, ``--as`` names the one who asks.
    """
    analysts = read_analysts(declared.get("analysts")) or None
    policy = read_policy(declared.get("policy"))
    if analysts is not None or policy is not None:
        if options.ledger is None:
            raise RequestError("several analysts share one ledger", "Add --ledger PATH.")
        if analysts is not None or is_new(options.ledger):
            _check_analyst(options.name, list(analysts or ()))
    curator = Curator(
        table,
        budget=budget,
        ledger=options.ledger,
        anchor=options.anchor,
        new_anchor=options.new_anchor,
        new_version=options.new_version,
        analysts=analysts,
        policy=policy,
        views=declared.get("views", ()),
    )
    accounts = curator._runner.store.provenance
    try:
        if accounts.policy is not None:
            _check_analyst(options.name, list(accounts.analysts))
        session = curator.session(None if accounts.policy is None else options.name)
    except RequestError:
        curator.close()
        raise
    # nobody else has the curator, so closing the session closes it
    session._backend = replace(cast("LocalBackend", session._backend), owned=True)
    return table.name if accounts.policy is None else options.name, session


def is_new(ledger: str | None) -> bool:
    """Return whether a ledger has no budget yet; False for a database, which may have one."""
    if ledger is None or "://" in ledger:
        return ledger is None
    # a session that could not be opened leaves an empty file
    return not Path(ledger).exists() or not Path(ledger).stat().st_size


def _check_analyst(name: str | None, analysts: Sequence[str]) -> None:
    """Refuse to open a table with several analysts without the name of one of them."""
    if not analysts:
        raise RequestError(
            "this table has no analysts yet",
            "Add [analysts] to the table's file, with a line alice = 4.",
        )
    if name is None:
        raise RequestError(
            f"this table has several analysts: {', '.join(analysts)}",
            f"Say who asks: --as {analysts[0]}.",
        )
    if name not in analysts:
        raise RequestError(f"there is no analyst {given(name)}", nearest(name, analysts))


def open_service(url: str, options: Any) -> tuple[str, Session, bool]:
    """Open a session on a service, which has its own budget and ledger."""
    from dpnb.server.client import connect

    for name in _OWNERS:
        if getattr(options, name):
            raise RequestError(
                f"--{name.replace('_', '-')} is set by the owner of a service", "Leave it out."
            )
    session = connect(url)
    names = list(session._backend.tables)
    return names[0] if len(names) == 1 else "service", session, True


def refuse_tokens(line: str) -> None:
    """Refuse a token in a cell, without repeating it: notebooks are saved and shared."""
    from dpnb.server.tokens import TOKEN

    if TOKEN.search(line) or re.search(r"(^|\s)--?token", line):
        raise RequestError(
            "a token must not be in a cell: the cell is saved with the notebook",
            "Put it in DPNB_TOKEN, or type it when you are asked. Delete it here. If it was a real "
            "token, ask the owner to renew it.",
        )


def confirm(
    price: Price | ExplanationPrice | DecisionPrice | DiscoveryPrice, ask_above: float
) -> None:
    """Ask before spending more than a share of what is left; refuse if no user can answer."""
    share = price.share()
    if share <= ask_above or not price.affordable:
        return
    cost = loss_text(price.spent, price.privacy, price.delta)
    what, hint = (
        f"This spends {cost}, {_part(share)} of what is left.",
        "Add --yes to the cell.",
    )
    if isinstance(price, DecisionPrice):
        # a decision ends as soon as it is sure enough, or cannot pay for another step
        what, hint = _at_most(price, cost, share), "Add --yes, or --most with a smaller amount."
    try:
        reply = input(f"{what} Go on? [y/N] ")
    except Exception:  # noqa: BLE001 - every front end without a keyboard has its own error
        reply = None
    if reply is None:
        raise RequestError(what.rstrip("."), f"{hint} Nothing was charged.")
    if reply.strip().lower() not in ("y", "yes"):
        raise RequestError("not confirmed", "Nothing was charged.")


def _at_most(price: DecisionPrice, cost: str, share: float) -> str:
    if share > 1:
        left = loss_text(price.remaining, price.privacy, price.delta, left=True)
        return f"This may spend all that is left, {left}. The last step would bring it to {cost}."
    return f"This may spend up to {cost}, {_part(share)} of what is left."


def _part(share: float) -> str:
    # the float nearest to a share may be above it
    return part_text(Fraction(share).limit_denominator(10**9), Fraction(1))


class Progress:
    """Elapsed time of requests that take over a second; removed when the answer is there."""

    def __init__(self) -> None:
        self.shown = False

    def __call__(self, elapsed: float) -> None:
        """Show the elapsed seconds."""
        from IPython.display import clear_output

        clear_output(wait=True)
        print(f"Working: {elapsed:.0f} s", end="", flush=True)  # noqa: T201
        self.shown = True

    def clear(self) -> None:
        """Remove the elapsed time."""
        from IPython.display import clear_output

        if self.shown:
            clear_output(wait=True)
