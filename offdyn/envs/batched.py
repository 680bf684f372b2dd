"""Simulators that step many environments at once, as sources: Gymnasium's, rsl_rl's, those in JAX, or of `Simulator`.

Each becomes a `Batch`, with NumPy and the environments' own units. PyTorch is never imported: arrays come and go
through DLPack.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from .._util.errors import OffdynError
from .custom_env import Interface, interface_of

VEC, PLAYGROUND = "vec:", "playground:"  # begin the references of gymnasium.make_vec, and of MuJoCo Playground
ANY = 0  # as the number of environments of a simulator that takes any
USUAL = 100  # environments of such a simulator, where nobody says how many
TRIED = 2  # environments of such a simulator that is only looked at
GROUPS = ("policy", "actor", "state")  # of an observation in several parts, those that a policy sees
KEPT: dict[str, Any] = {}  # simulators that were looked at, by reference: some may be made only once in a process


class Simulator(Protocol):
    """What a user's own batched simulator offers. Arrays are NumPy's, JAX's or PyTorch's; actions come as theirs do.

    An environment whose episode ends is reset in the same step.
    """

    num_envs: int
    action_low: Sequence[float]  # [A], in the environments' own units
    action_high: Sequence[float]

    def reset(self, seed: int) -> Any:
        """Begin an episode in every environment; [num_envs, S], what they show."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Act [num_envs, A]: (observation, reward, terminated, truncated, final_observation).

        `observation` is what each environment shows now, of its next episode where one ended; `final_observation` is
        what it showed last, read where an episode ended, and may be None where none did.
        """


class Stepped(NamedTuple):
    """What one step of all environments gave."""

    observation: np.ndarray  # [n, S], what each shows now
    reward: np.ndarray  # [n]
    terminated: np.ndarray  # [n] bool
    truncated: np.ndarray
    final: np.ndarray  # [n, S], where an episode ended: what the environment showed last
    idle: np.ndarray | None = None  # [n] bool: only reset, and no transition was made
    broken: np.ndarray | None = None  # [n] bool: the episode ended in numbers that are not finite


class Batch(Protocol):
    """A simulator as our domains want it. What is NaN in its interface is the target's to say."""

    count: int
    interface: Interface

    @property
    def on_device(self) -> bool:
        """Whether it has `advance`: `step` in JAX, with nothing brought to the host."""

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode in every environment; [n, S]."""

    def step(self, actions: np.ndarray) -> Stepped:
        """Act [n, A] once in each, in its own units."""

    def close(self) -> None:
        """Give back what it holds."""


def takes_count(factory: Callable[..., Any]) -> bool:
    """Whether it can be asked for any number of environments."""
    try:
        return "num_envs" in inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return False


def prefixed(reference: str) -> Callable[..., Any] | None:
    """What makes a simulator that is named after one of our prefixes."""
    for prefix, make in ((VEC, vector), (PLAYGROUND, playground)):
        if reference.startswith(prefix):
            return functools.partial(make, reference.removeprefix(prefix))
    return None


def vector(name: str, num_envs: int = TRIED, limit: int | None = None, apart: bool = False) -> VectorEnv:
    """Environments of a registered id, as `gymnasium.make_vec` makes them; `apart`: each in a process of its own."""
    spec = gymnasium.spec(name)
    how: dict[str, Any] = {} if limit is None else {"max_episode_steps": limit}
    if spec.vector_entry_point is None:
        how["vectorization_mode"] = "async" if apart else "sync"
        how["vector_kwargs"] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    elif spec.max_episode_steps is None:
        how = {}
    return gymnasium.make_vec(name, num_envs=num_envs, **how)


def playground(name: str) -> Any:
    """An environment of MuJoCo Playground."""
    try:
        from mujoco_playground import registry
    except ModuleNotFoundError as error:
        raise OffdynError(
            f"{PLAYGROUND}{name} needs the Python package playground: pip install playground ({error})"
        ) from None
    return registry.load(name)


def adapted(made: Any, who: str, count: int, limit: int) -> Batch | None:
    """The simulator as a `Batch`; None where it is nothing of the kind. `count` and `limit` are for those in JAX."""
    if isinstance(made, VectorEnv):
        return GymBatch(made, who)
    if _has(made, "num_envs", "num_actions", "get_observations", "step"):
        return RslBatch(made)
    if _has(made, "num_envs", "action_low", "action_high", "reset", "step"):
        return OwnBatch(made, who)
    if is_stateless(made):
        from .batched_jax import JaxBatch

        return JaxBatch(made, count, limit)
    return None


def is_stateless(made: Any) -> bool:
    """Whether it is one environment in JAX, to be mapped over any number."""
    return _has(made, "action_size", "reset", "step") and not hasattr(made, "num_envs")


def _has(made: Any, *names: str) -> bool:
    return all(hasattr(made, name) for name in names)


def fitted(found: Interface, target: Interface) -> Interface:
    """A simulator's interface, with names of parts and bounds of actions from the target where it has none itself."""
    parts, size = found.observation, sum(size for _, size in target.observation)
    if parts == (("observation", size),):
        parts = target.observation
    low, high = found.action_low, found.action_high
    if len(low) == len(target.action_low) and np.isnan(low).all():
        low, high = target.action_low, target.action_high
    return Interface(parts, low, high)


