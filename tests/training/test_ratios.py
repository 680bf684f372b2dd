"""Any number of source steps and of updates per target step: counted by hand, and resumed between target steps."""

from pathlib import Path
from typing import Any

import pytest

from offdyn._util.errors import OffdynError
from offdyn.training.cohort import Cohort
from offdyn.training.config import RunConfig, build

from .resuming import stopped_and_resumed
from .small import PUSH, SMALL_NETWORKS, curve, differing, outcome, train

BRIEF: dict[str, Any] = {"eval_episodes": 1, "eval_source_episodes": 1, "final_episodes": 2, "batch_size": 8}
BRIEF |= {"learning_starts": 4, "log_interval": 30, "checkpoint_interval": 60, **SMALL_NETWORKS}
THREE_FIVE = {"target_steps": 40, "source_steps_per_target_step": 3, "updates_per_target_step": 5, "eval_interval": 30}
TEN = {"target_steps": 20, "source_steps_per_target_step": 10, "source_envs": 1, "eval_interval": 50}
MORE_THAN_F = {"target_steps": 40, "source_steps_per_target_step": 3, "source_envs": 16, "eval_interval": 30}
TEN_FOUR, TEN_TWENTY = TEN | {"updates_per_target_step": 4}, TEN | {"updates_per_target_step": 20}

# Updates begin in the first tick before which there were four target steps. With three source steps and one target step
# a tick, that is the tick at step 12, and each of the 36 from it on has 5 of them.
COUNTED_THREE_FIVE = [(0, 0, 0), (30, 10, 30), (60, 20, 80), (90, 30, 130), (120, 40, 180)]
# With one source step a tick, the fourth target step is made at step 30. 4 updates for 10 ticks: all of them are in the
# tick with the next target step, at 40, 50 ... 190.
COUNTED_TEN_FOUR = [(0, 0, 0), (50, 5, 4), (100, 10, 24), (150, 15, 44), (200, 20, 64)]
# A tick has one target step and three updates; the sources step in those at 0, 18, 33, 48, 66, 81, 96 and 114, the
# first at or after each multiple of 16, and stand still in the others. Updates begin with the tick at 12.
COUNTED_MORE_THAN_F = [(0, 0, 0), (32, 10, 18), (64, 20, 48), (96, 30, 78), (128, 40, 108)]
# 20 updates for 10 ticks are 2 for each, from step 31 on.
COUNTED_TEN_TWENTY = [(0, 0, 0), (50, 5, 38), (100, 10, 138), (150, 15, 238), (200, 20, 338)]


def one(settings: dict[str, Any], seed: int = 0) -> RunConfig:
    return build(PUSH, "sac", seed=seed, settings=BRIEF | settings)[0]


@pytest.mark.parametrize(
    ("settings", "counted", "stops"),
    [
        (THREE_FIVE, COUNTED_THREE_FIVE, (21, 75)),
        (TEN_FOUR, COUNTED_TEN_FOUR, (47, 103)),
        (TEN_TWENTY, COUNTED_TEN_TWENTY, (33, 158)),
        (MORE_THAN_F, COUNTED_MORE_THAN_F, (18, 75)),
    ],
    ids=["3 and 5", "10 and 4", "10 and 20", "16 sources for 3"],
)
def test_steps_and_updates_are_those_counted_by_hand_also_after_a_resume_between_target_steps(
    settings: dict[str, Any], counted: list[tuple[int, int, int]], stops: tuple[int, ...], tmp_path: Path
) -> None:
    runs = [one(settings), one(settings, 1)]
    train(runs, tmp_path / "whole")
    names = ("source_steps", "target_steps", "updates")
    for config in runs:
        lines = curve(tmp_path / "whole" / config.name)
        assert [tuple(int(line[name]) for name in names) for line in lines] == counted
    stopped_and_resumed(runs, tmp_path / "parts", *stops)
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []


def test_updates_that_ticks_cannot_share_are_all_in_the_tick_with_the_target_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at: list[int] = []
    learn = Cohort.learn
    monkeypatch.setattr(Cohort, "learn", lambda cohort: (at.append(cohort.clock), learn(cohort)))
    cohort = Cohort([one(TEN_FOUR)], 1)
    for _ in range(100):
        cohort.tick()
    assert at == [40, 50, 60, 70, 80, 90]
    assert cohort.updates == 24


@pytest.mark.parametrize(
    ("each", "bodies", "updates", "tick", "per_tick", "shared"),
    [
        (10, None, 10, 10, 10, True),
        (10, 5, 10, 5, 5, True),
        (10, 5, 5, 5, 5, False),
        (10, 2, 20, 2, 4, True),
        (3, None, 5, 3, 5, True),
        (1, None, 20, 1, 20, True),
        (25, 5, 7, 5, 7, False),
    ],
)
def test_what_a_tick_has_of_updates(
    each: int, bodies: int | None, updates: int, tick: int, per_tick: int, shared: bool
) -> None:
    plan = one({"source_steps_per_target_step": each, "source_envs": bodies, "updates_per_target_step": updates,
                "target_steps": 100, "eval_interval": 50 * tick, "log_interval": 50 * tick,
                "checkpoint_interval": 50 * tick, "replay_size": 500 * tick}).schedule  # fmt: skip
    assert (plan.tick, plan.updates_per_tick) == (tick, per_tick)
    assert [plan.learns_at(clock) for clock in (0, tick)] == [True, shared or tick == each]


@pytest.mark.parametrize("each", [1, 3, 10, 64])
def test_sources_that_are_more_than_f_keep_the_ratio_to_within_one_step_of_each(each: int) -> None:
    rarely = dict.fromkeys(("eval_interval", "log_interval", "checkpoint_interval"), 64 * each)
    more = {"source_steps_per_target_step": each, "source_envs": 100, "target_steps": 400, "replay_size": 5_000}
    plan = one(more | rarely).schedule
    made = 0
    for clock in range(0, plan.source_steps, plan.tick):
        made += 100 * plan.source_acts_at(clock)
        assert clock < made <= clock + 100
    assert made == plan.source_transitions


def test_a_source_alone_has_its_updates_per_source_step_however_many_bodies_share_it() -> None:
    settings = {"collects": "source", "learns_from": "source", "target_steps": 40, "eval_interval": 40,
                "log_interval": 40, "checkpoint_interval": 40, "replay_size": 400}  # fmt: skip
    for bodies, updates in ((4, 4), (20, 20), (10, 10)):
        assert one(settings | {"source_envs": bodies}).schedule.updates_per_tick == updates
    with pytest.raises(OffdynError, match="setting source_envs: expected a divisor of 10"):
        one(settings | {"source_envs": 4, "updates_per_target_step": 4})


def test_intervals_that_nobody_chose_are_whole_ticks() -> None:
    plan = build("hopper-big-head", "sac", settings={"source_steps_per_target_step": 3})[0].schedule
    assert (plan.eval_interval, plan.log_interval, plan.checkpoint_interval) == (9_999, 5_001, 50_001)
    assert plan.replay_size == 999_999
    with pytest.raises(OffdynError, match="setting eval_interval: expected a multiple of 3"):
        build("hopper-big-head", "sac", settings={"source_steps_per_target_step": 3, "eval_interval": 10_000})
