"""The magics: parse, run, show."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial, wraps
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Enum, Float

from dpnb.answers.options import OPTIONS as INFERENCE
from dpnb.answers.price import Price
from dpnb.decide.options import OPTIONS as DECISION
from dpnb.discover.request import OPTIONS as DISCOVERY
from dpnb.display.cards.words import KERNEL
from dpnb.errors import DpnbError, RequestError, given
from dpnb.explain.options import OPTIONS as EXPLANATION
from dpnb.formats import loss_text
from dpnb.ledger.mechanism import NONE
from dpnb.magics.arguments import arguments, read
from dpnb.magics.explaining import hint, read_question
from dpnb.magics.lines import (
    Progress,
    confirm,
    find_session,
    is_new,
    name_of,
    open_session,
    read_amount,
    read_options,
    read_whole,
    refuse_tokens,
    split_binding,
    split_statement,
)
from dpnb.magics.risking import find_curator, open_picker
from dpnb.magics.scopes import Scope, scope_of
from dpnb.magics.showing import shown
from dpnb.privacy.definition import PURE
from dpnb.private import STAMPS
from dpnb.releases.accuracy import OPTIONS as QUERY
from dpnb.releases.options import Options
from dpnb.schema.table import protection
from dpnb.session import Session
from dpnb.spelling import with_options

_NO_TABLE = re.compile(r"unknown table '(\w+)'")


def _taking(magic: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    """Add options to a magic, in the order in which its help lists them."""
    for option in reversed(options):
        magic = option(magic)
    return magic


def _spelled(magic: Callable[..., Any]) -> Callable[..., Any]:
    """Show errors with the magic's options instead of Python's arguments."""

    @wraps(magic)
    def spelled(*positional: Any, **keywords: Any) -> Any:
        try:
            return magic(*positional, **keywords)
        except DpnbError as error:
            error.what, error.hint = with_options(error.what), with_options(error.hint)
            error.hint = _elsewhere(error.what, positional[0].sessions) or error.hint
            raise

    return spelled


def _elsewhere(what: str, sessions: Mapping[str, Session]) -> str:
    """Return a hint to another open session that has the unknown table; '' if none has."""
    table = _NO_TABLE.fullmatch(what)
    names = [
        name for name, session in sessions.items() if table and table[1] in session._backend.tables
    ]
    return f"Add --on {names[0]}." if names else ""


def _showing(magic: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for keeping and showing a result."""
    return _taking(
        magic,
        argument("-o", "--out", metavar="NAME", help="variable for the result"),
        argument("-q", "--quiet", action="store_true", help="do not show the result"),
        argument("--widget", action="store_true", help="show as a widget"),
        argument("--static", action="store_true", help="show without a live widget"),
    )


