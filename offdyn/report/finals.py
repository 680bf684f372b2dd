"""The figure of final returns: a line for each method, on it every seed, their mean and how sure it is."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .bootstrap import estimate
from .cells import Cell, Row
from .drawing import Figure, Panel, Style
from .parts import Part, looks
from .statistics import mean
from .stuck import stuck

SPREAD = 0.5  # of a line's height, over which its seeds lie one above the other, so that none hides another


def finals(part: Part) -> Figure | None:
    """Final return of every column, a panel for each task."""
    comparison = part.comparison
    look = looks(part)
    rows = [row for row in comparison.rows if any(len(c.finals) for c in comparison.cells if c.row == row)]
    if not rows:
        return None
    caption = (
        "Upright line: mean of the final returns; bar: its 95 % bootstrap interval (of three or more); circles: every "
        "finished seed, the first on top"
    )
    some_stuck = any(stuck(cell).any() for cell in comparison.cells)
    caption += "; crosses: seeds that are stuck." if some_stuck else "."
    panels = [Panel(row.name, _on(part, row, look)) for row in rows]
    name, title = f"{comparison.kind}-finals{part.ending}", f"Final returns{part.about}, {comparison.kind} source"
    return Figure(name, title, caption, panels, [], names=list(look))


def _on(part: Part, row: Row, look: dict[str, Style]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        for line, (label, style) in enumerate(look.items()):
            cell = part.comparison.cell(row, label)
            if cell and len(cell.finals):
                _draw_line(axes, line, cell, style)
        axes.set(xlabel="final return in the target", xlim=_extent(part, row), ylim=(len(look) - 0.5, -0.5))
        axes.set_yticks(range(len(look)), list(look))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)

    return draw


def _extent(part: Part, row: Row) -> tuple[float, float]:
    """From 0, or from below it, to the best run, with room for its circle."""
    values = np.concatenate([np.zeros(1), *(cell.finals for cell in part.comparison.cells if cell.row == row)])
    room = 0.06 * (float(np.ptp(values)) or 1.0)
    return float(values.min()) - room * bool(values.min() < 0), float(values.max()) + room


def _draw_line(axes: Any, line: int, cell: Cell, style: Style) -> None:
    found = estimate(cell.finals, mean)
    if found.interval is not None:
        axes.plot(found.interval, [line, line], color=style.colour, linewidth=6, alpha=0.3, solid_capstyle="butt")
    at = line + SPREAD * (np.linspace(-0.5, 0.5, len(cell.finals)) if len(cell.finals) > 1 else np.zeros(1))
    left = stuck(cell)
    some = {"linestyle": "", "color": style.colour, "markeredgewidth": 0.9}
    axes.plot(cell.finals[~left], at[~left], marker="o", markersize=3.5, markerfacecolor="white", **some)
    axes.plot(cell.finals[left], at[left], marker="x", markersize=4.5, **some)
    axes.plot([found.value], [line], marker="|", markersize=13, markeredgewidth=2.2, color=style.colour)
