"""A cohort that was stopped and resumed ends with the same bytes as one that never stopped, whatever it trains."""

import json
from pathlib import Path
from typing import Any

import pytest

from offdyn.methods.method import Method
from offdyn.methods.recipes import METHODS

from . import small
from .small import differing, outcome, resume, run, train

CORRECTING = sorted(name for name, method in METHODS.items() if method.correct is not Method("", "").correct)
EVERYTHING = {
    "normalise_observations": True,
    "tune_temperature": True,
    "gradient_clip": 1.0,
    "actor_interval": 2,
    "critic_layer_norm": True,
    "replay_size": 60,  # a ring: fewer rows than the source gives, more than the target does
    "encoder_interval": 3,
}


def stopped_and_resumed(runs: list[Any], out: Path, *stops: int) -> None:
    train(runs, out, stop_at=stops[0])
    assert all(json.loads(path.read_text())["state"] == "stopped" for path in out.glob("*/provenance.json"))
    for clock in stops[1:]:
        resume(out, stop_at=clock)
    resume(out)


def check(runs: list[Any], folder: Path, *stops: int) -> dict[str, Any]:
    train(runs, folder / "whole")
    stopped_and_resumed(runs, folder / "parts", *stops)
    whole = outcome(folder / "whole")
    assert differing(whole, outcome(folder / "parts")) == []
    last = small.curve(folder / "whole" / runs[0].name)[-1]
    assert int(last["updates"]) > 200
    assert float(last["critic_loss"]) > 0
    return last


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_resumed_cohort_equals_one_that_never_stopped(method: str, tmp_path: Path) -> None:
    last = check([run(method, seed=0), run(method, seed=1)], tmp_path, 135, 270)
    if method in CORRECTING:
        weight = float(last.get("mean_weight_of_source_rows", 1.0))
        assert abs(float(last["penalty_mean"])) > 0.01 or weight < 0.99


def test_methods_that_correct_are_found() -> None:
    assert "par" in CORRECTING
    assert "sac" not in CORRECTING


def test_a_resumed_cohort_with_every_option_and_the_released_preset_equals_one_that_never_stopped(
    tmp_path: Path,
) -> None:
    runs = [run("par", seed, preset="released", **EVERYTHING) for seed in (0, 1)]
    assert runs[0].hyper.slow_encoder
    last = check(runs, tmp_path, 215)
    assert float(last["temperature"]) != pytest.approx(0.2, abs=1e-4)


def test_a_resumed_run_in_the_target_alone_equals_one_that_never_stopped(tmp_path: Path) -> None:
    one = run("sac-tar-10", bodies=None, normalise_observations=True, log_interval=40)
    last = check([one], tmp_path, 230)
    assert int(last["target_steps"]) == 48
    assert int(last["source_steps"]) == 0


def test_a_resumed_run_in_the_source_alone_equals_one_that_never_stopped(tmp_path: Path) -> None:
    last = check([run("sac", collects="source", rows="source", replay_size=50)], tmp_path, 225)
    assert int(last["target_steps"]) == 0
    assert int(last["source_steps"]) == 480


def test_a_cohort_stopped_several_times_equals_one_that_never_stopped(undisturbed: Path, tmp_path: Path) -> None:
    stopped_and_resumed(small.two_runs(), tmp_path / "parts", *range(105, 480, 125))
    assert differing(outcome(undisturbed), outcome(tmp_path / "parts")) == []


def test_a_cohort_stopped_during_the_last_tick_equals_one_that_never_stopped(undisturbed: Path, tmp_path: Path) -> None:
    stopped_and_resumed(small.two_runs(), tmp_path / "parts", 5, 475)
    assert differing(outcome(undisturbed), outcome(tmp_path / "parts")) == []
