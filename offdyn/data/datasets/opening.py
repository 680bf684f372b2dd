"""A dataset by whatever names it: a file or folder of any known format, a Minari name, or a name of our own."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..._util.errors import OffdynError, unknown
from ...envs import pairs
from . import actions, bodies, d4rl, hdf5, lerobot, minari, native, target_log
from .dataset import DataError, Dataset

Target = str | pairs.Pair | Callable[[], Any]  # a task or an environment, by name or itself
QUALITIES = ("random", "medium", "expert", "medium-replay", "medium-expert")  # of the datasets that we collect
SUFFIX = ".safetensors"
GZIP = b"\x1f\x8b"


def open_dataset(
    wanted: str | Path | Dataset, robot: str | pairs.Pair | None = None, target: Target | None = None
) -> Dataset:
    """The dataset, actions in [-1, 1] of the target's bounds; without a target, of those that the file gives.

    `robot` (or a task's name) says whose it should be where the file does not, and is checked. `target` is the task or
    the environment that the actions are for; by default the robot.
    """
    body, goal = _asked(robot, target)
    in_units, dataset = (False, wanted) if isinstance(wanted, Dataset) else _read(locate(wanted), body)
    for pair in (body, goal):
        if pair is not None:
            bodies.check_sizes(dataset, pair)
    if goal is not None or not isinstance(wanted, Dataset):
        bounds = None if goal is None else actions.bounds_of(goal)
        dataset = actions.bounded(dataset, bounds, in_units=in_units)
    if body is not None and dataset.robot is None:
        return dataset.described(robot=pairs.family_of(body))
    if body is None and goal is not None:  # of a custom environment nobody knows ends and dynamics
        return dataset.described(robot=None, shift=None)
    return dataset


def _asked(robot: str | pairs.Pair | None, target: Target | None) -> tuple[pairs.Pair | None, ...]:
    """The body that made the rows, as far as we can simulate it, and the pair whose bounds actions are read in."""
    body = None if robot is None else pairs.find(robot)
    goal = body if target is None else pairs.meant(target)
    body = goal if body is None else body
    return None if isinstance(body, pairs.OwnPair) else body, goal


def locate(wanted: str | Path) -> Path:
    """The file that is meant."""
    text = str(wanted)
    if text.startswith("minari:"):
        folder = minari.folder_of(text.removeprefix("minari:"))
        if (file := minari.data_file(folder)) is None:
            raise OffdynError(
                f"{text}: no Minari dataset in {folder}; fetch it with `minari download`, or say where Minari "
                "datasets are with MINARI_DATASETS_PATH"
            )
        return file
    path = Path(text.removeprefix(lerobot.PREFIX) if text.startswith(lerobot.PREFIX) else wanted).expanduser()
    for known in (minari.data_file, lerobot.info_file):
        if path.is_dir() and (file := known(path)) is not None:
            return file
    if text.startswith(lerobot.PREFIX):
        raise OffdynError(f"{text}: no LeRobot dataset in {path}; expected the folder that holds {lerobot.INFO}")
    if path.is_file():
        return path
    if isinstance(wanted, Path) or path.name != text or path.suffix in (SUFFIX, ".hdf5", ".h5"):
        kind = "a folder, but no dataset of Minari or LeRobot" if path.is_dir() else "no such file"
        raise OffdynError(f"{path}: {kind}; expected a dataset's file or name")
    return find(text)


def folder() -> Path:
    """Where datasets are kept by name: $OFFDYN_DATA, else `data` here."""
    return Path(os.environ.get("OFFDYN_DATA") or "data")


def find(name: str) -> Path:
    """The file of a dataset that is known by name."""
    path = folder() / f"{name}{SUFFIX}"
    if path.is_file():
        return path
    there = sorted(file.name.removesuffix(SUFFIX) for file in folder().glob(f"*{SUFFIX}"))
    told = str(unknown("dataset", name, there)) if there else f"no dataset '{name}' (none in {folder()} yet)"
    raise OffdynError(f"{told}; `{command_for([name])}` makes it in {folder()}, which OFFDYN_DATA can change")


def command_for(names: Sequence[str]) -> str:
    """That makes datasets of these names; a replay is what a training collected."""
    trained = any(name.endswith("-medium-replay") for name in names)
    return " ".join(["offdyn collect", *names, *["--train behaviours"] * trained])


def _read(path: Path, body: pairs.Pair | None) -> tuple[bool, Dataset]:
    """Whether actions are in their environment's units, and the rows; by what the file holds, not how it is called."""
    family = None if body is None else pairs.family_of(body)
    if not path.is_file():
        raise DataError("unreadable", f"{path}: no file there; fetch or make it again")
    try:
        with open(path, "rb") as file:
            start = file.read(len(target_log.START))
    except OSError as error:
        raise OffdynError(f"{path}: cannot be read ({error.strerror})") from None
    if path == lerobot.info_file(path.parent.parent):
        return True, lerobot.read(path, family)
    if start.startswith(hdf5.START):
        with hdf5.Hdf5(path) as there:
            return True, minari.read(there, family) if _holds_episodes(there) else d4rl.read(there, family)
    if start == target_log.START:
        return False, target_log.read(path)
    if start[8:9] == b"{":
        return False, native.load(path)
    if not start:
        raise DataError("empty", f"{path}: an empty file; fetch or make it again")
    told = "compressed as a whole: unpack it with gunzip first" if start.startswith(GZIP) else "of no known format"
    raise DataError(
        "unreadable", f"{path}: {told}; expected our own safetensors, D4RL's HDF5, or a Minari or LeRobot dataset"
    )


def _holds_episodes(file: hdf5.Hdf5) -> bool:
    names = file.names()
    return "observations" not in names and any(name.startswith("episode_") for name in names)
