"""Figures on the page: inline SVG for lines and HTML for all letters, so that these keep their size at any width."""

import html
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .drawing import Bar, Figure, Panel, Points, Series, Style, thousands
from .tables import DASH, files, folded, shown, shown_interval

SIDE = 1000  # of a drawing, in its own units
ROOM = 0.04  # of the data's extent, left free at either end
Place = Callable[[float], float]  # of a value, between 0 and 1


def figure(figure: Figure, with_files: bool) -> str:
    """A section: the legend, the panels, and what to know about them folded away."""
    order = {style.label: index for index, style in enumerate(figure.legend)}
    panels = "\n".join(_panel(panel, order) for panel in figure.panels)
    keys = [] if any(panel.bars for panel in figure.panels) else figure.legend  # the names of bars are keys already
    legend = "".join(f"<li>{_key(style, index)}</li>" for index, style in enumerate(keys))
    beside = f'<p class="files">{files(f"figures/{figure.name}", "png", "pdf")}</p>' if with_files else ""
    return (
        f'<section class="figure" id="{figure.name}"><h3>{html.escape(figure.title)}</h3>'
        f'{f"<ul class=legend>{legend}</ul>" if legend else ""}<div class="panels">{panels}</div>'
        f"{folded('How to read this', [figure.caption])}{beside}</section>"
    )


def _panel(panel: Panel, order: Mapping[str, int]) -> str:
    title = f"<figcaption>{html.escape(panel.title)}</figcaption>"
    return f"<figure>{title}{_bars(panel, order) if panel.bars else _chart(panel, order)}</figure>"


def _key(style: Style, index: int) -> str:
    """A name that shows or hides what it names."""
    line = f'<line x1="0" y1="5" x2="26" y2="5" stroke="{style.colour}" stroke-width="3"{_dashes(style)}/>'
    swatch = f'<svg class="swatch{_black(style)}" width="26" height="10" aria-hidden="true">{line}</svg>'
    button = f'<button type="button" class="key" data-series="{index}" aria-pressed="true">'
    return f"{button}{swatch}{html.escape(style.label)}</button>"


def _dashes(style: Style) -> str:
    return f' stroke-dasharray="{" ".join(f"{2 * length:g}" for length in style.dashes)}"' if style.dashes else ""


def _black(style: Style) -> str:
    """Black is the page's ink, which is light on dark pages."""
    return " black" if style.colour == "#000000" else ""


def _scale(low: float, high: float) -> Place:
    extent = (high - low) or 1.0
    return lambda value: (value - low) / extent


def _extent(values: Sequence[object]) -> tuple[float, float]:
    """Of the data, with some room."""
    numbers = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(some, float)) for some in values)])
    numbers = numbers[np.isfinite(numbers)]
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    room = ROOM * ((high - low) or max(abs(low), 1.0))
    return low - room, high + room


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within an extent, at least two, as one alone is no scale."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    found = [round(n * step, 12) + 0.0 for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return found if len(found) > 1 else ticks(low, high, most + 1)


def _chart(panel: Panel, order: Mapping[str, int]) -> str:
    """Lines over x, with a grid of round numbers."""
    points = [some for one in panel.series for some in _points(one)]
    bands = [end for one in panel.series if one.band is not None for end in one.band]
    (left, right), (low, high) = _x_extent(panel, points), _extent([*(some.y for some in points), *bands])
    x, y = _scale(left, right), _scale(low, high)
    drawn = "".join(_line(one, order[one.style.label], x, y, panel.digits) for one in reversed(panel.series))
    marks = "".join(_marks(one, order[one.style.label], x, y) for one in panel.series)
    said = html.escape(f"{panel.title}: {panel.y_label} over {panel.x_label}")
    return (
        f'<p class="unit">{html.escape(panel.y_label)}</p>'
        f'<div class="chart" data-left="{left:.10g}" data-right="{right:.10g}" '
        f'data-unit="{html.escape(panel.x_label)}" data-places="{html.escape(",".join(panel.ticks))}">'
        f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" role="img" aria-label="{said}">'
        f"{_grid(y, ticks(low, high))}{drawn}</svg>{marks}{_names(panel, (left, right), (low, high))}</div>"
        f'<p class="unit x">{html.escape(panel.x_label)}</p>'
    )


def _grid(y: Place, levels: Sequence[float]) -> str:
    return f'<g class="grid">{"".join(f"""<path d="M0 {_down(y(level))}H{SIDE}"/>""" for level in levels)}</g>'


def _names(panel: Panel, across: tuple[float, float], up: tuple[float, float]) -> str:
    """The numbers beside the axes."""
    x, y = _scale(*across), _scale(*up)
    beside = [f'<span class="y" style="bottom:{_percent(y(at))}">{thousands(at)}</span>' for at in ticks(*up)]
    places = [(float(at), name) for at, name in enumerate(panel.ticks)]
    places = places or [(at, thousands(at)) for at in ticks(*across, 4)]
    below = [f'<span class="x" style="left:{_percent(x(at))}">{html.escape(name)}</span>' for at, name in places]
    return "".join(beside + below)


