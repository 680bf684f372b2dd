"""What tests of whole trainings share."""

import gc
import os
from collections.abc import Iterator
from copy import copy
from importlib.metadata import version
from typing import Any

import pytest

# However many cores there are: results differ in their last bits with the number of devices.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")

# Programs of tests are small and run briefly, and compiling them takes the time: they are compiled in a hurry, also in
# processes that tests start. JAX_DISABLE_MOST_OPTIMIZATIONS=0 and XLA_FLAGS=--xla_cpu_use_fusion_emitters=true undo it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
old = [int(part) for part in version("jaxlib").split(".")[:2]] < [0, 11]  # newer ones end at a flag they do not know
hurry = "--xla_cpu_use_fusion_emitters=false" if old else ""
os.environ["XLA_FLAGS"] = f"{hurry} {os.environ.get('XLA_FLAGS', '')}".strip()  # of a flag the last one counts


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


made: dict[Any, tuple[Any, Any]] = {}
MOST = 12  # so many are kept, those used last: each has compiled programs of some 20 MiB


@pytest.fixture(scope="module")
def made_once(shared_programs: None) -> Iterator[None]:
    """Cohorts of one shape share their programs, which hold no state: each is traced once in a process, too."""
    import jax

    from offdyn.training import program

    programs = program.Programs

    def remembered(method: Any, *rest: Any, **named: Any) -> Any:
        hurried = jax.config.values["jax_disable_most_optimizations"]
        key = id(method), hurried, repr(rest), repr(named)  # with all settings, and the arrays of a padded robot
        found = made.pop(key, None) or (programs(method, *rest, **named), method)  # so that no other one gets its id
        made[key] = found
        if len(made) > MOST:
            del made[next(iter(made))]
        return copy(found[0])  # some tests replace a program

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Programs", remembered)
        yield


@pytest.fixture
def optimised() -> Iterator[None]:
    """For what is the same to the last bit in different programs only where they are compiled with optimisations."""
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def compiled_as_by_users() -> Iterator[None]:
    """Processes that are started from here on compile as they do without tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS"):
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def trains() -> None:
    """What trains a probe until it has converged asks for this."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whoever asks for the programs of whole trainings trains, or for a probe that was trained."""
    if {"shared_programs", "trains"} & set(getattr(item, "fixturenames", ())):
        item.add_marker("trains")


def pytest_collection_finish() -> None:
    """What was imported stays; to look through it again and again while tracing would be an eighth of the time."""
    gc.freeze()
