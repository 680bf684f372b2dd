"""The figures: PNG files, each with a digest of the tables that it was drawn from."""

import functools
import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from offdyn.report.bootstrap import estimate
from offdyn.report.statistics import mean
from scores import SHOWN, Curve, Group, compared, curves, curves_of, label, ranked, summary, tasks
from store import HERE, key, table

SHAPES = ("halfcheetah-no-thighs", "hopper-big-head", "walker-no-right-thigh", "ant-short-feet")
GRID = np.arange(0, 100_001, 2500)  # target steps


def digest() -> str:
    """Of all that the figures are drawn from."""
    found = hashlib.sha256()
    for name in ("runs.csv.gz", "finals.csv", "studies.csv"):
        found.update(repr(table(name)).encode())
    return found.hexdigest()


def is_current(name: str) -> bool:
    path = HERE / "figures" / f"{name}.png"
    return path.exists() and digest().encode() in path.read_bytes()


def draw(name: str) -> None:
    path = HERE / "figures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    FIGURES[name]().savefig(path, dpi=80, metadata={"Description": digest()})


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """An empty figure and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def looks() -> dict[Group, dict[str, Any]]:
    """A colour for each method; dashes tell presets apart."""
    colours = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#8B4513"]
    return {g: {"color": colours[i % 9], "linestyle": "-" if i < 9 else "--"} for i, g in enumerate(ranked())}


def on_grid(runs: Sequence[Curve], column: str) -> np.ndarray:
    """[runs, GRID]"""
    return np.array([np.interp(GRID, run["target_steps"], run[column]) for run in runs])


def learning_curves() -> Any:
    figure, axes = panels(2, 4, (14, 6.4), sharex=True)
    for panel, task in zip(axes.flat, tasks(), strict=True):
        for group, look in looks().items():
            returns = on_grid(curves_of(group, *SHOWN)[task], "target_return").mean(0)
            panel.plot(GRID / 1000, returns, **look, linewidth=1.6, label=label(group))
        panel.set_title(task, fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("target steps, thousands")
    figure.supylabel("return in the target, mean over seeds")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9)
    return figure


def every_final() -> Any:
    figure, axes = panels(2, 4, (14, 6.4))
    finals, failed = (compared(*SHOWN, column=column) for column in ("final_mean", "stuck"))
    for panel, task in zip(axes.flat, tasks(), strict=True):
        for place, (group, look) in enumerate(looks().items()):
            for final, bad in zip(finals[group][task], failed[group][task], strict=True):
                panel.plot(final, place, "x" if bad else "o", color=look["color"], markersize=5, alpha=0.8)
            panel.plot([np.mean(finals[group][task])] * 2, [place - 0.35, place + 0.35], color=look["color"])
        panel.set_title(task, fontsize=10)
        names = list(map(label, ranked())) if panel in axes[:, 0] else []
        panel.set_yticks(range(len(names)), names, fontsize=8)
        panel.invert_yaxis()
    figure.supxlabel("return of the final policy in the target: every seed (crosses: stuck), bar: mean", fontsize=10)
    return figure


def by_method() -> Any:
    rows = summary()["eight_tasks"]
    figure, axes = panels(1, 1, (8, 0.9 + 0.4 * len(rows)))
    for place, row in enumerate(rows):
        colour = "#D55E00" if row["prototype"] else "#0072B2"
        half = row["at_50k"]
        for values, height, marker, size, faint in ((row, place, "o", 7, 1.0), (half, place + 0.25, "D", 5, 0.4)):
            if values["iqm_interval"]:
                axes.plot(values["iqm_interval"], [height] * 2, color=colour, linewidth=4, alpha=0.35 * faint)
            axes.plot(values["iqm"], height, marker, color=colour, alpha=faint, markersize=size)
    names = [f"{row['label']}{' (prototype)' * row['prototype']}, n = {row['runs']}" for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("IQM of eight tasks, 95 % interval\ncircles: 100,000 target steps, diamonds: 50,000", fontsize=9)
    axes.set_xlim(left=0)
    axes.grid(axis="x", alpha=0.3)
    return figure


def stock_body() -> Any:
    """The same runs played on the shifted and on the stock body; bands: 95 % intervals of the mean."""
    figure, axes = panels(1, 4, (14, 3.8))
    drawn = (("par", "paper", "#0072B2"), ("par", "released", "#D55E00"), ("vgdf", "paper", "#009E73"))
    for panel, task in zip(axes, SHAPES, strict=True):
        for method, preset, colour in drawn:
            runs = curves_of((method, "classic", preset, ""), "yes")[task]
            for body, dashes, where in (("target", "-", "shifted body"), ("source", "--", "stock body")):
                found = estimate(on_grid(runs, f"{body}_return").T, mean, resamples=1000)
                name = f"{method} {preset}, {where}, n = {len(runs)}"
                panel.plot(GRID / 1000, found.value, dashes, color=colour, linewidth=1.6, label=name)
                panel.fill_between(GRID / 1000, *found.interval, color=colour, alpha=0.12, linewidth=0)
        panel.set_title(task, fontsize=10)
        panel.set_xlabel("target steps, thousands")
    axes[0].set_ylabel("return")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return figure


def small_curves(study: str) -> Any:
    """Mean and range over seeds of a study on a small task: a panel for a live source, one for a dataset."""
    by_kind: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    finals = {key(row): float(row["final_mean"] or "nan") for row in table("finals.csv") if row["study"] == study}
    for run, curve in curves().items():
        if run[0] == study and len(curve["target_steps"]) > 1:
            kind = "a dataset as the source" if "source_data" in run[5] else "live source"
            name = f"{run[2]}, flag" if "domain_input=flag" in run[5] else run[2]
            by_kind[kind][name].append(curve | {"final": finals[run]})
    figure, axes = panels(1, len(by_kind), (5.5 * len(by_kind), 3.8), squeeze=False)
    for panel, (kind, methods) in zip(axes.flat, sorted(by_kind.items(), reverse=True), strict=True):
        for name, runs in methods.items():
            steps = runs[0]["target_steps"]
            every = np.array([run["target_return"] for run in runs])
            if not steps.any():  # it never acts there: where it ends, at whatever target step
                final = np.mean([run["final"] for run in runs])
                panel.axhline(final, color="black", dashes=(4, 3), label=f"{name}, final")
                continue
            panel.plot(steps, every.mean(0), linewidth=1.6, label=name)
            panel.fill_between(steps, every.min(0), every.max(0), alpha=0.12, linewidth=0)
        panel.set_title(kind if len(by_kind) > 1 else "", fontsize=10)
        panel.set(xlabel="target steps", ylabel="return in the target, mean and range of seeds")
        panel.legend(fontsize=8)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "learning-curves": learning_curves, "finals": every_final, "iqm": by_method, "stock-body": stock_body,
    "small-world": functools.partial(small_curves, "small-world"),
    "sim-to-sim": functools.partial(small_curves, "sim-to-sim"),
}  # fmt: skip
