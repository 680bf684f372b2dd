"""What every domain offers: many bodies of one robot, stepped together, any subset per call."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from .._util.types import Spec


class Rows(NamedTuple):
    """What one step of some bodies gave, one entry per stepped body, in the order of `ids`."""

    observation: np.ndarray  # [n, S] float64, what the body saw when it acted
    action: np.ndarray  # [n, A] float64, clipped to [-1, 1]
    reward: np.ndarray  # [n]
    next_observation: np.ndarray  # [n, S]; the last of its episode where that ended, never the first of the next
    terminated: np.ndarray  # [n] bool, true ends
    truncated: np.ndarray  # [n] bool, time limits; never both
    diverged: np.ndarray  # [n] bool: the physics broke, and the fields above repeat the body's last good row


class Domain(Protocol):
    """Bodies in NumPy. A body whose episode ends is reset in the same call.

    A body's starts are drawn from (its seeds, its episode number): they depend on no other body.
    """

    spec: Spec

    @property
    def divergences(self) -> np.ndarray:
        """[bodies] int64, how often each body's physics broke so far."""

    @property
    def observation(self) -> np.ndarray:
        """[bodies, S] float64, what each body sees now: choose its next action from this."""

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        """Start a new episode for these bodies, of which `elapsed` steps count as spent already (staggering)."""

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        """Act once in each of these bodies."""

    def save(self) -> dict[str, np.ndarray]:
        """All state, bit for bit."""

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take back what `save` gave."""

    def close(self) -> None:
        """Give back threads and memory."""


class Wrapped:
    """A domain around another one, which does all that is not said otherwise."""

    def __init__(self, inner: Domain) -> None:
        self.inner, self.spec = inner, inner.spec

    @property
    def divergences(self) -> np.ndarray:
        return self.inner.divergences

    @property
    def observation(self) -> np.ndarray:
        return self.inner.observation

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        self.inner.reset(ids, elapsed)

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        return self.inner.step(ids, actions)

    def save(self) -> dict[str, np.ndarray]:
        return self.inner.save()

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        self.inner.load(saved)

    def close(self) -> None:
        self.inner.close()


class NoBodies:
    """Nowhere to act: the domain of a run that learns from a dataset alone."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.observation = np.zeros((0, spec.observation_size))
        self.divergences = np.zeros(0, np.int64)

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        """Nobody to start."""

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        none, nobody = np.zeros(0), np.zeros(0, bool)
        return Rows(self.observation, np.asarray(actions, float), none, self.observation, nobody, nobody, nobody)

    def save(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Nothing was saved."""

    def close(self) -> None:
        """Nothing to give back."""
