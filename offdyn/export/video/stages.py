"""Where a policy is filmed: environments that draw themselves without a screen, whatever the pair is."""

import contextlib
import inspect
import os
import sys
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from ..._util.errors import OffdynError
from ...envs import custom, jetpack, pairs, tasks
from ...envs.custom_env import Body
from ...envs.gym import RobotEnv
from ...envs.opengl import backend
from ...envs.render import Canvas
from ...envs.tasks import Task
from ...envs.toy import World

WORLD_RATE = 5.0  # steps a second at which a world is shown, whose steps have no length
UNKNOWN_RATE = 30.0  # of an environment that says nothing of it
SKY, GROUND, CAMP, WALKER = (250, 250, 247), (221, 221, 214), (0, 114, 178), (213, 94, 0)
RAW = "rgb_array"


class Stage(NamedTuple):
    """One domain to be filmed in."""

    role: str  # source or target
    env: gymnasium.Env  # flat observations, actions in [-1, 1]
    rate: float  # steps a second


def stages(pair: pairs.Pair, size: tuple[int, int], seed: int) -> list[Stage]:
    """The source, where there is one that draws itself, and the target; a custom environment may ignore `size`."""
    drawn = pairs.has_source(pair) and not (isinstance(pair, custom.OwnPair) and pair.batch is not None)
    roles = ["source", "target"] if drawn else ["target"]
    opened: list[Stage] = []
    try:
        for role in roles:
            opened.append(_open(pair, role, size, seed))
    except BaseException:
        for stage in opened:
            stage.env.close()
        raise
    return opened


def _open(pair: pairs.Pair, role: str, size: tuple[int, int], seed: int) -> Stage:
    if isinstance(pair, Task):
        body = pair if role == "target" else tasks.source_of(pair)
        env: gymnasium.Env = PlainRobot(body, render_mode=RAW, width=size[0], height=size[1])
        return Stage(role, env, 1 / pair.robot.seconds_per_step)
    if isinstance(pair, World):
        if pair.name != jetpack.JETPACK.name:
            raise OffdynError(
                f"nobody knows how to draw the world '{pair.name}': of worlds, only jetpack has a picture"
            )
        return Stage(role, JetpackEnv(role == "target", size), WORLD_RATE)
    env = _own_env(pair, role)
    return Stage(role, Body(env, pair.interface, pair.time_limit, (seed,)), _rate(env))


def _own_env(pair: custom.OwnPair, role: str) -> gymnasium.Env:
    """The environment, made so that it gives images."""
    reference = pair.reference(role)
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        with contextlib.suppress(OffdynError):  # nothing is missing if it does not draw with OpenGL
            os.environ.setdefault("MUJOCO_GL", backend())  # Gymnasium's robots would look for a screen
    factory = custom.factory_of(reference, role)
    try:
        env = factory(render_mode=RAW) if _takes_render_mode(factory) else factory()  # type: ignore[call-arg]
    except Exception as error:
        raise OffdynError(f"{role} {reference} cannot be made for drawing: {type(error).__name__}: {error}") from error
    if env.render_mode != RAW:
        env.close()
        raise OffdynError(
            f"cannot render {role} {reference}: its render mode is {env.render_mode!r}, expected {RAW!r}; let its "
            "function take render_mode and hand it to the environment"
        )
    return env


def _takes_render_mode(factory: Any) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in parameters)


def _rate(env: gymnasium.Env) -> float:
    said = env.metadata.get("render_fps")
    return float(said) if isinstance(said, int | float) and 0 < said < 1e4 else UNKNOWN_RATE


class PlainRobot(RobotEnv):
    """A robot without shadow and reflection, which a processor draws several times as fast."""

    def render(self) -> np.ndarray | None:
        """[height, width, 3]."""
        if self._canvas is None:
            self._canvas = Canvas(self.model, *self._image_size, has_shadows=False)
        return super().render()


class JetpackEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """The demo's world from above: the camp, the walker, its way; a walker in the air casts a shadow."""

    def __init__(self, shifted: bool, size: tuple[int, int]) -> None:
        self.world, self.shifted, self.size = jetpack.JETPACK, np.array([shifted]), size
        self.way: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode."""
        super().reset(seed=seed)
        self.way = [self.world.start(self.np_random)]
        return self.world.observe(self.way[-1][None])[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Act once."""
        moved, reward, ended = self.world.advance(self.way[-1][None], np.clip(action, -1, 1)[None], self.shifted)
        self.way.append(moved[0])
        return self.world.observe(moved)[0], float(reward[0]), bool(ended[0]), False, {}

    def render(self) -> Any:
        """[height, width, 3]."""
        from PIL import Image, ImageDraw

        width, height = self.size
        side = min(width, height)
        image = Image.new("RGB", self.size, SKY)
        pen = ImageDraw.Draw(image)
        left = (width - side) / 2
        metre = side / (2 * jetpack.EDGE)

        def place(state: np.ndarray) -> tuple[float, float]:
            return left + (state[0] + jetpack.EDGE) * metre, (jetpack.EDGE - state[1]) * metre

        def disc(centre: tuple[float, float], radius: float, **how: Any) -> None:
            x, y = centre
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), **how)

        pen.rectangle((left, 0, left + side, side), fill=GROUND)
        for reach in (2, 1):
            disc(place(jetpack.CAMP), reach * jetpack.SIGHT * metre, outline=CAMP, width=2)
        disc(place(jetpack.CAMP), 5, fill=CAMP)
        if len(self.way) > 1:
            pen.line([place(state) for state in self.way], fill=(120, 120, 120), width=2)
        x, y = place(self.way[-1])
        if self.way[-1][2] > 0:  # flying
            disc((x, y), 6, fill=(90, 90, 90))
            y -= 18
        disc((x, y), 9, fill=WALKER)
        return np.asarray(image)
