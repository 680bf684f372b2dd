"""Draws curves.png and prints the table of the seeds that were begun three times: python results/par-ant/figure.py"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from offdyn.report.runs import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import Curve, curves_in, curves_of, draw

HERE = Path(__file__).parent
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "mean_value": "mean value",
    "entropy": "entropy",
}
THRICE = (3, 4)  # seeds
UNFINISHED = {"first, to 780,000": "part-length.csv", "second, to 470,000": "part-length-again.csv"}
WHOLE = "third, whole"
LATE = 10  # evaluations; returns are means over the last of them


def print_start(start: str, curves: Mapping[str, Sequence[Curve]]) -> None:
    """By task, a row for each seed."""
    for task, seeds in sorted(curves.items()):
        for seed, curve in zip(THRICE, seeds, strict=True):
            target, source = (curve[name][-LATE:].mean() for name in ("target_return_mean", "source_return_mean"))
            peak = int(np.nanargmax(curve["mean_value"]))
            cells = [start, task, f"{seed}", f"{target:.0f}", f"{source:.0f}"]
            cells += [f"{curve['mean_value'][peak]:,.0f}", f"{curve['source_steps'][peak]:,.0f}"]
            print(f"| {' | '.join(cells)} | {np.nanmin(curve['entropy']):.1f} |")


def main() -> None:
    runs = gather([HERE])
    curves = {
        task: {f"seed {run.seed}": curves_of([run], COLUMNS) for run in runs if run.task == task}
        for task in sorted({run.task for run in runs})
    }
    for start, table in UNFINISHED.items():
        unfinished = curves_in(HERE / table, COLUMNS)
        print_start(start, unfinished)
        for task, seeds in unfinished.items():
            for seed, curve in zip(THRICE, seeds, strict=True):
                curves[task].setdefault(f"seed {seed}, unfinished", []).append(curve)
    print_start(WHOLE, {task: [kinds[f"seed {seed}"][0] for seed in THRICE] for task, kinds in curves.items()})
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("mean_value",))


if __name__ == "__main__":
    main()
