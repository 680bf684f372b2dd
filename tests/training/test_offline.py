"""A dataset in the place of the source: how much is learned from it, that it is one copy, that it resumes exactly."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from offdyn._util.errors import OffdynError
from offdyn.algos.registry import METHODS, RECIPES
from offdyn.data.datasets import save
from offdyn.training.cohort import Cohort
from offdyn.training.config import build
from offdyn.training.preparation import with_first_phases

from .small import PUSH, curve, differing, outcome, resume, rows_of, run, small, train

OFFLINE = {"source_envs": None, "eval_interval": 120, "log_interval": 40}
# Those made for a dataset, and PAR; the other methods do with one what they do with a replay.
RECIPES_ON_DATA = [
    "par",
    "duo",
    "q-avatar",
    "model-backup",
    "cql+sac",
    "h2o",
    *sorted(name for name, recipe in RECIPES.items() if recipe.offline),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "push-random.safetensors"
    save(rows_of(PUSH, 400), path)
    return str(path)


def offline(data: str, method: str = "par", seed: int = 0, **settings: Any) -> Any:
    return run(method, seed, source_data=data, **OFFLINE, **settings)


def test_a_run_makes_as_many_updates_as_with_a_live_source_and_acts_in_the_target_only(
    data: str, tmp_path: Path
) -> None:
    train([offline(data)], tmp_path)
    (folder,) = tmp_path.glob("push*")
    last = curve(folder)[-1]
    assert (int(last["source_steps"]), int(last["target_steps"])) == (0, 48)
    waited = 4 * 10  # four target rows had to be there first
    assert int(last["updates"]) == 480 - waited
    about = json.loads((folder / "provenance.json").read_text())
    assert (about["source_data"]["name"], about["source_data"]["rows"]) == ("push-random", 400)
    assert "source_data-push-random" in folder.name


def test_the_dataset_is_one_copy_for_all_lanes_and_stays_out_of_the_checkpoints(data: str, tmp_path: Path) -> None:
    cohort = Cohort([offline(data, seed=seed) for seed in range(3)], 1)
    assert cohort.learner.experience.source.shape == (400, 8)
    assert cohort.learner.experience.target.shape == (3, 48, 8)
    for _ in range(10):
        cohort.tick()
    assert set(cohort.take_rows()) == {"target", "target_flags"}


def test_what_is_learned_from_a_dataset_is_what_is_learned_from_a_replay_that_holds_it(data: str) -> None:
    cohort = Cohort([offline(data, seed=seed) for seed in (0, 1)], 1)
    for _ in range(6):
        cohort.tick()
    programs = type(cohort.learner.programs)(
        METHODS["par"], PUSH.spec, cohort.runs[0].sac, cohort.runs[0].hyper, "both", cohort.plan.updates_per_tick
    )
    copies = np.repeat(np.asarray(cohort.learner.experience.source)[None], 2, axis=0)
    target, sizes = np.asarray(cohort.learner.experience.target), cohort._sizes()
    assert int(sizes[0]) == 400
    before = cohort.learner.programs.clear(cohort.learner.lanes)
    keep = [np.asarray(x).copy() for x in before.agent.actor.value]
    mine = jax.tree.map(jax.numpy.array, before)  # `learn` takes its lanes for good: each call gets its own
    one = cohort.learner.programs.learn(
        cohort.learner.keys, before, cohort.learner.experience.source, target, *sizes, np.int32(60), np.ones(2, bool)
    )
    other = programs.learn(cohort.learner.keys, mine, copies, target, *sizes, np.int32(60), np.ones(2, bool))
    for mine_now, theirs, was in zip(one.agent.actor.value, other.agent.actor.value, keep, strict=True):
        np.testing.assert_allclose(mine_now, theirs, rtol=2e-4, atol=1e-6)
        assert not np.array_equal(mine_now, was)


def test_normalised_observations_use_the_datasets_statistics_and_keep_them(data: str, tmp_path: Path) -> None:
    cohort = Cohort([offline(data, normalise_observations=True)], 1)
    expected = rows_of(PUSH, 400).observation
    for _ in range(8):
        cohort.tick()
    np.testing.assert_allclose(cohort.learner.lanes.moments.mean[0], expected.mean(0), atol=0.01)
    np.testing.assert_allclose(cohort.policies().deviation[0, 0], expected.std(0), rtol=0.02)


@pytest.mark.parametrize("method", RECIPES_ON_DATA)
def test_a_resumed_run_on_a_dataset_equals_one_that_never_stopped(method: str, data: str, tmp_path: Path) -> None:
    runs = with_first_phases([offline(data, method, seed) for seed in (0, 1)])
    train(runs, tmp_path / "whole")
    train(runs, tmp_path / "parts", stop_at=250)
    resume(tmp_path / "parts")
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []
    updates = max(int(curve(path.parent)[-1]["updates"]) for path in (tmp_path / "whole").glob("*/curve.csv"))
    assert updates > 400


def test_cql_0_is_trained_once_for_all_targets_of_a_robot(data: str) -> None:
    settings = small("cql-0") | OFFLINE | {"source_data": data}
    tasks = ("hopper-big-head", "hopper-broken-joints")
    runs = with_first_phases(build(task, "cql-0", settings=settings)[0] for task in tasks)
    assert [(r.task.name, r.schedule.collects, r.schedule.length) for r in runs] == [
        ("hopper", "none", 480),
        ("hopper-big-head", "none", 0),
        ("hopper-broken-joints", "none", 0),
    ]
    assert {r.schedule.start_from for r in runs} == {None, runs[0].name}


def test_cql_0_in_the_target_is_the_policy_that_was_trained_and_nothing_else(data: str, tmp_path: Path) -> None:
    runs = with_first_phases([offline(data, "cql-0")])
    train(runs, tmp_path)
    trained, tested = (tmp_path / r.name for r in runs)
    networks, same = (load_file(folder / "policy.safetensors") for folder in (trained, tested))
    assert all(np.array_equal(networks[name], same[name]) for name in networks.keys() | same.keys())
    (only,) = curve(tested)
    assert (only["updates"], only["target_steps"]) == ("0", "0")
    assert len(json.loads((tested / "final.json").read_text())["final_returns"]) == 3
    assert int(curve(trained)[-1]["updates"]) == 480


def test_another_dataset_under_the_same_name_is_not_resumed_with(tmp_path: Path) -> None:
    path = tmp_path / "rows.safetensors"
    save(rows_of(PUSH, 400), path)
    train([offline(str(path))], tmp_path / "out", stop_at=200)
    save(rows_of(PUSH, 400, seed=1), path)
    with pytest.raises(OffdynError, match="not the dataset this training began with"):
        resume(tmp_path / "out")


def test_a_dataset_of_another_robot_is_refused_before_anything_is_made(data: str, tmp_path: Path) -> None:
    hopper = build("hopper-big-head", "par", settings=small("par") | OFFLINE | {"source_data": data})[0]
    with pytest.raises(OffdynError, match="11 and 3"):
        train([hopper], tmp_path / "out")
    assert not list((tmp_path / "out").glob("hopper*"))


def test_a_dataset_with_a_fatal_fault_is_refused_unless_the_user_insists(tmp_path: Path) -> None:
    good = rows_of(PUSH, 400)
    reward = good.reward.copy()
    reward[7] = np.nan
    path = tmp_path / "faulty.safetensors"
    save(dataclasses.replace(good, reward=reward), path)
    with pytest.raises(OffdynError, match=r"nan-or-infinity.*offdyn check.*--allow-faulty-data"):
        train([offline(str(path))], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    reward[7], action = 0.0, good.action.copy()
    action[3] = 1.5
    save(dataclasses.replace(good, reward=reward, action=action), path)
    with pytest.raises(OffdynError, match="action-out-of-range"):
        train([offline(str(path))], tmp_path / "out")
    said = train([offline(str(path), allow_faulty_data=True)], tmp_path / "out").said
    assert any("action-out-of-range" in text for text in said)
    assert list((tmp_path / "out").glob("*/final.json"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"collects": "both"}, "collects"),
        ({"learns_from": "target"}, "learns_from"),
    ],
)
def test_what_contradicts_a_dataset_is_refused(settings: dict[str, Any], expected: str, data: str) -> None:
    with pytest.raises(OffdynError, match=f"setting {expected}"):
        offline(data, **settings)


def test_a_method_that_learns_from_a_dataset_asks_for_one() -> None:
    with pytest.raises(OffdynError, match="--source-data"):
        build("hopper-big-head", "sac+bc")


def test_presets_have_their_own_fields_for_a_dataset_whatever_the_task() -> None:
    for task in ("halfcheetah-no-thighs", "ant-short-feet"):
        config, notices = build(task, "par", settings={"source_data": "some-rows"})
        assert (config.hyper.penalty, config.hyper.cloning, config.hyper.balance) == (1.0, True, 5.0)
        assert (config.schedule.collects, config.schedule.learns_from, notices) == ("target", "both", [])
    assert build("ant-short-feet", "sac+bc", settings={"source_data": "some-rows"})[0].hyper.penalty == 0.0


def test_a_preset_may_have_fields_for_a_dataset_by_task() -> None:
    tasks = ("hopper-big-head", "halfcheetah-no-thighs")
    built = [build(task, "vgdf+bc", "released", settings={"source_data": "some-rows"})[0] for task in tasks]
    assert [config.hyper.balance for config in built] == [10.0, 5.0]
