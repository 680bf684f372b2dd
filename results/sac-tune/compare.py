"""Prints the table (SAC-tar-10 too) and draws curves.png, PAR beside SAC-tune: python results/sac-tune/compare.py"""

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from offdyn.report.runs import gather

HERE = Path(__file__).parent
BESIDE = {
    "PAR, `paper`": ("par-paper", "par-ant"),
    "PAR, `released`": ("par-released",),
    "sac-tar-10": ("sac-tar-10",),
}
COLOURS = {"sac-tune": "#009E73", "PAR, `paper`": "#0072B2", "PAR, `released`": "#D55E00"}  # Okabe and Ito
LAST = (85_000, 90_000, 95_000)  # target steps at which all of them were evaluated
Curve = tuple[np.ndarray, np.ndarray]  # target steps, mean return of ten episodes


def of_sac_tune() -> dict[str, list[Curve]]:
    """By task, a curve for each seed."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in csv.DictReader((HERE / "part-length.csv").open()):
        points[row["task"], row["seed"]].append((float(row["target_steps"]), float(row["target_return_mean"])))
    curves: dict[str, list[Curve]] = defaultdict(list)
    for (task, _), mine in points.items():
        steps, returns = np.array(mine).T
        curves[task].append((steps, returns))
    return curves


def of_folders(folders: tuple[str, ...]) -> dict[str, list[Curve]]:
    curves: dict[str, list[Curve]] = defaultdict(list)
    for run in gather([HERE.parent / name for name in folders]):
        curves[run.task].append((run.column("target_steps"), run.column("target_return_mean")))
    return curves


def late(curve: Curve) -> float:
    """The mean of the last evaluations that all runs have."""
    steps, returns = curve
    return float(np.mean([returns[steps == step].item() for step in LAST]))


def main() -> None:
    curves = {"sac-tune": of_sac_tune()} | {name: of_folders(folders) for name, folders in BESIDE.items()}
    tasks = list(curves["sac-tune"])
    for task in tasks:
        at_first = ", ".join(f"{returns[0]:.0f}" for _, returns in curves["sac-tune"][task])
        cells = [task, at_first]
        for name, by_task in curves.items():
            returns = [late(curve) for curve in by_task[task]]
            listed = [", ".join(f"{value:.0f}" for value in returns)] if name == "sac-tune" else []
            cells += [*listed, f"{np.mean(returns):.0f}"]
        print(f"| {' | '.join(cells)} |")

    figure, axes = plt.subplots(2, len(tasks) // 2, figsize=(16, 6.5), sharex=True, layout="constrained")
    for panel, task in zip(axes.T.flat, tasks, strict=True):
        for name, colour in COLOURS.items():
            for steps, returns in curves[name][task]:
                panel.plot(steps / 1e3, returns, color=colour, linewidth=0.8 if name != "sac-tune" else 1.6)
        panel.set_title(task, fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("target steps, thousands")
    for panel in axes[:, 0]:
        panel.set_ylabel("return in the target")
    for name, colour in COLOURS.items():
        axes[0, 0].plot([], color=colour, label=name.replace("`", ""))
    axes[0, 0].legend()
    figure.savefig(HERE / "curves.png", dpi=70)


if __name__ == "__main__":
    main()
