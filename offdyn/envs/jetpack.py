"""The demo's toy environment: a walker whose jet works in the source and is broken in the target.

It wants to be at a camp on a square map. Firing the jet carries it through the air in the source; in the target it
wastes the step. Walking is the same in both, and the reward never asks which domain it is in.
"""

import numpy as np

from .._util.types import Array, Spec
from .toy import World

EDGE = 4.0  # metres: the map is [-EDGE, EDGE] x [-EDGE, EDGE]
STRIDE = 0.4  # metres, the longest step along each axis
FLIGHT = 3.0  # strides in one firing of a working jet
HEIGHT = (
    20.0  # metres above the ground at the end of a flight; a walker that does not fire again is down one step later
)
CAMP = np.array([2.0, 2.0])
SIGHT = 0.8  # metres: the reward is 1 at the camp and exp(-1/2) at this distance


def start(generator: np.random.Generator) -> np.ndarray:
    """Anywhere on the ground: (x, y, height)."""
    return generator.uniform((-EDGE, -EDGE, 0.0), (EDGE, EDGE, 0.0))


def advance(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Go along the first two entries of the action, fire the jet where the third is positive."""
    fires = action[:, 2] > 0
    flies = fires & ~shifted
    strides = np.where(flies, FLIGHT, np.where(fires, 0.0, 1.0))
    place = np.clip(state[:, :2] + STRIDE * strides[:, None] * action[:, :2], -EDGE, EDGE)
    reward = np.exp(-0.5 * np.square((place - CAMP) / SIGHT).sum(axis=1))
    return np.column_stack((place, HEIGHT * flies)), reward, np.zeros(len(state), bool)


def is_terminal(next_observation: Array) -> Array:
    """Never: an episode ends by its time limit alone."""
    return next_observation[..., 0] != next_observation[..., 0]


JETPACK = World(
    name="jetpack",
    spec=Spec(observation_size=3, action_size=3, initial_fan_in=3, time_limit=20, is_terminal=is_terminal),
    start=start,
    advance=advance,
    description="a walker with a jet that works in the source and is broken in the target",
)
