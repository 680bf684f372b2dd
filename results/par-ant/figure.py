"""Draws curves.png from the runs beside it: python results/par-ant/figure.py"""

import sys
from pathlib import Path

from offdyn.report.runs import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import curves_of, draw

HERE = Path(__file__).parent
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "mean_value": "mean value",
    "entropy": "entropy",
}


def main() -> None:
    runs = gather([HERE])
    curves = {
        task: {f"seed {run.seed}": curves_of([run], COLUMNS) for run in runs if run.task == task}
        for task in sorted({run.task for run in runs})
    }
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("mean_value",))


if __name__ == "__main__":
    main()
