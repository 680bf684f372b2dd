"""Trained policies in NumPy: what a file of one holds, how its actions are computed, and how an environment asks."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError

from .._util.errors import OffdynError, check_format, unknown
from .._util.files import arrays
from .._util.types import Spec
from ..envs import pairs
from ..envs.residual import Residual

FORMAT = 1  # of policy.safetensors
ARRAYS = {"linear": ("weight", "bias"), "norm": ("scale", "shift")}  # that a step takes; the others take none
STEPS = (*ARRAYS, "relu", "keep", "add")
DOMAINS = ("target", "source")
SOURCE_BIAS = "source.bias"  # in a file, beside the target's arrays, where the policy was told its domain
SMALLEST_VARIANCE = 1e-5  # of LayerNorm, as in training


class StdHead(NamedTuple):
    """The other half of the actors' last layers, which gives the log-stds before the squashing."""

    weight: np.ndarray  # [lanes, in, A]
    bias: np.ndarray  # [lanes, 1, A]
    bounds: np.ndarray  # [lanes, 2], lowest and highest


@dataclass(frozen=True)
class Policies:
    """Deterministic policies of several runs: tanh of the mean of each actor; every array begins with the lanes."""

    steps: tuple[str, ...]  # of STEPS, the last one linear
    arrays: tuple[np.ndarray, ...]  # those the steps take, in order; weights [lanes, in, out], others [lanes, 1, size]
    mean: np.ndarray | None = None  # [lanes, 1, S], of observations, where they are normalised
    deviation: np.ndarray | None = None
    std_head: StdHead | None = None  # where actions can be drawn, too
    # [lanes, 1, size]: of the first layer in the source, if the policy was told its domain: `arrays` are the target's
    source_bias: np.ndarray | None = None

    @property
    def source(self) -> "Policies":
        """The same as they act in the source: themselves, where they were never told their domain."""
        if self.source_bias is None:
            return self
        weight, _, *others = self.arrays
        return replace(self, arrays=(weight, self.source_bias, *others), source_bias=None)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers in an observation and in an action."""
        return self.arrays[0].shape[1], self.arrays[-1].shape[-1]

    @property
    def lanes(self) -> int:
        return len(self.arrays[0])

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """[lanes, n, S] -> [lanes, n, A]: the mean actions."""
        return np.tanh(self._hidden(observation) @ self.arrays[-2] + self.arrays[-1])

    def sample(self, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """[lanes, n, S] -> [lanes, n, A]: the actions as training draws them, given standard normal noise."""
        if self.std_head is None:
            raise OffdynError("this policy was saved without its std head: only its mean actions are known")
        x = self._hidden(observation)
        weight, bias, bounds = self.std_head
        log_std = np.clip(x @ weight + bias, bounds[:, None, :1], bounds[:, None, 1:])
        return np.tanh(x @ self.arrays[-2] + self.arrays[-1] + np.exp(log_std) * noise.astype(np.float32))

    def _hidden(self, observation: np.ndarray) -> np.ndarray:
        x = np.asarray(observation, np.float32)
        if self.mean is not None:
            x = (x - self.mean) / self.deviation
        arrays = iter(self.arrays)
        kept = x
        for step in self.steps[:-1]:
            if step == "linear":
                x = x @ next(arrays) + next(arrays)
            elif step == "norm":
                centred = x - x.mean(-1, keepdims=True)
                deviation = np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(SMALLEST_VARIANCE))
                x = centred / deviation * next(arrays) + next(arrays)
            elif step == "relu":
                x = np.maximum(x, 0.0)
            elif step == "keep":
                kept = x
            else:
                x = x + kept
        return x

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> "Policies":
        """The same change made to every array."""
        mean, deviation, source_bias = (
            None if x is None else change(x) for x in (self.mean, self.deviation, self.source_bias)
        )
        std_head = None if self.std_head is None else StdHead(*map(change, self.std_head))
        return Policies(self.steps, tuple(map(change, self.arrays)), mean, deviation, std_head, source_bias)

    def lane(self, index: int) -> "Policies":
        """One run's policy, still with a lane axis of one."""
        return self.map(lambda array: array[index : index + 1])

    def stacked(self, lanes: np.ndarray) -> dict[str, np.ndarray]:
        """Some lanes by name, for `from_stacked`."""
        chosen = self.map(lambda array: np.ascontiguousarray(array[lanes]))
        return chosen._named() | {"steps": np.frombuffer(" ".join(self.steps).encode(), np.uint8)}

    @classmethod
    def from_stacked(cls, named: Mapping[str, np.ndarray]) -> "Policies":
        return cls._from_named(tuple(named["steps"].tobytes().decode().split()), named, lambda array: array)

    def cut(self, spec: Spec) -> "Policies":
        """Without the entries that only fill up a smaller robot."""
        s, a = spec.observation_size, spec.action_size
        mean, deviation = (None if x is None else x[..., :s] for x in (self.mean, self.deviation))
        std_head = self.std_head
        if std_head is not None:
            std_head = StdHead(std_head.weight[..., :a], std_head.bias[..., :a], std_head.bounds)
        first, *inner, weight, bias = self.arrays
        arrays = (first[:, :s], *inner, weight[..., :a], bias[..., :a])
        return Policies(self.steps, arrays, mean, deviation, std_head, self.source_bias)

    def named(self) -> dict[str, np.ndarray]:
        """A single policy's arrays under the names that policy.safetensors uses."""
        single = {name: array[0] for name, array in self._named().items()}
        flat = {name: array if name.endswith(("weight", "bounds")) else array[0] for name, array in single.items()}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in flat.items()}

    def _named(self) -> dict[str, np.ndarray]:
        found = dict(zip(names_of(self.steps), self.arrays, strict=True))
        if self.std_head is not None:
            found |= {"log_std.weight": self.std_head.weight, "log_std.bias": self.std_head.bias}
            found["log_std.bounds"] = self.std_head.bounds
        if self.mean is not None and self.deviation is not None:
            found |= {"observation.mean": self.mean, "observation.deviation": self.deviation}
        if self.source_bias is not None:
            found[SOURCE_BIAS] = self.source_bias
        return found

    @classmethod
    def _from_named(
        cls, steps: tuple[str, ...], named: Mapping[str, np.ndarray], change: Callable[[np.ndarray], np.ndarray]
    ) -> "Policies":
        arrays = tuple(change(named[name]) for name in names_of(steps))
        mean, deviation, source_bias = (
            change(named[name]) if name in named else None
            for name in ("observation.mean", "observation.deviation", SOURCE_BIAS)
        )
        std_head = None
        if "log_std.weight" in named:
            weight, bias = change(named["log_std.weight"]), change(named["log_std.bias"])
            std_head = StdHead(weight, bias, named["log_std.bounds"].reshape(len(weight), 2))
        return cls(steps, arrays, mean, deviation, std_head, source_bias)


