"""A session over HTTP: the same methods, and the data in another process."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpnb.answers.answer import Answer
from dpnb.answers.price import Price
from dpnb.answers.question import Question
from dpnb.errors import DpnbError, RequestError, ServiceError, given
from dpnb.results import Asked, BudgetStatus
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.server.access import find_token, read_address
from dpnb.server.connection import Connection, open_client
from dpnb.server.params import named
from dpnb.server.thresholds import send_thresholds
from dpnb.session import Session

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice
    from dpnb.discover.discovery import Discovery, DiscoveryPrice
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice

T = TypeVar("T")


def connect(
    url: str,
    token: str | None = None,
    *,
    privilege: int | None = None,
    insecure: bool = False,
    verify: str | Path | None = None,
    timeout: float = 330.0,
) -> Session:
    """Open a session on a service.

    Parameters
    ----------
    url : str
        ``https://host:port``; ``http://`` to this machine only, unless ``insecure``.
    token : str, optional
        By default that in the environment variable DPNB_TOKEN; for a service of the JupyterHub in
        which this process runs, the one that it has there; else you are asked for it. In a notebook
        that others read, leave it out.
    privilege : int, optional
        One of yours, where you have several; the first one by default.
    insecure : bool
        Allow http to another machine: whoever is on the way reads token and answers.
    verify : str or Path, optional
        File with the certificate of your own authority, in PEM.
    timeout : float
        Seconds to wait for an answer.

    Returns
    -------
    Session
        With the methods of a local one.

    Raises
    ------
    RequestError
        For an unusable address or token.
    ServiceError
        When the service cannot be reached or does not accept the token; without httpx.
    """
    address = read_address(url, insecure=insecure)
    if privilege is not None and (isinstance(privilege, bool) or not isinstance(privilege, int)):
        raise RequestError(
            f"privilege must be a whole number, got {given(privilege)}",
            "Leave it out, or give one of yours.",
        )
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise RequestError(
            f"timeout must be above 0 seconds, got {given(timeout)}", "Write timeout=330."
        )
    client = open_client(verify, float(timeout))
    channel = HttpChannel(Connection(address, find_token(token, address), client, privilege))
    try:
        channel.budget  # noqa: B018 - a token that is not accepted is told here
    except BaseException:
        channel.close()
        raise
    return Session._of(channel)


class HttpChannel:
    """An analyst's way to a curator behind a service."""

    __slots__ = ("_connection", "_ledger", "_tables")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[str, Table] | None = None
        self._ledger: str | None = None

    def query(
        self,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
        cancel: threading.Event,
    ) -> Answer:
        """Answer a statement."""
        body = {"sql": sql, "params": named([sql], params), "accuracy": accuracy}
        return self._read(Answer.from_dict, self._spend("/v1/query", body, cancel))

    def infer(
        self, sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> Inference:
        """Work a statement out from past answers."""
        from dpnb.answers.inference import Inference

        body = {"sql": sql, "params": named([sql], params), "options": options}
        return self._read(Inference.from_dict, self._connection.ask("POST", "/v1/infer", body))

    def explain(
        self, question: Question, options: Mapping[str, Any], cancel: threading.Event
    ) -> Explanation:
        """Explain a question."""
        from dpnb.explain.explanation import Explanation

        body = {"question": _sent(question), "options": options}
        return self._read(Explanation.from_dict, self._spend("/v1/explain", body, cancel))

    def decide(
        self,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
        cancel: threading.Event,
    ) -> Decision:
        """Decide which groups meet a condition."""
        from dpnb.decide.decision import Decision

        found = self._spend("/v1/decide", _decided(sql, params, options), cancel)
        return self._read(Decision.from_dict, found)

    def price(
        self,
        statements: Sequence[str],
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> list[Price]:
        """Price statements."""
        body = {
            "statements": list(statements),
            "params": named(statements, params),
            "accuracy": accuracy,
        }
        found = self._connection.ask("POST", "/v1/price", body)
        return self._read(lambda data: [Price.from_dict(one) for one in data["prices"]], found)

    def price_explanation(self, question: Question, options: Mapping[str, Any]) -> ExplanationPrice:
        """Price an explanation."""
        from dpnb.explain.price import ExplanationPrice

        body = {"question": _sent(question), "options": options}
        found = self._connection.ask("POST", "/v1/explanation-price", body)
        return self._read(ExplanationPrice.from_dict, found)

    def price_decision(
        self, sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> DecisionPrice:
        """Price a decision."""
        from dpnb.decide.price import DecisionPrice

        body = _decided(sql, params, options)
        found = self._connection.ask("POST", "/v1/decision-price", body)
        return self._read(DecisionPrice.from_dict, found)

    def discover(
        self, column: str, options: Mapping[str, Any], cancel: threading.Event
    ) -> Discovery:
        """Find the values of an undeclared column."""
        from dpnb.discover.discovery import Discovery

        body = {"column": column, "options": options}
        return self._read(Discovery.from_dict, self._spend("/v1/discover", body, cancel))

    def price_discovery(self, column: str, options: Mapping[str, Any]) -> DiscoveryPrice:
        """Price a discovery."""
        from dpnb.discover.discovery import DiscoveryPrice

        body = {"column": column, "options": options}
        found = self._connection.ask("POST", "/v1/discovery-price", body)
        return self._read(DiscoveryPrice.from_dict, found)

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        if self._ledger is None:
            self.budget  # noqa: B018 - comes with it
        return str(self._ledger)

    @property
    def budget(self) -> BudgetStatus:
        """The analyst's cap, spent and remaining."""

        def read(data: Mapping[str, Any]) -> BudgetStatus:
            self._ledger = str(data["ledger"])
            return BudgetStatus.from_dict(data["budget"])

        return self._read(read, self._connection.ask("GET", "/v1/budget"))

    @property
    def history(self) -> Sequence[Asked]:
        """The analyst's requests."""
        found = self._connection.ask("GET", "/v1/history")
        return self._read(lambda data: [Asked.from_dict(one) for one in data["requests"]], found)

    @property
    def tables(self) -> Mapping[str, Table]:
        """The declared tables; asked for once."""
        if self._tables is None:

            def read(data: Mapping[str, Any]) -> dict[str, Table]:
                made = (
                    Table(
                        one["name"], None, Schema.of(one), public=one["public"], key=one.get("key")
                    )
                    for one in data["tables"]
                )
                return {table.name: table for table in made}

            self._tables = self._read(read, self._connection.ask("GET", "/v1/tables"))
        return self._tables

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in a thread."""
        self._connection.interrupt(thread)

    def close(self) -> None:
        """Close what is open towards the service."""
        self._connection.close()

    def _spend(self, path: str, body: Mapping[str, Any], cancel: threading.Event) -> Any:
        """Ask for what costs, under one name: repeated, it is paid for once."""
        return self._connection.ask("POST", path, body, secrets.token_hex(16), cancel)

    @staticmethod
    def _read(build: Callable[[Any], T], data: Any) -> T:
        """Build a result from a reply."""
        try:
            return build(data)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, DpnbError):
            pass
        raise ServiceError(
            "the reply of the service cannot be read", "Use the same version of dpnb on both sides."
        )

    def __repr__(self) -> str:
        return f"HttpChannel({self._connection.address.url!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a session over HTTP holds a token and cannot be pickled")


def _sent(question: Any) -> Any:
    """Return a question as plain data; anything else as it is, to be refused in the same words."""
    if isinstance(question, Question):
        return question.to_dict()
    return {"$type": "dict"} if isinstance(question, Mapping) else question


def _decided(
    sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a decision's request."""
    if "thresholds" in options:
        options = {**options, "thresholds": send_thresholds(options["thresholds"])}
    return {"sql": sql, "params": named([sql], params), "options": options}
