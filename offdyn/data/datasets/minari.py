"""Minari's HDF5 datasets, read and written with h5py alone: the same files, without Minari's own dependencies."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..._util import plain_json
from ..._util.errors import OffdynError
from ..._util.fields import WIDEST
from ...envs.tasks import TASKS
from . import bodies
from .actions import bounded, known_bounds
from .dataset import COLUMNS, MEANING, DataError, Dataset, flags, images
from .hdf5 import Hdf5
from .native import full_card
from .untrusted import checked_card, read_json

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


def read(file: Hdf5, robot: str | None = None) -> Dataset:
    """The steps of all episodes, actions as recorded; `file` is the `main_data.hdf5` beside its `metadata.json`."""
    path, said = file.path, _metadata(file)
    _check_spaces(said, path)
    if (kind := said.get("data_format", "hdf5")) != "hdf5":
        raise DataError("unreadable", f"{path.parent}: stored as {kind}; only Minari's HDF5 datasets can be read here")
    episodes = [_episode(file, name) for name in sorted(file.names(), key=_number)]
    if not episodes:
        raise DataError("empty", f"{path}: no episodes there")
    name, environment = str(said.get("dataset_id", "")), _environment(said)
    names = (name.split("/")[-1], str(environment.get("id", "")).split("/")[-1], name)
    if len(shapes := {(e[0].shape[1:], e[1].shape[1:]) for e in episodes}) > 1:
        raise DataError("wrong-shape", f"{path}: its episodes differ in the sizes of observation and action: {shapes}")
    columns = dict(zip(COLUMNS, map(np.concatenate, zip(*episodes, strict=True)), strict=True))
    if robot is None and columns["observation"].ndim == columns["action"].ndim == 2:
        robot = bodies.guess(names, columns["observation"].shape[1], columns["action"].shape[1])
    own = checked_card(said.pop("offdyn_card", None) or {"name": name or None, "robot": robot, "shift": None}, path)
    own = {**own, "time_limit": own.get("time_limit") or environment.get("max_episode_steps"), **_bounds(said)}
    reading = {"format": "Minari HDF5", "time_limits": "marked"}
    return Dataset(**columns, card={**own, "minari": said, "reading": reading})


def write(dataset: Dataset, dataset_id: str, folder: Path | None = None) -> Path:
    """A new Minari dataset, which is also what `minari.load_dataset(dataset_id)` reads; its folder.

    Its actions are in their environment's units, and its action space has their bounds.
    """
    dataset = bounded(dataset, None)
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
    bounds = known_bounds(dataset)
    assert bounds is not None
    action = bounds.in_units(dataset.action).astype(np.float32)
    with h5py.File(path, "w") as file:
        for number, (first, stop) in enumerate(zip(np.r_[0, stops[:-1]], stops, strict=True)):
            rows = slice(first, stop)
            episode = file.create_group(f"episode_{number}")
            episode.attrs.update({"id": number, "total_steps": int(stop - first)})
            seen = np.concatenate((dataset.observation[rows], dataset.next_observation[stop - 1 : stop]))
            columns = {"observations": seen, "actions": action[rows], "rewards": dataset.reward[rows]}
            columns |= {"terminations": dataset.terminated[rows], "truncations": truncated[rows]}
            for name, column in columns.items():
                episode.create_dataset(name, data=column)
    return len(stops)


def _description(dataset: Dataset, dataset_id: str, episodes: int) -> dict[str, Any]:
    card = full_card(dataset)
    task = TASKS.get(str(card["shift"] or card["robot"]))
    environment = {}
    if task is not None:  # so that Minari's recover_environment gives the robot back
        import gymnasium

        environment["env_spec"] = gymnasium.spec(f"offdyn/{task.name}-v0").to_json()
    return {
        "total_episodes": episodes,
        "total_steps": len(dataset),
        "data_format": "hdf5",
        "observation_space": _box(np.full((2, dataset.observation.shape[1]), np.inf) * [[-1], [1]]),
        "action_space": _box(np.array((card["action_low"], card["action_high"]))),
        **environment,
        "dataset_id": dataset_id,
        "author": ["offdyn"],
        "algorithm_name": str((card["made"] or {}).get("policy", "")) if isinstance(card["made"], dict) else "",
        "description": f"{card['name'] or dataset_id}, written by offdyn {card['offdyn']}",
        "minari_version": LAYOUT,
        "dataset_size": round(sum(array.nbytes for array in dataset.arrays().values()) / 1e6, 1),  # megabytes
        "offdyn_card": card,
    }


def _box(bounds: np.ndarray) -> str:
    low, high = bounds.tolist()
    return json.dumps({"type": "Box", "dtype": "float32", "shape": [len(low)], "low": low, "high": high})


def _space(said: dict[str, Any], name: str) -> dict[str, Any]:
    """A space of the metadata, which is JSON in JSON; empty where it is not there."""
    try:
        space = plain_json.loads(said.get(name) or "{}")
    except (TypeError, ValueError):
        return {}
    return space if isinstance(space, dict) else {}


def _bounds(said: dict[str, Any]) -> dict[str, Any]:
    """For the card: the bounds of the action space, one of each for every entry."""
    space = _space(said, "action_space")
    try:
        low, high = (np.broadcast_to(np.asarray(space[side], float), space["shape"]) for side in ("low", "high"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return dict.fromkeys(MEANING)
    if low.size > WIDEST:
        return dict.fromkeys(MEANING)
    return dict(zip(MEANING, (low.ravel().tolist(), high.ravel().tolist()), strict=True))


def _check_spaces(said: dict[str, Any], path: Path) -> None:
    """Refuse what no policy here sees or does, before arrays of other kinds are met."""
    for space in _leaves(_space(said, "observation_space")):
        shape = space.get("shape")
        if space.get("dtype") == "uint8" and isinstance(shape, list) and len(shape) >= 3:
            raise images(f"{path.parent}: its observations", shape)
    if (kind := _space(said, "action_space").get("type", "Box")) != "Box":
        raise DataError(
            "wrong-shape", f"{path.parent}: its action space is {kind}; policies here act in a Box of numbers"
        )


def _leaves(space: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(space, dict):
        return
    parts = space.get("subspaces")
    for part in parts.values() if isinstance(parts, dict) else parts if isinstance(parts, list) else ():
        yield from _leaves(part)
    yield space


def _episode(file: Hdf5, name: str) -> tuple[np.ndarray, ...]:
    columns = ("observations", "actions", "rewards", "terminations", "truncations")
    where, arrays = f"{file.path}, {name}", file.arrays(f"{name}/{column}" for column in columns)
    seen, action, reward, terminated, truncated = arrays
    lengths = [len(array) if array.ndim else 0 for array in (action, reward, terminated, truncated)]
    if seen.ndim == 0 or set(lengths) != {len(seen) - 1}:
        raise DataError(
            "wrong-shape", f"{where}: {seen.shape[0] if seen.ndim else 0} observations of {lengths[0]} actions, "
            f"{lengths[1]} rewards; an episode has one observation more than steps"
        )  # fmt: skip
    terminated = flags(f"{where}: terminations", terminated)
    truncated = flags(f"{where}: truncations", truncated) & ~terminated
    truncated[-1:] |= ~terminated[-1:]  # another episode follows: this one was cut here
    seen, action = (array.reshape(len(array), -1) if array.size else array for array in (seen, action))
    return seen[:-1], action, reward, seen[1:], terminated, truncated


def _metadata(file: Hdf5) -> dict[str, Any]:
    """What stands beside the steps; before Minari 0.5 it was their file's attributes."""
    path = file.path.with_name("metadata.json")
    if not path.exists():
        return dict(file.texts())
    said = read_json(path)
    return said if isinstance(said, dict) else {}


def _environment(said: dict[str, Any]) -> dict[str, Any]:
    """Gymnasium's specification of the environment, whose time limit cut the episodes."""
    spec = _space(said, "env_spec")
    limit = spec.get("max_episode_steps")
    return spec | {"max_episode_steps": limit if type(limit) is int and limit > 0 else None}


def _number(name: str) -> int:
    found = re.fullmatch(r"episode_(\d+)", name)
    return int(found[1]) if found else -1
