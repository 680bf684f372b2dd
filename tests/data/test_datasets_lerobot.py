"""LeRobot's datasets: files of its documented layouts are read, and what we write comes back whole."""

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import offdyn
from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.data.collect.episodes import play, uniform
from offdyn.data.datasets import COLUMNS, DataError, Dataset, open_dataset, save, write_lerobot
from offdyn.data.datasets.target_log import TargetLog
from offdyn.data.doctor import diagnose_dataset
from offdyn.envs import pairs

from ..custom.tiny import SETTINGS, named
from .simulated import simulated

TARGET = named("target")  # sees two numbers and acts in [-3, 5]
LENGTHS = (4, 6)  # frames of the two episodes


def frames() -> dict[str, np.ndarray]:
    """Two episodes that LeRobot could have recorded of that target; only the first one truly ends."""
    count, draw = sum(LENGTHS), np.random.default_rng(0)
    done = np.zeros(count, bool)
    done[LENGTHS[0] - 1] = True
    return {
        "observation.state": draw.normal(size=(count, 2)).astype(np.float32),
        "action": draw.uniform(-3, 5, (count, 1)).astype(np.float32),
        "next.reward": np.arange(count, dtype=np.float32),
        "next.done": done,
        "frame_index": np.concatenate([np.arange(length) for length in LENGTHS]),
        "episode_index": np.repeat([0, 1], LENGTHS),
    }


def recorded(
    folder: Path, columns: dict[str, Any] | None = None, version: str = "v3.0", *, lists: bool = False, **features: Any
) -> Path:
    """The columns in LeRobot's layout: of version 2 a file for each episode, of version 3 one file for all."""
    columns = frames() if columns is None else columns
    described = {name: {"dtype": str(c.dtype), "shape": list(c.shape[1:] or (1,))} for name, c in columns.items()}
    info = {"codebase_version": version, "fps": 10, "total_frames": sum(LENGTHS), "robot_type": "so100"}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info | {"features": described | features}))
    (folder / "data" / "chunk-000").mkdir(parents=True)
    arrays = {name: pyarrow.array(list(c) if c.ndim == 2 and (lists or c.shape[1] > 1) else c.ravel())
              for name, c in columns.items()}  # fmt: skip
    table = pyarrow.table(arrays)
    extremes = {"action": {"min": [-3.0], "max": [5.0]}}
    if version == "v3.0":
        parquet.write_table(table, folder / "data" / "chunk-000" / "file-000.parquet")
        (folder / "meta" / "stats.json").write_text(json.dumps(extremes))
        return folder
    with open(folder / "meta" / "episodes_stats.jsonl", "w") as file:
        for episode in np.unique(columns["episode_index"]):
            chosen = table.filter(pyarrow.array(columns["episode_index"] == episode))
            parquet.write_table(chosen, folder / "data" / "chunk-000" / f"episode_{episode:06d}.parquet")
            file.write(json.dumps({"episode_index": int(episode), "stats": extremes}) + "\n")
    return folder


def refused(folder: Path) -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        open_dataset(folder, target=TARGET)
    return caught.value.kind, str(caught.value)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize("lists", [False, True])
def test_frames_become_transitions_to_the_next_frame(version: str, lists: bool, tmp_path: Path):
    columns = frames()
    read = open_dataset(f"lerobot:{recorded(tmp_path / 'set', version=version, lists=lists)}", target=TARGET)
    seen = columns["observation.state"]
    assert np.array_equal(read.observation, seen[:-1]), "the last frame is no end and has no successor"
    assert np.array_equal(read.next_observation, np.r_[seen[1:4], seen[3:4], seen[5:]])
    np.testing.assert_allclose(read.action, (columns["action"][:-1] - 1) / 4, atol=1e-6)
    assert np.array_equal(read.reward, np.arange(9))
    assert np.flatnonzero(read.terminated).tolist() == [3]
    assert np.flatnonzero(read.truncated).tolist() == [8]
    assert read.card["reading"]["format"] == f"LeRobot {version}"
    assert (read.card["reading"]["dropped"], read.card["reading"]["ends_without_successor"]) == (1, 1)
    assert read.robot is None


def test_an_end_that_sees_itself_again_is_no_fault(tmp_path: Path):
    names = [finding.name for finding in diagnose_dataset(open_dataset(recorded(tmp_path / "set"), target=TARGET))]
    assert "constant-rows" not in names


def test_frames_come_in_their_order_and_a_missing_one_is_a_cut(tmp_path: Path):
    columns = frames()
    order = np.random.default_rng(1).permutation(sum(LENGTHS))
    shuffled = recorded(tmp_path / "shuffled", {name: column[order] for name, column in columns.items()})
    whole = open_dataset(recorded(tmp_path / "whole"), target=TARGET)
    assert np.array_equal(open_dataset(shuffled, target=TARGET).reward, whole.reward)
    columns["frame_index"][6:] += 1
    gap = open_dataset(recorded(tmp_path / "gap", columns), target=TARGET)
    assert gap.reward.tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert np.flatnonzero(gap.truncated).tolist() == [4, 7]


