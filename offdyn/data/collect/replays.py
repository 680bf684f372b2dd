"""The transitions that a training collected in its source, from the files that a run with `keep_replay` leaves."""

import numpy as np

from ..._util.errors import OffdynError
from ...envs import padding, pairs
from ...training.checkpoint import kept_rows
from ...training.cohort import DIVERGED, TRUNCATED
from ...training.run_folder import RunFolder
from ..datasets import Dataset


def kept(run: RunFolder) -> bool:
    """Whether the run left them."""
    return next(kept_rows(run.path, "source"), None) is not None


def collected(run: RunFolder, steps: int) -> Dataset:
    """The first so many, episode after episode in the order in which these began; those still open are cut there."""
    packed, flags = _rows(run, steps)
    schedule, spec = run.config.schedule, pairs.spec_of(run.config.task)
    seen, acted = spec.observation_size, spec.action_size
    wide = (padding.OBSERVATION_SIZE, padding.ACTION_SIZE) if schedule.padded else (seen, acted)
    edges = np.cumsum([wide[0], wide[1], 1, wide[0]])
    observation, action, reward, after, terminated = np.split(packed, edges, axis=1)
    ended, cut, broken = terminated[:, 0] > 0, flags & TRUNCATED > 0, flags & DIVERGED > 0
    order, cut = _by_episode(ended, cut, broken, schedule.source_env_count)
    observation, action, reward, after = observation[:, :seen], action[:, :acted], reward[:, 0], after[:, :seen]
    low, high = pairs.action_bounds(run.config.task)
    card = {"action_low": low.tolist(), "action_high": high.tolist(), "time_limit": spec.time_limit}
    return Dataset(observation[order], action[order], reward[order], after[order], ended[order], cut[order], card)


def _by_episode(ended: np.ndarray, cut: np.ndarray, broken: np.ndarray, bodies: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows in their order, without those on which the physics broke, and which are cut; bodies take turns."""
    cut, begins = cut.copy(), np.zeros(len(cut), np.int64)
    for body in range(bodies):
        mine = np.arange(body, len(cut), bodies)
        before = mine[:-1][broken[mine[1:]]]
        cut[before] |= ~ended[before]
        cut[mine[-1:]] |= ~ended[mine[-1:]]
        first = np.r_[True, (ended | cut | broken)[mine[:-1]]]
        begins[mine] = mine[np.maximum.accumulate(np.where(first, np.arange(len(mine)), 0))]
    rows = np.flatnonzero(~broken)
    return rows[np.lexsort((rows, begins[rows]))], cut


def _rows(run: RunFolder, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """[steps, width] as they were stored, and their flags [steps]."""
    parts = list[tuple[np.ndarray, ...]]()
    for part in kept_rows(run.path, "source", "source_flags"):
        parts.append(part)
        if sum(len(flags) for _, flags in parts) >= steps:
            packed, flags = (np.concatenate(some)[:steps] for some in zip(*parts, strict=True))
            return packed, flags
    raise OffdynError(f"{run.path}: {steps} transitions of its replay were expected, fewer are left; train anew")