def _spending(magic: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every spending magic takes."""
    return _taking(
        _showing(magic),
        argument(
            "--dry-run",
            action="store_true",
            help="show the privacy cost and expected margins of error, spend nothing",
        ),
        argument("--yes", action="store_true", help="spend without asking"),
    )


def _declared(options: Options) -> Callable[..., Any]:
    """Add the options that a request declares."""
    return lambda magic: _taking(magic, *arguments(options))


_on = argument("--on", metavar="NAME", help="session to use; the one opened last by default")


@magics_class
class Dpnb(Magics):
    """Ask questions of sensitive data under differential privacy."""

    display = Enum(
        ["auto", "static", "widget"],
        default_value="auto",
        help="How answers are shown: 'auto' adds a live widget where one can run.",
    ).tag(config=True)
    ask_above = Float(
        0.25, min=0.0, max=1.0, help="Ask before spending more than this share of what is left."
    ).tag(config=True)

    def __init__(self, shell: Any = None, **options: Any) -> None:
        super().__init__(shell, **options)
        self.shell: Any
        self.sessions: dict[str, Session] = {}
        self.spent: dict[str, dict[str, str]] = {}
        """What was spent from earlier ledgers, in words, by session name and then by ledger."""
        self.closed = False
        """Whether sessions were closed when the extension was unloaded."""

    def close(self) -> None:
        """Forget the open sessions, but not what was spent from them."""
        for name, session in self.sessions.items():
            with suppress(DpnbError):
                self._note_spent(name, session)
        self.closed = self.closed or bool(self.sessions)
        self.sessions = {}

    @property
    def _scope(self) -> Scope:
        return scope_of(self.shell)

    @property
    def _namespace(self) -> Mapping[str, Any]:
        return self._scope.names

    def _session(self, name: str | None) -> Session:
        return find_session(name, self._opened(name), self._namespace)

    def _opened(self, name: str | None) -> Mapping[str, Session]:
        """Return the open sessions among which a cell may name one; None names none."""
        if name is not None and name in self._scope.own:
            # a variable of the function
            return {}
        if name is None and not self.sessions and self.closed:
            raise RequestError(
                "the sessions were closed when dpnb was unloaded",
                "Open the table again with %dpopen, or name a session: --on NAME.",
            )
        return self.sessions

    def _variable(self, name: Any) -> Any:
        """Return the variable for a result, from ``name <<``, ``-o`` or ``--as``; None if not given."""
        if name is None:
            return None
        self._scope.check_bindable(_identifier(name))
        return name

    @_spelled
    @no_var_expand
    @line_magic
    @magic_arguments("dpopen")
    @argument(
        "source",
        help="a .toml file, a .yaml file of SmartNoise, a variable (Table, Session, Curator), adult, or https://...",
    )
    @argument(
        "--as",
        dest="name",
        metavar="NAME",
        help="name and variable of the session; by default the table's name, and no variable; "
        "with several analysts: the one who asks",
    )
    @argument("--rho", help="total budget in zCDP, such as 0.5")
    @argument("--epsilon", help="total budget as epsilon; pure DP without --delta")
    @argument("--delta", help="delta of the budget, such as 1e-6")
    @argument("--key-delta", help="part of delta for %%dpdiscover")
    @argument(
        "--ledger",
        metavar="PATH",
        help="file that keeps privacy costs and answers; in memory by default",
    )
    @argument("--anchor", metavar="PATH", help="file that detects a restored older ledger")
    @argument(
        "--new-anchor", action="store_true", help="start a new anchor for a ledger that has entries"
    )
    @argument(
        "--new-version", action="store_true", help="accept changed data; what was spent stays spent"
    )
    def dpopen(self, line: str) -> Session:
        """Open a session on a sensitive table. Free.

        Example: ``%dpopen adult --epsilon 3 --delta 1e-6 --ledger adult.ledger``

        A new ledger needs a budget: ``--rho``, ``--epsilon`` or the .toml file. An existing ledger has its
        own. Without ``--ledger``, budget and answers are lost when the kernel stops. If the file has
        ``[analysts]``, add ``--ledger``, and ``--as`` with the name of the one who asks. For a service write
        ``%dpopen https://host:8899``. Put the token in DPNB_TOKEN, or type it when you are asked.
        """
        refuse_tokens(line)
        options = read_options(self.dpopen, line)
        _read_names(options, self._namespace)
        started = options.ledger is not None and is_new(options.ledger)
        name, session, new = open_session(options.source, options, self._namespace)
        if options.name is not None:
            name = self._variable(options.name)
            self.shell.user_ns[name] = session
        before = self.sessions.pop(name, None)
        self.sessions[name] = session
        self._note_spent(name, before)
        status = session.budget
        left = loss_text(status.remaining, status.privacy, status.delta, left=True)
        opening = f"{'Opened' if new else 'Using'} {name}{' with a new ledger' if started else ''}"
        text = f"{opening}: {left} left."
        whom = protection(session._backend.tables)
        if new and whom:
            text += f" {whom}"
        others = [spent for key, spent in self.spent[name].items() if key != session.ledger]
        if others:
            text += (
                f" This is another budget: the {' and the '.join(others)} spent on {name} before "
                f"{'comes' if len(others) == 1 else 'come'} on top of it."
            )
        if status.privacy is PURE:
            text += " The budget has no delta: costs are counted in epsilon, and answers cannot be explained."
        if not status.kept:
            text += f" {KERNEL}"
        print(f"{STAMPS[status.stamp]} {text}".lstrip())  # noqa: T201
        return session

    def _note_spent(self, name: str, before: Session | None) -> None:
        """Note what was spent in a session that a new one of the same name replaces."""
        amounts = self.spent.setdefault(name, {})
        if before is not None and before.budget.spent != NONE:
            status = before.budget
            amounts[before.ledger] = loss_text(status.spent, status.privacy, status.delta)

    @_spelled
    @no_var_expand
    @line_magic
    @magic_arguments("dprehearse")
    @argument(
        "--on",
        metavar="NAME",
        help="session whose tables to generate; the one opened last by default",
    )
    @argument(
        "--as",
        dest="name",
        metavar="NAME",
        help="name and variable of the test session; NAME-rehearsal by default",
    )
    @argument("--rows", default="10000", help="generated rows of each table; 10000 by default")
    @argument("--seed", default="0", help="another seed makes other rows; 0 by default")
    def dprehearse(self, line: str) -> Session:
        """Open a session with test data: the same tables with generated rows. Free.

        Example: ``%dprehearse``, and then::

            %%dpquery --on adult-rehearsal --rho 0.02
            SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex

        Without ``--on`` the same cell asks the real table and spends the budget.
        """
        options = read_options(self.dprehearse, line)
        real = self._session(options.on)
        real_name = options.on or name_of(real, self.sessions, self._namespace)
        name = f"{real_name}-rehearsal" if options.name is None else self._variable(options.name)
        if name == real_name:
            raise RequestError(f"{name!r} is the name of the real session", "Choose another name.")
        rows = read_whole(options.rows, "--rows", self._namespace)
        seed = read_whole(options.seed, "--seed", self._namespace)
        rehearsal = real.rehearse(rows, seed)
        if options.name is not None:
            self.shell.user_ns[name] = rehearsal
        # put the new session first: cells without --on use the last one, as before
        others = {key: session for key, session in self.sessions.items() if key != name}
        self.sessions = {name: rehearsal, **(others or {real_name: real})}
        status = rehearsal.budget
        left = loss_text(status.remaining, status.privacy, status.delta, left=True)
        print(  # noqa: T201
            f"{STAMPS[status.stamp]} Opened {name} with generated data: {rows:,} rows in each table, {left} to spend. "
            f"Add --on {name} to a cell to use it. Other cells spend the real budget, as before."
        )
        return rehearsal

    @_spelled
    @no_var_expand
    @line_cell_magic
    @magic_arguments("%dpquery")
    @_declared(QUERY)
    @_on
    @_spending
    def dpquery(self, line: str, cell: str | None = None) -> Any:
        """Answer one SELECT privately, with confidence intervals.

        Example::

            %%dpquery --rho 0.02 -o income
            SELECT marital_status, COUNT(*) AS n, AVG(high_income) AS share
            FROM adult WHERE age >= 25 GROUP BY marital_status ORDER BY n DESC

        Give one of ``--rho``, ``--epsilon`` and ``--error``. Asking again is free. A more accurate answer
        costs the difference, and ``--error`` uses past answers where they help. ``--dry-run`` shows the
        privacy cost, free. Several statements, with ``;`` between them, are priced and confirmed together.
        ``DESCRIBE adult`` and ``SHOW TABLES`` show what is declared, ``EXPLAIN SELECT ...`` the privacy cost.
        """
        name, line = split_binding(line)
        line, statement = split_statement(line, cell)
        options = read_options(self.dpquery, line)
        name = self._variable(name or options.out)
        session = self._session(options.on)
        params = self._namespace
        accuracy = read(QUERY, options, params)
        # the parser is not needed to load the magics
        from dpnb.sql.source import split

        info = shown(statement, session, accuracy, params)
        if info is not None:
            return info
        statements = split(statement)
        prices = session.price(statements, params=params, **accuracy)
        price = prices[0] if len(prices) == 1 else Price.together(prices)
        if options.dry_run:
            return price
        if not options.yes:
            confirm(price, self.ask_above)
        ask: Any = partial(session.query, statements[0], params=params, **accuracy)
        if len(statements) > 1:
            ask = partial(session.query_all, statements, params=params, **accuracy)
        return self._spend(ask, name, options, cell)

    @_spelled
    @no_var_expand
    @line_cell_magic
    @magic_arguments("%dpinfer")
    @_declared(INFERENCE)
    @_on
    @_showing
    def dpinfer(self, line: str, cell: str | None = None) -> Any:
        """Estimate a SELECT from your past answers. Free, and never looks at the data.

        Example::

            %%dpquery --rho 0.02
            SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex

            %%dpinfer
            SELECT COUNT(*) AS n FROM adult

        The answers for women and men add up to all people. The result has the estimate, a confidence
        interval and the answers it comes from. If past answers are not enough, it says what to ask.
        ``--error 50`` shows the confidence that the estimate is within 50 of the value. ``--widget`` shows
        how likely the value is above a number that you pick.
        """
        name, line = split_binding(line)
        line, statement = split_statement(line, cell)
        options = read_options(self.dpinfer, line)
        name = self._variable(name or options.out)
        settings = read(INFERENCE, options, self._namespace)
        session = self._session(options.on)
        inference = session.infer(statement, params=self._namespace, **settings)
        return self._told(inference, name, options, cell)

    @_spelled
    @no_var_expand
    @line_cell_magic
    @magic_arguments("%dpexplain")
    @argument("answer", help="variable that holds an answer, or a question")
    @argument("--of", metavar="ALIAS", help="aggregate to compare; the first one by default")
    @argument(
        "--planned", action="store_true", help="you chose the groups before you saw the answer"
    )
    @_declared(EXPLANATION)
    @argument("--anyway", action="store_true", help="explain even if the difference could be noise")
    @argument("--on", metavar="NAME", help="session to ask; the answer's own by default")
    @_spending
    def dpexplain(self, line: str, cell: str | None = None) -> Any:
        """Explain why one group of an answer is above another.

        Example::

            %%dpexplain income --of share --rho 0.1
            'Married-civ-spouse' > 'Never-married'

        The question is free. The explanation costs ``--rho``, or what ``--error`` needs; by default a fifth
        of what is left. Asking again is free. ``--dry-run`` shows the privacy cost and the expected margins
        of error. If the difference could be noise, or goes the other way, nothing is spent without
        ``--anyway``.
        """
        name, line = split_binding(line)
        options = read_options(self.dpexplain, line)
        name = self._variable(name or options.out)
        names = self._namespace
        settings = read(EXPLANATION, options, names)
        question = read_question(options.answer, cell, options, names, settings["mode"])
        session = self._origin(question, options.on)
        if options.dry_run:
            return session.price(question, **settings)
        if not question.valid and not options.anyway:
            print(f"Nothing was spent. {hint(question)}")  # noqa: T201
            return question
        if not (options.yes and options.anyway):
            price = session.price(question, **settings)
            # check before the user is asked; explain(anyway=True) does not check again
            if not options.anyway:
                price.check_worth()
            if not options.yes:
                confirm(price, self.ask_above)
        ask = partial(session.explain, question, anyway=True, **settings)
        return self._spend(ask, name, options, cell)

    @_spelled
    @no_var_expand
    @line_cell_magic
    @magic_arguments("%dpdecide")
    @_declared(DECISION)
    @_on
    @_spending
    def dpdecide(self, line: str, cell: str | None = None) -> Any:
        """Decide which groups meet a condition, with bounds on both kinds of error.

        Example::

            %%dpdecide --beta 0.05 --alpha 0.1 --most 0.02 -o busy
            SELECT education, COUNT(*) AS n, AVG(age) AS mean FROM adult
            GROUP BY education HAVING COUNT(*) > 800 AND AVG(age) > 40

        The first step is coarse and cheap. Finer steps follow until false positives are proven rare enough.
        ``--dry-run`` shows the privacy cost of each step. ``--most`` limits the total; without it the steps
        may use all that is left. ``busy.refine()`` takes one more step, and ``busy.strict`` are the groups
        that surely meet the condition.
        """
        name, line = split_binding(line)
        line, statement = split_statement(line, cell)
        options = read_options(self.dpdecide, line)
        name = self._variable(name or options.out)
        session, params = self._session(options.on), self._namespace
        settings = read(DECISION, options, params)
        if options.dry_run:
            return session.price(statement, params=params, **settings)
        if not options.yes:
            confirm(session.price(statement, params=params, **settings), self.ask_above)
        ask = partial(session.decide, statement, params=params, **settings)
        return self._spend(ask, name, options, cell)

    @_spelled
    @no_var_expand
    @line_cell_magic
    @magic_arguments("%dprisk")
    @argument(
        "--guesses",
        metavar="G",
        help="limit: how many of 100 guesses may be right, 50 or more; 55 by default",
    )
    @argument("--tau", help="limit as floor / indicator, instead of --guesses")
    @argument(
        "--by",
        default="",
        metavar="A,B",
        help="columns whose groups are shown apart; none by default",
    )
    @argument(
        "--candidates",
        metavar="X,Y",
        help="epsilons or rhos to choose from; a 1-2-5 series by default",
    )
    @argument("--cumulative", action="store_true", help="include the releases already made")
    @argument("--form", default="bound", help="bound, exact or linear; bound by default")
    @argument(
        "--on",
        metavar="NAME",
        help="session or curator to use; the session opened last by default",
    )
    @argument("-o", "--out", metavar="NAME", help="variable for the picker")
    @argument("-q", "--quiet", action="store_true", help="do not show the picker")
    @argument("--static", action="store_true", help="show no widget")
    def dprisk(self, line: str, cell: str | None = None) -> Any:
        """Show the owner who is most at risk from an answer, and pick an epsilon.

        Example::

            %%dprisk --guesses 60 -o picker
            SELECT SUM(capital_gain) AS gain FROM adult

        First set the limit: of 100 guesses whether somebody is in the table, how many may be right? 50 is
        a coin toss. Then choose an epsilon by the rule, which is free; by safe counts; or by a look at
        exact values, which marks all later results as data-dependent. Opening the picker costs nothing,
        and buttons that spend say so. Nothing exact is stored in the notebook. ``picker.epsilon`` and
        ``picker.rho`` hold your choice.
        """
        from dpnb.display.cards.risk_widget import display_picker

        name, line = split_binding(line)
        line, statement = split_statement(line, cell)
        options = read_options(self.dprisk, line)
        name = self._variable(name or options.out)
        curator = find_curator(options.on, self._opened(options.on), self._namespace)
        picker = open_picker(curator, statement, options, self._namespace)
        if name is not None:
            self.shell.user_ns[name] = picker
        if not options.quiet:
            display_picker(picker, "static" if options.static else self.display)
        return picker

    def _spend(
        self, ask: Callable[..., Any], name: str | None, options: Any, cell: str | None
    ) -> Any:
        """Run a request with progress, bind its result, and return what the cell shows."""
        return self._told(_waited(ask), name, options, cell)

    def _told(self, result: Any, name: str | None, options: Any, cell: str | None) -> Any:
        """Bind a result, and return what the cell shows."""
        if name is not None:
            self.shell.user_ns[name] = result
        if options.quiet:
            return result
        mode = "widget" if options.widget else "static" if options.static else self.display
        return result if cell is None else self._show(result, mode)

    def _origin(self, question: Any, name: str | None) -> Session:
        """Return the named session, or else the one that a question came from."""
        if name is None:
            candidates = [*self.sessions.values(), *self._namespace.values()]
            matches = {
                id(session): session
                for session in candidates
                if isinstance(session, Session) and session.ledger == question.ledger
            }
            if (
                len(matches) > 1
                and len({session.budget.analyst for session in matches.values()}) > 1
            ):
                raise RequestError(
                    "several analysts have sessions on the ledger of this answer",
                    "Name the session that pays: --on NAME.",
                )
            if matches:
                return next(iter(matches.values()))
        return self._session(name)

    def _show(self, answer: Any, mode: str) -> Any:
        """Return what the cell shows; None if a live widget is displayed here.

        Of several answers, all but the last are displayed here.
        """
        from IPython.display import display

        from dpnb.display.widgets import display_result, is_live

        if isinstance(answer, list):
            for single in answer[:-1]:
                if (output := self._show(single, mode)) is not None:
                    display(output)
            return self._show(answer[-1], mode)
        if not is_live(mode):
            return answer
        display_result(answer, "widget")
        # ``_`` and ``Out`` get the answer all the same
        self.shell.displayhook.update_user_ns(answer)
        return None

    @_spelled
    @no_var_expand
    @line_magic
    @magic_arguments("dpdiscover")
    @argument("column", help="a column whose values are not declared")
    @_declared(DISCOVERY)
    @_on
    @argument("--dry-run", action="store_true", help="show the privacy cost, spend nothing")
    @argument("--yes", action="store_true", help="spend without asking")
    @argument("-o", "--out", metavar="NAME", help="variable for the result")
    @argument("-q", "--quiet", action="store_true", help="do not show the result")
    def dpdiscover(self, line: str) -> Any:
        """Find the common values of an undeclared column (partition selection).

        Example: ``%dpdiscover city --rho 0.05 -o cities``, and then ``cities.category()`` for the
        schema. Rare values stay hidden, and the result says how rare they may be. It costs ``--rho`` or
        ``--epsilon``, and ``--delta`` of the budget's key_delta. ``--dry-run`` shows the privacy cost, free.
        """
        name, line = split_binding(line)
        options = read_options(self.dpdiscover, line)
        name = self._variable(name or options.out)
        session, names = self._session(options.on), self._namespace
        settings = read(DISCOVERY, options, names)
        column = options.column.strip("'\"")
        price = session.price_discovery(column, **settings)
        if options.dry_run:
            return price
        if not options.yes:
            confirm(price, self.ask_above)
        discovery = _waited(partial(session.discover, column, **settings))
        if name is not None:
            self.shell.user_ns[name] = discovery
        return discovery

    @_spelled
    @no_var_expand
    @line_magic
    @magic_arguments("dpbudget")
    @_on
    def dpbudget(self, line: str) -> Any:
        """Show what is spent and what is left. Free.

        Example: ``%dpbudget``
        """
        return self._session(read_options(self.dpbudget, line).on).budget

    @_spelled
    @no_var_expand
    @line_magic
    @magic_arguments("dptables")
    @_on
    def dptables(self, line: str) -> Any:
        """Show the declared tables and columns. Free.

        Example: ``%dptables``
        """
        return self._session(read_options(self.dptables, line).on).tables

    @_spelled
    @no_var_expand
    @line_magic
    @magic_arguments("dphistory")
    @_on
    def dphistory(self, line: str) -> Any:
        """Show the requests answered so far and their privacy costs. Free.

        Example: ``%dphistory``
        """
        return self._session(read_options(self.dphistory, line).on).history


def _waited(ask: Callable[..., Any]) -> Any:
    """Run a request with progress."""
    progress = Progress()
    try:
        return ask(progress=progress)
    finally:
        progress.clear()


_TEXTS = {"ledger": "--ledger", "anchor": "--anchor", "name": "--as"}
_AMOUNTS = {name: with_options(f"{name}=") for name in ("rho", "epsilon", "delta", "key_delta")}


def _read_names(options: Any, names: Mapping[str, Any]) -> None:
    """Replace ``:name`` in the options of ``%dpopen`` by the variable's value."""
    for option, flag in (_AMOUNTS | _TEXTS).items():
        value = read_amount(getattr(options, option), flag, names)
        if option in _TEXTS and value is not None:
            value = str(value)
        setattr(options, option, value)


def _identifier(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise RequestError(
            f"{given(name)} is not a variable name", "Use letters, digits and underscores."
        )
    return name
