"""What these tests share."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Programs of one module are of no use to the next, and stay in memory, together some gigabytes."""
    yield
    jax.clear_caches()
