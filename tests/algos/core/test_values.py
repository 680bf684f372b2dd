"""The critic finds values that can be written down, from rows of random actions; one lane for each task."""

import numpy as np
import pytest

from ...probes import CHAIN, ENDLESS, ONE_STEP, learn, one_step_reward, programs_of, random_rows, short_run
from .in_numpy import flat, flat_stack, least
from .twin import Formulas

DISCOUNT = 0.6
TASKS = (ONE_STEP, CHAIN, ENDLESS)
ROLES = ((1, "source"), (2, "target"))
ACTIONS = np.linspace(-0.9, 0.9, 10)[:, None]


class Learned:
    """What a lane knows, asked in NumPy."""

    def __init__(self, lanes, lane: int) -> None:
        self.maths = Formulas(ONE_STEP.spec, lanes.sac)
        self.critic = flat_stack([array[lane] for array in lanes.agent.critic.value])
        self.actor = flat([array[lane] for array in lanes.agent.actor.value])

    def value(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        return least(self.maths.values(self.critic, state, action))


@pytest.fixture(scope="module")
def learned(trains):
    wide = {"actor_widths": (64,), "critic_widths": (64,), "batch_size": 64, "target_rate": 0.02}
    rates = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3, "temperature": 1e-6, "discount": DISCOUNT}
    runs = [short_run(task, "sac", **wide, **rates) for task in TASKS]
    programs, lanes = programs_of(runs, updates=500)
    rows = [np.stack([random_rows(task, role, 200, seed, steps=2) for task in TASKS]) for seed, role in ROLES]
    lanes = learn(programs, lanes, runs, *rows, calls=4)
    assert np.asarray(lanes.fault).max() == 0
    lanes = lanes._replace(sac=runs[0].sac)
    return {task.name: Learned(lanes, number) for number, task in enumerate(TASKS)}


def test_the_critic_learns_the_known_value_of_a_one_step_task(learned):
    generator = np.random.default_rng(9)
    state, action = generator.uniform(-0.9, 0.9, (100, 2)), generator.uniform(-0.9, 0.9, (100, 1))
    off = learned["one-step"].value(state, action) - one_step_reward(state, action)
    assert np.abs(off).max() < 0.2  # of values from -3 to 1
    assert np.abs(off).mean() < 0.05


def test_the_actor_finds_the_best_action_of_a_one_step_task(learned):
    state = np.random.default_rng(8).uniform(-0.9, 0.9, (50, 2))
    one = learned["one-step"]
    mean_action, _ = one.maths.policy(one.actor, state, np.zeros((50, 1)))
    assert np.abs(mean_action[:, 0] - 0.5 * state[:, 0]).max() < 0.15


def test_the_critic_learns_the_known_values_of_a_two_step_chain(learned):
    last = learned["two-step chain"].value(np.ones((10, 2)), ACTIONS)
    assert np.abs(last - (1 - (ACTIONS[:, 0] - 0.5) ** 2)).max() < 0.1
    first = learned["two-step chain"].value(np.zeros((10, 2)), ACTIONS)
    assert np.abs(first - (0.2 * ACTIONS[:, 0] + DISCOUNT)).max() < 0.1


def test_a_time_limit_is_no_end_for_the_critic(learned):
    value = learned["endless"].value(np.zeros((10, 2)), ACTIONS)
    assert np.abs(value - 1 / (1 - DISCOUNT)).max() < 0.1  # cut episodes counted as ends would give 1.6 or less


def test_a_temperature_of_zero_trains_and_adds_no_entropy():
    run = short_run(ONE_STEP, "sac", temperature=0.0)
    programs, lanes = programs_of([run], updates=5)
    rows = random_rows(ONE_STEP, "target", bodies=64, seed=0)[None]
    lanes = learn(programs, lanes, [run], rows, rows, calls=2)
    assert not np.asarray(lanes.fault).any()
    assert np.asarray(lanes.sums)[0, programs.metrics.index("temperature")] < 1e-20
