from __future__ import annotations

import pytest

from tests.kit.dying import Workers


@pytest.fixture(scope="session")
def workers():
    """A process that forks for each order."""
    found = Workers()
    yield found
    found.close()
