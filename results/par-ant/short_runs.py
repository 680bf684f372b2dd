"""Writes short-runs.csv from folders of trainings: python results/par-ant/short_runs.py RUNS [RUNS ...]"""

import csv
import sys
from pathlib import Path

from offdyn.report.runs import gather

COLUMNS = ("source_steps", "target_return_mean", "source_return_mean", "mean_value", "critic_loss", "entropy")


def main() -> None:
    with (Path(__file__).parent / "short-runs.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("penalty", "seed", *COLUMNS))
        for run in gather([Path(folder) for folder in sys.argv[1:]]):
            for row in zip(*(run.column(name) for name in COLUMNS), strict=True):
                table.writerow((run.settings["penalty"], run.seed, *(f"{value:.5g}" for value in row)))


if __name__ == "__main__":
    main()
