"""Q Avatar: the actor climbs a mixture of a target and a source critic, weighed by how far each errs in the target.

Chen et al. 2026, "Cross-Domain Policy Optimization via Bellman Consistency and Hybrid Critics". What is theirs and what
is ours: docs/methods/sac.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._util.fields import lanewise
from .._util.types import SOURCE, Array, Batch, Context, Spec
from ..data.replay import Replay
from . import sac as core
from .method import Method, Metrics, Preset
from .networks import Parameters
from .sac import Agent, Policy, Sac, backup, hook_key, values

MEASURED = 4096  # target transitions on which the critics' errors are measured


@lanewise
@dataclass(frozen=True)
class Hyper:
    """How often the weight is measured."""

    weight_interval: int = 1000  # updates


class Learned(NamedTuple):
    """What is learned in the source, and how far both critics are off in the target."""

    source: Agent
    errors: Array  # [2], the target critics' and the source critics', when last measured; 0 before


def init(key: jax.Array, hyper: Hyper, spec: Spec, sac: Sac) -> Learned:
    return Learned(core.init(key, sac, spec), jnp.zeros(2))


def bellman_error(critics: Parameters, batch: Batch, key: jax.Array, ctx: Context) -> Array:
    """mean |min_i Q_i(s, a) - y|, y being SAC's backup by the same critics, with the target actor's actions."""
    y = backup(ctx.agent._replace(target_critic=critics), batch, key, ctx.sac, ctx.spec)
    value = values(critics, batch.observation, batch.action, ctx.sac, ctx.spec).min(0)
    return jnp.abs(value - y).mean()


def weight(errors: Array) -> Array:
    """a = e_target / (e_source + e_target), the source critics' part of the mixture; 0 before the first measurement."""
    target, source = errors
    return target / jnp.maximum(source + target, 1e-8)


def learn(source: Replay, target: Replay, ctx: Context) -> tuple[Learned, Metrics]:
    """One SAC update in the source; now and then, both critics' errors on target transitions."""
    learned, sac, spec = ctx.learned, ctx.sac, ctx.spec
    batch = source.sample(hook_key(ctx.key, "source rows"), sac.batch_size)
    agent, metrics = core.learn(learned.source, batch, sac=sac, spec=spec, key=ctx.key, step=ctx.step)

    def measure(_: Array) -> Array:
        seen, key = target.sample(hook_key(ctx.key, "measured"), MEASURED), hook_key(ctx.key, "errors")
        critics = ctx.agent.critic.value, agent.critic.value
        return jnp.stack([bellman_error(critic, seen, key, ctx) for critic in critics])

    due = (ctx.step + 1) % ctx.hyper.weight_interval == 0
    errors = jax.lax.cond(due, measure, lambda before: before, learned.errors)
    return Learned(agent, errors), {f"{name} in the source": value for name, value in metrics.items()} | {
        "Bellman error of the target critics": errors[0],
        "Bellman error of the source critics": errors[1],
        "weight of the source critics": weight(errors),
    }


def actor_loss(loss: Array, actor: Parameters, policy: Policy, target: Batch, ctx: Context) -> Array:
    """mean_n temperature log pi(a|s) - (1 - a) Q_target(s, a) - a Q_source(s, a), a ~ pi, in target states."""
    every = values(ctx.learned.source.critic.value, target.observation, policy.action, ctx.sac, ctx.spec)
    of_source = every.min(0) if ctx.sac.actor_value == "min" else every.mean(0)
    return loss + weight(ctx.learned.errors) * (policy.value - of_source).mean()


def explore(observation: Array, ctx: Context) -> Array:
    """The source's own actor."""
    return core.act(ctx.learned.source.actor.value, observation, ctx.key, ctx.sac, ctx.spec, SOURCE)[0]


Q_AVATAR = Method(
    "q-avatar",
    "SAC in each domain; the target's actor climbs both critics, weighed by their errors in the target",
    Hyper,
    compares_domains=True,
    pads=True,
    presets={"simba": Preset({"backbone": "simba"})},
    init=init,
    learn=learn,
    actor_loss=actor_loss,
    explore=explore,
)
