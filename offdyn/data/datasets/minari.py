"""Minari's HDF5 datasets, read and written with h5py alone: the same files, without Minari's own dependencies."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ...domains.tasks import TASKS
from ...errors import OffdynError
from . import bodies
from .dataset import COLUMNS, DataError, Dataset
from .own import full_card

LAYOUT = "0.5.4"  # of Minari, whose layout this is
DATASET_ID = re.compile(r"(?:[-_\w][-_\w/]*[-_\w]+/)?[-_\w]+-v\d+")


def folder_of(dataset_id: str) -> Path:
    """Where Minari keeps a dataset of this name."""
    root = os.environ.get("MINARI_DATASETS_PATH")
    return (Path(root) if root else Path.home() / ".minari" / "datasets") / dataset_id


def data_file(path: Path) -> Path | None:
    """The file with the steps, where the folder is a Minari dataset or its `data`."""
    for place in (path / "data", path):
        if (place / "metadata.json").is_file():
            return place / "main_data.hdf5"
    return None


def read(path: Path, robot: str | None = None) -> Dataset:
    """The steps of all episodes; `path` is the `main_data.hdf5` beside its `metadata.json`."""
    said = _metadata(path.with_name("metadata.json"))
    if (kind := said.get("data_format", "hdf5")) != "hdf5":
        raise DataError("unreadable", f"{path.parent}: stored as {kind}; only Minari's HDF5 datasets can be read here")
    episodes: list[tuple[np.ndarray, ...]] = []
    try:
        with h5py.File(path, "r") as file:
            for name in sorted(file, key=_number):
                episodes.append(_episode(file[name], f"{path}, {name}"))
    except (OSError, RuntimeError, KeyError) as error:
        raise DataError("unreadable", f"{path}: cannot be read ({error}); fetch or make it again") from None
    if not episodes:
        raise DataError("empty", f"{path}: no episodes there")
    names = (said.get("dataset_id", "").split("/")[-1], _environment(said), said.get("dataset_id", ""))
    if len(shapes := {(e[0].shape[1:], e[1].shape[1:]) for e in episodes}) > 1:
        raise DataError("wrong-shape", f"{path}: its episodes differ in the sizes of observation and action: {shapes}")
    columns = dict(zip(COLUMNS, map(np.concatenate, zip(*episodes, strict=True)), strict=True))
    if robot is None and columns["observation"].ndim == columns["action"].ndim == 2:
        robot = bodies.guess(names, columns["observation"].shape[1], columns["action"].shape[1])
    own = said.pop("offdyn_card", None) or {"name": said.get("dataset_id"), "robot": robot, "shift": None}
    reading = {"format": "Minari HDF5", "time_limits": "marked"}
    return Dataset(**columns, card={**own, "minari": said, "reading": reading})


def write(dataset: Dataset, dataset_id: str, folder: Path | None = None) -> Path:
    """A new Minari dataset, which is also what `minari.load_dataset(dataset_id)` reads; its folder."""
    if not DATASET_ID.fullmatch(dataset_id):
        raise OffdynError(f"'{dataset_id}': expected a Minari name such as offdyn/hopper/medium-v0")
    place = folder or folder_of(dataset_id)
    if place.exists():
        raise OffdynError(f"{place} exists already: choose another name, or delete it")
    beside = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    try:
        (beside / "data").mkdir(parents=True)
        total = _write_episodes(dataset, beside / "data" / "main_data.hdf5")
        said = json.dumps(_description(dataset, dataset_id, total))
        (beside / "data" / "metadata.json").write_text(said)
        os.replace(beside, place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return place


def _write_episodes(dataset: Dataset, path: Path) -> int:
    """Minari keeps n + 1 observations of n steps, so an episode is cut wherever one step does not follow another."""
    joined = (dataset.next_observation[:-1] == dataset.observation[1:]).all(axis=1)
    ends = dataset.terminated | dataset.truncated | np.r_[~joined, True][: len(dataset)]
    stops = np.flatnonzero(ends) + 1
    truncated = ends & ~dataset.terminated
    with h5py.File(path, "w") as file:
        for number, (first, stop) in enumerate(zip(np.r_[0, stops[:-1]], stops, strict=True)):
            rows = slice(first, stop)
            episode = file.create_group(f"episode_{number}")
            episode.attrs.update({"id": number, "total_steps": int(stop - first)})
            seen = np.concatenate((dataset.observation[rows], dataset.next_observation[stop - 1 : stop]))
            columns = {"observations": seen, "actions": dataset.action[rows], "rewards": dataset.reward[rows]}
            columns |= {"terminations": dataset.terminated[rows], "truncations": truncated[rows]}
            for name, column in columns.items():
                episode.create_dataset(name, data=column)
    return len(stops)


def _description(dataset: Dataset, dataset_id: str, episodes: int) -> dict[str, Any]:
    card = full_card(dataset)
    task = TASKS.get(str(card["shift"] or card["robot"]))
    seen, acted = bodies.sizes(dataset)
    environment = {}
    if task is not None:  # so that Minari's recover_environment gives the robot back
        import gymnasium

        environment["env_spec"] = gymnasium.spec(f"offdyn/{task.name}-v0").to_json()
    return {
        "total_episodes": episodes,
        "total_steps": len(dataset),
        "data_format": "hdf5",
        "observation_space": _box(seen, float("-inf"), float("inf")),
        "action_space": _box(acted, -1.0, 1.0),
        **environment,
        "dataset_id": dataset_id,
        "author": ["offdyn"],
        "algorithm_name": str((card["made"] or {}).get("policy", "")) if isinstance(card["made"], dict) else "",
        "description": f"{card['name'] or dataset_id}, written by offdyn {card['offdyn']}",
        "minari_version": LAYOUT,
        "dataset_size": round(sum(array.nbytes for array in dataset.arrays().values()) / 1e6, 1),  # megabytes
        "offdyn_card": card,
    }


def _box(size: int, low: float, high: float) -> str:
    said = {"type": "Box", "dtype": "float32", "shape": [size], "low": [low] * size, "high": [high] * size}
    return json.dumps(said)


def _episode(group: Any, where: str) -> tuple[np.ndarray, ...]:
    if not all(isinstance(group.get(name), h5py.Dataset) for name in ("observations", "actions")):
        raise DataError("wrong-shape", f"{where}: observations and actions must be plain arrays (Minari's Box spaces)")
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    seen, action, reward, terminated, truncated = (group[name][...] for name in names)
    if len(seen) != len(action) + 1 or {len(action)} != {len(reward), len(terminated), len(truncated)}:
        raise DataError(
            "wrong-shape", f"{where}: {len(seen)} observations of {len(action)} actions, {len(reward)} rewards; "
            "an episode has one observation more than steps"
        )  # fmt: skip
    terminated = np.asarray(terminated, bool)
    truncated = np.asarray(truncated, bool) & ~terminated
    truncated[-1:] |= ~terminated[-1:]  # another episode follows: this one was cut here
    return seen[:-1], action, reward, seen[1:], terminated, truncated


def _metadata(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError("unreadable", f"{path}: cannot be read ({error})") from None
    return said if isinstance(said, dict) else {}


def _environment(said: dict[str, Any]) -> str:
    try:
        return str(json.loads(said.get("env_spec") or "{}").get("id", "")).split("/")[-1]
    except (ValueError, AttributeError, TypeError):
        return ""


def _number(name: str) -> int:
    found = re.fullmatch(r"episode_(\d+)", name)
    return int(found[1]) if found else -1
