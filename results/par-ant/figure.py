"""Draws curves.png and prints the table of the seeds that did not end: python results/par-ant/figure.py"""

import sys
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
UNFINISHED = (3, 4)  # seeds
TAKES = ("part-length.csv", "part-length-again.csv")
LATE = 10  # evaluations; returns are means over the last of them


def print_row(task: str, seed: int, curve: Curve) -> None:
    target, source = (curve[name][-LATE:].mean() for name in ("target_return_mean", "source_return_mean"))
    peak = int(np.nanargmax(curve["mean_value"]))
    highest, when = curve["mean_value"][peak], curve["source_steps"][peak]
    cells = [task if seed == UNFINISHED[0] else "", f"{seed}", f"{target:.0f}", f"{source:.0f}"]
    cells += [f"{highest:,.0f}", f"{when:,.0f}", f"{np.nanmin(curve['entropy']):.1f}"]
    print(f"| {' | '.join(cells).lstrip()} |")


def main() -> None:
    runs = gather([HERE])
    curves = {
        task: {f"seed {run.seed}": curves_of([run], COLUMNS) for run in runs if run.task == task}
        for task in sorted({run.task for run in runs})
    }
    for take in TAKES:
        for task, unfinished in sorted(curves_in(HERE / take, COLUMNS).items()):
            for seed, curve in zip(UNFINISHED, unfinished, strict=True):
                print_row(task, seed, curve)
                curves[task].setdefault(f"seed {seed}, unfinished", []).append(curve)
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("mean_value",))


if __name__ == "__main__":
    main()
