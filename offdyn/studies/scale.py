"""A run in small: everything that is counted in steps shrinks alike, so that every method still does what it is.

Scaled: the length (and with it the target budget), the replay's size, the warm-up, and the intervals of evaluations,
logs and checkpoints. Not scaled: how often something is learned per update (encoder_interval, actor_interval and the
like) and F, which are ratios and not lengths, nor anything of networks and batches.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .._util.errors import OffdynError
from ..training.config import RunConfig, Schedule, check

WATCHED = ("eval_interval", "log_interval", "checkpoint_interval")
FIRST = 10  # of a budget too small for learning_starts, at most one transition in so many comes before learning
QUICK = {"eval_episodes": 2, "eval_source_episodes": 1, "final_episodes": 5}
QUICK_EVALUATIONS = 5  # of a run


def all_scaled(runs: Sequence[RunConfig], scale: float, quick: bool = False) -> list[RunConfig]:
    """Runs of a study at this scale, each continuing from the run it continues from in full."""
    small = {run.name: scaled(run, scale, quick) for run in runs}
    # Where the user chose a setting that shrinks, it stands in the name, and the name changes.
    names = {name: run.name for name, run in small.items()}
    return [_going_on_from(names, run) for run in small.values()]


def _going_on_from(names: Mapping[str, str], run: RunConfig) -> RunConfig:
    start = run.schedule.start_from
    if start is None or start not in names:
        return run
    return dataclasses.replace(run, schedule=dataclasses.replace(run.schedule, start_from=names[start]))


def scaled(run: RunConfig, scale: float, quick: bool = False) -> RunConfig:
    """The run at this scale; its name says nothing of it, and runs of two scales do not share a folder."""
    if not 0 < scale <= 1:
        raise OffdynError(f"--scale: expected more than 0 and at most 1, got {scale:g}")
    plan, hyper = run.schedule, run.hyper
    if scale < 1:
        plan = dataclasses.replace(plan, **_shorter(plan, scale))
        if hasattr(hyper, "warm_up"):
            hyper = dataclasses.replace(hyper, warm_up=round(hyper.warm_up * scale))
    if quick:
        seldom = max(plan.eval_interval, _whole_ticks(plan.source_steps / QUICK_EVALUATIONS, plan.tick))
        fewer = {name: min(value, getattr(plan, name)) for name, value in QUICK.items()}
        plan = dataclasses.replace(plan, eval_interval=seldom, **fewer)
    small = dataclasses.replace(run, schedule=plan, hyper=hyper)
    try:
        check(small)
    except OffdynError as error:
        raise OffdynError(f"{run.name} at scale {scale:g}: {error}") from None
    return small


def _shorter(plan: Schedule, scale: float) -> dict[str, Any]:
    # Whole ticks, and whole intervals F where a run acts in the target: each target step has its source steps.
    each = plan.source_steps_per_target_step
    length = _whole_ticks(plan.target_steps * each * scale, max(plan.tick, each))
    head_start = round(plan.head_start * scale / each) * each
    transitions = length if plan.collects == "source" else length // each
    minimum = min(plan.learning_starts, max(1, transitions // FIRST))
    envs = max(plan.source_env_count, 1)
    replay = max(_whole_ticks(plan.replay_size * scale, envs), _whole_ticks(minimum + envs, envs))
    times = {name: _whole_ticks(getattr(plan, name) * scale, plan.tick) for name in WATCHED}
    steps = {"target_steps": length // each, "head_start": head_start, "learning_starts": minimum}
    return {**steps, "replay_size": replay, **times}


def _whole_ticks(steps: float, tick: int) -> int:
    return max(tick, round(steps / tick) * tick)
