"""The same final policies on the body they were trained for and on the unshifted one.

    python results/which-body/measure.py

Reads results/par-paper; 50 fresh episodes of the mean action on each body, none of them seen in training.
"""

import csv
from pathlib import Path

import numpy as np

from offdyn.domains import pairs
from offdyn.experiments.evaluate import Policy, evaluate

HERE = Path(__file__).parent
RUNS = HERE.parent / "par-paper"
EPISODES, INDEX = 50, 1000  # an evaluation number that training never reaches
TASKS = ("halfcheetah-no-thighs", "hopper-big-head")


def main() -> None:
    rows = []
    for task in TASKS:
        for folder in sorted(RUNS.glob(f"{task}.*")):
            seed = int(folder.name.rsplit("-", 1)[1])
            policy = Policy(folder / "policy.safetensors").policies
            found = evaluate(policy, [pairs.find(task)], [seed], EPISODES, EPISODES, index=INDEX)
            for body, returns in (("shifted", found.target_returns[0]), ("unshifted", found.source_returns[0])):
                rows.append((task, seed, body, round(float(np.mean(returns)), 1), round(float(np.std(returns)), 1)))
                print(*rows[-1])
    with (HERE / "returns.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "seed", "body", "mean", "std"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
