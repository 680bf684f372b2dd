"""Going on from an earlier run: sac-tune's two phases, and starts that users name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from offdyn._util.errors import OffdynError
from offdyn.api import plan
from offdyn.training.config import RunConfig
from offdyn.training.preparation import with_first_phases
from offdyn.training.run_folder import from_yaml, to_yaml

from .small import PUSH, differing, outcome, resume, run, small, train

TUNE = {"source_envs": None, "eval_interval": 120, "log_interval": 40}


def tuned(*seeds: int, **settings: Any) -> list[RunConfig]:
    """Both phases of sac-tune for each seed."""
    return with_first_phases(run("sac-tune", seed, **TUNE, **settings) for seed in seeds)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both phases of two seeds, undisturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    train(tuned(0, 1, keep_policies=True), out)
    return out


def named(out: Path, part: str) -> Path:
    (folder,) = out.glob(f"*{part}*")
    return folder


def same_networks(one: Path, other: Path, part: str = "") -> bool:
    arrays, others = load_file(one), load_file(other)
    names = [name for name in arrays if part in name]
    assert names
    return all(np.array_equal(arrays[name], others[name]) for name in names)


def test_one_source_run_per_robot_and_seed_serves_every_target_of_the_robot() -> None:
    tasks = ["hopper-big-head", "hopper-broken-joints", "walker-no-right-thigh"]
    runs, _ = plan(tasks, "sac-tune", seeds=[0, 1], source_steps=20_000)
    first = [r for r in runs if r.method == "sac-src"]
    assert [(r.task.name, r.seed) for r in first] == [("hopper", 0), ("hopper", 1), ("walker", 0), ("walker", 1)]
    assert {r.schedule.source_steps for r in runs} == {20_000}
    for r in runs:
        if r.method == "sac-tune":
            assert r.schedule.start_from == next(
                f.name for f in first if (f.seed, r.task.robot.name) == (r.seed, f.task.name)
            )
            assert (r.schedule.collects, r.schedule.target_budget, r.sac.batch_size) == ("target", 2000, 256)
    assert runs.index(first[-1]) == len(first) - 1  # all of them come before what needs them


def test_an_earlier_run_asked_for_by_name_too_is_trained_once() -> None:
    runs, _ = plan("hopper", ["sac-tune", "sac-src"], seeds=[3])
    assert [r.method for r in runs] == ["sac-src", "sac-tune"]


def test_the_second_phase_begins_with_the_networks_of_the_first(whole: Path) -> None:
    for seed in (0, 1):
        first, second = named(whole, f"sac-src*seed-{seed}"), named(whole, f"sac-tune*seed-{seed}")
        assert same_networks(first / "policy.safetensors", second / "policies/step-000000000.safetensors")
        assert not same_networks(first / "policy.safetensors", second / "policy.safetensors")
        about = json.loads((second / "provenance.json").read_text())
        assert about["start_from"]["run"] == first.name
        assert (about["source_steps"], about["target_steps"]) == (0, 48)
    assert not same_networks(named(whole, "sac-src*seed-0") / "agent.safetensors",
                             named(whole, "sac-src*seed-1") / "agent.safetensors", "actor")  # fmt: skip


def test_optimisers_go_on_too_and_nothing_is_learned_before_there_are_rows(tmp_path: Path) -> None:
    never = 10**6
    first = run("sac", collects="source", learns_from="source")
    train([first], tmp_path)
    brief = {"source_steps": 40, "learning_starts": 3, "eval_interval": 40, "checkpoint_interval": 40}
    start = str(tmp_path / first.name)
    train([run("sac-tar", start_from=start, **TUNE | brief | {"learning_starts": 3, "updates_per_step": 1})], tmp_path)
    before, after = (
        load_file(Path(start) / "agent.safetensors"),
        load_file(named(tmp_path, ".sac-tar.") / "agent.safetensors"),
    )
    (count,) = [name for name in before if name.endswith("count") and "critic" in name]
    assert 0 < after[count] - before[count] <= 2 < before[count] < never


def test_a_named_start_may_be_of_another_method_and_stands_in_the_runs_name(tmp_path: Path) -> None:
    first = run("sac", seed=4)
    train([first], tmp_path)
    pattern = str(tmp_path / first.name).replace("seed-4", "seed-{seed}")
    later = run("par", seed=4, start_from=pattern, keep_policies=True)
    assert "start_from-push.sac.paper" in later.name
    assert later.name != run("par", seed=4, start_from=pattern + "-other", keep_policies=True).name
    assert from_yaml(to_yaml(later), tmp_path).schedule.start_from == str(tmp_path / first.name)
    train([later], tmp_path)
    begun = tmp_path / later.name / "policies/step-000000000.safetensors"
    assert same_networks(tmp_path / first.name / "policy.safetensors", begun)


def test_a_temperature_that_is_not_tuned_is_the_later_runs_own(tmp_path: Path) -> None:
    first = run("sac", temperature=0.5)
    train([first], tmp_path)
    kept = run("sac", start_from=str(tmp_path / first.name), temperature=0.1)
    train([kept], tmp_path)
    last = float(load_file(tmp_path / kept.name / "agent.safetensors")["['agent'].log_temperature.value"])
    assert last == pytest.approx(np.log(0.1), rel=1e-5)


@pytest.mark.parametrize("stop_at", [200, 700])
def test_a_training_stopped_in_either_phase_ends_with_the_same_bytes(whole: Path, tmp_path: Path, stop_at: int) -> None:
    runs, out = tuned(0, 1, keep_policies=True), tmp_path / "out"
    if stop_at < 480:
        train(runs, out, stop_at=stop_at)
    else:  # the clock begins anew with the second phase
        train(runs[:2], out)
        train(runs, out, stop_at=stop_at - 480)
    resume(out)
    assert differing(outcome(whole), outcome(out)) == []


def test_a_finished_first_phase_is_used_again(tmp_path: Path) -> None:
    runs, out = tuned(0, keep_policies=True), tmp_path / "out"
    train(tuned(0, eval_source_episodes=0)[:1], out)  # watched otherwise, trained alike
    written = (named(out, ".sac-src.") / "agent.safetensors").stat().st_mtime_ns
    said = train(runs, out).said
    assert "cohort 1 of 1: 1 runs of sac-tune" in said
    assert (named(out, ".sac-src.") / "agent.safetensors").stat().st_mtime_ns == written
    train(runs, tmp_path / "at once")
    of_the_second = [{k: v for k, v in outcome(o).items() if "sac-tune" in k} for o in (out, tmp_path / "at once")]
    assert differing(*of_the_second) == []


def test_a_first_phase_of_other_settings_is_not_used(tmp_path: Path) -> None:
    runs = tuned(0)
    train(runs[:1], tmp_path)
    longer = tuned(0, source_steps=600)
    with pytest.raises(OffdynError, match="other settings"):
        train(longer, tmp_path)


def test_a_run_that_goes_on_from_a_failed_one_fails_and_says_so(tmp_path: Path) -> None:
    first, second = tuned(0)
    breaking = dataclasses.replace(first, sac=dataclasses.replace(first.sac, critic_learning_rate=1e30))
    runs = [breaking, second]
    train(runs, tmp_path)
    about = json.loads((named(tmp_path, ".sac-tune.") / "provenance.json").read_text())
    assert about["state"] == "failed"
    assert about["failure"]["quantity"] == "run it continues from"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"actor_widths": (9,)}, "actor_widths"), ({"normalise_observations": True}, "normalise_observations")],
)
def test_a_start_that_does_not_fit_is_refused_before_anything_is_made(
    settings: dict[str, Any], expected: str, whole: Path, tmp_path: Path
) -> None:
    start = str(named(whole, "sac-src*seed-0"))
    with pytest.raises(OffdynError, match=expected):
        train([run("sac", start_from=start, **settings)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_start_that_is_not_there_not_done_or_of_another_robot_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(OffdynError, match="not a run's folder"):
        train([run("sac", start_from=str(tmp_path / "nowhere"))], tmp_path / "out")
    unfinished = run("sac", seed=7)
    train([unfinished], tmp_path, stop_at=100)
    with pytest.raises(OffdynError, match=r"stopped.*offdyn resume"):
        train([run("sac", start_from=str(tmp_path / unfinished.name))], tmp_path / "out")
    robot = plan("hopper-big-head", "sac", start_from=str(named(whole, "sac-src*seed-0")), **small("sac"))[0]
    with pytest.raises(OffdynError, match=r"2 observations and 2 actions.*hopper-big-head 11 and 3"):
        train(robot, tmp_path / "out")


def test_worlds_are_their_own_source() -> None:
    assert tuned(0)[0].task is PUSH
