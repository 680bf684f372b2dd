"""Draws curves.png and prints the tables, PAR beside its twins without penalty: python results/twins/compare.py"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offdyn.report.bootstrap import estimate
from offdyn.report.runs import Run, read_run
from offdyn.report.statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import Curve, ahead, curves_in, curves_of, draw, listed, mean_between, print_avoided

HERE = Path(__file__).parent
LAST = 100_000  # source steps, over which returns are means
ENDS = (200_000, 300_000, 400_000, 500_000, 600_000, 650_000, 700_000, 800_000, 900_000, 1_000_000)
COLUMNS = {
    "target_return_mean": "return in the target",
    "source_return_mean": "return in the source",
    "mean_value": "mean value",
}
TWIN = "no penalty"
KINDS = {  # variant, and the folders that hold its runs
    "released": ("par.released", ("par-released",)),
    f"released, {TWIN}": ("par.released.penalty-0", ("twins",)),
    "paper": ("par.paper", ("par-paper", "par-again", "par-ant")),
    f"paper, {TWIN}": ("par.paper.penalty-0", ("controls",)),
}
RIVALS = {
    "SAC-tune": ("sac-tune.paper", ("sac-tune",)),
    "DARC-weight": ("darc-weight.paper", ("darc",)),
    "DARC": ("darc.paper", ("darc",)),
    "SAC-tar": ("sac-tar.paper", ("sac-tar",)),
}


def runs_of(task: str, variant: str, folders: Sequence[str]) -> list[Run]:
    places = [HERE.parent / folder for folder in folders]
    return [read_run(path) for place in places for path in sorted(place.glob(f"{task}.{variant}.seed-*"))]


def print_returns(task: str, runs: dict[str, list[Run]]) -> None:
    """Of final policies, and in the source over the last steps."""
    for kind, some in runs.items():
        returns, par = [run.final_return for run in some], [run.final_return for run in runs[kind.split(",")[0]]]
        cells = [task if kind == "released" else "", kind, listed(returns), f"{np.mean(returns):.0f}"]
        in_source = mean_between(curves_of(some, COLUMNS), "source_return_mean", ENDS[-1] - LAST, ENDS[-1])
        cells.append(", ".join(f"{value / 1e3:.1f}k" for value in in_source))
        cells.append(f"{ahead(par, returns)} of {len(par) * len(some)}" if kind.endswith(TWIN) else "–")
        print(f"| {' | '.join(cells).lstrip()} |")


def print_pairs(task: str, par: Sequence[Curve], twins: Sequence[Curve]) -> None:
    """At every step of ENDS that the twins reached."""
    counts = []
    for end in ENDS:
        reached = end <= twins[0]["source_steps"][-1]
        both = (mean_between(some, "target_return_mean", end - LAST, end) for some in (par, twins)) if reached else ()
        counts.append(f"{ahead(*both)}" if reached else "")
    print(f"| {task} | {' | '.join(counts)} |")


def print_over_all(tasks: Sequence[str]) -> None:
    """Normalised scores, every task counting the same."""
    for kind, where in (KINDS | RIVALS).items():
        scores = {task: [run.final["final_normalised"] for run in runs_of(task, *where) if run.final] for task in tasks}
        value, interval = estimate(scores, mean)
        cells = [kind, f"{sum(map(len, scores.values()))}", f"{value:.0f}"]
        cells.append(f"{interval.low:.0f} to {interval.high:.0f}" if interval else "")
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    begun = curves_in(HERE / "part-length.csv", COLUMNS)
    runs = {task: {kind: runs_of(task, *where) for kind, where in KINDS.items()} for task in sorted(begun)}
    curves = {task: {kind: curves_of(some, COLUMNS) for kind, some in kinds.items()} for task, kinds in runs.items()}
    for task, kinds in runs.items():
        print_returns(task, kinds)
    for twins in ({task: kinds[f"released, {TWIN}"] for task, kinds in curves.items()}, begun):
        for task, some in sorted(twins.items()):
            print_pairs(task, curves[task]["released"], some)
    print_over_all(list(runs))
    print_avoided(HERE / "avoided.csv")
    draw(HERE / "curves.png", curves, COLUMNS, logarithmic=("mean_value",), faint=("paper", f"paper, {TWIN}"))


if __name__ == "__main__":
    main()
