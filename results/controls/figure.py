"""Draws curves.png and prints the table, PAR beside its controls: python results/controls/figure.py"""

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from offdyn.report.runs import Run, read_run

HERE = Path(__file__).parent
TASKS = ("halfcheetah-no-thighs", "hopper-broken-joints", "walker-broken-right-foot", "ant-broken-hips")
OF_PAR = ("par-paper", "par-again", "par-ant")
KINDS = {  # name: (folders, what a run's name holds, colour: Okabe and Ito's)
    "PAR": (OF_PAR, "", "#0072B2"),
    "no penalty": ((HERE.name,), ".penalty-0", "#000000"),
    "shuffled": ((HERE.name,), ".deviation_shuffled-1", "#D55E00"),
    "mean": ((HERE.name,), ".deviation_averaged-1", "#009E73"),
}
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "reward_penalty": "deducted per source row",
    "mean_value": "mean value",
}
LATE = 200_000  # source steps: returns in the source are means over the last of them, two episodes at a time
Runs = Mapping[str, list[Run]]


def runs_of(task: str) -> Runs:
    return {
        kind: [
            read_run(path)
            for folder in folders
            for path in sorted((HERE.parent / folder).glob(f"{task}.par.paper{named}.seed-*"))
        ]
        for kind, (folders, named, _) in KINDS.items()
    }


def print_row(task: str, kind: str, runs: list[Run]) -> None:
    finals = [run.final["final_mean"] for run in runs if run.final]
    late = [run.column("source_return_mean")[run.column("source_steps") > 1e6 - LATE].mean() for run in runs]
    highest = [float(np.nanmax(run.column("mean_value"))) for run in runs]
    deducted = [run.column("reward_penalty") for run in runs]
    cells = [task, kind, ", ".join(f"{value:.0f}" for value in finals), f"{np.mean(finals):.0f}"]
    cells.append(", ".join(f"{value / 1e3:.1f}k" for value in late))
    cells.append(
        f"{np.mean([np.nanmax(each) for each in deducted]):.2g}, {np.mean([each[-1] for each in deducted]):.2g}"
    )
    cells.append(f"{min(highest):,.0f} to {max(highest):,.0f}")
    print(f"| {' | '.join(cells)} |")


def draw(curves: Mapping[str, Runs]) -> None:
    figure, axes = plt.subplots(len(COLUMNS), len(curves), figsize=(17, 11), sharex=True, layout="constrained")
    for panels, (task, kinds) in zip(axes.T, curves.items(), strict=True):
        for panel, name in zip(panels, COLUMNS, strict=True):
            for kind, runs in kinds.items():
                colour = KINDS[kind][2]
                for run in runs:
                    faint = 0.35 if kind == "PAR" else 1.0
                    panel.plot(
                        run.column("source_steps") / 1e3, run.column(name), color=colour, alpha=faint, linewidth=1
                    )
                panel.plot([], color=colour, label=kind)
            if name in ("reward_penalty", "mean_value"):
                panel.set_yscale("log")
        panels[0].set_title(task, fontsize=10)
        panels[-1].set_xlabel("source steps, thousands")
    for panel, shown in zip(axes[:, 0], COLUMNS.values(), strict=True):
        panel.set_ylabel(shown)
    axes[0, 0].legend(fontsize=8)
    figure.savefig(HERE / "curves.png", dpi=70)


def main() -> None:
    curves = {task: runs_of(task) for task in TASKS}
    for task, kinds in curves.items():
        for kind, runs in kinds.items():
            print_row(task, kind, runs)
    draw(curves)


if __name__ == "__main__":
    main()
