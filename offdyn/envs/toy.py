"""Toy environments in NumPy, source and target in one: for the demo, and probes whose answers can be written down."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._util.types import Spec
from .domain import Rows

# (state [n, k], action [n, A], shifted [n]) -> next state [n, k], reward [n], terminated [n].
# `shifted` says which bodies are of the target.
Advance = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class World:
    """A pair of domains that share everything but where `advance` asks whether a body is shifted."""

    name: str
    spec: Spec
    start: Callable[[np.random.Generator], np.ndarray]  # the first state [k] of an episode
    advance: Advance
    description: str = ""
    observe: Callable[[np.ndarray], np.ndarray] = np.array  # state [n, k] -> observation [n, S]

    def to_mapping(self) -> dict[str, Any]:
        return {"world": self.name}


class WorldBodies:
    """Many bodies of one world, as `Domain` asks."""

    def __init__(self, world: World, shifted: Sequence[bool], seeds: Sequence[tuple[int, ...]]) -> None:
        self.world, self.spec = world, world.spec
        self.shifted, self.seeds = np.asarray(shifted, bool), tuple(seeds)
        bodies = len(seeds)
        self._episodes = np.zeros(bodies, np.int64)
        self._elapsed = np.zeros(bodies, np.int64)
        self._state = np.stack([world.start(np.random.default_rng([*seed, 0])) for seed in seeds]).astype(float)
        self._episodes += 1
        self.observation = world.observe(self._state)
        self.divergences = np.zeros(bodies, np.int64)

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        for body in ids:
            self._state[body] = self.world.start(np.random.default_rng([*self.seeds[body], int(self._episodes[body])]))
        self._episodes[ids] += 1
        self._elapsed[ids] = elapsed
        self.observation = self.world.observe(self._state)

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        seen = self.observation[ids]
        action = np.clip(np.asarray(actions, float), -1.0, 1.0)
        state, reward, terminated = self.world.advance(self._state[ids], action, self.shifted[ids])
        self._state[ids] = state
        self._elapsed[ids] += 1
        truncated = (self._elapsed[ids] >= self.spec.time_limit) & ~terminated
        self.observation = self.world.observe(self._state)
        after = self.observation[ids]
        ended = ids[terminated | truncated]
        if len(ended):
            self.reset(ended)
        return Rows(seen, action, reward, after, terminated, truncated, np.zeros(len(ids), bool))

    def save(self) -> dict[str, np.ndarray]:
        return {"state": self._state.copy(), "elapsed": self._elapsed.copy(), "episodes": self._episodes.copy()}

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        self._state[:], self._elapsed[:], self._episodes[:] = saved["state"], saved["elapsed"], saved["episodes"]
        self.observation = self.world.observe(self._state)

    def close(self) -> None:
        """Nothing to give back."""
