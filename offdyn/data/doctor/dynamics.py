"""Whether the named body does what the rows say: a sample is simulated again, one step from each."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...envs.tasks import TASKS, Task
from ..datasets.dataset import Dataset
from ..datasets.physics import follow
from .finding import Finding, found
from .subject import Subject

SAMPLE = 256  # rows
LEAST = 16  # rows to judge by
# The upper quartile of the relative error: joint limits and contacts matter in some rows only. Measured under random
# actions: the same body 8e-8 to 4e-7, other contact margins up to 0.1, the eight targets for sources 0.44 to 1.25.
SAME, OTHER = 1e-3, 0.2
REWARD_OFF, REWARD_WRONG = 0.05, 0.5  # upper quartile of the reward's error, in its standard deviations


class Replayed(NamedTuple):
    """A sample of rows, simulated again."""

    rows: np.ndarray  # which
    error: np.ndarray  # of the next observation, as a share of the step's change
    reward_error: np.ndarray  # in standard deviations of the simulated rewards

    @property
    def size(self) -> float:
        return float(np.quantile(self.error, 0.75))

    @property
    def same(self) -> bool:
        return self.size < SAME


def sample(subject: Subject) -> np.ndarray:
    """Rows to judge the body by: inside episodes, where the successor is least doubtful."""
    good = subject.simulable & ~subject.ends
    if not subject.shuffled:
        good &= subject.followed
    rows = np.flatnonzero(good)
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
    return rows


def replay(task: Task, dataset: Dataset, rows: np.ndarray) -> Replayed:
    now, after = dataset.observation[rows], dataset.next_observation[rows]
    simulated = follow(task, now, dataset.action[rows])
    change = np.linalg.norm(after.astype(float) - now, axis=1)
    error = np.linalg.norm(simulated.next_observation - after, axis=1) / np.maximum(change, 1e-6)
    spread = max(float(np.nanstd(simulated.reward)), 0.1) if len(rows) else 1.0
    reward_error = np.abs(simulated.reward - dataset.reward[rows]) / spread
    broken = ~np.isfinite(error)
    return Replayed(rows, np.where(broken, np.inf, error), np.where(broken, np.inf, reward_error))


def check_body(subject: Subject, replayed: Replayed | None) -> Iterator[Finding]:
    if replayed is None or subject.task is None:
        return
    task, size = subject.task, replayed.size
    if size >= OTHER:
        fitting = best_fit(subject, replayed.rows)
        hint = f"; {fitting.name} does" if fitting else ""
        wrong = replayed.rows[replayed.error >= OTHER]
        yield found(
            "wrong-body", True, f"{task.name} does not reproduce {len(wrong)} of {len(replayed.rows)} sampled steps "
            f"(error {size:.0%} of a step's change){hint}", wrong,
        )  # fmt: skip
        return
    if size >= SAME:
        wrong = replayed.rows[replayed.error >= SAME]
        yield found(
            "other-engine", False, f"{task.name} reproduces the sampled steps within {100 * size:.2g} % of their "
            "change, not exactly", wrong,
        )  # fmt: skip
    off = float(np.quantile(replayed.reward_error, 0.75))
    if off >= (REWARD_OFF if replayed.same else REWARD_WRONG):  # another engine covers other distances
        wrong = replayed.rows[replayed.reward_error >= REWARD_OFF]
        said = f"the rewards differ from those of {task.robot.name} by {off:.2g} of their standard deviation"
        yield found("wrong-reward", off >= REWARD_WRONG, said, wrong)


def best_fit(subject: Subject, rows: np.ndarray) -> Task | None:
    """The named task of the same robot that reproduces the rows, if one does."""
    assert subject.task is not None
    others = [task for task in TASKS.values() if task.robot is subject.task.robot and task != subject.task]
    errors = {task.name: replay(task, subject.dataset, rows[:64]).size for task in others}
    best = min(errors, key=errors.__getitem__, default=None)
    return TASKS[best] if best is not None and errors[best] < OTHER / 4 else None


def looks_like_a_start(task: Task, observation: np.ndarray) -> np.ndarray:
    """[n] bool: whether the observation is one that an episode of this robot may begin with."""
    robot = task.robot
    pose, noise = _rest(task)[robot.unseen_positions :], robot.start_noise
    speeds = observation.shape[1] - len(pose)
    middle = np.r_[pose, np.zeros(speeds)]
    fast = 5 * noise if robot.normal_start_velocities else noise
    within = 1.01 * np.r_[np.full(len(pose), noise), np.full(speeds, fast)] + 1e-6
    likely = np.ones(len(observation), bool)
    for column in range(observation.shape[1]):  # most rows are out after a few columns
        left = np.flatnonzero(likely)
        likely[left] = np.abs(observation[left, column] - middle[column]) <= within[column]
    return likely


@lru_cache(maxsize=16)
def _rest(task: Task) -> np.ndarray:
    return task.model().qpos0.copy()
