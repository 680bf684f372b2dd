"""What recorded actions mean: a full action stays a full action, whatever the bounds it was recorded within."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from minari import DataCollector

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.data.collect.episodes import play, uniform
from offdyn.data.datasets import DataError, Dataset, join, load, open_dataset, save, with_action_bounds, write_minari
from offdyn.data.datasets.target_log import TargetLog
from offdyn.data.doctor import diagnose, diagnose_dataset
from offdyn.envs import pairs
from offdyn.envs.custom import OwnPair, pair_of
from offdyn.training.cohort import open_source
from offdyn.training.config import build
from offdyn.training.preparation import check_datasets
from offdyn.training.progress import Quiet

from .simulated import simulated, write_d4rl

STEPS = 40


def target(low: list[float], high: list[float], seen: int = 2) -> OwnPair:
    parts = (("observation", seen),)
    return OwnPair("a-to-b", None, "module:b", 1000, parts, tuple(map(float, low)), tuple(map(float, high)))


def acted(action: np.ndarray, **card: Any) -> Dataset:
    """Transitions of nobody's robot, one episode, with these actions."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=(len(action) + 1, 2)), axis=0)
    ends = np.arange(len(action)) == len(action) - 1
    return Dataset(walk[:-1], action, walk[1:, 0], walk[1:], np.zeros(len(action)), ends, card)


def written(folder: Path, action: np.ndarray, space: dict[str, Any] | None, **said: Any) -> Path:
    """A Minari dataset of one episode whose actions are these numbers."""
    rows = acted(action)
    (folder / "data").mkdir(parents=True)
    if space is not None:
        said["action_space"] = json.dumps({"type": "Box", "dtype": "float32", "shape": [action.shape[1]]} | space)
    (folder / "data" / "metadata.json").write_text(json.dumps({"dataset_id": "any/set-v0"} | said))
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        episode = file.create_group("episode_0")
        seen = np.concatenate((rows.observation, rows.next_observation[-1:]))
        columns = {"observations": seen, "actions": action, "rewards": rows.reward}
        for name, column in (columns | {"terminations": rows.terminated, "truncations": rows.truncated}).items():
            episode[name] = column
    return folder


def box(low: list[float], high: list[float]) -> dict[str, Any]:
    return {"low": low, "high": high}


def shares(size: int = 1) -> np.ndarray:
    """Actions as shares of their range, from one bound to the other."""
    return np.linspace(-1, 1, STEPS * size).reshape(STEPS, size).astype(np.float32)


def findings(path: Path | Dataset, goal: OwnPair | None) -> dict[str, str]:
    found = diagnose_dataset(path, target=goal) if isinstance(path, Dataset) else diagnose(path, target=goal)[1]
    return {finding.name: finding.what for finding in found}


def test_a_full_action_of_a_minari_set_is_read_as_a_full_action(tmp_path: Path):
    folder = written(tmp_path / "set", 0.4 * shares(), box([-0.4], [0.4]))
    for goal in (None, target([-0.4], [0.4])):
        read = open_dataset(folder, target=goal)
        np.testing.assert_allclose(read.action, shares(), atol=1e-6)
        assert np.abs(read.action).max() == 1.0, "rounding past a bound is put back on it"
        assert read.card["reading"]["actions"] == "mapped to [-1, 1] from their bounds [-0.4, 0.4]"
    assert findings(folder, target([-0.4], [0.4])) == {}


def test_bounds_in_the_attributes_of_an_older_file_are_read_as_well(tmp_path: Path):
    data = written(tmp_path / "set", 0.4 * shares(), box([-0.4], [0.4])) / "data"
    with h5py.File(data / "main_data.hdf5", "r+") as file:
        file.attrs.update(json.loads((data / "metadata.json").read_text()))
    (data / "metadata.json").unlink()
    np.testing.assert_allclose(open_dataset(data / "main_data.hdf5").action, shares(), atol=1e-6)


