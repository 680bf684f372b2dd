"""Trains ant-broken-hips without the penalty as far as its critics diverge with it, and writes without-penalty.csv.

    python results/par-ant/without_penalty.py RUNS [--source-steps 100000]

RUNS is a folder for the trainings, which can be stopped and continued there with `offdyn resume`; started again with
the same folder the script only reads it. On two CPU cores, with other programs beside it, that took 47 minutes.
"""

import argparse
import csv
from pathlib import Path

from offdyn.experiments import train
from offdyn.experiments.config import build
from offdyn.experiments.devices import offer_every_core
from offdyn.experiments.progress import Lines

SEEDS = (0, 1, 2)
COLUMNS = ("source_steps", "target_return_mean", "source_return_mean", "mean_value", "critic_loss", "entropy")
SHORT = {"eval_interval": 5_000, "eval_episodes": 2, "eval_source_episodes": 1, "final_episodes": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--source-steps", type=int, default=100_000)
    asked = parser.parse_args()
    settings = SHORT | {"penalty": 0, "source_steps": asked.source_steps, "checkpoint_interval": 20_000}
    runs = [build("ant-broken-hips", "par", "paper", seed, settings)[0] for seed in SEEDS]
    if not asked.runs.exists():
        offer_every_core()
        train.start(runs, asked.runs, progress=Lines())
    with (Path(__file__).parent / "without-penalty.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("seed", *COLUMNS))
        for run in runs:
            with (asked.runs / run.name / "curve.csv").open(newline="") as curve:
                for row in csv.DictReader(curve):
                    if int(row["source_steps"]) <= asked.source_steps:
                        table.writerow((run.seed, *(row[column] for column in COLUMNS)))


if __name__ == "__main__":
    main()
