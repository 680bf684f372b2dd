"""Writes finals.csv, curves.csv and curves.png beside itself from the runs of docs/worked-example.md.

python results/own-example/summary.py pendulum
"""

import csv
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from offdyn.experiments.record import find_runs

HERE = Path(__file__).parent
COLOURS = {"par": "#0072B2", "sac": "#56B4E9", "sac-src": "#009E73", "sac-tar": "#D55E00", "sac-tar-10": "#E69F00"}


def main(folder: Path) -> None:
    runs = {method: [] for method in COLOURS}
    for run in find_runs(folder):
        runs[run.config.method].append(run)
    finals, curves = [], []
    figure, axes = plt.subplots(figsize=(7, 4))
    for method, some in runs.items():
        means = np.array([json.loads((run.path / "final.json").read_text())["final_mean"] for run in some])
        for run, mean in zip(some, means, strict=True):
            done = [run.provenance[name] for name in ("target_steps", "source_steps", "updates")]
            finals.append([method, run.config.seed, round(mean, 1), *done])
            for line in run.curve():
                curves.append([method, run.config.seed, int(line["target_steps"]), int(line["source_steps"]),
                               round(line["target_return_mean"], 1)])  # fmt: skip
        returns = np.array([[line["target_return_mean"] for line in run.curve()] for run in some])
        # sac-src makes no target steps: it is drawn where the others were after as many source steps.
        steps = [line["target_steps"] or line["source_steps"] / 10 for line in some[0].curve()]
        axes.plot(steps, returns.mean(0), color=COLOURS[method], label=method)
        axes.fill_between(steps, returns.min(0), returns.max(0), color=COLOURS[method], alpha=0.15, linewidth=0)
        told = f"{means.mean():.0f} +- {means.std(ddof=1):.0f}, {means.min():.0f} to {means.max():.0f}"
        print(f"{method}: {told} over {len(means)} seeds")
    axes.set(xlabel="target steps", ylabel="return in the heavier pendulum", ylim=(-1700, 0))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(COLOURS), frameon=False)
    figure.tight_layout()
    figure.savefig(HERE / "curves.png", dpi=120)
    for name, head, rows in (
        ("finals.csv", ["method", "seed", "final return", "target steps", "source steps", "updates"], finals),
        ("curves.csv", ["method", "seed", "target steps", "source steps", "target return"], curves),
    ):
        with open(HERE / name, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
