"""The figures: learning curves, final returns, the correction over time, parameter studies."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bootstrap import estimate, performance_profile
from .cells import Cell, Comparison, Row
from .costs import drawable
from .drawing import Figure, Panel, Style, styles
from .finals import finals
from .parts import Part, looks, parts
from .results import shared_scores
from .runs import Run
from .statistics import mean
from .studies import Study, studies

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
        "Bold: mean over the seeds as far as all of them have come, with its 95 % bootstrap interval (of three or "
        f"more, and in panels of up to {FEW_COLUMNS} columns). Thin: every seed; one that failed ends in a cross and "
        "is in no mean. A level line without a curve: final return of a method that does not learn in the target."
    )
    title, unit = f"Learning curves{part.about}", "return in the target"
    return _over_time(part, "target_return_mean", f"curves{part.ending}", title, unit, caption)


def corrections(comparison: Comparison) -> Figure | None:
    """What a method deducts from the reward of source rows."""
    caption = (
        "Mean deduction from the reward of a source row; methods that deduct nothing are not shown. Lines as above."
    )
    title, unit = "The correction over time", "deducted per source row"
    deducting = tuple(cell for cell in comparison.cells if any(map(_deducts, cell.runs)))
    part = Part(comparison, Comparison(comparison.kind, deducting))
    return _over_time(part, "penalty_mean", "correction", title, unit, caption)


def _deducts(run: Run) -> bool:
    values = run.column("penalty_mean")
    return bool(np.any(np.nan_to_num(values) != 0))


def _over_time(part: Part, column: str, name: str, title: str, unit: str, caption: str) -> Figure | None:
    look, kind = looks(part), part.comparison.kind
    panels, used = [], set[str]()
    for row in part.comparison.rows:
        cells = [cell for label in look if (cell := part.comparison.cell(row, label))]
        cells = [cell for cell in cells if any(len(run.column(column)) for run in cell.runs)]
        if cells:
            used |= {cell.label for cell in cells}
            panels.append(Panel(row.name, _curves_on(cells, look, column, unit)))
    legend = [style for label, style in look.items() if label in used]
    return Figure(f"{kind}-{name}", f"{title}, {kind} source", caption, panels, legend) if panels else None


def _curves_on(cells: Sequence[Cell], look: dict[str, Style], column: str, unit: str) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        for cell in reversed(cells):  # the first, PAR, on top
            _draw_cell(axes, cell, look[cell.label], column, crowded=len(cells) > FEW_COLUMNS)
        axes.set(xlabel="steps in the target", ylabel=unit)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")

    return draw


def _draw_cell(axes: Any, cell: Cell, style: Style, column: str, crowded: bool) -> None:
    moving = [run for run in cell.runs if drawable(run)]
    if not moving:
        if column == "target_return_mean" and len(cell.finals):
            axes.axhline(cell.finals.mean(), color=style.colour, linestyle=style.line, linewidth=1.4)
        return
    for run in moving:
        steps, values = run.column("target_steps"), run.column(column)
        axes.plot(steps, values, color=style.colour, linewidth=0.4 if crowded else 0.7, alpha=0.3 if crowded else 0.6)
        if run.state == "failed":
            axes.plot(steps[-1:], values[-1:], "x", color=style.colour, markersize=6)
    steps, values = together([run for run in moving if run.state != "failed"], column)
    if len(steps):
        found = estimate(values, mean, resamples=RESAMPLES)
        axes.plot(steps, found.value, color=style.colour, linestyle=style.line, linewidth=1.5 if crowded else 1.9)
        if found.interval is not None and not crowded:
            axes.fill_between(steps, *found.interval, color=style.colour, alpha=0.13, linewidth=0)


def together(runs: Sequence[Run], column: str) -> tuple[np.ndarray, np.ndarray]:
    """The steps at which all runs were evaluated, and [steps, runs] their values; points without a number left out."""
    curves = []
    for run in runs:
        steps, values = run.column("target_steps"), run.column(column)
        curves.append(dict(zip(steps[np.isfinite(values)], values[np.isfinite(values)], strict=True)))
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    return np.array(shared), np.array([[curve[step] for curve in curves] for step in shared])


def profiles(comparison: Comparison) -> Figure | None:
    """Share of runs above every score."""
    by_label = shared_scores(comparison)
    if len(by_label) < 2:
        return None
    look = looks(parts(comparison)[0])
    thresholds = np.linspace(0.0, max(100.0, *(s.max() for scores in by_label.values() for s in scores.values())), 101)

    def draw(axes: Any) -> None:
        for label, scores in by_label.items():
            found = performance_profile(scores, thresholds, resamples=RESAMPLES)
            axes.plot(thresholds, found.value, color=look[label].colour, linestyle=look[label].line, linewidth=1.9)
            if found.interval is not None:
                axes.fill_between(thresholds, *found.interval, color=look[label].colour, alpha=0.13, linewidth=0)
        axes.set(xlabel="normalised score", ylabel="share of runs above it", ylim=(0, 1.02))

    tasks = len(next(iter(by_label.values())))
    caption = (
        f"Of the {tasks} task(s) on which every column has a finished run: the share of runs whose final score lies "
        "above a value, every task counting the same, with its 95 % bootstrap interval. Higher is better."
    )
    title = f"Performance profile, {comparison.kind} source"
    panels = [Panel(f"{tasks} task(s)", draw)]
    return Figure(f"{comparison.kind}-profile", title, caption, panels, [look[label] for label in by_label])


def parameter_study(study: Study) -> Figure:
    """Final return over a setting."""
    look = styles(study.lines)

    def on(row: Row) -> Callable[[Any], None]:
        def draw(axes: Any) -> None:
            values = study.values(row)
            for index, line in enumerate(study.lines):
                points = study.points.get((row, line), {})
                aside = 0.06 * (index - (len(study.lines) - 1) / 2)  # so that no bar hides another
                at = [values.index(value) + aside for value in sorted(points)]
                finals = [points[value] for value in sorted(points)]
                for x, some in zip(at, finals, strict=True):
                    axes.plot([x] * len(some), some, "o", color=look[line].colour, markersize=3, alpha=0.5)
                    if (band := estimate(some, mean).interval) is not None:
                        axes.plot([x, x], band, color=look[line].colour, linewidth=3, alpha=0.3)
                means = [some.mean() for some in finals]
                axes.plot(at, means, color=look[line].colour, linestyle=look[line].line, linewidth=1.9)
            axes.set(xlabel=study.setting.replace("_", " "), ylabel="final return in the target")
            axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])

        return draw

    caption = (
        f"Runs of {study.method} that differ in {study.setting.replace('_', ' ')}. Line: mean of the final returns; "
        "bar: its 95 % bootstrap interval (of three or more); dots: every finished seed. Values are evenly spaced."
    )
    panels = [Panel(row.name, on(row)) for row in study.rows]
    title = f"{study.method}: {study.setting.replace('_', ' ')}, {study.kind} source"
    name = re.sub(r"[^A-Za-z0-9_+-]", "_", f"{study.kind}-{study.method}-{study.setting}")
    return Figure(name, title, caption, panels, list(look.values()))
