"""Makes every table, figure and number of our results from the tables beside this file.

    python results/make.py                              # the tables in PAGES, figures/, summary.json
    python results/make.py --check                      # writes nothing; fails if one of these is out of date
    python results/make.py --add RUNS --study NAME      # first takes runs in: a folder of run folders, or a .tgz of one

A run is known by study, task, method, backbone, preset, variant and seed. None is taken in twice.
"""

import argparse
import csv
import functools
import gzip
import hashlib
import io
import json
import re
import shlex
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from offdyn.algos.registry import RECIPES
from offdyn.report.bootstrap import estimate
from offdyn.report.statistics import iqm, late_mean, mean

HERE = Path(__file__).parent.resolve()
PAGES = ("docs/results.md", "docs/paper.md", "README.md")  # below the repository
MARKED = re.compile(r"(<!-- from the runs: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
FIGURES = ("learning-curves", "finals", "iqm", "stock-body", "small-world", "sim-to-sim")

KEY = ("study", "task", "method", "backbone", "preset", "variant", "seed")
CURVE = {  # our column: curve.csv's
    "source_steps": "source_steps", "target_steps": "target_steps", "updates": "updates",
    "target_return": "target_return_mean", "source_return": "source_return_mean", "normalised": "normalised",
    "reward_penalty": "reward_penalty", "reward_size": "source_reward_size", "mean_value": "mean_value",
    "critic_loss": "critic_loss", "entropy": "entropy",
}  # fmt: skip
FINALS = (
    *KEY, "state", "final_mean", "final_std", "normalised", "stuck", "source_steps", "target_steps", "updates",
    "wall_seconds", "runs_in_program", "hardware", "cores", "offdyn", "jax", "mujoco", "made", "settings", "command",
)  # fmt: skip
STUDIES = ("study", "compared", "about")  # compared: yes; again, a second draw of compared runs; no; prototype

# Settings that say how a run was watched or computed, not what it learned from: they are in no variant.
UNSEEN = {
    "allow_faulty_data", "checkpoint_interval", "env_processes", "eval_episodes", "eval_interval",
    "eval_source_episodes", "final_episodes", "keep_policies", "log_interval", "padded", "start_from", "target_log",
    "tuning_target_steps", "wandb", "backbone",
}  # fmt: skip
USUAL = {"target_steps": 100_000, "source_steps_per_target_step": 10, "domain_input": "none"}  # nothing to be told
PENALTY_TASKS = ("halfcheetah-no-thighs", "hopper-broken-joints", "walker-broken-right-foot", "ant-broken-hips")
SHAPES = ("halfcheetah-no-thighs", "hopper-big-head", "walker-no-right-thigh", "ant-short-feet")
HALF = (40_000, 50_000)  # target steps: a score "at 50,000" is the mean of the evaluations between these
SUSPECT = SHAPES[:3]  # which the paper's evaluations may have played on the stock body; the ant's copy kept its own
HOLDS, FAILS, CANNOT = "holds", "does not hold", "cannot be decided"
STILL = 1000.0  # what walker, hopper and ant are paid for standing still


class Refused(Exception):
    """Something that the user can put right."""


# --- the tables ---


@functools.cache
def table(name: str) -> tuple[dict[str, str], ...]:
    path = HERE / name
    if not path.exists():
        return ()
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return tuple(csv.DictReader(io.StringIO(text)))


def write_table(name: str, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    whole = text.getvalue().encode()
    (HERE / name).write_bytes(gzip.compress(whole, 9, mtime=0) if name.endswith(".gz") else whole)
    for cached in (table, curves, compared, summary):
        cached.cache_clear()


def key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


def digest() -> str:
    """Of all that the figures are drawn from."""
    found = hashlib.sha256()
    for name in ("runs.csv.gz", "finals.csv", "studies.csv"):
        found.update(repr(table(name)).encode())
    return found.hexdigest()


# --- taking runs in ---


def unpack(packed: tarfile.TarFile, folder: Path) -> None:
    """Ordinary files alone, none outside the folder; Python 3.11.2 has no filter for that."""
    for member in packed:
        path = (folder / member.name).resolve()
        if (content := packed.extractfile(member) if member.isfile() else None) and path.is_relative_to(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())


def add(runs: Path, study: str, *, about: str, apart: bool, cut_short: bool) -> int:
    """All of the runs, or none."""
    if not any(row["study"] == study for row in table("studies.csv")) and not about:
        raise Refused(f"study '{study}' is new: say what it is with --about")
    with tempfile.TemporaryDirectory() as scratch:
        if runs.is_file():
            with tarfile.open(runs) as packed:
                unpack(packed, Path(scratch).resolve())
            runs = Path(scratch)
        folders = sorted(path.parent for path in runs.rglob("config.yaml"))
        if not folders:
            raise Refused(f"{runs}: no run below it (a run's folder holds a config.yaml)")
        read = [read_run(folder, study, cut_short) for folder in folders]
    known = {key(row) for row in table("finals.csv")}
    for final, _ in read:
        if key(final) in known:
            raise Refused(f"{' '.join(key(final))}: is there already; nothing was added")
        known.add(key(final))
    bases = json.loads((HERE / "settings.json").read_text())
    for final, _ in read:
        base = bases.setdefault(f"{final['method']} {final['backbone']} {final['preset']}", final["settings"])
        final["settings"] = said({k: v for k, v in final["settings"].items() if base.get(k, "-") != v})
    order = [row["study"] for row in table("studies.csv")]
    if study not in order:
        new = {"study": study, "compared": "no" if apart else "yes", "about": about}
        write_table("studies.csv", STUDIES, [*table("studies.csv"), new])
        order.append(study)
    finals = [*table("finals.csv"), *(final for final, _ in read)]
    lines = [*table("runs.csv.gz"), *(line for _, curve in read for line in curve)]
    write_table("finals.csv", FINALS, sorted(finals, key=lambda row: order.index(row["study"])))
    write_table("runs.csv.gz", [*KEY, *CURVE], sorted(lines, key=lambda row: order.index(row["study"])))
    (HERE / "settings.json").write_text(json.dumps(bases, indent=1, sort_keys=True) + "\n")
    return len(read)


def read_run(folder: Path, study: str, cut_short: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(the line of finals.csv, with settings not yet in words; the lines of runs.csv.gz)."""
    import yaml

    config = yaml.safe_load((folder / "config.yaml").read_text())
    provenance = _json(folder / "provenance.json")
    final = _json(folder / "final.json")
    state = provenance.get("state", "not started")
    whole = state == "failed" or (state == "finished" and (final or config["settings"].get("final_episodes") == 0))
    if not (folder / "curve.csv").exists() or not (whole or cut_short):
        raise Refused(f"{folder.name}: {state}, not whole; finish it, or take it as it is with --cut-short")
    settings, chosen = today(config["settings"], config["chosen"])
    row = {
        "study": study,
        "task": str(config["task"].get("name") or config["task"].get("world")),
        "method": config["method"],
        "backbone": settings.get("backbone") or "classic",
        "preset": config["preset"],
        "variant": variant(settings, chosen, preset_of(config["method"], config["preset"])),
        "seed": config["seed"],
    }
    with (folder / "curve.csv").open(newline="") as file:
        curve = [
            row | {ours: number(line.get(theirs)) for ours, theirs in CURVE.items()} for line in csv.DictReader(file)
        ]
    last = curve[-1] if curve else dict.fromkeys(CURVE, "")
    packages, machine = provenance.get("packages") or {}, provenance.get("machine") or {}
    row |= {
        "state": state if whole else "cut short",
        "final_mean": number(final.get("final_mean"), 7),
        "final_std": number(final.get("final_std")),
        "normalised": number(final.get("final_normalised")),
        # Of a run that was killed, its record knows less than its curve.
        **{name: max(int(float(of.get(name) or 0)) for of in (provenance, last)) for name in list(CURVE)[:3]},
        "wall_seconds": number(provenance.get("wall_seconds")),
        "runs_in_program": provenance.get("lanes_in_cohort", ""),
        "hardware": (provenance.get("device") or {}).get("kind", ""),
        "cores": machine.get("cores", ""),
        "offdyn": provenance.get("offdyn", ""),
        "jax": packages.get("jax", ""),
        "mujoco": packages.get("mujoco-core", ""),
        "made": str(provenance.get("written_at", ""))[:10],
        "settings": {name: text(value) for name, value in settings.items()},
        "command": command_of(config),
    }
    untrained = curve[0] if curve and curve[0]["updates"] == "0" and not settings.get("start_from") else {}
    row["stuck"] = stuck(row, final.get("final_returns", ()), untrained.get("target_return", ""))
    return row, curve


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def today(settings: dict[str, Any], chosen: Iterable[str]) -> tuple[dict[str, Any], set[str]]:
    """An older run's settings by the names they have now; lengths were once told in source steps."""
    names = {"bodies": "source_envs", "minimum_rows": "learning_starts", "rows": "learns_from"}
    names |= {"source_body": "source_dynamics"}
    new = {names.get(name, name): value for name, value in settings.items()}
    chosen = {names.get(name, name) for name in chosen}
    if new.get("start_from"):
        new["start_from"] = re.sub(r"seed-\d+", "seed-*", Path(str(new["start_from"])).name)
    if "target_interval" in new:
        interval, updates = new.pop("target_interval"), new.pop("updates_per_step", 1)
        alone = new.get("collects") == "target" and not new.get("source_data")
        new["target_steps"] = new.pop("source_steps") // interval
        new["source_steps_per_target_step"] = interval
        new["updates_per_target_step"] = updates * (1 if alone else interval)
        names = {"target_interval": "source_steps_per_target_step", "updates_per_step": "updates_per_target_step"}
        chosen = {names.get(name, "target_steps" if name == "source_steps" else name) for name in chosen}
        chosen |= {"target_steps"} if "source_steps_per_target_step" in chosen else set()
    elif new.get("updates_per_target_step", 0) is None:  # which means one per source step
        alone = new.get("collects") == "target" and not new.get("source_data")
        new["updates_per_target_step"] = 1 if alone else new["source_steps_per_target_step"]
    return new, chosen


def preset_of(method: str, preset: str) -> dict[str, str]:
    """Its choices for every task, as they are today."""
    found = RECIPES[method].method.presets.get(preset) if method in RECIPES else None
    return {name: text(value) for name, value in found.fields.items()} if found else {}


def variant(settings: dict[str, Any], chosen: Iterable[str], preset: dict[str, str]) -> str:
    """What was chosen beyond the preset, in one spelling."""
    named = {name: settings[name] for name in chosen if name not in UNSEEN and name in settings}
    named = {name: value for name, value in named.items() if preset.get(name) != text(value)}
    if "source_data" in named:
        named["source_data"] = Path(str(named["source_data"])).stem
    return said({name: text(value) for name, value in named.items() if USUAL.get(name) != value})


def text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "x".join(map(str, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value).rpartition("/")[2]  # no one's folders


def said(settings: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def number(value: Any, digits: int = 6) -> str:
    """With as many digits as anyone reads; blank where there is none."""
    if value in (None, "") or not np.isfinite(float(value)):
        return ""
    value = float(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.{digits}g}"


def command_of(config: dict[str, Any]) -> str:
    """That makes this run again, with the version of offdyn that made it."""
    given = {name: config["settings"][name] for name in config["chosen"]}
    words = ["offdyn", "train", "--task", str(config["task"].get("name") or config["task"].get("world"))]
    words += ["--method", config["method"], "--preset", config["preset"], "--seeds", str(config["seed"])]
    if config["settings"].get("start_from"):
        words += ["--start-from", Path(str(config["settings"]["start_from"])).name]
    return shlex.join(words + ["--set"] * bool(given) + [f"{name}={text(v)}" for name, v in sorted(given.items())])


def stuck(row: dict[str, Any], episodes: Sequence[float], untrained: str) -> str:
    """true or false; blank where nothing says what the body allows, or there is no final return.

    True below 2000 on halfcheetah (one on its back slides along at about 1600), elsewhere below a quarter of the way
    from a random policy to SAC with a million target steps; below the untrained policy; where every episode stands.
    """
    known = {line["task"]: line for line in table("tables/references.csv")}.get(row["task"])
    if not row["final_mean"] or not known or not known["high"]:
        return ""
    low, high = float(known["low"]), float(known["high"])
    level = 2000.0 if row["task"].startswith("halfcheetah") else low + 0.25 * (high - low)
    still = 0.0 if row["task"].startswith("halfcheetah") else STILL
    stands = len(episodes) > 0 and all(abs(episode - still) < 0.02 * still for episode in episodes)
    return str(bool(float(row["final_mean"]) < max(level, float(untrained or "-inf")) or stands)).lower()


# --- numbers ---


Group = tuple[str, str, str, str]  # method, backbone, preset, variant


@functools.cache
def curves() -> dict[tuple[str, ...], dict[str, np.ndarray]]:
    """By run, its columns."""
    lines = defaultdict(list)
    for line in table("runs.csv.gz"):
        lines[key(line)].append(line)
    return {
        run: {name: np.array([float(line[name] or "nan") for line in some]) for name in CURVE}
        for run, some in lines.items()
    }


@functools.cache
def compared(*kinds: str, column: str = "normalised") -> dict[Group, dict[str, list[float]]]:
    """Of the finished runs of such studies: by group and task every seed's score."""
    wanted = {row["study"] for row in table("studies.csv") if row["compared"] in kinds}
    found: dict[Group, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table("finals.csv"):
        if row["study"] in wanted and row["state"] == "finished":
            value = (
                at_half(key(row))
                if column == "half"
                else float({"true": 1, "false": 0}.get(row[column], row[column] or "nan"))
            )
            if np.isfinite(value):
                found[row["method"], row["backbone"], row["preset"], row["variant"]][row["task"]].append(value)
    return found


def at_half(run: tuple[str, ...]) -> float:
    """The mean score of the evaluations from 40,000 to 50,000 target steps."""
    curve = curves()[run]
    seen = (curve["target_steps"] >= HALF[0]) & (curve["target_steps"] <= HALF[1])
    return float(curve["normalised"][seen].mean()) if seen.any() else float("nan")


def tasks() -> list[str]:
    """The eight."""
    return [row["task"] for row in table("tables/references.csv") if row["published_high"]]


def label(group: Group) -> str:
    method, backbone, preset, chosen = group
    presets = {g[2] for g in [*compared("yes"), *compared("prototype")] if g[0] == method and g[1] == backbone}
    told = [f"{method} {preset}" if len(presets) > 1 else method, backbone if backbone != "classic" else "", chosen]
    return ", ".join(filter(None, told))


def statistics(scores: dict[str, list[float]]) -> dict[str, Any]:
    """IQM and mean with their 95 % intervals; none where a task has fewer than three runs."""
    told: dict[str, Any] = {"runs": sum(map(len, scores.values())), "tasks": len(scores)}
    for name, statistic in (("iqm", iqm), ("mean", mean)):
        found = estimate(scores, statistic)
        told[name] = round(float(found.value), 2)
        told[f"{name}_interval"] = [round(float(end), 2) for end in found.interval] if found.interval else None
    return told


def chance(some: dict[str, list[float]], others: dict[str, list[float]], deals: int = 20_000) -> float:
    """The share of random deals of each task's runs between both sides whose means over tasks are as far apart."""
    generator, apart, dealt = np.random.default_rng(0), 0.0, np.zeros(deals)
    for task, mine in some.items():
        both = generator.permuted(np.tile([*mine, *others[task]], (deals, 1)), axis=1)
        apart += float(np.mean(mine) - np.mean(others[task]))
        dealt += both[:, : len(mine)].mean(1) - both[:, len(mine) :].mean(1)
    return float((np.abs(dealt) >= abs(apart) - 1e-9).mean())


@functools.cache
def summary() -> dict[str, Any]:
    kinds, eight = ("yes", "prototype"), set(tasks())
    stuck_ones, half, prototypes = compared(*kinds, column="stuck"), compared(*kinds, column="half"), compared(kinds[1])
    methods = []
    for group, scores in compared(*kinds).items():
        scores = {task: some for task, some in scores.items() if task in eight}
        if set(scores) == eight:
            methods.append(
                {"label": label(group)}
                | dict(zip(("method", "backbone", "preset", "variant"), group, strict=True))
                | statistics(scores)
                | {"stuck": int(sum(map(sum, stuck_ones[group].values()))), "prototype": group in prototypes}
                | {"at_50k": statistics({task: half[group][task] for task in sorted(eight)})}
            )
    level = next(row["mean"] for row in methods if row["label"] == "par paper")
    for row in methods:
        row["target_steps_to_par"] = target_steps_to(level, tuple(row[n] for n in KEY[2:6]))
    return {
        "about": "Normalised final scores (0 and 100: the published references), 95 % stratified bootstrap. Written by "
        "results/make.py.",
        "eight_tasks": sorted(methods, key=lambda row: -row["iqm"]),
        "prototypes_at_50k": prototypes_at_half(),
        "penalty_four_tasks": penalty(),
    }


def target_steps_to(level: float, group: Group) -> int | None:
    """After how many of them the mean over tasks of a method's evaluations first has this score; None: at no time."""
    at = np.arange(0, 100_001, 1000)
    by_task: dict[str, list[np.ndarray]] = defaultdict(list)
    for run, curve in curves().items():
        if run[2:6] == group and run[1] in tasks() and _compared(run[0]):
            seen = np.isfinite(curve["normalised"])
            by_task[run[1]].append(np.interp(at, curve["target_steps"][seen], curve["normalised"][seen]))
    reached = np.mean([np.mean(some, axis=0) for some in by_task.values()], axis=0) >= level
    return int(at[reached.argmax()]) if reached.any() else None


def prototypes_at_half() -> list[dict[str, Any]]:
    """Of the prototype, also what never came to its end: mean score from 40,000 to 50,000 target steps, of 8 tasks."""
    found: dict[Group, list[float]] = defaultdict(list)
    for row in table("finals.csv"):
        if row["study"] == "backbone-prototype":
            found[row["method"], row["backbone"], row["preset"], row["variant"]].append(at_half(key(row)))
    return [
        {"label": label(group), "runs": len(some), "mean_at_50k": round(float(np.mean(some)), 2)}
        for group, some in found.items()
    ]


def penalty() -> list[dict[str, Any]]:
    """PAR and its controls on the four tasks that have them, all of its draws; final scores, and p against PAR."""
    on = {g: {t: s for t, s in some.items() if t in PENALTY_TASKS} for g, some in compared("yes", "again").items()}
    on = {group: some for group, some in on.items() if len(some) == len(PENALTY_TASKS)}
    content = [on["par", "classic", "paper", f"deviation_{how}=1"] for how in ("shuffled", "averaged")]
    rows = []
    for group, scores in on.items():
        if group[0] == "par":
            par = on["par", "classic", group[2], ""]
            p = None if scores is par else round(chance(scores, par), 3)
            rows.append({"label": label(group)} | statistics(scores) | {"p_against_par": p})
    pooled = {task: content[0][task] + content[1][task] for task in PENALTY_TASKS}
    p = round(chance(pooled, on["par", "classic", "paper", ""]), 3)
    rows.append({"label": "par paper, shuffled or averaged"} | statistics(pooled) | {"p_against_par": p})
    others = [{"label": label(group)} | statistics(scores) for group, scores in on.items() if group[0] != "par"]
    return rows + [row | {"p_against_par": None} for row in others]


# --- tables in the pages ---


def between(interval: Sequence[float] | None) -> str:
    return f" [{interval[0]:.0f}, {interval[1]:.0f}]" if interval else ""


def methods_table() -> str:
    lines = [
        "| method | IQM | mean | IQM at 50,000 target steps | target steps to PAR's mean | stuck |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in summary()["eight_tasks"]:
        half, reached = row["at_50k"], row["target_steps_to_par"]
        steps = f"{reached:,}" if reached else "more"
        lines.append(
            f"| {row['label']}{' (prototype)' * row['prototype']} | {row['iqm']:.0f}{between(row['iqm_interval'])} | "
            f"{row['mean']:.0f}{between(row['mean_interval'])} | {half['iqm']:.0f}{between(half['iqm_interval'])} | "
            f"{steps} | {row['stuck']} of {row['runs']} |"
        )
    return "\n".join(lines)


def finals_table() -> str:
    order = [tuple(row[n] for n in ("method", "backbone", "preset", "variant")) for row in summary()["eight_tasks"]]
    finals, failed = (compared("yes", "prototype", column=column) for column in ("final_mean", "stuck"))
    lines = [f"| task | {' | '.join(map(label, order))} |", f"| --- |{' ---: |' * len(order)}"]
    for task in tasks():
        cells = []
        for group in order:
            bad = int(sum(failed[group][task]))
            cells.append(f"{np.mean(finals[group][task]):.0f}" + f"<br>{bad} of {len(finals[group][task])}" * (bad > 0))
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def penalty_table() -> str:
    lines = ["| | runs | mean score | p against PAR |", "| --- | ---: | ---: | ---: |"]
    for row in summary()["penalty_four_tasks"]:
        p = "" if row["p_against_par"] is None else f"{row['p_against_par']:.2g}"
        lines.append(f"| {row['label']} | {row['runs']} | {row['mean']:.0f}{between(row['mean_interval'])} | {p} |")
    return "\n".join(lines)


def _compared(study: str, *kinds: str) -> bool:
    return any(
        row["study"] == study and row["compared"] in (kinds or ("yes", "prototype")) for row in table("studies.csv")
    )


# --- the paper: tables/claims.yaml, and what was run of the shipped studies ---


def claims() -> list[dict[str, Any]]:
    import yaml

    return list(yaml.safe_load((HERE / "tables/claims.yaml").read_text()))


def claims_table() -> str:
    lines = ["| paper | claim | command | ours | verdict |", "| --- | --- | --- | --- | --- |"]
    for claim in claims():
        verdict = f"**{claim['verdict']}**: {claim.get('because', 'no run yet')}"
        letters = f" ({', '.join(claim['deviations'])})" if "deviations" in claim else ""
        lines.append(
            f"| {claim['where']} | {claim['claim']} | `{claim['command']}` | {ours(claim)}{letters} | {verdict} |"
        )
    return "\n".join(lines)


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
    found = {preset: figure(preset, **asked) for preset in presets}
    if claim["verdict"] not in (CANNOT, decided([estimate for estimate, _ in found.values()], of)):
        raise Refused(f"tables/claims.yaml, {claim['where']}, {claim['claim']}: its verdict says more than the runs")
    told = ", ".join(f"{estimate.value:.0f}{between(estimate.interval)}" for estimate, _ in found.values())
    unit = "points" if asked.get("points") else f"of {len(asked.get('on', tasks()))}"
    return f"{told} {unit}; n={', '.join(str(n) for _, n in found.values())}"


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
    sides = [dict(scores_of(name, preset, half and name == "par", study)) for name in ("par", *rivals)]
    if stock:
        sides = [late(name, preset if name == "par" else "paper", "target_return") for name in ("par", *rivals)]
        sides[0] |= {task: late("par", preset, "source_return")[task] for task in SUSPECT}
    if falls:
        sides = [late(falls, preset or "paper", "reward_penalty", when) for when in (first_positive, late_mean)]
    on = on or sorted(set(sides[-1]) & set(tasks()))

    def statistic(drawn: dict[str, np.ndarray]) -> Any:
        means = np.array([[drawn[f"{n} {task}"].mean(-1) for task in on] for n in range(len(sides))])
        gaps = means[0] - means[1:].max(0)
        return gaps.mean(0) if points else (gaps > 0).sum(0)

    scores = {f"{n} {task}": side[task] for n, side in enumerate(sides) for task in on}
    return estimate(scores, statistic), sum(len(sides[0][task]) for task in on)


def scores_of(name: str, preset: str, half: bool = False, study: str = "") -> dict[str, list[float]]:
    """By task: PAR of that preset, PAR with a setting, or another method's `paper`; all on `classic`."""
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


def late(
    method: str, preset: str, column: str, when: Callable[[Any, Any], float] = late_mean
) -> dict[str, list[float]]:
    """By task, of each run a column of its curve, over its last fifth or at another time."""
    found: dict[str, list[float]] = defaultdict(list)
    for run, curve in curves().items():
        if run[2:6] == (method, "classic", preset, "") and _compared(run[0], "yes"):
            seen = np.isfinite(curve[column])
            found[run[1]].append(when(curve["target_steps"][seen], curve[column][seen]))
    return found


def first_positive(_: np.ndarray, values: np.ndarray) -> float:
    return float(values[values > 0][0])


def ranks() -> str:
    found = [float(row["order_par"]) for row in table("tables/true-gap.csv") if row["source_steps"] == "40000"]
    told = estimate(found, mean)
    return f"rank correlation {told.value:.2f} [{told.interval[0]:.2f}, {told.interval[1]:.2f}]; n={len(found)}"


def milliseconds() -> str:
    of = {row["method"]: row["value"] for row in table("tables/speed.csv") if row["what"] == "one update"}
    return f"{', '.join(f'{float(of[name]):.1f}' for name in ('par', 'darc', 'vgdf'))} ms an update, two CPU cores"


OTHER_FIGURES = {"rank": ranks, "milliseconds": milliseconds}


@functools.cache
def counted(study: str, only: str = "") -> tuple[int, int, int]:
    """Runs that a shipped study's first stage wants; finished ones; and those with another preset, else alike."""
    from offdyn.studies import stages
    from offdyn.studies.run import Wanted
    from offdyn.studies.study import load

    first, *_ = next(stages.of(load(study).part(only.split()), Wanted(), Path()))
    asked, ran, otherwise = first.runs()[0], 0, 0
    for run in asked:
        settings = {name: text(value) for name, value in run.settings().items() if name not in UNSEEN}
        alike = finished()[run.task.name, run.method, run.sac.backbone, str(run.seed)]
        if study == "runtime":  # its runs share a program with none
            alike = [one for one in alike if one[2] == "1"]
        same = [p == run.preset and all(o.get(n, v) == v for n, v in settings.items()) for p, o, _, _ in alike]
        near = [
            said <= {*run.chosen} and all(o.get(n) == settings[n] for n in {*run.chosen} & {*settings})
            for _, o, _, said in alike
        ]
        ran, otherwise = ran + any(same), otherwise + (any(near) and not any(same))
    return len(asked), ran, otherwise


@functools.cache
def finished() -> dict[tuple[str, ...], list[tuple[str, dict[str, str], str, set[str]]]]:
    """By task, method, backbone and seed: preset, settings, how many shared the program, and what was chosen."""
    bases, found = json.loads((HERE / "settings.json").read_text()), defaultdict(list)
    for row in table("finals.csv"):
        if row["state"] == "finished":
            base = bases.get(f"{row['method']} {row['backbone']} {row['preset']}", {})
            settings = base | dict(word.split("=", 1) for word in row["settings"].split())
            names = {word.partition("=")[0] for word in row["variant"].split()}
            known = row["task"], row["method"], row["backbone"], row["seed"]
            found[known].append((row["preset"], settings, row["runs_in_program"], names))
    return found


def studies_table() -> str:
    from offdyn.studies.study import shipped

    names = [name for name in shipped() if name != "demo"]  # a minute, and run by the tests
    lines = [f"| `{name}` | {' | '.join(map(str, counted(name)))} |" for name in names]
    return "\n".join(["| study | wanted | run | of another preset |", "| --- | ---: | ---: | ---: |", *lines])


TABLES = {
    "methods": methods_table, "finals": finals_table, "penalty": penalty_table, "claims": claims_table,
    "studies": studies_table,
}  # fmt: skip


def filled(page: str) -> str:
    """The page with its marked places written anew."""

    def anew(place: re.Match[str]) -> str:
        if place[2] not in TABLES:
            raise Refused(f"no table '{place[2]}' to write (known: {', '.join(TABLES)})")
        return f"{place[1]}\n{TABLES[place[2]]()}\n\n{place[3]}"

    return MARKED.sub(anew, page)


# --- figures ---


def draw(name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    made = {"learning-curves": learning_curves, "finals": every_final, "iqm": by_method, "stock-body": stock_body}
    figure = made[name](plt) if name in made else small_curves(plt, name)
    figure.savefig(HERE / "figures" / f"{name}.png", dpi=80, metadata={"Description": digest()})
    plt.close(figure)


def looks() -> dict[Group, dict[str, Any]]:
    """A colour for each method; dashes tell presets apart."""
    order = [tuple(row[n] for n in ("method", "backbone", "preset", "variant")) for row in summary()["eight_tasks"]]
    colours = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#8B4513"]
    return {g: {"color": colours[i % 9], "linestyle": "-" if i < 9 else "--"} for i, g in enumerate(order)}


def mean_curve(runs: Sequence[dict[str, np.ndarray]], column: str, grid: np.ndarray) -> np.ndarray:
    return np.mean([np.interp(grid, run["target_steps"], run[column]) for run in runs], axis=0)


def learning_curves(plt: Any) -> Any:
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.4), sharex=True, layout="constrained")
    grid = np.arange(0, 100_001, 2500)
    wanted = {row["study"] for row in table("studies.csv") if row["compared"] in ("yes", "prototype")}
    for panel, task in zip(axes.flat, tasks(), strict=True):
        for group, look in looks().items():
            mine = [curve for run, curve in curves().items() if run[0] in wanted and run[1:6] == (task, *group)]
            panel.plot(grid / 1000, mean_curve(mine, "target_return", grid), **look, linewidth=1.6, label=label(group))
        panel.set_title(task, fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("target steps, thousands")
    figure.supylabel("return in the target, mean over seeds")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9)
    return figure


def every_final(plt: Any) -> Any:
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    finals, failed = (compared("yes", "prototype", column=column) for column in ("final_mean", "stuck"))
    for panel, task in zip(axes.flat, tasks(), strict=True):
        for place, (group, look) in enumerate(looks().items()):
            for final, bad in zip(finals[group][task], failed[group][task], strict=True):
                panel.plot(final, place, "x" if bad else "o", color=look["color"], markersize=5, alpha=0.8)
            panel.plot([np.mean(finals[group][task])] * 2, [place - 0.35, place + 0.35], color=look["color"])
        panel.set_title(task, fontsize=10)
        names = [label(group) for group in looks()] if panel in axes[:, 0] else []
        panel.set_yticks(range(len(names)) if names else [], names, fontsize=8)
        panel.invert_yaxis()
    figure.supxlabel("return of the final policy in the target: every seed (crosses: stuck), bar: mean", fontsize=10)
    return figure


def by_method(plt: Any) -> Any:
    rows = summary()["eight_tasks"]
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.4 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        colour = "#D55E00" if row["prototype"] else "#0072B2"
        for values, height, style in ((row, place, "o"), (row["at_50k"], place + 0.25, "D")):
            faint = 1.0 if style == "o" else 0.4
            if values["iqm_interval"]:
                axes.plot(values["iqm_interval"], [height] * 2, color=colour, linewidth=4, alpha=0.35 * faint)
            axes.plot(values["iqm"], height, style, color=colour, alpha=faint, markersize=7 if style == "o" else 5)
    names = [f"{row['label']}{' (prototype)' * row['prototype']}, n = {row['runs']}" for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("IQM of eight tasks, 95 % interval\ncircles: 100,000 target steps, diamonds: 50,000", fontsize=9)
    axes.set_xlim(left=0)
    axes.grid(axis="x", alpha=0.3)
    return figure


def stock_body(plt: Any) -> Any:
    """The same runs played on the shifted and on the stock body; bands: 95 % intervals of the mean."""
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.8), layout="constrained")
    grid = np.arange(0, 100_001, 2500)
    drawn = (("par", "paper", "#0072B2"), ("par", "released", "#D55E00"), ("vgdf", "paper", "#009E73"))
    for panel, task in zip(axes, SHAPES, strict=True):
        for method, preset, colour in drawn:
            mine = [
                c
                for run, c in curves().items()
                if run[1:6] == (task, method, "classic", preset, "") and _compared(run[0], "yes")
            ]
            for body, dashes, where in (("target", "-", "shifted body"), ("source", "--", "stock body")):
                every = [np.interp(grid, run["target_steps"], run[f"{body}_return"]) for run in mine]
                found = estimate(np.transpose(every), mean, resamples=1000)
                name = f"{method} {preset}, {where}, n = {len(mine)}"
                panel.plot(grid / 1000, found.value, dashes, color=colour, linewidth=1.6, label=name)
                panel.fill_between(grid / 1000, *found.interval, color=colour, alpha=0.12, linewidth=0)
        panel.set_title(task, fontsize=10)
        panel.set_xlabel("target steps, thousands")
    axes[0].set_ylabel("return")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return figure


def small_curves(plt: Any, study: str) -> Any:
    """Mean and range over seeds of a study on a small task: a panel for a live source, one for a dataset."""
    by_kind: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    finals = {key(row): float(row["final_mean"] or "nan") for row in table("finals.csv") if row["study"] == study}
    for run, curve in curves().items():
        if run[0] == study and len(curve["target_steps"]) > 1:
            kind = "a dataset as the source" if "source_data" in run[5] else "live source"
            name = f"{run[2]}, flag" if "domain_input=flag" in run[5] else run[2]
            by_kind[kind][name].append(curve | {"final": finals[run]})
    figure, axes = plt.subplots(1, len(by_kind), figsize=(5.5 * len(by_kind), 3.8), squeeze=False, layout="constrained")
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


# --- all of it ---


def outdated() -> list[str]:
    """What would change if all were written anew."""
    pages = [page for page in PAGES if filled((HERE.parent / page).read_text()) != (HERE.parent / page).read_text()]
    stale = [] if (HERE / "summary.json").read_text() == _summary_text() else ["results/summary.json"]
    drawn = digest().encode()
    for name in FIGURES:
        path = HERE / "figures" / f"{name}.png"
        stale += [] if path.exists() and drawn in path.read_bytes() else [f"results/figures/{name}.png"]
    return pages + stale


def write_all() -> None:
    for page in PAGES:
        path = HERE.parent / page
        path.write_text(filled(path.read_text()))
    (HERE / "summary.json").write_text(_summary_text())
    (HERE / "figures").mkdir(exist_ok=True)
    for name in FIGURES:
        draw(name)


def _summary_text() -> str:
    return json.dumps(summary(), indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    parser.add_argument("--add", type=Path, metavar="RUNS", help="folder of run folders, or a .tgz of one")
    parser.add_argument("--study", help="what the new runs belong to")
    parser.add_argument("--about", default="", help="of a new study: what it is, in a line")
    parser.add_argument("--apart", action="store_true", help="of a new study: not part of the comparison")
    parser.add_argument("--cut-short", action="store_true", help="take runs that did not end, too")
    asked = parser.parse_args(arguments)
    try:
        if asked.add and not asked.study:
            raise Refused("--add needs --study NAME")
        if asked.add:
            how = {"about": asked.about, "apart": asked.apart, "cut_short": asked.cut_short}
            print(f"{add(asked.add, asked.study, **how)} runs added")
        if not asked.check:
            write_all()
        elif stale := outdated():
            raise Refused(f"out of date: {', '.join(stale)}; run `python results/make.py`")
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
