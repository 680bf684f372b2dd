"""Draws curves.png and prints the table, PAR beside its twins without penalty: python results/twins/compare.py"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offdyn.report.runs import read_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import Curve, curves_in, curves_of, draw, listed

HERE = Path(__file__).parent
END, LAST = 650_000, 100_000  # source steps: as far as the twins got; returns are means over the last of them
ENDS = (200_000, 300_000, 400_000, 500_000, 600_000, END)
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "mean_value": "mean value",
}
TWIN = "no penalty"
OF_PAPER = ("par-paper", "par-again", "par-ant")


def whole(task: str, variant: str, folders: Sequence[str]) -> list[Curve]:
    """As far as the twins got."""
    paths = [path for folder in folders for path in sorted((HERE.parent / folder).glob(f"{task}.{variant}.seed-*"))]
    return cut(curves_of([*map(read_run, paths)], COLUMNS))


def cut(curves: Sequence[Curve]) -> list[Curve]:
    return [{name: values[curve["source_steps"] <= END] for name, values in curve.items()} for curve in curves]


def late(curves: Sequence[Curve], name: str, end: int = END) -> list[float]:
    """Means over the steps before `end`."""
    steps = [curve["source_steps"] for curve in curves]
    return [float(c[name][(end - LAST < s) & (s <= end)].mean()) for c, s in zip(curves, steps, strict=True)]


def ahead(par: Sequence[Curve], twins: Sequence[Curve], end: int = END) -> int:
    """Pairs in which PAR has the higher return in the target."""
    mine, its = (late(some, "target_return_mean", end) for some in (par, twins))
    return sum(a > b for a in mine for b in its)


def main() -> None:
    unfinished = curves_in(HERE.parent / "par-ant" / "part-length.csv", COLUMNS)
    curves = {
        task: {
            "released": whole(task, "par.released", ["par-released"]),
            f"released, {TWIN}": twins,
            "paper": whole(task, "par.paper", OF_PAPER) + cut(unfinished.get(task, [])),
            f"paper, {TWIN}": whole(task, "par.paper.penalty-0", ["controls"]),
        }
        for task, twins in sorted(curves_in(HERE / "part-length.csv", COLUMNS).items())
    }
    for task, kinds in curves.items():
        for kind, some in kinds.items():
            returns, par = late(some, "target_return_mean"), kinds[kind.split(",")[0]]
            cells = [task if kind == "released" else "", kind, listed(returns), f"{np.mean(returns):.0f}"]
            cells.append(", ".join(f"{value / 1e3:.1f}k" for value in late(some, "source_return_mean")))
            cells.append(f"{ahead(par, some)} of {len(par) * len(some)}" if kind.endswith(TWIN) else "–")
            print(f"| {' | '.join(cells).lstrip()} |")
    for task, kinds in curves.items():
        counts = [ahead(kinds["released"], kinds[f"released, {TWIN}"], end) for end in ENDS]
        print(f"| {task} | {' | '.join(map(str, counts))} |")
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("mean_value",), faint=("paper", f"paper, {TWIN}"))


if __name__ == "__main__":
    main()
