"""A tick's updates of some lanes again and again, on rows that never change: all the benchmarks know of Programs."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..algos.registry import METHODS
from ..data.transition import row_width
from ..training.config import build
from ..training.hardware import Devices
from ..training.program import Programs, lane_settings, run_keys

UPDATES = 10  # per dispatch, as in training
ROWS = 20_000  # in each replay
TASKS = {
    "halfcheetah": "halfcheetah-no-thighs",
    "hopper": "hopper-big-head",
    "walker": "walker-no-right-thigh",
    "ant": "ant-short-feet",
}


class UpdateLoop:
    """So many lanes of a method, past its warm-up, compiled."""

    def __init__(
        self,
        lanes: int,
        *,
        method: str = "par",
        robot: str = "halfcheetah",
        preset: str = "paper",
        rows: int = ROWS,
        updates: int = UPDATES,
        devices: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.lanes, self.robot, self.updates = lanes, robot, updates
        known = preset if preset in METHODS[method].presets else "paper"
        runs = [build(TASKS[robot], method, known, seed, settings or {})[0] for seed in range(lanes)]
        self.config, self.spec = runs[0], runs[0].spec
        self.devices = Devices(lanes, devices)
        programs = Programs(self.config.recipe.method, self.spec, self.config.sac, self.config.hyper, "both", updates)
        self.programs = self.devices.spread(programs)
        self.keys = self.devices.deal(run_keys(list(range(lanes))))
        self.state = self.programs.init(self.keys, *lane_settings(runs))
        shape = (lanes, rows, row_width(self.spec))
        made = jax.jit(lambda key: jax.random.normal(key, shape) * 0.1, out_shardings=self.devices.by_lane)
        self.rows = made(jax.random.key(1)), made(jax.random.key(2))
        self.sizes = np.int32(rows), np.int32(rows)
        warm_up = getattr(self.config.hyper, "warm_up", 0)
        self.step = warm_up + -warm_up % updates
        started = time.perf_counter()
        self.tick()
        self.compile_seconds = time.perf_counter() - started

    def arguments(self) -> tuple[Any, ...]:
        return (self.keys, self.state, *self.rows, *self.sizes, np.int32(self.step), np.ones(self.lanes, bool))

    def seconds_per_update(self, repeats: int) -> float:
        """The fastest of some turns: a machine that does other things too only ever slows one down."""
        in_a_row = 1 if jax.default_backend() == "cpu" else 10  # a GPU is sent its next tick while it is at one
        return min(seconds_of(lambda: self.tick(in_a_row)) for _ in range(repeats)) / (in_a_row * self.updates)

    def tick(self, in_a_row: int = 1) -> None:
        """So many updates of every lane, and again, done when this returns; training waits for none of them either."""
        for _ in range(in_a_row):
            self.state = self.programs.learn(*self.arguments())
            self.step += self.updates
        jax.block_until_ready(self.state)


def seconds_of(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
