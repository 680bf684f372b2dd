"""Takes runs in: from folders as offdyn writes them to lines of the tables, in today's names."""

import contextlib
import csv
import json
import re
import shlex
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from offdyn.algos.registry import RECIPES
from offdyn.envs.tasks import TASKS
from offdyn.report.statistics import stuck_level
from offdyn.report.stuck import BY_ROBOT, STILL
from offdyn.training.config import NEW_NAMES, OLDER, WATCHING
from store import CURVE, HERE, Refused, base_of, bases, key, table, write_table

# Settings that say how a run was watched or computed, not what it learned from: they are in no variant.
UNSEEN = WATCHING - {"source_steps", "target_steps"} | {"start_from", "backbone"}
USUAL = {"target_steps": 100_000, "source_steps_per_target_step": 10, "domain_input": "none"}  # nothing to be told

Row = dict[str, Any]


def add(runs: Path, study: str, *, about: str, apart: bool, cut_short: bool) -> int:
    """All of the runs, or none."""
    order = [row["study"] for row in table("studies.csv")]
    new = [] if study in order else [{"study": study, "compared": "no" if apart else "yes", "about": about}]
    if new and not about:
        raise Refused(f"study '{study}' is new: say what it is with --about")
    finals, curves = zip(*read(runs, study, cut_short), strict=True)
    known = {key(row) for row in table("finals.csv")}
    for final in finals:
        if key(final) in known:
            raise Refused(f"{' '.join(key(final))}: is there already; nothing was added")
        known.add(key(final))
    settings = bases()
    for final in finals:
        base = settings.setdefault(base_of(final), final["settings"])
        final["settings"] = said({k: v for k, v in final["settings"].items() if base.get(k, "-") != v})
    order += [row["study"] for row in new]
    lines = [line for curve in curves for line in curve]
    for name, rows in {"studies.csv": new, "finals.csv": finals, "runs.csv.gz": lines}.items():
        write_table(name, sorted([*table(name), *rows], key=lambda row: order.index(row["study"])))
    (HERE / "settings.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    return len(finals)


def read(runs: Path, study: str, cut_short: bool) -> list[tuple[Row, list[Row]]]:
    """Of every run, at least one: its line of finals.csv, with settings not yet in words; its lines of runs.csv.gz."""
    with unpacked(runs) as below:
        folders = sorted(path.parent for path in below.rglob("config.yaml"))
        if not folders:
            raise Refused(f"{runs}: no run below it (a run's folder holds a config.yaml)")
        return [read_run(folder, study, cut_short) for folder in folders]


@contextlib.contextmanager
def unpacked(runs: Path) -> Iterator[Path]:
    """Ordinary files alone, none outside the folder; Python 3.11.2 has no filter for that."""
    if not runs.is_file():
        yield runs
        return
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(runs) as packed:
        folder = Path(scratch).resolve()
        for member in packed:
            path = (folder / member.name).resolve()
            if (content := packed.extractfile(member) if member.isfile() else None) and path.is_relative_to(folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
        yield folder


def read_run(folder: Path, study: str, cut_short: bool) -> tuple[Row, list[Row]]:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    provenance, final = (read_json(folder / name) for name in ("provenance.json", "final.json"))
    state = provenance.get("state", "not started")
    whole = state == "failed" or (state == "finished" and (final or config["settings"].get("final_episodes") == 0))
    if not (folder / "curve.csv").exists() or not (whole or cut_short):
        raise Refused(f"{folder.name}: {state}, not whole; finish it, or take it as it is with --cut-short")
    settings, chosen = today(config["settings"], config["chosen"])
    run = {
        "study": study,
        "task": task_of(config),
        "method": config["method"],
        "backbone": settings.get("backbone") or "classic",
        "preset": config["preset"],
        "variant": variant(settings, chosen, preset_of(config["method"], config["preset"])),
        "seed": config["seed"],
    }
    with (folder / "curve.csv").open(newline="") as file:
        curve = [{ours: number(line.get(theirs)) for ours, theirs in CURVE.items()} for line in csv.DictReader(file)]
    last = curve[-1] if curve else {}
    untrained = curve[0] if curve and curve[0]["updates"] == "0" and not settings.get("start_from") else {}
    final_mean = number(final.get("final_mean"), 7)
    row = {
        **run,
        "state": state if whole else "cut short",
        "final_mean": final_mean,
        "final_std": number(final.get("final_std")),
        "normalised": number(final.get("final_normalised")),
        "stuck": stuck(run["task"], final_mean, final.get("final_returns", ()), untrained.get("target_return", "")),
        # Of a run that was killed, its record knows less than its curve.
        **{name: max(int(float(of.get(name) or 0)) for of in (provenance, last)) for name in list(CURVE)[:3]},
        **making(provenance),
        "settings": {name: text(value) for name, value in settings.items()},
        "command": command_of(config),
    }
    return row, [run | line for line in curve]


def read_json(path: Path) -> Row:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def making(provenance: Row) -> Row:
    """How long it took, on what, with what and when."""
    packages = provenance.get("packages") or {}
    return {
        "wall_seconds": number(provenance.get("wall_seconds")),
        "runs_in_program": provenance.get("lanes_in_cohort", ""),
        "hardware": (provenance.get("device") or {}).get("kind", ""),
        "cores": (provenance.get("machine") or {}).get("cores", ""),
        "offdyn": provenance.get("offdyn", ""),
        "jax": packages.get("jax", ""),
        "mujoco": packages.get("mujoco-core", ""),
        "made": str(provenance.get("written_at", ""))[:10],
    }


def task_of(config: Row) -> str:
    return str(config["task"].get("name") or config["task"].get("world"))


def command_of(config: Row) -> str:
    """That makes this run again, with the version of offdyn that made it."""
    given = {name: config["settings"][name] for name in config["chosen"]}
    words = ["offdyn", "train", "--task", task_of(config)]
    words += ["--method", config["method"], "--preset", config["preset"], "--seeds", str(config["seed"])]
    if config["settings"].get("start_from"):
        words += ["--start-from", Path(str(config["settings"]["start_from"])).name]
    return shlex.join(words + ["--set"] * bool(given) + [f"{name}={text(v)}" for name, v in sorted(given.items())])


def today(settings: Row, chosen: Iterable[str]) -> tuple[Row, set[str]]:
    """An older run's settings by the names they have now."""
    new = {NEW_NAMES.get(name, name): value for name, value in settings.items()}
    chosen = {OLDER.get(name, name) for name in chosen}
    if new.get("start_from"):
        new["start_from"] = re.sub(r"seed-\d+", "seed-*", Path(str(new["start_from"])).name)
    alone = new.get("collects") == "target" and not new.get("source_data")
    if "target_interval" in new:
        interval, updates = new.pop("target_interval"), new.pop("updates_per_step", 1)
        new["target_steps"] = new.pop("source_steps") // interval
        new["source_steps_per_target_step"] = interval
        new["updates_per_target_step"] = updates * (1 if alone else interval)
        chosen |= {"target_steps"} if "source_steps_per_target_step" in chosen else set()
    elif new.get("updates_per_target_step", 0) is None:  # which means one per source step
        new["updates_per_target_step"] = 1 if alone else new["source_steps_per_target_step"]
    return new, chosen


def preset_of(method: str, preset: str) -> dict[str, str]:
    """Its choices for every task, as they are today."""
    found = RECIPES[method].method.presets.get(preset) if method in RECIPES else None
    return {name: text(value) for name, value in found.fields.items()} if found else {}


def variant(settings: Row, chosen: Iterable[str], preset: dict[str, str]) -> str:
    """What was chosen beyond the preset, in one spelling."""
    named = {name: settings[name] for name in {*chosen} & {*settings} - UNSEEN}
    usual = {name: text(value) for name, value in USUAL.items()} | preset  # a preset's own value is the usual one
    told = {name: text(value) for name, value in named.items() if usual.get(name) != text(value)}
    if "source_data" in told:
        told["source_data"] = Path(str(named["source_data"])).stem
    return said(told)


def said(settings: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "x".join(map(str, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value).rpartition("/")[2]  # no one's folders


def number(value: Any, digits: int = 6) -> str:
    """With as many digits as anyone reads; blank where there is none."""
    if value in (None, "") or not np.isfinite(float(value)):
        return ""
    value = float(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.{digits}g}"


def stuck(task: str, final_mean: str, episodes: Sequence[float], untrained: str) -> str:
    """true or false by the rule of our reports; blank where nothing says what the body allows, or nothing is final."""
    known = {line["task"]: line for line in table("tables/references.csv")}.get(task)
    if not final_mean or not known or not known["high"]:
        return ""
    robot = TASKS[task].robot
    level = BY_ROBOT.get(robot.name, stuck_level([float(known["high"])], float(known["low"])))
    still = robot.alive_bonus * robot.spec.time_limit
    stands = len(episodes) > 0 and all(abs(episode - still) < STILL * still for episode in episodes)
    return str(bool(float(final_mean) < max(level, float(untrained or "-inf")) or stands)).lower()
