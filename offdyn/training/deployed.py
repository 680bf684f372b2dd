"""A trained policy as an environment wants it: its own observations in, actions in its own units out."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._util.errors import OffdynError
from ..envs import pairs
from ..envs.custom import OwnPair
from .policies import Policy


class EnvironmentPolicy(Policy):
    """A policy in the environment's own terms: call it with what the environment shows, get the action it takes.

    An observation is flat or, of a custom environment, as its space has it: a Dict too, or an array of several axes.
    Leading axes make a batch. An action is flat and within the bounds of the action space.
    """

    def __init__(self, path: Path, pair: pairs.Pair, domain: str = "target") -> None:
        super().__init__(path, domain)
        self.parts = pair.observation if isinstance(pair, OwnPair) else ()
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
