"""What the runs come to: scores by method and task, their statistics, summary.json."""

import functools
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from offdyn.report.bootstrap import estimate
from offdyn.report.statistics import iqm, mean
from store import CURVE, KEY, key, table

SHOWN = ("yes", "prototype")  # studies in tables and figures
PENALTY_TASKS = ("halfcheetah-no-thighs", "hopper-broken-joints", "walker-broken-right-foot", "ant-broken-hips")
HALF = (40_000, 50_000)  # target steps: a score "at 50,000" is the mean of the evaluations between these

Group = tuple[str, ...]  # method, backbone, preset, variant
GROUP = KEY[2:6]
Scores = dict[str, list[float]]  # by task, of every seed
Curve = dict[str, np.ndarray]


def tasks() -> list[str]:
    """The eight."""
    return [row["task"] for row in table("tables/references.csv") if row["published_high"]]


def studies(*kinds: str) -> set[str]:
    """By how they are compared: yes; again, a second draw of compared runs; no; prototype."""
    return {row["study"] for row in table("studies.csv") if row["compared"] in kinds}


def group_of(row: dict[str, Any]) -> Group:
    return tuple(row[name] for name in GROUP)


@functools.cache
def curves() -> dict[tuple[str, ...], Curve]:
    """By run, its columns."""
    lines = defaultdict(list)
    for line in table("runs.csv.gz"):
        lines[key(line)].append(line)
    return {
        run: {name: np.array([float(line[name] or "nan") for line in some]) for name in CURVE}
        for run, some in lines.items()
    }


def curves_of(group: Group, *kinds: str) -> dict[str, list[Curve]]:
    """By task, of the runs of such studies."""
    wanted, found = studies(*kinds), defaultdict(list)
    for run, curve in curves().items():
        if run[2:6] == group and run[0] in wanted:
            found[run[1]].append(curve)
    return found


