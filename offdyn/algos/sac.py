"""Soft actor-critic (Haarnoja et al. 2018): its losses, and the one update that every method uses."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from .._util.fields import LARGEST, lanewise, setting
from .._util.types import TARGET, Array, Batch, Context, Spec
from ..data.replay import Replay
from .backbones import BACKBONES
from .networks import DOMAIN_INPUTS, PRECISIONS, Inputs, Network, Parameters, Trained, descend, drift, fresh, mlp

if TYPE_CHECKING:
    from .method import Method, Metrics

LOG_2PI = 1.8378770664093453
YOUNG = 10  # an average of the actor is over a tenth of the updates so far at most: it forgets the first ones


@lanewise
@dataclass(frozen=True)
class Sac:
    """SAC's own choices; the defaults are the paper's, and those of the backbone `classic`."""

    backbone: str = "classic"
    # Or flag, embedding: actor and critics see which domain a transition is of.
    domain_input: str = setting("none", choices=tuple(DOMAIN_INPUTS))
    discount: float = setting(0.99, least=0, most=1)
    temperature: float = setting(0.2, least=0)  # of the entropy bonus; the first value where it is tuned
    actor_learning_rate: float = setting(3e-4, above=0)
    critic_learning_rate: float = setting(3e-4, above=0)
    temperature_learning_rate: float = setting(3e-4, above=0)
    weight_decay: float = setting(0.0, least=0)  # of actor and critics, per unit of learning rate (AdamW)
    target_rate: float = setting(0.005, above=0, most=1)  # Polyak rate of the target critics
    # Std of the noise added to source actions, which are then clipped to [-1, 1].
    source_noise: float = setting(0.0, least=0)
    target_noise: float = setting(0.0, least=0)  # the same in the target
    # Where the source's transitions fade: so many of the target's are as many in a batch as the source's. By default a
    # fifth of the target steps.
    source_fades: float = setting(20_000.0, least=0)
    error_bound: float = setting(LARGEST, above=0)  # of the critics: larger errors pull no harder
    log_std_low: float = -20.0
    log_std_high: float = 2.0
    # Transitions per domain and update; 256 by default where one domain is learned from.
    batch_size: int = setting(128, most=10**6)
    actor_widths: tuple[int, ...] = (256, 256)
    critic_widths: tuple[int, ...] = (256, 256)
    critic_layer_norm: bool = False  # of `classic`: after the activation
    critics: int = setting(2, most=1000)
    backup_critics: int | None = None  # so many of them, drawn for each update, make the backup; None: all
    actor_value: str = setting("min", choices=("min", "mean"))  # or mean: of the critics, what the actor climbs
    actor_interval: int = 1  # critic steps per actor step
    # Polyak rate of a slow copy of the actor, which is then the policy that is tested and deployed.
    actor_average: float | None = setting(None, above=0, most=1)
    entropy_in_backup: bool = True
    tune_temperature: bool = False
    temperature_per_domain: bool = False  # where tuned, each domain's by its own transitions
    target_entropy: float | None = None  # where tuned; None: as the next line says
    entropy_per_action: float = -1.0  # times the number of actions
    # Bound on the norm of the actor's and of all critics' gradient.
    gradient_clip: float | None = setting(None, above=0)
    normalise_observations: bool = False
    precision: str = setting("float32", choices=PRECISIONS)  # of products


class Agent(NamedTuple):
    """SAC's networks, for one lane."""

    actor: Trained
    critic: Trained  # all critics: every array has a leading axis of them
    target_critic: Parameters
    log_temperature: Trained  # [], or [2]: the target's and the source's
    slow_actor: Parameters | None = None  # None where no average is kept

    @property
    def deployed(self) -> Parameters:
        """The actor that is tested and saved as the run's policy."""
        return self.actor.value if self.slow_actor is None else self.slow_actor


class Policy(NamedTuple):
    """The policy's own actions at some states, and what the critics think of them."""

    action: Array  # [n, A]
    log_probability: Array  # [n]
    value: Array  # [n], what the actor climbs


def actor_network(sac: Sac, spec: Spec) -> Network:
    sizes = (spec.observation_size, *sac.actor_widths, 2 * spec.action_size)
    network = BACKBONES[sac.backbone].actor(sizes, spec.initial_fan_in)
    return network.sees_domain(sac.domain_input)._replace(rounds=sac.precision == "bfloat16")


