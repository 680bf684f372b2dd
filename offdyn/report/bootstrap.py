"""How sure an average of few runs is: percentile intervals of a bootstrap that redraws the runs within each task.

Efron 1979; stratified as in Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice", section 4.1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .statistics import Numbers, Scores, by_task, fewest_runs, iqm, mean

FEWEST_RUNS = 3  # of two runs a resample is too often one of them twice: no interval at all is the honest one
RESAMPLES = 5000  # the ends of a 95 % interval then lie at the 2.5 +- 0.2 % and 97.5 +- 0.2 % points
CONFIDENCE = 0.95
ENTRIES_AT_ONCE = 2_000_000  # 16 MB


class Interval(NamedTuple):
    """Where an average would probably lie, had other seeds been drawn."""

    low: Numbers
    high: Numbers


class Estimate(NamedTuple):
    """A number and its interval, which is None where a task has fewer than FEWEST_RUNS runs."""

    value: Numbers
    interval: Interval | None


def percentile_interval(drawn: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """The middle part of what the resamples gave, [..., resamples]."""
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=-1)
    return Interval(low, high)


def estimate(
    scores: Scores,
    statistic: Callable[[Scores], Numbers] = iqm,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """A statistic of the scores with its interval; of curves [points, runs], one interval at each point by itself."""
    tasks = by_task(scores)
    value = statistic(tasks)
    if fewest_runs(tasks) < FEWEST_RUNS:
        return Estimate(value, None)
    return Estimate(value, percentile_interval(_redrawn(tasks, statistic, seed, resamples), confidence))


def difference(first: Scores, second: Scores) -> Estimate:
    """How far the IQM of the first is above the second; their runs are redrawn independently."""
    ours, theirs = by_task(first), by_task(second)
    value = iqm(ours) - iqm(theirs)
    if min(fewest_runs(ours), fewest_runs(theirs)) < FEWEST_RUNS:
        return Estimate(value, None)
    drawn = _redrawn(ours, iqm, 0, RESAMPLES) - _redrawn(theirs, iqm, 1, RESAMPLES)
    return Estimate(value, percentile_interval(drawn))


def _redrawn(
    tasks: dict[str, np.ndarray], statistic: Callable[[Scores], Numbers], seed: int, resamples: int
) -> np.ndarray:
    """[..., resamples] the statistic of runs redrawn within each task."""
    rng = np.random.default_rng(seed)
    sizes = {task: runs.shape[-1] for task, runs in tasks.items()}
    picks = {task: rng.integers(size, size=(resamples, size)) for task, size in sizes.items()}
    at_once = max(1, ENTRIES_AT_ONCE // sum(runs.size for runs in tasks.values()))
    drawn = [
        statistic({task: runs[..., picks[task][start : start + at_once]] for task, runs in tasks.items()})
        for start in range(0, resamples, at_once)
    ]
    return np.concatenate(drawn, axis=-1)


def performance_profile(scores: Scores, thresholds: Any, **options: Any) -> Estimate:
    """The share of runs above each threshold, every task counting the same, with an interval at each by itself."""
    above = np.asarray(thresholds, float)[:, None]
    return estimate({task: runs > above for task, runs in by_task(scores).items()}, mean, **options)
