"""Sessions in a row share the rows of their table."""

from tests.kit.loaded import loaded_once  # noqa: F401
