"""One step of a body from a state that is only known by its observation: what should have followed."""

from math import inf
from typing import NamedTuple

import mujoco
import numpy as np

from ...envs.robots import Robot
from ...envs.simulator import quiet_when_unstable
from ...envs.tasks import Task


class Followed(NamedTuple):
    """What the body did from each of some rows; NaN where its physics broke."""

    next_observation: np.ndarray  # [n, S] float64
    reward: np.ndarray  # [n]


def whole_state_seen(robot: Robot, observation: np.ndarray) -> np.ndarray:
    """[n] bool: whether the state can be told from the observation; not where a velocity was clipped.

    Only the place on the plane is never observed, and the dynamics do not depend on it.
    """
    if robot.velocity_clip == inf:
        return np.ones(len(observation), bool)
    velocities = observation[:, robot.position_size - robot.unseen_positions :]
    return (np.abs(velocities) < robot.velocity_clip).all(axis=1)


def follow(task: Task, observation: np.ndarray, action: np.ndarray) -> Followed:
    """Put the body where it saw each observation [n, S], act once with each action [n, A]."""
    robot, model = task.robot, task.model()
    data = mujoco.MjData(model)
    seen = robot.position_size - robot.unseen_positions
    torso = model.body("torso").id
    after, distance = np.full(observation.shape, np.nan), np.full(len(observation), np.nan)
    control = np.clip(action, -1.0, 1.0).astype(np.float64)
    with quiet_when_unstable():
        for row, (now, act) in enumerate(zip(observation.astype(np.float64), control, strict=True)):
            mujoco.mj_resetData(model, data)
            data.qpos[: robot.unseen_positions] = 0.0
            data.qpos[robot.unseen_positions :], data.qvel[:] = now[:seen], now[seen:]
            data.ctrl[:] = act
            mujoco.mj_step(model, data, robot.frame_skip)
            if not any(warning.number for warning in data.warning):
                after[row] = robot.observe(data.qpos, data.qvel)
                distance[row] = data.qpos[0]
                if robot.measured_at_torso:  # both ends of the way lag the state by one MuJoCo step
                    distance[row] = data.xpos[torso, 0]
    return Followed(after, robot.reward(distance, control))
