"""Several devices: the lanes of a cohort are dealt out among them, and no lane ever needs to hear of another."""

import os
from contextlib import suppress
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Along

from ..cores import every
from ..types import Array
from .programs import Programs

LANES = "lanes"  # the only axis of the mesh


def beside_a_gpu() -> bool:
    """Whether the processor only simulates and sends: bodies and evaluation then get processes of their own."""
    return jax.default_backend() != "cpu"


def count_for(lanes: int) -> int:
    """The most devices of this process that can have equally many lanes each."""
    return max(count for count in range(1, jax.local_device_count() + 1) if lanes % count == 0)


def describe(lanes: int) -> str:
    """Which devices these lanes use, where there are several: `, on 2 of 4 devices (...)`."""
    there, used = jax.local_device_count(), count_for(lanes)
    if there == 1:
        return ""
    if used == min(there, lanes):
        return f", {lanes // used} on each of {used} devices"
    return f", on {used} of {there} devices: they are dealt out evenly, and {lanes} cannot be among more"


def offer_every_core() -> None:
    """Make each core that this process may use a device of its own, for machines without a GPU.

    Lanes on cores of their own do not wait for each other at every product. Changes nothing once JAX has begun to
    compute, where the user chose the devices, and on a GPU.
    """
    by_flag = "--xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if by_flag or getattr(jax.config, "jax_num_cpu_devices", -1) != -1:
        return
    with suppress(RuntimeError):  # JAX computes already
        jax.config.update("jax_num_cpu_devices", len(every()))


class Devices:
    """Those that hold one cohort, its lanes in order."""

    def __init__(self, lanes: int, count: int | None = None) -> None:
        self.count = count or count_for(lanes)
        self.mesh = Mesh(np.array(jax.local_devices()[: self.count]), (LANES,))
        # None: wherever JAX puts it, as for a program of one device.
        self.by_lane = NamedSharding(self.mesh, Along(LANES)) if self.count > 1 else None
        self.everywhere = NamedSharding(self.mesh, Along()) if self.count > 1 else None

    def deal(self, by_lane: Any) -> Any:
        """Arrays with a leading lane axis, each lane to its device."""
        return jax.device_put(by_lane, self.by_lane)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """As `deal`, without ever being whole on one device."""
        return jax.numpy.zeros(shape, device=self.by_lane)

    def share(self, array: Any) -> Array:
        """The same on every device."""
        return jax.device_put(array, self.everywhere)

    def spread(self, programs: Programs, shared_source: bool = False) -> Programs:
        """Each device runs the program of its own lanes; what one device holds alone stays as it is."""
        if self.count > 1:
            lane, same = Along(LANES), Along()
            source = same if shared_source else lane
            rows_and_counters = (lane, lane, source, lane, same, same, same)
            self._spread(programs, "init", (lane, lane, lane, lane))
            self._spread(programs, "act", (lane, lane, lane, lane, same, lane))
            self._spread(programs, "store", (lane, lane, same), donated=0)
            self._spread(programs, "observe", (lane, lane), donated=0)
            self._spread(programs, "learn", (*rows_and_counters, lane), donated=1)
            self._spread(programs, "keep", (lane, lane, lane), donated=1)
            self._spread(programs, "settle", (lane, lane, lane))
            self._spread(programs, "diagnose", (*rows_and_counters, lane, lane))
            self._spread(programs, "clear", (lane,), donated=0)
        return programs

    def _spread(self, programs: Programs, name: str, places: tuple[Any, ...], donated: int | tuple[()] = ()) -> None:
        # Replication is not checked: nothing that is returned is shared.
        local = jax.shard_map(
            getattr(programs, name), mesh=self.mesh, in_specs=places, out_specs=Along(LANES), check_vma=False
        )
        setattr(programs, name, jax.jit(local, donate_argnums=donated))
