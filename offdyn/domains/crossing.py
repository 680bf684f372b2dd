"""The demo's small world: a river that is frozen in the source and flows in the target, and one bridge.

A walker on the left bank wants to reach a camp on the right bank. In the source it may walk straight over the ice. In
the target the current carries whoever steps into the river back to the left bank, so only the bridge leads across.
"""

import numpy as np

from ..types import Spec
from .worlds import World

STRIDE = 0.1  # the longest step along each axis; the map is [-1, 1] x [-1, 1]
BANKS = (-0.2, 0.2)  # the river lies between these x, wider than a stride
BRIDGE = 0.4  # the bridge spans the river at every y from here up
CAMP = np.array([0.7, -0.5])
RADIUS = 0.3
ASHORE = -0.7
DOWNSTREAM = 0.4
LOW, HIGH = (-1.0, -1.0), (-0.5, 1.0)


def start(generator: np.random.Generator) -> np.ndarray:
    """Somewhere on the left bank, away from the bridge."""
    return generator.uniform(LOW, HIGH)


def in_river(position: np.ndarray) -> np.ndarray:
    """[n, 2] -> [n] bool."""
    x, y = position[:, 0], position[:, 1]
    return (x > BANKS[0]) & (x < BANKS[1]) & (y < BRIDGE)


def advance(
    position: np.ndarray, action: np.ndarray, shifted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One stride; the reward is 1 at the camp and falls to 0 with the distance, in both domains alike."""
    after = np.clip(position + STRIDE * action, -1.0, 1.0)
    swept = in_river(after) & shifted
    after[swept, 0] = ASHORE
    after[swept, 1] = np.maximum(after[swept, 1] - DOWNSTREAM, -1.0)
    reward = (np.linalg.norm(after - CAMP, axis=1) < RADIUS).astype(float)
    return after, reward, np.zeros(len(after), bool)


CROSSING = World(
    name="crossing",
    spec=Spec(
        observation_size=2,
        action_size=2,
        initial_fan_in=2,
        time_limit=100,
        is_terminal=lambda observation: observation[..., 0] != observation[..., 0],  # an episode has no true end
    ),
    start=start,
    advance=advance,
    description="a walker and a river, frozen in the source; in the target only the bridge leads across",
)
