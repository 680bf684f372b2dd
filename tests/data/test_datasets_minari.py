"""Minari's datasets: Minari itself reads what we write, and we read what it writes."""

import json
from pathlib import Path

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from offdyn._util.errors import OffdynError
from offdyn.data.datasets import COLUMNS, DataError, Dataset, open_dataset, write_minari
from offdyn.data.doctor import diagnose_dataset

from .simulated import simulated, with_columns

NAME = "offdyn/hopper/random-v0"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def test_what_goes_out_comes_in_again(own_folder: Path):
    dataset = simulated("hopper").described(name="mine")
    folder = write_minari(dataset, NAME)
    assert folder == own_folder / NAME
    for wanted in (f"minari:{NAME}", folder, folder / "data", folder / "data" / "main_data.hdf5"):
        read = open_dataset(wanted)
        for name in COLUMNS:
            assert np.array_equal(getattr(read, name), getattr(dataset, name)), name
    assert (read.card["name"], read.card["robot"], read.card["seed"]) == ("mine", "hopper", 3)


def test_minari_reads_what_we_write():
    dataset = simulated("hopper")
    write_minari(dataset, NAME)
    theirs = minari.load_dataset(NAME)
    assert theirs.total_steps == len(dataset)
    assert theirs.total_episodes == len(dataset.episodes())
    assert theirs.spec.observation_space.shape == (11,)
    assert theirs.spec.action_space == gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    for episode, (first, stop) in zip(theirs.iterate_episodes(), dataset.episodes(), strict=True):
        assert np.array_equal(episode.observations[:-1], dataset.observation[first:stop])
        assert np.array_equal(episode.observations[1:], dataset.next_observation[first:stop])
        assert np.array_equal(episode.actions, dataset.action[first:stop])
        assert np.array_equal(episode.rewards, dataset.reward[first:stop])
        assert np.array_equal(episode.terminations, dataset.terminated[first:stop])
        assert np.array_equal(episode.truncations, dataset.truncated[first:stop])
    robot = theirs.recover_environment()
    assert robot.unwrapped.task.name == "hopper"
    robot.close()


def test_we_read_what_minari_writes():
    dataset = simulated("halfcheetah")
    buffers = []
    for number, (first, stop) in enumerate(dataset.episodes()):
        seen = np.concatenate((dataset.observation[first:stop], dataset.next_observation[stop - 1 : stop]))
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=list(seen),
                actions=list(dataset.action[first:stop]),
                rewards=list(dataset.reward[first:stop]),
                terminations=list(dataset.terminated[first:stop]),
                truncations=list(dataset.truncated[first:stop]),
            )
        )
    minari.create_dataset_from_buffers(
        "mujoco/halfcheetah/random-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (17,)),
        action_space=gymnasium.spaces.Box(-1, 1, (6,)),
        env="HalfCheetah-v5",
        author="somebody",
        author_email="nobody",
        code_permalink="nowhere",
        description="random",
        algorithm_name="none",
        eval_env="HalfCheetah-v5",
    )
    read = open_dataset("minari:mujoco/halfcheetah/random-v0")
    for name in COLUMNS:
        assert np.array_equal(getattr(read, name), getattr(dataset, name)), name
    assert read.robot == "halfcheetah"  # by its environment: the walker has the same sizes
    assert read.card["minari"]["author"] == ["somebody"]


def test_eleven_episodes_come_in_their_order():
    dataset = simulated("hopper")
    assert len(dataset.episodes()) > 11  # as text, episode_10 comes before episode_2
    write_minari(dataset, NAME)
    assert np.array_equal(open_dataset(f"minari:{NAME}").reward, dataset.reward)


def test_an_episode_with_a_gap_is_written_as_two():
    dataset = simulated("halfcheetah")
    gap = dataset[np.delete(np.arange(len(dataset)), 50)]
    write_minari(gap, NAME)
    read = open_dataset(f"minari:{NAME}")
    assert np.array_equal(read.next_observation, gap.next_observation)
    assert len(read.episodes()) == len(gap.episodes()) + 1
    assert read.truncated[49]


