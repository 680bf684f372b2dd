"""What a cohort has on the device, its lanes and their rows, and the thread that sends the device its updates.

To send the updates of one tick, some hundred kernels, takes a host 2 to 3 ms. A thread of its own does it, while the
one that trains hands out actions and waits for bodies. Whoever asks for the lanes waits until that thread is done.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from .._util.types import Array
from ..data.replay import no_moments
from ..data.transition import row_width
from .config import RunConfig
from .hardware import Devices, capacities
from .program import DIAGNOSED_ROWS, Experience, Lane, Programs, lane_settings, run_keys

KEPT_TICKS = 100  # between two copies of what is learned, to which a lane that fails falls back


class Learner:
    """Everything that some runs learn, and from what."""

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        first = runs[0]
        self.spec, self.lanes_count = first.spec, len(runs)
        self.devices = Devices(self.lanes_count)
        shared_source = first.schedule.source_data is not None
        programs = Programs(
            first.recipe.method,
            self.spec,
            first.sac,
            first.hyper,
            first.schedule.learns_from,
            first.schedule.updates_per_tick,
            shared_source=shared_source,
            random_until=first.schedule.random_steps * first.schedule.source_steps_per_target_step,
        )
        self.programs = self.devices.spread(programs, shared_source)
        self.keys = self.devices.deal(run_keys([run.seed for run in runs]))
        self._sender = ThreadPoolExecutor(1, "offdyn-sender")
        self._sending: Future[None] | None = None
        self.lanes = self.programs.init(self.keys, *lane_settings(runs))
        self.kept: Lane | None = None  # the lanes as they were when last known to be well
        shapes = ((self.lanes_count, rows, row_width(self.spec)) for rows in capacities(first.schedule))
        self.experience = Experience(*map(self.devices.zeros, shapes))

    @property
    def lanes(self) -> Lane:
        self._wait_until_sent()
        return self._lanes

    @lanes.setter
    def lanes(self, lanes: Lane) -> None:
        self._lanes = lanes

    @property
    def experience(self) -> Experience:
        """All rows. The newest are sent to the device when they are wanted: by the updates, beside the physics."""
        self._wait_until_sent()
        self._send_rows()
        return self._experience

    @experience.setter
    def experience(self, rows: Experience) -> None:
        self._experience = rows
        self._unsent: list[tuple[str, np.ndarray, int]] = []  # (role, rows [lanes, n, width], where they begin)

    def _wait_until_sent(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def take(self, dataset: np.ndarray) -> None:
        """It is the source: one copy for all lanes, and its moments, where observations are normalised."""
        self.experience = self.experience._replace(source=self.devices.share(dataset))
        if self.lanes.moments is not None:
            observations = jax.numpy.asarray(dataset[:, : self.spec.observation_size])
            moments = no_moments(self.spec).include(observations)
            self.lanes = self.lanes._replace(
                moments=jax.tree.map(lambda x: jax.numpy.repeat(x[None], self.lanes_count, axis=0), moments)
            )

    def store(self, role: str, new: np.ndarray, position: int) -> None:
        """New rows [lanes, n, width], from this position on."""
        self._wait_until_sent()
        if any(role == waiting for waiting, _, _ in self._unsent):  # of a tick without updates
            self._send_rows()
        self._unsent.append((role, new, position))

    def _send_rows(self) -> None:
        for role, new, position in self._unsent:
            stored = self.programs.store(getattr(self._experience, role), new, np.int32(position))
            self._experience = self._experience._replace(**{role: stored})
        self._unsent = []

    def observe(self, new: np.ndarray) -> None:
        """Count these rows among those by which observations are normalised, where they are."""
        if self.lanes.moments is not None:
            self.lanes = self.lanes._replace(moments=self.programs.observe(self.lanes.moments, new))

    def act(self, source_seen: np.ndarray, target_seen: np.ndarray, number: int, members: np.ndarray) -> Any:
        """Every lane's actions for the source's bodies and the target's, and its fault, when the device has them."""
        return self.programs.act(self.keys, self.lanes, source_seen, target_seen, np.int32(number), members)

    def learn(self, sizes: tuple[np.int32, np.int32], first: int, alive: np.ndarray) -> None:
        """Have the device sent to the updates of one tick, the first of them number `first`."""
        self._wait_until_sent()
        self._sending = self._sender.submit(self._learn, sizes, first, alive)

    def _learn(self, sizes: tuple[np.int32, np.int32], first: int, alive: np.ndarray) -> None:
        self._keep(first, alive)
        self._send_rows()
        self._lanes = self.programs.learn(self.keys, self._lanes, *self._experience, *sizes, np.int32(first), alive)

    def _keep(self, first: int, alive: np.ndarray) -> None:
        """Now and then, a copy of the lanes that are well."""
        if self.kept is None:
            self.kept = jax.tree.map(jax.numpy.copy, self._lanes)
        elif first % (KEPT_TICKS * self.programs.updates) == 0:
            self.kept = self.programs.keep(self._lanes, self.kept, alive)

    def settled(self, alive: np.ndarray) -> Lane:
        """The lanes, those that failed as they were when last known to be well."""
        lanes = self.lanes
        if self.kept is None or alive.all():
            return lanes
        return self.programs.settle(lanes, self.kept, alive)

    def drain(self) -> np.ndarray:
        """[lanes, notes]: each metric summed over the updates since the last drain."""
        sums = np.asarray(self.lanes.sums, np.float64)
        self.lanes = self.programs.clear(self.lanes)
        return sums

    def diagnose(
        self, sizes: tuple[np.int32, np.int32], step: int, held_out: tuple[np.ndarray, np.ndarray] | None
    ) -> dict[str, np.ndarray]:
        """Each diagnostic [lanes]; of the target's rows, all that were ever stored are counted."""
        if held_out is None:
            shape = (self.lanes_count, DIAGNOSED_ROWS)
            held_out = np.zeros((*shape, row_width(self.spec)), np.float32), np.zeros(shape, np.float32)
        experience: tuple[Array, Array] = self.experience
        metrics = self.programs.diagnose(self.keys, self.lanes, *experience, *sizes, np.int32(step), *held_out)
        return {name: np.asarray(value, np.float64) for name, value in metrics.items()}
