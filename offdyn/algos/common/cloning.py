"""Behaviour cloning in the actor's loss: a policy that learns from a dataset stays near the actions in it.

Lyu et al. 2024, equation 6; the balance is normalised as in Fujimoto and Gu 2021 (TD3+BC).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..._util.types import Array, Batch, Context
from ...data.replay import Replay
from ..method import Metrics
from ..networks import Parameters
from ..sac import Policy, act, values

DIAGNOSED_ROWS = 256
SMALLEST_VALUE = 1e-8  # a critic that says 0 everywhere must not make the balance infinite


@dataclass(frozen=True)
class Cloning:
    """Settings of the cloning term, for the Hyper of a method that has one."""

    balance: float = 5.0  # nu: weight of SAC's loss against the cloning error
    cloning: bool = False
    normalise_balance: bool = True  # divide the balance by the mean size of the values


def scale(value: Array, hyper: Cloning) -> Array:
    """lambda = balance / mean |min_i Q_i(s, a)|, a ~ pi, without gradient; where not normalised, the balance itself."""
    if not hyper.normalise_balance:
        return jnp.asarray(hyper.balance)
    return hyper.balance / jnp.maximum(jnp.abs(jax.lax.stop_gradient(value)).mean(), SMALLEST_VALUE)


def error(actor: Parameters, batch: Batch, key: jax.Array, ctx: Context) -> Array:
    """mean over transitions and action entries of (a' - a)^2, a' ~ pi(.|s) drawn afresh."""
    action, _ = act(actor, batch.observation, key, ctx.sac, ctx.spec, batch.domain)
    return jnp.square(action - batch.action).mean()


def actor_loss(loss: Array, actor: Parameters, policy: Policy, source: Batch, ctx: Context) -> Array:
    """lambda * loss + cloning error on the source transitions."""
    if not ctx.hyper.cloning:
        return loss
    return scale(policy.value, ctx.hyper) * loss + error(actor, source, ctx.key, ctx)


def diagnose(source: Replay, ctx: Context) -> Metrics:
    """How near the policy is to the data, and what its values weigh against that."""
    if not ctx.hyper.cloning:
        return {}
    batch_key, clone_key, action_key = jax.random.split(ctx.key, 3)
    batch, actor = source.sample(batch_key, DIAGNOSED_ROWS), ctx.agent.actor.value
    action, _ = act(actor, batch.observation, action_key, ctx.sac, ctx.spec, batch.domain)
    value = values(ctx.agent.critic.value, batch.observation, action, ctx.sac, ctx.spec, batch.domain).min(0)
    return {
        "cloning error": error(actor, batch, clone_key, ctx),
        "weight of the value against cloning": scale(value, ctx.hyper),
    }
