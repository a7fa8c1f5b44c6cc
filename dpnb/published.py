"""Published methods as printed, loaded by name; without ``dpnb.studies`` the rest works."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def published(method: str) -> Any:
    """Return a module of ``dpnb.studies`` by name."""
    return import_module(f"dpnb.studies.{method}")
