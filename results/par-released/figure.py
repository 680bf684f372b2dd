"""Draws curves.png and prints the tables, preset `paper` beside it: python results/par-released/figure.py"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from offdyn.report.runs import read_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import Curve, curves_in, curves_of, draw, listed

HERE = Path(__file__).parent
PAPER = ("par-paper", "par-ant", "par-again")
ENDS = (1_000_000, 420_000)  # source steps: whole runs, and those besides that got as far as two unfinished sets
LAST = 50_000  # source steps; returns are means over them, five evaluations
COLUMNS = {
    "target_return_mean": "return in the target",
    "reward_penalty": "deducted per source row",
    "mean_value": "mean value",
}


def whole(task: str, preset: str, folders: Sequence[str]) -> list[Curve]:
    paths = [path for name in folders for path in sorted((HERE.parent / name).glob(f"{task}.par.{preset}.seed-*"))]
    return curves_of([*map(read_run, paths)], COLUMNS)


def as_far_as(end: int, curves: list[Curve]) -> list[Curve]:
    """Those that reach this step, cut there."""
    reaching = [curve for curve in curves if curve["source_steps"][-1] >= end]
    return [{name: values[curve["source_steps"] <= end] for name, values in curve.items()} for curve in reaching]


def late(curve: Curve, name: str) -> float:
    """The mean over the last evaluations."""
    return float(curve[name][curve["source_steps"] > curve["source_steps"][-1] - LAST].mean())


def print_table(curves: Mapping[str, Mapping[str, list[Curve]]], end: int) -> None:
    print(f"as far as step {end:,}")
    for task, presets in curves.items():
        cells = [task]
        reached = [as_far_as(end, some) for some in presets.values()]
        for some in reached:
            returns = [late(curve, "target_return_mean") for curve in some]
            cells.append(listed(returns))
            cells.append(f"{np.mean(returns):.0f} ± {np.std(returns, ddof=1) / len(returns) ** 0.5:.0f}")
        for some in reached:
            cells.append(f"{np.mean([late(curve, 'reward_penalty') for curve in some]):.3g}")
        for some in reached:
            highest = [float(np.nanmax(curve["mean_value"])) for curve in some]
            cells.append(f"{min(highest):,.0f} to {max(highest):,.0f}")
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    curves = {
        task: {"paper": whole(task, "paper", PAPER), "released": whole(task, "released", [HERE.name]) + rest}
        for task, rest in sorted(curves_in(HERE / "part-length.csv", COLUMNS).items())
    }
    for end in ENDS:
        print_table(curves, end)
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("reward_penalty", "mean_value"))


if __name__ == "__main__":
    main()
