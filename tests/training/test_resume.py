"""A cohort that was stopped and resumed ends with the same bytes as one that never stopped."""

from pathlib import Path

import pytest

from . import small
from .resuming import check, stopped_and_resumed
from .small import differing, outcome, run

EVERYTHING = {
    "normalise_observations": True,
    "tune_temperature": True,
    "gradient_clip": 1.0,
    "actor_interval": 2,
    "critic_layer_norm": True,
    "replay_size": 60,  # a ring: fewer rows than the source gives, more than the target does
    "encoder_interval": 3,
}


def test_a_resumed_cohort_with_every_option_and_the_released_preset_equals_one_that_never_stopped(
    tmp_path: Path,
) -> None:
    runs = [run("par", seed, preset="released", **EVERYTHING) for seed in (0, 1)]
    assert runs[0].hyper.slow_encoder
    last = check(runs, tmp_path, 215)
    assert float(last["temperature"]) != pytest.approx(0.2, abs=1e-4)


def test_a_resumed_run_in_the_target_alone_equals_one_that_never_stopped(tmp_path: Path) -> None:
    one = run("sac-tar-10", source_envs=None, normalise_observations=True, log_interval=40)
    last = check([one], tmp_path, 230)
    assert int(last["target_steps"]) == 48
    assert int(last["source_steps"]) == 0


def test_a_resumed_run_in_the_source_alone_equals_one_that_never_stopped(tmp_path: Path) -> None:
    last = check([run("sac", collects="source", learns_from="source", replay_size=50)], tmp_path, 225)
    assert int(last["target_steps"]) == 0
    assert int(last["source_steps"]) == 480


def test_a_cohort_stopped_several_times_equals_one_that_never_stopped(undisturbed: Path, tmp_path: Path) -> None:
    stopped_and_resumed(small.two_runs(), tmp_path / "parts", *range(105, 480, 125))
    assert differing(outcome(undisturbed), outcome(tmp_path / "parts")) == []


def test_a_cohort_stopped_during_the_last_tick_equals_one_that_never_stopped(undisturbed: Path, tmp_path: Path) -> None:
    stopped_and_resumed(small.two_runs(), tmp_path / "parts", 5, 475)
    assert differing(outcome(undisturbed), outcome(tmp_path / "parts")) == []


@pytest.mark.slow
def test_a_resumed_run_on_a_robot_with_late_commands_and_noise_equals_one_that_never_stopped(tmp_path: Path) -> None:
    effects = {"delay": 3, "latency": 2, "noise": 0.1, "backlash": 0.2}
    worn = {"name": "worn-hopper", "robot": "hopper", "effects": effects}
    check([run("sac", world=worn)], tmp_path, 215)
