"""How long do episodes of the final policies last, in the source and in the target?

    python results/layer-norm/lengths.py RUNS      # a folder of runs with their policies; writes lengths.csv

Ten episodes of the mean action in either body.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from offdyn.report.runs import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from final_policies import EPISODES, played

HERE = Path(__file__).parent


def main(folder: str) -> None:
    with (HERE / "lengths.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("critic_layer_norm", "seed", "body", "episode", "steps", "return"))
        for run in gather([Path(folder)]):
            for body in ("source", "target"):
                lasted, returns = np.zeros(EPISODES, int), np.zeros(EPISODES)
                for episodes, rows in played(run, body):
                    lasted[episodes] += 1
                    returns[episodes] += rows.reward
                named = run.settings["critic_layer_norm"], run.seed, body
                for episode, (length, gained) in enumerate(zip(lasted, returns, strict=True)):
                    table.writerow((*named, episode, length, f"{gained:.1f}"))
                print(*named, "median steps", np.median(lasted), "mean return", f"{returns.mean():.0f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
