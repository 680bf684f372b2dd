"""What a run is: its task, method, preset, seed, and every setting by one name; checked here, trusted inside."""

import dataclasses
import hashlib
import itertools
import math
import re
import types
import typing
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._util.errors import OffdynError, shown, unknown
from .._util.fields import expected, setting, static_fields
from .._util.types import Spec
from ..algos.backbones import backbone
from ..algos.method import Preset
from ..algos.registry import DEFAULT, METHODS, Recipe, recipe
from ..algos.sac import Sac, actor_network, critic_network
from ..envs import batched, padding, pairs
from ..envs.custom_batch import PROCESSES
from ..envs.residual import Residual
from ..policies import base as base_policy

LONGEST_NAME = 200  # of a run's folder before its seed: file systems allow 255 bytes
MIXED = ("both", "fading")  # values of learns_from with which transitions of both domains train the agent
FADED_AFTER = 0.2  # of the target steps: by then a batch has as many target transitions as source ones
BATCH = Sac.batch_size  # of each domain in an update, or twice as many of one
LONGEST = 2**31 - 1  # source steps or updates: both are counted in 32 bits
PRESETS_OWN = "preset"  # as a setting's value: what the preset says


@dataclass(frozen=True)
class Schedule:
    """How long a run is and what happens how often; intervals are in source steps."""

    target_steps: int = 100_000
    # The paper's F; where a run acts in one domain, these are its clock.
    source_steps_per_target_step: int = setting(10, most=10**6)
    # None: one per source step; where there is no source, one.
    updates_per_target_step: int | None = setting(None, most=10**6)
    # Source steps before the first target step, in which the source alone is acted in and learned from.
    head_start: int = setting(0, least=0)
    # Target steps at first in which actions are uniform, in the source likewise.
    random_steps: int = setting(0, least=0)
    # Per run; None: the smaller of 10 and source_steps_per_target_step, or as a batched source has them.
    source_envs: int | None = setting(None, most=10_000)
    collects: str = setting("both", choices=("both", "source", "target", "none"))  # domains the run acts in
    # Or shifted: the source moves as the target does, for what can be learned without a gap.
    source_dynamics: str = setting("stock", choices=("stock", "shifted"))
    # Domains whose transitions train critics and actor; fading: both, the source's less and less (source_fades).
    learns_from: str = setting("both", choices=("both", "source", "target", "fading"))
    source_data: str | None = None  # a dataset, by name or path, in place of a source that is acted in
    allow_faulty_data: bool = False  # although the doctor found something fatal in it
    start_from: str | None = None  # folder of a run whose networks this one continues from; may name {seed} and {robot}
    # A frozen policy that acts in both domains, what is learned moves its actions: a file, a folder, module:function.
    base_policy: str | None = None
    base_sha256: str | None = None  # of that file, or of the function's source
    residual: float | None = setting(None, above=0, most=1)  # how far, where 1 is half an action's range; default 0.3
    tested_only: bool = False  # those networks are tested as they are: nothing is collected or trained
    # Or episodic: whole target episodes, and between them what they owe.
    target_mode: str = setting("steps", choices=("steps", "episodic"))
    target_log: str | None = None  # folder in which every target step is written down as it happens
    time_limits_end: bool = False  # a cut episode is stored as ended, as VGDF's official code has it
    padded: bool = False  # fill robots up to one size: runs of all robots then share one program, for a GPU
    env_processes: str = setting("auto", choices=PROCESSES)  # custom sources: each in a process, or where that pays
    learning_starts: int = 128  # transitions in each collected replay buffer before the first update
    replay_size: int = 1_000_000  # transitions per domain, of which a shorter run takes only what it can fill
    eval_interval: int = 10_000
    eval_episodes: int = setting(10, least=0, most=10_000)  # in the target; 0: the curve then shows training episodes
    eval_source_episodes: int = setting(2, least=0, most=10_000)
    final_episodes: int = setting(50, least=0, most=10_000)  # in the target, of the final policy
    log_interval: int = 5_000
    checkpoint_interval: int = 50_000
    keep_policies: bool = False  # of every evaluation, not the last alone
    # Spent on finding this run's settings, where known: for reports.
    tuning_target_steps: int | None = setting(None, least=0)
    wandb: str | None = None  # PROJECT or TEAM/PROJECT of Weights & Biases that gets the numbers, too

    @property
    def source_steps(self) -> int:
        """Of the whole run, or what a run without them counts in their place."""
        return self.head_start + self.target_steps * self.source_steps_per_target_step

    @property
    def source_env_count(self) -> int:
        if self.collects in ("target", "none"):
            return 0
        return min(10, self.source_steps_per_target_step) if self.source_envs is None else self.source_envs

    @property
    def length(self) -> int:
        """Source steps, or their worth, that the run itself trains."""
        return 0 if self.tested_only else self.source_steps

    @property
    def tick(self) -> int:
        """Source steps (or their worth) by which the clock advances in one round of acting, stepping and learning."""
        envs, each = self.source_env_count, self.source_steps_per_target_step
        return envs if self.collects == "source" else min(envs, each) or each

    def source_acts_at(self, clock: int) -> bool:
        """Whether the sources step in the tick that begins then: more of them than F wait until they are behind."""
        envs = self.source_env_count
        return bool(envs) and clock < self.source_acts_until and clock // envs > (clock - self.tick) // envs

    @property
    def source_acts_until(self) -> int:
        """The clock at which the source is left: after a head start, where its transitions count less from then on."""
        left = self.head_start and self.learns_from in ("target", "fading")
        return self.head_start if left else self.source_steps

    @property
    def source_transitions(self) -> int:
        """Of the whole run: every environment of the source makes as many."""
        envs = self.source_env_count
        return -(-self.source_acts_until // envs) * envs if envs else 0

    @property
    def has_source(self) -> bool:
        """Whether there is one, live or a dataset."""
        return bool(self.source_env_count) or self.source_data is not None

    @property
    def updates_each(self) -> int:
        """Per target step."""
        if self.updates_per_target_step is not None:
            return self.updates_per_target_step
        return self.source_steps_per_target_step if self.has_source else 1

    @property
    def shares_updates(self) -> bool:
        """Whether every tick has as many of them: where not, all are in the tick with the target step."""
        return self.updates_each * self.tick % self.source_steps_per_target_step == 0

    @property
    def updates_per_tick(self) -> int:
        """Of a tick that learns."""
        if self.shares_updates:
            return self.updates_each * self.tick // self.source_steps_per_target_step
        return self.updates_each

    def target_acts_at(self, clock: int) -> bool:
        """Whether a target step is due in the tick that begins then."""
        return clock >= self.head_start and clock % self.source_steps_per_target_step == 0

    def target_steps_due(self, clock: int) -> int:
        """Target steps that the ticks before then owe."""
        return -(-max(clock - self.head_start, 0) // self.source_steps_per_target_step)

    def learns_at(self, clock: int) -> bool:
        """Whether the tick that begins then has updates."""
        return self.shares_updates or clock % self.source_steps_per_target_step == 0

    @property
    def target_budget(self) -> int:
        return self.target_steps if self.acts_in_target else 0

    @property
    def capacities(self) -> tuple[int, int]:
        """Transitions that a source and a target replay can hold; one unused where a domain is not collected."""
        source = min(self.replay_size, self.source_transitions) if self.source_env_count else 1
        return source, max(min(self.replay_size, self.target_budget), 1)

    @property
    def acts_in_target(self) -> bool:
        return self.collects in ("both", "target")


# Settings that change how a run is watched, not what it computes: they stay out of its name.
WATCHING = {"eval_interval", "eval_episodes", "eval_source_episodes", "final_episodes", "log_interval"} | {
    "allow_faulty_data",
    "checkpoint_interval",
    "env_processes",
    "keep_policies",
    "padded",
    "source_steps",  # as older runs name their length
    "target_log",
    "target_steps",
    "tuning_target_steps",
    "wandb",
}

GONE = {"control": "none"}  # settings that older runs name, and the value at which a run is the same without them
NEW_NAMES = {
    "bodies": "source_envs",
    "minimum_rows": "learning_starts",
    "rows": "learns_from",
    "source_body": "source_dynamics",
}
OLDER = NEW_NAMES | {
    "source_steps": "target_steps",
    "target_interval": "source_steps_per_target_step",
    "updates_per_step": "updates_per_target_step",
}
ALSO = {"beta": "penalty"}  # other names of a setting, for good


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
        settings = self._older_settings() | self.settings()
        extras = [f"{key}-{_short(key, settings[key])}" for key in sorted(self.chosen) if key not in WATCHING]
        name = ".".join([self.task.name, self.method, self.preset, *extras])
        if len(name) > LONGEST_NAME:
            name = f"{name[: LONGEST_NAME - 13]}.{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        return f"{name}.seed-{self.seed}"

    def _older_settings(self) -> dict[str, Any]:
        """What an older run's name calls them."""
        plan = self.schedule
        each = plan.source_steps_per_target_step if plan.has_source else 1
        older = {"target_interval": plan.source_steps_per_target_step, "updates_per_step": plan.updates_each // each}
        return older | {old: getattr(plan, name) for old, name in NEW_NAMES.items()}

    def computes_as(self, other: "RunConfig") -> bool:
        """Whether the two differ at most in how they are watched."""
        watched = WATCHING - {"target_steps", "padded"}
        mine, its = ({k: v for k, v in run.settings().items() if k not in watched} for run in (self, other))
        return (self.name, mine) == (other.name, its)

    @property
    def base(self) -> base_policy.Asked | None:
        """The base policy that it moves, if any."""
        plan = self.schedule
        if plan.base_policy is None or plan.residual is None:
            return None
        return base_policy.Asked(plan.base_policy, plan.base_sha256, plan.residual)

    @property
    def spec(self) -> Spec:
        """What its networks are built for."""
        spec = pairs.spec_of(self.task)
        return padding.padded(spec)._replace(present=padding.present(spec)) if self.schedule.padded else spec

    def cohort_key(self) -> str:
        """Equal for runs that can share one compiled program."""
        static = {**vars(self.schedule), **static_fields(self.sac), **static_fields(self.hyper)}
        del static["start_from"], static["tuning_target_steps"], static["wandb"]  # which no program knows of
        if self.schedule.source_data is None:  # whose transitions, shared by all lanes, depend on the base policy
            del static["base_policy"], static["base_sha256"], static["residual"]
        # Target episodes differ in length, and lanes share one clock: such a run has a cohort to itself.
        alone = self.name if self.schedule.target_mode == "episodic" else ""
        family = "any robot" if self.schedule.padded else pairs.family_of(self.task)
        method = self.recipe.method
        return repr((family, method.program or method.name, sorted(static.items()), alone))


def residuals_of(runs: Sequence[RunConfig]) -> list[Residual | None]:
    """Of each run, opened and tried out; those that are gone, were changed or do not fit are refused."""
    asked = [(run.base, run.task) for run in runs]
    return base_policy.open_residuals(asked) if any(its for its, _ in asked) else [None] * len(runs)


def _short(key: str, value: Any) -> str:
    if key in ("base_policy", "source_data", "start_from"):
        value = Path(str(value)).stem if key == "source_data" else Path(str(value)).name
    if isinstance(value, tuple):
        value = "x".join(map(str, value))
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", text)


def build(
    task: Any,
    method: str = DEFAULT,
    preset: str | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    *,
    allow_no_shift: bool = False,
) -> tuple[RunConfig, list[str]]:
    """A checked run and what its user should be told; without a preset, the method's first.

    The user's value wins over a recipe's, that over those of another backbone than the preset's, these over a preset's.
    """
    the_task = pairs.find(task)
    the_recipe = recipe(method)
    presets = the_recipe.method.presets
    preset = next(iter(presets)) if preset is None else preset
    if preset not in presets:
        raise unknown(f"preset of method '{method}'", preset, presets)
    parts: dict[str, type] = {"schedule": Schedule, "sac": Sac, "hyper": the_recipe.method.hyper}
    types_by_name: dict[str, Any] = {f.name: f.type for part in parts.values() for f in dataclasses.fields(part)}
    chosen, notices = _todays(settings or {}, types_by_name)
    for name, value in chosen.items():
        if name not in types_by_name and name not in OLDER:
            having = [
                other.name for other in METHODS.values() if name in {f.name for f in dataclasses.fields(other.hyper)}
            ]
            if having:
                raise OffdynError(f"method '{method}' has no setting {name}: it is one of {', '.join(having)}")
            raise unknown(f"setting of method '{method}'", name, types_by_name)
        chosen[name] = coerce(name, types_by_name.get(name, int), value)
    for name in ("base_policy", "source_data", "start_from", "target_log"):
        if chosen.get(name):
            chosen[name] = _located(name, chosen[name], the_task, seed)
    if the_recipe.offline and not chosen.get("source_data"):
        raise OffdynError(f"method '{method}' learns from a dataset: name one with --source-data NAME or FILE")
    values, guessed = _preset_values(presets[preset], pairs.modern_name(the_task), chosen)
    its_own = values.get("backbone", Sac.backbone)
    named = chosen.get("backbone", its_own)
    stands_on = backbone(named).settings
    values = {**stands_on, **values} if named == its_own else {**values, **stands_on}
    if guessed:
        notices.append(f"{the_task.name}: not in the tables of preset '{preset}', using {', '.join(guessed)}")
    if isinstance(the_task, pairs.OwnPair) and the_recipe.method.name == "vgdf":
        notices.append(f"{the_task.name}: nobody says which of its states end an episode; vgdf imagines that none does")
    never = {"final_episodes": 0} if chosen.get("eval_episodes") == 0 else {}
    nowhere = {} if pairs.plays_source(the_task) else {"eval_source_episodes": 0}
    below = {**values, **the_recipe.defaults}
    chosen = renamed(chosen, below)
    values = {**below, **never, **chosen, **the_recipe.fixed, **nowhere}
    if values.get("base_policy") is not None or values.get("residual") is not None:
        values |= base_policy.recorded(values)
    learns_from = values.get("learns_from", Schedule.learns_from)
    if learns_from not in MIXED and "domain_input" not in chosen:
        values["domain_input"] = "none"
    if learns_from == "fading":
        values.setdefault("source_fades", FADED_AFTER * values.get("target_steps", Schedule.target_steps))
    values.setdefault("batch_size", BATCH if learns_from == "both" else 2 * BATCH)
    made = {
        key: part(**{f.name: values[f.name] for f in dataclasses.fields(part) if f.name in values})
        for key, part in parts.items()
    }
    plan = _as_batched(the_task, made["schedule"])
    made["schedule"] = dataclasses.replace(
        plan, updates_per_target_step=plan.updates_each, **_in_whole_ticks(plan, chosen)
    )
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise OffdynError(f"seed {seed!r}: expected a whole number from 0 to {2**32 - 1}")
    config = RunConfig(
        the_task, method, preset, seed, **made, allow_no_shift=allow_no_shift, chosen=tuple(sorted(chosen))
    )
    check(config)
    if config.schedule.acts_in_target and (config.schedule.source_env_count or config.schedule.source_data):
        pairs.check(the_task, allow_no_shift)
    return config, notices


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
        needed = words.get(want, "whole numbers such as 256,256")
        raise OffdynError(f"setting {name}: expected {needed}, got {shown(value)}") from None


def check(config: RunConfig) -> None:
    """Refuse what cannot run, in words."""
    plan, sac, values = config.schedule, config.sac, config.settings()

    def need(ok: bool, name: str, wanted: str) -> None:
        if not ok:
            raise OffdynError(f"setting {name}: expected {wanted}, got {shown(values[name])}")

    for part in (plan, sac, config.hyper):
        for field in dataclasses.fields(part):
            need((said := expected(field, values[field.name])) is None, field.name, said or "")
    need(sac.temperature > 0 or not sac.tune_temperature, "temperature", "more than 0 where it is tuned")
    need(sac.log_std_low < sac.log_std_high, "log_std_low", "less than log_std_high")
    for shuffled, averaged in (("deviation_shuffled", "deviation_averaged"), ("weight_shuffled", "weight_averaged")):
        need(values.get(shuffled, 0) + values.get(averaged, 0) <= 1, averaged, f"at most 1 together with {shuffled}")
    need(
        sac.domain_input == "none" or plan.learns_from in MIXED,
        "domain_input",
        "none, where one domain alone is learned from",
    )
    split = not sac.temperature_per_domain or (sac.tune_temperature and plan.learns_from in MIXED)
    need(split, "temperature_per_domain", "false, unless it is tuned on both domains")
    need(sac.critics >= (sac.backup_critics or 1), "backup_critics", f"at most critics ({sac.critics}), or none")
    need(
        not sac.critic_layer_norm or sac.backbone == "classic", "critic_layer_norm", "false: it is an option of classic"
    )
    if plan.padded:
        need(isinstance(config.task, pairs.Task), "padded", "false: only robots are padded")
        need(config.recipe.method.pads, "padded", f"false: {config.method} needs each robot's own size")
    actor_network(sac, config.spec), critic_network(sac, config.spec)  # which say what widths they cannot have
    gap = plan.source_dynamics == "stock" or (plan.collects == "source" and isinstance(config.task, pairs.Task))
    need(gap, "source_dynamics", "stock: only a run of a robot in its source alone (sac-src) can have it shifted")
    recorded = plan.target_log is None or isinstance(config.task, pairs.OwnPair)
    need(recorded, "target_log", "none: it records a custom --target; --keep-replay keeps the transitions of a task")
    offline = plan.source_data is not None
    if plan.padded:
        plain = not offline and not values.get("cloning", False)
        need(plain, "padded", "false: with a dataset each robot has a program of its own")
    if isinstance(config.task, pairs.OwnPair) and plan.collects in ("both", "source"):
        config.task.reference("source")  # without one, it says so
    if offline:
        need(plan.collects in ("target", "none"), "collects", "target or none: the source is a dataset")
        used = plan.learns_from != "target" or "learns_from" in config.recipe.fixed
        need(used, "learns_from", "both or source: the dataset's, too")
    has = {"source": plan.collects in ("both", "source") or offline, "target": plan.acts_in_target}
    fed = all(has.values()) if plan.learns_from in MIXED else has[plan.learns_from]
    need(fed, "learns_from", f"what the run collects (it collects {plan.collects})")
    if config.recipe.method.compares_domains:
        need(all(has.values()), "collects", f"both: {config.method} compares the two domains")
    unused = sac.source_fades == Sac.source_fades
    need(unused or plan.learns_from == "fading", "source_fades", f"{Sac.source_fades:g}, unless learns_from is fading")
    if plan.head_start:
        need(all(has.values()), "head_start", f"0: the run has one domain (it collects {plan.collects})")
        each = plan.source_steps_per_target_step
        need(plan.head_start % each == 0, "head_start", f"a multiple of {each} (source_steps_per_target_step)")
    if plan.collects == "both":
        bodies = plan.source_env_count
        each = plan.source_steps_per_target_step
        fits = each % bodies == 0 or bodies > each
        need(fits, "source_envs", f"a divisor of {each} (source_steps_per_target_step), or more than that")
    else:
        each = plan.source_steps_per_target_step
        fair = plan.shares_updates or each % plan.tick == 0
        need(fair, "source_envs", f"a divisor of {each} (source_steps_per_target_step)")
    for name in ("eval_interval", "log_interval", "checkpoint_interval"):
        nearest = max(plan.tick, round(values[name] / plan.tick) * plan.tick)
        need(values[name] % plan.tick == 0, name, f"a multiple of {plan.tick} (one tick), say {nearest}")
    long = max(plan.source_steps, plan.target_steps * plan.updates_each)
    need(long <= LONGEST, "target_steps", f"at most {LONGEST} source steps and updates in all, with {long}")
    shares = plan.source_steps % plan.tick == 0
    need(shares, "target_steps", f"whole ticks of {plan.tick} source steps, got {plan.source_steps} of them;")
    budget = plan.source_steps if plan.collects == "source" else plan.target_budget
    enough = plan.collects == "none" or plan.learning_starts < budget
    need(enough, "learning_starts", f"less than the {budget} transitions the run can collect (or more target_steps)")
    need(plan.replay_size >= plan.learning_starts, "replay_size", f"at least learning_starts ({plan.learning_starts})")
    if plan.source_env_count:
        need(plan.replay_size % plan.source_env_count == 0, "replay_size", f"a multiple of {plan.source_env_count}")


def _todays(settings: Mapping[str, Any], known: Container[str]) -> tuple[dict[str, Any], list[str]]:
    """Settings under the names they have now, and which of them their user may want to write otherwise."""
    new: dict[str, Any] = {}
    notices = []
    for name, value in settings.items():
        today = name if name in known else (ALSO | NEW_NAMES).get(name, name)
        if today in new or (today != name and today in settings):
            raise OffdynError(f"settings {name} and {today} say the same thing: name one of them")
        if name in NEW_NAMES and today != name:
            notices.append(f"setting {name} is called {today} now")
        new[today] = value
    return new, notices


def renamed(settings: Mapping[str, Any], below: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same settings under today's names; `below` holds defaults that differ from those of `Schedule`.

    `source_steps` are a length in source steps, `updates_per_step` are counted per source step where there are any.
    """
    new = {name: value for name, value in settings.items() if name not in GONE or GONE[name] != value}
    for old, name in OLDER.items():
        if new.get(old) is not None and new.get(name) is not None:
            raise OffdynError(f"settings {old} and {name} say the same thing: name one of them")
    new = {NEW_NAMES.get(name, name): value for name, value in new.items()}
    if (interval := new.pop("target_interval", None)) is not None:
        new["source_steps_per_target_step"] = interval
    known = {"source_steps_per_target_step": Schedule.source_steps_per_target_step, **(below or {}), **new}
    each = known["source_steps_per_target_step"]
    if (steps := new.pop("source_steps", None)) is not None:
        if not (isinstance(steps, int) and isinstance(each, int) and each >= 1):
            raise OffdynError(
                f"settings source_steps and target_interval: expected whole numbers, got {steps!r}, {each!r}"
            )
        if steps % each:
            nearest = max(each, round(steps / each) * each)
            raise OffdynError(
                f"setting source_steps: expected a multiple of {each} (source_steps_per_target_step), say {nearest}, "
                f"got {steps}"
            )
        new["target_steps"] = steps // each
    if (updates := new.pop("updates_per_step", None)) is not None:
        has_source = known.get("collects", "both") in ("both", "source") or known.get("source_data") is not None
        new["updates_per_target_step"] = updates * (each if has_source else 1)
    return new


def _as_batched(task: pairs.Pair, plan: Schedule) -> Schedule:
    """With as many source environments as a batched source has, or, where it takes any number, as is usual."""
    if not isinstance(task, pairs.OwnPair) or task.batch is None or plan.collects not in ("both", "source"):
        return plan
    each = plan.source_steps_per_target_step
    usual = batched.USUAL if each < batched.USUAL or each % batched.USUAL == 0 else each
    if plan.source_envs is None:
        return dataclasses.replace(plan, source_envs=task.batch or usual)
    if task.batch not in (batched.ANY, plan.source_envs):
        raise OffdynError(
            f"setting source_envs: expected {task.batch}, as many as {task.source} steps at once, got "
            f"{plan.source_envs}"
        )
    return plan


def _in_whole_ticks(plan: Schedule, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Intervals, a head start and the replay's size, where nobody chose them, as the nearest multiples of a tick."""
    wholes = {name: plan.tick for name in ("eval_interval", "log_interval", "checkpoint_interval")}
    wholes["replay_size"] = plan.source_env_count or plan.tick
    if plan.head_start:
        wholes["head_start"] = plan.source_steps_per_target_step
    if min(wholes.values()) < 1:
        return {}  # which is refused
    return {n: max(1, round(getattr(plan, n) / of)) * of for n, of in wholes.items() if n not in chosen}


def _preset_values(preset: Preset, task: str, chosen: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What the preset says for this task, and what of it is a guess because its tables do not name the task."""
    values = dict(preset.fields)
    if chosen.get("source_data"):
        return values | {"collects": "target", **preset.offline, **preset.offline_by_task.get(task, {})}, []
    if task in preset.by_task or not preset.by_task:
        return values | dict(preset.by_task.get(task, {})), []
    guessed = [f"{name}={value}" for name, value in preset.otherwise.items() if name not in chosen]
    return values | dict(preset.otherwise), guessed


def _located(name: str, value: str, task: pairs.Pair, seed: int) -> str:
    """A path as one that means the same from every folder; a dataset's name as it is."""
    if name in ("base_policy", "start_from"):
        value = value.replace("{seed}", str(seed)).replace("{robot}", pairs.family_of(task))
    kind = "lerobot:" if value.startswith("lerobot:") else ""
    path = Path(value.removeprefix(kind))
    return f"{kind}{path.resolve()}" if path.exists() or name == "target_log" else value


def lists_of_floats(method: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One set of settings for each combination of the values listed for settings that may differ by lane.

    A value "preset" leaves that setting to the preset: `penalty=["preset", 0]` is each run beside its ablation.
    """
    parts = (Schedule, Sac, recipe(method).method.hyper)
    floats = {f.name for part in parts for f in dataclasses.fields(part) if f.type is float}
    options = {}
    for name, value in settings.items():
        several = value.split(",") if isinstance(value, str) else value
        listed = {name, ALSO.get(name)} & floats and isinstance(several, list | tuple)
        if listed and not several:
            raise OffdynError(f"{name}: expected a number or several, got none")
        options[name] = list(several) if listed else [value]
    combinations = (dict(zip(options, values, strict=True)) for values in itertools.product(*options.values()))
    return [{name: value for name, value in each.items() if value != PRESETS_OWN} for each in combinations]
