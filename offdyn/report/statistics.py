"""What a set of runs comes to: averages, spreads, curves, stuck runs (docs/report.md says how far to trust them).

Scores are an array whose last axis is the runs, or a mapping from a task to such an array; tasks may differ in their
number of runs. Axes before the last (points of a curve, resamples) are kept.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._util.errors import OffdynError

Scores = Any  # an array [..., runs], or a mapping task -> [..., runs]
Numbers = Any  # a float for scores [runs], an array for scores with axes before the runs


def by_task(scores: Scores) -> dict[str, np.ndarray]:
    """The scores as a mapping in alphabetical order, so that no result depends on the order of tasks."""
    given = scores if isinstance(scores, Mapping) else {"": scores}
    if not given:
        raise OffdynError("scores: expected at least one task, found none")
    tasks = {task: np.asarray(given[task], float) for task in sorted(given)}
    for task, runs in tasks.items():
        where = f"scores of task '{task}'" if task else "scores"
        if runs.ndim == 0 or runs.shape[-1] == 0:
            raise OffdynError(
                f"{where}: expected an array of runs, found {given[task]!r}; leave out tasks without runs"
            )
        if not np.isfinite(runs).all():
            raise OffdynError(f"{where}: found NaN or infinity; leave out runs that failed, and say how many")
    return tasks


def of_one_task(runs: Any) -> np.ndarray:
    """The runs [..., runs] of one task, for what makes no sense over several."""
    if isinstance(runs, Mapping):
        raise OffdynError(
            f"scores: expected the runs of one task, found a mapping of {len(runs)}; give one entry of it"
        )
    return by_task(runs)[""]


def fewest_runs(scores: Scores) -> int:
    """The number of runs of the task that has the fewest."""
    return min(runs.shape[-1] for runs in by_task(scores).values())


def mean(scores: Scores) -> Numbers:
    """The mean over tasks of each task's mean over runs."""
    return np.mean([runs.mean(-1) for runs in by_task(scores).values()], axis=0)


def median_task(scores: Scores) -> Numbers:
    """The median over tasks of each task's mean over runs; what rliable calls the median. Of one task, its mean."""
    return np.median([runs.mean(-1) for runs in by_task(scores).values()], axis=0)


def iqm(scores: Scores) -> Numbers:
    """The interquartile mean: of all runs of all tasks together, without a quarter (rounded down) at each end."""
    pooled = np.sort(np.concatenate(list(by_task(scores).values()), axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(-1)


def optimality_gap(scores: Scores, optimum: float = 100.0) -> Numbers:
    """How far runs fall short of the optimum on average; being above it earns nothing. For normalised scores."""
    return optimum - mean({task: np.minimum(runs, optimum) for task, runs in by_task(scores).items()})


def std(runs: Any) -> Numbers:
    """The population standard deviation over the runs of a task (divided by n): the spread of these very seeds."""
    return np.std(of_one_task(runs), axis=-1)


def sample_std(runs: Any) -> Numbers | None:
    """The sample standard deviation over the runs of a task (divided by n - 1), which a single run does not have."""
    runs = of_one_task(runs)
    return np.std(runs, axis=-1, ddof=1) if runs.shape[-1] > 1 else None


def normalised(score: Any, low: float, high: float) -> Numbers:
    """100 (score - low) / (high - low)."""
    if not high > low:
        raise OffdynError(f"normalised score: expected low < high, found low {low} and high {high}")
    return 100.0 * (np.asarray(score, float) - low) / (high - low)


def _checked_steps(steps: Any, values: Any, least: int) -> tuple[np.ndarray, np.ndarray]:
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    if steps.ndim != 1 or values.shape[-1:] != steps.shape or len(steps) < least:
        raise OffdynError(
            f"curve: expected {least} or more steps, each with a value; found {steps.shape}, {values.shape}"
        )
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise OffdynError("curve: expected increasing steps; sort its rows and drop repeated ones")
    return steps, values


def area_under_curve(steps: Any, values: Any) -> Numbers:
    """The area (trapezoids) under values [..., points], divided by the steps it spans: an average return."""
    steps, values = _checked_steps(steps, values, least=2)
    return np.trapezoid(values, steps, axis=-1) / (steps[-1] - steps[0])


def late_mean(steps: Any, values: Any, share: float = 0.2) -> float:
    """The mean of the evaluations in the last `share` of the steps; the last one always counts."""
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    if steps.ndim != 1 or values.shape != steps.shape or not len(steps):
        raise OffdynError(f"curve: expected 1 or more steps, each with a value; found {steps.shape}, {values.shape}")
    late = steps > (1 - share) * steps[-1]
    late[-1] = True  # also of a run that is tested once, before any step
    return float(values[late].mean())


def steps_to_reach(steps: Any, values: Any, level: float) -> float | None:
    """The step of the first evaluation at or above a level; None if there is none."""
    steps, values = _checked_steps(steps, values, least=1)
    reached = steps[values >= level]
    return float(reached[0]) if len(reached) else None


def median_steps(runs: Sequence[float | None]) -> float | None:
    """The median over runs; those that never arrived count as slowest, and None says that the median one is of them."""
    if not len(runs):
        raise OffdynError("steps to reach a level: expected at least one run, found none")
    slowest_last = np.sort([np.inf if steps is None else steps for steps in runs])
    middle = slowest_last[[(len(runs) - 1) // 2, len(runs) // 2]]
    return float(middle.mean()) if np.isfinite(middle).all() else None


def stuck_level(returns: Any, low: float = 0.0, fraction: float = 0.25) -> float:
    """A quarter of the way from the return that counts as 0 (`low`) to the median of these final returns.

    Give it the runs of all methods on the task: were most runs of one method stuck, its own median would be too.
    """
    return low + fraction * max(float(np.median(of_one_task(returns))) - low, 0.0)
