"""How good a policy is: the mean action, in bodies that are built afresh and that training never sees."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from ..data.rows import pack
from ..domains import pairs
from ..domains.domain import Domain, Rows
from ..domains.pairs import Pair
from ..errors import OffdynError, check_format
from ..types import Spec

FORMAT = 1  # of policy.safetensors
EVALUATION = 2  # the role in (seed, role, ...) that seeds starts; training uses 0 for source and 1 for target


class Spread(NamedTuple):
    """The other half of the actors' last layers, which gives the log-stds before the squashing."""

    weight: np.ndarray  # [lanes, in, A]
    bias: np.ndarray  # [lanes, 1, A]
    bounds: np.ndarray  # [lanes, 2], lowest and highest


@dataclass(frozen=True)
class Policies:
    """Deterministic policies of several runs, in NumPy: tanh of the mean of each actor, [lanes, ...] arrays."""

    weights: tuple[np.ndarray, ...]  # [lanes, in, out]
    biases: tuple[np.ndarray, ...]  # [lanes, 1, out]
    mean: np.ndarray | None = None  # [lanes, 1, S], of observations, where they are normalised
    deviation: np.ndarray | None = None
    spread: Spread | None = None  # where actions can be drawn, too

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """[lanes, n, S] -> [lanes, n, A]: the mean actions."""
        return np.tanh(self._hidden(observation) @ self.weights[-1] + self.biases[-1])

    def sample(self, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """[lanes, n, S] -> [lanes, n, A]: the actions as training draws them, given standard normal noise."""
        if self.spread is None:
            raise OffdynError("this policy was saved without its spread: only its mean actions are known")
        x = self._hidden(observation)
        weight, bias, bounds = self.spread
        log_std = np.clip(x @ weight + bias, bounds[:, None, :1], bounds[:, None, 1:])
        return np.tanh(x @ self.weights[-1] + self.biases[-1] + np.exp(log_std) * noise.astype(np.float32))

    def _hidden(self, observation: np.ndarray) -> np.ndarray:
        x = np.asarray(observation, np.float32)
        if self.mean is not None:
            x = (x - self.mean) / self.deviation
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ weight + bias, 0.0)
        return x

    def lane(self, index: int) -> "Policies":
        """One run's policy, still with a lane axis of one."""

        def pick(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else array[index : index + 1]

        weights = tuple(w[index : index + 1] for w in self.weights)
        biases = tuple(b[index : index + 1] for b in self.biases)
        spread = None if self.spread is None else Spread(*(part[index : index + 1] for part in self.spread))
        return Policies(weights, biases, pick(self.mean), pick(self.deviation), spread)

    def stacked(self, lanes: np.ndarray) -> dict[str, np.ndarray]:
        """The mean policies of some lanes by name, for `from_stacked`."""
        named = {f"weight.{i}": w for i, w in enumerate(self.weights)} | {
            f"bias.{i}": b for i, b in enumerate(self.biases)
        }
        if self.mean is not None and self.deviation is not None:
            named |= {"mean": self.mean, "deviation": self.deviation}
        return {name: np.ascontiguousarray(array[lanes]) for name, array in named.items()}

    @classmethod
    def from_stacked(cls, arrays: Mapping[str, np.ndarray]) -> "Policies":
        depth = sum(name.startswith("weight.") for name in arrays)
        weights, biases = (tuple(arrays[f"{kind}.{i}"] for i in range(depth)) for kind in ("weight", "bias"))
        return cls(weights, biases, arrays.get("mean"), arrays.get("deviation"))

    def cut(self, spec: Spec) -> "Policies":
        """Without the entries that only fill up a smaller robot."""
        s, a = spec.observation_size, spec.action_size
        mean, deviation = (None if x is None else x[..., :s] for x in (self.mean, self.deviation))
        spread = self.spread
        if spread is not None:
            spread = Spread(spread.weight[..., :a], spread.bias[..., :a], spread.bounds)
        weights = (self.weights[0][:, :s], *self.weights[1:-1], self.weights[-1][..., :a])
        return Policies(weights, (*self.biases[:-1], self.biases[-1][..., :a]), mean, deviation, spread)

    def arrays(self) -> dict[str, np.ndarray]:
        """A single policy's arrays under the names policy.safetensors uses."""
        named = {f"layers.{i}.weight": w[0] for i, w in enumerate(self.weights)}
        named |= {f"layers.{i}.bias": b[0, 0] for i, b in enumerate(self.biases)}
        if self.spread is not None:
            weight, bias, bounds = self.spread
            named |= {"log_std.weight": weight[0], "log_std.bias": bias[0, 0], "log_std.bounds": bounds[0]}
        if self.mean is not None and self.deviation is not None:
            named |= {"observation.mean": self.mean[0, 0], "observation.deviation": self.deviation[0, 0]}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


class Policy:
    """One trained policy: call it with an observation, get the mean action."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
                self.metadata: dict[str, str] = file.metadata() or {}
        except FileNotFoundError:
            raise OffdynError(f"{path}: no policy there yet; one is written at each checkpoint") from None
        except (SafetensorError, OSError) as error:
            raise OffdynError(f"{path}: not a readable policy ({error})") from None
        try:
            check_format(json.loads(self.metadata["about"])["format"], FORMAT, path)
            depth = sum(name.startswith("layers.") and name.endswith(".weight") for name in arrays)
            weights = tuple(arrays[f"layers.{i}.weight"][None] for i in range(depth))
            biases = tuple(arrays[f"layers.{i}.bias"][None, None] for i in range(depth))
            normalised = "observation.mean" in arrays
            mean = arrays["observation.mean"][None, None] if normalised else None
            deviation = arrays["observation.deviation"][None, None] if normalised else None
            spread = None
            if "log_std.weight" in arrays:
                bounds = arrays["log_std.bounds"][None]
                spread = Spread(arrays["log_std.weight"][None], arrays["log_std.bias"][None, None], bounds)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise OffdynError(f"{path}: not a policy of a run ({error!r})") from None
        self.policies = Policies(weights, biases, mean, deviation, spread)

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """[..., S] -> [..., A], each action in [-1, 1]."""
        observation = np.asarray(observation)
        size = self.policies.weights[0].shape[1]
        if observation.shape[-1:] != (size,):
            raise OffdynError(f"{self.path}: expected observations of {size} numbers, got shape {observation.shape}")
        rows = observation.reshape(1, -1, size)
        return self.policies(rows)[0].reshape(*observation.shape[:-1], -1)


class Evaluation(NamedTuple):
    """Returns of fresh episodes, and some of the target rows seen."""

    target_returns: np.ndarray  # [lanes, episodes]
    source_returns: np.ndarray
    # [lanes, n, width] packed target rows, which training never sees, and [lanes, n]: 0 where there were fewer than n.
    held_out: tuple[np.ndarray, np.ndarray] | None
    target_steps: np.ndarray | None = None  # [lanes] that it took, where environments of one's own may be dear


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
