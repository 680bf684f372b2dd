"""Draws curve.png from the runs in interval-10: python results/vgdf-ensemble/figure.py"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
COLOURS = {"halfcheetah-broken-back-thigh": "#0072B2", "halfcheetah-no-thighs": "#D55E00"}  # Okabe and Ito's


def main() -> None:
    figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    for task, colour in COLOURS.items():
        curves = []
        for path in sorted((HERE / "interval-10").glob(f"{task}.*/curve.csv")):
            with open(path, newline="") as file:
                lines = list(csv.DictReader(file))
            steps = [int(line["target_steps"]) / 1e3 for line in lines]
            curves.append([float(line["target_return_mean"]) for line in lines])
        axes.plot(steps, np.transpose(curves), color=colour, linewidth=0.8, alpha=0.7)
        axes.plot(steps, np.mean(curves, 0), color=colour, linewidth=2.2, label=task)
    axes.axvline(10, color="black", linewidth=0.8, linestyle=":", label="the filter sets in")
    axes.set(xlabel="target steps, thousands", ylabel="target return (10 episodes)", title="VGDF, two seeds each")
    axes.legend(fontsize=8)
    figure.savefig(HERE / "curve.png", dpi=80)


if __name__ == "__main__":
    main()
