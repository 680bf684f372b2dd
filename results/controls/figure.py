"""Draws curves.png and prints the table, PAR beside its controls: python results/controls/figure.py"""

import sys
from pathlib import Path

import numpy as np

from offdyn.report.runs import Run, read_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import curves_of, draw, listed

HERE = Path(__file__).parent
TASKS = ("halfcheetah-no-thighs", "hopper-broken-joints", "walker-broken-right-foot", "ant-broken-hips")
OF_PAR = ("par-paper", "par-again", "par-ant")
KINDS = {  # name: (folders, what a run's name holds)
    "PAR": (OF_PAR, ""),
    "no penalty": ((HERE.name,), ".penalty-0"),
    "shuffled": ((HERE.name,), ".deviation_shuffled-1"),
    "mean": ((HERE.name,), ".deviation_averaged-1"),
}
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "reward_penalty": "deducted per source row",
    "mean_value": "mean value",
}
LATE = 200_000  # source steps: returns in the source are means over the last of them, two episodes at a time


def runs_of(task: str) -> dict[str, list[Run]]:
    return {
        kind: [
            read_run(path)
            for folder in folders
            for path in sorted((HERE.parent / folder).glob(f"{task}.par.paper{named}.seed-*"))
        ]
        for kind, (folders, named) in KINDS.items()
    }


def print_row(task: str, kind: str, runs: list[Run]) -> None:
    finals = [run.final_return for run in runs]
    late = [run.column("source_return_mean")[run.column("source_steps") > 1e6 - LATE].mean() for run in runs]
    highest = [float(np.nanmax(run.column("mean_value"))) for run in runs]
    deducted = [run.column("reward_penalty") for run in runs]
    cells = [task, kind, listed(finals), f"{np.mean(finals):.0f}"]
    cells.append(", ".join(f"{value / 1e3:.1f}k" for value in late))
    cells.append(
        f"{np.mean([np.nanmax(each) for each in deducted]):.2g}, {np.mean([each[-1] for each in deducted]):.2g}"
    )
    cells.append(f"{min(highest):,.0f} to {max(highest):,.0f}")
    print(f"| {' | '.join(cells).lstrip()} |")


def main() -> None:
    runs = {task: runs_of(task) for task in TASKS}
    for task, kinds in runs.items():
        for kind, some in kinds.items():
            print_row(task if kind == "PAR" else "", kind, some)
    curves = {task: {kind: curves_of(some, COLUMNS) for kind, some in kinds.items()} for task, kinds in runs.items()}
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("reward_penalty", "mean_value"), faint=("PAR",))


if __name__ == "__main__":
    main()
