"""How long a cohort takes on this machine: from a few ticks of it, now or earlier, or as its like suggests."""

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import __version__
from .._util.cores import default_threads, every
from .._util.files import write_atomically
from ..envs import pairs
from ..training.cohort import Cohort
from ..training.config import RunConfig
from ..training.hardware import beside_a_gpu
from . import cost

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
    short, threads = [_short(run) for run in runs], threads or default_threads(beside_a_gpu())
    about, known = _about(short, threads), _known()
    if about["key"] not in known:
        known[about["key"]] = about | {"measured": list(_measure(short, threads))}
        with contextlib.suppress(OSError):  # measured again next time
            _cache().parent.mkdir(parents=True, exist_ok=True)
            write_atomically(_cache(), json.dumps(known).encode())
    return Pace(*known[about["key"]]["measured"])


def estimate(runs: Sequence[RunConfig], threads: int | None = None) -> tuple[Pace, bool]:
    """Without measuring, and whether that was done before: else the model's, as far off as it was for the likest."""
    short = [_short(run) for run in runs]
    about, known = _about(short, threads or default_threads(beside_a_gpu())), _known()
    if about["key"] in known:
        return Pace(*known[about["key"]]["measured"]), True
    here = [each for each in known.values() if each["machine"] == about["machine"]]
    alike = max((_likeness(about, each) for each in here), default=0)
    likest = [each for each in here if _likeness(about, each) == alike]
    model = np.array(about["modelled"])
    for part in range(len(model)):
        off = [each["measured"][part] / each["modelled"][part] for each in likest if each["measured"][part]]
        model[part] *= float(np.median(off)) if off else 1.0
    return Pace(*model.tolist()), False


def _likeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(one[name] == other[name] for name in ("method", "backbone", "robot", "lanes"))


def _about(runs: list[RunConfig], threads: int) -> dict[str, Any]:
    """What a cohort's pace depends on, and what the model says of it."""
    first, device, cores = runs[0], jax.devices()[0], len(every())
    machine = [device.device_kind, cores, threads]
    model = Pace(cost.COMPILATION, cost.of_tick(runs, cores, threads), cost.of_episode_step(runs, threads))
    return {
        "key": hashlib.sha256(repr((__version__, machine, len(runs), first.cohort_key())).encode()).hexdigest()[:16],
        "machine": machine,
        "method": first.recipe.method.name,
        "backbone": first.sac.backbone,
        "robot": pairs.family_of(first.task),
        "lanes": len(runs),
        "modelled": list(model),
    }


def _short(run: RunConfig) -> RunConfig:
    """The same program on few rows, past its warm-up; equal for runs that differ in length alone."""
    plan = run.schedule
    ticks, envs = 100 * plan.source_steps_per_target_step * plan.tick, plan.source_env_count or 1
    schedule = dataclasses.replace(
        plan,
        target_steps=100 * plan.tick,
        learning_starts=1,
        replay_size=-(-ticks // envs) * envs,
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
    plan, policies = cohort.plan, cohort.policies()
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


def _known() -> dict[str, dict[str, Any]]:
    """By key what was measured on any machine; what an older version kept is measured again."""
    try:
        read = json.loads(_cache().read_text())
        return {key: each for key, each in read.items() if isinstance(each, dict) and len(each["measured"]) == 3}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}