def told(curve: Curve, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Target steps and values of a column, where it has values."""
    seen = np.isfinite(curve[column])
    return curve["target_steps"][seen], curve[column][seen]


def at_half(row: dict[str, str]) -> float:
    """A run's mean score of the evaluations from 40,000 to 50,000 target steps."""
    curve = curves()[key(row)]
    seen = (curve["target_steps"] >= HALF[0]) & (curve["target_steps"] <= HALF[1])
    return float(curve["normalised"][seen].mean()) if seen.any() else float("nan")


@functools.cache
def compared(*kinds: str, column: str = "normalised") -> dict[Group, Scores]:
    """Of the finished runs of such studies: a column of finals.csv, or `half`; true and false as 1 and 0."""
    found: dict[Group, Scores] = defaultdict(lambda: defaultdict(list))
    for row in table("finals.csv"):
        if row["study"] in studies(*kinds) and row["state"] == "finished":
            said = "" if column == "half" else row[column]
            value = at_half(row) if column == "half" else float({"true": 1, "false": 0}.get(said, said or "nan"))
            if np.isfinite(value):
                found[group_of(row)][row["task"]].append(value)
    return found


def compared_on(wanted: Collection[str], *kinds: str) -> dict[Group, Scores]:
    """The same of these tasks alone, of groups that have runs on all of them."""
    return {
        group: {task: some for task, some in scores.items() if task in wanted}
        for group, scores in compared(*kinds).items()
        if {*wanted} <= {*scores}
    }


def label(group: Group) -> str:
    method, backbone, preset, chosen = group
    presets = {g[2] for g in [*compared("yes"), *compared("prototype")] if g[:2] == group[:2]}
    words = [f"{method} {preset}" if len(presets) > 1 else method, backbone if backbone != "classic" else "", chosen]
    return ", ".join(filter(None, words))


def statistics(scores: Scores) -> dict[str, Any]:
    """IQM and mean with their 95 % intervals; none where a task has fewer than three runs."""
    numbers: dict[str, Any] = {"runs": sum(map(len, scores.values())), "tasks": len(scores)}
    for name, statistic in (("iqm", iqm), ("mean", mean)):
        found = estimate(scores, statistic)
        numbers[name] = round(float(found.value), 2)
        numbers[f"{name}_interval"] = [round(float(end), 2) for end in found.interval] if found.interval else None
    return numbers


def between(interval: Sequence[float] | None) -> str:
    return f" [{interval[0]:.0f}, {interval[1]:.0f}]" if interval else ""


@functools.cache
def summary() -> dict[str, Any]:
    methods = by_method()
    level = next(row["mean"] for row in methods if row["label"] == "par paper")
    for row in methods:
        row["target_steps_to_par"] = target_steps_to(level, group_of(row))
    return {
        "about": "Normalised final scores (0 and 100: the published references), 95 % stratified bootstrap. Written by "
        "results/make.py.",
        "eight_tasks": sorted(methods, key=lambda row: -row["iqm"]),
        "prototypes_at_50k": prototypes_at_half(),
        "penalty_four_tasks": penalty(),
    }


def ranked() -> list[Group]:
    """The methods of the eight tasks, best first."""
    return [group_of(row) for row in summary()["eight_tasks"]]


def by_method() -> list[dict[str, Any]]:
    stuck, half = (compared(*SHOWN, column=column) for column in ("stuck", "half"))
    return [
        {"label": label(group)}
        | dict(zip(GROUP, group, strict=True))
        | statistics(scores)
        | {"stuck": int(sum(map(sum, stuck[group].values()))), "prototype": group in compared("prototype")}
        | {"at_50k": statistics({task: half[group][task] for task in tasks()})}
        for group, scores in compared_on(tasks(), *SHOWN).items()
    ]


def target_steps_to(level: float, group: Group) -> int | None:
    """After how many of them the mean over tasks of a method's evaluations first has this score; None: at no time."""
    at = np.arange(0, 100_001, 1000)
    means = [
        np.mean([np.interp(at, *told(curve, "normalised")) for curve in some], axis=0)
        for task, some in curves_of(group, *SHOWN).items()
        if task in tasks()
    ]
    reached = np.mean(means, axis=0) >= level
    return int(at[reached.argmax()]) if reached.any() else None


def prototypes_at_half() -> list[dict[str, Any]]:
    """Of the prototype, also what never came to its end: mean score from 40,000 to 50,000 target steps, of 8 tasks."""
    found: dict[Group, list[float]] = defaultdict(list)
    for row in table("finals.csv"):
        if row["study"] == "backbone-prototype":
            found[group_of(row)].append(at_half(row))
    return [
        {"label": label(group), "runs": len(some), "mean_at_50k": round(float(np.mean(some)), 2)}
        for group, some in found.items()
    ]


def penalty() -> list[dict[str, Any]]:
    """PAR and its controls on the four tasks that have them, all of its draws; final scores, and p against PAR."""

    def line(name: str, scores: Scores, par: Scores | None = None) -> dict[str, Any]:
        p = None if par is None or scores is par else round(chance(scores, par), 3)
        return {"label": name} | statistics(scores) | {"p_against_par": p}

    on = compared_on(PENALTY_TASKS, "yes", "again")
    par = {preset: on["par", "classic", preset, ""] for preset in ("paper", "released")}
    shuffled, averaged = (on["par", "classic", "paper", f"deviation_{how}=1"] for how in ("shuffled", "averaged"))
    pooled = {task: shuffled[task] + averaged[task] for task in PENALTY_TASKS}
    return [
        *(line(label(group), scores, par[group[2]]) for group, scores in on.items() if group[0] == "par"),
        line("par paper, shuffled or averaged", pooled, par["paper"]),
        *(line(label(group), scores) for group, scores in on.items() if group[0] != "par"),
    ]


def chance(some: Scores, others: Scores, deals: int = 20_000) -> float:
    """The share of random deals of each task's runs between both sides whose means over tasks are as far apart."""
    generator, apart, dealt = np.random.default_rng(0), 0.0, np.zeros(deals)
    for task, mine in some.items():
        both = generator.permuted(np.tile([*mine, *others[task]], (deals, 1)), axis=1)
        apart += float(np.mean(mine) - np.mean(others[task]))
        dealt += both[:, : len(mine)].mean(1) - both[:, len(mine) :].mean(1)
    return float((np.abs(dealt) >= abs(apart) - 1e-9).mean())
