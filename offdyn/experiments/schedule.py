"""A run's schedule: what it acts in and learns from, how long it is, and what happens how often."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Schedule:
    """How long a run is and what happens how often; all in source steps unless said otherwise."""

    source_steps: int = 1_000_000  # the target budget is this over target_interval
    target_interval: int = 10  # F: source steps per target step
    bodies: int | None = None  # source bodies per run; None: the smaller of 10 and target_interval
    collects: str = "both"  # domains the run acts in
    source_body: str = "stock"  # or shifted: the target's own body is the source, for what can be learned without a gap
    rows: str = "both"  # domains whose rows train critics and actor
    source_data: str | None = None  # a dataset, by name or path, in place of a source that is acted in
    allow_faulty_data: bool = False  # although the doctor found something fatal in it
    start_from: str | None = None  # folder of a run whose networks this one goes on from; may name {seed} and {robot}
    tested_only: bool = False  # those networks are tested as they are: nothing is collected or trained
    target_mode: str = "steps"  # or episodic: whole target episodes, and between them what they owe
    target_log: str | None = None  # folder in which every target step is written down as it happens
    padded: bool = False  # fill robots up to one size: runs of all robots then share one program, for a GPU
    env_processes: str = "auto"  # source bodies of one's own: each in a process, on, off, or where that pays
    updates_per_step: int = 1  # per source step, or its worth of a dataset; per target step where there is no source
    minimum_rows: int = 128  # that each collected replay holds before the first update
    replay_size: int = 1_000_000  # rows per domain, of which a shorter run takes only what it can fill
    eval_interval: int = 10_000
    eval_episodes: int = 10  # in the target; 0: the curve then shows training episodes
    eval_source_episodes: int = 2
    final_episodes: int = 50  # in the target, of the final policy
    log_interval: int = 5_000
    checkpoint_interval: int = 50_000
    keep_policies: bool = False  # of every evaluation, not the last alone
    tuning_target_steps: int | None = None  # spent on finding this run's settings, where known: for reports
    wandb: str | None = None  # PROJECT or TEAM/PROJECT of Weights & Biases that gets the numbers, too

    @property
    def source_bodies(self) -> int:
        if self.collects in ("target", "none"):
            return 0
        return min(10, self.target_interval) if self.bodies is None else self.bodies

    @property
    def length(self) -> int:
        """Source steps, or their worth, that the run itself trains."""
        return 0 if self.tested_only else self.source_steps

    @property
    def tick(self) -> int:
        """Source steps (or their worth) by which the clock advances in one round of acting, stepping and learning."""
        return self.source_bodies or self.target_interval

    @property
    def updates_per_tick(self) -> int:
        without_source = not self.source_bodies and self.source_data is None
        return self.updates_per_step * (1 if without_source else self.tick)

    @property
    def target_budget(self) -> int:
        return self.source_steps // self.target_interval if self.acts_in_target else 0

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
    "source_steps",
    "target_log",
    "tuning_target_steps",
    "wandb",
}

GONE = {"control": "none"}  # settings that older runs name, and the value at which a run is the same without them


def without_gone(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an older run's settings say today."""
    return {name: value for name, value in settings.items() if name not in GONE or GONE[name] != value}
