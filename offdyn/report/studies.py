"""Parameter studies found among the runs: cells of one method that differ in a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cells import Cell, Comparison, Row, differences, said


@dataclass(frozen=True)
class Study:
    """Final returns over the values of one setting; a line for each combination of whatever else differs."""

    kind: str
    method: str
    setting: str
    points: dict[tuple[Row, str], dict[float, np.ndarray]]  # row and line -> value -> final returns

    @property
    def rows(self) -> list[Row]:
        return sorted({row for row, _ in self.points}, key=lambda row: row.order)

    @property
    def lines(self) -> list[str]:
        return sorted({line for _, line in self.points})

    def values(self, row: Row) -> list[float]:
        """In ascending order."""
        return sorted({value for (of, _), points in self.points.items() if of == row for value in points})


INTERVAL = "source_steps_per_target_step"


def studies(comparison: Comparison) -> list[Study]:
    """One for each method and setting of which a row has finished runs with two or more values."""
    found: dict[tuple[str, str], dict[tuple[Row, str], dict[float, np.ndarray]]] = {}
    for row in comparison.rows:
        finished = [cell for cell in comparison.cells if cell.row == row and len(cell.finals)]
        for method in dict.fromkeys(cell.method for cell in finished):
            cells = [cell for cell in finished if cell.method == method]
            for preset in dict.fromkeys(cell.preset for cell in cells):
                alike = [cell for cell in cells if cell.preset == preset]
                varied = [n for n in differences(alike) if all(_is_number(cell.settings.get(n)) for cell in alike)]
                for setting in sorted(varied):
                    for line, points in _lines(alike, setting).items():
                        found.setdefault((method, setting), {})[row, f"preset {preset}{line}"] = points
    return [Study(comparison.kind, *key, points) for key, points in sorted(found.items(), key=lambda item: item[0])]


def _lines(cells: Sequence[Cell], setting: str) -> dict[str, dict[float, np.ndarray]]:
    """Cells that differ in this setting alone, together; a single one is no line."""
    others = differences(cells) - {setting}
    if setting == INTERVAL:  # a larger one has more updates of the same target budget
        others -= {"updates_per_target_step"}
    lines: dict[str, dict[float, np.ndarray]] = {}
    for cell in cells:
        told = [said(name, cell.settings.get(name)) for name in sorted(others)]
        lines.setdefault("".join(f", {one}" for one in told), {})[float(cell.settings[setting])] = cell.finals
    return {line: points for line, points in lines.items() if len(points) > 1}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
