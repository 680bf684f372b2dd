"""Draws behaviours.png, the training of the policies that come along: python results/datasets/figure.py"""

import csv
from importlib import resources
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from offdyn.domains.robots import ROBOTS

HERE = Path(__file__).parent
MARKS = {"medium": ("#D55E00", "o"), "expert": ("#009E73", "s")}  # Okabe and Ito's


def main() -> None:
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.4), layout="constrained")
    curves = resources.files("offdyn") / "data" / "behaviours"
    for panel, robot in zip(axes, ROBOTS, strict=True):
        lines = list(csv.DictReader((curves / f"{robot}-curve.csv").read_text().splitlines()))
        steps = [int(line["step"]) / 1e6 for line in lines]
        panel.plot(steps, [float(line["return_mean"]) for line in lines], color="#0072B2", label="mean action")
        drawn = [float(line["stochastic_return_mean"]) for line in lines]
        panel.plot(steps, drawn, color="#999999", linewidth=1, label="drawn actions")
        for quality, (colour, mark) in MARKS.items():
            (at,) = [index for index, line in enumerate(lines) if quality in line["picked"].split()]
            panel.plot(steps[at], drawn[at], mark, color=colour, label=quality, zorder=3)
        panel.set(title=robot, xlabel="source steps, millions")
    axes[0].set_ylabel("return (10 episodes)")
    axes[0].legend(fontsize=8)
    figure.savefig(HERE / "behaviours.png", dpi=70)


if __name__ == "__main__":
    main()
