"""The cloning term: lambda by hand, the loss and its gradient against NumPy, and where it leads the policy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import Batch, Context
from offdyn.algos import sac as core
from offdyn.algos.common import cloning
from offdyn.algos.networks import Trained
from offdyn.algos.par import Hyper
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import Agent, Policy, Sac, hook_key
from offdyn.data.replay import Replay

from ...probes import HALF_FLIPPED, learn, programs_of, random_rows, short_run, small_spec
from ..core.in_numpy import flat, least, slope
from ..core.twin import Formulas

SPEC = small_spec(observation_size=3, action_size=2)
SAC = Sac(actor_widths=(4, 3), critic_widths=(4, 3), temperature=0.3)
CLONING = Hyper(cloning=True, balance=2.5)
TEMPERATURE = 0.3


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def source_rows(rows: int = 7) -> Batch:
    columns = draw(1, rows, 3), np.tanh(draw(2, rows, 2)), draw(3, rows), draw(4, rows, 3)
    return Batch(*columns, np.zeros(rows), np.ones(rows))


def test_lambda_by_hand():
    values = jnp.array([-2.0, 4.0, 0.0, -6.0])  # mean size 3, mean -1
    assert np.isclose(cloning.scale(values, Hyper(balance=5.0)), 5 / 3)
    assert np.isclose(cloning.scale(values, Hyper(balance=0.5)), 0.5 / 3)
    assert cloning.scale(values, Hyper(balance=5.0, normalise_balance=False)) == 5.0


def test_lambda_has_no_gradient_and_survives_values_of_zero():
    values = jnp.array([-2.0, 4.0])
    assert np.array_equal(jax.grad(lambda v: cloning.scale(v, CLONING))(values), np.zeros(2))
    assert cloning.scale(jnp.zeros(3), Hyper(balance=0.0)) == 0.0
    assert np.isfinite(cloning.scale(jnp.zeros(3), Hyper(balance=5.0)))


def test_without_cloning_the_loss_is_left_alone():
    loss = jnp.ones(())
    ctx = Context(SPEC, None, None, SAC, Hyper(), None, 0)
    assert cloning.actor_loss(loss, (), Policy(None, None, None), source_rows(), ctx) is loss
    assert cloning.diagnose(None, ctx) == {}


@pytest.mark.parametrize("normalised", [True, False])
def test_the_actors_loss_and_its_gradient_are_numpys(normalised):
    hyper = dataclasses.replace(CLONING, normalise_balance=normalised)
    maths, rows = Formulas(SPEC, SAC), source_rows()
    states = np.concatenate((rows.observation, draw(5, 9, 3)))  # of both domains
    vector, critics = draw(6, maths.actor.length), draw(9, 2, maths.critic.length)
    joined = Batch(states, None, None, None, None, None)
    with jax.enable_x64(True):
        actor_key, clone_key = jax.random.split(jax.random.key(0))
        twins = Trained(maths.critic.parameters(critics), None)
        agent = Agent(None, twins, None, Trained(np.log(TEMPERATURE), None))
        ctx = Context(SPEC, agent, None, SAC, hyper, clone_key, 0)

        def ours(actor):
            loss, policy = core.actor_loss(actor, agent, joined, actor_key, SAC, SPEC)
            return METHODS["par"].actor_loss(loss, actor, policy, rows, ctx)

        value, gradient = jax.jit(jax.value_and_grad(ours))(maths.actor.parameters(vector))
        noise = np.asarray(jax.random.normal(actor_key, (16, 2)))
        clone_noise = np.asarray(jax.random.normal(clone_key, (7, 2)))

    action, _ = maths.policy(vector, states, noise)
    value_there = least(maths.values(critics, states, action))
    assert (value_there < 0).any()  # so that sizes are not values
    assert (value_there > 0).any()
    weight = 2.5 / np.mean(np.abs(value_there)) if normalised else 2.5

    def numpys(v):
        cloned, _ = maths.policy(v, rows.observation, clone_noise)
        mine = maths.actor_loss(v, critics, TEMPERATURE, states, noise)
        return weight * mine + ((cloned - rows.action) ** 2).sum() / (7 * 2)

    np.testing.assert_allclose(value, numpys(vector), rtol=1e-10)
    np.testing.assert_allclose(flat(gradient), slope(numpys, vector), rtol=1e-8, atol=1e-12)


def wanted(observation: np.ndarray) -> np.ndarray:
    """What the data does in a state."""
    return 0.6 * np.stack((np.sin(2 * observation[:, 1]), -observation[:, 0]), axis=1)


def cloned_rows(seed: int) -> np.ndarray:
    rows = random_rows(HALF_FLIPPED, "source", 600, seed)
    rows[:, 2:4] = wanted(rows[:, :2])
    return rows


@pytest.fixture(scope="module")
def policies(trains):
    """Mean actions and deviations, at fresh states, of lanes that differ by their balance alone."""
    settings = {"actor_widths": (32,), "actor_learning_rate": 5e-3, "cloning": True}
    runs = [short_run(HALF_FLIPPED, balance=balance, **settings) for balance in (0.0, 200.0)]
    source = np.stack([cloned_rows(seed=1)] * 2)
    target = np.stack([random_rows(HALF_FLIPPED, "target", 600, seed=2)] * 2)
    programs, lanes = programs_of(runs, updates=300)
    lanes = learn(programs, lanes, runs, source, target, calls=3)
    assert np.asarray(lanes.fault).max() == 0
    states = random_rows(HALF_FLIPPED, "source", 200, seed=3)[:, :2]
    network = core.actor_network(runs[0].sac, HALF_FLIPPED.spec)
    heads = [network.apply(tuple(array[lane] for array in lanes.agent.actor.value), states) for lane in (0, 1)]
    replay = Replay(jnp.asarray(source[0]), jnp.asarray(600), HALF_FLIPPED.spec, None)
    agents = [jax.tree.map(lambda leaf, lane=lane: leaf[lane], lanes.agent) for lane in (0, 1)]
    key = hook_key(jax.random.key(0), "diagnose")
    seen = [
        cloning.diagnose(replay, Context(HALF_FLIPPED.spec, agent, None, run.sac, run.hyper, key, 0))
        for agent, run in zip(agents, runs, strict=True)
    ]
    means = [np.tanh(np.split(np.asarray(head), 2, axis=1)[0]) for head in heads]
    deviations = [np.exp(np.split(np.asarray(head), 2, axis=1)[1]) for head in heads]
    return states, means, deviations, seen


def test_with_a_balance_of_zero_the_policy_becomes_the_datas(policies):
    states, means, deviations, _ = policies
    off = np.sqrt(np.square(means[0] - wanted(states)).mean())
    assert off < 0.08  # the data's actions themselves are of size 0.36
    assert deviations[0].mean() < 0.1  # and a sample of it too: spread costs what it is


def test_with_a_large_balance_it_does_not(policies):
    states, means, _, _ = policies
    assert np.sqrt(np.square(means[1] - wanted(states)).mean()) > 0.2


def test_what_is_logged_tells_the_two_apart(policies):
    *_, seen = policies
    near, far = (float(each["cloning error"]) for each in seen)
    assert near < 0.02 < 0.1 < far
    assert seen[0]["weight of the value against cloning"] == 0.0
    assert seen[1]["weight of the value against cloning"] > 1.0
