"""A task's body for many steps: it moves as `Task.model` does, bit for bit, and MuJoCo has less to do for it."""

import ctypes
from contextlib import suppress
from pathlib import Path

import mujoco
import numpy as np

from .quantities import compiled
from .tasks import Task


def lean_model(task: Task, halve_margins: bool = True) -> mujoco.MjModel:
    """Compile afresh, without what costs time and changes no motion."""
    plain, spec = task.model(halve_margins), task.spec()
    for number, geom in enumerate(spec.geoms):
        geom.name = f"geom {number}"  # a pair goes by names
        geom.contype = geom.conaffinity = 0
    one, other = _may_touch(plain)
    for first, second in zip(one.tolist(), other.tolist(), strict=True):
        spec.add_pair(geomname1=f"geom {first}", geomname2=f"geom {second}")
    model = compiled(spec)
    # What MuJoCo works out for two geoms that it finds touching, of equal priority and weight.
    model.pair_dim[:] = np.maximum(plain.geom_condim[one], plain.geom_condim[other])
    model.pair_friction[:] = np.maximum(plain.geom_friction[one], plain.geom_friction[other])[:, [0, 0, 1, 2, 2]]
    model.pair_solref[:] = (plain.geom_solref[one] + plain.geom_solref[other]) / 2
    model.pair_solimp[:] = (plain.geom_solimp[one] + plain.geom_solimp[other]) / 2
    model.pair_margin[:] = plain.geom_margin[one] + plain.geom_margin[other]
    # A robot is one island: to look for others takes 5 to 8 % of a step, and finds none.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND.value
    return model


def _may_touch(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Which two geoms may ever meet, by MuJoCo's rules. To find them in every step takes 5 to 13 % of it."""
    one, other = np.triu_indices(model.ngeom, 1)
    bits, affinity = model.geom_contype, model.geom_conaffinity
    meant = (bits[one] & affinity[other]) | (bits[other] & affinity[one])
    rigid = model.body_weldid[model.geom_bodyid]  # the body that a geom moves with
    parent = model.body_weldid[model.body_parentid[rigid]]
    joined = (parent[one] == rigid[other]) | (parent[other] == rigid[one])
    joined &= (rigid[one] != 0) & (rigid[other] != 0)  # whatever hangs from the world may still touch it
    chosen = (meant != 0) & (rigid[one] != rigid[other]) & ~joined
    return one[chosen], other[chosen]


def stop_the_clock() -> None:
    """In this process MuJoCo fills its timers no more, which nobody reads here and which take 9 to 14 % of a step.

    Its bindings can only put another clock in place of theirs, so that the pointer is cleared by its name. A clock that
    a user has set is left alone.
    """
    if mujoco.get_mjcb_time() is None:
        for library in Path(mujoco.__file__).parent.glob("libmujoco.*"):
            with suppress(OSError, ValueError):
                ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None
