"""One analyst's way to a curator: in this process, or over HTTP (``dpnb.server.client``)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dpnb.answers.answer import Answer
from dpnb.answers.listing import Asked, BudgetStatus, Price
from dpnb.answers.question import Question
from dpnb.curator import Curator
from dpnb.schema import Schema

if TYPE_CHECKING:
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice
    from dpnb.inference.inference import Inference


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
    def schemas(self) -> Mapping[str, Schema]:
        """The declared columns by table."""
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
    def schemas(self) -> Mapping[str, Schema]:
        """The declared columns by table."""
        return {name: table.schema for name, table in self.curator.tables.items()}

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in a thread."""
        self.curator.interrupt(thread)

    def close(self) -> None:
        """Close the curator when it was opened for this channel alone."""
        if self.owned:
            self.curator.close()
