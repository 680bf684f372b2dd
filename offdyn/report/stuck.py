"""How many runs of a cell are stuck: a mean over seeds of two kinds is a return that none of them had."""

import numpy as np

from ..domains.robots import ROBOTS
from .cells import Cell, Comparison, Row, reference
from .runs import Run
from .statistics import stuck_level

# Final return. A halfcheetah on its back slides along at about 1600 and never gets up; one that runs has 3000 or more.
BY_ROBOT = {"halfcheetah": 2000.0}
RULE = (
    "Stuck: a final return below 2000 on halfcheetah (on its back it slides along at about 1600); on other robots "
    "below a quarter of the way from our low reference to our high one (SAC with 1,000,000 target steps) or, on a "
    "task that has none, from the low reference (or 0) to the median of all finished runs; anywhere, below what the "
    "run itself reached before its first update, or with every episode within 2 % of the 1000 that a robot which is "
    "paid for being alive gets for standing still."
)
STILL = 0.02  # how near to it counts: those that stand have 999 to 1013


def stuck_below(comparison: Comparison, row: Row) -> float:
    """The final return below which a run counts as stuck."""
    if (known := BY_ROBOT.get(row.task.split("-")[0])) is not None:
        return known
    if (ours := reference(row.task, "measured")) is not None:
        low, high = ours
        return stuck_level([high], low)
    finals = [cell.finals for cell in comparison.cells if cell.row == row and len(cell.finals)]
    low, _ = reference(row.task) or (0.0, None)
    return stuck_level(np.concatenate(finals), low) if finals else 0.0


def stuck(cell: Cell, level: float) -> np.ndarray:
    """[finished runs] bool."""
    return np.array(
        [
            final < max(level, _untrained(run)) or _stands(run)
            for run, final in zip(cell.finished, cell.finals, strict=True)
        ]
    )


def stuck_runs(cell: Cell, level: float) -> int:
    return int(stuck(cell, level).sum())


def _stands(run: Run) -> bool:
    robot = ROBOTS.get(run.task.split("-")[0])
    still = robot.alive_bonus * robot.spec.time_limit if robot else 0.0
    returns = np.array((run.final or {}).get("final_returns", []))
    return bool(len(returns) and (np.abs(returns - still) < STILL * still).all())


def _untrained(run: Run) -> float:
    """The return before the first update; of a run that goes on from another it says nothing."""
    updates, returns = run.column("updates"), run.column("target_return_mean")
    begins = len(updates) > 0 and updates[0] == 0 and not run.provenance.get("start_from")
    return float(returns[0]) if begins and np.isfinite(returns[0]) else -np.inf
