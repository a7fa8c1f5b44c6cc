"""Curators of equal tables share loaded rows; what they remember is their own."""

from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401