class GymBatch:
    """One of Gymnasium's vector environments, in either way of resetting itself."""

    on_device = False

    def __init__(self, env: VectorEnv, who: str) -> None:
        self.env, self.count = env, env.num_envs
        self.mode = env.metadata.get("autoreset_mode")
        if self.mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            raise OffdynError(
                f"{who}: metadata['autoreset_mode'] is {self.mode!r}; expected AutoresetMode.SAME_STEP or NEXT_STEP: a "
                "source resets itself"
            )
        self.interface = interface_of(env.single_observation_space, env.single_action_space, who)
        self._leaves = list(_leaves(env.single_observation_space, who))
        self._moved: Any = env.single_action_space
        self._idle = np.zeros(self.count, bool)  # in the next step: it only resets them

    def reset(self, seed: int) -> np.ndarray:
        self._idle[:] = False
        shown, _ = self.env.reset(seed=seed)
        return self._flat(shown)

    def step(self, actions: np.ndarray) -> Stepped:
        own = actions.reshape(self.count, *self._moved.shape).astype(self._moved.dtype)
        own = np.clip(own, self._moved.low, self._moved.high)
        shown, reward, terminated, truncated, info = self.env.step(in_their_kind(own, self._like))
        seen, paid = self._flat(shown), numbers(reward, (self.count,), "reward")
        terminated, truncated = (flags(of, self.count, "end") for of in (terminated, truncated))
        idle, ended = self._idle, terminated | truncated
        if self.mode is AutoresetMode.NEXT_STEP:
            self._idle = ended
            return Stepped(seen, paid, terminated, truncated, seen, idle)
        return Stepped(seen, paid, terminated, truncated, self._final(info, ended, seen))

    def close(self) -> None:
        self.env.close()

    def _flat(self, shown: Any) -> np.ndarray:
        """[n, S]: its parts side by side."""
        columns = []
        for path, size in self._leaves:
            part = shown
            for key in path:
                part = part[key]
            self._like = part
            array = to_numpy(part)
            if array.size != self.count * size:
                raise ValueError(f"it gave an observation of shape {array.shape}, expected {(self.count, size)}")
            columns.append(numbers(array.reshape(self.count, size), (self.count, size), "observation"))
        return np.concatenate(columns, axis=1)

    def _final(self, info: Mapping[str, Any], ended: np.ndarray, seen: np.ndarray) -> np.ndarray:
        final = seen.copy()
        if not ended.any():
            return final
        if "final_obs" not in info:
            raise ValueError("an episode ended without info['final_obs']: its last observation is lost")
        given = info["final_obs"]
        if isinstance(given, Mapping):
            return np.where(ended[:, None], self._flat(given), final)
        space = self.env.single_observation_space
        for number in np.flatnonzero(ended):
            final[number] = spaces.utils.flatten(space, given[number])
        return final


class RslBatch:
    """The `VecEnv` of rsl_rl, which Isaac Lab and mjlab offer, with the last observations in `extras["final_obs"]`."""

    on_device = False

    def __init__(self, env: Any) -> None:
        self.env, self.count = env, int(env.num_envs)
        self._like = _group(env.get_observations())
        unknown = (float("nan"),) * int(env.num_actions)
        self._size = to_numpy(self._like).shape[-1]
        self.interface = Interface((("observation", self._size),), unknown, unknown)

    def reset(self, seed: int) -> np.ndarray:
        if hasattr(self.env, "seed"):
            self.env.seed(seed)
        shown = self.env.reset() if hasattr(self.env, "reset") else self.env.get_observations()
        return self._flat(shown)

    def step(self, actions: np.ndarray) -> Stepped:
        shown, reward, dones, extras = self.env.step(in_their_kind(actions.astype(np.float32), self._like))
        seen, ended = self._flat(shown), flags(dones, self.count, "dones")
        cut = np.zeros(self.count, bool)
        if (time_outs := extras.get("time_outs")) is not None:
            cut = ended & flags(time_outs, self.count, "time_outs")
        final = seen
        if ended.any():
            if extras.get("final_obs") is None:
                raise ValueError(
                    "an episode ended without extras['final_obs']: its last observation is lost; keep it before the "
                    "simulator resets (docs/custom-environments.md shows how)"
                )
            final = self._flat(extras["final_obs"])
        return Stepped(seen, numbers(reward, (self.count,), "reward"), ended & ~cut, cut, final)

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()

    def _flat(self, shown: Any) -> np.ndarray:
        return numbers(_group(shown), (self.count, self._size), "observation")


