"""The four robots: where an episode starts, what is observed, what is rewarded and what ends it.

The task is that of Gym's v2 and v3 environments: the alive bonus is paid on the last step too, the walker has its
unequal feet (`walker2d.xml`), and the ant neither observes nor pays for contact forces. Everything is NumPy over any
leading axes, so that the batched simulator and a single Gymnasium environment call the same lines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from .._util.types import Array, Spec

TIME_LIMIT = 1000  # steps


@dataclass(frozen=True)
class Robot:
    """One robot and its task; positions and velocities are MuJoCo's `qpos` [..., nq] and `qvel` [..., nv]."""

    name: str
    xml: str  # among the assets of gymnasium.envs.mujoco
    spec: Spec
    position_size: int  # nq
    velocity_size: int  # nv
    timestep: float  # seconds of one MuJoCo step
    frame_skip: int  # MuJoCo steps per action
    start_noise: float
    normal_start_velocities: bool  # else uniform, as the positions are
    unseen_positions: int  # leading entries of qpos left out of the observation: where the robot is on the plane
    velocity_clip: float  # largest velocity observed
    control_cost: float
    alive_bonus: float
    ends: Callable[[Array, Array], Array]  # (positions seen, velocities) -> bool
    # The ant's way is measured at its torso, whose `xpos` lags `qpos` by one MuJoCo step; the others' way is qpos[0].
    measured_at_torso: bool = False

    @property
    def seconds_per_step(self) -> float:
        return self.timestep * self.frame_skip

    def start(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """What to add to the model's `qpos0` and to rest at an episode's start, drawn in Gymnasium's order."""
        positions = rng.uniform(-self.start_noise, self.start_noise, self.position_size)
        if self.normal_start_velocities:
            return positions, self.start_noise * rng.standard_normal(self.velocity_size)
        return positions, rng.uniform(-self.start_noise, self.start_noise, self.velocity_size)

    def observe(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """A new array [..., observation_size]."""
        seen = qpos[..., self.unseen_positions :]
        if self.velocity_clip < inf:
            qvel = np.minimum(np.maximum(qvel, -self.velocity_clip), self.velocity_clip)
        return np.concatenate((seen, qvel), axis=-1)

    def reward(self, distance: np.ndarray, action: np.ndarray) -> np.ndarray:
        """`distance` [...] covered along x in one step, in metres; `action` [..., action_size] as clipped."""
        cost = self.control_cost * np.square(action).sum(axis=-1)
        return distance / self.seconds_per_step + self.alive_bonus - cost

    def terminated(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """Whether this state is a true end, [...] bool."""
        return self.ends(qpos[..., self.unseen_positions :], qvel)


def _never(positions: Array, velocities: Array) -> Array:
    return positions[..., 0] < -inf


# Each end is written as "not healthy", so that a NaN, which fails every comparison, ends the episode.
def _hopper_ends(positions: Array, velocities: Array) -> Array:
    height, angle = positions[..., 0], positions[..., 1]
    bounded = (abs(positions[..., 1:]) < 100).all(-1) & (abs(velocities) < 100).all(-1)
    return ~(bounded & (height > 0.7) & (height < inf) & (abs(angle) < 0.2))


def _walker_ends(positions: Array, velocities: Array) -> Array:
    height, angle = positions[..., 0], positions[..., 1]
    return ~((height > 0.8) & (height < 2.0) & (abs(angle) < 1.0))


def _ant_ends(positions: Array, velocities: Array) -> Array:
    height = positions[..., 0]
    finite = (abs(positions) < inf).all(-1) & (abs(velocities) < inf).all(-1)
    return ~(finite & (height >= 0.2) & (height <= 1.0))


def _spec(positions_seen: int, velocities: int, actions: int, ends: Callable, initial_fan_in: int = 0) -> Spec:
    """The end is judged from the next observation alone, in which two things cannot be seen.

    Hopper's rule also ends an episode when a velocity reaches 100, and the observation clips velocities at 10; and an
    observation rounded to float32 can fall on the other side of a bound. `Rows.terminated` has the exact answer.
    """

    def is_terminal(next_observation: Array) -> Array:
        return ends(next_observation[..., :positions_seen], next_observation[..., positions_seen:])

    size = positions_seen + velocities
    return Spec(size, actions, initial_fan_in or size, TIME_LIMIT, is_terminal)


HALFCHEETAH = Robot(
    name="halfcheetah",
    xml="half_cheetah.xml",
    spec=_spec(8, 9, 6, _never),
    position_size=9,
    velocity_size=9,
    timestep=0.01,
    frame_skip=5,
    start_noise=0.1,
    normal_start_velocities=True,
    unseen_positions=1,
    velocity_clip=inf,
    control_cost=0.1,
    alive_bonus=0.0,
    ends=_never,
)

HOPPER = Robot(
    name="hopper",
    xml="hopper.xml",
    spec=_spec(5, 6, 3, _hopper_ends),
    position_size=6,
    velocity_size=6,
    timestep=0.002,
    frame_skip=4,
    start_noise=0.005,
    normal_start_velocities=False,
    unseen_positions=1,
    velocity_clip=10.0,
    control_cost=1e-3,
    alive_bonus=1.0,
    ends=_hopper_ends,
)

WALKER = Robot(
    name="walker",
    xml="walker2d.xml",  # not walker2d_v5.xml, whose right foot has another friction
    spec=_spec(8, 9, 6, _walker_ends),
    position_size=9,
    velocity_size=9,
    timestep=0.002,
    frame_skip=4,
    start_noise=0.005,
    normal_start_velocities=False,
    unseen_positions=1,
    velocity_clip=10.0,
    control_cost=1e-3,
    alive_bonus=1.0,
    ends=_walker_ends,
)

ANT = Robot(
    name="ant",
    xml="ant.xml",
    spec=_spec(13, 14, 8, _ant_ends, initial_fan_in=111),  # 111: with the 84 contact forces that were always zero
    position_size=15,
    velocity_size=14,
    timestep=0.01,
    frame_skip=5,
    start_noise=0.1,
    normal_start_velocities=True,
    unseen_positions=2,
    velocity_clip=inf,
    control_cost=0.5,
    alive_bonus=1.0,
    ends=_ant_ends,
    measured_at_torso=True,
)

ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (HALFCHEETAH, HOPPER, WALKER, ANT)}
