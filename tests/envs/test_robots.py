"""The robots' starts, observations, rewards and ends, checked by hand."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from offdyn.envs.robots import ROBOTS
from offdyn.envs.tasks import resolve

every_robot = pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
SIZES = {"halfcheetah": (17, 6), "hopper": (11, 3), "walker": (17, 6), "ant": (27, 8)}
STANDING = {"hopper": 1.25, "walker": 1.25, "ant": 0.75}  # metres


def standing(robot, height=None, angle=0.0):
    """Positions and velocities of a robot at rest; where it has an angle, leaning by it."""
    qpos, qvel = np.zeros(robot.position_size), np.zeros(robot.velocity_size)
    qpos[robot.unseen_positions] = STANDING.get(robot.name, 0.0) if height is None else height
    if robot.name in ("hopper", "walker"):
        qpos[2] = angle
    return qpos, qvel


@every_robot
def test_a_robot_says_of_itself_what_its_compiled_model_says(robot):
    model = resolve(robot.name).model()
    assert (robot.position_size, robot.velocity_size, robot.timestep) == (model.nq, model.nv, model.opt.timestep)
    assert (robot.spec.observation_size, robot.spec.action_size) == SIZES[robot.name]
    assert robot.spec.action_size == model.nu
    assert np.array_equal(model.actuator_ctrlrange, np.tile([-1.0, 1.0], (model.nu, 1)))


def test_an_action_lasts_as_long_as_in_gymnasium():
    seconds = {name: robot.seconds_per_step for name, robot in ROBOTS.items()}
    assert seconds == {"halfcheetah": 0.05, "hopper": 0.008, "walker": 0.008, "ant": 0.05}


def test_only_the_ants_first_layers_are_initialised_for_more_entries_than_it_observes():
    fan_in = {name: robot.spec.initial_fan_in for name, robot in ROBOTS.items()}
    assert fan_in == {"halfcheetah": 17, "hopper": 11, "walker": 17, "ant": 111}


@every_robot
def test_an_observation_is_the_positions_but_for_the_place_and_then_the_velocities(robot):
    qpos, qvel = np.arange(robot.position_size) / 10.0, 1.0 + np.arange(robot.velocity_size) / 10.0
    hidden = 2 if robot.name == "ant" else 1
    assert np.array_equal(robot.observe(qpos, qvel), [*qpos[hidden:], *qvel])


@every_robot
def test_only_hopper_and_walker_see_their_velocities_clipped_at_ten(robot):
    qpos, qvel = standing(robot)
    qvel[-2:] = -30.0, 12.0
    seen = robot.observe(qpos, qvel)[-2:]
    assert seen.tolist() == ([-10.0, 10.0] if robot.name in ("hopper", "walker") else [-30.0, 12.0])


def test_rewards_are_velocity_and_alive_bonus_less_the_control_cost():
    # 0.04 m in one step, with half strength in every joint
    by_hand = {
        "halfcheetah": 0.04 / 0.05 - 0.1 * 6 * 0.25,
        "hopper": 0.04 / 0.008 + 1 - 0.001 * 3 * 0.25,
        "walker": 0.04 / 0.008 + 1 - 0.001 * 6 * 0.25,
        "ant": 0.04 / 0.05 + 1 - 0.5 * 8 * 0.25,
    }
    for name, robot in ROBOTS.items():
        actions = np.full((2, robot.spec.action_size), 0.5)
        actions[1] = 0.0
        half, idle = robot.reward(np.array([0.04, 0.0]), actions)
        assert half == pytest.approx(by_hand[name], abs=1e-12)
        assert idle == robot.alive_bonus


@pytest.mark.parametrize(
    ("name", "height", "angle", "ends"),
    [
        ("halfcheetah", -9.0, 0.0, False),
        ("hopper", 1.25, 0.0, False),
        ("hopper", 0.7, 0.0, True),
        ("hopper", 0.701, 0.0, False),
        ("hopper", 50.0, 0.0, False),
        ("hopper", 1.25, 0.2, True),
        ("hopper", 1.25, -0.2, True),
        ("hopper", 1.25, -0.199, False),
        ("walker", 0.8, 0.0, True),
        ("walker", 0.801, 0.0, False),
        ("walker", 2.0, 0.0, True),
        ("walker", 1.999, 0.0, False),
        ("walker", 1.25, 1.0, True),
        ("walker", 1.25, -0.999, False),
        ("ant", 0.2, 0.0, False),
        ("ant", 0.199, 0.0, True),
        ("ant", 1.0, 0.0, False),
        ("ant", 1.001, 0.0, True),
    ],
)
def test_an_episode_ends_at_these_heights_and_angles_and_the_observation_tells(name, height, angle, ends):
    robot = ROBOTS[name]
    qpos, qvel = standing(robot, height, angle)
    assert bool(robot.terminated(qpos, qvel)) is ends
    seen = robot.observe(qpos, qvel)
    assert bool(robot.spec.is_terminal(seen)) is ends
    assert bool(robot.spec.is_terminal(jnp.asarray(seen))) is ends


@every_robot
def test_ends_are_judged_row_by_row_over_any_leading_axes_in_numpy_and_jax(robot):
    good, bad = standing(robot), standing(robot, height=-1.0)
    qpos, qvel = (np.stack([[a, b, a], [b, a, a]]) for a, b in zip(good, bad, strict=True))
    mortal = robot.name != "halfcheetah"
    expected = np.array([[False, mortal, False], [mortal, False, False]])
    seen = robot.observe(qpos, qvel)
    for answer in (
        robot.terminated(qpos, qvel),
        robot.spec.is_terminal(seen),
        robot.spec.is_terminal(jnp.asarray(seen)),
    ):
        assert answer.dtype == bool
        assert np.array_equal(answer, expected)


def test_hopper_ends_on_a_bent_joint_or_a_velocity_of_a_hundred_but_the_observation_hides_the_velocity():
    hopper = ROBOTS["hopper"]
    qpos, qvel = standing(hopper)
    bent = qpos.copy()
    bent[4] = -100.0
    assert hopper.terminated(bent, qvel)
    assert hopper.spec.is_terminal(hopper.observe(bent, qvel))
    qvel[0] = 100.0
    assert hopper.terminated(qpos, qvel)
    assert not hopper.spec.is_terminal(hopper.observe(qpos, qvel))


@pytest.mark.parametrize("name", ["hopper", "walker", "ant"])
def test_a_height_that_is_not_a_number_is_an_end(name):
    assert ROBOTS[name].terminated(*standing(ROBOTS[name], height=np.nan))


@every_robot
def test_starts_are_drawn_as_gymnasium_draws_them(robot):
    positions, velocities = robot.start(np.random.default_rng(3))
    rng = np.random.default_rng(3)
    if robot.name in ("halfcheetah", "ant"):
        expected = rng.uniform(-0.1, 0.1, robot.position_size), 0.1 * rng.standard_normal(robot.velocity_size)
    else:
        expected = rng.uniform(-5e-3, 5e-3, robot.position_size), rng.uniform(-5e-3, 5e-3, robot.velocity_size)
    assert np.array_equal(positions, expected[0])
    assert np.array_equal(velocities, expected[1])


def test_the_domains_load_where_there_is_no_jax():
    without_jax = "import sys; sys.modules['jax'] = None; import offdyn.envs.simulator"
    subprocess.run([sys.executable, "-c", without_jax], check=True)
