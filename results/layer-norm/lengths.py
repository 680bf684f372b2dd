"""How long do episodes of the final policies last, in the source and in the target?

    python results/layer-norm/lengths.py RUNS      # a folder of runs with their policies; writes lengths.csv

Ten episodes of the mean action in either body.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from offdyn.domains import pairs, tasks
from offdyn.experiments.evaluate import EVALUATION, Policy, steps
from offdyn.report.runs import gather

HERE = Path(__file__).parent
EPISODES, INDEX = 10, 1000  # an evaluation number that training never reaches


def main(folder: str) -> None:
    with (HERE / "lengths.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("critic_layer_norm", "seed", "body", "episode", "steps", "return"))
        for run in gather([Path(folder)]):
            policies = Policy(run.path / "policy.safetensors").policies
            starts = [(run.seed, EVALUATION, INDEX, episode) for episode in range(EPISODES)]
            for body in ("source", "target"):
                lasted, returns = np.zeros(EPISODES, int), np.zeros(EPISODES)
                domain = pairs.open_bodies([(tasks.resolve(run.task), body)] * EPISODES, starts, None)
                for episodes, rows in steps(domain, policies, 1, EPISODES):
                    lasted[episodes] += 1
                    returns[episodes] += rows.reward
                domain.close()
                named = run.settings["critic_layer_norm"], run.seed, body
                for episode, (length, gained) in enumerate(zip(lasted, returns, strict=True)):
                    table.writerow((*named, episode, length, f"{gained:.1f}"))
                print(*named, "median steps", np.median(lasted), "mean return", f"{returns.mean():.0f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
