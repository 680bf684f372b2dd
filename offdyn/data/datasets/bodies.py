"""Whose rows these are: the robot that was named, or the one whose name or sizes a file shows."""

from collections.abc import Iterable

from ..._util.errors import OffdynError
from ...envs import pairs
from ...envs.robots import ROBOTS
from ...envs.tasks import Task
from .dataset import DataError, Dataset


def body_of(dataset: Dataset, robot: str | pairs.Pair | None = None) -> pairs.Pair | None:
    """The body the rows should be of: the robot or task that is named, else what the card says."""
    if robot is not None:
        return pairs.find(robot)
    said = dataset.card.get("shift") or dataset.robot
    if said is None or said.endswith((".yaml", ".yml")):  # a dataset names no file to be read
        return None
    try:
        return pairs.find(said)
    except OffdynError:  # another program's name, or an environment of a user's own
        return None


def check_sizes(dataset: Dataset, body: pairs.Pair) -> None:
    """Refuse rows that another robot must have made; of a custom environment only the sizes can be compared."""
    spec, said, own = pairs.spec_of(body), dataset.robot, isinstance(body, pairs.OwnPair)
    found, expected = sizes(dataset), (spec.observation_size, spec.action_size)
    if found == expected and (own or said in (None, pairs.family_of(body))):
        return
    name = dataset.card.get("name") or "this dataset"
    if isinstance(body, pairs.OwnPair):
        raise DataError(
            "wrong-robot",
            f"{name} has {found[0]} observation entries and {found[1]} actions, "
            f"{body.target} has {expected[0]} and {expected[1]}: name the environment it was made for",
        )
    shown = f"; its card says {said}" if said else ""
    fitting = [name for name, robot in ROBOTS.items() if _sizes_of(robot.spec) == found]
    raise DataError(
        "wrong-robot",
        f"{name} has {found[0]} observation entries and {found[1]} actions{shown}; "
        f"{pairs.family_of(body)} has {expected[0]} and {expected[1]}: name the robot it was made with"
        + (f" ({' or '.join(fitting)} would fit)" if fitting else " (no robot here has these sizes)"),
    )


def sizes(dataset: Dataset) -> tuple[int, int]:
    """Entries of an observation, and of an action."""
    return dataset.observation.shape[1], dataset.action.shape[1]


def guess(names: Iterable[str | None], observation_size: int, action_size: int) -> str | None:
    """The robot of these sizes that one of the names begins with, or the only one of these sizes."""
    fitting = [name for name, r in ROBOTS.items() if _sizes_of(r.spec) == (observation_size, action_size)]
    for name in names:
        plain = (name or "").lower().replace("_", "").replace("-", "")
        for robot in fitting:
            if plain.startswith(robot):
                return robot
    return fitting[0] if len(fitting) == 1 else None


def robot_of(body: pairs.Pair | None) -> Task | None:
    """The body where MuJoCo simulates it; None for a toy environment or an unknown one."""
    return body if isinstance(body, Task) else None


def _sizes_of(spec: pairs.Spec) -> tuple[int, int]:
    return spec.observation_size, spec.action_size
