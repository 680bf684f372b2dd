"""What these tests share."""

import pytest

from .small_jobs import hurried_jobs  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def programs(made_once: None) -> None:
    """Each program is traced and compiled once."""
