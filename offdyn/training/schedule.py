"""A run's schedule: what it acts in and learns from, how long it is, and what happens how often."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._util.errors import OffdynError
from .._util.fields import setting
from ..envs.custom_batch import PROCESSES


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
    # Domains whose transitions train critics and actor.
    learns_from: str = setting("both", choices=("both", "source", "target"))
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
        """The clock at which the source is left: after a head start, where none of its transitions is used any more."""
        return self.head_start if self.head_start and self.learns_from == "target" else self.source_steps

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


# Columns of a curve as older runs name them.
OLDER_COLUMNS = {"penalty_mean": "reward_penalty", "spread_of_imagined_values": "std_of_imagined_values"} | {
    f"{name}_rows": f"{name}_transitions"
    for name in (
        "mean_weight_of_source",
        "deviation_on_source",
        *(
            f"{what}_on_{which}_target"
            for what in ("deviation", "ensemble_error", "ensemble_log_likelihood")
            for which in ("fresh", "held-out")
        ),
    )
}


def todays_column(name: str) -> str:
    return OLDER_COLUMNS.get(name, name)


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
