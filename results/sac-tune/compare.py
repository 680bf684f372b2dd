"""Prints the tables and draws curves.png, PAR beside SAC-tune: python results/sac-tune/compare.py"""

import sys
from pathlib import Path

import numpy as np

from offdyn.report.runs import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import Curve, curves_in, curves_of, draw, listed

HERE = Path(__file__).parent
BESIDE = {
    "PAR, paper": ("par-paper", "par-ant"),
    "PAR, released": ("par-released",),
    "sac-tar-10": ("sac-tar-10",),
}
COLUMNS = {"target_return_mean": "return in the target"}
ONCE = (85_000, 90_000, 95_000)  # target steps: the last evaluations of the unfinished runs


def late(curve: Curve) -> float:
    return float(curve["target_return_mean"][np.isin(curve["target_steps"], ONCE)].mean())


def main() -> None:
    folders = {"sac-tune": (HERE.name,), **BESIDE}
    runs = {kind: gather([HERE.parent / name for name in names]) for kind, names in folders.items()}
    before, curves, twice = curves_in(HERE / "part-length.csv", COLUMNS), {}, []
    for task in sorted(before):
        mine = {kind: [run for run in some if run.task == task] for kind, some in runs.items()}
        finals = {kind: [run.final_return for run in some] for kind, some in mine.items()}
        drawn = {kind: curves_of(some, COLUMNS) for kind, some in mine.items()}
        at_first = [curve["target_return_mean"][0] for curve in drawn["sac-tune"]]
        means = [f"{np.mean(some):.0f}" for some in finals.values()]
        print(f"| {' | '.join([task, listed(at_first), listed(finals['sac-tune']), *means])} |")
        twice.append([task, *(listed(map(late, some)) for some in (drawn["sac-tune"], before[task]))])
        del drawn["sac-tar-10"]
        curves[task] = {**drawn, "sac-tune, once before": before[task]}
    print(*(f"| {' | '.join(row)} |" for row in twice), sep="\n")
    draw(HERE / "curves.png", curves, COLUMNS, over="target_steps", faint=("PAR, paper", "PAR, released"))


if __name__ == "__main__":
    main()