def names_of(steps: Sequence[str]) -> Iterator[str]:
    """The names of the arrays that these steps take."""
    counts = {"linear": 0, "norm": 0}
    kinds = {"linear": "layers", "norm": "norms"}
    for step in steps:
        for array in ARRAYS.get(step, ()):
            yield f"{kinds[step]}.{counts[step]}.{array}"
        if step in counts:
            counts[step] += 1


def perceptron(named: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The steps of a policy whose file does not tell them: ReLU between its layers."""
    depth = sum(name.startswith("layers.") and name.endswith(".weight") for name in named)
    return (*("linear", "relu") * (depth - 1), "linear")


def from_file(named: Mapping[str, np.ndarray], steps: Sequence[str] | None) -> Policies:
    """The policy of a file's arrays."""
    known = perceptron(named) if steps is None else tuple(steps)
    if not known or known[-1] != "linear" or not set(known) <= set(STEPS):
        raise ValueError(f"steps {' '.join(known)}")
    named = {name: array[None] for name, array in named.items()}
    return Policies._from_named(known, named, lambda array: array if array.ndim == 3 else array[:, None])


class Policy:
    """One trained policy on flat observations, with actions in [-1, 1]: call it with the former, get the mean action.

    `domain`: whose side of it acts, where it was told its domain in training; the target's is the one to deploy.
    `residual`: the base policy whose actions it moves; a policy that was trained on one does not act without it.
    """

    def __init__(self, path: Path, domain: str = "target", residual: Residual | None = None) -> None:
        if domain not in DOMAINS:
            raise unknown("domain", str(domain), DOMAINS)
        self.path, self.residual = path, residual
        try:
            with arrays(path) as file:
                named = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
                self.metadata: dict[str, str] = file.metadata() or {}
        except FileNotFoundError:
            raise OffdynError(f"{path}: no policy there yet; one is written at each checkpoint") from None
        except (SafetensorError, OSError) as error:
            raise OffdynError(f"{path}: not a readable policy ({error})") from None
        try:
            about = json.loads(self.metadata["about"])
            check_format(about["format"], FORMAT, path)
            policies = from_file(named, about.get("steps"))
            if residual is None and about.get("residual") is not None:
                raise OffdynError(
                    f"{path}: moves the actions of a base policy and is none alone: offdyn.load_policy(RUN) has both"
                )
            # Whether it is another than the target's.
            self.of_source = domain == "source" and policies.source_bias is not None
            self.policies = policies.source if self.of_source else policies
        except OffdynError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise OffdynError(f"{path}: not a policy of a run ({error!r})") from None

    def __repr__(self) -> str:
        observations, actions = self.policies.sizes
        return f"{type(self).__name__}({str(self.path)!r}, {observations} observations, {actions} actions)"

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """[..., S] -> [..., A], each action in [-1, 1]."""
        observation = np.asarray(observation)
        size, _ = self.policies.sizes
        if observation.shape[-1:] != (size,):
            raise OffdynError(f"{self.path}: expected observations of {size} numbers, got shape {observation.shape}")
        rows = observation.reshape(-1, size)
        action = self.policies(rows[None])[0]
        if self.residual is not None:
            action = self.residual.executed(rows, action).astype(np.float32)
        return action.reshape(*observation.shape[:-1], -1)


class EnvironmentPolicy(Policy):
    """A policy in the environment's own terms: call it with what the environment shows, get the action it takes.

    An observation is flat or, of a custom environment, as its space has it: a Dict too, or an array of several axes.
    Leading axes make a batch. An action is flat and within the bounds of the action space.
    """

    def __init__(self, path: Path, pair: pairs.Pair, domain: str = "target", residual: Residual | None = None) -> None:
        super().__init__(path, domain, residual)
        self.parts = pair.observation if isinstance(pair, pairs.OwnPair) else ()
        self.low, self.high = action_range(pair)

    def __call__(self, observation: Any) -> np.ndarray:
        """[..., A], within the environment's bounds."""
        low, high = self.low, self.high
        action = (low + high) / 2 + (high - low) / 2 * super().__call__(self._flat(observation))
        return np.clip(action, low, high)

    def _flat(self, observation: Any) -> np.ndarray:
        """[..., S]: its parts side by side, each flattened, as in training."""
        if isinstance(observation, Mapping):
            given = dict(_leaves(observation))
        elif len(self.parts) == 1 and np.shape(observation)[-1:] != (self.parts[0][1],):
            given = {self.parts[0][0]: np.asarray(observation)}
        else:
            return np.asarray(observation)
        wanted = dict(self.parts)
        if given.keys() != wanted.keys():
            raise OffdynError(f"{self.path}: expected {self._wanted}, got an observation of {', '.join(given)}")
        common = set.intersection(*(_leads(array.shape, wanted[name]) for name, array in given.items()))
        if not common:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in given.items())
            raise OffdynError(
                f"{self.path}: expected {self._wanted}, got {shapes}; what is no array of numbers in its space goes "
                "in as gymnasium.spaces.utils.flatten gives it"
            )
        lead = max(common, key=len)
        return np.concatenate([given[name].reshape(*lead, size) for name, size in self.parts], axis=-1)

    @property
    def _wanted(self) -> str:
        sizes = ", ".join(f"{name} of {size}" for name, size in self.parts)
        return f"observations with the parts {sizes}" if self.parts else "flat observations"


def action_range(pair: pairs.Pair) -> tuple[np.ndarray, np.ndarray]:
    """[A] lowest and highest action in the environment's own units, in float32 and never wider than they are."""
    low, high = pairs.action_bounds(pair)
    least, most = low.astype(np.float32), high.astype(np.float32)
    least = np.where(least < low, np.nextafter(least, np.float32(np.inf)), least)
    return least, np.where(most > high, np.nextafter(most, np.float32(-np.inf)), most)


def _leaves(observation: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The parts of a nested observation, named as a pair names them."""
    for key, part in observation.items():
        inner = f"{name}.{key}" if name else str(key)
        if isinstance(part, Mapping):
            yield from _leaves(part, inner)
        else:
            yield inner, np.asarray(part)


def _leads(shape: tuple[int, ...], size: int) -> set[tuple[int, ...]]:
    """The leading axes that an array of this shape may have where its part is so many numbers."""
    most = len(shape) - 1 if shape[-1:] == (1,) else len(shape)  # a last axis of one belongs to the part
    return {shape[:axis] for axis in range(most + 1) if math.prod(shape[axis:]) == size}
