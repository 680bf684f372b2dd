"""Is one method better than another: probability of improvement, a test on each task, Holm's correction over tasks."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from .._util.errors import OffdynError
from .bootstrap import CONFIDENCE, FEWEST_RUNS, RESAMPLES, Estimate, percentile_interval
from .statistics import Scores, by_task, fewest_runs

LARGEST_EXACT = 60  # runs of both methods together up to which a p-value is exact


class TaskTest(NamedTuple):
    """One task of a comparison."""

    task: str
    runs: tuple[int, int]
    difference: float  # of the means, first less second
    improvement: float  # share of pairs of runs that the first method wins
    p_value: float
    p_holm: float  # corrected over the tasks of this comparison


class Comparison(NamedTuple):
    """Two methods, on the tasks that both have runs on."""

    first: str
    second: str
    improvement: Estimate  # probability that a run of the first beats one of the second, averaged over the tasks
    tasks: list[TaskTest]


def matched(first: Scores, second: Scores) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Both methods' runs [runs] by task; refused where only one of them has runs on a task."""
    x, y = by_task(first), by_task(second)
    if lonely := sorted(x.keys() ^ y.keys()):
        raise OffdynError(f"comparison: only one method has runs on {', '.join(lonely)}; leave these tasks out of both")
    return {task: (x[task], y[task]) for task in x}


def wins(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[n, m]: 1 where a run of the first beats one of the second, 0 where it loses, 1/2 where they tie."""
    return (np.sign(first[:, None] - second[None, :]) + 1) / 2


def probability_of_improvement(
    first: Scores, second: Scores, *, seed: int = 0, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> Estimate:
    """The chance that a run of the first method beats one of the second on the same task, averaged over tasks."""
    tables = [wins(x, y) for x, y in matched(first, second).values()]
    value = np.mean([table.mean() for table in tables])
    if min(fewest_runs(first), fewest_runs(second)) < FEWEST_RUNS:
        return Estimate(value, None)
    rng = np.random.default_rng(seed)
    drawn = []
    for table in tables:
        # How often each resample holds each run: [resamples, n] and [resamples, m].
        rows, columns = (rng.multinomial(runs, np.full(runs, 1 / runs), size=resamples) for runs in table.shape)
        drawn.append(((rows @ table) * columns).sum(1) / table.size)
    return Estimate(value, percentile_interval(np.mean(drawn, axis=0), confidence))


def mann_whitney(first: Any, second: Any) -> float:
    """The two-sided p-value of "no difference": the share of all relabellings of the runs as one-sided as theirs.

    Exact, ties included, up to LARGEST_EXACT runs; beyond, SciPy's normal approximation.
    """
    ((x, y),) = matched(first, second).values()
    both = np.concatenate([x, y])
    total = len(both)
    if np.ptp(both) == 0:
        return 1.0
    if total > LARGEST_EXACT:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(x, y, method="asymptotic").pvalue)
    ranks = np.rint(2 * wins(both, both).sum(1)).astype(int)  # twice the mid-rank less 1: whole numbers despite ties
    largest = ranks.sum()
    ways = np.zeros((len(x) + 1, largest + 1))  # [k, s]: choices of k runs whose ranks add up to s
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : largest + 1 - rank].copy()
    expected = len(x) * ranks.mean()
    as_far = np.abs(np.arange(largest + 1) - expected) >= np.abs(ranks[: len(x)].sum() - expected) - 1e-9
    return min(1.0, float(ways[-1, as_far].sum() / comb(total, len(x))))


def smallest_p(first_runs: int, second_runs: int) -> float:
    """The p-value when no runs of the two overlap: nothing that they show can be more significant."""
    return min(1.0, 2 / comb(first_runs + second_runs, first_runs))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: call those below 0.05 different, and the chance of any false call is below 5 %."""
    p = np.asarray(p_values, float)
    if not ((p >= 0) & (p <= 1)).all():
        raise OffdynError(f"Holm's correction: expected p-values between 0 and 1, found {list(p_values)}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return [float(value) for value in adjusted]


def by_task_tests(first: Scores, second: Scores) -> list[TaskTest]:
    """A Mann-Whitney test on every task."""
    pairs = matched(first, second)
    p_values = [mann_whitney(x, y) for x, y in pairs.values()]
    return [
        TaskTest(task, (len(x), len(y)), float(x.mean() - y.mean()), float(wins(x, y).mean()), p, p_holm)
        for (task, (x, y)), p, p_holm in zip(pairs.items(), p_values, holm(p_values), strict=True)
    ]


def compare(methods: Mapping[str, Mapping[str, Any]], **options: Any) -> list[Comparison]:
    """A row for every two methods that share a task, in the order given; tasks that only one has are left out."""
    rows = []
    for one, other in combinations(methods, 2):
        if shared := methods[one].keys() & methods[other].keys():
            first, second = ({task: methods[name][task] for task in shared} for name in (one, other))
            improvement = probability_of_improvement(first, second, **options)
            rows.append(Comparison(one, other, improvement, by_task_tests(first, second)))
    return rows
