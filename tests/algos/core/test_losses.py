"""SAC's losses and the log-probability on random inputs, against NumPy in float64."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy import stats

from offdyn._util.types import Batch, Spec
from offdyn.algos import sac as core
from offdyn.algos.networks import Trained
from offdyn.algos.sac import Agent, Sac

from ...probes import small_spec
from .in_numpy import flat, flat_stack
from .twin import Formulas

SPEC = small_spec(observation_size=4, action_size=3)
SMALL = Sac(actor_widths=(7, 6), critic_widths=(6, 7), temperature=0.3, discount=0.9)
SIMBA = dataclasses.replace(SMALL, backbone="simba", actor_widths=(5,), critic_widths=(4, 4), domain_input="flag")
ENSEMBLE = dataclasses.replace(
    SMALL, backbone="ensemble", critics=10, backup_critics=2, actor_value="mean", domain_input="embedding"
)
CHOICES = {
    "as is": SMALL,
    "LayerNorm in the critic": dataclasses.replace(SMALL, critic_layer_norm=True),
    "no entropy in the backup": dataclasses.replace(SMALL, entropy_in_backup=False),
    "narrow log-std": dataclasses.replace(SMALL, log_std_low=-0.1, log_std_high=0.1),
    "flag": dataclasses.replace(SMALL, domain_input="flag"),
    "simba": dataclasses.replace(SIMBA, domain_input="none"),
    "simba, flag": SIMBA,
    "ensemble, embedding": ENSEMBLE,
}
act = jax.jit(core.act, static_argnames="spec")
backup = jax.jit(core.backup, static_argnames="spec")
critic_loss = jax.jit(core.critic_loss, static_argnames="spec")
actor_loss = jax.jit(core.actor_loss, static_argnames="spec")
every_choice = pytest.mark.parametrize("sac", CHOICES.values(), ids=CHOICES)


def random_agent(sac: Sac, seed: int = 0, size: float = 0.6) -> Agent:
    """Networks with all entries random, the LayerNorm's included, and target critics unlike the critics."""
    generator, maths = np.random.default_rng(seed), Formulas(SPEC, sac)
    actor = maths.actor.parameters(size * generator.normal(size=maths.actor.length))
    vectors = size * generator.normal(size=(2, sac.critics, maths.critic.length))
    critic, target = map(maths.critic.parameters, vectors)
    return Agent(Trained(actor, None), Trained(critic, None), target, Trained(np.log(0.3), None))


def random_batch(rows: int = 40, seed: int = 1) -> Batch:
    generator = np.random.default_rng(seed)
    s, a = SPEC.observation_size, SPEC.action_size
    return Batch(
        observation=generator.normal(size=(rows, s)),
        action=generator.uniform(-1, 1, (rows, a)),
        reward=generator.normal(size=rows),
        next_observation=generator.normal(size=(rows, s)),
        terminated=(generator.random(rows) < 0.3).astype(float),
        weight=generator.uniform(0, 2, rows) * (generator.random(rows) < 0.8),
        domain=np.arange(rows) % 2.0,
    )


def close(ours: object, expected: object) -> None:
    np.testing.assert_allclose(ours, expected, rtol=3e-5, atol=3e-5)


@every_choice
def test_log_probability_of_a_sample_is_the_squashed_gaussians(sac):
    agent, batch, key = random_agent(sac), random_batch(), jax.random.key(5)
    noise = np.asarray(jax.random.normal(key, (40, 3)), float)
    action, log_pi = Formulas(SPEC, sac).policy(flat(agent.actor.value), batch.observation, noise, batch.domain)
    ours = act(agent.actor.value, batch.observation, key, sac, SPEC, batch.domain)
    close(ours[0], action)
    close(ours[1], log_pi)


def constant_actor(mean: float, log_std: float, sac: Sac = SMALL, spec: Spec = SPEC) -> tuple[np.ndarray, ...]:
    """An actor that gives the same Gaussian in every state."""
    network = Formulas(spec, sac).actor
    vector = np.zeros(network.length, np.float32)
    vector[-2 * spec.action_size :] = np.repeat((mean, log_std), spec.action_size)
    return network.parameters(vector)


@pytest.mark.parametrize("mean", [-15.0, 6.0, 40.0])
def test_log_probability_and_its_slope_stay_exact_where_tanh_saturates(mean):
    observation, key = np.zeros((50, 4), np.float32), jax.random.key(1)
    actor = constant_actor(mean, -1.0)
    action, log_pi = act(actor, observation, key, SMALL, SPEC)
    noise = np.asarray(jax.random.normal(key, (50, 3)), float)
    expected = Formulas(SPEC, SMALL).policy(flat(actor), observation, noise)
    assert np.abs(action).min() > 0.99
    np.testing.assert_allclose(log_pi, expected[1], rtol=1e-5)
    # Far out, log pi grows by 2 per unit by which u leaves zero, in each of the three dimensions.
    slope = jax.jit(jax.grad(lambda v: core.act(v, observation, key, SMALL, SPEC)[1].mean()))(actor)
    np.testing.assert_allclose(slope[-1][:3], 2 * np.sign(mean), rtol=1e-3)


