"""Batched simulators of the point in `environments`, one of each kind, by `tests.custom.simulators:NAME`."""

import sys
import types
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from . import environments

COUNT, LIMIT = 16, 17


def moved(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """[n, 2] where points at `state` are after actions [n, 1] in [-1, 1]."""
    return np.clip(state + action * np.array([0.5, -0.15]), -2.0, 2.0)


def gained(after: np.ndarray) -> np.ndarray:
    return 1.0 - np.square(after).sum(1)


class Tensor:
    """An array of a package that nobody imports, as PyTorch's are to us: DLPack leads to it and back."""

    __module__ = "tensors"
    device = "a device"

    def __init__(self, array: np.ndarray) -> None:
        self.hidden = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.hidden.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.hidden.__dlpack_device__()

    def to(self, device: str) -> "Tensor":
        assert device == self.device
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.hidden.shape


tensors: Any = types.ModuleType("tensors")
tensors.from_dlpack = lambda array: Tensor(np.from_dlpack(array))
sys.modules["tensors"] = tensors

KINDS: dict[str, Any] = {"numpy": np.array, "jax": jnp.asarray, "tensor": Tensor}


class Points:
    """As `offdyn.envs.batched.Simulator` asks, with one kind of array."""

    action_low, action_high = (-3.0,), (5.0,)

    def __init__(self, kind: str = "numpy", num_envs: int = COUNT) -> None:
        self.num_envs, self.kind = num_envs, kind
        self.given: Any = KINDS[kind]
        self.seeds: list[int] = []
        self.acted: list[np.ndarray] = []
        self.closed = False

    def reset(self, seed: int) -> Any:
        self.seeds.append(seed)
        self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-1.0, 1.0, (self.num_envs, 2))
        self.age = np.arange(self.num_envs)
        return self.given(self.state.astype(np.float32))

    def step(self, actions: Any) -> tuple[Any, ...]:
        assert isinstance(actions, type(self.given(np.zeros(1))))
        own = np.from_dlpack(actions)
        self.acted.append(np.array(own))
        self.state = moved(self.state, (own - 1.0) / 4.0)
        self.age += 1
        final, reward = self.state.copy(), gained(self.state)
        fell, cut = final[:, 0] > 1.6, self.age >= LIMIT
        ended = fell | cut
        self.state[ended] = self.random.uniform(-1.0, 1.0, (ended.sum(), 2))
        self.age[ended] = 0
        given = (self.state, reward, fell, cut, final)
        return tuple(self.given(part.astype(bool if part.dtype == bool else np.float32)) for part in given)

    def close(self) -> None:
        self.closed = True


def points() -> Points:
    return Points()


def jax_points() -> Points:
    return Points("jax")


def tensor_points() -> Points:
    return Points("tensor")


def any_points(num_envs: int) -> Points:
    return Points(num_envs=num_envs)


def same_step() -> gymnasium.vector.VectorEnv:
    return SyncVectorEnv([environments.source] * COUNT, autoreset_mode=AutoresetMode.SAME_STEP)


def next_step() -> gymnasium.vector.VectorEnv:
    return SyncVectorEnv([environments.source] * COUNT, autoreset_mode=AutoresetMode.NEXT_STEP)


def no_reset() -> gymnasium.vector.VectorEnv:
    return SyncVectorEnv([environments.source] * COUNT, autoreset_mode=AutoresetMode.DISABLED)


def parts_vector(num_envs: int) -> gymnasium.vector.VectorEnv:
    return SyncVectorEnv([environments.parts_source] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


class State(NamedTuple):
    """A state as MuJoCo Playground's environments have it."""

    data: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


class Playground:
    """A stand-in with the interface of MuJoCo Playground's environments: stateless, of one body, in JAX."""

    action_size = 1

    def reset(self, rng: Any) -> State:
        rng, first = jax.random.split(rng)
        data = jax.random.uniform(first, (2,), minval=-1.0)
        return State(data, {"state": data, "privileged_state": jnp.zeros(9)}, jnp.zeros(()), jnp.zeros(()), {},
                     {"rng": rng, "steps": jnp.zeros((), int)})  # fmt: skip

    def step(self, state: State, action: Any) -> State:
        after = jnp.clip(state.data + action * jnp.array([0.5, -0.15]), -2.0, 2.0)
        info = state.info | {"steps": state.info["steps"] + 1}
        seen = {"state": after, "privileged_state": jnp.zeros(9)}
        return State(after, seen, 1.0 - jnp.square(after).sum(), (after[0] > 1.6).astype(float), state.metrics, info)


def playground() -> Playground:
    return Playground()


def narrow_target() -> gymnasium.Env:
    """A target with the bounds that such environments have."""
    return gymnasium.wrappers.TimeLimit(environments.Point(-1.6, -1.0, 1.0), LIMIT)


class Groups:
    """A dictionary of observations that is no `Mapping`, as TensorDict is."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def keys(self) -> Any:
        return self.parts.keys()

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]


class Rsl:
    """A stand-in with the interface of rsl_rl's `VecEnv`."""

    num_actions, max_episode_length, device = 1, LIMIT, "a device"
    keeps_final = True

    def __init__(self) -> None:
        self.inner = Points("tensor")
        self.num_envs = self.inner.num_envs
        self.seen = self.inner.reset(0)

    def seed(self, seed: int) -> int:
        self.wanted = seed
        return seed

    def reset(self) -> tuple[Groups, dict[str, Any]]:
        self.seen = self.inner.reset(self.wanted)
        return self.get_observations(), {}

    def get_observations(self) -> Groups:
        return Groups({"critic": Tensor(np.zeros((self.num_envs, 5))), "policy": self.seen})

    def step(self, actions: Tensor) -> tuple[Groups, Tensor, Tensor, dict[str, Any]]:
        self.seen, reward, fell, cut, final = self.inner.step(actions)
        dones = Tensor((fell.hidden | cut.hidden).astype(np.int64))
        kept = {"final_obs": Groups({"policy": final})} if self.keeps_final else {}
        return self.get_observations(), reward, dones, {"time_outs": cut, "log": {}, **kept}


def rsl() -> Rsl:
    return Rsl()


class Broken(Points):
    """Does at one of its steps what a simulator may not do."""

    how, at = "", 5  # set by tests

    def step(self, actions: Any) -> tuple[Any, ...]:
        given = list(super().step(actions))
        if len(self.acted) == self.at + 1:
            if self.how == "nan":
                given[0][3, 1] = np.nan
            elif self.how == "shape":
                given[1] = given[1][:-1]
            elif self.how == "type":
                given[0] = given[0].astype(str)
            elif self.how == "flags":
                given[2] = np.full(self.num_envs, 0.5)
            elif self.how == "no final":
                given[3][:] = True
                given[4] = None
            elif self.how == "blown up":  # and ended by the simulator itself
                given[2][3], given[3][3], given[4][3] = True, False, np.nan
            elif self.how == "four":
                given = given[:4]
        return tuple(given)


def broken() -> Broken:
    return Broken()
