"""The paper's claims (tables/claims.yaml): our figure for each, and what was run of the shipped studies."""

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from adding import UNSEEN, text
from offdyn.report.bootstrap import estimate
from offdyn.report.statistics import late_mean, mean
from offdyn.studies import stages
from offdyn.studies.run import Wanted
from offdyn.studies.study import load
from scores import Scores, between, compared, curves_of, tasks, told
from store import HERE, Refused, base_of, bases, table

SUSPECT = ("halfcheetah-no-thighs", "hopper-big-head", "walker-no-right-thigh")  # played on the stock body, perhaps
HOLDS, FAILS, CANNOT = "holds", "does not hold", "cannot be decided"


def claims() -> list[dict[str, Any]]:
    return list(yaml.safe_load((HERE / "tables/claims.yaml").read_text()))


def ours(claim: dict[str, Any]) -> str:
    """Our figure, which the verdict must not go beyond."""
    asked = claim.get("ours")
    if isinstance(asked, str):
        return OTHER_FIGURES[asked]() if asked in OTHER_FIGURES else asked
    if asked is None:
        study, _, only = claim["command"].removeprefix("offdyn study run ").partition(" --only ")
        wanted, ran, near = (claim["wanted"], 0, 0) if "wanted" in claim else counted(study, only)
        return f"{ran} of {wanted} runs" + f", {near} of another preset" * bool(near)
    asked = dict(asked)
    of = asked.pop("of", None)
    presets = ("",) if asked.get("falls") == "darc" else ("paper", "released")
    found, runs = zip(*(figure(preset, **asked) for preset in presets), strict=True)
    if claim["verdict"] not in (CANNOT, decided(found, of)):
        raise Refused(f"tables/claims.yaml, {claim['where']}, {claim['claim']}: its verdict says more than the runs")
    values = ", ".join(f"{one.value:.0f}{between(one.interval)}" for one in found)
    unit = "points" if asked.get("points") else f"of {len(asked.get('on', tasks()))}"
    return f"{values} {unit}; n={', '.join(map(str, runs))}"


def decided(found: Sequence[Any], of: int | None) -> str:
    """Whether something is so `of` times, or by more than nothing: if both ends of every interval say the same."""
    if all(one.interval.low >= of if of else one.interval.low > 0 for one in found):
        return HOLDS
    return FAILS if all(one.interval.high < (of or 0) for one in found) else CANNOT


def figure(
    preset: str, rivals: Sequence[str] = (), on: Sequence[str] = (), points: bool = False, half: bool = False,
    stock: bool = False, falls: str = "", study: str = "",
) -> tuple[Any, int]:  # fmt: skip
    """On how many tasks PAR's mean is above every rival's, or by how many points; and PAR's number of runs.

    `half`: PAR at half its target steps. `stock`: PAR's suspect shapes on the stock body, over the last fifth. `falls`:
    instead, on how many tasks a method's penalty begins (DARC's after its warm-up) above its last fifth. `study`: runs
    that are not compared, of a study for each preset.
    """
    if falls:
        sides = [late(falls, preset or "paper", "reward_penalty", when) for when in (first_positive, late_mean)]
    elif stock:
        sides = [late(name, preset if name == "par" else "paper", "target_return") for name in ("par", *rivals)]
        sides[0] |= {task: late("par", preset, "source_return")[task] for task in SUSPECT}
    else:
        sides = [scores_of(name, preset, half and name == "par", study) for name in ("par", *rivals)]
    on = on or sorted({*sides[-1]} & {*tasks()})

    def statistic(drawn: dict[str, np.ndarray]) -> Any:
        means = np.array([[drawn[f"{n} {task}"].mean(-1) for task in on] for n in range(len(sides))])
        gaps = means[0] - means[1:].max(0)
        return gaps.mean(0) if points else (gaps > 0).sum(0)

    scores = {f"{n} {task}": side[task] for n, side in enumerate(sides) for task in on}
    return estimate(scores, statistic), sum(len(sides[0][task]) for task in on)


def scores_of(name: str, preset: str, half: bool, study: str) -> Scores:
    """Of PAR with that preset, PAR with a setting, or another method's `paper`; all on `classic`."""
    if study:
        found = defaultdict(list)
        for row in table("finals.csv"):
            if row["study"] == f"{study}-{preset}" and row["variant"] == name.removeprefix("par"):
                found[row["task"]].append(float(row["normalised"]))
        return found
    scores = compared("yes", column="half" if half else "normalised")
    if "=" in name:
        return scores["par", "classic", preset, name]
    return scores[name, "classic", preset if name == "par" else "paper", ""]


def late(method: str, preset: str, column: str, when: Callable[[Any, Any], float] = late_mean) -> Scores:
    """Of each run a column of its curve, over its last fifth or at another time."""
    found = curves_of((method, "classic", preset, ""), "yes")
    return {task: [when(*told(curve, column)) for curve in some] for task, some in found.items()}


def first_positive(_: np.ndarray, values: np.ndarray) -> float:
    return float(values[values > 0][0])


def ranks() -> str:
    found = [float(row["order_par"]) for row in table("tables/true-gap.csv") if row["source_steps"] == "40000"]
    value, (low, high) = estimate(found, mean)
    return f"rank correlation {value:.2f} [{low:.2f}, {high:.2f}]; n={len(found)}"


def milliseconds() -> str:
    of = {row["method"]: row["value"] for row in table("tables/speed.csv") if row["what"] == "one update"}
    return f"{', '.join(f'{float(of[name]):.1f}' for name in ('par', 'darc', 'vgdf'))} ms an update, two CPU cores"


OTHER_FIGURES = {"rank": ranks, "milliseconds": milliseconds}


class Finished(NamedTuple):
    """A run, as far as it tells whether a study asks for it."""

    preset: str
    settings: dict[str, str]
    in_program: str  # runs that shared its program
    chosen: set[str]


@functools.cache
def finished() -> dict[tuple[str, ...], list[Finished]]:
    """By task, method, backbone and seed."""
    base = bases()
    found: dict[tuple[str, ...], list[Finished]] = defaultdict(list)
    for row in table("finals.csv"):
        if row["state"] == "finished":
            settings = base.get(base_of(row), {}) | dict(word.split("=", 1) for word in row["settings"].split())
            chosen = {word.partition("=")[0] for word in row["variant"].split()}
            run = Finished(row["preset"], settings, row["runs_in_program"], chosen)
            found[row["task"], row["method"], row["backbone"], row["seed"]].append(run)
    return found


@functools.cache
def counted(study: str, only: str = "") -> tuple[int, int, int]:
    """Runs that a shipped study's first stage wants; finished ones; and those with another preset, else alike."""
    first, *_ = next(stages.of(load(study).part(only.split()), Wanted(), Path()))
    asked, ran, otherwise = first.runs()[0], 0, 0
    for run in asked:
        settings = {name: text(value) for name, value in run.settings().items() if name not in UNSEEN}
        chosen = {name: settings[name] for name in {*run.chosen} & {*settings}}
        alike = finished()[run.task.name, run.method, run.sac.backbone, str(run.seed)]
        if study == "runtime":  # its runs share a program with none
            alike = [one for one in alike if one.in_program == "1"]
        # Alike in every setting that both tell.
        if any(one.preset == run.preset and settings | one.settings == one.settings | settings for one in alike):
            ran += 1
        elif any(one.chosen <= {*run.chosen} and chosen.items() <= one.settings.items() for one in alike):
            otherwise += 1
    return len(asked), ran, otherwise
