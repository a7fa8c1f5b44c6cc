"""Published methods as printed, found by name when a study asks for one: without ``dpnb.studies`` the rest works."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def published(method: str) -> Any:
    """Return a module of ``dpnb.studies`` by its name there."""
    return import_module(f"dpnb.studies.{method}")
