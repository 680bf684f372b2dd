"""In small, every method still does what it is: all that is counted in steps shrinks alike, ratios stay."""

import functools
import itertools

import pytest

from offdyn._util.errors import OffdynError
from offdyn.studies.scale import all_scaled, scaled
from offdyn.studies.study import load, shipped
from offdyn.training.config import RunConfig

from .tiny import study

RATIOS = ("source_steps_per_target_step", "updates_per_target_step", "source_envs", "eval_episodes", "final_episodes")


@functools.cache
def of_seed_0(study: str) -> list[RunConfig]:
    return load(study).runs([0])[0]


def first(study: str, *only: str) -> RunConfig:
    return load(study).runs([0], only)[0][-1]


def test_length_budget_warm_up_replay_and_watching_are_a_hundredth() -> None:
    run = first("online", "vgdf", "ant-short-feet")
    small = scaled(run, 0.01)
    assert (run.schedule.source_steps, small.schedule.source_steps) == (1_000_000, 10_000)
    assert (run.schedule.target_budget, small.schedule.target_budget) == (100_000, 1_000)
    assert (run.hyper.warm_up, small.hyper.warm_up) == (100_000, 1_000)
    assert (run.schedule.replay_size, small.schedule.replay_size) == (1_000_000, 10_000)
    assert (small.schedule.eval_interval, small.schedule.log_interval) == (100, 50)
    assert small.schedule.checkpoint_interval == 500


def test_how_often_something_is_learned_and_how_stays() -> None:
    run = first("online", "vgdf", "ant-short-feet")
    small = scaled(run, 0.01)
    assert small.sac == run.sac
    assert {name for name in vars(run.hyper) if getattr(run.hyper, name) != getattr(small.hyper, name)} == {"warm_up"}
    for name in RATIOS:
        assert getattr(small.schedule, name) == getattr(run.schedule, name)


LONG = [name for name in shipped() if name != "demo"]  # whose 120 target steps do not shrink so far


@pytest.mark.parametrize(
    ("study", "scale"), [*itertools.product(LONG, [0.5, 0.01, 0.0037, 0.0005]), ("demo", 0.5), ("demo", 0.1)]
)
def test_every_run_of_every_study_is_whole_ticks_at_any_scale_and_has_rows_to_learn_from(
    study: str, scale: float
) -> None:
    for run in of_seed_0(study):
        plan = scaled(run, scale).schedule  # checks every setting
        assert plan.source_steps % plan.tick == 0
        if plan.acts_in_target:
            assert plan.source_steps % plan.source_steps_per_target_step == 0
            assert plan.learning_starts < plan.target_budget
        assert plan.source_steps == pytest.approx(run.schedule.source_steps * scale, rel=0.02, abs=plan.tick)


def test_warm_ups_end_before_the_run_does() -> None:
    for run in of_seed_0("online"):
        small = scaled(run, 0.001)
        if hasattr(small.hyper, "warm_up"):
            assert 0 < small.hyper.warm_up < small.schedule.source_steps


def test_a_budget_too_small_for_the_first_rows_has_fewer_of_them() -> None:
    run = first("online", "par", "ant-short-feet")
    assert scaled(run, 0.5).schedule.learning_starts == run.schedule.learning_starts == 128
    assert scaled(run, 0.005).schedule.learning_starts == 50  # of 500 target steps


def test_the_whole_size_changes_nothing_and_the_name_stays() -> None:
    run = first("online", "darc", "ant-short-feet")
    assert scaled(run, 1.0) == run
    assert scaled(run, 0.01).name == run.name


def test_a_run_goes_on_from_the_small_one_although_its_name_says_what_shrank() -> None:
    for methods in (["sac-tune"], ["sac-tune", "sac-src"]):
        runs = study(*methods, settings={"replay_size": 1000}).runs([0])[0]
        first, second = all_scaled(runs, 0.5)
        assert "replay_size-500" in first.name
        assert second.schedule.start_from == first.name


def test_quick_watches_less_and_computes_the_same() -> None:
    run = scaled(first("online", "par", "ant-short-feet"), 0.01)
    quick = scaled(first("online", "par", "ant-short-feet"), 0.01, quick=True)
    assert quick.computes_as(run)
    assert quick.schedule.source_steps // quick.schedule.eval_interval == 5
    assert quick.schedule.eval_episodes < run.schedule.eval_episodes


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0, float("nan")])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(OffdynError, match="--scale: expected more than 0 and at most 1"):
        scaled(first("online", "par"), scale)


def test_a_scale_that_leaves_nothing_to_learn_from_is_refused_with_the_run() -> None:
    with pytest.raises(OffdynError, match=r"\.par\.reported\.seed-0 at scale 1e-06: setting learning_starts"):
        scaled(first("online", "par"), 1e-6)
