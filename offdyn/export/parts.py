"""What every format writes down: the layers of a deterministic policy, its normalisation, and its action bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .._util.errors import OffdynError
from ..policies import base as base_policy
from ..policies.trained import Policies, Policy, action_range, names_of
from ..training.config import RunConfig


@dataclass(frozen=True)
class Parts:
    """action = middle + half tanh(steps((observation - mean) / deviation)).

    Actions are clipped to their bounds in the end: rounding alone could lead out of them.

    Where there is a base policy: action = middle + half clip(clip((base(observation) - middle) / half) +
    reach tanh(...)), clipped to [-1, 1] each.
    """

    steps: tuple[str, ...]  # as in `Policies`
    layers: Mapping[str, np.ndarray]  # the arrays that the steps take, by name, in their order
    mean: np.ndarray  # [S]; 0 where observations are not normalised
    deviation: np.ndarray  # [S]; 1 where they are not
    low: np.ndarray  # [A], bounds of the environment's own actions
    high: np.ndarray
    reach: float | None = None  # of a residual
    base: "Parts | Path | None" = None  # its base policy; a path: of an ONNX file; None: a Python function

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
        if self.reach is not None:
            ones = np.ones_like(self.low)
            named |= {"residual": np.array([self.reach]), "unit.low": -ones, "unit.high": ones}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def parts_of(policy: Policy, run: RunConfig) -> Parts:
    """What a run's policy is made of; one whose numbers are not finite is refused."""
    parts = _parts(policy.policies, *action_range(run.task), policy.path)
    wanted = run.schedule.base_policy
    if wanted is None:
        return parts
    base: Parts | Path | None = None
    if base_policy.is_network(wanted):
        base = _parts(*base_policy.open_network(wanted), base_policy.file_of(wanted))
    elif base_policy.is_onnx(wanted):
        base = base_policy.file_of(wanted)
    return replace(parts, reach=run.schedule.residual, base=base)


def _parts(single: Policies, low: np.ndarray, high: np.ndarray, path: Path) -> Parts:
    size, _ = single.sizes
    mean = np.zeros(size, np.float32) if single.mean is None else single.mean[0, 0]
    deviation = np.ones(size, np.float32) if single.deviation is None else single.deviation[0, 0]
    arrays = single.named()
    layers = {name: arrays[name] for name in names_of(single.steps)}
    parts = Parts(single.steps, layers, mean, deviation, low, high)
    broken = [name for name, array in parts.arrays().items() if not np.isfinite(array).all()]
    if broken:
        raise OffdynError(f"{path}: {broken[0]} has numbers that are not finite; this policy cannot be used")
    return parts
