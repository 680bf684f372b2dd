"""Which runs are stuck: a mean over runs that learned and runs that never did is a return that none of them had."""

from collections.abc import Iterable

import numpy as np

from ..envs.robots import Robot
from ..envs.tasks import LEGACY, TASKS
from .cells import Cell, Comparison, Row, reference
from .runs import Run
from .statistics import stuck_level

# Final return. A halfcheetah on its back slides along at about 1600 and never gets up; one that runs has 3000 or more.
BY_ROBOT = {"halfcheetah": 2000.0}
RULE = (
    "A run is stuck if its final return is below 2000 on halfcheetah (on its back it slides along at about 1600), or "
    "on another robot below a quarter of the way from the low reference to the high one. It is also stuck below its "
    "own return before the first update, or where it only stands still: every episode within 2 % of the 1000 paid for "
    "being alive. The rule holds for our robots' tasks with references, and for no other environment."
)
STILL = 0.02  # how near to it counts: those that stand have 999 to 1013


def stuck_below(row: Row) -> float | None:
    """The final return below which a run counts as stuck; None where no rule holds."""
    published = reference(row.task)
    if published is None:
        return None
    low, high = reference(row.task, "measured") or published
    return BY_ROBOT.get(_robot(row.task).name, stuck_level([high], low))


def rule_for(comparisons: Iterable[Comparison]) -> str:
    """What a report says of stuck runs, where it has any run that can be."""
    rows = {cell.row for comparison in comparisons for cell in comparison.cells if cell.finished}
    return RULE if any(stuck_below(row) is not None for row in rows) else ""


def stuck(cell: Cell) -> np.ndarray:
    """[finished runs] bool."""
    level = stuck_below(cell.row)
    if level is None:
        return np.zeros(len(cell.finals), bool)
    return np.array([(r.final_return or 0.0) < max(level, _untrained(r)) or _stands(r) for r in cell.finished], bool)


def stuck_runs(cell: Cell) -> int:
    return int(stuck(cell).sum())


def _robot(task: str) -> Robot:
    return TASKS[task.removesuffix(LEGACY)].robot


def _stands(run: Run) -> bool:
    robot = _robot(run.task)
    still = robot.alive_bonus * robot.spec.time_limit
    returns = np.array((run.final or {}).get("final_returns", []))
    return bool(len(returns) and (np.abs(returns - still) < STILL * still).all())


def _untrained(run: Run) -> float:
    """The return before the first update; of a run that continues from another it says nothing."""
    updates, returns = run.column("updates"), run.column("target_return_mean")
    begins = len(updates) > 0 and updates[0] == 0 and not run.provenance.get("start_from")
    return float(returns[0]) if begins and np.isfinite(returns[0]) else -np.inf
