"""One body as a Gymnasium environment, with the observation, reward and end of the batched simulator."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from .._util.errors import OffdynError, unknown
from .effects import NONE, Line
from .render import Canvas
from .simulator import UNSTABLE, quiet_when_unstable
from .tasks import Task, resolve


class RobotEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """`gymnasium.make("offdyn/hopper-big-head-v0")`, or `("offdyn/task-v0", task=...)` for a shift of yours."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012  Gymnasium reads it from the class

    def __init__(
        self,
        task: str | Path | Mapping[str, Any] | Task,
        render_mode: str | None = None,
        halve_margins: bool = True,
        width: int = 480,
        height: int = 360,
    ) -> None:
        self.task = resolve(task)
        self.robot = self.task.robot
        self.model = self.task.model(halve_margins)
        self.data = mujoco.MjData(self.model)
        self.metadata = self.metadata | {"render_fps": round(1 / self.robot.seconds_per_step)}
        if render_mode not in (None, "rgb_array"):
            raise unknown("render mode", str(render_mode), ["rgb_array"])
        self.render_mode = render_mode
        self._canvas: Canvas | None = None
        self._image_size = width, height
        spec = self.robot.spec
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (spec.observation_size,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_size,), np.float32)
        self._x = 0.0
        self._last: tuple[np.ndarray, float] = (np.zeros(spec.observation_size), 0.0)
        self._line = None if self.task.effects == NONE else Line(self.task.effects, *spec[:2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode; the first after `seed` starts as Gymnasium's own robot does under that seed."""
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        positions, velocities = self.robot.start(self.np_random)
        self.data.qpos += positions
        self.data.qvel += velocities
        mujoco.mj_forward(self.model, self.data)
        self._x = self._position()
        observation = self.robot.observe(self.data.qpos, self.data.qvel)
        if self._line is not None:
            observation = self._line.start(seed, observation)
        self._last = observation.copy(), 0.0
        return observation, {"x_position": self._x}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Act once. Where the physics breaks, the episode is cut, with the last good observation and reward."""
        action = np.asarray(action, np.float64)
        if action.shape != self.action_space.shape or not np.isfinite(action).all():
            raise OffdynError(f"{self.task.name}: expected {self.action_space.shape} finite numbers, came {action}")
        action = np.clip(action, -1.0, 1.0)
        if self._line is not None:
            action = np.clip(self._line.obeyed(action), -1.0, 1.0)
        self.data.ctrl[:] = action
        warned = self._instabilities()
        with quiet_when_unstable():
            mujoco.mj_step(self.model, self.data, nstep=self.robot.frame_skip)
        # MuJoCo has put the body back to its default pose, or would at the start of the next step.
        if self._instabilities() > warned or not self._is_bounded():
            return self._last[0].copy(), self._last[1], False, True, {"diverged": True}
        x, before = self._position(), self._x
        self._x = x
        observation = self.robot.observe(self.data.qpos, self.data.qvel)
        if self._line is not None:
            observation = self._line.seen(observation)
        reward = float(self.robot.reward(np.asarray(x - before), action))
        self._last = observation.copy(), reward
        terminated = bool(self.robot.terminated(self.data.qpos, self.data.qvel))
        velocity = (x - before) / self.robot.seconds_per_step
        return observation, reward, terminated, False, {"x_position": x, "x_velocity": velocity}

    def render(self) -> np.ndarray | None:
        """An image [height, width, 3] with `render_mode="rgb_array"`, else nothing."""
        if self.render_mode is None:
            gymnasium.logger.warn('nothing to render: make the environment with render_mode="rgb_array"')
            return None
        if self._canvas is None:
            self._canvas = Canvas(self.model, *self._image_size)
        return self._canvas.draw(self.data)

    def close(self) -> None:
        """Give back the graphics memory, if any."""
        if self._canvas is not None:
            self._canvas.close()
            self._canvas = None

    def _position(self) -> float:
        return float(self.data.body("torso").xpos[0] if self.robot.measured_at_torso else self.data.qpos[0])

    def _is_bounded(self) -> bool:
        limit = mujoco.mjMAXVAL  # a NaN fails the comparison too
        return bool((np.abs(self.data.qpos) <= limit).all() and (np.abs(self.data.qvel) <= limit).all())

    def _instabilities(self) -> int:
        return sum(warning.number for warning in self.data.warning[UNSTABLE])
