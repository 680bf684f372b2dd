"""Images of a body without a screen, through EGL or OSMesa, and in words what is missing where there is neither."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from .._util.errors import OffdynError
from .opengl import LIBRARIES, backend

SEEN = mujoco.mjtCatBit.mjCAT_ALL.value


def _open_context(width: int, height: int) -> Any:
    """An OpenGL context that needs no screen, chosen now: MuJoCo's own choice is fixed when it is first imported."""
    if sys.platform != "linux":
        return mujoco.GLContext(width, height)
    name = backend()
    try:
        module = importlib.import_module(f"mujoco.{name}")
    except ModuleNotFoundError as error:
        raise OffdynError("cannot render: install the Python package pyopengl, or offdyn[render]") from error
    # PyOpenGL looks its libraries up as attributes, so that a missing libGL shows as an AttributeError.
    except (ImportError, AttributeError, OSError) as error:
        raise OffdynError(
            f"cannot render: OpenGL does not load for {name} ({error}); install the Debian packages libgl1 and "
            f"{LIBRARIES[name][1]}, and leave PYOPENGL_PLATFORM unset"
        ) from error
    try:
        context = module.GLContext(width, height)
        context.make_current()
    except Exception as error:  # whatever a driver may raise
        raise OffdynError(
            f"cannot render: {name} is installed but opens no context ({error}); install the Debian packages "
            "libegl-mesa0 and libgl1-mesa-dri, or libosmesa6 and set MUJOCO_GL=osmesa"
        ) from error
    return context


class Canvas:
    """Draws bodies of one model, [height, width, 3] uint8."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int, has_shadows: bool = True) -> None:
        self.model, self.width, self.height = model, width, height
        self._has_shadows = has_shadows
        view = model.vis.global_
        view.offwidth, view.offheight = max(width, view.offwidth), max(height, view.offheight)
        self._context = _open_context(width, height)
        self._context.make_current()
        self._buffers = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._buffers)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._options = mujoco.MjvOption()

    def draw(
        self,
        data: mujoco.MjData,
        camera: str | mujoco.MjvCamera = "track",
        decorate: Callable[[mujoco.MjvScene], None] = lambda scene: None,
    ) -> np.ndarray:
        """One image; `decorate` may change the scene after the body has been put into it."""
        if isinstance(camera, str):
            name, camera = camera, mujoco.MjvCamera()
            camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, self.model.camera(name).id
        mujoco.mjv_updateScene(self.model, data, self._options, None, camera, SEEN, self._scene)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] &= self._has_shadows
        decorate(self._scene)
        self._context.make_current()
        image, frame = np.empty((self.height, self.width, 3), np.uint8), mujoco.MjrRect(0, 0, self.width, self.height)
        mujoco.mjr_render(frame, self._scene, self._buffers)
        mujoco.mjr_readPixels(image, None, frame, self._buffers)
        return image[::-1].copy()  # OpenGL counts rows from below

    def close(self) -> None:
        """Give back the graphics memory."""
        self._context.make_current()
        self._buffers.free()
        self._context.free()
