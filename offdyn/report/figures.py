"""The figures below the tables: learning curves, final returns, the reward penalty, parameter studies."""

from collections.abc import Mapping, Sequence

import numpy as np

from .bootstrap import Interval, estimate, performance_profile
from .cells import Cell, Comparison, Row, return_digits
from .costs import drawable
from .drawing import Figure, Panel, Points, Series, Style, curves_panel, styles
from .finals import finals
from .notices import count
from .parts import Part, file_name, looks, parts
from .results import shared_scores
from .runs import Run
from .statistics import mean
from .studies import Study, studies

RETURN, PENALTY = "target_return_mean", "reward_penalty"  # columns of a curve
RESAMPLES = 1000  # of the bands, at every point of every curve
FEW_COLUMNS = 4  # in a panel, up to which bands can be told from each other


def figures_of(comparison: Comparison) -> list[Figure]:
    """Every figure that the comparison has curves for."""
    made = [drawn for part in parts(comparison) for drawn in (learning_curves(part), finals(part))]
    made += [corrections(comparison), profiles(comparison)]
    made += map(parameter_study, studies(comparison))
    return [figure for figure in made if figure is not None]


def learning_curves(part: Part) -> Figure | None:
    """Target return over target steps."""
    caption = (
        "Bold: mean over the seeds, as far as all of them have come. Band: its 95 % interval, of three or more "
        f"seeds and for up to {FEW_COLUMNS} methods. Thin: every seed; a failed one ends in a cross and is in no mean. "
        "A level line: the final return of a method that does not learn in the target."
    )
    title, unit = f"Learning curves{part.about}", "return in the target"
    return _over_time(part, RETURN, f"curves{part.ending}", title, unit, caption)


def corrections(comparison: Comparison) -> Figure | None:
    """The reward penalty of a source transition over time."""
    caption = "Mean penalty on the reward of a source transition, for the methods that have one. Lines as above."
    title, unit = "Reward penalty over time", "reward penalty"
    penalised = tuple(c for c in comparison.cells if any(np.nan_to_num(run.column(PENALTY)).any() for run in c.runs))
    part = Part(comparison, Comparison(comparison.kind, penalised))
    return _over_time(part, PENALTY, "correction", title, unit, caption, digits=3)


def _over_time(
    part: Part, column: str, name: str, title: str, unit: str, caption: str, digits: int | None = None
) -> Figure | None:
    look, kind = looks(part), part.comparison.kind
    panels, used = [], set[str]()
    for row in part.comparison.rows:
        cells = [cell for label in look if (cell := part.comparison.cell(row, label))]
        cells = [cell for cell in cells if any(len(run.column(column)) for run in cell.runs)]
        if any(drawable(run) for cell in cells for run in cell.runs):
            used |= {cell.label for cell in cells}
            places = part.comparison.digits(row) if digits is None else digits
            panels.append(_panel(row.name, cells, look, column, unit, places))
    legend = [style for label, style in look.items() if label in used]
    return Figure(f"{kind}-{name}", f"{title}, {kind} source", caption, panels, legend) if panels else None


def _panel(title: str, cells: Sequence[Cell], look: Mapping[str, Style], column: str, unit: str, digits: int) -> Panel:
    curves, levels = [], {}
    for cell in cells:
        if moving := [run for run in cell.runs if drawable(run)]:
            curves.append(_series(moving, look[cell.label], column, banded=len(cells) <= FEW_COLUMNS))
        elif column == RETURN and len(cell.finals):
            levels[look[cell.label]] = float(cell.finals.mean())
    return curves_panel(title, unit, curves, levels, digits)


def _series(moving: Sequence[Run], style: Style, column: str, banded: bool) -> Series:
    seeds = [finite(run, column) for run in moving]
    crosses = [
        (float(x[-1]), float(y[-1]))
        for run, (x, y) in zip(moving, seeds, strict=True)
        if run.state == "failed" and len(x)
    ]
    steps, values = together([run for run in moving if run.state != "failed"], column)
    if not len(steps):
        return Series(style, Points(steps, steps), None, seeds, crosses)
    found = estimate(values, mean, resamples=RESAMPLES)
    return Series(style, Points(steps, found.value), found.interval if banded else None, seeds, crosses)


