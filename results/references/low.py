"""The low references: what uniform random actions return in the body of each task, and in the four stock bodies.

    python results/references/low.py

Writes low.csv beside it: 1000 whole episodes per body on one thread, the same bytes for the same MuJoCo and NumPy.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from offdyn.domains.simulator import Simulator
from offdyn.domains.tasks import TASKS, Task, reference

HERE = Path(__file__).parent
EPISODES, SEED = 1000, 2024


class Played(NamedTuple):
    """Whole episodes, one entry each."""

    returns: np.ndarray
    steps: np.ndarray
    diverged: int  # episodes in which the physics broke


def play_at_random(task: Task, episodes: int, seed: int = SEED) -> Played:
    """Every body plays one episode; what it does depends on its own number, not on when others end."""
    bodies = Simulator([task] * episodes, [(seed, body) for body in range(episodes)], threads=1)
    draws = np.random.default_rng([seed, 1])
    returns, steps, diverged = np.zeros(episodes), np.zeros(episodes, int), 0
    running = np.arange(episodes)
    while len(running):
        actions = draws.uniform(-1.0, 1.0, (episodes, task.robot.spec.action_size))
        rows = bodies.step(running, actions[running])
        returns[running] += np.where(rows.diverged, 0.0, rows.reward)
        steps[running] += 1
        diverged += int(rows.diverged.sum())
        running = running[~(rows.terminated | rows.truncated | rows.diverged)]
    bodies.close()
    return Played(returns, steps, diverged)


def row(task: Task, played: Played) -> dict[str, object]:
    """A line of low.csv: mean, spread and the standard error of the mean, in units of return."""
    returns = played.returns
    spread = float(returns.std(ddof=1))
    return {
        "task": task.name,
        "low": round(float(returns.mean()), 2),
        "standard_error": round(spread / len(returns) ** 0.5, 2),
        "deviation": round(spread, 2),
        "lowest": round(float(returns.min()), 1),
        "highest": round(float(returns.max()), 1),
        "mean_steps": round(float(played.steps.mean()), 1),
        "episodes": len(returns),
        "diverged": played.diverged,
    }


def bodies() -> list[Task]:
    """The eight tasks with published references, then the four stock robots."""
    shifted = [task for task in TASKS.values() if reference(task)]
    return shifted + [task for task in TASKS.values() if task.kind == "source"]


def main() -> None:
    rows = []
    for task in bodies():
        rows.append(row(task, play_at_random(task, EPISODES)))
        print(*rows[-1].values(), flush=True)
    with (HERE / "low.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
