"""Draws FOLDER/curves.png and prints its table: whose critics diverged, by the setting in which the runs differ.

python results/diverged.py FOLDER SETTING
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from offdyn.report.runs import gather

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # colour-blind safe (Okabe and Ito)
COLUMNS = {"mean_value": "mean value", "target_return_mean": "return in the target"}
DIVERGED = 200  # mean value at the end


def main(folder: str, setting: str) -> None:
    found = gather([Path(folder)])
    values = sorted({run.settings[setting] for run in found})
    figure, panels = plt.subplots(1, len(COLUMNS), figsize=(10, 3.5), layout="constrained")
    for value, colour in zip(values, COLOURS, strict=False):
        runs = [run for run in found if run.settings[setting] == value]
        for panel, (name, shown) in zip(panels, COLUMNS.items(), strict=True):
            for run in runs:
                panel.plot(run.column("source_steps") / 1e3, run.column(name), color=colour, linewidth=1)
            panel.set(xlabel="source steps, thousands", ylabel=shown)
        panels[0].plot([], color=colour, label=f"{setting} {value}")
        last = [run.column("mean_value")[-1] for run in sorted(runs, key=lambda run: run.seed)]
        listed = ", ".join(f"**{value:,.0f}**" if value > DIVERGED else f"{value:.0f}" for value in last)
        print(f"| `{value}` | {listed} | {sum(value > DIVERGED for value in last)} of {len(last)} |")
    panels[0].set_yscale("log")
    panels[0].legend()
    figure.savefig(Path(folder) / "curves.png", dpi=80)


if __name__ == "__main__":
    main(*sys.argv[1:])
