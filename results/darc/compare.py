"""Prints the tables and draws curves.png, PAR beside DARC and DARC-weight: python results/darc/compare.py"""

import sys
from pathlib import Path

import numpy as np

from offdyn.report.runs import Run, gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import ahead, curves_of, draw, listed

HERE = Path(__file__).parent
PAR = {"PAR, paper": ("par-paper", "par-ant"), "PAR, released": ("par-released",)}
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "dynamics_gap": "gap, nats",
}
WARM_UP = 100_000  # source steps before anything is corrected
LATE = 200_000  # source steps, over the last of which returns and rewards are averaged


def finals(runs: list[Run]) -> list[float]:
    return [run.final_return for run in runs]


def above(some: list[float], others: list[float]) -> str:
    """Pairs of a run of each in which the first is higher."""
    return f"{ahead(some, others)} of {len(some) * len(others)}"


def late(run: Run, column: str) -> float:
    steps = run.column("source_steps")
    return float(run.column(column)[steps > steps[-1] - LATE].mean())


def soon(run: Run, column: str) -> float:
    """At the first evaluation after the warm-up."""
    return float(run.column(column)[run.column("source_steps") > WARM_UP][0])


def print_returns(task: str, darc: list[Run], weight: list[Run], par: dict[str, list[Run]]) -> None:
    cells = [task]
    for some in (darc, weight):
        cells += [listed(finals(some)), f"{np.mean(finals(some)):.0f}"]
    cells += [f"{np.mean(finals(some)):.0f}" for some in par.values()]
    cells += [above(finals(mine), finals(some)) for mine in (darc, weight) for some in par.values()]
    print(f"| {' | '.join(cells)} |")


def print_gaps(task: str, darc: list[Run], weight: list[Run]) -> None:
    cells = [task]
    for some in (darc, weight):
        cells += [listed([function(run, "dynamics_gap") for run in some], ".2g") for function in (soon, late)]
    cells += [listed([function(run, "penalty_mean") for run in darc], ".2g") for function in (soon, late)]
    cells += [listed([function(run, "source_reward_size") for run in darc], ".2g") for function in (soon, late)]
    print(f"| {' | '.join(cells)} |")


def main() -> None:
    mine = gather([HERE])
    par = {kind: gather([HERE.parent / name for name in folders]) for kind, folders in PAR.items()}
    tasks = list(dict.fromkeys(run.task for run in mine))
    by_task = {
        task: tuple([run for run in mine if (run.task, run.method) == (task, name)] for name in ("darc", "darc-weight"))
        for task in tasks
    }
    for task, (darc, weight) in by_task.items():
        print_returns(
            task, darc, weight, {kind: [run for run in some if run.task == task] for kind, some in par.items()}
        )
    for task, (darc, weight) in by_task.items():
        print_gaps(task, darc, weight)
    curves = {
        task: {"darc": curves_of(darc, COLUMNS), "darc-weight": curves_of(weight, COLUMNS)}
        for task, (darc, weight) in by_task.items()
    }
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("dynamics_gap",))


if __name__ == "__main__":
    main()
