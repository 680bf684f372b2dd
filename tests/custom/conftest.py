"""Programs that are traced and compiled once for all trainings of these tests, and quickly."""

from collections.abc import Iterator
from typing import Any

import jax
import pytest

from offdyn.training import program

made: dict[Any, Any] = {}


@pytest.fixture(scope="module", autouse=True)
def made_once(shared_programs: None) -> Iterator[None]:
    """Cohorts of one shape share their programs, which hold no state; programs this small need no optimising."""
    programs = program.Programs

    def remembered(method: Any, *rest: Any, **named: Any) -> Any:
        key = (method.name, rest, tuple(sorted(named.items())))
        if key not in made:
            made[key] = programs(method, *rest, **named)
        return made[key]

    before = jax.config.values["jax_disable_most_optimizations"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Programs", remembered)
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # of other processes, too
        jax.config.update("jax_disable_most_optimizations", True)
        yield
    jax.config.update("jax_disable_most_optimizations", before)
