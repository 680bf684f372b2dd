"""Which OpenGL draws without a screen here, found out without importing MuJoCo."""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

from .._util.errors import OffdynError

# What each backend loads, and the Debian package that has it.
LIBRARIES = {
    "egl": (("libEGL.so.1", "libEGL.so"), "libegl1"),
    "osmesa": (("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"), "libosmesa6"),
}


def backend(loads: Callable[[str], Any] = ctypes.CDLL) -> str:
    """`egl` or `osmesa`: the one MUJOCO_GL names, else the first whose library is installed."""
    asked = os.environ.get("MUJOCO_GL", "").lower()
    wanted = [asked] if asked in LIBRARIES else list(LIBRARIES)
    for name in wanted:
        for library in LIBRARIES[name][0]:
            try:
                loads(library)
            except OSError:
                continue
            return name
    packages = " or ".join(LIBRARIES[name][1] for name in wanted)
    because = f"MUJOCO_GL asks for {asked}, which is not" if asked in LIBRARIES else "neither EGL nor OSMesa is"
    raise OffdynError(f"cannot render: {because} installed; install the Debian package {packages}")


def import_mujoco_safely() -> None:
    """Import MuJoCo without the backend that MUJOCO_GL names, should that one not be installed.

    MuJoCo loads the backend on import and stops there with an AttributeError, even for users who never draw.
    """
    asked = os.environ.get("MUJOCO_GL")
    if asked is None or asked.lower() not in LIBRARIES or sys.platform != "linux" or "mujoco" in sys.modules:
        return
    try:
        backend()
    except OffdynError:
        del os.environ["MUJOCO_GL"]
        try:
            import mujoco  # noqa: F401
        finally:
            os.environ["MUJOCO_GL"] = asked
