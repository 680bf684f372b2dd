"""The bodies that trainings step are the tasks' own, to the last bit, with less to compute."""

import ctypes

import mujoco
import numpy as np
import pytest

from offdyn.envs.simulator import Simulator, lean_model
from offdyn.envs.tasks import TASKS, resolve

CONTACT = ("geom", "dim", "dist", "pos", "frame", "includemargin", "friction", "solref", "solimp")


def walked(model, steps=1500):
    """Positions and velocities of every step, random torques, and all that was said about contacts."""
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    states, contacts = [], []
    for _ in range(steps):
        data.ctrl[:] = rng.uniform(-1, 1, model.nu)
        mujoco.mj_step(model, data)
        states.append(np.concatenate([data.qpos, data.qvel]))
        contacts += [np.concatenate([np.ravel(getattr(data.contact, name)) for name in CONTACT])]
    return np.array(states), np.concatenate(contacts)


@pytest.mark.parametrize("margins_halved", [True, False])
@pytest.mark.parametrize("name", [*TASKS, "hopper-friction-0.5", "ant-mass-2"])
def test_a_lean_body_moves_and_touches_as_the_task_s_own(name, margins_halved):
    task = resolve(name)
    states, contacts = walked(task.model(margins_halved))
    lean_states, lean_contacts = walked(lean_model(task, margins_halved))
    np.testing.assert_array_equal(states, lean_states)
    assert len(contacts) > 1000
    np.testing.assert_array_equal(contacts, lean_contacts)


def test_a_robot_that_may_touch_itself_does_so():
    model = lean_model(resolve("hopper"))
    names = [
        mujoco.mj_id2name(resolve("hopper").model(), mujoco.mjtObj.mjOBJ_GEOM, geom) for geom in range(model.ngeom)
    ]
    found = {(names[one], names[other]) for one, other in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    limbs = ["torso_geom", "thigh_geom", "leg_geom", "foot_geom"]
    floor = {("floor", limb) for limb in limbs}
    assert found == floor | {("torso_geom", "leg_geom"), ("torso_geom", "foot_geom"), ("thigh_geom", "foot_geom")}


def timed_steps():
    model = resolve("hopper").model()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    return data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration


def test_a_simulator_stops_mujoco_s_clock():
    Simulator([resolve("hopper")], [(0,)])
    assert timed_steps() == 0
    mujoco.set_mjcb_time(None)  # brings MuJoCo's own back
    assert timed_steps() > 0


def test_a_clock_of_ones_own_goes_on():
    drand48 = ctypes.CDLL(None).drand48  # a function of the C library that takes nothing and gives a double
    drand48.restype = ctypes.c_double
    mujoco.set_mjcb_time(drand48)
    try:
        Simulator([resolve("hopper")], [(0,)])
        assert timed_steps() != 0
    finally:
        mujoco.set_mjcb_time(None)
