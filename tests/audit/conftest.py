"""Sessions in a row share the rows of their table."""

from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401
