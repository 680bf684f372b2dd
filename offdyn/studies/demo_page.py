"""The demo's picture and page: learning curves of all seeds, the penalty over time, the table and the verdict."""

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._util.errors import OffdynError
from .demo import BASELINES, PAR, PENALTY, REASON, RULE

ABOVE = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "frameon": False, "borderaxespad": 0.2}  # of the panel
Curve = list[dict[str, float]]  # one line per evaluation

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
svg { width: 100%; height: auto }
table { border-collapse: collapse } td, th { padding: .3rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
.verdict { font-size: 1.2rem; font-weight: 600 }
"""


def column(curves: Sequence[Curve], name: str) -> np.ndarray:
    """[seeds, evaluations]."""
    return np.array([[line.get(name, np.nan) for line in curve] for curve in curves])


def draw(curves: Mapping[str, Sequence[Curve]]) -> Any:
    """Left: target return over target steps, each seed thin, the mean bold. Right: PAR's penalty."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise OffdynError("the demo's picture needs the Python package matplotlib; install it") from error
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for method in (*reversed(BASELINES), PAR):
        steps = column(curves[method.label], "target_steps")
        _bundle(left, steps, column(curves[method.label], "target_return_mean"), method.colour, method.label)
    left.set(xlabel="steps in the target", ylabel="return in the target (bold: mean of the seeds)")
    handles, labels = left.get_legend_handles_labels()
    left.legend(handles[::-1], labels[::-1], ncols=2, **ABOVE)
    steps = column(curves[PAR.label], "target_steps")
    _bundle(
        right,
        steps,
        column(curves[PAR.label], "reward_penalty"),
        PAR.colour,
        "PAR's reward penalty on source transitions",
    )
    spared = PENALTY * column(curves[PAR.label], "deviation_on_fresh_target_transitions")
    _bundle(right, steps, spared, "#666666", "the same on new target transitions", "--")
    right.set(xlabel="steps in the target", ylabel="reward penalty per transition", yscale="log", xlim=left.get_xlim())
    right.legend(**ABOVE)
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _bundle(panel: Any, steps: np.ndarray, values: np.ndarray, colour: str, label: str, style: str = "-") -> None:
    """A thin line per seed and their mean in bold."""
    panel.plot(steps.T, values.T, style, color=colour, linewidth=0.8, alpha=0.45)
    panel.plot(steps.mean(0), values.mean(0), style, color=colour, linewidth=2.6, label=label)


def write(
    out: Path,
    verdict: str,
    rows: Sequence[Sequence[str]],
    curves: Mapping[str, Sequence[Curve]],
    seeds: Sequence[int],
    quick: bool,
    seconds: float,
) -> None:
    """`curves.png`, and `index.html` with the same picture inside."""
    figure = draw(curves)
    figure.savefig(out / "curves.png", dpi=120)
    svg = io.StringIO()
    figure.savefig(svg, format="svg")
    picture = svg.getvalue()
    last = curves[PAR.label][0][-1]
    steps = f"{last['source_steps']:.0f} source steps, {last['target_steps']:.0f} target steps"
    short = " <strong>This is a quick run: a fifth of the steps, too few to learn.</strong>" if quick else ""
    head = ["method", "mean", "each seed", "against PAR"]
    lines = ["<tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>offdyn: the demo</title><style>{STYLE}</style></head><body>
<h1>offdyn: PAR on a walker with a jet</h1>
<p>{html.escape(REASON)}{short}</p>
<p class="verdict">{html.escape(verdict)}</p>
{picture[picture.index("<svg") :]}
<h2>Final return in the target</h2>
<table>{"".join(lines)}</table>
<p>Each number is one seed ({html.escape(", ".join(map(str, seeds)))}): the mean return of its final policy over 50
fresh episodes. The verdict is computed: {html.escape(RULE)}.</p>
<p>PAR: {steps}, penalty {PENALTY:g}. Its ablation with penalty 0 is the same in all else. The two baselines learn in
the target alone, from as many target steps: one with one update per step, one with as many updates as PAR.
{seconds:.0f} seconds in all. The runs are in <code>runs/</code>: settings, curves, metrics, policies.</p>
</body></html>
"""
    (out / "index.html").write_text(page)
