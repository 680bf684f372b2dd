"""The demo's small world: a walker whose jet works in the source and is broken in the target.

It wants to be at a camp on a square map. Firing the jet carries it through the air in the source; in the target it
wastes the step. Walking is the same in both, and the reward never asks which domain it is in.
"""

import numpy as np

from ..types import Spec
from .worlds import World

EDGE = 4.0  # metres: the map is [-EDGE, EDGE] x [-EDGE, EDGE]
STRIDE = 0.4  # metres, the longest step along each axis
THROW = 4.0  # strides in one firing of a working jet
HEIGHT = 2.0
FIRES = 0.0
LOW, HIGH = (-EDGE, -EDGE, 0), (EDGE, EDGE, 0)
CAMP = np.array([2.0, 2.0])
RADIUS = 1.0  # metres; beyond it the camp is soon out of sight


def start(generator: np.random.Generator) -> np.ndarray:
    """Anywhere on the map."""
    return generator.uniform(LOW, HIGH)


def advance(
    state: np.ndarray, action: np.ndarray, shifted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walk along the first two entries of the action; the third fires the jet where it is positive."""
    fires = action[:, 2] > FIRES
    thrown = np.where(shifted, 0.0, THROW)
    strides = np.where(fires, thrown, 1.0)
    after = np.clip(state[:, :2] + STRIDE * strides[:, None] * action[:, :2], -EDGE, EDGE)
    height = HEIGHT * (fires & ~shifted)
    reward = np.exp(-0.5 * np.square((after - CAMP) / RADIUS).sum(axis=1))
    return np.column_stack((after, height)), reward, np.zeros(len(after), bool)


JETPACK = World(
    name="jetpack",
    spec=Spec(
        observation_size=3,
        action_size=3,
        initial_fan_in=3,
        time_limit=30,
        is_terminal=lambda observation: observation[..., 0] != observation[..., 0],  # no episode ends but by time
    ),
    start=start,
    advance=advance,
    description="a walker with a jet that works in the source and is broken in the target",
)
