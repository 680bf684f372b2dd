"""What tests of whole trainings share."""

import os

import pytest

# However many cores there are: results differ in their last bits with the number of devices.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")


@pytest.fixture(scope="session")
def shared_programs(request: pytest.FixtureRequest) -> None:
    """Each program is compiled once, however many cohorts and processes use it."""
    import jax

    chosen = {
        "jax_compilation_cache_dir": str(request.config.cache.mkdir("programs")),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in chosen.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


@pytest.fixture(scope="session")
def trains() -> None:
    """What trains a probe until it has converged asks for this."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whoever asks for the programs of whole trainings trains, or for a probe that was trained."""
    if {"shared_programs", "trains"} & set(getattr(item, "fixturenames", ())):
        item.add_marker("trains")
