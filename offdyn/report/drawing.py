"""Figures as data, their colours, and how they look as files for slides and papers (charts.py: on the page)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .bootstrap import Interval

# Okabe and Ito's colours, told apart by the colour-blind too, with grey for yellow, which is too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.2, 1.5), (6, 1.5, 1.2, 1.5))
# Where colours begin again, dashes are one further: a pair comes back after 32 columns only.
PAIRS = [(COLOURS[n % len(COLOURS)], DASHES[(n + n // len(COLOURS)) % len(DASHES)]) for n in range(32)]
PANEL = (2.75, 2.0)  # inches, in a file that stands as wide as a page of text
LETTER = 0.07  # inches, about
SPREAD = 0.5  # of a bar's height, over which its seeds lie one above the other, so that none hides another
LOOK: Any = {
    "svg.hashsalt": "offdyn", "pdf.fonttype": 42, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    label: str
    colour: str
    dashes: tuple[float, ...]

    @property
    def line(self) -> Any:
        """As matplotlib takes it."""
        return (0, self.dashes) if self.dashes else "-"


class Points(NamedTuple):
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Series:
    """A line, how sure it is, and what it is the average of."""

    style: Style
    line: Points
    band: Interval | None = None
    seeds: Sequence[Points] = ()  # thin lines
    crosses: Sequence[tuple[float, float]] = ()  # where failed runs ended
    dots: Points | None = None


@dataclass(frozen=True)
class Bar:
    """An average, how sure it is, and the runs it is of."""

    style: Style
    value: float | None
    interval: Interval | None = None
    dots: Sequence[float] = ()
    crosses: Sequence[float] = ()  # stuck


@dataclass(frozen=True)
class Panel:
    """Lines over x, or bars one beneath the other."""

    title: str
    x_label: str
    y_label: str = ""
    series: Sequence[Series] = ()
    bars: Sequence[Bar] = ()
    ticks: Sequence[str] = ()  # names of the places 0, 1, 2 ... of x
    digits: int = 0  # behind the point of a value

    @property
    def names(self) -> list[str]:
        return [bar.style.label for bar in self.bars]


@dataclass(frozen=True)
class Figure:
    """Panels with one legend."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    legend: Sequence[Style] = ()


def curves_panel(
    title: str, unit: str, curves: Sequence[Series], levels: Mapping[Style, float], digits: int = 0
) -> Panel:
    """Curves over target steps; a method that does not learn there is a level line as long as they are."""
    ends = [float(points.x[-1]) for one in curves for points in (one.line, *one.seeds) if len(points.x)]
    across = np.array([0.0, max(ends, default=1.0)])
    flat = [Series(style, Points(across, np.full(2, value))) for style, value in levels.items()]
    return Panel(title, "steps in the target", unit, [*curves, *flat], digits=digits)


def styles(labels: Sequence[str], known: Mapping[str, Style] = MappingProxyType({})) -> dict[str, Style]:
    """For each the look it is known by, or else one in a colour that none of these is known by, while there are any."""
    kept = [known[label] for label in labels if label in known]
    colours, taken = {style.colour for style in kept}, {(style.colour, style.dashes) for style in kept}
    free = sorted((pair for pair in PAIRS if pair not in taken), key=lambda pair: pair[0] in colours)
    left = itertools.cycle(free or PAIRS)
    return {label: known[label] if label in known else Style(label, *next(left)) for label in labels}


def columns_for(panels: int) -> int:
    """Of up to four columns, the number that leaves the fewest places empty."""
    fewest = min(4, math.ceil(math.sqrt(panels)))
    return min(range(fewest, 5), key=lambda columns: (-panels % columns, columns))


