"""Tiny environments of a user's own, by `tests.custom.environments:NAME`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Point(gymnasium.Env):
    """A point on a line that is pushed about; it falls off one edge."""

    def __init__(self, gain: float = 0.5, low: float = -3.0, high: float = 5.0, edge: float = 1.6) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Box(low, high, (1,), np.float32)
        self.gain, self.middle, self.edge = gain, (low + high) / 2, edge
        self.acted: list[float] = []
        self.state = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2)
        return self.seen(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        self.acted.append(float(action[0]))
        push = self.gain * (float(action[0]) - self.middle) / 4
        self.state = np.clip(self.state + np.array([push, -0.3 * push]), -2.0, 2.0)
        return self.seen(), 1.0 - float(np.square(self.state).sum()), bool(self.state[0] > self.edge), False, {"n": 1}

    def seen(self) -> Any:
        return self.state.copy()


class Parts(Point):
    """The same, seen as a dictionary with a matrix in it."""

    def __init__(self, gain: float = 0.5) -> None:
        super().__init__(gain)
        box = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.observation_space = spaces.Dict({"b": box, "a": spaces.Box(-np.inf, np.inf, (2, 1), np.float64)})

    def seen(self) -> Any:
        return {"b": self.state[:1].astype(np.float32), "a": self.state.reshape(2, 1)}


class Failing(Point):
    """Gives up at one of its steps, counted over all episodes, of every one or of each, in the way it is told to."""

    broken_at: int | None = None  # set by tests
    how = "raise"
    steps = 0  # ever made
    each = False
    own_steps = 0

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        kind = type(self)
        if (self.own_steps if kind.each else kind.steps) == kind.broken_at:
            kind.broken_at = None
            if kind.how == "raise":
                raise RuntimeError("motor 3 stalled")
            if kind.how == "nan":
                return np.array([np.nan, 0.0]), 0.0, False, False, {}
            return np.zeros(7), 0.0, False, False, {}
        kind.steps += 1
        self.own_steps += 1
        return super().step(action)


def source() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Point(), 17)


def target() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Point(-0.4), 17)


def failing() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Failing(-0.4), 17)


def parts_source() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Parts(), 17)


def parts_target() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Parts(-0.4), 17)


def limitless() -> gymnasium.Env:
    return Point()


def discrete() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


def camera() -> gymnasium.Env:
    env = Point()
    env.observation_space = spaces.Box(0, 255, (64, 48, 3), np.uint8)
    return gymnasium.wrappers.TimeLimit(env, 17)


def unbounded() -> gymnasium.Env:
    env = Point()
    env.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    return gymnasium.wrappers.TimeLimit(env, 17)


def discrete_observation() -> gymnasium.Env:
    env = Point()
    env.observation_space = spaces.Discrete(3)
    return gymnasium.wrappers.TimeLimit(env, 17)


def weaker() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Point(low=-1.0, high=1.0), 17)


def nothing() -> None:
    return None


def unplugged() -> gymnasium.Env:
    raise ConnectionError("no robot at this address")
