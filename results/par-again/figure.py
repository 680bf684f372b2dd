"""Draws curves.png and prints the table, par-paper's runs beside these: python results/par-again/figure.py"""

import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from offdyn.report.runs import read_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import curves_of, draw

HERE = Path(__file__).parent
FIRST, AGAIN = HERE.parent / "par-paper", HERE
COLUMNS = {"target_return_mean": "return in the target", "reward_penalty": "deducted per source row"}
REDRAWN = 100_000


def runs(folder: Path, task: str) -> list[Path]:
    return sorted(folder.glob(f"{task}.par.paper.seed-*"))


def finals(folder: Path, task: str, name: str = "final_mean") -> list[float]:
    return [json.loads((run / "final.json").read_text())[name] for run in runs(folder, task)]


def divisions_as_uneven(first: list[float], again: list[float]) -> tuple[int, int]:
    """Of all ways to divide the runs into two sets of these sizes: how many have means as far apart, and how many are
    there."""
    values = np.array([*first, *again])
    apart = [
        abs(values[list(chosen)].mean() - np.delete(values, chosen).mean())
        for chosen in combinations(range(len(values)), len(again))
    ]
    return sum(gap >= abs(np.mean(again) - np.mean(first)) - 1e-9 for gap in apart), len(apart)


def print_table(tasks: list[str]) -> None:
    for task in tasks:
        first, again = finals(FIRST, task), finals(AGAIN, task)
        every = [", ".join(f"{value:.0f}" for value in some) for some in (first, again)]
        means = [f"{np.mean(some):.0f}" for some in (first, again, first + again)]
        as_uneven, of = divisions_as_uneven(first, again)
        print(f"| {task} | {' | '.join(every)} | {' | '.join(means)} | {as_uneven} of {of} |")
    scores = np.array(
        [finals(FIRST, task, "final_normalised") + finals(AGAIN, task, "final_normalised") for task in tasks]
    )
    size = len(finals(AGAIN, tasks[0]))
    gap = scores[:, -size:].mean() - scores[:, :-size].mean()
    redraw = np.random.default_rng(0)
    shuffled = (redraw.permuted(scores, axis=1) for _ in range(REDRAWN))
    as_far = sum(abs(some[:, -size:].mean() - some[:, :-size].mean()) >= abs(gap) for some in shuffled)
    print(f"\nover all tasks, normalised: {gap:+.1f} points; as far apart by chance: {as_far / REDRAWN:.2f}")


def main() -> None:
    tasks = sorted({run.name.partition(".")[0] for run in HERE.glob("*.par.paper.seed-*")})
    print_table(tasks)
    curves = {
        task: {folder.name: curves_of([*map(read_run, runs(folder, task))], COLUMNS) for folder in (FIRST, AGAIN)}
        for task in tasks
    }
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("reward_penalty",))


if __name__ == "__main__":
    main()
