"""Draws docs/pictures/idea.png, the sketch of PAR on docs/methods/par.md; run it with no arguments."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

OUT = Path(__file__).with_name("idea.png")
CARD, INK, SOFT = "#f6f7f9", "#1f2933", "#6b7785"  # a light card of its own, so that the page may be light or dark
SOURCE, TARGET, MATCH = "#2f6db5", "#d2521a", "#4f9d69"
DOT = 11
SIZE = (9.6, 4.3)  # inches: the text is meant to be read at the width of a column

plt.rcParams.update({"font.size": 12.5, "text.color": INK, "font.family": "DejaVu Sans"})


def panel(figure: plt.Figure, left: float, title: str) -> Axes:
    axes = figure.add_axes((left, 0.175, 0.295, 0.695))
    axes.set(xlim=(0, 10), ylim=(0, 8), facecolor="white")
    axes.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    for side in axes.spines.values():
        side.set_color("#c9d0d8")
    axes.set_title(title, fontsize=13, fontweight="bold", pad=9, color=INK)
    return axes


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, style: str = "-") -> None:
    head = "<|-|>" if style == "--" else "-|>"
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": head, "color": colour, "lw": 2.2, "ls": style, "shrinkA": 7, "shrinkB": 7},
    )


def dot(
    axes: Axes, where: tuple[float, float], colour: str, label: str, offset: tuple[float, float], hollow=False
) -> None:
    axes.plot(*where, "o", ms=DOT, mec=colour, mfc="white" if hollow else colour, mew=2.2, zorder=3)
    axes.text(where[0] + offset[0], where[1] + offset[1], label, color=colour, ha="center", va="center")


def world(axes: Axes) -> None:
    start, flown = (1.8, 2.3), (8.2, 6.0)
    arrow(axes, start, flown, SOURCE)
    axes.plot(*start, "o", ms=2 * DOT, mec=TARGET, mfc="none", mew=2.2)
    dot(axes, start, INK, "s", (-0.95, 0.55))
    axes.text(start[0] + 2.6, start[1] - 0.9, "s' of the target", ha="center", va="center", color=TARGET)
    dot(axes, flown, SOURCE, "s' of the source", (-1.2, 0.95))
    axes.text(4.5, 4.75, "a: fire the jet", rotation=32, ha="center", va="center", color=SOURCE)


def codes(axes: Axes) -> None:
    predicted, in_target, in_source = (3.0, 2.9), (2.2, 2.15), (8.0, 5.8)
    arrow(axes, predicted, in_source, SOFT, "--")
    dot(axes, in_target, TARGET, "f(s' of the target)", (1.3, -0.95))
    dot(axes, predicted, TARGET, "g(f(s), a)", (-0.5, 1.0), hollow=True)
    dot(axes, in_source, SOURCE, "f(s' of the source)", (-1.0, 0.95))
    axes.text(7.4, 3.2, "deviation D\n= distance²", ha="center", va="center", color=INK)


def rewards(axes: Axes) -> None:
    rows = (
        (2.0, TARGET, 0.0, "target"),
        (5.0, SOURCE, 0.45, "source,\non foot"),
        (8.0, SOURCE, 3.9, "source,\na flight"),
    )
    for middle, colour, deducted, label in rows:
        kept = 6.0 - deducted
        axes.bar(middle, kept, width=1.7, color=colour)
        axes.bar(middle, deducted, bottom=kept, width=1.7, color="white", edgecolor=colour, hatch="////", lw=1.5)
        axes.text(middle, -0.25, label, ha="center", va="top", fontsize=12, linespacing=1.15)
    axes.text(7.7, 6.85, "penalty × D", ha="center", va="center", color=SOURCE)
    axes.text(2.0, 6.85, "r", ha="center", va="center", color=TARGET)


def draw() -> plt.Figure:
    figure = plt.figure(figsize=SIZE, dpi=160)
    figure.patch.set_alpha(0)
    card = FancyBboxPatch(
        (0.006, 0.012), 0.988, 0.976, boxstyle="round,pad=0,rounding_size=0.02", mutation_aspect=SIZE[0] / SIZE[1]
    )
    card.set(facecolor=CARD, edgecolor="#c9d0d8", transform=figure.transFigure, zorder=-1)
    figure.add_artist(card)
    for left, title, drawn in (
        (0.025, "One action, two domains", world),
        (0.3525, "Codes of the target", codes),
        (0.68, "Rewards to learn from", rewards),
    ):
        drawn(panel(figure, left, title))
    for left, line in (
        (0.1725, "it flies in the source only"),
        (0.5, "g predicts the target"),
    ):
        figure.text(left, 0.1, line, ha="center", va="center", color=SOFT, fontsize=12)
    return figure


if __name__ == "__main__":
    draw().savefig(OUT, metadata={"Software": None})
