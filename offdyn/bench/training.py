"""Source steps per second of a real training, evaluation included, beside what device and physics allow."""

import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ..envs import pairs
from ..training import trainer as training
from ..training.config import RunConfig, build
from ..training.progress import Quiet, Stop, Stopped
from .update_loop import ROWS, TASKS

UNDER_WAY = 200  # source steps after which a training has begun for good
BEGIN = 1.5  # evaluation intervals after which every program has run once, those that an evaluation asks for included
WARMED_UP = 30.0  # seconds; a slow machine does not wait for that
LONGEST = 90.0  # seconds; a slow machine is measured over less than a whole evaluation interval


class Evaluation(NamedTuple):
    """How often and how much: on a GPU as in every training, on a CPU a tenth of it ten times as often."""

    interval: int
    episodes: int  # in the target
    source_episodes: int


OFTEN, USUAL = Evaluation(1_000, 1, 0), Evaluation(10_000, 10, 2)


class Watch(Quiet):
    """Times whole evaluation intervals, and asks the training to stop when there were enough."""

    def __init__(self, interval: int, seconds: float) -> None:
        self.interval, self.enough, self.stop = interval, seconds, Stop()
        self.under_way = 0.0  # time
        self.began: tuple[int, float] | None = None  # clock, time
        self.steps, self.seconds = 0, 0.0

    def advanced(self, clock: int, total: int, wall: float) -> None:
        now = time.perf_counter()
        if not self.under_way:
            self.under_way = now if clock >= UNDER_WAY else 0.0
        elif self.began is None:
            if clock >= BEGIN * self.interval or now >= self.under_way + WARMED_UP:
                self.began = clock, now
        else:
            steps, seconds = clock - self.began[0], now - self.began[1]
            if seconds >= LONGEST or (steps % self.interval == 0 and seconds >= self.enough):
                self.steps, self.seconds, self.stop.wanted = steps, seconds, True


def runs_of(robot: str, lanes: int, evaluation: Evaluation) -> list[RunConfig]:
    settings = {
        "target_steps": ROWS,  # the replays have the size of those of the update's benchmark: one program for both
        "replay_size": ROWS,
        "learning_starts": 10,
        "eval_interval": evaluation.interval,
        "eval_episodes": evaluation.episodes,
        "eval_source_episodes": evaluation.source_episodes,
        "checkpoint_interval": 10 * ROWS,
    }
    return [build(TASKS[robot], "par", "paper", seed, settings)[0] for seed in range(lanes)]


def measure(
    robot: str, lanes: int, seconds: float, update: dict[str, Any], physics: dict[str, float], cores: int
) -> dict[str, Any]:
    """`update`: of the same lanes, alone; `physics`: steps per second of the robot on all cores, and their limit."""
    evaluation = OFTEN if jax.default_backend() == "cpu" else USUAL
    runs = runs_of(robot, lanes, evaluation)
    watch = Watch(evaluation.interval, seconds)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="offdyn-bench-") as folder, suppress(Stopped):
        training.start(runs, Path(folder) / "runs", progress=watch, stop=watch.stop)
    assert watch.began is not None
    plan = runs[0].schedule
    per_step = watch.seconds / watch.steps  # seconds, of all lanes together
    played = (
        (plan.eval_episodes + plan.eval_source_episodes) * pairs.spec_of(runs[0].task).time_limit / plan.eval_interval
    )
    each = plan.source_steps_per_target_step
    bodies = lanes * (1 + 1 / each + played)  # environment steps for one source step of every lane
    updating = 1e-3 * update["milliseconds"] * plan.updates_each / each
    device_floor = updating * update["share_of_floor"]
    physics_floor = bodies / physics[f"limit_{cores}"]
    least = max(device_floor, physics_floor)
    return {
        "robot": robot,
        "lanes": lanes,
        "steps_per_second": 1 / per_step,  # of each run
        "run_steps_per_second": lanes / per_step,
        "device_floor_milliseconds": 1e3 * device_floor,
        "physics_floor_milliseconds": 1e3 * physics_floor,
        "milliseconds": 1e3 * per_step,
        "share_of_floor": least / per_step,
        "device_waits_share": max(0.0, 1 - updating / per_step),
        "physics_share": bodies / physics[f"threads_{cores}"] / per_step,
        "evaluation_steps_per_step": played,
        "measured_steps": watch.steps,
        "start_up_seconds": watch.under_way - started,
    }
