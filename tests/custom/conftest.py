"""What these tests share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def programs(made_once: None) -> None:
    """Each program is traced and compiled once."""