def critic_network(sac: Sac, spec: Spec) -> Network:
    sizes = (spec.observation_size + spec.action_size, *sac.critic_widths, 1)
    build = partial(mlp, norm="after") if sac.critic_layer_norm else BACKBONES[sac.backbone].critic
    network = build(sizes, spec.initial_fan_in + spec.action_size)
    return network.sees_domain(sac.domain_input)._replace(rounds=sac.precision == "bfloat16")


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
    critic_init = partial(critic_network(sac, spec).init, inputs=pair_inputs(spec))
    critic = jax.vmap(critic_init)(jax.random.split(critic_key, sac.critics))
    # No temperature at all is a tiny one: its logarithm stays finite.
    log_temperature = jnp.log(jnp.maximum(jnp.asarray(sac.temperature, jnp.float32), 1e-30))
    actor = actor_network(sac, spec).init(actor_key, state_inputs(spec))
    return Agent(
        fresh(actor),
        fresh(critic),
        jax.tree.map(jnp.array, critic),  # copies: buffers of the state are donated one by one
        fresh(jnp.broadcast_to(log_temperature, (2,) if sac.temperature_per_domain else ())),
        None if sac.actor_average is None else jax.tree.map(jnp.array, actor),
    )


def act(
    actor: Parameters, observation: Array, key: jax.Array | None, sac: Sac, spec: Spec, domain: Any = TARGET
) -> tuple[Array, Array]:
    """A tanh-Gaussian sample and its log-probability; without a key, the mean action.

    log pi(a|s) = sum_i log N(u_i; mean_i, std_i) - log(1 - tanh(u_i)^2), a = tanh(u), the last term written as
    2 (log 2 - u - softplus(-2u)), which stays exact where tanh saturates.
    """
    mean, log_std = jnp.split(actor_network(sac, spec).apply(actor, observation, domain), 2, axis=-1)
    log_std = jnp.clip(log_std, sac.log_std_low, sac.log_std_high)
    noise = jnp.zeros_like(mean) if key is None else jax.random.normal(key, mean.shape)
    before = mean + jnp.exp(log_std) * noise
    log_density = -0.5 * jnp.square(noise) - log_std - 0.5 * LOG_2PI
    log_squash = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))
    action, terms = jnp.tanh(before), log_density - log_squash
    if spec.present is not None:
        action, terms = action * spec.present.action, terms * spec.present.action
    return action, terms.sum(-1)


def values(critics: Parameters, observation: Array, action: Array, sac: Sac, spec: Spec, domain: Any = TARGET) -> Array:
    """Q of every critic in the stack: [critics, n]."""
    inputs = jnp.concatenate((observation, action), axis=-1)
    return jax.vmap(critic_network(sac, spec).apply, in_axes=(0, None, None))(critics, inputs, domain)[..., 0]


def temperature_of(agent: Agent, domain: Any = TARGET) -> Array:
    """Of the entropy bonus in a domain; each has its own under `temperature_per_domain`."""
    temperature = jnp.exp(agent.log_temperature.value)
    return temperature if temperature.ndim == 0 else temperature[0] + domain * (temperature[1] - temperature[0])


def backup(agent: Agent, batch: Batch, key: jax.Array, sac: Sac, spec: Spec) -> Array:
    """y = r + discount (1 - d) [min_i Q'_i(s', a') - temperature log pi(a'|s')], a' ~ pi.

    The minimum is over all critics, or over some that are drawn anew for each update (REDQ, Chen et al. 2021).
    """
    critics = agent.target_critic
    if sac.backup_critics is not None:
        key, draw = jax.random.split(key)
        chosen = jax.random.choice(draw, sac.critics, (sac.backup_critics,), replace=False)
        critics = jax.tree.map(lambda array: array[chosen], critics)
    action, log_probability = act(agent.actor.value, batch.next_observation, key, sac, spec, batch.domain)
    value = values(critics, batch.next_observation, action, sac, spec, batch.domain).min(0)
    if sac.entropy_in_backup:
        value = value - temperature_of(agent, batch.domain) * log_probability
    return batch.reward + sac.discount * (1 - batch.terminated) * value


def critic_loss(critics: Parameters, batch: Batch, y: Array, sac: Sac, spec: Spec) -> tuple[Array, Array]:
    """sum_i mean_n weight (Q_i - y)^2, the mean over all transitions of both domains, also those of weight 0.

    Beyond `error_bound` it goes on as a line (Huber).
    """
    q = values(critics, batch.observation, batch.action, sac, spec, batch.domain)
    error = q - y
    held = jnp.clip(error, -sac.error_bound, sac.error_bound)
    return (batch.weight * held * (2 * error - held)).mean(1).sum(), q.mean()


