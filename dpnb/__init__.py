"""Ask questions of sensitive data in a notebook, under differential privacy.

Begin with `Table`, `Schema` and `Session`. If you own data and let several people query it, begin
with `Curator`. Results are of class `Answer`, `Question`, `Explanation`, `Inference`, `Decision` or
`Discovery`; prices are in `dpnb.answers.price`, `dpnb.explain.price` and `dpnb.decide.price`. See
`dpnb.magics.cells` for the magics, `dpnb.errors` for all errors and `dpnb.datasets` for example
data.

Examples use some names without defining them. `table` is a `Table` of 600 people with the columns
sex, age, job and wage, and the undeclared column city. `session` and `curator` are opened on it;
the curator has the analysts alice and bob. `answer` is the answer to `SELECT sex, COUNT(*) AS n
FROM people GROUP BY sex`, and `question` asks whether it has more men than women.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpnb.errors import DpnbError
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss
from dpnb.schema.columns import Category, Integer, Real
from dpnb.schema.schema import Schema, Unit
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.schema.types import Boolean

if TYPE_CHECKING:
    from dpnb import datasets
    from dpnb.answers.answer import Answer
    from dpnb.answers.inference import Inference
    from dpnb.answers.question import Question
    from dpnb.curator import Curator
    from dpnb.decide.decision import Decision
    from dpnb.discover.discovery import Discovery
    from dpnb.engines.draft import draft_schema
    from dpnb.explain.explanation import Explanation
    from dpnb.ledger.policy import Policy
    from dpnb.magics import options
    from dpnb.owner.report import Provenance
    from dpnb.risk.profile import RiskProfile
    from dpnb.server.client import connect
    from dpnb.session import Session
    from dpnb.views.histogram import Strategy

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Boolean",
    "Budget",
    "Category",
    "Curator",
    "Date",
    "Decision",
    "Discovery",
    "DpnbError",
    "Explanation",
    "Inference",
    "Integer",
    "Policy",
    "PrivacyLoss",
    "Provenance",
    "Question",
    "Real",
    "RiskProfile",
    "Schema",
    "Session",
    "Strategy",
    "Table",
    "Timestamp",
    "Unit",
    "connect",
    "datasets",
    "draft_schema",
    "options",
]

_LATE = {
    "Answer": "dpnb.answers.answer",
    "Curator": "dpnb.curator",
    "Decision": "dpnb.decide.decision",
    "Discovery": "dpnb.discover.discovery",
    "Explanation": "dpnb.explain.explanation",
    "Inference": "dpnb.answers.inference",
    "Policy": "dpnb.ledger.policy",
    "Provenance": "dpnb.owner.report",
    "Strategy": "dpnb.views.histogram",
    "Question": "dpnb.answers.question",
    "RiskProfile": "dpnb.risk.profile",
    "Session": "dpnb.session",
    "connect": "dpnb.server.client",
    "draft_schema": "dpnb.engines.draft",
    "options": "dpnb.magics",
}


def __getattr__(name: str) -> Any:
    """Load names that need heavier packages on first use."""
    from importlib import import_module

    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    if name == "datasets":
        return import_module("dpnb.datasets")
    raise AttributeError(f"module 'dpnb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Register the magics: ``%load_ext dpnb``."""
    from dpnb.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics: ``%unload_ext dpnb``."""
    from dpnb.magics import unload

    unload(shell)
