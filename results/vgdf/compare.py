"""Draws curves.png and prints the tables, VGDF beside the others as far as it came: python results/vgdf/compare.py"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offdyn.report.runs import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import Curve, ahead, curves_in, curves_of, draw, listed, mean_between

HERE = Path(__file__).parent
BEGIN, END = 10_000, 20_000  # target steps: where the filter begins and where the runs stopped; means are over these
RETURNS = {"target_return_mean": "return in the target", "source_return_mean": "return in the source"}
FILTER = {
    "mean_value": "mean value",
    "spread_of_imagined_values": "spread of imagined values",
    "ensemble_error_on_held-out_target_rows": "ensemble's error, held-out rows",
}
OTHERS = {
    "PAR, paper": ("par", "paper", ("par-paper", "par-again", "par-ant")),
    "PAR, released": ("par", "released", ("par-released",)),
    "no penalty": ("par", "released", ("twins",)),
    "DARC-weight": ("darc-weight", "paper", ("darc",)),
    "DARC": ("darc", "paper", ("darc",)),
    "SAC-tar": ("sac-tar", "paper", ("sac-tar",)),
}


def then(curves: Sequence[Curve], name: str) -> list[float]:
    return mean_between(curves, name, BEGIN, END, over="target_steps")


def main() -> None:
    vgdf = curves_in(HERE / "part-length.csv", [*RETURNS, *FILTER])
    runs = {kind: gather([HERE.parent / name for name in folders]) for kind, (_, _, folders) in OTHERS.items()}
    curves: dict[str, dict[str, list[Curve]]] = {}
    for task, mine in sorted(vgdf.items()):
        curves[task] = {"VGDF": mine}
        for kind, (method, preset, _) in OTHERS.items():
            some = [run for run in runs[kind] if (run.task, run.method, run.preset) == (task, method, preset)]
            curves[task][kind] = curves_of(some, RETURNS)
    for task, kinds in curves.items():
        mine = then(kinds["VGDF"], "target_return_mean")
        cells = [task, listed(mine), listed(then(kinds["VGDF"], "source_return_mean")), f"{np.mean(mine):.0f}"]
        for some in [then(kinds[kind], "target_return_mean") for kind in OTHERS]:
            cells.append(f"{np.mean(some):.0f} ({ahead(mine, some)} of {len(mine) * len(some)})" if some else "")
        print(f"| {' | '.join(cells)} |")
    for task, mine in sorted(vgdf.items()):
        cells = [listed(then(mine, name), form) for name, form in zip(FILTER, (".0f", ".1f", ".2f"), strict=True)]
        print(f"| {task} | {' | '.join(cells)} |")
    shown = ("VGDF", "PAR, paper", "PAR, released")
    drawn = {task: {kind: cut(kinds[kind]) for kind in shown} for task, kinds in curves.items()}
    draw(HERE / "curves.png", drawn, RETURNS, over="target_steps", faint=shown[1:])


def cut(curves: Sequence[Curve]) -> list[Curve]:
    return [{name: values[curve["target_steps"] <= END] for name, values in curve.items()} for curve in curves]


if __name__ == "__main__":
    main()
