"""Keeps MuJoCo from printing, and from writing MUJOCO_LOG.TXT, about what the simulator counts."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco

_lock = threading.Lock()
_calls = 0  # now inside `quiet_when_unstable`, in all Python threads


def _say_unless_counted(message: str) -> None:
    if "simulation is unstable" not in message:
        print(f"MuJoCo: {message}", file=sys.stderr)


@contextmanager
def quiet_when_unstable() -> Iterator[None]:
    """The warning handler is the process's: ours is there only meanwhile, and never in place of a user's own."""
    global _calls
    with _lock:
        if _calls == 0 and mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(_say_unless_counted)
        _calls += 1
    try:
        yield
    finally:
        with _lock:
            _calls -= 1
            if _calls == 0 and mujoco.get_mju_user_warning() is _say_unless_counted:
                mujoco.set_mju_user_warning(None)
