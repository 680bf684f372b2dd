"""How good a policy is: the mean action, in bodies that are built afresh and that training never sees."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..data.transition import pack
from ..envs import pairs
from ..envs.domain import Domain, Rows
from ..envs.pairs import Pair
from .policies import Policies

EVALUATION = 2  # the role in (seed, role, ...) that seeds starts; training uses 0 for source and 1 for target


class Evaluation(NamedTuple):
    """Returns of fresh episodes, and some of the target rows seen."""

    target_returns: np.ndarray  # [lanes, episodes]
    source_returns: np.ndarray
    # [lanes, n, width] packed target rows, which training never sees, and [lanes, n]: 0 where there were fewer than n.
    held_out: tuple[np.ndarray, np.ndarray] | None
    target_steps: np.ndarray | None = None  # [lanes] that it took, where custom environments may be dear


def evaluate(
    policies: Policies,
    tasks: Sequence[Pair],
    seeds: Sequence[int],
    target_episodes: int,
    source_episodes: int,
    *,
    index: int,
    threads: int | None = None,
    kept_rows: int = 0,
    padded: bool = False,
) -> Evaluation:
    """Whole episodes of every lane's policy, all stepped together; evaluation number `index` has its own starts."""
    if isinstance(tasks[0], pairs.OwnPair):
        return _evaluate_own(policies, tasks, seeds, target_episodes, source_episodes, index, kept_rows)
    lanes = len(tasks)
    roles = ["target"] * target_episodes + ["source"] * source_episodes
    per_lane = len(roles)
    if not roles:
        return Evaluation(np.zeros((lanes, 0)), np.zeros((lanes, 0)), None)
    bodies = [(task, role) for task in tasks for role in roles]
    starts = [(seed, EVALUATION, index, episode) for seed in seeds for episode in range(per_lane)]
    domain = pairs.open_bodies(bodies, starts, threads, padded=padded)
    returns = np.zeros(lanes * per_lane)
    stepped: list[np.ndarray] = []
    packed: list[np.ndarray] = []
    for running, rows in steps(domain, policies, lanes, per_lane):
        returns[running] += rows.reward
        if kept_rows:
            stepped.append(running)
            packed.append(pack(rows))
    domain.close()
    by_lane = returns.reshape(lanes, per_lane)
    held_out = _selection(stepped, packed, kept_rows, lanes, target_episodes, per_lane) if kept_rows else None
    return Evaluation(by_lane[:, :target_episodes], by_lane[:, target_episodes:], held_out)


def steps(domain: Domain, policies: Policies, lanes: int, bodies: int) -> Iterator[tuple[np.ndarray, Rows]]:
    """An episode of every body, `bodies` of each lane, stepped together: those that still run, and their rows."""
    running = np.arange(lanes * bodies)
    while len(running):
        observation = pairs.seen_by(domain, running).reshape(lanes, bodies, -1)
        actions = policies(observation).reshape(lanes * bodies, -1)[running]
        rows = domain.step(running, np.nan_to_num(actions))
        yield running, rows
        running = running[~(rows.terminated | rows.truncated | rows.diverged)]


def _evaluate_own(
    policies: Policies,
    tasks: Sequence[Pair],
    seeds: Sequence[int],
    target_episodes: int,
    source_episodes: int,
    index: int,
    kept_rows: int,
) -> Evaluation:
    """The same where an environment may be dear: one target per lane, its episodes one after the other."""
    lanes = len(tasks)
    target, stepped, packed = _play(policies, tasks, seeds, "target", index, target_episodes, 1)
    source, _, _ = _play(policies, tasks, seeds, "source", index, 1, source_episodes)
    held_out = _selection(stepped, packed, kept_rows, lanes, 1, 1) if kept_rows and packed else None
    steps = np.bincount(np.concatenate([np.zeros(0, int), *stepped]), minlength=lanes)
    return Evaluation(target, source, held_out, steps)


def _play(
    policies: Policies, tasks: Sequence[Pair], seeds: Sequence[int], role: str, index: int, rounds: int, at_once: int
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """(returns [lanes, rounds x at once], and of every step the bodies that made it and their packed rows)."""
    lanes, number = len(tasks), ("target", "source").index(role)
    stepped: list[np.ndarray] = []
    packed: list[np.ndarray] = []
    if not rounds * at_once:
        return np.zeros((lanes, 0)), stepped, packed
    starts = [(seed, EVALUATION, index, number, body) for seed in seeds for body in range(at_once)]
    domain = pairs.open_bodies([(task, role) for task in tasks for _ in range(at_once)], starts)
    returns = np.zeros((rounds, lanes * at_once))
    try:
        for episode in range(rounds):
            for running, rows in steps(domain, policies, lanes, at_once):
                returns[episode, running] += rows.reward
                stepped.append(running)
                packed.append(pack(rows))
    finally:
        domain.close()
    return returns.reshape(rounds, lanes, at_once).swapaxes(0, 1).reshape(lanes, -1), stepped, packed


def _selection(
    stepped: list[np.ndarray], packed: list[np.ndarray], n: int, lanes: int, target_episodes: int, per_lane: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each lane n of its target rows, evenly spread over all it saw, and weights that tell rows from padding."""
    rows = np.concatenate(packed)
    lane, episode = np.divmod(np.concatenate(stepped), per_lane)
    chosen = np.zeros((lanes, n, rows.shape[1]), np.float32)
    weight = np.zeros((lanes, n), np.float32)
    for number in range(lanes):
        mine = np.flatnonzero((lane == number) & (episode < target_episodes))
        take = min(n, len(mine))
        chosen[number, :take] = rows[mine[np.linspace(0, len(mine) - 1, take).astype(int)]]
        weight[number, :take] = 1.0
    return chosen, weight
