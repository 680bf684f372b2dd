"""What a run is: its task, method, preset, seed, and every setting by one name; checked here, trusted inside."""

import dataclasses
import hashlib
import itertools
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..domains import pairs
from ..errors import OffdynError, check_format, unknown
from ..fields import static_fields
from ..learning.networks import ACTIVATIONS
from ..learning.sac import Sac
from ..methods.recipes import Recipe, recipe

FORMAT = 1  # of config.yaml
DOMAINS = ("both", "source", "target")
LONGEST_NAME = 200  # of a run's folder before its seed: file systems allow 255 bytes
MAY_BE_NONE_AT_ALL = ("eval_source_episodes", "final_episodes")  # whole numbers that may be 0
PRESETS_OWN = "preset"  # as a setting's value: what the preset says


@dataclass(frozen=True)
class Schedule:
    """How long a run is and what happens how often; all in source steps unless said otherwise."""

    source_steps: int = 1_000_000  # the target budget is this over target_interval
    target_interval: int = 10  # F: source steps per target step
    bodies: int | None = None  # source bodies per run; None: the smaller of 10 and target_interval
    collects: str = "both"  # domains the run acts in
    rows: str = "both"  # domains whose rows train critics and actor
    updates_per_step: int = 1  # per source step; per target step where only the target is collected
    minimum_rows: int = 128  # that each collected replay holds before the first update
    replay_size: int = 1_000_000  # rows per domain, of which a shorter run takes only what it can fill
    eval_interval: int = 10_000
    eval_episodes: int = 10  # in the target
    eval_source_episodes: int = 2
    final_episodes: int = 50  # in the target, of the final policy
    log_interval: int = 5_000
    checkpoint_interval: int = 50_000

    @property
    def source_bodies(self) -> int:
        if self.collects == "target":
            return 0
        return min(10, self.target_interval) if self.bodies is None else self.bodies

    @property
    def tick(self) -> int:
        """Source steps (or their worth) by which the clock advances in one round of acting, stepping and learning."""
        return self.target_interval if self.collects == "target" else self.source_bodies

    @property
    def updates_per_tick(self) -> int:
        return self.updates_per_step * (1 if self.collects == "target" else self.source_bodies)

    @property
    def target_budget(self) -> int:
        return 0 if self.collects == "source" else self.source_steps // self.target_interval


# Settings that change how a run is watched, not what it computes: they stay out of its name.
WATCHING = {"eval_interval", "eval_episodes", "eval_source_episodes", "final_episodes", "log_interval"} | {
    "checkpoint_interval",
    "source_steps",
}


@dataclass(frozen=True)
class RunConfig:
    """One run, complete."""

    task: pairs.Pair
    method: str  # a recipe's name
    preset: str
    seed: int
    schedule: Schedule
    sac: Sac
    hyper: Any
    allow_no_shift: bool = False
    chosen: tuple[str, ...] = ()  # names of the settings the user set, for the run's name

    @property
    def recipe(self) -> Recipe:
        return recipe(self.method)

    def settings(self) -> dict[str, Any]:
        """Every setting under its one name."""
        return {**vars(self.schedule), **vars(self.sac), **vars(self.hyper)}

    @property
    def name(self) -> str:
        """The run's folder."""
        settings = self.settings()
        extras = [f"{key}-{_short(settings[key])}" for key in sorted(self.chosen) if key not in WATCHING]
        name = ".".join([self.task.name, self.method, self.preset, *extras])
        if len(name) > LONGEST_NAME:
            name = f"{name[: LONGEST_NAME - 13]}.{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        return f"{name}.seed-{self.seed}"

    def cohort_key(self) -> str:
        """Equal for runs that can share one compiled program."""
        static = {**vars(self.schedule), **static_fields(self.sac), **static_fields(self.hyper)}
        return repr((pairs.family_of(self.task), self.recipe.method.name, sorted(static.items())))


