"""How long a cohort takes on this machine, from a compilation and a few ticks of it."""

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from .. import __version__
from .._util.cores import default_threads, every
from .._util.files import write_atomically
from ..envs import pairs
from ..training import cohort_state
from ..training.cohort import Cohort
from ..training.config import RunConfig
from ..training.hardware import beside_a_gpu

WARM_TICKS = 3  # in which everything is compiled
TIMED_TICKS = 5
TIMED_STEPS = 20  # of the episodes of an evaluation


class Pace(NamedTuple):
    """Seconds, of a cohort."""

    compilation: float
    tick: float
    episode_step: float  # one step of all episodes of one evaluation

    def seconds(self, runs: Sequence[RunConfig]) -> float:
        """Of the whole cohort; episodes count at their longest."""
        plan, limit = runs[0].schedule, pairs.spec_of(runs[0].task).time_limit
        evaluation = self.episode_step * limit
        evaluations = plan.length // plan.eval_interval + 1
        final = evaluation * plan.final_episodes / max(plan.eval_episodes + plan.eval_source_episodes, 1)
        training = self.tick * plan.length / plan.tick
        # Evaluations run beside training: with a GPU on other hardware than it, otherwise on the same cores.
        both = max(training, evaluations * evaluation) if beside_a_gpu() else training + evaluations * evaluation
        return self.compilation + both + final


def measure(runs: Sequence[RunConfig], threads: int | None = None) -> Pace:
    """Of a cohort of these runs, measured once per shape, machine and version."""
    short = [_short(run) for run in runs]
    device = jax.devices()[0]
    about = (__version__, device.device_kind, len(every()), threads, len(runs), short[0].cohort_key())
    key = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
    known = _known()
    if key not in known:
        known[key] = list(_measure(short, threads or default_threads(beside_a_gpu())))
        _remember(known)
    return Pace(*known[key])


def _short(run: RunConfig) -> RunConfig:
    """The same program on few rows, past its warm-up; equal for runs that differ in length alone."""
    plan = run.schedule
    ticks = 100 * plan.source_steps_per_target_step * plan.tick
    schedule = dataclasses.replace(
        plan,
        target_steps=100 * plan.tick,
        learning_starts=1,
        replay_size=ticks,
        eval_interval=ticks,
        log_interval=ticks,
        checkpoint_interval=ticks,
        final_episodes=0,
        start_from=None,
    )
    hyper = dataclasses.replace(run.hyper, warm_up=0) if hasattr(run.hyper, "warm_up") else run.hyper
    return dataclasses.replace(run, schedule=schedule, hyper=hyper)


def _measure(runs: list[RunConfig], threads: int) -> Pace:
    began = time.perf_counter()
    cohort = Cohort(runs, threads)
    try:
        tick = 0.0
        if not cohort.plan.tested_only:
            while cohort.updates < WARM_TICKS * cohort.plan.updates_per_tick:
                cohort.tick()
            jax.block_until_ready(cohort.learner.lanes)
        compilation = time.perf_counter() - began
        if not cohort.plan.tested_only:
            tick = _timed_ticks(cohort)
        return Pace(compilation, tick, _timed_episodes(cohort, threads))
    finally:
        cohort.domain.close()


def _timed_ticks(cohort: Cohort) -> float:
    began = time.perf_counter()
    for _ in range(TIMED_TICKS):
        cohort.tick()
    jax.block_until_ready(cohort.learner.lanes)
    return (time.perf_counter() - began) / TIMED_TICKS


def _timed_episodes(cohort: Cohort, threads: int) -> float:
    plan, policies = cohort.plan, cohort_state.policies(cohort)
    roles = ["target"] * plan.eval_episodes + ["source"] * plan.eval_source_episodes
    bodies = [(task, role) for task in cohort.tasks for role in roles]
    domain = pairs.open_bodies(bodies, [(0, number) for number in range(len(bodies))], threads, padded=plan.padded)
    ids = np.arange(len(bodies))
    try:
        began = time.perf_counter()
        for _ in range(TIMED_STEPS):
            observation = domain.observation.reshape(cohort.lanes_count, len(roles), -1)
            domain.step(ids, policies(observation).reshape(len(bodies), -1))
        return (time.perf_counter() - began) / TIMED_STEPS
    finally:
        domain.close()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offdyn" / "pace.json"


def _known() -> dict[str, list[float]]:
    try:
        read = json.loads(_cache().read_text())
        return {str(key): [float(value) for value in values] for key, values in read.items() if len(values) == 3}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _remember(known: dict[str, list[float]]) -> None:
    try:
        _cache().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_cache(), json.dumps(known).encode())
    except OSError:
        pass  # measured again next time
