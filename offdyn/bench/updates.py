"""Milliseconds per update of PAR at some number of lanes, beside its floors."""

from typing import Any

import jax

from . import floors
from .floors import Rates
from .update_loop import UpdateLoop


def measure(learner: UpdateLoop, rates: Rates, repeats: int) -> dict[str, Any]:
    """Of these lanes, the fastest of some turns."""
    seconds = learner.seconds_per_update(repeats)
    # On a CPU `rates` are those of all cores; each further GPU brings its own.
    machines = 1 if jax.default_backend() == "cpu" else learner.devices.count
    least = floors.floor(learner.config, learner.spec, learner.lanes / machines, rates)
    return {
        "robot": learner.robot,
        "lanes": learner.lanes,
        "devices": learner.devices.count,
        "milliseconds": 1e3 * seconds,
        "run_updates_per_second": learner.lanes / seconds,
        "arithmetic_floor_milliseconds": 1e3 * least.arithmetic,
        "memory_floor_milliseconds": 1e3 * least.memory,
        "share_of_floor": least.seconds / seconds,
        "times_the_floor": seconds / least.seconds,
        "product_gflops": rates.operations / 1e9,
        "copy_gbytes": rates.bytes / 1e9,
        "compile_seconds": learner.compile_seconds,
    }
