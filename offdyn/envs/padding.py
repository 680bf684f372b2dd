"""Robots of all sizes as if of one: zeros fill up what a robot lacks, and runs of all robots can share a program."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._util.types import Array, Present, Spec
from .domain import Rows
from .robots import ROBOTS
from .simulator import Simulator
from .tasks import Task

# Those of the largest robot, the ant, 27 and 8, rounded up to multiples of 8.
OBSERVATION_SIZE, ACTION_SIZE = 32, 8


SPECS = [robot.spec for robot in ROBOTS.values()]


def _is_terminal(next_observation: Array, robot: Array) -> Array:
    """By the rule of the robot of this number: all rules are asked, for a program holds lanes of all robots."""
    answers = [spec.is_terminal(next_observation[..., : spec.observation_size]) for spec in SPECS]
    return sum((robot == number) & ends for number, ends in enumerate(answers)) > 0


def padded(spec: Spec) -> Spec:
    """The size that all robots then have."""
    return spec._replace(observation_size=OBSERVATION_SIZE, action_size=ACTION_SIZE, is_terminal=_is_terminal)


def present(spec: Spec) -> Present:
    """Which entries of that size are the robot's own."""
    observation, action = np.zeros(OBSERVATION_SIZE, np.float32), np.zeros(ACTION_SIZE, np.float32)
    observation[: spec.observation_size] = 1.0
    action[: spec.action_size] = 1.0
    return Present(observation, action, np.float32(spec.initial_fan_in), np.float32(SPECS.index(spec)))


class PaddedBodies:
    """Bodies of several robots, as `Domain` asks: a simulator for each robot, and rows of one width."""

    def __init__(self, tasks: Sequence[Task], seeds: Sequence[tuple[int, ...]], threads: int | None = None) -> None:
        robots = list(dict.fromkeys(task.robot.name for task in tasks))
        self._robot = np.array([robots.index(task.robot.name) for task in tasks])  # of each body, by number
        self._place = np.zeros(len(tasks), np.int64)  # of each body in its robot's simulator
        self._simulators: list[Simulator] = []
        for number in range(len(robots)):
            bodies = np.flatnonzero(self._robot == number).tolist()
            self._place[bodies] = np.arange(len(bodies))
            mine = [tasks[body] for body in bodies], [seeds[body] for body in bodies]
            self._simulators.append(Simulator(*mine, threads=threads))
        self._names = robots
        self.spec = padded(self._simulators[0].spec)

    @property
    def observation(self) -> np.ndarray:
        seen = np.zeros((len(self._robot), OBSERVATION_SIZE))
        for number, simulator in enumerate(self._simulators):
            seen[self._robot == number, : simulator.spec.observation_size] = simulator.observation
        return seen

    @property
    def divergences(self) -> np.ndarray:
        counts = np.zeros(len(self._robot), np.int64)
        for number, simulator in enumerate(self._simulators):
            counts[self._robot == number] = simulator.divergences
        return counts

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        spent = np.broadcast_to(elapsed, len(ids))
        for simulator, at in self._of(ids):
            simulator.reset(self._place[ids[at]], spent[at])

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        """Act once in each of these bodies; what an action holds beyond a robot's own entries is not looked at."""
        n = len(ids)
        observation, following = np.zeros((2, n, OBSERVATION_SIZE))
        action, reward = np.zeros((n, ACTION_SIZE)), np.zeros(n)
        terminated, truncated, diverged = np.zeros((3, n), bool)
        for simulator, at in self._of(ids):
            seen, acts = simulator.spec.observation_size, simulator.spec.action_size
            rows = simulator.step(self._place[ids[at]], actions[at, :acts])
            observation[at, :seen], action[at, :acts], following[at, :seen] = (
                rows.observation,
                rows.action,
                rows.next_observation,
            )
            reward[at] = rows.reward
            terminated[at], truncated[at], diverged[at] = rows.terminated, rows.truncated, rows.diverged
        return Rows(observation, action, reward, following, terminated, truncated, diverged)

    def _of(self, ids: np.ndarray) -> list[tuple[Simulator, np.ndarray]]:
        """Each simulator that has some of these bodies, and which of them."""
        robots = self._robot[ids]
        places = [np.flatnonzero(robots == number) for number in range(len(self._simulators))]
        return [(simulator, at) for simulator, at in zip(self._simulators, places, strict=True) if len(at)]

    def save(self) -> dict[str, np.ndarray]:
        named = zip(self._names, self._simulators, strict=True)
        return {f"{name}/{key}": array for name, simulator in named for key, array in simulator.save().items()}

    def load(self, saved: Mapping[str, Any]) -> None:
        for name, simulator in zip(self._names, self._simulators, strict=True):
            mine = {key.partition("/")[2]: array for key, array in saved.items() if key.partition("/")[0] == name}
            simulator.load(mine)

    def close(self) -> None:
        for simulator in self._simulators:
            simulator.close()
