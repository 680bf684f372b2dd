"""Draws curves.png and prints the table: python results/products/figure.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from offdyn.report.runs import read_run

HERE = Path(__file__).parent
COLOURS = {"float32": "#0072B2", "full": "#D55E00"}  # colour-blind safe (Okabe and Ito)
COLUMNS = {"mean_value": "mean value", "target_return_mean": "return in the target"}
DIVERGED = 200  # mean value at the end


def main() -> None:
    figure, panels = plt.subplots(1, len(COLUMNS), figsize=(10, 3.5), layout="constrained")
    for precision, colour in COLOURS.items():
        runs = [read_run(path) for path in sorted(HERE.glob(f"*.precision-{precision}.seed-*"))]
        for panel, (name, shown) in zip(panels, COLUMNS.items(), strict=True):
            for run in runs:
                panel.plot(run.column("source_steps") / 1e3, run.column(name), color=colour, linewidth=1)
            panel.set(xlabel="source steps, thousands", ylabel=shown)
        panels[0].plot([], color=colour, label=precision)
        last = [run.column("mean_value")[-1] for run in runs]
        listed = ", ".join(f"**{value:.0f}**" if value > DIVERGED else f"{value:.0f}" for value in last)
        print(f"| `{precision}` | {listed} | {sum(value > DIVERGED for value in last)} of {len(last)} |")
    panels[0].set_yscale("log")
    panels[0].legend()
    figure.savefig(HERE / "curves.png", dpi=80)


if __name__ == "__main__":
    main()