def _short(value: Any) -> str:
    text = "x".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}" if _is_float(value) else str(value)
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", text)


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def build(
    task: Any,
    method: str = "par",
    preset: str = "paper",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    *,
    allow_no_shift: bool = False,
) -> tuple[RunConfig, list[str]]:
    """A checked run and what its user should be told. The user's value wins over a recipe's, that over a preset's."""
    the_task = pairs.find(task)
    the_recipe = recipe(method)
    presets = the_recipe.method.presets
    if preset not in presets:
        raise unknown(f"preset of method '{method}'", preset, presets)
    chosen = dict(settings or {})
    notices = []
    values: dict[str, Any] = {**presets[preset].fields}
    by_task = presets[preset].by_task
    if the_task.name in by_task:
        values |= by_task[the_task.name]
    elif by_task:
        values |= presets[preset].otherwise
        guessed = {k: v for k, v in presets[preset].otherwise.items() if k not in chosen}
        if guessed:
            said = ", ".join(f"{k}={v}" for k, v in guessed.items())
            notices.append(f"{the_task.name}: not in the tables of preset '{preset}', using {said}")
    values |= the_recipe.defaults
    parts: dict[str, type] = {"schedule": Schedule, "sac": Sac, "hyper": the_recipe.method.hyper}
    types_by_name = {f.name: f.type for part in parts.values() for f in dataclasses.fields(part)}
    for name, value in chosen.items():
        if name not in types_by_name:
            raise unknown(f"setting of method '{method}'", name, types_by_name)
        chosen[name] = coerce(name, types_by_name[name], value)
    values |= chosen
    made = {
        key: part(**{f.name: values[f.name] for f in dataclasses.fields(part) if f.name in values})
        for key, part in parts.items()
    }
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise OffdynError(f"seed {seed!r}: expected a whole number from 0 to {2**32 - 1}")
    config = RunConfig(
        the_task, method, preset, seed, **made, allow_no_shift=allow_no_shift, chosen=tuple(sorted(chosen))
    )
    check(config)
    if config.schedule.collects == "both":
        pairs.check(the_task, allow_no_shift)
    return config, notices


