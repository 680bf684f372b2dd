"""Rows of a dataset: many bodies act at once, and their episodes are laid one after another."""

from collections.abc import Callable

import numpy as np

from ..._util.errors import OffdynError
from ...envs import pairs
from ...envs.pairs import Pair
from ..datasets import Dataset

# (what the bodies see [bodies, S], where chance comes from) -> actions [bodies, A]
Act = Callable[[np.ndarray, np.random.Generator], np.ndarray]

MOST_BODIES = 50
ROWS_PER_BODY = 4000  # at least, where there are several: some whole episodes of each
NOISE = 1 << 31  # ends the seed of a generator of actions, so that it is none of those of the starts


def role_of(task: Pair) -> str:
    """Where rows of a task are made: in its own body, or in the source of a world, which is both in one."""
    return "source" if isinstance(task, pairs.World) else "target"


def bodies_for(rows: int) -> int:
    """How many bodies share that many rows: by the rows alone, so that every machine makes the same ones."""
    return min(MOST_BODIES, max(1, rows // ROWS_PER_BODY))


def uniform(action_size: int) -> Act:
    """Actions that know nothing."""

    def act(observation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return generator.uniform(-1.0, 1.0, (len(observation), action_size)).astype(np.float32)

    return act


def play(
    task: Pair,
    act: Act,
    rows: int,
    seed: tuple[int, ...],
    *,
    threads: int | None = None,
    advanced: Callable[[int], None] = lambda rows: None,
) -> Dataset:
    """Whole episodes, body after body, of at least that many rows.

    Each body plays its share and then to the end of its episode: to drop the unfinished ones instead would prefer short
    episodes. A row on which the physics broke is left out, and its episode is cut before it.
    """
    bodies = bodies_for(rows)
    share = -(-rows // bodies)
    domain = pairs.open_bodies([(task, role_of(task))] * bodies, [(*seed, body) for body in range(bodies)], threads)
    spec, generator = domain.spec, np.random.default_rng([*seed, NOISE])
    edges = np.cumsum([spec.observation_size, spec.action_size, 1, spec.observation_size, 1])
    table = np.zeros((bodies, share + spec.time_limit, edges[-1] + 1), np.float32)
    count, running = np.zeros(bodies, np.int64), np.arange(bodies)
    try:
        while len(running):
            actions = np.asarray(act(domain.observation, generator))
            _check(actions, (bodies, spec.action_size))
            step = domain.step(running, actions[running])
            flags = step.reward[:, None], step.next_observation, step.terminated[:, None], step.truncated[:, None]
            good, broken = running[~step.diverged], running[step.diverged]
            table[good, count[good]] = np.concatenate((step.observation, step.action, *flags), axis=1)[~step.diverged]
            count[good] += 1
            for body in broken[count[broken] > 0]:
                table[body, count[body] - 1, -1] = table[body, count[body] - 1, -2] == 0
            ended = step.terminated | step.truncated | step.diverged
            running = running[~(ended & (count[running] >= share))]
            advanced(int(count.sum()))
    finally:
        domain.close()
    laid = np.concatenate([table[body, : count[body]] for body in range(bodies)])
    observation, action, reward, after, terminated, truncated = np.split(laid, edges, axis=1)
    low, high = pairs.action_bounds(task)
    card = {"action_low": low.tolist(), "action_high": high.tolist(), "time_limit": spec.time_limit}
    return Dataset(observation, action, reward[:, 0], after, terminated[:, 0], truncated[:, 0], card)


def without_unfinished(dataset: Dataset) -> Dataset:
    """The rows up to the end of the last episode that ended."""
    ends = np.flatnonzero(dataset.terminated | dataset.truncated)
    return dataset[: int(ends[-1]) + 1 if len(ends) else 0]


def _check(actions: np.ndarray, shape: tuple[int, int]) -> None:
    if actions.shape != shape or not np.isfinite(actions).all():
        came = f"shape {actions.shape}" if actions.shape != shape else "one that is not finite"
        raise OffdynError(f"the policy's actions: expected finite numbers of shape {shape}, got {came}")
