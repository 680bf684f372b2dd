"""The same final policies on the body they were trained for and on the unshifted one.

    python results/which-body/measure.py

Reads the runs of results/par-paper and par-released whose policies are there; 50 fresh episodes of the mean action on
each body, none of them seen in training.
"""

import csv
from pathlib import Path

import numpy as np

from offdyn.domains import pairs
from offdyn.experiments.evaluate import Policy, evaluate

HERE = Path(__file__).parent
RUNS = ("par-paper", "par-released")
EPISODES, INDEX = 50, 1000  # an evaluation number that training never reaches
TASKS = ("halfcheetah-no-thighs", "hopper-big-head")


def main() -> None:
    rows = []
    for task in TASKS:
        for file in (
            path for name in RUNS for path in sorted((HERE.parent / name).glob(f"{task}.*/policy.safetensors"))
        ):
            _, _, preset, seed_part = file.parent.name.split(".")
            seed = int(seed_part.removeprefix("seed-"))
            policy = Policy(file).policies
            found = evaluate(policy, [pairs.find(task)], [seed], EPISODES, EPISODES, index=INDEX)
            for body, returns in (("shifted", found.target_returns[0]), ("unshifted", found.source_returns[0])):
                rows.append(
                    (task, preset, seed, body, round(float(np.mean(returns)), 1), round(float(np.std(returns)), 1))
                )
                print(*rows[-1])
    with (HERE / "returns.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "preset", "seed", "body", "mean", "std"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
