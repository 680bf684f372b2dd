"""Draws curves.png from the runs beside it: python results/par-ant/figure.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from offdyn.report.runs import read_run

HERE = Path(__file__).parent
TASKS = ("ant-broken-hips", "ant-short-feet")
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "mean_value": "mean value",
    "entropy": "entropy",
}
COLOURS = ("#0072B2", "#D55E00", "#009E73")  # colour-blind safe (Okabe and Ito)


def main() -> None:
    figure, axes = plt.subplots(len(TASKS), len(COLUMNS), figsize=(15, 6), sharex=True, layout="constrained")
    for row, task in zip(axes, TASKS, strict=True):
        for panel, (name, shown) in zip(row, COLUMNS.items(), strict=True):
            for seed, colour in enumerate(COLOURS):
                run = read_run(HERE / f"{task}.par.paper.seed-{seed}")
                panel.plot(
                    run.column("source_steps") / 1e3,
                    run.column(name),
                    color=colour,
                    linewidth=1.3,
                    label=f"seed {seed}",
                )
            panel.set_title(f"{task}\n{shown}", fontsize=10)
        row[2].set_yscale("log")
    for panel in axes[-1]:
        panel.set_xlabel("source steps, thousands")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(HERE / "curves.png", dpi=75)


if __name__ == "__main__":
    main()
