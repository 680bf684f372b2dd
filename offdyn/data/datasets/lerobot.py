"""LeRobot's datasets: versions 2.0, 2.1 and 3.0 are read, the last two written, with pyarrow alone.

A frame holds what was seen and done, and what came of it; its successor is the next frame of its episode. The last
frame has none: a true end sees itself again, as in LeRobot's own replay buffer, and any other is dropped. What we write
has the successors in a column of its own, so that nothing is lost.
"""

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._util import plain_json
from ..._util.errors import OffdynError, shown, unknown
from ..._util.fields import WIDEST
from ...envs.robots import ROBOTS
from . import d4rl
from .actions import bounded, known_bounds
from .dataset import MEANING, DataError, Dataset, flags, images, numbers
from .native import full_card
from .untrusted import check_size, checked_card, read_json

PREFIX = "lerobot:"
INFO, STATS, EPISODES_STATS, CARD = "meta/info.json", "meta/stats.json", "meta/episodes_stats.jsonl", "meta/offdyn.json"
EPISODES, TASKS = "meta/episodes.jsonl", "meta/tasks.jsonl"  # of version 2.1
STATES = ("observation.state", "observation.environment_state")  # one after the other
SUCCESSOR = "next.observation.state"  # our own
VECTORS = (*STATES, "action", SUCCESSOR)
REWARDS, DONES, CUTS = ("next.reward", "reward"), ("next.done", "done"), ("next.truncated", "truncated")
PLACE = ("episode_index", "frame_index")
PICTURES = ("image", "video")
VERSIONS = ("v3.0", "v2.1")  # that are written
FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODE_FILE, CHUNK = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet", 1000  # of version 2.1


def info_file(folder: Path) -> Path | None:
    """The file that describes the dataset, where the folder is one."""
    path = folder / INFO
    return path if path.is_file() else None


def read(path: Path, robot: str | None = None) -> Dataset:
    """The frames of all episodes, actions as recorded; `path` is the `meta/info.json`."""
    folder, said = path.parent.parent, _info(path)
    states, reward, done, cut = _names(said["features"], folder)
    also = [name for name in (done, cut, SUCCESSOR) if name and name in said["features"]]
    columns = _columns(folder, said, [*states, "action", reward, *PLACE, *also])
    order = np.lexsort([columns[name] for name in reversed(PLACE)])
    columns = {name: column[order] for name, column in columns.items()}
    observation = np.concatenate([columns[name] for name in states], axis=1)
    episode, frame = (columns[name] for name in PLACE)
    followed = np.r_[(episode[1:] == episode[:-1]) & (frame[1:] == frame[:-1] + 1), False]
    truncated = flags(cut, columns[cut]) if cut else np.zeros(len(episode), bool)
    terminated = flags(done, columns[done]) & ~truncated if done else np.zeros(len(episode), bool)
    card, reading = _card(folder, said, robot)
    kept = np.ones(len(episode), bool)
    if SUCCESSOR in columns:
        following = columns[SUCCESSOR]
        truncated |= ~followed & ~terminated & np.r_[np.ones(len(episode) - 1, bool), False]
    else:
        following = np.concatenate((observation[1:], observation[-1:]))
        kept = followed | terminated
        truncated |= np.r_[~kept[1:], False] & ~terminated
        ends = terminated & ~followed
        following[ends] = observation[ends]
        reading |= {"dropped": int((~kept).sum())}
        reading |= d4rl.give_ends_successors(following, observation, columns["action"], ends, card["robot"])
    if done and not cut:
        reading["ends"] = f"every {done}, as no next.truncated tells time limits apart"
    if ignored := [name for name, feature in said["features"].items() if feature.get("dtype") in PICTURES]:
        reading["ignored"] = f"images: {', '.join(ignored)}"
    card["reading"] = reading
    return Dataset(observation, columns["action"], columns[reward], following, terminated, truncated, card)[kept]