def lists_of_floats(method: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One set of settings for each combination of the values listed for settings that may differ by lane.

    A value "preset" leaves that setting to the preset: `penalty=["preset", 0]` is each run beside its twin without one.
    """
    parts = (Schedule, Sac, recipe(method).method.hyper)
    floats = {f.name for part in parts for f in dataclasses.fields(part) if f.type is float}
    options = {}
    for name, value in settings.items():
        several = value.split(",") if isinstance(value, str) else value
        options[name] = list(several) if name in floats and isinstance(several, list | tuple) else [value]
    combinations = (dict(zip(options, values, strict=True)) for values in itertools.product(*options.values()))
    return [{name: value for name, value in each.items() if value != PRESETS_OWN} for each in combinations]


def coerce(name: str, kind: Any, value: Any) -> Any:
    """`value` (text from a command line, or what YAML gave) as the setting's type."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if types.NoneType in options and (value is None or value in ("none", "None", "")):
        return None
    want = next(option for option in options if option is not types.NoneType)
    try:
        if want is bool:
            return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
        if want is int:
            number = float(value)
            if isinstance(value, bool) or number != int(number):
                raise ValueError
            return int(number)
        if want is float:
            if isinstance(value, bool):
                raise ValueError
            if not math.isfinite(float(value)):
                raise ValueError
            return float(value)
        if want is str:
            return str(value)
        parts = value.replace("x", ",").split(",") if isinstance(value, str) else value
        parts = [parts] if isinstance(parts, int) else parts
        return tuple(coerce(name, int, part) for part in parts if part != "")
    except (ValueError, TypeError, KeyError, OverflowError):
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        expected = words.get(want, "whole numbers such as 256,256")
        raise OffdynError(f"setting {name}: expected {expected}, got {value!r}") from None


def check(config: RunConfig) -> None:
    """Refuse what cannot run, in words."""
    plan, sac, values = config.schedule, config.sac, config.settings()

    def need(ok: bool, name: str, expected: str) -> None:
        if not ok:
            raise OffdynError(f"setting {name}: expected {expected}, got {values[name]!r}")

    for field in (f for part in (plan, sac, config.hyper) for f in dataclasses.fields(part) if f.type is int):
        least = 0 if field.name in MAY_BE_NONE_AT_ALL else 1
        need(values[field.name] >= least, field.name, "0 or more" if least == 0 else "at least 1")
    for name in ("temperature", "source_noise"):
        need(values[name] >= 0, name, "0 or more")
    for name in [n for n in values if n.endswith("learning_rate")]:
        need(values[name] > 0, name, "more than 0")
    for name in [n for n in values if n.endswith("_widths")]:
        need(len(values[name]) >= 1 and min(values[name]) >= 1, name, "one or more widths of at least 1")
    need(0 < sac.target_rate <= 1, "target_rate", "more than 0 and at most 1")
    need(0 <= sac.discount <= 1, "discount", "from 0 to 1")
    need(sac.temperature > 0 or not sac.tune_temperature, "temperature", "more than 0 where it is tuned")
    need(sac.gradient_clip is None or sac.gradient_clip > 0, "gradient_clip", "more than 0, or none")
    need(sac.log_std_low < sac.log_std_high, "log_std_low", "less than log_std_high")
    need(values.get("penalty", 0) >= 0, "penalty", "0 or more")
    need(values.get("encoder_activation", "elu") in ACTIVATIONS, "encoder_activation", " or ".join(ACTIVATIONS))
    need(plan.collects in DOMAINS, "collects", "both, source or target")
    need(plan.rows in DOMAINS, "rows", "both, source or target")
    fed = plan.collects in ("both", plan.rows)
    need(fed, "rows", f"rows that the run collects (it collects {plan.collects})")
    if config.recipe.method.compares_domains:
        need(plan.collects == "both", "collects", f"both: {config.method} compares the two domains")
    if plan.collects == "both":
        bodies = plan.source_bodies
        need(bodies >= 1 and plan.target_interval % bodies == 0, "bodies", f"a divisor of {plan.target_interval}")
    else:
        need(plan.bodies is None or plan.bodies >= 1, "bodies", "at least 1")
    for name in ("source_steps", "eval_interval", "log_interval", "checkpoint_interval"):
        nearest = max(plan.tick, round(values[name] / plan.tick) * plan.tick)
        need(values[name] % plan.tick == 0, name, f"a multiple of {plan.tick} (one tick), say {nearest}")
    if plan.collects == "both":
        need(plan.source_steps % plan.target_interval == 0, "source_steps", f"a multiple of {plan.target_interval}")
    budget = plan.target_budget if plan.collects != "source" else plan.source_steps
    need(plan.minimum_rows < budget, "minimum_rows", f"less than the {budget} rows the run can collect")
    need(plan.replay_size >= plan.minimum_rows, "replay_size", f"at least minimum_rows ({plan.minimum_rows})")
    if plan.source_bodies:
        need(plan.replay_size % plan.source_bodies == 0, "replay_size", f"a multiple of {plan.source_bodies}")


def to_yaml(config: RunConfig) -> str:
    """The complete run as text; `from_yaml` gives back an equal one."""
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in config.settings().items()}
    head = {
        "format": FORMAT,
        "task": config.task.to_mapping(),
        "method": config.method,
        "preset": config.preset,
        "seed": config.seed,
        "allow_no_shift": config.allow_no_shift,
        "chosen": list(config.chosen),
    }
    return yaml.safe_dump(head | {"settings": listed}, sort_keys=False)


def from_yaml(text: str, where: Path) -> RunConfig:
    """Read back what `to_yaml` wrote."""
    try:
        read = yaml.safe_load(text)
        check_format(read["format"], FORMAT, where)
        if not isinstance(read["settings"], dict):
            raise TypeError("no settings")
        config, _ = build(
            read["task"],
            read["method"],
            read["preset"],
            read["seed"],
            read["settings"],
            allow_no_shift=read["allow_no_shift"],
        )
        return dataclasses.replace(config, chosen=tuple(read["chosen"]))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise OffdynError(f"{where}: not a run's config.yaml ({error})") from None


def group(runs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Runs that can share one compiled program, together, in the order in which they were asked for."""
    cohorts: dict[str, list[RunConfig]] = {}
    names: set[str] = set()
    for run in runs:
        if run.name in names:
            raise OffdynError(f"run {run.name} is asked for twice")
        names.add(run.name)
        cohorts.setdefault(run.cohort_key(), []).append(run)
    return list(cohorts.values())
