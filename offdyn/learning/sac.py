"""Soft actor-critic (Haarnoja et al. 2018): its losses, and the one update that every method uses."""

import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..data.replay import Replay
from ..fields import lanewise
from ..types import Array, Batch, Context, Spec
from .networks import Inputs, Layout, Parameters, Trained, descend, drift, fresh

if TYPE_CHECKING:
    from ..methods.method import Method, Notes

LOG_2PI = 1.8378770664093453


@lanewise
@dataclass(frozen=True)
class Sac:
    """SAC's own choices; the defaults are the paper's."""

    discount: float = 0.99
    temperature: float = 0.2  # of the entropy bonus; the first value where it is tuned
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temperature_learning_rate: float = 3e-4
    target_rate: float = 0.005  # Polyak rate of the target critics
    source_noise: float = 0.0  # std of the noise added to source actions, which are then clipped to [-1, 1]
    log_std_low: float = -20.0
    log_std_high: float = 2.0
    batch_size: int = 128  # rows per domain and update
    actor_widths: tuple[int, ...] = (256, 256)
    critic_widths: tuple[int, ...] = (256, 256)
    critic_layer_norm: bool = False
    actor_interval: int = 1  # critic steps per actor step
    entropy_in_backup: bool = True
    tune_temperature: bool = False
    target_entropy: float | None = None  # where tuned; None: minus the number of actions
    gradient_clip: float | None = None  # bound on the norm of the actor's and of the twin critics' gradient
    normalise_observations: bool = False
    precision: str = "float32"  # of activations, what enters a product and its gradient; parameters and sums: float32


class Agent(NamedTuple):
    """SAC's networks, for one lane."""

    actor: Trained
    critic: Trained  # twins: every array has a leading axis of two
    target_critic: Parameters
    log_temperature: Trained  # []


class Policy(NamedTuple):
    """The policy's own actions at some states, and what the critics think of them."""

    action: Array  # [n, A]
    log_probability: Array  # [n]
    value: Array  # [n], the smaller of the twins


def actor_layout(sac: Sac, spec: Spec) -> Layout:
    sizes = (spec.observation_size, *sac.actor_widths, 2 * spec.action_size)
    return Layout(sizes, spec.initial_fan_in, precision=sac.precision)


def critic_layout(sac: Sac, spec: Spec) -> Layout:
    sizes = (spec.observation_size + spec.action_size, *sac.critic_widths, 1)
    fan_in = spec.initial_fan_in + spec.action_size
    return Layout(sizes, fan_in, sac.critic_layer_norm, precision=sac.precision)


def state_inputs(spec: Spec) -> Inputs | None:
    """Which observations a network sees, where the robot is padded."""
    return None if spec.present is None else Inputs(spec.present.observation, spec.present.initial_fan_in)


def pair_inputs(spec: Spec) -> Inputs | None:
    """The same for a network that sees the action after the observation."""
    if spec.present is None:
        return None
    observation, action, fan_in, _ = spec.present
    return Inputs(jnp.concatenate((observation, action)), fan_in + action.sum())


def init(key: jax.Array, sac: Sac, spec: Spec) -> Agent:
    actor_key, critic_key = jax.random.split(key)
    critic_init = partial(critic_layout(sac, spec).init, inputs=pair_inputs(spec))
    critic = jax.vmap(critic_init)(jax.random.split(critic_key))
    return Agent(
        fresh(actor_layout(sac, spec).init(actor_key, state_inputs(spec))),
        fresh(critic),
        jax.tree.map(jnp.array, critic),  # copies: buffers of the state are donated one by one
        # No temperature at all is a tiny one: its logarithm stays finite.
        fresh(jnp.log(jnp.maximum(jnp.asarray(sac.temperature, jnp.float32), 1e-30))),
    )


def act(actor: Parameters, observation: Array, key: jax.Array | None, sac: Sac, spec: Spec) -> tuple[Array, Array]:
    """A tanh-Gaussian sample and its log-probability; without a key, the mean action.

    log pi(a|s) = sum_i log N(u_i; mean_i, std_i) - log(1 - tanh(u_i)^2), a = tanh(u), the last term written as
    2 (log 2 - u - softplus(-2u)), which stays exact where tanh saturates.
    """
    mean, log_std = jnp.split(actor_layout(sac, spec).apply(actor, observation), 2, axis=-1)
    log_std = jnp.clip(log_std, sac.log_std_low, sac.log_std_high)
    noise = jnp.zeros_like(mean) if key is None else jax.random.normal(key, mean.shape)
    before = mean + jnp.exp(log_std) * noise
    log_density = -0.5 * jnp.square(noise) - log_std - 0.5 * LOG_2PI
    log_squash = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))
    action, terms = jnp.tanh(before), log_density - log_squash
    if spec.present is not None:
        action, terms = action * spec.present.action, terms * spec.present.action
    return action, terms.sum(-1)


def values(critic: Parameters, observation: Array, action: Array, sac: Sac, spec: Spec) -> Array:
    """Q of every critic in the stack: [2, n]."""
    inputs = jnp.concatenate((observation, action), axis=-1)
    return jax.vmap(critic_layout(sac, spec).apply, in_axes=(0, None))(critic, inputs)[..., 0]


