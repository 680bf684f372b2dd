"""What every format writes down: the layers of a deterministic policy, its normalisation, and its action bounds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._util.errors import OffdynError
from ..envs import pairs
from ..training.policies import Policy, action_range, names_of


@dataclass(frozen=True)
class Parts:
    """action = middle + half tanh(steps((observation - mean) / deviation)).

    Actions are clipped to their bounds in the end: rounding alone could lead out of them.
    """

    steps: tuple[str, ...]  # as in `Policies`
    layers: Mapping[str, np.ndarray]  # the arrays that the steps take, by name, in their order
    mean: np.ndarray  # [S]; 0 where observations are not normalised
    deviation: np.ndarray  # [S]; 1 where they are not
    low: np.ndarray  # [A], bounds of the environment's own actions
    high: np.ndarray

    @property
    def middle(self) -> np.ndarray:
        return (self.low + self.high) / 2

    @property
    def half(self) -> np.ndarray:
        return (self.high - self.low) / 2

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers in an observation and in an action."""
        return len(self.mean), len(self.low)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every array by name, float32."""
        named = {"observation.mean": self.mean, "observation.deviation": self.deviation}
        named |= self.layers
        named |= {"action.middle": self.middle, "action.half": self.half}
        named |= {"action.low": self.low, "action.high": self.high}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def parts_of(policy: Policy, pair: pairs.Pair) -> Parts:
    """What a run's policy is made of; one whose numbers are not finite is refused."""
    single = policy.policies
    size, _ = single.sizes
    mean = np.zeros(size, np.float32) if single.mean is None else single.mean[0, 0]
    deviation = np.ones(size, np.float32) if single.deviation is None else single.deviation[0, 0]
    arrays = single.named()
    layers = {name: arrays[name] for name in names_of(single.steps)}
    parts = Parts(single.steps, layers, mean, deviation, *action_range(pair))
    broken = [name for name, array in parts.arrays().items() if not np.isfinite(array).all()]
    if broken:
        raise OffdynError(f"{policy.path}: {broken[0]} has numbers that are not finite; this policy cannot be used")
    return parts
