"""Writes the curves of short runs, and the settings (or tasks) by which they differ, as one table.

python results/short_runs.py OUT.csv SETTING[,SETTING ...][+COLUMN ...] RUNS [RUNS ...]
"""

import csv
import sys
from pathlib import Path

import numpy as np

from offdyn.report.runs import gather

COLUMNS = (
    "source_steps",
    "target_steps",
    "target_return_mean",
    "source_return_mean",
    "penalty_mean",
    "mean_value",
    "critic_loss",
    "entropy",
)


def main(out: str, settings: str, *folders: str) -> None:
    settings, *more = settings.split("+")
    names, columns = settings.split(","), (*COLUMNS, *more)
    with Path(out).open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow((*names, "seed", *columns))
        for run in gather([Path(folder) for folder in folders]):
            said = {**run.settings, "task": run.task}
            unknown = np.full(len(run.column("source_steps")), np.nan)
            for row in zip(*(run.curve.get(name, unknown) for name in columns), strict=True):
                table.writerow((*map(said.get, names), run.seed, *(f"{value:.5g}" for value in row)))


if __name__ == "__main__":
    main(*sys.argv[1:])
