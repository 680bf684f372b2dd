"""How figures look: colours, panels side by side with one legend, as a file to print and as pictures for the page."""

import io
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

# Okabe and Ito's colours, told apart by the colour-blind too, with grey for yellow, which is too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.2, 1.5), (6, 1.5, 1.2, 1.5))
# Where colours begin again, dashes are one further: a pair comes back after 32 columns only.
PAIRS = [(COLOURS[n % len(COLOURS)], DASHES[(n + n // len(COLOURS)) % len(DASHES)]) for n in range(32)]
PANEL = (4.4, 3.1)  # inches, on the page
PRINTED = (2.75, 2.0)  # inches, in a file that stands as wide as a page of text: smaller, so that its letters are not
LETTER = 0.07  # inches, about
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


@dataclass(frozen=True)
class Panel:
    title: str
    draw: Callable[[Any], None]  # on matplotlib's axes


@dataclass(frozen=True)
class Figure:
    """Panels with one legend."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    legend: Sequence[Style]
    names: Sequence[str] = ()  # where panels have a line for each of some names, the same in all


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


def save(figure: Figure, out: Path) -> list[tuple[str, bytes]]:
    """PNG and PDF of the whole figure; (title, SVG) of every panel."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    with matplotlib.rc_context(LOOK):
        columns = columns_for(len(figure.panels))
        rows = math.ceil(len(figure.panels) / columns)
        width, height = PRINTED[0] * columns + LETTER * max(map(len, figure.names), default=0), _height(figure, PRINTED)
        keys_in_line = max(1, min(len(figure.legend), int(width / _key_width(figure.legend))))
        below = 0.2 * math.ceil(len(figure.legend) / keys_in_line) + 0.15
        canvas = Canvas(figsize=(width, height * rows + below), layout="constrained")
        grid = canvas.subplots(rows, columns, squeeze=False).ravel()
        for index, (axes, panel) in enumerate(zip(grid, figure.panels, strict=False)):
            panel.draw(axes)
            axes.set_title(panel.title, fontsize=LOOK["font.size"])
            if index + columns < len(figure.panels):  # what stands below says it too
                axes.set_xlabel("")
            if index % columns:
                axes.set_ylabel("")
                if figure.names:
                    axes.tick_params(labelleft=False)
        for axes in grid[len(figure.panels) :]:
            axes.set_visible(False)
        handles = [
            Line2D([], [], color=s.colour, linestyle=s.line, label=s.label, linewidth=1.9) for s in figure.legend
        ]
        if handles:
            canvas.legend(
                handles=handles, loc="outside lower center", ncols=keys_in_line, frameon=False, handlelength=3
            )
        canvas.savefig(out / f"{figure.name}.png", dpi=160, metadata={"Software": None})
        canvas.savefig(out / f"{figure.name}.pdf", metadata={"CreationDate": None})
        return [(panel.title, _svg(panel, Canvas, _height(figure, PANEL))) for panel in figure.panels]


def _height(figure: Figure, panel: tuple[float, float]) -> float:
    """Inches of a panel, whose title and axis take 0.75 where it has lines with names."""
    return 0.75 + 0.25 * len(figure.names) if figure.names else panel[1]


def _key_width(legend: Sequence[Style]) -> float:
    """Inches that the longest entry of the legend takes, its line included."""
    return 0.75 + LETTER * max((len(style.label) for style in legend), default=0)


def _svg(panel: Panel, canvas_type: Any, height: float) -> bytes:
    canvas = canvas_type(figsize=(PANEL[0], height), layout="constrained")
    panel.draw(canvas.subplots())
    written = io.BytesIO()
    canvas.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    return written.getvalue()