def save(figure: Figure, out: Path) -> None:
    """PNG and PDF of the whole figure."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(LOOK):
        columns = columns_for(len(figure.panels))
        rows = math.ceil(len(figure.panels) / columns)
        names = max((panel.names for panel in figure.panels), key=len)
        width = PANEL[0] * columns + LETTER * max(map(len, names), default=0)
        height = max(PANEL[1], 0.75 + 0.25 * len(names))  # title and axis take 0.75 where there are bars
        key = 0.75 + LETTER * max((len(style.label) for style in figure.legend), default=0)  # its line included
        keys_in_line = max(1, min(len(figure.legend), int(width / key)))
        below = 0.2 * math.ceil(len(figure.legend) / keys_in_line) + 0.15
        canvas = Canvas(figsize=(width, height * rows + below), layout="constrained")
        _fill(canvas.subplots(rows, columns, squeeze=False).ravel().tolist(), figure.panels, columns)
        if figure.legend:
            canvas.legend(
                handles=_handles(figure.legend), loc="outside lower center", ncols=keys_in_line, frameon=False,
                handlelength=3,
            )  # fmt: skip
        canvas.savefig(out / f"{figure.name}.png", dpi=160, metadata={"Software": None})
        canvas.savefig(out / f"{figure.name}.pdf", metadata={"CreationDate": None})


def _fill(grid: Sequence[Any], panels: Sequence[Panel], columns: int) -> None:
    """Draw the panels; what one says that stands beside or below is said once."""
    alike = len({(panel.y_label, *panel.names) for panel in panels}) == 1
    for index, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _draw(axes, panel)
        if alike and index + columns < len(panels):
            axes.set_xlabel("")
        if alike and index % columns:
            axes.set_ylabel("")
            axes.tick_params(labelleft=not panel.bars)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)


def _handles(legend: Sequence[Style]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], **_line(style), label=style.label, linewidth=1.9) for style in legend]


def _line(style: Style) -> dict[str, Any]:
    return {"color": style.colour, "linestyle": style.line}


def _draw(axes: Any, panel: Panel) -> None:
    for series in reversed(panel.series):  # the first, PAR, on top
        _draw_series(axes, series, crowded=len(panel.series) > 4)
    for line, bar in enumerate(panel.bars):
        _draw_bar(axes, line, bar)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_title(panel.title, fontsize=LOOK["font.size"])
    if panel.bars:
        axes.set(ylim=(len(panel.bars) - 0.5, -0.5))
        axes.set_yticks(range(len(panel.bars)), panel.names)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    elif panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    else:
        axes.xaxis.set_major_formatter(lambda value, _: thousands(value))


def _draw_series(axes: Any, series: Series, crowded: bool) -> None:
    colour = series.style.colour
    for seed in series.seeds:
        axes.plot(*seed, color=colour, linewidth=0.4 if crowded else 0.7, alpha=0.3 if crowded else 0.6)
    for x, y in series.crosses:
        axes.plot([x], [y], "x", color=colour, markersize=6)
    if series.dots is not None:
        axes.plot(*series.dots, "o", color=colour, markersize=3, alpha=0.5)
    axes.plot(*series.line, **_line(series.style), linewidth=1.5 if crowded else 1.9)
    if series.band is not None:
        axes.fill_between(series.line.x, *series.band, color=colour, alpha=0.13, linewidth=0)


def _draw_bar(axes: Any, line: int, bar: Bar) -> None:
    colour = bar.style.colour
    if bar.interval is not None:
        axes.plot(bar.interval, [line, line], color=colour, linewidth=6, alpha=0.3, solid_capstyle="butt")
    for values, marker in ((bar.dots, "o"), (bar.crosses, "x")):
        at = line + SPREAD * (np.linspace(-0.5, 0.5, len(values)) if len(values) > 1 else np.zeros(len(values)))
        axes.plot(values, at, marker, color=colour, markersize=3.5, markerfacecolor="white", markeredgewidth=0.9)
    if bar.value is not None:
        axes.plot([bar.value], [line], marker="|", markersize=13, markeredgewidth=2.2, color=colour)


def thousands(value: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"
