"""A body whose physics breaks ends its episode, is counted, and its false row is never handed out."""

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs.quantities import compiled
from offdyn.envs.robots import ROBOTS, Robot
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import resolve

EVERY = np.arange(6)


def build(name):
    return Simulator([resolve(name)] * 6, [(0, body) for body in range(6)], threads=2)


def random_actions(simulator, steps):
    return np.random.default_rng(1).uniform(-1, 1, (steps, 6, simulator.spec.action_size))


@dataclass(frozen=True)
class Pulled:
    """A robot under a gravity of its own, downwards where negative."""

    robot: Robot
    gravity: float
    name: str = "pulled"

    def spec(self):
        spec = resolve(self.robot.name).spec()
        spec.option.gravity[2] = self.gravity
        return spec

    def model(self, halve_margins=True):
        return compiled(self.spec())


def set_velocity(simulator, body, dof, value):
    saved = simulator.save()
    saved["state"][body, 1 + simulator.robot.position_size + dof] = value  # after the time and qpos
    simulator.load(saved)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("absurd", [1e12, np.inf, np.nan])
def test_a_body_whose_physics_breaks_repeats_its_last_good_row_and_starts_afresh(name, absurd):
    simulator, untouched = build(name), build(name)
    none_yet = simulator.divergences
    actions = random_actions(simulator, 9)
    for chosen in actions[:4]:
        good = simulator.step(EVERY, chosen)
        untouched.step(EVERY, chosen)
    for body in (1, 4):
        set_velocity(simulator, body, 0, absurd)
    rows, expected = simulator.step(EVERY, actions[4]), untouched.step(EVERY, actions[4])
    broken = np.isin(EVERY, [1, 4])
    assert np.array_equal(rows.diverged, broken)
    assert simulator.divergences.tolist() == [0, 1, 0, 0, 1, 0]
    assert not none_yet.any()
    for field, before, undisturbed in zip(rows[:-1], good, expected, strict=False):
        assert np.array_equal(field[broken], before[broken])
        assert np.array_equal(field[~broken], undisturbed[~broken])
    for body in (1, 4):
        positions, velocities = simulator.robot.start(np.random.default_rng([0, body, 1]))
        start = simulator.robot.observe(simulator.tasks[body].model().qpos0 + positions, velocities)
        assert np.array_equal(simulator.observation[body], start)
    for chosen in actions[5:]:
        later = simulator.step(EVERY, chosen)
        assert np.isfinite(later.next_observation).all()
        assert not later.diverged.any()
    assert simulator.divergences.sum() == 2


def test_a_row_repeated_after_a_time_limit_is_a_time_limit_again():
    simulator = Simulator([resolve("halfcheetah")], [(0,)], time_limit=3)
    only, idle = np.array([0]), np.zeros((1, 6))
    for _ in range(3):
        last = simulator.step(only, idle)
    set_velocity(simulator, 0, 0, 1e12)
    repeated = simulator.step(only, idle)
    assert last.truncated[0]
    assert repeated.diverged[0]
    assert all(np.array_equal(a, b) for a, b in zip(last[:-1], repeated, strict=False))
    assert [simulator.step(only, idle).truncated[0] for _ in range(3)] == [False, False, True]


def test_mujoco_neither_prints_nor_leaves_a_log_in_the_users_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    simulator = build("hopper")
    simulator.step(EVERY, np.zeros((6, 3)))
    for body in EVERY:
        set_velocity(simulator, body, 0, 1e12)
    assert simulator.step(EVERY, np.zeros((6, 3))).diverged.all()
    assert list(tmp_path.iterdir()) == []
    assert "".join(capfd.readouterr()) == ""
    assert mujoco.get_mju_user_warning() is None


def test_a_state_that_breaks_in_the_last_moment_of_a_step_is_caught_before_mujoco_sees_it():
    simulator = Simulator([Pulled(ROBOTS["halfcheetah"], 1e9)], [(0,)])
    only, idle = np.array([0]), np.zeros((1, 6))
    assert not simulator.step(only, idle).diverged[0]
    # Pulled upwards by 1e7 m/s each 0.01 s, the torso passes MuJoCo's bound of 1e10 in the fifth of five MuJoCo steps.
    for dof in range(9):
        set_velocity(simulator, 0, dof, 1e10 - 4.5e7 if dof == 1 else 0.0)
    rows = simulator.step(only, idle)
    assert rows.diverged[0]
    assert np.abs(rows.next_observation).max() < 1e9


def test_a_body_that_breaks_on_its_very_first_step_is_refused_by_name():
    simulator = Simulator([resolve("hopper"), Pulled(ROBOTS["hopper"], -1e12)], [(0,), (1,)])
    with pytest.raises(OffdynError, match=r"task 'pulled'.*body 1.*unphysical"):
        simulator.step(np.arange(2), np.zeros((2, 3)))


def test_a_users_own_warning_handler_stays_in_place():
    heard = []
    mujoco.set_mju_user_warning(heard.append)
    try:
        simulator = build("hopper")
        simulator.step(EVERY, np.zeros((6, 3)))
        set_velocity(simulator, 0, 0, 1e12)
        assert simulator.step(EVERY, np.zeros((6, 3))).diverged[0]
        assert any("unstable" in message for message in heard)
    finally:
        mujoco.set_mju_user_warning(None)