def test_a_time_limit_is_told_from_an_end_where_the_file_does(tmp_path: Path):
    columns = frames()
    cut = columns["next.done"]
    read = open_dataset(recorded(tmp_path / "set", columns | {"next.truncated": cut}), target=TARGET)
    assert not read.terminated.any()
    assert "ends" not in read.card["reading"]
    told = open_dataset(recorded(tmp_path / "plain"), target=TARGET).card["reading"]["ends"]
    assert told == "every next.done, as no next.truncated tells time limits apart"


def test_without_a_target_the_statistics_bound_the_actions(tmp_path: Path):
    for version in ("v2.1", "v3.0"):
        folder = recorded(tmp_path / version, version=version)
        assert open_dataset(folder).card["action_high"] == [5.0]
        for name in ("stats.json", "episodes_stats.jsonl"):
            (folder / "meta" / name).unlink(missing_ok=True)
        with pytest.raises(DataError, match=f"{version} gives no bounds of its actions"):
            open_dataset(folder)


def test_both_states_are_seen_and_pictures_are_left_out(tmp_path: Path):
    columns = frames()
    columns["observation.environment_state"] = columns["observation.state"][:, 1:]
    columns["observation.state"] = columns["observation.state"][:, :1]
    camera = {"observation.images.top": {"dtype": "video", "shape": [480, 640, 3]}}
    read = open_dataset(recorded(tmp_path / "set", columns, **camera), target=TARGET)
    assert np.array_equal(read.observation, frames()["observation.state"][:-1])
    assert read.card["reading"]["ignored"] == "images: observation.images.top"


