"""Draws curves.png and prints the tables, PAR beside its controls: python results/controls/figure.py"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from offdyn.report.bootstrap import estimate
from offdyn.report.runs import Run, read_run
from offdyn.report.statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import ahead, chance, curves_of, draw, listed, mean_between

HERE = Path(__file__).parent
TASKS = ("halfcheetah-no-thighs", "hopper-broken-joints", "walker-broken-right-foot", "ant-broken-hips")
OF_PAR = ("par-paper", "par-again", "par-ant")
KINDS = {  # name: (folders, what a run's name holds)
    "PAR": (OF_PAR, ""),
    "no penalty": ((HERE.name,), ".penalty-0"),
    "shuffled": ((HERE.name,), ".deviation_shuffled-1"),
    "mean": ((HERE.name,), ".deviation_averaged-1"),
}
COMPARED = ("PAR", "no penalty")
WITHOUT_CONTENT = ("shuffled", "mean")  # deducts as much, whichever the row
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


def print_row(task: str, kind: str, runs: list[Run], par: list[Run]) -> None:
    finals, of_par = ([run.final_return for run in some] for some in (runs, par))
    late = mean_between(curves_of(runs, COLUMNS), "source_return_mean", 1e6 - LATE, 1e6)
    highest = [float(np.nanmax(run.column("mean_value"))) for run in runs]
    deducted = [run.column("reward_penalty") for run in runs]
    cells = [task, kind, listed(finals), f"{np.mean(finals):.0f}"]
    cells.append(f"{ahead(of_par, finals)} of {len(par) * len(runs)}" if runs != par else "–")
    cells.append(", ".join(f"{value / 1e3:.1f}k" for value in late))
    cells.append(
        f"{np.mean([np.nanmax(each) for each in deducted]):.2g}, {np.mean([each[-1] for each in deducted]):.2g}"
    )
    cells.append(f"{min(highest):,.0f} to {max(highest):,.0f}")
    print(f"| {' | '.join(cells).lstrip()} |")


def print_over_all(runs: Mapping[str, Mapping[str, list[Run]]]) -> None:
    """Normalised scores of final policies and over the last evaluations, every task counting the same."""
    scores: dict[str, list[list[np.ndarray]]] = {}  # kind: (final, late): task: every run
    for kind in KINDS:
        some = [kinds[kind] for kinds in runs.values()]
        finals = [np.array([run.final["final_normalised"] for run in each]) for each in some]
        lates = [
            np.array(mean_between(curves_of(each, ["normalised"]), "normalised", 1e6 - LATE, 1e6)) for each in some
        ]
        scores[kind] = [finals, lates]
    both = zip(*(scores[kind] for kind in WITHOUT_CONTENT), strict=True)
    scores["shuffled or mean"] = [[np.concatenate(each) for each in zip(*sides, strict=True)] for sides in both]
    for kind, measures in scores.items():
        cells = [kind, f"{sum(map(len, measures[0]))}"]
        for mine, *others in zip(measures, *(scores[name] for name in COMPARED), strict=True):
            value, interval = estimate(dict(zip(TASKS, mine, strict=True)), mean)
            cells.append(f"{value:.0f} ({interval.low:.0f} to {interval.high:.0f})" if interval else f"{value:.0f}")
            cells += ["–" if mine is other else f"{chance(other, mine):.2f}" for other in others]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    runs = {task: runs_of(task) for task in TASKS}
    for task, kinds in runs.items():
        for kind, some in kinds.items():
            print_row(task if kind == "PAR" else "", kind, some, kinds["PAR"])
    print_over_all(runs)
    curves = {task: {kind: curves_of(some, COLUMNS) for kind, some in kinds.items()} for task, kinds in runs.items()}
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("reward_penalty", "mean_value"), faint=("PAR",))


if __name__ == "__main__":
    main()
