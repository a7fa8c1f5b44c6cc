from __future__ import annotations

import pytest

from tests.kit.dying import Workers
from tests.kit.loaded import loaded_once  # noqa: F401


@pytest.fixture(scope="session")
def workers():
    """A process that forks for each order."""
    found = Workers()
    yield found
    found.close()