def _info(path: Path) -> dict[str, Any]:
    said = read_json(path)
    features = said.get("features") if isinstance(said, dict) else None
    if not isinstance(features, dict) or not all(isinstance(feature, dict) for feature in features.values()):
        raise DataError("unreadable", f"{path}: expected LeRobot's description with its features, found none")
    for name, feature in features.items():
        shape = feature.setdefault("shape", [1]) or [1]
        if not isinstance(shape, list) or not all(type(size) is int and 1 <= size <= WIDEST for size in shape):
            raise DataError("wrong-shape", f"{path}: {name} has the shape {shown(shape)}; expected whole numbers")
    version = str(said.get("codebase_version"))
    if not version.startswith(("v2.", "v3.")):
        raise DataError("unreadable", f"{path}: of LeRobot's layout {version}; expected v2.0, v2.1 or v3.0")
    return said


def _names(features: Mapping[str, Mapping[str, Any]], folder: Path) -> tuple[list[str], str, str | None, str | None]:
    """The columns of state, reward, end and cut."""
    found = f"found: {', '.join(features)}"
    states = [name for name in STATES if name in features]
    pictures = [feature.get("shape") or [] for feature in features.values() if feature.get("dtype") in PICTURES]
    if not states and pictures:
        raise images(f"{folder}: all that it shows", pictures[0])
    if not states or "action" not in features:
        raise DataError("unreadable", f"{folder}: expected {STATES[0]} and action; {found}")
    reward, done, cut = (next((n for n in names if n in features), None) for names in (REWARDS, DONES, CUTS))
    if reward is None:
        raise DataError(
            "no-rewards", f"{folder}: no {REWARDS[0]} ({found}); nothing says what was done well: add that column"
        )
    return states, reward, done, cut