def backup(agent: Agent, batch: Batch, key: jax.Array, sac: Sac, spec: Spec) -> Array:
    """y = r + discount (1 - d) [min_i Q'_i(s', a') - temperature log pi(a'|s')], a' ~ pi."""
    action, log_probability = act(agent.actor.value, batch.next_observation, key, sac, spec)
    value = values(agent.target_critic, batch.next_observation, action, sac, spec).min(0)
    if sac.entropy_in_backup:
        value = value - jnp.exp(agent.log_temperature.value) * log_probability
    return batch.reward + sac.discount * (1 - batch.terminated) * value


def critic_loss(critic: Parameters, batch: Batch, y: Array, sac: Sac, spec: Spec) -> tuple[Array, Array]:
    """sum_i mean_n weight (Q_i - y)^2, the mean over all rows of both domains, also those of weight 0."""
    q = values(critic, batch.observation, batch.action, sac, spec)
    return (batch.weight * jnp.square(q - y)).mean(1).sum(), q.mean()


def actor_loss(
    actor: Parameters, agent: Agent, observation: Array, key: jax.Array, sac: Sac, spec: Spec
) -> tuple[Array, Policy]:
    """mean_n temperature log pi(a|s) - min_i Q_i(s, a), a ~ pi."""
    action, log_probability = act(actor, observation, key, sac, spec)
    value = values(agent.critic.value, observation, action, sac, spec).min(0)
    temperature = jnp.exp(agent.log_temperature.value)
    return (temperature * log_probability - value).mean(), Policy(action, log_probability, value)


def join(*batches: Batch) -> Batch:
    return jax.tree.map(lambda *columns: jnp.concatenate(columns), *batches)


def hook_key(key: jax.Array, hook: str) -> jax.Array:
    """Randomness of one purpose: the name is folded in, never a lane or row number."""
    return jax.random.fold_in(key, zlib.crc32(hook.encode()))


def update(
    agent: Agent,
    learned: Any,
    source: Replay,
    target: Replay,
    *,
    method: "Method",
    rows: str,
    sac: Sac,
    hyper: Any,
    spec: Spec,
    key: jax.Array,
    step: jax.Array,
) -> tuple[Agent, Any, "Notes"]:
    """One update of one lane: side networks, critics, target critics, actor, in that order.

    `rows` says which replays feed critics and actor: both, source or target.
    """

    def context(hook: str) -> Context:
        return Context(spec, agent, learned, sac, hyper, hook_key(key, hook), step, target.moments)

    learned, notes = method.learn(source, target, context("learn"))

    batches = []
    source_rows = None
    if rows != "target":
        drawn = source.sample(hook_key(key, "source rows"), sac.batch_size)
        source_rows, more = method.correct(drawn, context("correct"))
        source_rows = drawn._replace(reward=source_rows.reward, weight=source_rows.weight)
        notes |= more
        batches.append(source_rows)
    if rows != "source":
        batches.append(target.sample(hook_key(key, "target rows"), sac.batch_size))
    batch = join(*batches)
    guarded = batches[0] if source_rows is None else source_rows

    # Behind the barrier the critics' loss does not compute the backup over again inside its own sum, which on a GPU
    # took a twelfth of a single lane's update.
    y = jax.lax.optimization_barrier(backup(agent, batch, hook_key(key, "backup"), sac, spec))
    y = jax.lax.stop_gradient(y)

    def whole_critic_loss(critic: Parameters) -> tuple[Array, Array]:
        loss, mean_value = critic_loss(critic, batch, y, sac, spec)
        return method.critic_loss(loss, critic, guarded, context("critic loss")), mean_value

    critic, critic_value, mean_value = descend(
        whole_critic_loss, agent.critic, sac.critic_learning_rate, sac.gradient_clip
    )
    agent = agent._replace(critic=critic, target_critic=drift(agent.target_critic, critic.value, sac.target_rate))

    def whole_actor_loss(actor: Parameters) -> tuple[Array, Policy]:
        loss, policy = actor_loss(actor, agent, batch.observation, hook_key(key, "actor"), sac, spec)
        return method.actor_loss(loss, actor, policy, guarded, context("actor loss")), policy

    def actor_step(agent: Agent) -> tuple[Agent, Array, Array]:
        actor, loss, policy = descend(whole_actor_loss, agent.actor, sac.actor_learning_rate, sac.gradient_clip)
        entropy = -policy.log_probability.mean()
        log_temperature = agent.log_temperature
        if sac.tune_temperature:
            actions = spec.action_size if spec.present is None else spec.present.action.sum()
            wanted = -actions if sac.target_entropy is None else sac.target_entropy
            log_temperature, _, _ = descend(
                lambda t: (t * jax.lax.stop_gradient(entropy - wanted), None),
                log_temperature,
                sac.temperature_learning_rate,
            )
        return agent._replace(actor=actor, log_temperature=log_temperature), loss, entropy

    if sac.actor_interval == 1:
        agent, actor_value, entropy = actor_step(agent)
    else:
        zero = jnp.zeros(())
        agent, actor_value, entropy = jax.lax.cond(
            step % sac.actor_interval == 0, actor_step, lambda agent: (agent, zero, zero), agent
        )
    notes |= {
        "critic loss": critic_value,
        "mean value": mean_value,
        # Steps without an actor step report 0: the factor keeps the mean over updates right.
        "actor loss": actor_value * sac.actor_interval,
        "entropy": entropy * sac.actor_interval,
        "temperature": jnp.exp(agent.log_temperature.value),
    }
    return agent, learned, notes
