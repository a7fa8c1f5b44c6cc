"""Curators over a small table of people."""

from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401
from tests.kit.people import opened, people, read, schema, shared, silent, unchanged  # noqa: F401