def test_what_cannot_be_used_is_refused_in_words(tmp_path: Path):
    columns = frames()
    camera = {"observation.images.top": {"dtype": "video", "shape": [480, 640, 3]}}

    def without(*names: str) -> dict[str, np.ndarray]:
        return {name: column for name, column in columns.items() if name not in names}

    kind, said = refused(recorded(tmp_path / "blind", without("observation.state"), **camera))
    assert kind == "image-observations"
    assert "images of 480 x 640 x 3 numbers" in said
    kind, said = refused(recorded(tmp_path / "idle", without("action")))
    assert "expected observation.state and action; found: observation.state, next.reward" in said
    kind, said = refused(recorded(tmp_path / "unpaid", without("next.reward")))
    assert kind == "no-rewards"
    assert "nothing says what was done well" in said

    kind, said = refused(recorded(tmp_path / "narrow", action={"dtype": "float32", "shape": [6]}))
    assert (kind, said.split("file-000.parquet: ")[1]) == (
        "wrong-shape",
        "action has 1 numbers a frame, and by meta/info.json [6]",
    )
    kind, said = refused(recorded(tmp_path / "matrix", action={"dtype": "float32", "shape": [1, 1]}))
    assert kind == "wrong-shape"
    kind, said = refused(recorded(tmp_path / "lost", without("next.done"), **{"next.done": {"shape": [1]}}))
    assert "file-000.parquet: no next.done there" in said

    few = recorded(tmp_path / "few", {name: column[:5] for name, column in columns.items()})
    assert "5 frames of the 10 that meta/info.json counts" in refused(few)[1]
    file = next(recorded(tmp_path / "cut").glob("data/*/*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])
    kind, said = refused(tmp_path / "cut")
    assert (kind, "file-000.parquet: cannot be read" in said) == ("unreadable", True)
    file.unlink()
    assert refused(tmp_path / "cut")[0] == "empty"
    assert "of LeRobot's layout v4.0; expected v2.0" in refused(recorded(tmp_path / "new", version="v4.0"))[1]
    (tmp_path / "cut" / "meta" / "info.json").write_text("{")
    assert "info.json: cannot be read" in refused(tmp_path / "cut")[1]
    with pytest.raises(OffdynError, match=r"no LeRobot dataset in .*nowhere; expected the folder that holds meta"):
        open_dataset(f"lerobot:{tmp_path}/nowhere")


def test_a_value_that_is_no_number_is_found_by_the_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    columns = frames()
    columns["observation.state"][2, 1] = np.nan
    assert main(["check", f"lerobot:{recorded(tmp_path / 'set', columns)}", "--target", TARGET]) == 1
    assert "FATAL: nan-or-infinity" in capsys.readouterr().out


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, importing = recorded(tmp_path / "set"), builtins.__import__

    def none_of_it(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name)
        return importing(name, *rest)

    monkeypatch.setattr(builtins, "__import__", none_of_it)
    with pytest.raises(OffdynError, match=r"need the Python package pyarrow: pip install 'offdyn\[lerobot\]'$"):
        open_dataset(folder)


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_what_goes_out_comes_in_again(version: str, tmp_path: Path):
    dataset = simulated("hopper").described(name="mine")
    folder = write_lerobot(dataset, tmp_path / "set", version=version)
    for wanted in (f"lerobot:{folder}", folder):
        read = open_dataset(wanted)
        for name in COLUMNS:
            assert np.array_equal(getattr(read, name), getattr(dataset, name)), name
    assert (read.card["name"], read.card["robot"], read.card["seed"]) == ("mine", "hopper", 3)
    info = json.loads((folder / "meta" / "info.json").read_text())
    assert (info["fps"], info["total_episodes"]) == (125, len(dataset.episodes()))
    assert info["codebase_version"] == version
    with pytest.raises(OffdynError, match="exists already"):
        write_lerobot(dataset, folder)


def test_a_target_log_becomes_a_lerobot_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = TargetLog(path := tmp_path / "a.steps", (2, 1), {"name": "arm", "action_low": [-3.0], "action_high": [5.0]})
    for step in range(6):
        log.append([step, 0], [step / 5], step, [step + 1, 0], step == 2, False)
    log.cut()
    log.close()
    out = tmp_path / "arm"
    assert main(["export", str(path), "--format", "lerobot", "--out", str(out)]) == 2
    assert "how many steps per second?" in capsys.readouterr().err
    assert main(["export", str(path), "--format", "lerobot", "--out", str(out), "--fps", "20"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    table = parquet.read_table(out / "data" / "chunk-000" / "file-000.parquet").to_pydict()
    np.testing.assert_allclose(table["action"], [-3 + 8 * (step / 10 + 0.5) for step in range(6)])
    assert table["next.done"] == [False, False, True, False, False, True]
    assert table["next.truncated"] == [False] * 5 + [True]
    assert table["frame_index"] == [0, 1, 2] * 2
    np.testing.assert_allclose(table["timestamp"], [0, 0.05, 0.1] * 2)
    read, before = open_dataset(out), open_dataset(path)
    for name in COLUMNS:
        np.testing.assert_allclose(getattr(read, name), getattr(before, name), atol=1e-6)
    assert read.card["cut_by_stops"] == [5]


def test_version_2_1_has_a_file_and_statistics_for_each_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("offdyn.data.datasets.lerobot.CHUNK", 2)
    dataset = simulated("hopper").described(name="mine")
    save(dataset, tmp_path / "mine.safetensors")
    out, episodes = tmp_path / "set", dataset.episodes()
    asked = ["export", str(tmp_path / "mine.safetensors"), "--format", "lerobot-v2.1", "--out", str(out)]
    assert main(asked) == 0
    assert capsys.readouterr().out == f"{out}\n"
    info = json.loads((out / "meta" / "info.json").read_text())
    assert info["total_chunks"] == -(-len(episodes) // 2)
    stats, lengths, tasks = (
        [json.loads(line) for line in (out / "meta" / f"{name}.jsonl").read_text().splitlines()]
        for name in ("episodes_stats", "episodes", "tasks")
    )
    assert tasks == [{"task_index": 0, "task": "mine"}]
    assert len(episodes) >= 3
    for number, (first, end) in enumerate(episodes):
        path = out / info["data_path"].format(episode_chunk=number // 2, episode_index=number)
        table = parquet.read_table(path).to_pydict()
        np.testing.assert_array_equal(table["observation.state"], dataset.observation[first:end])
        assert table["index"] == list(range(first, end))
        assert lengths[number] == {"episode_index": number, "tasks": ["mine"], "length": end - first}
        np.testing.assert_allclose(stats[number]["stats"]["action"]["max"], dataset.action[first:end].max(0))
        assert stats[number]["stats"]["next.reward"]["count"] == [end - first]
    with pytest.raises(OffdynError, match=r"no LeRobot layout 'v2'; did you mean 'v2.1'"):
        write_lerobot(dataset, tmp_path / "other", version="v2")


def test_an_open_episode_comes_back_open(tmp_path: Path):
    dataset = simulated("halfcheetah")[:50]
    read = open_dataset(write_lerobot(dataset, tmp_path / "set"))
    assert not read.truncated.any()
    read = open_dataset(write_lerobot(dataset[np.delete(np.arange(50), 20)], tmp_path / "gap"))
    assert np.flatnonzero(read.truncated).tolist() == [19]


def test_a_folder_whose_name_looks_like_an_address_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    written = write_lerobot(simulated("hopper"), Path("json:set"))
    assert len(open_dataset(f"lerobot:{written}")) == len(simulated("hopper"))


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("offdyn.data.datasets.lerobot._statistics", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_lerobot(simulated("hopper"), tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


def test_a_training_learns_from_a_lerobot_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    played: Dataset = play(pairs.meant(TARGET), uniform(1), 60, (0,))
    folder = write_lerobot(played, tmp_path / "set", fps=10)
    monkeypatch.chdir(tmp_path)
    (run,) = offdyn.train(source="lerobot:set", target=TARGET, method="sac", out=tmp_path / "runs", threads=1,
                          **(SETTINGS | {"source_steps": 120}))  # fmt: skip
    assert run.config.schedule.source_data == f"lerobot:{folder}"
    assert run.provenance["source_data"]["rows"] == len(played)
