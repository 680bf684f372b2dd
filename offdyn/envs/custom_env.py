"""One Gymnasium environment as our domains want it: flat observations, actions in [-1, 1], numbered starts, a limit."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from .._util.errors import OffdynError


class Interface(NamedTuple):
    """What a policy sees and moves."""

    observation: tuple[tuple[str, int], ...]  # parts in order, and their sizes
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]

    def difference(self, other: "Interface") -> str | None:
        """How the other one differs, in words."""
        if self.observation != other.observation:
            return f"their observations are {_said(self.observation)} and {_said(other.observation)}"
        if len(self.action_low) != len(other.action_low):
            return f"their actions have {len(self.action_low)} and {len(other.action_low)} entries"
        if self[1:] != other[1:]:
            mine, its = (f"{list(i.action_low)} to {list(i.action_high)}" for i in (self, other))
            return f"their actions lie in {mine} and in {its}"
        return None


def interface_of(seen: spaces.Space, moved: spaces.Space, who: str) -> Interface:
    """What an environment's two spaces say; those we cannot learn with are refused."""
    if not isinstance(seen, spaces.Box | spaces.Dict) or not isinstance(spaces.utils.flatten_space(seen), spaces.Box):
        raise OffdynError(
            f"{who}: its observation space is {seen}; expected a Box, or a Dict whose parts flatten to numbers: wrap "
            "it with gymnasium.wrappers.TransformObservation"
        )
    if not isinstance(moved, spaces.Box) or not np.issubdtype(moved.dtype, np.floating):
        raise OffdynError(f"{who}: its action space is {moved}; expected a Box of real numbers with finite bounds")
    low, high = moved.low.reshape(-1).astype(float), moved.high.reshape(-1).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()) or not low.size:
        raise OffdynError(
            f"{who}: its action space is {moved}; expected finite bounds, each lower one below its upper one: give "
            "the space the bounds that its motors have"
        )
    return Interface(tuple(_parts(seen)), tuple(low.tolist()), tuple(high.tolist()))


class Body(gymnasium.Wrapper):
    """The environment with our interface. A NaN in the action leaves it as it is, for steps that others take."""

    def __init__(self, env: gymnasium.Env, interface: Interface, limit: int, seeds: tuple[int, ...]) -> None:
        super().__init__(env)
        found = interface_of(env.observation_space, env.action_space, "the environment")
        if (difference := interface.difference(found)) is not None:
            raise OffdynError(f"it is not the environment the training began with: {difference}")
        self.inner, self.moved = env.observation_space, env.action_space
        size = sum(part for _, part in interface.observation)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (len(interface.action_low),), np.float64)
        self.low = np.asarray(interface.action_low)
        self.width = np.asarray(interface.action_high) - self.low
        self.limit, self.seeds = limit, seeds
        self.episode = 0  # number of the next one
        self.spent = 0  # steps of it that count as made already
        self.elapsed = 0
        self.seen = np.zeros(size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start the next episode; its start is drawn from the body's seeds and its number."""
        number = np.random.default_rng([*self.seeds, self.episode]).integers(2**31)
        self.episode += 1
        self.elapsed, self.spent = self.spent, 0
        observation, _ = self.env.reset(seed=int(number))
        self.seen = self._flat(observation)
        return self.seen.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Act once, in [-1, 1]. Ends are true ends, or cuts by the environment or by our limit; never both."""
        if np.isnan(action).any():
            return self.seen.copy(), 0.0, False, False, {}
        own = (self.low + 0.5 * (np.clip(action, -1.0, 1.0) + 1.0) * self.width).reshape(self.moved.shape)
        own = np.clip(own.astype(self.moved.dtype), self.moved.low, self.moved.high)  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, _ = self.env.step(own)
        self.elapsed += 1
        self.seen = self._flat(observation)
        gained = float(np.asarray(reward, np.float64).reshape(()))
        if not np.isfinite(gained):
            raise ValueError(f"it gave the reward {gained}")
        ended = bool(terminated)
        cut = (bool(truncated) or self.elapsed >= self.limit) and not ended
        return self.seen.copy(), gained, ended, cut, {}

    def _flat(self, observation: Any) -> np.ndarray:
        flat = np.asarray(spaces.utils.flatten(self.inner, observation), np.float64)
        if flat.shape != self.seen.shape:
            raise ValueError(f"it gave an observation of {flat.size} numbers, its space has {self.seen.size}")
        if not np.isfinite(flat).all():
            raise ValueError(f"it gave an observation with numbers that are not finite: {flat}")
        return flat


def new_body(
    factory: Callable[[], gymnasium.Env], interface: Interface, limit: int, training: int, seeds: tuple[int, ...]
) -> gymnasium.Env:
    """A body, in the process of the training or in one of its own."""
    if os.getpid() != training:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which closes us
    return Body(factory(), interface, limit, seeds)


def _parts(space: spaces.Space, name: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, f"{name}.{key}" if name else str(key))
    else:
        yield name or "observation", spaces.utils.flatdim(space)


def _said(parts: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} ({size})" for name, size in parts)