def _columns(folder: Path, said: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Each column over all files, vectors as [n, width]."""
    files = sorted(folder.glob("data/*/*.parquet"))
    if not files:
        raise DataError("empty", f"{folder}: no parquet files in data/chunk-000")
    parts = [_of_file(file, said["features"], wanted) for file in files]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in wanted}
    count, total = len(columns["action"]), said.get("total_frames")
    if count == 0:
        raise DataError("empty", f"{folder}: no frames there")
    if isinstance(total, int) and count != total:
        raise DataError("unreadable", f"{folder}: {count} frames of the {total} that {INFO} counts; fetch it again")
    return columns


def _of_file(file: Path, features: Mapping[str, Mapping[str, Any]], wanted: Sequence[str]) -> dict[str, np.ndarray]:
    pyarrow, parquet = _pyarrow()
    shapes = {name: features.get(name, {}).get("shape") or [1] for name in wanted}
    try:
        if not file.is_file():
            raise OSError("no plain file")
        with parquet.ParquetFile(file.absolute()) as content:
            there = content.schema_arrow.names
            if missing := [name for name in wanted if name not in there]:
                raise DataError("unreadable", f"{file}: no {', '.join(missing)} there (found: {', '.join(there)})")
            count = content.metadata.num_rows
            check_size(file, f"{count} frames", count * sum(map(math.prod, shapes.values())) * 8)
            table = content.read(columns=list(wanted))
            table.validate(full=True)
    except DataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        said = " ".join(str(error).split())
        raise DataError("unreadable", f"{file}: cannot be read ({said}); fetch or make it again") from None
    return {name: _array(table[name], name, shapes[name], file) for name in wanted}


def _array(column: Any, name: str, shape: Sequence[int], file: Path) -> np.ndarray:
    """One column of a file: [n, width] of what is seen and done, else [n]."""
    pyarrow, _ = _pyarrow()
    lengths: set[int | None] = {1}
    if column.null_count:
        raise DataError("wrong-dtype", f"{file}: {name} is empty in {column.null_count} of {len(column)} frames")
    if pyarrow.types.is_list(column.type) or pyarrow.types.is_fixed_size_list(column.type):
        lengths = set(pyarrow.compute.list_value_length(column).to_pylist())
        column = pyarrow.compute.list_flatten(column)
    if len(shape) != 1 or lengths - {shape[0]}:
        told = " and ".join(sorted(map(str, lengths)))
        raise DataError("wrong-shape", f"{file}: {name} has {told} numbers a frame, and by {INFO} {list(shape)}")
    values, where = column.to_numpy(), f"{file}: {name}"
    if name in VECTORS:
        return numbers(where, values).reshape(-1, shape[0])
    if name in (*DONES, *CUTS):
        return flags(where, values)
    if name in PLACE and values.dtype.kind not in "iu":
        raise DataError("wrong-dtype", f"{where}: expected whole numbers, found {values.dtype}")
    return values if name in PLACE else numbers(where, values)


def _card(folder: Path, said: Mapping[str, Any], robot: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whose frames they are and what their actions mean, and what to tell of how they were read."""
    reading = {"format": f"LeRobot {said['codebase_version']}", "time_limits": "marked"}
    if (folder / CARD).is_file():
        return {**checked_card(read_json(folder / CARD), folder / CARD)}, reading
    kind = str(said.get("robot_type"))
    robot = robot or (kind if kind in ROBOTS else None)
    bounds = _extremes(folder)
    reading |= {"bounds": "the smallest and largest recorded action"} if bounds else {}
    return {"name": folder.resolve().name, "robot": robot, "shift": None, "fps": said.get("fps"), **bounds}, reading


def _extremes(folder: Path) -> dict[str, list[float]]:
    """For the card: the smallest and largest action by the statistics, which version 2.1 keeps for each episode."""
    try:
        if (folder / STATS).is_file():
            stats = [read_json(folder / STATS)["action"]]
        elif (folder / EPISODES_STATS).is_file():
            lines = (folder / EPISODES_STATS).read_text().splitlines()
            stats = [plain_json.loads(line)["stats"]["action"] for line in lines]
        else:
            return {}
        low = np.min([np.ravel(found["min"]).astype(float) for found in stats], axis=0)
        high = np.max([np.ravel(found["max"]).astype(float) for found in stats], axis=0)
        return dict(zip(MEANING, (low.tolist(), high.tolist()), strict=True))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return {}


def write(dataset: Dataset, folder: Path | str, fps: int | None = None, version: str = VERSIONS[0]) -> Path:
    """A new LeRobot dataset, actions in their environment's units; its folder.

    `fps`: steps per second, which of our robots is known. `version`: of its layout, "v3.0" or "v2.1".
    """
    if version not in VERSIONS:
        raise unknown("LeRobot layout", str(version), VERSIONS)
    dataset, place = bounded(dataset, None), Path(folder)
    if fps is None and dataset.robot in ROBOTS:
        fps = round(1 / ROBOTS[dataset.robot].seconds_per_step)
    if isinstance(fps, bool) or not isinstance(fps, int) or fps < 1:
        raise OffdynError(f"{place}: how many steps per second? Say a whole number with --fps (fps= in Python)")
    if not len(dataset):
        raise DataError("empty", "there are no transitions to write")
    if place.exists():
        raise OffdynError(f"{place} exists already: choose another folder, or delete it")
    beside = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    try:
        _write(dataset, beside, fps, version)
        os.replace(beside, place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return place


def _write(dataset: Dataset, folder: Path, fps: int, version: str) -> None:
    columns, bounds = _frames(dataset, fps)
    task = str(dataset.card.get("name") or "offdyn")
    info = {
        "codebase_version": version,
        "robot_type": dataset.robot,
        "total_episodes": len(bounds),
        "total_frames": len(dataset),
        "total_tasks": 1,
        "chunks_size": CHUNK,
        "fps": fps,
        "splits": {"train": f"0:{len(bounds)}"},
        "video_path": None,
        "features": {
            name: {"dtype": column.dtype.name, "shape": list(column.shape[1:] or (1,)), "names": None}
            for name, column in columns.items()
        },
    }
    (folder / "meta").mkdir(parents=True)
    layout = _write_one_file if version == VERSIONS[0] else _write_episode_files
    info |= layout(folder, columns, bounds, task)
    for name, content in ((INFO, info), (CARD, full_card(dataset))):
        (folder / name).write_text(json.dumps(content, indent=2))


def _write_one_file(folder: Path, columns: Mapping[str, np.ndarray], bounds: np.ndarray, task: str) -> dict[str, Any]:
    """All frames in one file, as version 3.0 may have them; what else stands in its description."""
    of_episodes = {"data/chunk_index": 0, "data/file_index": 0, "meta/episodes/chunk_index": 0}
    of_episodes |= {"meta/episodes/file_index": 0}
    episodes = {
        "episode_index": np.arange(len(bounds)),
        "tasks": [[task]] * len(bounds),
        "length": bounds[:, 1] - bounds[:, 0],
        "dataset_from_index": bounds[:, 0],
        "dataset_to_index": bounds[:, 1],
        **{name: np.full(len(bounds), value) for name, value in of_episodes.items()},
    }
    _table(folder / "data" / FILE.format(chunk_index=0, file_index=0), columns)
    _table(folder / "meta" / "episodes" / FILE.format(chunk_index=0, file_index=0), episodes)
    _table(folder / "meta" / "tasks.parquet", {"task_index": [0], "task": [task]}, index="task")
    stats = {name: _statistics(column) for name, column in columns.items()}
    (folder / STATS).write_text(json.dumps(stats, indent=2))
    return {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200, "data_path": f"data/{FILE}"}


def _write_episode_files(
    folder: Path, columns: Mapping[str, np.ndarray], bounds: np.ndarray, task: str
) -> dict[str, Any]:
    """A file for each episode, as version 2.1 has them; what else stands in its description."""
    stats = []
    for number, (first, end) in enumerate(bounds.tolist()):
        episode = {name: column[first:end] for name, column in columns.items()}
        _table(folder / EPISODE_FILE.format(episode_chunk=number // CHUNK, episode_index=number), episode)
        stats.append({"episode_index": number, "stats": {name: _statistics(part) for name, part in episode.items()}})
    episodes = [{"episode_index": number, "tasks": [task], "length": end - first}
                for number, (first, end) in enumerate(bounds.tolist())]  # fmt: skip
    tasks = [{"task_index": 0, "task": task}]
    for name, lines in ((EPISODES, episodes), (TASKS, tasks), (EPISODES_STATS, stats)):
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return {"total_chunks": -(-len(bounds) // CHUNK), "total_videos": 0, "data_path": EPISODE_FILE}


def _frames(dataset: Dataset, fps: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Every column, and where episodes begin and end: also where one step does not follow another."""
    joined = (dataset.next_observation[:-1] == dataset.observation[1:]).all(axis=1)
    stops = np.flatnonzero(dataset.terminated | dataset.truncated | np.r_[~joined, True]) + 1
    starts = np.r_[0, stops[:-1]]
    index, lengths = np.arange(len(dataset)), stops - starts
    frame = index - np.repeat(starts, lengths)
    bounds = known_bounds(dataset)
    assert bounds is not None
    columns = {
        STATES[0]: dataset.observation,
        "action": bounds.in_units(dataset.action).astype(np.float32),
        REWARDS[0]: dataset.reward,
        DONES[0]: dataset.terminated | dataset.truncated,
        CUTS[0]: dataset.truncated & ~dataset.terminated,
        SUCCESSOR: dataset.next_observation,
        "timestamp": (frame / fps).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.repeat(np.arange(len(stops)), lengths),
        "index": index,
        "task_index": np.zeros_like(index),
    }
    return columns, np.stack((starts, stops), axis=1)


def _statistics(column: np.ndarray) -> dict[str, list[float]]:
    values = column.reshape(len(column), -1).astype(np.float64)
    found = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
    return {**{name: value.tolist() for name, value in found.items()}, "count": [len(values)]}


def _table(path: Path, columns: Mapping[str, Any], index: str | None = None) -> None:
    """One parquet file; `index` is the column that pandas takes for the names of the lines."""
    pyarrow, parquet = _pyarrow()
    table = pyarrow.table({name: _arrow(column) for name, column in columns.items()})
    if index is not None:
        listed = [{"name": n, "field_name": n, **_pandas(table[n].type), "metadata": None} for n in columns]
        said = {"index_columns": [index], "column_indexes": [], "columns": listed, "pandas_version": "2.0.0"}
        table = table.replace_schema_metadata({"pandas": json.dumps(said)})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path.absolute())  # `a:b` would be taken for an address


def _arrow(column: Any) -> Any:
    pyarrow, _ = _pyarrow()
    if not isinstance(column, np.ndarray) or column.ndim == 1:
        return pyarrow.array(column)
    if column.shape[1] == 1:  # as LeRobot stores such a vector
        return pyarrow.array(column[:, 0])
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(column.ravel()), column.shape[1])


def _pandas(kind: Any) -> dict[str, str]:
    text = str(kind) == "string"
    return {"pandas_type": "unicode" if text else str(kind), "numpy_type": "object" if text else str(kind)}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.compute
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise OffdynError("LeRobot's datasets need the Python package pyarrow: pip install 'offdyn[lerobot]'") from None
    return pyarrow, parquet
