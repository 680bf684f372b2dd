"""What all checks look at: a dataset, the body it should be of, and what is known of both."""

from functools import cached_property

import numpy as np

from ..._util.types import Spec
from ...envs import pairs
from ...envs.effects import NONE
from ...envs.tasks import Task
from ..datasets.bodies import robot_of
from ..datasets.dataset import Dataset
from ..datasets.physics import whole_state_seen

ALIKE = 0.5  # share of the next observations that are equally many rows off, to call them rolled
NEAR = 1e-5  # relative: two float32 copies of one number, however they were rounded


class Subject:
    """One dataset under examination; every array is over its rows."""

    def __init__(self, dataset: Dataset, body: pairs.Pair | None) -> None:
        self.dataset, self.body = dataset, body
        self.task: Task | None = robot_of(body)
        self.spec: Spec | None = None if body is None else pairs.spec_of(body)

    @cached_property
    def finite(self) -> np.ndarray:
        """Rows without NaN and infinity."""
        rows = self.dataset
        wide = (rows.observation, rows.action, rows.next_observation)
        with np.errstate(over="ignore", invalid="ignore"):
            if all(np.isfinite(column.sum(dtype=np.float64)) for column in (*wide, rows.reward)):
                return np.ones(len(rows), bool)
        return np.logical_and.reduce([np.isfinite(column).all(axis=1) for column in wide]) & np.isfinite(rows.reward)

    @property
    def limit(self) -> int | None:
        """Steps after which an episode was cut: as the dataset says, else as the body's task has it."""
        said = self.dataset.card.get("time_limit")
        return said if isinstance(said, int) else (None if self.spec is None else self.spec.time_limit)

    @cached_property
    def ends(self) -> np.ndarray:
        return self.dataset.terminated | self.dataset.truncated

    @cached_property
    def followed(self) -> np.ndarray:
        """Rows whose successor is what the next row saw; the last row is not."""
        after, seen = self.dataset.next_observation[:-1], self.dataset.observation[1:]
        same = (after == seen).all(axis=1)
        other = np.flatnonzero(~same)  # few, as a rule: only these are looked at closely
        same[other] = np.isclose(after[other], seen[other], rtol=NEAR, atol=NEAR).all(axis=1)
        return np.r_[same, False]

    @cached_property
    def unfollowed(self) -> np.ndarray:
        """Rows inside an episode whose successor is not what the next row saw."""
        within = ~self.ends & self.finite & np.r_[self.finite[1:], False]
        within[-1] = False
        return within & ~self.followed

    @cached_property
    def shuffled(self) -> bool:
        """Whether the rows are in no order of time."""
        return self.unfollowed.sum() > 0.5 * (~self.ends).sum()

    @cached_property
    def rolled(self) -> int | None:
        """As how many rows later most next observations were seen, where that is not the next row; else None."""
        if not self.shuffled:
            return None
        seen, after = hashes(self.dataset.observation), hashes(self.dataset.next_observation)
        order = np.argsort(seen, kind="stable")
        place = order[np.searchsorted(seen[order], after).clip(max=len(seen) - 1)]
        off = (place - np.arange(len(seen)))[seen[place] == after]
        values, counts = np.unique(off, return_counts=True)
        return int(values[counts.argmax()]) if len(off) and counts.max() > ALIKE * len(seen) else None

    @cached_property
    def simulable(self) -> np.ndarray:
        """Rows from which the named body can be simulated and compared."""
        if self.task is None or self.task.effects != NONE:  # then a row does not show what the body did
            return np.zeros(len(self.dataset), bool)
        robot, rows = self.task.robot, self.dataset
        seen = whole_state_seen(robot, rows.observation) & whole_state_seen(robot, rows.next_observation)
        return seen & self.finite

    @cached_property
    def lengths(self) -> np.ndarray:
        """Steps in the episode each row belongs to."""
        bounds = self.dataset.episodes()
        sizes = bounds[:, 1] - bounds[:, 0]
        return np.repeat(sizes, sizes)


def hashes(*arrays: np.ndarray) -> np.ndarray:
    """[n] uint64: a random sum over the bits of each row of these float32 arrays [n, columns]."""
    draw = np.random.default_rng(0)
    total = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        for column in array.T:
            total += column.copy().view(np.uint32).astype(np.uint64) * np.uint64(draw.integers(1, 2**63) | 1)
    return total