def finite(run: Run, column: str) -> Points:
    """A run's curve where it has a number."""
    steps, values = run.column("target_steps"), run.column(column)
    if not len(values):
        return Points(values, values)
    kept = np.isfinite(values)
    return Points(steps[kept], values[kept])


def together(runs: Sequence[Run], column: str) -> tuple[np.ndarray, np.ndarray]:
    """The steps at which all runs were evaluated, and [steps, runs] their values; points without a number left out."""
    curves = [dict(zip(*finite(run, column), strict=True)) for run in runs]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    return np.array(shared), np.array([[curve[step] for curve in curves] for step in shared])


def profiles(comparison: Comparison) -> Figure | None:
    """Share of runs above every score."""
    by_label = shared_scores(parts(comparison)[0].comparison)
    if len(by_label) < 2:
        return None
    look = looks(parts(comparison)[0])
    banded = len(by_label) <= FEW_COLUMNS
    thresholds = np.linspace(0.0, max(100.0, *(s.max() for scores in by_label.values() for s in scores.values())), 101)

    def series(label: str) -> Series:
        found = performance_profile(by_label[label], thresholds, resamples=RESAMPLES)
        return Series(look[label], Points(thresholds, found.value), found.interval if banded else None)

    tasks = len(next(iter(by_label.values())))
    caption = (
        f"Of the {count(tasks, 'task')} on which every method here has a finished run: the share of runs whose score "
        "lies above a value, every task counting the same. Higher is better."
        + " Bands: 95 % bootstrap intervals."
        * banded
    )
    title = f"Performance profile, {comparison.kind} source"
    drawn = [series(label) for label in look if label in by_label]
    panel = Panel(count(tasks, "task"), "normalised score", "share of runs above it", drawn, digits=2)
    return Figure(f"{comparison.kind}-profile", title, caption, [panel], [one.style for one in drawn])


def parameter_study(study: Study) -> Figure:
    """Final return over a setting."""
    look = styles(study.lines)

    caption = (
        f"Runs of {study.method} that differ in {study.setting.replace('_', ' ')}. Line: mean of the final returns; "
        "band: its 95 % interval (of three or more runs); dots: every finished seed. Values are evenly spaced."
    )
    panels = [_study_panel(study, row, look) for row in study.rows]
    title = f"{study.method}: {study.setting.replace('_', ' ')}, {study.kind} source"
    name = file_name(f"{study.kind}-{study.method}-{study.setting}")
    return Figure(name, title, caption, panels, list(look.values()))


def _study_panel(study: Study, row: Row, look: Mapping[str, Style]) -> Panel:
    values, lines = study.values(row), [line for line in study.lines if (row, line) in study.points]
    drawn = [_study_series(study.points[row, line], values, look[line]) for line in lines]
    names = [f"{value:g}" for value in values]
    returns = np.concatenate([finals for line in lines for finals in study.points[row, line].values()])
    digits, setting = return_digits(row.task, returns), study.setting.replace("_", " ")
    return Panel(row.name, setting, "final return in the target", drawn, ticks=names, digits=digits)


def _study_series(points: Mapping[float, np.ndarray], values: Sequence[float], style: Style) -> Series:
    at = np.array([values.index(value) for value in sorted(points)], float)
    finals = [points[value] for value in sorted(points)]
    found = [estimate(some, mean) for some in finals]
    intervals = [one.interval for one in found if one.interval is not None]
    band = Interval(*np.array(intervals, float).T) if len(intervals) == len(found) else None
    dots = Points(np.repeat(at, [len(some) for some in finals]), np.concatenate(finals))
    return Series(style, Points(at, np.array([one.value for one in found], float)), band, dots=dots)
