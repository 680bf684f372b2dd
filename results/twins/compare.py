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


def late(curves: Sequence[Curve], name: str) -> list[float]:
    return [float(curve[name][curve["source_steps"] > END - LAST].mean()) for curve in curves]


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
            returns = late(some, "target_return_mean")
            preset, twin = kind.split(",")[0], kind.endswith(TWIN)
            ahead = (
                [mine < par for mine in returns for par in late(kinds[preset], "target_return_mean")] if twin else []
            )
            cells = [task if kind == "released" else "", kind, listed(returns), f"{np.mean(returns):.0f}"]
            cells.append(", ".join(f"{value / 1e3:.1f}k" for value in late(some, "source_return_mean")))
            cells.append(f"{sum(ahead)} of {len(ahead)}" if ahead else "–")
            print(f"| {' | '.join(cells).lstrip()} |")
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("mean_value",), faint=("paper", f"paper, {TWIN}"))


if __name__ == "__main__":
    main()
