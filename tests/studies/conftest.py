"""What these tests share."""

import pytest

from ..probes import quick_compilation  # noqa: F401
from .small_jobs import hurried_jobs  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def programs(shared_programs: None) -> None:
    """Each program is compiled once."""
