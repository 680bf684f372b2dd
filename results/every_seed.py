"""Draws the curves of every seed of several kinds of runs: a panel for each task and each column of the curves."""

import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from offdyn.report.drawing import COLOURS
from offdyn.report.runs import Run

Curve = Mapping[str, np.ndarray]
STEPS = {"source_steps": "source steps, thousands", "target_steps": "target steps, thousands"}


def curves_of(runs: Sequence[Run], columns: Collection[str]) -> list[Curve]:
    return [{name: run.column(name) for name in (*STEPS, *columns)} for run in runs]


def curves_in(table: Path, columns: Collection[str]) -> dict[str, list[Curve]]:
    """By task, those of a table that `short_runs.py` writes: runs that are not kept one by one."""
    rows: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader(table.open()):
        rows[row["task"], row.get("set", ""), row["seed"]].append(row)
    curves: dict[str, list[Curve]] = defaultdict(list)
    for (task, *_), mine in sorted(rows.items()):
        names = [name for name in (*STEPS, *columns) if name in mine[0]]
        curves[task].append({name: np.array([float(row[name] or "nan") for row in mine]) for name in names})
    return curves


def mean_between(
    curves: Sequence[Curve], name: str, begin: float, end: float, over: str = "source_steps"
) -> list[float]:
    """Of each curve, over the evaluations after step `begin` and up to `end`."""
    steps = [curve[over] for curve in curves]
    return [float(c[name][(s > begin) & (s <= end)].mean()) for c, s in zip(curves, steps, strict=True)]


def ahead(some: Iterable[float], others: Collection[float]) -> int:
    """Pairs of one of each in which the first is higher."""
    return sum(one > other for one in some for other in others)


def chance(some: Sequence[np.ndarray], others: Sequence[np.ndarray], deals: int = 20_000) -> float:
    """Share of random deals of each task's runs between both sides whose means over tasks are as far apart."""
    generator, apart, dealt = np.random.default_rng(0), 0.0, np.zeros(deals)
    for mine, theirs in zip(some, others, strict=True):
        both = np.concatenate([mine, theirs])
        every = generator.permuted(np.tile(both, (deals, 1)), axis=1)
        apart += mine.mean() - theirs.mean()
        dealt += every[:, : len(mine)].mean(1) - every[:, len(mine) :].mean(1)
    return float((np.abs(dealt) >= abs(apart) - 1e-9).mean())


def listed(values: Iterable[float], form: str = ".0f") -> str:
    return ", ".join(f"{value:{form}}" for value in values)


def print_avoided(table: Path) -> None:
    """From what `results/darc/avoided.py` writes: every seed's share of steps outside the target's range."""
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in csv.DictReader(table.open()):
        shares[row["task"], row["joint"]].append(float(row["share_outside"]))
    for (task, joint), every in shares.items():
        print(f"| {task} | {joint} | {listed(every, '.2f')} |")


def draw(
    out: Path,
    curves: Mapping[str, Mapping[str, Sequence[Curve]]],
    columns: Mapping[str, str],
    *,
    over: str = "source_steps",
    logarithmic: Collection[str] = (),
    faint: Collection[str] = (),
) -> Figure:
    """`curves` by task and kind; `columns` by name, with what stands beside the axis; `faint` are kinds.

    A row of panels for each column; one column alone has its tasks in two rows.
    """
    lines = len(columns) if len(columns) > 1 else 2
    wide = math.ceil(len(curves) * len(columns) / lines)
    size = max(8, 1 + 3.2 * wide), 1 + 2.5 * lines  # inches
    figure, axes = plt.subplots(lines, wide, figsize=size, sharex=True, squeeze=False, layout="constrained")
    of_a_task = axes.T if len(columns) > 1 else axes.reshape(-1, 1)
    for panels, (task, kinds) in zip(of_a_task, curves.items(), strict=True):
        for panel, name in zip(panels, columns, strict=True):
            for (kind, some), colour in zip(kinds.items(), COLOURS, strict=False):
                style: Any = {"color": colour, "linewidth": 1, "alpha": 0.35 if kind in faint else 0.9}
                for curve in some:
                    known = np.isfinite(curve[name])
                    panel.plot(curve[over][known] / 1e3, curve[name][known], **style)
                panel.plot([], color=colour, label=kind)
            if name in logarithmic:
                negative = any((curve[name] < 0).any() for some in kinds.values() for curve in some)
                panel.set_yscale(**({"value": "symlog", "linthresh": 10} if negative else {"value": "log"}))
        panels[0].set_title(task, fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel(STEPS[over])
    for panel, shown in zip(axes[:, 0], itertools.cycle(columns.values()), strict=False):
        panel.set_ylabel(shown)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(out, dpi=70)
    return figure
