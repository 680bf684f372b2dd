"""How often a 95 % interval holds the truth, by simulation: prints the table of docs/report.md (some minutes).

python tests/report/coverage.py
"""

from collections.abc import Callable

import numpy as np

from offdyn.report.bootstrap import estimate
from offdyn.report.statistics import iqm, mean

EXPERIMENTS, RESAMPLES, RUNS_FOR_THE_TRUTH = 2000, 400, 200_000
SEEDS = (3, 5, 10, 20)


def normal(rng: np.random.Generator, runs: int) -> np.ndarray:
    return rng.normal(0, 15, runs)


def skewed(rng: np.random.Generator, runs: int) -> np.ndarray:
    return rng.exponential(15, runs)


def often_stuck(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Three runs of ten are stuck, 30 below the others."""
    return np.where(rng.random(runs) < 0.3, -30, 0) + rng.normal(0, 3, runs)


DRAWS = (normal, skewed, often_stuck)


def coverage(rng: np.random.Generator, draw: Callable, statistic: Callable, tasks: int, seeds: int) -> float:
    def experiment(runs: int) -> dict[str, np.ndarray]:
        return {str(task): centre + draw(rng, runs) for task, centre in enumerate(np.linspace(20, 80, tasks))}

    truth = statistic(experiment(RUNS_FOR_THE_TRUTH))
    found = [estimate(experiment(seeds), statistic, seed=k, resamples=RESAMPLES) for k in range(EXPERIMENTS)]
    return np.mean([one.interval.low <= truth <= one.interval.high for one in found])


def main() -> None:
    print("| |", " | ".join(f"{seeds} seeds" for seeds in SEEDS), "|")
    print("|---" * (len(SEEDS) + 1) + "|")
    for tasks in (1, 8):
        for statistic in (mean, iqm):
            rng = np.random.default_rng(0)
            cells = [
                " / ".join(f"{100 * coverage(rng, draw, statistic, tasks, seeds):.0f}" for draw in DRAWS) + " %"
                for seeds in SEEDS
            ]
            name = f"{statistic.__name__}, {tasks} task{'s' if tasks > 1 else ''}"
            print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
