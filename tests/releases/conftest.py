"""A small declared table and statements read against it; curators over people."""

from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401
from tests.kit.people import opened, people, read, schema, shared, silent, unchanged  # noqa: F401
