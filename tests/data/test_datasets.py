"""Datasets in and out: what one format holds another gives back, and what cannot be used is refused in words."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.data.datasets import COLUMNS, DataError, Dataset, d4rl, find, full_card, join, load, open_dataset, save
from offdyn.data.datasets.hdf5 import Hdf5
from offdyn.data.transition import pack
from offdyn.envs.robots import ROBOTS
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import TASKS

from .simulated import simulated, with_columns, write_d4rl


def same_rows(one: Dataset, other: Dataset) -> None:
    for name in COLUMNS:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def ends_at(count: int, *rows: int) -> np.ndarray:
    flags = np.zeros(count, bool)
    flags[list(rows)] = True
    return flags


def numbered(count: int, terminated: np.ndarray, truncated: np.ndarray, size: int = 2, **card: str) -> Dataset:
    """Row i sees i, gets i, and is followed by i + 0.5: no next observation is the next row's."""
    steps = np.arange(count, dtype=float)
    wide = np.repeat(steps[:, None], size, axis=1)
    return Dataset(wide, wide[:, :1] / count, steps, wide + 0.5, terminated, truncated, card)


def test_packed_rows_are_those_of_the_replay():
    simulator = Simulator([TASKS["hopper"]] * 2, [(0,), (1,)], threads=1)
    rows = simulator.step(np.arange(2), np.full((2, 3), 0.3))
    dataset = Dataset(*(getattr(rows, name) for name in COLUMNS))
    assert np.array_equal(dataset.rows(), pack(rows))
    assert dataset.rows().dtype == np.float32


def test_a_dataset_shows_what_it_holds_in_one_line():
    dataset = numbered(1000, ends_at(1000), ends_at(1000), size=11, name="a thousand")
    assert repr(dataset) == "Dataset('a thousand', 1000 transitions, 11 observations, 1 actions)"


def test_episodes_end_at_ends_cuts_and_the_end_of_the_data():
    dataset = numbered(7, ends_at(7, 1), ends_at(7, 4))
    assert dataset.episodes().tolist() == [[0, 2], [2, 5], [5, 7]]
    assert dataset.returns().tolist() == [0 + 1, 2 + 3 + 4]  # the last one is unfinished
    assert numbered(3, ends_at(3), ends_at(3)).returns().tolist() == [0 + 1 + 2]


def test_joined_parts_are_cut_where_they_meet():
    part = numbered(3, ends_at(3), ends_at(3))
    whole = join([part, numbered(2, ends_at(2, 1), ends_at(2)), part], name="both")
    assert whole.truncated.tolist() == [False, False, True, False, False, False, False, True]
    assert whole.terminated.tolist() == [False] * 4 + [True] + [False] * 3
    assert whole.card["name"] == "both"


def test_our_own_file_gives_back_rows_and_card(tmp_path: Path):
    dataset = simulated("hopper").described(own_remark={"a": [1, 2]})
    written = save(dataset, tmp_path / "sub" / "mine.safetensors")
    read = load(tmp_path / "sub" / "mine.safetensors")
    same_rows(read, dataset)
    assert read.card == written.card
    assert read.card["own_remark"] == {"a": [1, 2]}
    assert (read.card["robot"], read.card["shift"], read.card["seed"]) == ("hopper", None, 3)
    assert (read.card["steps"], read.card["episodes"]) == (len(dataset), len(dataset.episodes()))
    assert read.card["return_mean"] == pytest.approx(dataset.returns().mean())
    assert read.card["return_std"] == pytest.approx(dataset.returns().std())
    assert read.card["model"] == full_card(simulated("hopper"))["model"] != simulated("hopper-big-head").card["model"]
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["mine.safetensors"]