class OwnBatch:
    """A simulator of `Simulator`."""

    def __init__(self, simulator: Any, who: str) -> None:
        self.simulator, self.count = simulator, int(simulator.num_envs)
        self._like = simulator.reset(0)
        shape = to_numpy(self._like).shape
        if len(shape) != 2 or shape[0] != self.count:
            raise OffdynError(f"{who}: reset(0) gave an observation of shape {shape}, expected ({self.count}, S)")
        low, high = (to_numpy(of).astype(float).reshape(-1) for of in (simulator.action_low, simulator.action_high))
        if low.shape != high.shape or not (np.isfinite([low, high]).all() and (low < high).all()):
            raise OffdynError(
                f"{who}: action_low and action_high are {low} and {high}; expected finite ones, each lower one below"
            )
        self._size = shape[1]
        self.interface = Interface((("observation", self._size),), tuple(low.tolist()), tuple(high.tolist()))

    def reset(self, seed: int) -> np.ndarray:
        return self._numbers(self.simulator.reset(seed), "observation")

    @property
    def on_device(self) -> bool:
        """Where it keeps its arrays on the device on which JAX computes."""
        if not _in_jax(self._like):
            return False
        import jax

        return self._like.devices() == set(jax.local_devices()[:1])

    def step(self, actions: np.ndarray) -> Stepped:
        given = self.advance(in_their_kind(actions.astype(np.float32), self._like))
        shown, reward, terminated, truncated, final = given
        seen, paid = self._numbers(shown, "observation"), numbers(reward, (self.count,), "reward")
        ends = flags(terminated, self.count, "terminated"), flags(truncated, self.count, "truncated")
        return Stepped(seen, paid, *ends, self._numbers(final, "final_observation"))

    def advance(self, actions: Any) -> tuple[Any, ...]:
        """The same in its own kind of arrays."""
        given = self.simulator.step(actions)
        if not isinstance(given, tuple) or len(given) != 5:
            raise ValueError(
                "step gave no tuple of five: expected observation, reward, terminated, truncated, final_observation"
            )
        *four, final = given
        if final is None and any(flags(end, self.count, "end").any() for end in four[2:]):
            raise ValueError("an episode ended and final_observation is None: its last observation is lost")
        return (*four, four[0] if final is None else final)

    def close(self) -> None:
        if hasattr(self.simulator, "close"):
            self.simulator.close()

    def _numbers(self, array: Any, what: str) -> np.ndarray:
        return numbers(array, (self.count, self._size), what)


def numbers(array: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """A copy in float64; it may hold what is not finite."""
    return np.array(expected(to_numpy(array), shape, what), np.float64)


def expected(found: Any, shape: tuple[int, ...], what: str) -> Any:
    """The array of NumPy or JAX, if it holds numbers and has this shape."""
    if found.dtype.kind not in "fiub":
        raise ValueError(f"it gave a {what} of type {found.dtype}, expected numbers")
    if found.shape != shape:
        raise ValueError(f"it gave a {what} of shape {found.shape}, expected {shape}")
    return found


def flags(array: Any, count: int, what: str) -> np.ndarray:
    """A copy in bool."""
    found = numbers(array, (count,), what)
    if not np.isin(found, (0, 1)).all():
        raise ValueError(f"it gave {what} with {found[~np.isin(found, (0, 1))][0]}, expected true or false")
    return found.astype(bool)


def to_numpy(array: Any) -> np.ndarray:
    """A view where that can be, of an array of any kind, on any device."""
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack__"):
        return np.asarray(array)
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):  # on another device, or of a type DLPack does not know
        pass
    try:
        return np.asarray(array)
    except (RuntimeError, TypeError, ValueError):
        import jax

        return np.asarray(jax.dlpack.from_dlpack(array))


def in_their_kind(actions: np.ndarray, like: Any) -> Any:
    """The actions as the kind of array that an observation is, where it is."""
    if isinstance(like, np.ndarray):
        return actions
    if _in_jax(like):
        import jax

        return jax.numpy.asarray(actions)
    read = getattr(sys.modules[type(like).__module__.partition(".")[0]], "from_dlpack", None)
    if read is None:
        raise ValueError(f"it gave an observation of {type(like)}, expected an array of NumPy, JAX or PyTorch")
    array = read(actions)
    return array.to(like.device) if hasattr(array, "to") else array


def _in_jax(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] in ("jax", "jaxlib")


def _group(shown: Any) -> Any:
    """What a policy sees of an observation that may have several parts, or stand before some others."""
    if isinstance(shown, tuple):
        shown = shown[0]
    if not hasattr(shown, "keys"):
        return shown
    names = list(shown.keys())
    for name in (*GROUPS, *(names if len(names) == 1 else ())):
        if name in names:
            return shown[name]
    raise ValueError(f"it gave an observation with the parts {', '.join(map(str, names))}, none called {GROUPS[0]}")


def _leaves(space: spaces.Space, who: str, path: tuple[str, ...] = ()) -> Any:
    """The arrays of an observation, and how many numbers each holds."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, who, (*path, key))
    elif isinstance(space, spaces.Box):
        yield path, spaces.utils.flatdim(space)
    else:
        raise OffdynError(f"{who}: its observation space has a {space}; expected a Box, or a Dict of them")
