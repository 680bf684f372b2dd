"""The unshifted robots are Gymnasium's own, with the margin correction off."""

import importlib

import numpy as np
import pytest

from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import resolve

BODIES = 8
# robot: Gymnasium's class, its options, steps and time limit (short enough for a hundred episodes each)
V5 = {
    "halfcheetah": ("half_cheetah_v5.HalfCheetahEnv", {}, 300, 20),
    "hopper": ("hopper_v5.HopperEnv", {}, 350, 1000),
    "walker": ("walker2d_v5.Walker2dEnv", {"xml_file": "walker2d.xml"}, 350, 1000),
    "ant": ("ant_v5.AntEnv", {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0}, 400, 30),
}
V4 = {
    "hopper": ("hopper_v4.HopperEnv", {}, 350, 1000),
    "walker": ("walker2d_v4.Walker2dEnv", {}, 350, 1000),
    "ant": ("ant_v4.AntEnv", {}, 400, 30),
}


def gymnasium_class(path):
    module, name = path.split(".")
    return getattr(importlib.import_module(f"gymnasium.envs.mujoco.{module}"), name)


@pytest.fixture(autouse=True)
def _log_goes_to_a_temporary_folder(tmp_path, monkeypatch):
    """Gymnasium's halfcheetah makes MuJoCo write MUJOCO_LOG.TXT (`settotalmass` is deprecated) where it is built."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore:.*settotalmass.*")
@pytest.mark.parametrize(("version", "name"), [*(("v5", name) for name in V5), *(("v4", name) for name in V4)])
def test_hundred_episodes_of_a_robot_equal_gymnasiums(version, name):
    path, options, steps, limit = (V5 if version == "v5" else V4)[name]
    environments = [gymnasium_class(path)(**options) for _ in range(BODIES)]
    seeds = [(11, body) for body in range(BODIES)]
    simulator = Simulator([resolve(name)] * BODIES, seeds, time_limit=limit, halve_margins=False)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, BODIES, simulator.spec.action_size))
    episode, elapsed, finished, true_ends = [0] * BODIES, [0] * BODIES, 0, 0

    def start(body):
        environments[body].np_random = np.random.default_rng([*seeds[body], episode[body]])
        seen, _ = environments[body].reset()
        assert np.array_equal(simulator.observation[body], seen)

    for body in range(BODIES):
        start(body)
    for chosen in actions:
        rows = simulator.step(np.arange(BODIES), chosen)
        for body, environment in enumerate(environments):
            seen, reward, terminated, _, _ = environment.step(chosen[body])
            elapsed[body] += 1
            assert np.array_equal(rows.next_observation[body], seen)
            assert rows.terminated[body] == terminated
            assert rows.truncated[body] == (elapsed[body] == limit and not terminated)
            bonus_not_paid = 1.0 if version == "v5" and terminated else 0.0
            assert rows.reward[body] == pytest.approx(reward + bonus_not_paid, abs=1e-6)
            if terminated or elapsed[body] == limit:
                episode[body], elapsed[body] = episode[body] + 1, 0
                finished, true_ends = finished + 1, true_ends + terminated
                start(body)
    assert finished >= 100
    assert true_ends >= (0 if name == "halfcheetah" else 10)
    assert simulator.divergences.sum() == 0


def test_with_the_margin_correction_on_the_hopper_is_another_one_than_gymnasiums():
    """So that the comparison above is known to notice physics."""
    gentle = np.zeros((1, 3))
    bodies = [Simulator([resolve("hopper")], [(0,)], halve_margins=halved) for halved in (True, False)]
    for _ in range(15):
        seen = [body.step(np.array([0]), gentle).next_observation for body in bodies]
    assert not np.array_equal(*seen)