def actor_loss(
    actor: Parameters, agent: Agent, batch: Batch, key: jax.Array, sac: Sac, spec: Spec
) -> tuple[Array, Policy]:
    """mean_n temperature log pi(a|s) - Q(s, a), a ~ pi, where Q is the critics' minimum or mean."""
    action, log_probability = act(actor, batch.observation, key, sac, spec, batch.domain)
    every = values(agent.critic.value, batch.observation, action, sac, spec, batch.domain)
    value = every.min(0) if sac.actor_value == "min" else every.mean(0)
    temperature = temperature_of(agent, batch.domain)
    return (temperature * log_probability - value).mean(), Policy(action, log_probability, value)


def join(*batches: Batch) -> Batch:
    return jax.tree.map(lambda *columns: jnp.concatenate(columns), *batches)


def hook_key(key: jax.Array, hook: str) -> jax.Array:
    """Randomness of one purpose: the name is folded in, never a lane."""
    return jax.random.fold_in(key, zlib.crc32(hook.encode()))


def entropies(log_probability: Array, batch: Batch, sac: Sac) -> Array:
    """The policy's entropy over the batch: one number, or [2] where each domain, target first, has a temperature."""
    if not sac.temperature_per_domain:
        return -log_probability.mean()
    of_domain = jnp.stack((1 - batch.domain, batch.domain))
    return -(of_domain * log_probability).sum(1) / jnp.maximum(of_domain.sum(1), 1)


def learn_temperature(trained: Trained, entropy: Array, sac: Sac, spec: Spec) -> Trained:
    """Down temperature * (entropy - wanted): it rises where the policy is less random than wanted."""
    actions = spec.action_size if spec.present is None else spec.present.action.sum()
    wanted = sac.entropy_per_action * actions if sac.target_entropy is None else sac.target_entropy
    excess = jax.lax.stop_gradient(entropy - wanted)
    return descend(lambda t: ((t * excess).sum(), None), trained, sac.temperature_learning_rate)[0]


def unchanged(loss: Array, *_: Any) -> Array:
    return loss


def learn(
    agent: Agent,
    batch: Batch,
    *,
    sac: Sac,
    spec: Spec,
    key: jax.Array,
    step: jax.Array,
    of_critics: Callable[[Array, Parameters, Agent], Array] = unchanged,
    of_actor: Callable[[Array, Parameters, Policy, Agent], Array] = unchanged,
) -> tuple[Agent, "Metrics"]:
    """One update of an agent: critics, target critics, actor, temperature, in that order.

    `of_critics` and `of_actor` may rewrite the losses: (loss, parameters ..., the agent as it is by then).
    """
    # Behind the barrier the critics' loss does not compute the backup over again inside its own sum, which on a GPU
    # took a twelfth of a single lane's update.
    y = jax.lax.optimization_barrier(backup(agent, batch, hook_key(key, "backup"), sac, spec))
    y = jax.lax.stop_gradient(y)

    def whole_critic_loss(critic: Parameters) -> tuple[Array, Array]:
        loss, mean_value = critic_loss(critic, batch, y, sac, spec)
        return of_critics(loss, critic, agent), mean_value

    critic, critic_value, mean_value = descend(
        whole_critic_loss, agent.critic, sac.critic_learning_rate, sac.gradient_clip, sac.weight_decay
    )
    moved = drift(agent.target_critic, critic.value, sac.target_rate)
    judged = agent._replace(critic=critic, target_critic=moved)

    def whole_actor_loss(actor: Parameters) -> tuple[Array, Policy]:
        loss, policy = actor_loss(actor, judged, batch, hook_key(key, "actor"), sac, spec)
        return of_actor(loss, actor, policy, judged), policy

    def actor_step(agent: Agent) -> tuple[Agent, Array, Array]:
        actor, loss, policy = descend(
            whole_actor_loss, agent.actor, sac.actor_learning_rate, sac.gradient_clip, sac.weight_decay
        )
        entropy, tuned = entropies(policy.log_probability, batch, sac), agent.log_temperature
        if sac.tune_temperature:
            tuned = learn_temperature(tuned, entropy, sac, spec)
        return agent._replace(actor=actor, log_temperature=tuned), loss, entropy.mean()

    if sac.actor_interval == 1:
        after, actor_value, entropy = actor_step(judged)
    else:
        zero = jnp.zeros(())
        after, actor_value, entropy = jax.lax.cond(
            step % sac.actor_interval == 0, actor_step, lambda agent: (agent, zero, zero), judged
        )
    if sac.actor_average is not None:
        rate = jnp.maximum(sac.actor_average, YOUNG / (step + YOUNG))
        after = after._replace(slow_actor=drift(after.slow_actor, after.actor.value, rate))
    return after, {
        "critic loss": critic_value,
        "mean value": mean_value,
        # Steps without an actor step report 0: the factor keeps the mean over updates right.
        "actor loss": actor_value * sac.actor_interval,
        "entropy": entropy * sac.actor_interval,
        "temperature": jnp.exp(after.log_temperature.value).mean(),
    }