def test_mistakes_are_said_in_words(own_folder: Path):
    with pytest.raises(OffdynError, match=r"no Minari dataset in .*nowhere-v0"):
        open_dataset("minari:nowhere-v0")
    with pytest.raises(OffdynError, match="expected a Minari name such as"):
        write_minari(simulated("hopper"), "no version")
    folder = write_minari(simulated("hopper"), NAME)
    with pytest.raises(OffdynError, match="exists already"):
        write_minari(simulated("hopper"), NAME)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["random-v0"]

    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        del file["episode_3/observations"]
        file["episode_3/observations/pixels"] = np.zeros((5, 8, 8))
    with pytest.raises(DataError, match="episode_3/observations is a group; expected a plain array of numbers"):
        open_dataset(folder)
    said = folder / "data" / "metadata.json"
    said.write_text(json.dumps(json.loads(said.read_text()) | {"data_format": "arrow"}))
    with pytest.raises(DataError, match="stored as arrow"):
        open_dataset(folder)


def test_the_observations_need_one_more_than_the_steps(own_folder: Path):
    folder = write_minari(simulated("hopper"), NAME)
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        short = file["episode_0/observations"][:-1]
        del file["episode_0/observations"]
        file["episode_0/observations"] = short
    with pytest.raises(DataError, match="one observation more than steps") as caught:
        open_dataset(folder)
    assert caught.value.kind == "wrong-shape"


def test_a_write_that_fails_leaves_nothing(own_folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full_disk(*_: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr("offdyn.data.datasets.minari._write_episodes", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_minari(simulated("hopper"), NAME)
    assert [path for path in own_folder.rglob("*") if path.is_file()] == []


def test_what_is_not_a_robot_of_ours_is_kept_as_well():
    small = simulated("hopper")
    other = with_columns(small, observation=small.observation[:, :4], next_observation=small.next_observation[:, :4])
    with pytest.raises(DataError, match="gives no bounds of its actions"):
        write_minari(Dataset(**other.arrays(), card={}), "offdyn/other-v0")
    other = Dataset(**other.arrays(), card={"action_low": [-0.4] * 3, "action_high": [0.4] * 3})
    write_minari(other, "offdyn/other-v0")
    read = open_dataset("minari:offdyn/other-v0")
    assert read.robot is None
    assert np.array_equal(read.observation, other.observation)
    np.testing.assert_allclose(read.action, other.action, atol=1e-6)
    theirs = minari.load_dataset("offdyn/other-v0")
    assert np.allclose(theirs.spec.action_space.high, 0.4)
    assert all(theirs.spec.action_space.contains(action) for action in theirs[0].actions)


def test_images_are_refused_in_words(own_folder: Path):
    folder = write_minari(simulated("hopper"), NAME)
    said = json.loads((folder / "data" / "metadata.json").read_text())
    picture = {"type": "Box", "dtype": "uint8", "shape": [64, 64, 3], "low": 0, "high": 255}
    for space in (picture, {"type": "Dict", "subspaces": {"joints": {"type": "Box"}, "camera": picture}}):
        (folder / "data" / "metadata.json").write_text(json.dumps(said | {"observation_space": json.dumps(space)}))
        with pytest.raises(DataError, match="images of 64 x 64 x 3 numbers; policies here see vectors") as caught:
            open_dataset(folder)
        assert caught.value.kind == "image-observations"


@pytest.mark.parametrize("limit", [50, 1500])
def test_the_time_limit_of_the_environment_is_known_to_the_doctor(limit: int, own_folder: Path):
    dataset = simulated("halfcheetah", steps=limit + 20, time_limit=limit)
    write_minari(dataset, NAME)
    said = own_folder / NAME / "data" / "metadata.json"
    spec = json.dumps(json.loads(json.loads(said.read_text())["env_spec"]) | {"max_episode_steps": limit})
    said.write_text(json.dumps(json.loads(said.read_text()) | {"env_spec": spec}))
    read = open_dataset(f"minari:{NAME}")
    assert read.card["time_limit"] == limit
    assert diagnose_dataset(read) == []
    as_ends = with_columns(read, terminated=read.truncated, truncated=np.zeros(len(read), bool))
    wrong = [finding for finding in diagnose_dataset(as_ends) if finding.name == "time-limit-as-end"]
    assert f"end as terminal at step {limit}" in wrong[0].what
