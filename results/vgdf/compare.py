"""Draws curves.png and prints the tables, VGDF beside the others: python results/vgdf/compare.py"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from offdyn.report.runs import Run, gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_seed import ahead, curves_in, curves_of, draw, listed, mean_between, print_avoided

HERE = Path(__file__).parent
LENGTH, LAST = 1_000_000, 200_000  # source steps; what is late is a mean over the last
BEGUN = 100_000, 200_000  # source steps: where the filter begins and where an earlier start ended
RETURNS = {"target_return_mean": "return in the target", "source_return_mean": "return in the source"}
FILTER = {
    "mean_value": ".0f",
    "spread_of_imagined_values": ".1f",
    "least_log_likelihood_kept": ".1f",
    "ensemble_error_on_held-out_target_rows": ".2f",
}
OTHERS = {
    "PAR, paper": ("par", "paper", ("par-paper", "par-again", "par-ant")),
    "PAR, released": ("par", "released", ("par-released",)),
    "no penalty": ("par", "released", ("twins",)),
    "SAC-tune": ("sac-tune", "paper", ("sac-tune",)),
    "DARC-weight": ("darc-weight", "paper", ("darc",)),
    "DARC": ("darc", "paper", ("darc",)),
    "SAC-tar": ("sac-tar", "paper", ("sac-tar",)),
}


def finals(runs: list[Run]) -> list[float]:
    return [run.final_return for run in runs if run.final_return is not None]


def print_returns(task: str, mine: list[Run], others: dict[str, list[Run]]) -> None:
    """Of final policies, and in how many pairs VGDF is ahead; in both bodies over the last steps."""
    late = [mean_between(curves_of(mine, RETURNS), name, LENGTH - LAST, LENGTH) for name in RETURNS]
    cells = [task, listed(finals(mine)), f"{np.mean(finals(mine)):.0f}", *map(listed, late)]
    for some in map(finals, others.values()):
        of = len(mine) * len(some)
        cells.append(f"{np.mean(some):.0f} ({ahead(finals(mine), some)} of {of})" if some else "")
    print(f"| {' | '.join(cells)} |")


def print_filter(task: str, mine: list[Run]) -> None:
    curves = curves_of(mine, FILTER)
    cells = [listed(mean_between(curves, name, LENGTH - LAST, LENGTH), form) for name, form in FILTER.items()]
    print(f"| {task} | {' | '.join(cells)} |")


def print_begun_twice(task: str, mine: list[Run]) -> None:
    """An earlier start of the same runs, as far as it came."""
    earlier = curves_in(HERE / "part-length.csv", RETURNS)[task]
    both = (mean_between(some, "target_return_mean", *BEGUN) for some in (earlier, curves_of(mine, RETURNS)))
    print(f"| {task} | {' | '.join(map(listed, both))} |")


def main() -> None:
    vgdf: dict[str, list[Run]] = defaultdict(list)
    for run in gather([HERE]):
        vgdf[run.task].append(run)
    runs = {kind: gather([HERE.parent / name for name in folders]) for kind, (_, _, folders) in OTHERS.items()}
    others = {
        task: {
            kind: [run for run in runs[kind] if (run.task, run.method, run.preset) == (task, method, preset)]
            for kind, (method, preset, _) in OTHERS.items()
        }
        for task in sorted(vgdf)
    }
    for task, some in others.items():
        print_returns(task, vgdf[task], some)
    for task in others:
        print_filter(task, vgdf[task])
    print_avoided(HERE / "avoided.csv")
    for task in others:
        print_begun_twice(task, vgdf[task])
    faint = ("PAR, paper", "PAR, released")
    drawn = {
        task: {kind: curves_of(some, RETURNS) for kind, some in {"VGDF": vgdf[task], **others[task]}.items()}
        for task in others
    }
    shown = {task: {kind: kinds[kind] for kind in ("VGDF", *faint)} for task, kinds in drawn.items()}
    draw(HERE / "curves.png", shown, RETURNS, over="target_steps", faint=faint)


if __name__ == "__main__":
    main()
