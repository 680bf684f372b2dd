"""The same final policies on the body they were trained for and on the unshifted one.

    python results/which-body/measure.py

Reads the runs of results/par-paper, par-released and vgdf that have policies; 50 fresh episodes of the mean action
on each body, none of them seen in training.
"""

import csv
from pathlib import Path

import numpy as np

from offdyn.domains import pairs
from offdyn.experiments.evaluate import Policy, evaluate
from offdyn.report.runs import read_run

HERE = Path(__file__).parent
RUNS = ("par-paper", "par-released", "vgdf")
EPISODES, INDEX = 50, 1000  # an evaluation number that training never reaches
TASKS = ("halfcheetah-no-thighs", "hopper-big-head")


def main() -> None:
    rows = []
    for task in TASKS:
        files = [file for name in RUNS for file in sorted((HERE.parent / name).glob(f"{task}.*/policy.safetensors"))]
        for file in files:
            run, policy = read_run(file.parent), Policy(file).policies
            found = evaluate(policy, [pairs.find(task)], [run.seed], EPISODES, EPISODES, index=INDEX)
            for body, returns in (("shifted", found.target_returns[0]), ("unshifted", found.source_returns[0])):
                mean, std = (round(float(value), 1) for value in (np.mean(returns), np.std(returns)))
                rows.append((task, run.method, run.preset, run.seed, body, mean, std))
                print(*rows[-1])
    with (HERE / "returns.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "method", "preset", "seed", "body", "mean", "std"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