def test_a_set_with_wider_bounds_is_sound(tmp_path: Path):
    folder = written(tmp_path / "set", 2 * shares(), box([-2], [2]))
    np.testing.assert_allclose(open_dataset(folder).action, shares(), atol=1e-6)
    assert findings(folder, target([-2], [2])) == {}
    assert set(findings(folder, None)) == {"unknown-robot"}


def test_each_entry_has_its_own_bounds_which_need_not_lie_around_zero(tmp_path: Path):
    low, high = [-3.0, 0.0], [5.0, 0.5]
    recorded = np.array(low) + (shares(2) + 1) / 2 * (np.array(high) - low)
    folder = written(tmp_path / "set", recorded, box(low, high))
    read = open_dataset(folder)
    np.testing.assert_allclose(read.action, shares(2), atol=1e-6)
    assert "[-3, 0] to [5, 0.5]" in read.card["reading"]["actions"]
    again = write_minari(read, "any/again-v0", tmp_path / "again")
    with h5py.File(again / "data" / "main_data.hdf5") as file:
        np.testing.assert_allclose(file["episode_0/actions"], recorded, atol=1e-6)
    np.testing.assert_allclose(open_dataset(again).action, read.action, atol=1e-6)


@pytest.mark.parametrize("bound", [np.inf, float(np.finfo(np.float32).max)])
def test_a_space_without_bounds_needs_a_target(bound: float, tmp_path: Path):
    folder = written(tmp_path / "set", 2 * shares(), box([-bound], [bound]))
    with pytest.raises(DataError, match=r"set-v0 bounds its actions by .* only, .*--target") as caught:
        open_dataset(folder)
    assert caught.value.kind == "unknown-action-bounds"
    read = open_dataset(folder, target=target([-2], [2]))
    np.testing.assert_allclose(read.action, shares(), atol=1e-6)
    assert "from the target's bounds [-2, 2], as the file gives none" in read.card["reading"]["actions"]


def test_of_other_bounds_than_the_targets_the_physical_action_is_kept(tmp_path: Path):
    folder = written(tmp_path / "set", 0.4 * shares(), box([-0.4], [0.4]))
    read = open_dataset(folder, target=target([-2], [2]))
    np.testing.assert_allclose(read.action, 0.2 * shares(), atol=1e-6)
    assert read.card["reading"]["actions"] == (
        "recorded within [-0.4, 0.4], executed within the target's [-2, 2] at the same physical value"
    )
    assert (read.card["action_low"], read.card["action_high"]) == ([-2.0], [2.0])
    assert "small-actions" not in {found.name for found in diagnose_dataset(read)}  # they were full where recorded
    timid = open_dataset(written(tmp_path / "timid", 0.1 * shares(), box([-0.4], [0.4])), target=target([-2], [2]))
    (small,) = [found for found in diagnose_dataset(timid) if found.name == "small-actions"]
    assert "no action goes beyond 25% of its bounds [-0.4, 0.4]" in small.what
    back = open_dataset(read, target=target([-0.4], [0.4]))
    np.testing.assert_allclose(back.action, shares(), atol=1e-6)


def test_what_the_target_cannot_do_is_found_in_its_own_units(tmp_path: Path):
    folder = written(tmp_path / "set", 2 * shares(), box([-2], [2]))
    told = findings(folder, target([-0.4], [0.4]))
    assert told["action-out-of-range"].endswith("actions leave [-0.4, 0.4]; the farthest out is -2, in entry 0")
    assert set(findings(folder, target([-0.4], [2.0]))) == {"action-out-of-range"}
    beyond = written(tmp_path / "other", 1.1 * shares(), box([-1], [1]))
    assert "action-out-of-range" in findings(beyond, None)


def test_rounding_in_a_narrow_range_far_from_zero_is_no_fault(tmp_path: Path):
    low, high = 100.0, 100.001
    recorded = (low + (shares() + 1) / 2 * (high - low)).astype(np.float32)
    folder = written(tmp_path / "set", recorded, box([low], [high]))
    assert np.abs(open_dataset(folder).action).max() == 1.0
    assert findings(folder, target([low], [high])) == {}


