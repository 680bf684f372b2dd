"""D4RL's HDF5 files, as they are.

A step's successor is `next_observations` where the file has them, else the next step's observation. Without them two
kinds of steps have no successor: the last one of a time-limited episode, which is dropped, and a true end, whose
successor is computed with the robot's simulator (the next step there is the start of another episode).
"""

from pathlib import Path
from typing import Any

import numpy as np

from ...envs.robots import ANT, ROBOTS, TIME_LIMIT
from ...envs.tasks import Task
from . import bodies
from .dataset import DataError, Dataset, flags, images, numbers
from .hdf5 import Hdf5

NEEDED = ("observations", "actions", "rewards", "terminals")
OPTIONAL = ("timeouts", "next_observations")


def read(file: Hdf5, robot: str | None = None) -> Dataset:
    """All steps whose successor is known, actions as the file has them; `reading` tells what was done to it."""
    path, columns = file.path, _columns(file)
    _check_shapes(columns, path)
    reading: dict[str, Any] = {"format": "D4RL HDF5", "time_limits": "marked"}
    for name in ("observations", "next_observations"):
        if name in columns and columns[name].shape[1] == ANT.spec.initial_fan_in:
            columns[name] = _without_contacts(columns[name], path, name)
            reading["zero_columns_dropped"] = ANT.spec.initial_fan_in - ANT.spec.observation_size
    observation, action = columns["observations"], columns["actions"]
    terminated = flags(f"{path}: terminals", columns["terminals"])
    if robot is None:
        robot = bodies.guess([path.stem], observation.shape[1], action.shape[1])
    if "timeouts" in columns:
        truncated = flags(f"{path}: timeouts", columns["timeouts"]) & ~terminated
    else:
        truncated, reading["time_limits"] = _every_limit(terminated), "assumed"

    kept = np.ones(len(observation), bool)
    following = columns.get("next_observations")
    if following is None:
        following = np.concatenate((observation[1:], observation[-1:]))
        kept = ~truncated
        kept[-1:] &= terminated[-1:]
        reading["dropped"] = int((~kept).sum())
        # The step before a dropped one is now the last of its episode that is known.
        truncated |= np.r_[truncated[1:], False] & ~terminated
        reading |= give_ends_successors(following, observation, action, terminated, robot)
    card = {"name": path.stem, "robot": robot, "shift": None, "reading": reading}
    card |= {"metadata": said} if (said := file.scalars("metadata")) else {}
    return Dataset(observation, action, columns["rewards"], following, terminated, truncated, card)[kept]


def _columns(file: Hdf5) -> dict[str, np.ndarray]:
    there = file.names()
    if missing := [name for name in NEEDED if name not in there]:
        raise DataError(
            "unreadable",
            f"{file.path}: no {', '.join(missing)} there (found: {', '.join(there)}); a D4RL file has "
            f"{', '.join(NEEDED)} and, better, {' and '.join(OPTIONAL)}",
        )
    wanted = [name for name in (*NEEDED, *OPTIONAL) if name in there]
    columns = dict(zip(wanted, file.arrays(wanted), strict=True))
    for name in ("rewards", "terminals", "timeouts"):
        if name in columns and columns[name].ndim == 2 and columns[name].shape[1] == 1:
            columns[name] = columns[name][:, 0]
    for name in ("observations", "next_observations", "actions", "rewards"):
        if name in columns:
            columns[name] = numbers(f"{file.path}: {name}", columns[name])
    return columns


def _check_shapes(columns: dict[str, np.ndarray], path: Path) -> None:
    for name, column in columns.items():
        if column.ndim == 4 and name.endswith("observations"):
            raise images(f"{path}: {name}", column.shape[1:])
        dimensions = 1 if name in ("rewards", "terminals", "timeouts") else 2
        if column.ndim != dimensions:
            said = f"{path}: {name} has the shape {column.shape}; expected {dimensions} dimension(s), one row per step"
            raise DataError("wrong-shape", said)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError("wrong-shape", f"{path}: the columns differ in length ({told}): each step needs one of each")


def _without_contacts(observation: np.ndarray, path: Path, name: str) -> np.ndarray:
    """The ant's first 27 entries; the other 84, its contact forces, were always zero in the old environments."""
    size = ANT.spec.observation_size
    if (felt := (observation[:, size:] != 0).any(axis=1)).any():
        raise DataError(
            "contact-forces",
            f"{path}: {name} feels contact forces in {felt.sum()} rows (first: row {felt.argmax()}); our ant does not "
            f"observe them, and its policies would miss them: use data of an ant whose entries from {size} on are zero",
        )
    return observation[:, :size]


def _every_limit(terminated: np.ndarray) -> np.ndarray:
    """D4RL's rule for files that mark no time limits: an episode is cut after as many steps as the limit."""
    steps = np.arange(len(terminated))
    starts = np.r_[True, terminated[:-1]][: len(terminated)]
    in_episode = steps - np.maximum.accumulate(np.where(starts, steps, 0))
    return (in_episode % TIME_LIMIT == TIME_LIMIT - 1) & ~terminated


def give_ends_successors(
    following: np.ndarray, observation: np.ndarray, action: np.ndarray, at: np.ndarray, robot: str | None
) -> dict[str, int]:
    """Fill in what followed the ends at these transitions: simulated where the robot is known."""
    from .physics import follow

    ends = np.flatnonzero(at)
    known = ROBOTS.get(robot or "")
    if known is None or (observation.shape[1], action.shape[1]) != known.spec[:2]:
        return {"ends_without_successor": len(ends)}
    after = follow(Task(known.name, known), observation[ends], action[ends]).next_observation
    usable = np.isfinite(after).all(axis=1)
    following[ends[usable]] = after[usable]
    return {"ends_computed": int(usable.sum()), "ends_without_successor": int((~usable).sum())}
