"""The conservative term: lower the values of actions at large, raise those of the data's own.

Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement Learning", equation 4 (logsumexp) and equation 2
with the policy as the pushed-down distribution (expectation).
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..._util.fields import setting
from ..._util.types import Array, Batch, Context
from ...data.replay import Replay
from ..method import Metrics
from ..networks import Parameters
from ..sac import act, values

FORMS = ("logsumexp", "expectation")
DIAGNOSED_ROWS = 256


@dataclass(frozen=True)
class Conservatism:
    """Settings of the conservative term, for the Hyper of a method that has one."""

    # Of each critic's term against its squared error on the same transitions.
    conservative_weight: float = setting(10.0, least=0)
    conservatism: str = setting("logsumexp", choices=FORMS)  # or "expectation", as the paper prints it
    # Of each kind: uniform, the policy's here, the policy's at the next state.
    sampled_actions: int = setting(10, most=1000)


def policy_actions(observation: Array, domain: Array, key: jax.Array, ctx: Context) -> tuple[Array, Array]:
    """`sampled_actions` of the policy at each state, [k, n, A], and their log-probabilities, [k, n]."""
    # Mapped over the keys alone: the network runs once.
    sample = jax.vmap(lambda key: act(ctx.agent.actor.value, observation, key, ctx.sac, ctx.spec, domain))
    return sample(jax.random.split(key, ctx.hyper.sampled_actions))


def excess(critic: Parameters, batch: Batch, form: str, ctx: Context) -> Array:
    """[2, n]: how much more each critic gives to actions at large than to the dataset's own.

    expectation:  mean_k Q(s, a_k) - Q(s, a),                        a_k ~ pi(.|s)
    logsumexp:    log sum_k exp(Q(s, a_k) - log p(a_k)) - Q(s, a),   a_k uniform, of pi(.|s), and of pi(.|s')
    """
    here_key, next_key, uniform_key = jax.random.split(ctx.key, 3)
    # [k, n, A] -> [k, 2, n]
    value = jax.vmap(lambda action: values(critic, batch.observation, action, ctx.sac, ctx.spec, batch.domain))
    own = values(critic, batch.observation, batch.action, ctx.sac, ctx.spec, batch.domain)
    here, log_here = policy_actions(batch.observation, batch.domain, here_key, ctx)
    if form == "expectation":
        return value(here).mean(0) - own
    there, log_there = policy_actions(batch.next_observation, batch.domain, next_key, ctx)
    uniform = jax.random.uniform(uniform_key, here.shape, minval=-1.0, maxval=1.0)
    log_uniform = jnp.full(log_here.shape, -ctx.spec.action_size * math.log(2.0))
    log_density = jnp.concatenate((log_uniform, log_here, log_there))
    score = value(jnp.concatenate((uniform, here, there))) - log_density[:, None]
    return jax.nn.logsumexp(score, axis=0) - own


def add(loss: Array, critic: Parameters, source: Batch, share: float, ctx: Context) -> Array:
    """loss + conservative_weight * sum_i (sum over the source of weight * excess_i) / (all transitions of the update).

    SAC's loss is a mean over all transitions, of which `share` are the source's: so each of those gets CQL's own loss,
    (Q - y)^2 + conservative_weight * excess, and each of the others SAC's.
    """
    term = (source.weight * excess(critic, source, ctx.hyper.conservatism, ctx)).mean(1).sum()
    return loss + share * ctx.hyper.conservative_weight * term


def diagnose(source: Replay, ctx: Context) -> Metrics:
    """Whether the term holds: values of actions at large, and of the policy's, above those of the data's."""
    batch_key, term_key = jax.random.split(ctx.key)
    batch, critic, ctx = source.sample(batch_key, DIAGNOSED_ROWS), ctx.agent.critic.value, ctx._replace(key=term_key)
    return {
        "conservative term": excess(critic, batch, ctx.hyper.conservatism, ctx).mean(),
        "value of the policy's actions above the data's": excess(critic, batch, "expectation", ctx).mean(),
    }