def _points(series: Series) -> list[Points]:
    dots = [series.dots] if series.dots is not None else []
    crosses = Points(np.array([x for x, _ in series.crosses]), np.array([y for _, y in series.crosses]))
    return [series.line, *series.seeds, *dots, crosses]


def _x_extent(panel: Panel, points: Sequence[Points]) -> tuple[float, float]:
    if panel.ticks:
        return -0.3, len(panel.ticks) - 0.7
    values = np.concatenate([np.zeros(0), *(some.x for some in points)])
    left, right = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return left, right if right > left else left + 1.0


def _down(place: float) -> str:
    """SVG counts from the top."""
    return f"{SIDE * (1 - place):.4g}"


def _percent(place: float) -> str:
    return f"{100 * place:.2f}%"


def _path(points: Points, x: Place, y: Place) -> str:
    return "M" + "L".join(f"{SIDE * x(a):.4g} {_down(y(b))}" for a, b in zip(*points, strict=True))


def _line(series: Series, index: int, x: Place, y: Place, digits: int) -> str:
    """A series with its values for the pointer."""
    group = f'<g class="series{_black(series.style)}" data-series="{index}" style="color:{series.style.colour}"'
    seeds = "".join(f'<path class="seed" d="{_path(seed, x, y)}"/>' for seed in series.seeds if len(seed.x) > 1)
    if not len(series.line.x):
        return f"{group}>{seeds}</g>"
    band = ends = ""
    if series.band is not None:
        low, high = (Points(series.line.x, np.asarray(end)) for end in series.band)
        back = Points(low.x[::-1], low.y[::-1])
        band = f'<path class="band" d="{_path(high, x, y)}L{_path(back, x, y)[1:]}Z"/>'
        ends = f' data-low="{_numbers(low.y, digits)}" data-high="{_numbers(high.y, digits)}"'
    values = f'data-x="{_numbers(series.line.x, 3)}" data-y="{_numbers(series.line.y, digits)}"{ends}'
    line = f'<path class="line" d="{_path(series.line, x, y)}"{_dashes(series.style)}/>'
    return f'{group} data-name="{html.escape(series.style.label)}" {values}>{band}{seeds}{line}</g>'


def _numbers(values: np.ndarray, digits: int) -> str:
    return ",".join(f"{value:.{digits}f}".removesuffix("." + digits * "0") for value in np.asarray(values, float))


def _marks(series: Series, index: int, x: Place, y: Place) -> str:
    """Dots, and crosses where runs failed."""
    dots = list(zip(*series.dots, strict=True)) if series.dots is not None else []
    return "".join(
        f'<i class="{name}{_black(series.style)}" data-series="{index}" '
        f'style="color:{series.style.colour};left:{_percent(x(a))};bottom:{_percent(y(b))}"></i>'
        for name, places in (("dot", dots), ("cross", series.crosses))
        for a, b in places
    )


def _bars(panel: Panel, order: Mapping[str, int]) -> str:
    """A line for each: name, interval and seeds on one scale, number."""
    values = [[bar.value for bar in panel.bars if bar.value is not None]]
    runs = [some for bar in panel.bars for some in (bar.dots, bar.crosses)]
    low, high = _extent([*values, *(bar.interval for bar in panel.bars if bar.interval is not None), *runs])
    place = _scale(low, high)
    lines = "".join(
        _bar(bar, n, order.get(bar.style.label), place, panel.digits) for n, bar in enumerate(panel.bars, 1)
    )
    levels = [(_percent(place(at)), thousands(at)) for at in ticks(low, high, 3)]
    scale = "".join(f'<i style="left:{at}"></i><span class="x" style="left:{at}">{name}</span>' for at, name in levels)
    return (
        f'<div class="bars"><div class="scale" style="grid-row:1/span {len(panel.bars)}">'
        f'<span class="track">{scale}</span></div>{lines}</div><p class="unit x">{html.escape(panel.x_label)}</p>'
    )


def _bar(bar: Bar, row: int, index: int | None, place: Place, digits: int) -> str:
    name = f'<span class="name">{html.escape(bar.style.label)}</span>' if index is None else _key(bar.style, index)
    drawn = ""
    if bar.interval is not None:
        start, end = (place(float(value)) for value in bar.interval)
        drawn += f'<i class="interval" style="left:{_percent(start)};width:{_percent(end - start)}"></i>'
    for kind, values in (("dot", bar.dots), ("cross", bar.crosses)):
        drawn += "".join(f'<i class="{kind}" style="left:{_percent(place(value))}"></i>' for value in values)
    if bar.value is not None:
        drawn += f'<i class="mean" style="left:{_percent(place(bar.value))}"></i>'
    sure = f"<small>{shown_interval(bar.interval, digits)}</small>"
    number = DASH if bar.value is None else shown(bar.value, digits) + sure
    series = "" if index is None else f' data-series="{index}"'
    track = f'<span class="track{_black(bar.style)}" style="color:{bar.style.colour}">{drawn}</span>'
    return f'<div class="bar" style="grid-row:{row}"{series}>{name}{track}<span class="number">{number}</span></div>'