def test_one_dataset_makes_one_sequence_of_bytes(tmp_path: Path):
    for name in ("a", "b"):
        save(simulated("hopper"), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_others_may_read_the_file_as_any_other(tmp_path: Path):
    save(simulated("hopper"), tmp_path / "set")
    (tmp_path / "plain").touch()
    assert (tmp_path / "set").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save(simulated("hopper"), tmp_path / "set")
    before = (tmp_path / "set").read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save(simulated("ant"), tmp_path / "set")
    assert (tmp_path / "set").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def read_d4rl(path: Path) -> Dataset:
    with Hdf5(path) as file:
        return d4rl.read(file)


def refused(path: Path | str, robot: str | None = None) -> DataError:
    with pytest.raises(DataError) as caught:
        open_dataset(path, robot)
    return caught.value


def test_one_changed_byte_is_noticed(tmp_path: Path):
    path = tmp_path / "set"
    save(simulated("hopper"), path)
    content = bytearray(path.read_bytes())
    content[-4000] ^= 1
    path.write_bytes(content)
    error = refused(path)
    assert error.kind == "hash-mismatch"
    assert "its transitions are not those its card speaks of" in str(error)


def test_a_file_of_a_newer_offdyn_is_refused(tmp_path: Path):
    path = tmp_path / "set"
    save(simulated("hopper"), path)
    content = path.read_bytes()
    assert content.count(b'\\"format\\": 1') == 1
    path.write_bytes(content.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(OffdynError, match="format 9, this offdyn reads up to 1: update offdyn"):
        open_dataset(path)


def test_a_d4rl_file_is_taken_as_it_is(tmp_path: Path):
    dataset = simulated("halfcheetah", steps=1010)
    assert dataset.truncated[999]
    read = open_dataset(write_d4rl(tmp_path / "halfcheetah_medium-v2.hdf5", dataset))
    same_rows(read, dataset)
    assert read.robot == "halfcheetah"  # not the walker, which has the same sizes
    assert read.observation.dtype == np.float32
    assert read.card["metadata"] == {"algorithm": "SAC"}
    assert read.card["reading"] == {"format": "D4RL HDF5", "time_limits": "marked"}


def test_without_next_observations_the_last_step_before_a_time_limit_is_dropped(tmp_path: Path):
    dataset = numbered(8, ends_at(8, 4), ends_at(8, 2, 6))
    read = read_d4rl(write_d4rl(tmp_path / "set.hdf5", dataset, without=("next_observations",)))
    # 2 and 6 were cut, 7 is the last of the file
    assert read.observation[:, 0].tolist() == [0, 1, 3, 4, 5]
    assert read.next_observation[:, 0].tolist() == [1, 2, 4, 5, 6]
    assert read.terminated.tolist() == [False, False, False, True, False]
    assert read.truncated.tolist() == [False, True, False, False, True]
    assert read.card["reading"]["dropped"] == 3
    assert read.card["reading"]["ends_without_successor"] == 1  # what robot that is, nobody can know


def test_without_next_observations_those_inside_episodes_are_exact_and_those_of_true_ends_computed(tmp_path: Path):
    dataset = simulated("hopper")
    path = write_d4rl(tmp_path / "set.hdf5", dataset, without=("next_observations",))
    read, kept = open_dataset(path), dataset[~dataset.truncated]
    assert read.terminated.sum() == dataset.terminated.sum() > 10
    assert np.array_equal(read.next_observation[~read.terminated], kept.next_observation[~kept.terminated])
    seen = (np.abs(kept.observation) < 10).all(axis=1)  # where no velocity was clipped, the state is known
    assert (seen & kept.terminated).sum() > 10
    np.testing.assert_allclose(read.next_observation[seen], kept.next_observation[seen], rtol=1e-4, atol=1e-4)
    assert read.card["reading"]["ends_computed"] == dataset.terminated.sum()


@pytest.mark.parametrize("without", [("timeouts",), ("timeouts", "next_observations")])
def test_a_file_that_marks_no_time_limits_gets_one_every_1000_steps(tmp_path: Path, without: tuple[str, ...]):
    dataset = numbered(4200, ends_at(4200, 499, 3499), ends_at(4200))  # two full episodes end exactly at 1000 and 2000
    read = read_d4rl(write_d4rl(tmp_path / "set.hdf5", dataset, without=without))
    assert read.card["reading"]["time_limits"] == "assumed"
    if "next_observations" in without:
        dropped = sorted(set(range(4200)) - set(read.observation[:, 0].astype(int)))
        assert dropped == [1499, 2499, 4199]
        assert read.observation[read.truncated][:, 0].tolist() == [1498, 2498]
    else:
        assert np.flatnonzero(read.truncated).tolist() == [1499, 2499]
        assert np.flatnonzero(read.terminated).tolist() == [499, 3499]


def wide_ant(dataset: Dataset, felt: float = 0.0) -> dict[str, np.ndarray]:
    contacts = np.zeros((len(dataset), 84))
    contacts[5, 3] = felt
    seen = {"observations": dataset.observation, "next_observations": dataset.next_observation}
    return {name: np.concatenate((array, contacts), axis=1) for name, array in seen.items()}


def test_an_ant_of_111_columns_becomes_one_of_27(tmp_path: Path):
    dataset = simulated("ant")
    read = open_dataset(write_d4rl(tmp_path / "set.hdf5", dataset, **wide_ant(dataset)))
    same_rows(read, dataset)
    assert read.robot == "ant"
    assert read.card["reading"]["zero_columns_dropped"] == 84


def test_an_ant_that_feels_contacts_is_refused(tmp_path: Path):
    dataset = simulated("ant")
    error = refused(write_d4rl(tmp_path / "set.hdf5", dataset, **wide_ant(dataset, felt=0.5)))
    assert error.kind == "contact-forces"
    assert "1 rows (first: row 5)" in str(error)


def test_formats_are_told_by_content_and_not_by_suffix(tmp_path: Path):
    dataset = simulated("hopper")
    save(dataset, tmp_path / "ours.hdf5")
    write_d4rl(tmp_path / "theirs.safetensors", dataset)
    same_rows(open_dataset(tmp_path / "ours.hdf5"), dataset)
    same_rows(open_dataset(str(tmp_path / "theirs.safetensors")), dataset)


def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path: Path):
    dataset = simulated("hopper")
    whole = write_d4rl(tmp_path / "whole.hdf5", dataset)
    (tmp_path / "cut.hdf5").write_bytes(whole.read_bytes()[:9000])
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "text").write_text("1,2,3\n4,5,6\n")
    (tmp_path / "packed").write_bytes(gzip.compress(whole.read_bytes()))
    write_d4rl(tmp_path / "lacking", dataset, without=("rewards",))
    write_d4rl(tmp_path / "short", dataset, rewards=dataset.reward[:-1])
    write_d4rl(tmp_path / "words", dataset, rewards=np.full(len(dataset), b"none"))
    write_d4rl(tmp_path / "halves", dataset, terminals=np.full(len(dataset), 0.5))
    write_d4rl(tmp_path / "flat", dataset, actions=dataset.action[:, 0])
    write_d4rl(tmp_path / "seen", dataset, observations=np.zeros((900, 64, 64, 3), np.uint8))
    expected = {
        "cut.hdf5": ("unreadable", "cannot be read"),
        "nothing": ("empty", "an empty file"),
        "text": ("unreadable", "of no known format"),
        "packed": ("unreadable", "gunzip"),
        "lacking": ("unreadable", "no rewards there (found: actions, infos, "),
        "short": ("wrong-shape", "rewards 899"),
        "words": ("wrong-dtype", "rewards: expected numbers"),
        "halves": ("wrong-dtype", "terminals: expected 0 and 1, found 0.5"),
        "flat": ("wrong-shape", "actions has the shape (900,)"),
        "seen": ("image-observations", "observations: images of 64 x 64 x 3 numbers; policies here see vectors"),
    }
    for name, (kind, said) in expected.items():
        error = refused(tmp_path / name)
        assert (error.kind, "\n" in str(error)) == (kind, False), name
        assert said in str(error)


