"""Draws curves.png and prints the table of README.md from the runs beside it: python results/engine-check/figure.py"""

import csv
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
TASKS = ("halfcheetah-broken-back-thigh", "halfcheetah-no-thighs")
COLOURS = {"with penalty": "#0072B2", "penalty 0": "#D55E00"}  # colour-blind safe (Okabe and Ito)


def runs(preset: str, task: str, twin: bool) -> list[Path]:
    name = f"{task}.par.{preset}{'.penalty-0' if twin else ''}.seed-*"
    return sorted((HERE / preset).glob(name))


def column(run: Path, name: str) -> np.ndarray:
    with open(run / "curve.csv", newline="") as file:
        return np.array([float(row[name] or "nan") for row in csv.DictReader(file)])


def main() -> None:
    figure, axes = plt.subplots(2, 4, figsize=(15, 6), sharex=True, layout="constrained")
    panels = [(preset, task) for task in TASKS for preset in ("paper", "released")]
    for panel, (preset, task) in enumerate(panels):
        top, bottom = axes[:, panel]
        for label, colour in COLOURS.items():
            found = runs(preset, task, twin=label == "penalty 0")
            steps = column(found[0], "target_steps") / 1e3
            returns = np.stack([column(run, "target_return_mean") for run in found])
            top.plot(steps, returns.T, color=colour, linewidth=0.7, alpha=0.6)
            top.plot(steps, returns.mean(0), color=colour, linewidth=2.2, label=label)
            deviation = np.stack([column(run, "deviation_on_source_rows") for run in found])
            bottom.plot(steps, deviation.mean(0), color=colour, linewidth=2, label=f"source rows, {label}")
            final = [json.loads((run / "final.json").read_text())["final_mean"] for run in found]
            shown = "  ".join(f"{value:6.0f}" for value in final)
            print(f"{task:31} {preset:9} {label:13} {shown}   mean {np.mean(final):6.0f}  std {np.std(final):5.0f}")
        held_out = np.stack([column(run, "deviation_on_held-out_target_rows") for run in runs(preset, task, False)])
        bottom.plot(steps, held_out.mean(0), color="black", linewidth=1.5, linestyle="--", label="held-out target rows")
        top.set_title(f"{task}\npreset {preset}", fontsize=10)
        bottom.set(yscale="log", xlabel="target steps, thousands")
    axes[0, 0].set_ylabel("target return (10 episodes)")
    axes[1, 0].set_ylabel("deviation")
    axes[0, 0].legend(fontsize=8)
    axes[1, 0].legend(fontsize=8)
    figure.savefig(HERE / "curves.png", dpi=75)


if __name__ == "__main__":
    main()