def test_probabilities_of_all_actions_add_up_to_one():
    # Draws of a one-dimensional policy: the mean of 1 / (2 pi(a|s)) over a ~ pi is half the length of (-1, 1), one.
    spec, sac = small_spec(1, 1), Sac(actor_widths=(4,))
    actor = constant_actor(0.3, -0.2, sac, spec)
    action, log_pi = act(actor, np.zeros((200_000, 1), np.float32), jax.random.key(0), sac, spec)
    inside = np.abs(action[:, 0]) < 0.9  # away from the ends, where the mean converges slowly
    assert abs(np.mean(inside / (2 * np.exp(log_pi))) - 0.9) < 0.01


def test_actions_before_the_squash_are_normal_with_the_networks_mean_and_deviation():
    action, _ = act(constant_actor(0.4, -0.7), np.zeros((3000, 4), np.float32), jax.random.key(9), SMALL, SPEC)
    u = np.arctanh(np.asarray(action, float)).ravel()
    assert stats.kstest((u - 0.4) / np.exp(-0.7), "norm").pvalue > 0.01


@pytest.mark.parametrize(("log_std", "clipped"), [(-30.0, -20.0), (7.0, 2.0), (0.5, 0.5)])
def test_log_std_is_clipped_to_its_bounds(log_std, clipped):
    observation, key = np.zeros((5, 4), np.float32), jax.random.key(2)
    ours = act(constant_actor(0.1, log_std), observation, key, SMALL, SPEC)
    within = act(constant_actor(0.1, clipped), observation, key, SMALL, SPEC)
    assert all(map(np.array_equal, ours, within))


def test_without_a_key_the_action_is_the_squashed_mean():
    action, _ = act(constant_actor(0.7, 1.0), np.zeros((2, 4), np.float32), None, SMALL, SPEC)
    close(action, np.full((2, 3), np.tanh(0.7)))


@every_choice
def test_backup_is_reward_plus_discounted_smallest_target_value_with_its_entropy(sac):
    agent, batch, key = random_agent(sac), random_batch(), jax.random.key(6)
    maths, arrays = Formulas(SPEC, sac), (flat(agent.actor.value), flat_stack(agent.target_critic))
    close(backup(agent, batch, key, sac, SPEC), maths.backup(*arrays, 0.3, batch, maths.draws(key, 40)))


def test_a_terminated_row_is_worth_its_reward_alone():
    agent, batch = random_agent(SMALL), random_batch()
    y = np.asarray(backup(agent, batch, jax.random.key(0), SMALL, SPEC))
    ended = batch.terminated == 1
    assert 0 < ended.sum() < len(ended)
    close(y[ended], batch.reward[ended])
    assert np.abs(y - batch.reward)[~ended].min() > 1e-4


@every_choice
def test_critic_loss_is_the_sum_of_the_critics_weighted_mean_squares(sac):
    agent, batch = random_agent(sac), random_batch()
    y = np.random.default_rng(3).normal(size=40)
    ours, mean = critic_loss(agent.critic.value, batch, y, sac, SPEC)
    maths, critics = Formulas(SPEC, sac), flat_stack(agent.critic.value)
    close(ours, maths.critic_loss(critics, batch, y))
    close(mean, np.mean(maths.values(critics, batch.observation, batch.action, batch.domain)))


def test_rows_of_weight_zero_count_in_the_mean_but_not_in_the_loss():
    agent, batch, y = random_agent(SMALL), random_batch()._replace(weight=np.ones(40)), np.zeros(40)
    half = np.repeat((1.0, 0.0), 20)
    kept = Batch(*(column[:20] for column in batch))
    halved = critic_loss(agent.critic.value, batch._replace(weight=half), y, SMALL, SPEC)[0]
    close(halved, critic_loss(agent.critic.value, kept, y[:20], SMALL, SPEC)[0] / 2)


def test_beyond_their_bound_errors_of_the_critics_count_as_a_line_and_pull_no_harder():
    sac = dataclasses.replace(SMALL, error_bound=0.7)
    agent, batch, y = random_agent(sac), random_batch(), 5 * np.random.default_rng(3).normal(size=40)
    error = (
        Formulas(SPEC, sac).values(flat_stack(agent.critic.value), batch.observation, batch.action, batch.domain) - y
    )
    huber = np.where(np.abs(error) <= 0.7, error**2, 1.4 * np.abs(error) - 0.49)
    assert 0 < (np.abs(error) <= 0.7).mean() < 0.5
    close(critic_loss(agent.critic.value, batch, y, sac, SPEC)[0], (batch.weight * huber).mean(1).sum())
    pull = jax.grad(lambda y: critic_loss(agent.critic.value, batch, y, sac, SPEC)[0])(y)
    close(pull, -(batch.weight * 2 * np.clip(error, -0.7, 0.7)).sum(0) / 40)


@every_choice
def test_actor_loss_is_the_mean_of_temperature_times_log_probability_minus_the_value(sac):
    agent, batch, key = random_agent(sac), random_batch(), jax.random.key(7)
    noise = np.asarray(jax.random.normal(key, (40, 3)), float)
    maths = Formulas(SPEC, sac)
    actor, critics = flat(agent.actor.value), flat_stack(agent.critic.value)
    ours, policy = actor_loss(agent.actor.value, agent, batch, key, sac, SPEC)
    close(ours, maths.actor_loss(actor, critics, 0.3, batch.observation, noise, batch.domain))
    action, log_pi = maths.policy(actor, batch.observation, noise, batch.domain)
    close(policy.action, action)
    close(policy.log_probability, log_pi)
    close(policy.value, maths.climbed(critics, batch.observation, action, batch.domain))