def test_data_of_another_robot_is_refused(tmp_path: Path):
    path = write_d4rl(tmp_path / "set.hdf5", simulated("hopper"))
    error = refused(path, "walker")
    assert error.kind == "wrong-robot"
    assert "has 11 observation entries and 3 actions" in str(error)
    assert "(hopper would fit)" in str(error)
    save(simulated("walker"), tmp_path / "walker")
    assert refused(tmp_path / "walker", "halfcheetah").kind == "wrong-robot"  # the same sizes, but its card knows
    for named in ("hopper", "hopper-big-head", TASKS["hopper-big-head"]):
        assert open_dataset(path, named).robot == "hopper"


def test_names_are_looked_up_where_datasets_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OFFDYN_DATA", raising=False)
    with pytest.raises(
        OffdynError, match=r"no dataset 'hopper-medium' .*`offdyn collect hopper-medium` makes it in data"
    ):
        open_dataset("hopper-medium")
    save(simulated("hopper"), Path("data/hopper-medium.safetensors"))
    same_rows(open_dataset("hopper-medium"), simulated("hopper"))
    with pytest.raises(OffdynError, match=r"did you mean 'hopper-medium'.*known: hopper-medium"):
        find("hopper-medum")
    monkeypatch.setenv("OFFDYN_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(OffdynError, match=r"none in .*elsewhere yet"):
        find("hopper-medium")
    with pytest.raises(OffdynError, match="no such file"):
        open_dataset("missing/hopper.hdf5")


def test_columns_that_do_not_fit_are_refused():
    good = numbered(4, ends_at(4), ends_at(4))
    with pytest.raises(DataError, match=r"the columns differ in length .*reward 3"):
        with_columns(good, reward=np.zeros(3))
    with pytest.raises(DataError, match="observation has 2 entries, next_observation 3"):
        with_columns(good, next_observation=np.zeros((4, 3)))
    with pytest.raises(DataError, match="next_observation: images of 8 x 8 x 3"):
        with_columns(good, next_observation=np.zeros((4, 8, 8, 3), np.uint8))
    with pytest.raises(DataError, match="action: expected 2 dimension"):
        with_columns(good, action=np.zeros(4))
    with pytest.raises(DataError, match="terminated: expected 0 and 1, found 2"):
        with_columns(good, terminated=np.full(4, 2))


def test_datasets_need_no_jax(tmp_path: Path):
    save(simulated("hopper"), tmp_path / "set")
    script = (
        "import sys; from offdyn.data.doctor import diagnose; dataset, found = diagnose(sys.argv[1]);"
        "print(len(dataset), found, 'jax' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "set")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "900 [] False\n"


def test_every_robot_reads_its_own_file(tmp_path: Path):
    for robot in ROBOTS:
        dataset = simulated(robot)
        read = open_dataset(write_d4rl(tmp_path / f"{robot}.hdf5", dataset), robot)
        same_rows(read, dataset)
        assert read.robot == robot
        assert json.dumps(full_card(read))
