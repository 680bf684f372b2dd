"""How many runs of a cell are stuck: a mean over seeds of two kinds is a return that none of them had."""

import numpy as np

from .cells import Cell, Comparison, Row, reference
from .statistics import stuck_level

# Final return. A halfcheetah on its back slides along at about 1600 and never gets up; one that runs has 3000 or more.
BY_ROBOT = {"halfcheetah": 2000.0}
RULE = (
    "Stuck: a final return below 2000 on halfcheetah (on its back it slides along at about 1600); on other robots "
    "below a quarter of the way from the low reference (or 0) to the median of all finished runs on the task."
)


def stuck_below(comparison: Comparison, row: Row) -> float:
    """The final return below which a run counts as stuck."""
    if (known := BY_ROBOT.get(row.task.split("-")[0])) is not None:
        return known
    finals = [cell.finals for cell in comparison.cells if cell.row == row and len(cell.finals)]
    low, _ = reference(row.task) or (0.0, None)
    return stuck_level(np.concatenate(finals), low) if finals else 0.0


def stuck_runs(cell: Cell, level: float) -> int:
    return int(np.sum(cell.finals < level))
