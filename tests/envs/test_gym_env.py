"""Every task as a Gymnasium environment: sound, seeded, and the same as in the batched simulator."""

import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from offdyn._util.errors import OffdynError
from offdyn.envs import register
from offdyn.envs.gym import RobotEnv
from offdyn.envs.shifts import Factor, body
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import TASKS, Task, model_hash

SIZES = {"halfcheetah": (17, 6), "hopper": (11, 3), "walker": (17, 6), "ant": (27, 8)}
every_task = pytest.mark.parametrize("name", TASKS)


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    if "offdyn/hopper-v0" not in gymnasium.registry:
        register()


def rollout(name: str, seed: int, steps: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Observations and rewards under random actions, over as many episodes as it takes."""
    env = gymnasium.make(f"offdyn/{name}-v0")
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    observations, rewards = [observation], []
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        observations.append(observation)
        rewards.append(float(reward))
        if terminated or truncated:
            observations.append(env.reset()[0])
    env.close()
    return np.array(observations), np.array(rewards)


@every_task
def test_gymnasiums_own_checker_finds_nothing(name: str) -> None:
    env = gymnasium.make(f"offdyn/{name}-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Unbounded observations are what these robots have.
        warnings.filterwarnings("ignore", message=".*Box observation space m.*imum value is -?infinity.*")
        check_env(env.unwrapped, skip_render_check=True)


@every_task
def test_sizes_time_limit_and_model_are_the_tasks(name: str) -> None:
    env = gymnasium.make(f"offdyn/{name}-v0")
    assert env.observation_space.shape is not None
    assert env.action_space.shape is not None
    assert (*env.observation_space.shape, *env.action_space.shape) == SIZES[TASKS[name].robot.name]
    assert env.spec is not None
    assert env.spec.max_episode_steps == 1000
    assert model_hash(env.unwrapped.model) == model_hash(TASKS[name].model())  # type: ignore[attr-defined]
    assert env.unwrapped.data.qpos.shape == (TASKS[name].robot.position_size,)  # type: ignore[attr-defined]


@every_task
def test_one_seed_gives_one_trajectory_and_another_seed_another(name: str) -> None:
    (first, first_rewards), (again, again_rewards), (other, _) = (rollout(name, seed, 30) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first_rewards, again_rewards)
    assert not np.array_equal(first[0], other[0])


@every_task
def test_starts_vary_in_every_entry(name: str) -> None:
    env = gymnasium.make(f"offdyn/{name}-v0")
    starts = np.array([env.reset(seed=0)[0], *(env.reset()[0] for _ in range(9))])
    assert (starts.std(axis=0) > 0).all()


@every_task
def test_no_entry_of_the_observation_is_constant(name: str) -> None:
    observations, rewards = rollout(name, seed=0)
    assert observations.std(axis=0).min() > 1e-6
    assert rewards.std() > 0


@every_task
def test_an_environment_does_what_the_simulators_body_does(name: str) -> None:
    env = gymnasium.make(f"offdyn/{name}-v0").unwrapped
    env.np_random = np.random.default_rng([3, 0])  # what the simulator draws the first start of seeds (3,) from
    simulator = Simulator([TASKS[name]], [(3,)], threads=1)
    observation, _ = env.reset()
    np.testing.assert_array_equal(observation, simulator.observation[0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1.5, 1.5, env.action_space.shape)  # beyond the limits on purpose
        row = simulator.step(np.array([0]), action[None])
        observation, reward, terminated, *_ = env.step(action)
        np.testing.assert_array_equal(observation, row.next_observation[0])
        assert reward == row.reward[0]
        assert terminated == row.terminated[0]
        if terminated:
            break
    simulator.close()


def test_an_episode_is_cut_after_1000_steps_and_that_is_no_end() -> None:
    env = gymnasium.make("offdyn/halfcheetah-v0")
    env.reset(seed=0)
    ends = [env.step(np.zeros(6))[2:4] for _ in range(1000)]
    assert ends[:-1] == [(False, False)] * 999
    assert ends[-1] == (False, True)


def test_a_broken_body_is_cut_and_its_false_transition_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = gymnasium.make("offdyn/hopper-v0").unwrapped
    env.reset(seed=0)
    observation, reward, *_ = env.step(np.zeros(3))
    env.data.qvel[:] = 1e12  # type: ignore[attr-defined]
    after, repeated, terminated, truncated, info = env.step(np.zeros(3))
    np.testing.assert_array_equal(after, observation)
    assert (repeated, terminated, truncated, info["diverged"]) == (reward, False, True, True)
    assert not list(tmp_path.iterdir())  # MuJoCo's own log would be here


@pytest.mark.parametrize(
    "task",
    [
        "walker-friction-2.0",
        {"name": "own", "robot": "hopper", "edits": [{"gravity": 5}]},
        Task("own", TASKS["ant"].robot, (body("torso", mass=Factor(2)),)),
    ],
    ids=["family", "mapping", "task"],
)
def test_shifts_of_ones_own_can_be_made_too(task: object) -> None:
    env = gymnasium.make("offdyn/task-v0", task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped, skip_render_check=True)


def test_the_margin_correction_can_be_switched_off() -> None:
    env = gymnasium.make("offdyn/ant-v0", halve_margins=False).unwrapped
    assert set(env.model.geom_margin) == {0.01}  # type: ignore[attr-defined]


def test_bad_actions_and_render_modes_are_refused() -> None:
    env = gymnasium.make("offdyn/hopper-v0").unwrapped
    env.reset(seed=0)
    for action in (np.zeros(4), np.array([0, np.nan, 0])):
        with pytest.raises(OffdynError, match=r"hopper: expected \(3,\) finite numbers"):
            env.step(action)
    with pytest.raises(OffdynError, match="no render mode 'ansi'"):
        RobotEnv("hopper", render_mode="ansi")