def faded(source: Batch, target: Batch, size: Array, sac: Sac, key: jax.Array) -> Batch:
    """A batch of both domains, the source's share of which is c / (c + target transitions), c = `source_fades`.

    Before the first target transition it is what the target's replay gives in its place.
    """
    share = jnp.where(size > 0, sac.source_fades / (sac.source_fades + size), 0.0)
    of_source = jax.random.uniform(key, target.reward.shape) < share

    def mixed(theirs: Array, ours: Array) -> Array:
        return jnp.where(of_source.reshape(-1, *[1] * (ours.ndim - 1)), theirs, ours)

    return jax.tree.map(mixed, source, target)


def update(
    agent: Agent,
    learned: Any,
    source: Replay,
    target: Replay,
    *,
    method: "Method",
    learns_from: str,
    sac: Sac,
    hyper: Any,
    spec: Spec,
    key: jax.Array,
    step: jax.Array,
) -> tuple[Agent, Any, "Metrics"]:
    """One update of one lane: what the method trains on the side, then the agent.

    `learns_from` says which replays feed critics and actor: both, source or target; fading, see `faded`.
    """

    def context(hook: str, agent: Agent = agent) -> Context:
        return Context(spec, agent, learned, sac, hyper, hook_key(key, hook), step, target.moments)

    learned, metrics = method.learn(source, target, context("learn"))

    batches = []
    if learns_from != "target":
        drawn = source.sample(hook_key(key, "source rows"), sac.batch_size)
        corrected, more = method.correct(drawn, context("correct"))
        batches.append(corrected._replace(observation=drawn.observation, action=drawn.action, domain=drawn.domain))
        metrics |= more
    if learns_from != "source":
        batches.append(target.sample(hook_key(key, "target rows"), sac.batch_size))
    guarded = batches[0]  # the source's, where there are any
    if learns_from == "fading":
        of_source, of_target = batches
        batches = [faded(of_source, of_target, target.size, sac, hook_key(key, "fading"))]
    agent, more = learn(
        agent,
        join(*batches),
        sac=sac,
        spec=spec,
        key=key,
        step=step,
        of_critics=lambda loss, critic, agent: method.critic_loss(loss, critic, guarded, context("critic loss", agent)),
        of_actor=lambda loss, actor, policy, agent: method.actor_loss(
            loss, actor, policy, guarded, context("actor loss", agent)
        ),
    )
    return agent, learned, metrics | more


def update_others(
    others: tuple[Agent, ...],
    learn_from: tuple[str, ...],
    source: Replay,
    target: Replay,
    *,
    sac: Sac,
    spec: Spec,
    key: jax.Array,
    step: jax.Array,
) -> tuple[tuple[Agent, ...], "Metrics"]:
    """One update of each further member, without corrections, on batches of its own."""
    taught: list[Agent] = []
    metrics: Metrics = {}
    for number, (other, its_domains) in enumerate(zip(others, learn_from, strict=True), 2):
        own = hook_key(key, f"member {number}")
        keys, n = (hook_key(own, "source rows"), hook_key(own, "target rows")), sac.batch_size
        batch = target.sample(keys[1], 2 * n)
        if its_domains == "both":
            batch = join(source.sample(keys[0], n), target.sample(keys[1], n))
        other, more = learn(other, batch, sac=sac, spec=spec, key=own, step=step)
        taught.append(other)
        metrics |= {f"{name} of member {number}": value for name, value in more.items()}
    return tuple(taught), metrics