def test_a_d4rl_file_of_an_unknown_robot_needs_a_target(tmp_path: Path):
    path = write_d4rl(tmp_path / "pendulum.hdf5", acted(2 * shares()))
    with pytest.raises(DataError, match="pendulum gives no bounds of its actions"):
        open_dataset(path)
    np.testing.assert_allclose(open_dataset(path, target=target([-2], [2])).action, shares(), atol=1e-6)


def test_our_robots_act_in_minus_one_to_one_whatever_names_them(tmp_path: Path):
    dataset = simulated("hopper")
    path = write_d4rl(tmp_path / "hopper.hdf5", dataset)
    for read in (open_dataset(path), open_dataset(path, "hopper"), open_dataset(path, target="hopper-big-head")):
        assert np.array_equal(read.action, dataset.action)
        assert "actions" not in read.card["reading"]
    elsewhere = open_dataset(path, target=target([-0.5] * 3, [2.0] * 3, seen=11))
    np.testing.assert_allclose(elsewhere.action, (dataset.action - 0.75) / 1.25, atol=1e-3)


def test_our_own_file_gives_its_bounds_and_without_them_needs_a_target(tmp_path: Path):
    save(acted(shares(), action_low=[-2], action_high=[2]), tmp_path / "with.safetensors")
    read = open_dataset(tmp_path / "with.safetensors")
    assert np.array_equal(read.action, shares())
    np.testing.assert_allclose(
        open_dataset(tmp_path / "with.safetensors", target=target([-4], [4])).action, shares() / 2, atol=1e-6
    )
    save(acted(shares()), tmp_path / "without.safetensors")
    with pytest.raises(DataError, match="without gives no bounds"):
        open_dataset(tmp_path / "without.safetensors")
    read = open_dataset(tmp_path / "without.safetensors", target=target([-4], [4]))
    assert np.array_equal(read.action, shares())
    assert "taken for shares of the target's bounds [-4, 4]" in read.card["reading"]["actions"]


def test_logs_in_other_units_are_mapped_before_they_are_saved(tmp_path: Path):
    mapped = with_action_bounds(acted(0.4 * shares()), [-0.4], [0.4])
    np.testing.assert_allclose(mapped.action, shares(), atol=1e-6)
    save(mapped, tmp_path / "log.safetensors")
    card = load(tmp_path / "log.safetensors").card
    assert (card["action_low"], card["action_high"]) == ([-0.4], [0.4])
    (small,) = [found for found in diagnose_dataset(acted(0.4 * shares())) if found.name == "small-actions"]
    assert "no action goes beyond 40% of its bounds [-1, 1]" in small.what


def test_bounds_that_cannot_be_are_refused(tmp_path: Path):
    for low, high, words in (([-2, -2], [2], "2 lower and 1 upper bounds"), (["a"], [1], "expected numbers")):
        with pytest.raises(DataError, match=words):
            save(acted(shares(), action_low=low, action_high=high), tmp_path / "set.safetensors")
    with pytest.raises(DataError, match=r"bounds its actions by \[2, -2\] only"):
        write_minari(acted(shares(), action_low=[2], action_high=[-2]), "any/wrong-v0", tmp_path / "wrong")
    folder = written(tmp_path / "wrong", shares(), None, action_space=json.dumps({"type": "Discrete", "n": 3}))
    with pytest.raises(DataError, match="its action space is Discrete"):
        open_dataset(folder)


def test_a_target_log_gives_back_its_actions_within_its_own_bounds(tmp_path: Path):
    card = {"name": "machine", "action_low": [-3.0], "action_high": [5.0]}
    log = TargetLog(path := tmp_path / "a.steps", (2, 1), card)
    log.append(np.zeros(2), np.full(1, 0.5), 0.5, np.ones(2), False, False)
    log.publish()
    log.close()
    for file in (path, tmp_path / "a.safetensors"):
        assert open_dataset(file).action[0] == 0.5
        np.testing.assert_allclose(open_dataset(file, target=target([-6], [6])).action[0], 3 / 6)


