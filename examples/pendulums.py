"""A pendulum in a simulator, and the worn machine it stands for."""

from typing import Any

import numpy as np
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.wrappers import TimeLimit

from offdyn.envs.effects import Shifted

STEPS = 200  # of an episode, 50 ms each
SIZE, ROD = 240, 90  # pixels


class Pendulum(PendulumEnv):
    """Gymnasium's Pendulum-v1 with dry friction in its bearing, drawn by Pillow."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, friction: float, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.friction = friction  # N m

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        angle, speed = self.state
        most = 3 * self.friction * self.dt / (self.m * self.l**2)  # rad/s that friction takes in a step
        self.state = np.array([angle, speed - np.clip(speed, -most, most)])
        return super().step(action)

    def render(self) -> np.ndarray:
        from PIL import Image, ImageDraw

        image, middle, angle = Image.new("RGB", (SIZE, SIZE), "white"), SIZE / 2, self.state[0]
        tip = (middle - ROD * np.sin(angle), middle - ROD * np.cos(angle))
        pen = ImageDraw.Draw(image)
        pen.line([(middle, middle), tip], "firebrick", 18)
        pen.circle(tip, 15, "firebrick")
        pen.circle((middle, middle), 6, "black")
        return np.asarray(image)


def simulator(render_mode: str | None = None) -> TimeLimit:
    return TimeLimit(Pendulum(0.0, render_mode), STEPS)


def machine(render_mode: str | None = None) -> Shifted:
    """Friction of 0.2 N m, commands that arrive 100 ms late, and a motor that gives 1.4 of its 2 N m."""
    return Shifted(TimeLimit(Pendulum(0.2, render_mode), STEPS), delay=2, torque_limit=0.7)
