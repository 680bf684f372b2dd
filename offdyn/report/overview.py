"""The first screen: who leads, IQMs with their intervals, and learning curves, over all tasks or task by task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .bootstrap import estimate
from .cells import Cell, Comparison, Row, reference
from .costs import drawable
from .drawing import Bar, Figure, Panel, Points, Series, Style, curves_panel
from .figures import FEW_COLUMNS, RESAMPLES, RETURN, finite
from .parts import Part, looks, widest
from .results import shared_scores
from .runs import Run
from .statistics import Scores, iqm, normalised
from .verdict import verdict

CAPTION = (
    "IQM: the mean of the final returns without the lowest and the highest quarter of all runs. Bars and bands: 95 % "
    "bootstrap intervals over seeds, of three or more runs per task. Methods are level where the interval of their "
    "difference holds 0. With few seeds these intervals are too narrow. Curves: IQM of the finished runs (of all, "
    "before any has finished), as far as all have come. A level line: a method that does not learn in the target."
)
SCALE = " Normalised: 0 is a random policy in the target, 100 is SAC trained there for long."


@dataclass(frozen=True)
class Overview:
    """A sentence, and the figure that shows it."""

    sentence: str
    figure: Figure


@dataclass(frozen=True)
class _Group:
    """Tasks whose scores can be averaged."""

    ending: str  # of its file's name
    over: str  # in words
    rows: Sequence[Row]
    bounds: Mapping[Row, tuple[float, float]]  # what counts as 0 and 100; of raw returns none
    scores: Mapping[str, Scores]  # of finished runs, by column
    digits: int = 1

    @property
    def measure(self) -> str:
        return "normalised IQM" if self.bounds else "IQM of the return"

    @property
    def unit(self) -> str:
        return "normalised return in the target" if self.bounds else "return in the target"


def overviews(parts: Sequence[Part]) -> list[Overview]:
    """Of every part, over the tasks with references together, and of every task without.

    Where some compare methods, a task that only one was trained on is left to the tables.
    """
    made = [_overview(part, group) for part in widest(list(parts)) for group in _groups(part.comparison)]
    compared = [one for one in made if len(one.figure.legend) > 1]
    return compared or [one for one in made if one.figure.legend]


def _groups(comparison: Comparison) -> Iterator[_Group]:
    bounds = {row: found for row in comparison.rows if (found := reference(row.task))}
    scores = shared_scores(comparison)
    names = set.intersection(*map(set, scores.values())) if scores else {row.name for row in bounds}
    if together := {row: found for row, found in bounds.items() if row.name in names}:
        number = str(len(together)) if len(together) == len(bounds) else f"{len(together)} of {len(bounds)}"
        over = f"on {next(iter(together)).name}" if len(together) == 1 else f"over {number} tasks"
        yield _Group("", over, list(together), together, scores)
    for at, row in enumerate((row for row in comparison.rows if row not in bounds), 1):
        cells = [cell for label in comparison.labels if (cell := comparison.cell(row, label)) and len(cell.finals)]
        yield _Group(f"-task-{at}", f"on {row.name}", [row], {}, {cell.label: cell.finals for cell in cells},
                     comparison.digits(row))  # fmt: skip


def _overview(part: Part, group: _Group) -> Overview:
    look, kind = looks(part), part.comparison.kind
    curves, levels = dict[Style, Series](), dict[Style, float]()
    for label, style in look.items():
        if drawn := _curve(part.comparison, group, style):
            curves[style] = drawn
        elif label in group.scores:
            levels[style] = float(iqm(group.scores[label]))
    lines = list(curves.values())
    if len(lines) > FEW_COLUMNS:
        lines = [Series(line.style, line.line) for line in lines]
    shown = [style for label, style in look.items() if label in group.scores or style in curves]
    bars = Panel("Final return, IQM", group.unit, bars=_bars(shown, group), digits=group.digits)
    figure = Figure(
        f"{kind}-overview{part.ending}{group.ending}", f"{group.over.split(' ', 1)[1]}, {kind} source{part.about}",
        CAPTION + SCALE * bool(group.bounds) + _absent(look, shown),
        [bars, curves_panel("Learning curves, IQM", group.unit, lines, levels, group.digits)], shown,
    )  # fmt: skip
    return Overview(verdict(group.scores, group.measure, group.over, group.digits), figure)


def _absent(look: Mapping[str, Style], shown: Sequence[Style]) -> str:
    absent = [label for label, style in look.items() if style not in shown]
    return f" Not shown, without runs on all these tasks: {', '.join(absent)}." if absent else ""


def _bars(shown: Sequence[Style], group: _Group) -> list[Bar]:
    found = {label: estimate(scores) for label, scores in group.scores.items()}
    return [
        Bar(style, float(one.value), one.interval) if (one := found.get(style.label)) else Bar(style, None)
        for style in shown
    ]


def _curve(comparison: Comparison, group: _Group, style: Style) -> Series | None:
    """The IQM over target steps of all runs of a column, which must have some on every task."""
    found: dict[Row, list[Points]] = {}
    for row in group.rows:
        cell = comparison.cell(row, style.label)
        found[row] = [finite(run, RETURN) for run in _shown(cell) if drawable(run)] if cell else []
    runs = [points for some in found.values() for points in some]
    if not all(found.values()) or not all(len(points.x) for points in runs):
        return None
    steps = common_steps(runs)
    if len(steps) < 2:
        return None
    values = {row.name: _at(steps, some, group.bounds.get(row)) for row, some in found.items()}
    drawn = estimate(values, resamples=RESAMPLES)
    return Series(style, Points(steps, np.asarray(drawn.value)), drawn.interval)


def _shown(cell: Cell) -> list[Run]:
    """Finished runs; before there are any, those that have not failed."""
    return cell.finished or [run for run in cell.runs if run.state != "failed"]


def common_steps(runs: Sequence[Points]) -> np.ndarray:
    """The steps of the run that was evaluated least often, as far as all runs have come."""
    begin, end = max(points.x[0] for points in runs), min(points.x[-1] for points in runs)
    within = [np.unique(points.x[(points.x >= begin) & (points.x <= end)]) for points in runs]
    return min(within, key=len)


def _at(steps: np.ndarray, runs: Sequence[Points], bounds: tuple[float, float] | None) -> np.ndarray:
    """[steps, runs]; between evaluations on a straight line."""
    values = np.array([np.interp(steps, *points) for points in runs]).T
    return values if bounds is None else normalised(values, *bounds)