def test_collected_transitions_know_the_bounds_they_were_made_within():
    card = play(pairs.find("hopper"), uniform(3), 20, (0,)).card
    assert (card["action_low"], card["action_high"], card["time_limit"]) == ([-1.0] * 3, [1.0] * 3, 1000)


def test_parts_are_joined_where_their_actions_mean_the_same():
    one = acted(shares(), action_low=[-2], action_high=[2])
    assert join([one, one]).card["action_high"] == [2]
    with pytest.raises(DataError, match=r"\[-2\] to \[2\] and \[-1\] to \[1\] cannot be joined"):
        join([one, acted(shares(), action_low=[-1], action_high=[1])])


@pytest.fixture
def pendulum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """As Minari itself records it; every episode ends at the time limit."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env = DataCollector(gymnasium.make("Pendulum-v1"))
    for seed in range(2):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(200):
            env.step(env.action_space.sample())
    env.create_dataset("any/pendulum-v0", algorithm_name="uniform", author="a", author_email="b", code_permalink="c",
                       description="d")  # fmt: skip
    env.close()
    return "minari:any/pendulum-v0"


def test_a_pendulum_of_minari_is_checked_against_its_target(pendulum: str, capsys: pytest.CaptureFixture[str]):
    theirs = np.concatenate([episode.actions for episode in minari.load_dataset(pendulum[7:]).iterate_episodes()])
    assert np.abs(theirs).max() > 1.9
    np.testing.assert_allclose(open_dataset(pendulum).action, theirs / 2, atol=1e-6)
    assert main(["check", pendulum, "--target", "Pendulum-v1"]) == 0
    said = capsys.readouterr().out
    assert "actions mapped to [-1, 1] from their bounds [-2, 2]" in said
    assert said.endswith("fit for training: nothing found\n")
    assert main(["check", pendulum, "--target", "tests.custom.environments:weaker"]) == 1
    assert (
        "3 observation entries and 1 actions, tests.custom.environments:weaker has 2 and 1" in capsys.readouterr().out
    )
    assert main(["check", "hopper-big-head", "--target", "Pendulum-v1"]) == 2
    assert "hopper-big-head is a task; --target says what a dataset is for" in capsys.readouterr().err
    assert main(["check", pendulum, "--target", "Pendulum-v9"]) == 2
    assert "nor is it the id of a Gymnasium environment" in capsys.readouterr().err


def test_a_training_learns_from_the_actions_that_the_target_will_execute(pendulum: str, tmp_path: Path):
    said: list[str] = []

    class Heard(Quiet):
        def say(self, text: str, detail: bool = False) -> None:
            said.append(text)

    run, _ = build(pair_of(None, "Pendulum-v1"), "par", settings={"source_data": pendulum})
    check_datasets([run], Heard())
    assert said == [f"{pendulum}: actions are mapped to [-1, 1] from their bounds [-2, 2]"]
    action = open_source(run).rows[:, 3]
    np.testing.assert_allclose(action, open_dataset(pendulum).action[:, 0])
    assert 0.95 < np.abs(action).max() <= 1.0
    save(with_action_bounds(acted(2 * shares()), [-2], [2]), tmp_path / "other.safetensors")
    other = build(run.task, "par", settings={"source_data": str(tmp_path / "other.safetensors")})[0]
    with pytest.raises(OffdynError, match="2 observation entries and 1 actions, Pendulum-v1 has 3 and 1"):
        check_datasets([other], Heard())
    still = Dataset(**(open_dataset(pendulum).arrays() | {"reward": np.zeros(400)}), card={})
    save(still, tmp_path / "other.safetensors")
    with pytest.raises(OffdynError, match=r"no-rewards.*`offdyn check .*other.safetensors --target Pendulum-v1` says"):
        check_datasets([other], Heard())
