"""One analyst's way to a curator: in this process, or over HTTP (``dpnb.server.client``)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dpnb.answers.answer import Answer
from dpnb.answers.price import Price
from dpnb.answers.question import Question
from dpnb.curator import Curator
from dpnb.results import Asked, BudgetStatus
from dpnb.schema.table import Table

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice
    from dpnb.discover.discovery import Discovery, DiscoveryPrice
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice


class Channel(Protocol):
    """What a session asks for one analyst. Nothing that passes through it leads to the data."""

    def query(
        self,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
        cancel: threading.Event,
    ) -> Answer:
        """Answer a statement; see ``Session.query``."""
        ...

    def infer(
        self, sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> Inference:
        """Work a statement out from past answers; see ``Session.infer``."""
        ...

    def explain(
        self, question: Question, options: Mapping[str, Any], cancel: threading.Event
    ) -> Explanation:
        """Explain a question; see ``Session.explain``."""
        ...

    def decide(
        self,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
        cancel: threading.Event,
    ) -> Decision:
        """Decide which groups satisfy a HAVING; see ``Session.decide``."""
        ...

    def price_decision(
        self, sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> DecisionPrice:
        """Plan and price a decision; spends nothing."""
        ...

    def discover(
        self, column: str, options: Mapping[str, Any], cancel: threading.Event
    ) -> Discovery:
        """Find the values of an undeclared column; see ``Session.discover``."""
        ...

    def price_discovery(self, column: str, options: Mapping[str, Any]) -> DiscoveryPrice:
        """Price a discovery; spends nothing."""
        ...

    def price(
        self,
        statements: Sequence[str],
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> list[Price]:
        """Price statements as if asked one after the other; spends nothing."""
        ...

    def price_explanation(self, question: Question, options: Mapping[str, Any]) -> ExplanationPrice:
        """Price an explanation; spends nothing."""
        ...

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        ...

    @property
    def budget(self) -> BudgetStatus:
        """The analyst's cap, spent and remaining."""
        ...

    @property
    def history(self) -> Sequence[Asked]:
        """The analyst's requests, oldest first."""
        ...

    @property
    def tables(self) -> Mapping[str, Table]:
        """The declared tables by name, without their rows."""
        ...

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in the thread of the given identifier."""
        ...

    def close(self) -> None:
        """Let go of the curator."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class LocalChannel:
    """An analyst's way to a curator in this process."""

    curator: Curator
    analyst: str
    owned: bool

    def query(
        self,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
        cancel: threading.Event,
    ) -> Answer:
        """Answer a statement."""
        return self.curator.query(self.analyst, sql, params, accuracy, cancel)

    def infer(
        self, sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> Inference:
        """Work a statement out from past answers."""
        return self.curator.infer(self.analyst, sql, params, options)

    def explain(
        self, question: Question, options: Mapping[str, Any], cancel: threading.Event
    ) -> Explanation:
        """Explain a question."""
        return self.curator.explain(self.analyst, question, options, cancel)

    def decide(
        self,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
        cancel: threading.Event,
    ) -> Decision:
        """Decide which groups satisfy a HAVING."""
        return self.curator.decide(self.analyst, sql, params, options, cancel)

    def price_decision(
        self, sql: str, params: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> DecisionPrice:
        """Plan and price a decision."""
        return self.curator.price_decision(self.analyst, sql, params, options)

    def discover(
        self, column: str, options: Mapping[str, Any], cancel: threading.Event
    ) -> Discovery:
        """Find the values of an undeclared column."""
        return self.curator.discover(self.analyst, column, options, cancel)

    def price_discovery(self, column: str, options: Mapping[str, Any]) -> DiscoveryPrice:
        """Price a discovery."""
        return self.curator.price_discovery(self.analyst, column, options)

    def price(
        self,
        statements: Sequence[str],
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> list[Price]:
        """Price statements."""
        return self.curator.price(self.analyst, statements, params, accuracy)

    def price_explanation(self, question: Question, options: Mapping[str, Any]) -> ExplanationPrice:
        """Price an explanation."""
        return self.curator.price_explanation(self.analyst, question, options)

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        return self.curator.ledger

    @property
    def budget(self) -> BudgetStatus:
        """The analyst's cap, spent and remaining."""
        return self.curator.status(self.analyst)

    @property
    def history(self) -> Sequence[Asked]:
        """The analyst's requests."""
        return self.curator.history(self.analyst)

    @property
    def tables(self) -> Mapping[str, Table]:
        """The declared tables, without their rows."""
        return {
            name: Table(name, None, table.schema, public=table.public, key=table.key)
            for name, table in self.curator.tables.items()
        }

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in a thread."""
        self.curator.interrupt(thread)

    def close(self) -> None:
        """Close the curator when it was opened for this channel alone."""
        if self.owned:
            self.curator.close()
