"""A head start: the source alone, then the target; counted by hand, learned from what there is, resumed, refused."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn._util.types import SOURCE, TARGET
from offdyn.algos.registry import DEFAULT
from offdyn.algos.sac import Sac, faded
from offdyn.data.datasets import save
from offdyn.data.replay import Replay, unpack
from offdyn.data.transition import row_width
from offdyn.training.cohort import Cohort
from offdyn.training.config import RunConfig, build

from .resuming import stopped_and_resumed
from .small import PUSH, SMALL_NETWORKS, curve, differing, outcome, rows_of, small, train

BRIEF: dict[str, Any] = {"eval_episodes": 1, "eval_source_episodes": 1, "final_episodes": 2, "batch_size": 8}
BRIEF |= {"learning_starts": 4, "random_steps": 2, "log_interval": 40, "checkpoint_interval": 60, **SMALL_NETWORKS}
BRIEF |= {
    "target_steps": 20,
    "updates_per_target_step": 4,
    "head_start": 60,
    "eval_interval": 40,
    "source_steps_per_target_step": 5,
}
# A tick has five source steps, then one target step, and four updates: those of the head start from step 5 on, the
# first tick before which there are four source transitions, then from 80 on, before which there are four of the target.
LEFT = [(0, 0, 0), (40, 0, 28), (60, 4, 44), (60, 12, 76), (60, 20, 108)]
MIXED = [(0, 0, 0), (40, 0, 28), (80, 4, 44), (120, 12, 76), (160, 20, 108)]


def one(seed: int = 0, **settings: Any) -> RunConfig:
    return build(PUSH, "head-start", seed=seed, settings=BRIEF | settings)[0]


def test_it_is_the_default_method_and_its_numbers_are_those_of_its_page() -> None:
    config = build("hopper-big-head")[0]
    plan = config.schedule
    assert config.method == DEFAULT == "head-start"
    assert (plan.head_start, plan.source_steps_per_target_step, plan.updates_each) == (250_000, 10, 8)
    assert (config.sac.backbone, config.sac.critic_widths, config.sac.actor_widths) == ("simba", (128, 128), (128,))
    assert (plan.learns_from, config.sac.domain_input, config.sac.source_fades) == ("fading", "flag", 20_000)
    assert (config.sac.batch_size, config.sac.actor_average) == (256, 3e-4)


def test_a_source_fades_by_a_fifth_of_the_target_steps_unless_it_is_told_otherwise() -> None:
    assert one(target_steps=500).sac.source_fades == 100
    assert one(target_steps=500, source_fades=7).sac.source_fades == 7


def test_it_is_of_whole_target_steps_where_nobody_chose_its_length() -> None:
    assert build("hopper-big-head", settings={"source_steps_per_target_step": 160})[0].schedule.head_start == 249_920
    assert build("hopper-big-head", settings={"source_steps_per_target_step": 7})[0].schedule.head_start == 249_998


def test_nobody_has_to_turn_the_flag_off_to_go_on_with_the_target_alone() -> None:
    assert one(learns_from="target").sac.domain_input == "none"
    with pytest.raises(OffdynError, match="domain_input: expected none"):
        one(learns_from="target", domain_input="flag")


@pytest.mark.parametrize(
    ("settings", "counted"),
    [
        ({}, LEFT),
        ({"learns_from": "both"}, MIXED),
        ({"learns_from": "target"}, LEFT),
        ({"source_envs": 1}, None),
    ],
    ids=["then a fading source", "then both", "then the target alone", "one source step a tick"],
)
def test_steps_and_updates_are_those_counted_by_hand_also_after_a_resume(
    settings: dict[str, Any], counted: list[tuple[int, int, int]] | None, tmp_path: Path
) -> None:
    runs = [one(**settings), one(1, **settings)]
    train(runs, tmp_path / "whole")
    for config in runs if counted else ():
        lines = curve(tmp_path / "whole" / config.name)
        assert [
            tuple(int(line[name]) for name in ("source_steps", "target_steps", "updates")) for line in lines
        ] == counted
    stopped_and_resumed(runs, tmp_path / "parts", 25, 70, 125)
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []


def networks(cohort: Cohort) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(cohort.learner.lanes.agent)]


def test_until_the_target_has_enough_transitions_the_networks_wait() -> None:
    cohort = Cohort([one()], 1)
    seen = {}
    for _ in range(25):
        cohort.tick()
        seen[cohort.clock] = networks(cohort)
    same = {clock: all(map(np.array_equal, seen[clock], seen[clock + 5])) for clock in range(5, 125, 5)}
    assert [clock for clock, equal in same.items() if equal] == [60, 65, 70, 75]


def test_whole_target_episodes_begin_after_the_head_start() -> None:
    cohort = Cohort([one(target_mode="episodic")], 1)
    while cohort.clock < 60:
        assert not cohort.plays_next
        cohort.tick()
    played = 0
    while cohort.plays_next:
        cohort.play()
        played += 1
    assert cohort.target_rows == played > 1
    cohort.tick()
    assert cohort.target_rows == played
    assert cohort.source_rows == 60


def test_an_empty_replay_gives_the_others_transitions_as_its_own() -> None:
    width = row_width(PUSH.spec)
    source = Replay(jnp.full((4, width), 1.0), jnp.asarray(4), PUSH.spec, None, SOURCE)
    for size, row in ((0, 1.0), (3, 2.0)):
        target = Replay(jnp.full((4, width), 2.0), jnp.asarray(size), PUSH.spec, None, TARGET, source)
        batch = target.sample(jax.random.key(0), 5)
        np.testing.assert_array_equal(batch.reward, np.full(5, row))
        np.testing.assert_array_equal(batch.domain, np.full(5, TARGET))


@pytest.mark.parametrize(
    ("size", "fades", "share"), [(0, 100.0, 0.0), (300, 100.0, 0.25), (100, 300.0, 0.75), (100, 0.0, 0.0)]
)
def test_the_sources_share_of_a_batch_falls_as_target_transitions_come_in(
    size: int, fades: float, share: float
) -> None:
    count = 20_000
    source, target = (
        unpack(jnp.full((count, row_width(PUSH.spec)), value), PUSH.spec, domain)
        for value, domain in ((1.0, SOURCE), (2.0, TARGET))
    )
    source = source._replace(weight=0.5 * source.weight)
    batch = faded(source, target, jnp.asarray(size), Sac(source_fades=fades), jax.random.key(0))
    of_source = np.asarray(batch.domain) == SOURCE
    assert of_source.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / count))
    for column, theirs, ours in (("reward", 1.0, 2.0), ("weight", 0.5, 1.0)):
        np.testing.assert_array_equal(getattr(batch, column), np.where(of_source, theirs, ours))
    np.testing.assert_array_equal(batch.next_observation[:, 0], np.where(of_source, 1.0, 2.0))


@pytest.mark.parametrize("method", ["par", "darc-weight", "vgdf", "model-backup", "duo"])
def test_a_method_that_compares_domains_has_a_head_start_in_which_the_source_stands_for_both(
    method: str, tmp_path: Path
) -> None:
    older = {"source_steps", "target_interval", "updates_per_step"}
    narrow = {name: value for name, value in small(method).items() if name not in older}
    settings = narrow | BRIEF | {"learns_from": "fading"}
    config = build(PUSH, method, settings=settings)[0]
    train([config], tmp_path)
    counted = [
        tuple(int(line[name]) for name in ("source_steps", "target_steps", "updates"))
        for line in curve(tmp_path / config.name)
    ]
    assert counted == LEFT


def test_with_a_dataset_the_target_begins_at_once_and_both_are_learned_from(tmp_path: Path) -> None:
    save(rows_of(PUSH, 200), tmp_path / "rows")
    settings = {name: value for name, value in BRIEF.items() if name != "head_start"}
    config = build(PUSH, "head-start", settings=settings | {"source_data": str(tmp_path / "rows")})[0]
    assert (config.schedule.head_start, config.schedule.learns_from, config.sac.domain_input) == (0, "both", "flag")
    train([config], tmp_path / "out")
    last = curve(tmp_path / "out" / config.name)[-1]
    assert (last["source_steps"], last["target_steps"], last["updates"]) == ("0", "20", "64")


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("sac-tar", {}, "head_start: expected 0: the run has one domain"),
        ("head-start", {"head_start": 62}, "head_start: expected a multiple of 5"),
        ("head-start", {"head_start": -5}, "head_start"),
    ],
)
def test_a_head_start_that_makes_no_sense_is_refused(method: str, settings: dict[str, Any], said: str) -> None:
    settings = BRIEF | settings
    preset = settings.pop("preset", None)
    with pytest.raises(OffdynError, match=said):
        build(PUSH, method, preset, settings=settings)
