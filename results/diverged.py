"""Draws FOLDER/curves.png and prints its table: whose critics diverged, by the setting in which the runs differ.

python results/diverged.py FOLDER SETTING
"""

import sys
from pathlib import Path

from every_seed import curves_of, draw

from offdyn.report.runs import gather

COLUMNS = {"mean_value": "mean value", "target_return_mean": "return in the target"}
DIVERGED = 200  # mean value at the end


def main(folder: str, setting: str) -> None:
    found = gather([Path(folder)])
    kinds = {}
    for value in sorted({run.settings[setting] for run in found}):
        runs = [run for run in found if run.settings[setting] == value]
        kinds[f"{setting} {value}"] = curves_of(runs, COLUMNS)
        last = [run.column("mean_value")[-1] for run in sorted(runs, key=lambda run: run.seed)]
        listed = ", ".join(f"**{value:,.0f}**" if value > DIVERGED else f"{value:.0f}" for value in last)
        print(f"| `{value}` | {listed} | {sum(value > DIVERGED for value in last)} of {len(last)} |")
    draw(Path(folder) / "curves.png", {found[0].task: kinds}, COLUMNS, logarithmic=("mean_value",))


if __name__ == "__main__":
    main(*sys.argv[1:])
