"""How good a policy is: the mean action, in environments that are built afresh and that training never sees.

Beside a GPU in processes of their own, each `python -m offdyn.training.evaluation`, which load no JAX: in one process
training and evaluation would wait for each other. What goes through the pipes is JSON and safetensors.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from .._util import cores
from .._util.child import Child, parent
from ..data.transition import pack
from ..envs import pairs
from ..envs.custom import EnvironmentFailed
from ..envs.domain import Domain, Rows
from ..envs.pairs import Pair
from ..envs.residual import Residual, ResidualBodies
from ..policies.trained import Policies

EVALUATION = 2  # the role in (seed, role, ...) that seeds starts; training uses 0 for source and 1 for target
PIECES_FOR_EACH = 3  # of an evaluation, about as long as each other, for every child: fewer, and the last is waited for
MOST_PROCESSES = 8  # of one thread each: threads of one process would wait for each other at every step


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
    residuals: Sequence[Residual | None] = (),
) -> Evaluation:
    """Whole episodes of every lane's policy, all stepped together; evaluation number `index` has its own starts.

    `residuals`: of each lane, where some move the actions of base policies.
    """
    if isinstance(tasks[0], pairs.OwnPair):
        try:
            return _evaluate_own(policies, tasks, seeds, residuals, target_episodes, source_episodes, index, kept_rows)
        except EnvironmentFailed as failure:
            raise EnvironmentFailed(f"in an evaluation: {failure}") from failure
    lanes = len(tasks)
    roles = ["target"] * target_episodes + ["source"] * source_episodes
    per_lane = len(roles)
    if not roles:
        return Evaluation(np.zeros((lanes, 0)), np.zeros((lanes, 0)), None)
    bodies = [(task, role) for task in tasks for role in roles]
    starts = [(seed, EVALUATION, index, episode) for seed in seeds for episode in range(per_lane)]
    domain = pairs.open_bodies(bodies, starts, threads, padded=padded)
    if any(residuals):
        domain = ResidualBodies(domain, [residual for residual in residuals for _ in roles])
    returns = np.zeros(lanes * per_lane)
    stepped: list[np.ndarray] = []
    packed: list[np.ndarray] = []
    for running, rows in episodes(domain, in_lanes(policies), lanes * per_lane):
        returns[running] += rows.reward
        if kept_rows:
            stepped.append(running)
            packed.append(pack(rows))
    domain.close()
    by_lane = returns.reshape(lanes, per_lane)
    held_out = _selection(stepped, packed, kept_rows, lanes, target_episodes, per_lane) if kept_rows else None
    return Evaluation(by_lane[:, :target_episodes], by_lane[:, target_episodes:], held_out)


def episodes(domain: Domain, act: Callable[[np.ndarray], np.ndarray], bodies: int) -> Iterator[tuple[np.ndarray, Rows]]:
    """An episode of every body, stepped together: those that still run, and their rows."""
    running = np.arange(bodies)
    while len(running):
        actions = act(pairs.seen_by(domain, running)).reshape(bodies, -1)[running]
        rows = domain.step(running, np.nan_to_num(actions))
        yield running, rows
        running = running[~(rows.terminated | rows.truncated | rows.diverged)]


def in_lanes(policies: Policies) -> Callable[[np.ndarray], np.ndarray]:
    """Mean actions of bodies that lie lane by lane, as many of each."""
    return lambda seen: policies(seen.reshape(policies.lanes, -1, seen.shape[-1]))


def _evaluate_own(
    policies: Policies,
    tasks: Sequence[Pair],
    seeds: Sequence[int],
    residuals: Sequence[Residual | None],
    target_episodes: int,
    source_episodes: int,
    index: int,
    kept_rows: int,
) -> Evaluation:
    """The same where an environment may be dear: one target per lane, its episodes one after the other."""
    lanes = len(tasks)
    target, stepped, packed = _play(policies, tasks, seeds, residuals, "target", index, target_episodes, 1)
    source, _, _ = _play(policies, tasks, seeds, residuals, "source", index, 1, source_episodes)
    held_out = _selection(stepped, packed, kept_rows, lanes, 1, 1) if kept_rows and packed else None
    steps = np.bincount(np.concatenate([np.zeros(0, int), *stepped]), minlength=lanes)
    return Evaluation(target, source, held_out, steps)


def _play(
    policies: Policies,
    tasks: Sequence[Pair],
    seeds: Sequence[int],
    residuals: Sequence[Residual | None],
    role: str,
    index: int,
    rounds: int,
    at_once: int,
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """(returns [lanes, rounds x at once], and of every step the bodies that made it and their packed rows)."""
    lanes, number = len(tasks), ("target", "source").index(role)
    stepped: list[np.ndarray] = []
    packed: list[np.ndarray] = []
    if not rounds * at_once:
        return np.zeros((lanes, 0)), stepped, packed
    starts = [(seed, EVALUATION, index, number, body) for seed in seeds for body in range(at_once)]
    domain = pairs.open_bodies([(task, role) for task in tasks for _ in range(at_once)], starts)
    if any(residuals):
        domain = ResidualBodies(domain, [residual for residual in residuals for _ in range(at_once)])
    returns = np.zeros((rounds, lanes * at_once))
    try:
        for episode in range(rounds):
            for running, rows in episodes(domain, in_lanes(policies), lanes * at_once):
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


class Evaluator:
    """Evaluates the policies of a cohort: in this process, or, beside a GPU, in children.

    A child gets all lanes' tasks once and then the policies of a few lanes at a time; it gives back their returns.
    """

    def __init__(
        self,
        tasks: Sequence[Pair],
        seeds: Sequence[int],
        threads: int,
        padded: bool,
        residuals: Sequence[Residual | None] = (),
    ) -> None:
        self.tasks, self.seeds, self.threads, self.padded = tasks, seeds, threads, padded
        self.residuals = residuals
        from .hardware import beside_a_gpu  # not in a child, which needs no device

        # May hold what cannot be told to another process.
        own = isinstance(tasks[0], pairs.OwnPair) or any(residuals)
        count = min(len(tasks), cores.left_for_evaluation(threads), MOST_PROCESSES) if beside_a_gpu() and not own else 0
        self.children = [self._begin() for _ in range(count)]
        self.pool = ThreadPoolExecutor(max(1, count), "evaluation")  # of threads that wait for the children
        self.spent = np.ones(len(tasks))  # seconds that each lane's newest evaluation took, its share where they shared

    def _begin(self) -> Child:
        child = Child(__name__, "that evaluates policies")
        about = {
            "tasks": [task.to_mapping() for task in self.tasks],
            "seeds": list(self.seeds),
            "padded": self.padded,
            "cores": cores.every() if cores.taken() else [],
        }
        child.send(json.dumps(about).encode())
        return child

    def __call__(
        self, policies: Policies, target_episodes: int, source_episodes: int, *, index: int, kept_rows: int = 0
    ) -> Evaluation:
        """As `evaluate`."""
        wanted: dict[str, Any] = {
            "target_episodes": target_episodes,
            "source_episodes": source_episodes,
            "index": index,
            "kept_rows": kept_rows,
        }
        if not self.children:
            here: dict[str, Any] = {"threads": self.threads, "padded": self.padded, "residuals": self.residuals}
            return evaluate(policies, self.tasks, self.seeds, **here, **wanted)
        waiting = iter(self._pieces())
        parts: dict[int, dict[str, np.ndarray]] = {}

        def serve(child: Child) -> None:
            for lanes in waiting:
                started = time.perf_counter()
                child.send(json.dumps({"lanes": lanes, **wanted}).encode())
                child.send(save(policies.stacked(np.array(lanes))))
                answer = load(child.receive())
                for number, lane in enumerate(lanes):
                    parts[lane] = {name: array[number : number + 1] for name, array in answer.items()}
                self.spent[lanes] = (time.perf_counter() - started) / len(lanes)

        list(self.pool.map(serve, self.children))
        joined = {name: np.concatenate([parts[lane][name] for lane in sorted(parts)]) for name in parts[0]}
        held_out = (joined["held_out_rows"], joined["held_out_weight"]) if "held_out_rows" in joined else None
        return Evaluation(joined["target_returns"], joined["source_returns"], held_out)

    def _pieces(self) -> list[list[int]]:
        """Lanes that one child evaluates together, the longest first: the last ones to end are then short.

        Lanes of one robot cost less together than one by one, by a third where the robot's own steps are cheap.
        """
        longest = self.spent.sum() / (PIECES_FOR_EACH * len(self.children))
        pieces: list[list[int]] = []
        newest: dict[str, list[int]] = {}  # by robot
        for lane in np.argsort(-self.spent, kind="stable").tolist():
            robot = pairs.family_of(self.tasks[lane])
            if robot not in newest or self.spent[[*newest[robot], lane]].sum() > longest:
                newest[robot] = []
                pieces.append(newest[robot])
            newest[robot].append(lane)
        return sorted(pieces, key=lambda lanes: -self.spent[lanes].sum())

    def close(self) -> None:
        """End the children; one in the middle of an evaluation is not waited for."""
        for child in self.children:
            child.process.kill()
        self.pool.shutdown()  # its threads see the end of their child
        for child in self.children:
            child.close()


def main() -> None:
    """A child: evaluate what comes until the training closes the pipe."""
    training = parent()
    try:
        about = json.loads(training.receive())
        if about["cores"]:
            cores.stand_back(about["cores"])
        tasks = [pairs.find(task) for task in about["tasks"]]
        while True:
            wanted = json.loads(training.receive())
            policies = Policies.from_stacked(load(training.receive()))
            lanes = wanted.pop("lanes")
            own, seeds = [tasks[lane] for lane in lanes], [about["seeds"][lane] for lane in lanes]
            done = evaluate(policies, own, seeds, threads=1, padded=about["padded"], **wanted)
            arrays = {"target_returns": done.target_returns, "source_returns": done.source_returns}
            if done.held_out is not None:
                arrays |= {"held_out_rows": done.held_out[0], "held_out_weight": done.held_out[1]}
            training.send(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
