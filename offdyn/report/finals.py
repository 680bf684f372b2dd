"""The figure of final returns: a line for each method, on it every seed, their mean and how sure it is."""

from collections.abc import Sequence

from .bootstrap import estimate
from .cells import Cell, Comparison, Row
from .drawing import Bar, Figure, Panel, Style
from .parts import Part, looks
from .statistics import mean
from .stuck import stuck


def finals(part: Part) -> Figure | None:
    """Final return of every column, a panel for each task."""
    comparison = part.comparison
    rows = _rows(comparison)
    if not rows:
        return None
    some_stuck = any(stuck(cell).any() for cell in comparison.cells)
    caption = (
        "Upright line: mean of the final returns. Bar: its 95 % interval, of three or more runs. Circles: every "
        f"finished seed{'; crosses: stuck seeds' * some_stuck}."
    )
    panels = []
    for row in rows:
        bars = [_bar(comparison.cell(row, label), style) for label, style in looks(part).items()]
        panels.append(Panel(row.name, "final return in the target", bars=bars, digits=comparison.digits(row)))
    title = f"Final returns{part.about}, {comparison.kind} source"
    return Figure(f"{comparison.kind}-finals{part.ending}", title, caption, panels)


def _rows(comparison: Comparison) -> Sequence[Row]:
    """Where methods can be compared; else wherever one has finished."""
    finished = {row: sum(len(c.finals) > 0 for c in comparison.cells if c.row == row) for row in comparison.rows}
    compared = [row for row, methods in finished.items() if methods > 1]
    return compared or [row for row, methods in finished.items() if methods]


def _bar(cell: Cell | None, style: Style) -> Bar:
    if cell is None or not len(cell.finals):
        return Bar(style, None)
    found, left = estimate(cell.finals, mean), stuck(cell)
    return Bar(style, float(found.value), found.interval, cell.finals[~left].tolist(), cell.finals[left].tolist())
