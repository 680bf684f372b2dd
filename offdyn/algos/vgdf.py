"""VGDF: learn from those source transitions whose next value is likely under what an ensemble imagines of the target.

Xu et al. 2023, "Cross-Domain Policy Adaptation via Value-Guided Data Filtering", algorithm 1. Presets:
docs/methods/darc-vgdf.md.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._util.fields import lanewise, setting
from .._util.types import Array, Batch, Context, Spec
from ..data.replay import Replay
from .common import cloning, controls, ensemble
from .common.cloning import Cloning
from .common.ensemble import LOG_2PI, Ensemble, Modelling
from .method import Method, Metrics, Preset
from .networks import Parameters, Trained, descend, fresh, mlp
from .sac import Sac, act, state_inputs, temperature_of, values

IMAGINED = ("sample", "mean", "mean plus variance")  # what becomes of a member's Gaussian
COMPARED = ("next value", "backup")  # Q of the next state, or r + discount Q of it


@lanewise
@dataclass(frozen=True)
class Hyper(Cloning, Modelling):
    """The ensemble's choices, the filter's and the optimistic policy's; the defaults are preset `paper`."""

    kept_share: float = setting(0.25, above=0, most=1)  # of each source batch
    # Controls: does it matter which transitions are kept? How much of a transition's weight is not its own ...
    weight_shuffled: float = setting(0.0, least=0, most=1)  # ... but that of another transition of the batch
    weight_averaged: float = setting(0.0, least=0, most=1)  # ... but the mean of the batch
    warm_up: int = setting(100_000, least=0)  # updates before the filter: all source transitions are kept
    imagined: str = setting("sample", choices=IMAGINED)
    compared: str = setting("next value", choices=COMPARED)
    least_log_likelihood: float | None = None  # transitions below it are dropped, however few are left; None: none is
    # Of the critics' loss: seen by `gradient_clip` alone, as Adam divides it out.
    loss_scale: float = setting(1.0, above=0)
    optimistic: bool = True  # a second policy, which trusts the larger critic, collects the source transitions
    optimist_widths: tuple[int, ...] = (256, 256)


class Learned(NamedTuple):
    """What VGDF trains beside SAC."""

    ensemble: Ensemble
    optimist: Trained | None


# VGDF+BC. There is no source to explore, hence no optimistic policy.
PAPER_OFFLINE = {"cloning": True, "balance": 5.0, "warm_up": 100_000, "optimistic": False}
# Twenty updates and a filter after 10 000 target steps; nu is 10 for some tasks, and not normalised.
RELEASED_OFFLINE = PAPER_OFFLINE | {
    "normalise_balance": False,
    "updates_per_target_step": 20,
    "ensemble_interval": 20,
    "warm_up": 200_000,
}
RELEASED_BALANCE = {"hopper-broken-joints": 10.0, "hopper-big-head": 10.0, "walker-no-right-thigh": 10.0}
RELEASED = {
    "imagined": "mean plus variance",
    "compared": "backup",
    "least_log_likelihood": -103.97,  # where a likelihood in float32 is 0; the code keeps those above its quantile
    "actor_interval": 2,
    "gradient_clip": 100.0,
    "log_std_low": -10.0,
    "loss_scale": 2.0,
    "time_limits_end": True,
}
PRESETS = {
    "paper": Preset(offline=PAPER_OFFLINE),
    "released": Preset(
        RELEASED,
        offline=RELEASED_OFFLINE,
        offline_by_task={task: {"balance": balance} for task, balance in RELEASED_BALANCE.items()},
    ),
    # As PAR's paper says that it ran that code: with a dataset, its own updates, start of the filter and nu.
    "reported": Preset(RELEASED, offline=PAPER_OFFLINE),
}


def init(key: jax.Array, hyper: Hyper, spec: Spec, sac: Any = None) -> Learned:
    ensemble_key, optimist_key = jax.random.split(key)
    optimist = None
    if hyper.optimistic:
        sizes = (spec.observation_size, *hyper.optimist_widths, 2 * spec.action_size)
        optimist = fresh(mlp(sizes, spec.initial_fan_in).init(optimist_key, state_inputs(spec)))
    return Learned(ensemble.init(ensemble_key, hyper, spec), optimist)


def optimists_sac(ctx: Context) -> Sac:
    """The optimist is a plain network, whatever the backbone, and acts in the source alone."""
    plain = {"backbone": "classic", "domain_input": "none", "actor_widths": ctx.hyper.optimist_widths}
    return dataclasses.replace(ctx.sac, **plain)


def optimist_loss(optimist: Parameters, observation: Array, key: jax.Array, ctx: Context) -> Array:
    """mean_n temperature log pi(a|s) - max_i Q_i(s, a), a ~ pi."""
    action, log_probability = act(optimist, observation, key, optimists_sac(ctx), ctx.spec)
    value = values(ctx.agent.critic.value, observation, action, ctx.sac, ctx.spec).max(0)
    return (temperature_of(ctx.agent) * log_probability - value).mean()


def learn_optimism(optimist: Trained, source: Replay, target: Replay, ctx: Context) -> tuple[Trained, Array]:
    """One step on states of both domains, as often as the actor's."""
    sac = ctx.sac
    source_key, target_key, action_key = jax.random.split(ctx.key, 3)

    def train(optimist: Trained) -> tuple[Trained, Array]:
        drawn = source.sample(source_key, sac.batch_size), target.sample(target_key, sac.batch_size)
        observation = jnp.concatenate([batch.observation for batch in drawn])
        optimist, value, _ = descend(
            lambda policy: (optimist_loss(policy, observation, action_key, ctx), None),
            optimist,
            sac.actor_learning_rate,
            sac.gradient_clip,
        )
        return optimist, value

    if sac.actor_interval == 1:
        return train(optimist)
    optimist, value = jax.lax.cond(
        ctx.step % sac.actor_interval == 0, train, lambda optimist: (optimist, jnp.zeros(())), optimist
    )
    return optimist, value * sac.actor_interval


def learn(source: Replay, target: Replay, ctx: Context) -> tuple[Learned, Metrics]:
    learned: Learned = ctx.learned
    ensemble_key, optimist_key = jax.random.split(ctx.key)
    model, value = ensemble.learn(learned.ensemble, target, ctx._replace(key=ensemble_key))
    metrics = {"ensemble loss": value}
    optimist = learned.optimist
    if optimist is not None:
        optimist, value = learn_optimism(optimist, source, target, ctx._replace(key=optimist_key))
        metrics["optimistic policy loss"] = value
    return Learned(model, optimist), metrics


def imagine(source: Batch, noise: Array, ctx: Context) -> tuple[Array, Array]:
    """(r_k [members, n], s'_k [members, n, S]): what each member makes of the source's states and actions."""
    model: Ensemble = ctx.learned.ensemble
    guess = ensemble.predict(model.live.value, model.scale.apply(ensemble.inputs_of(source)), ctx.hyper, ctx.spec)
    outcome = guess.mean
    if ctx.hyper.imagined == "sample":
        outcome = outcome + jnp.exp(0.5 * guess.log_variance) * noise
    elif ctx.hyper.imagined == "mean plus variance":
        outcome = outcome + jnp.exp(guess.log_variance)
    return outcome[..., 0], source.observation + outcome[..., 1:]


def compare(source: Batch, noise: Array, ctx: Context) -> tuple[Array, Array]:
    """(V_k [members, n], v [n]): the values the members imagine for the source transitions, and the transitions' own.

    next value:  V_k = Q(s'_k, a'_k), a'_k ~ pi;                    v = Q(s', a'), a' ~ pi
    backup:      V_k = r_k + discount Q(s'_k, pi's mean action);    v = r + discount Q(s', a'), a' ~ pi
    Q is the smaller of the target critics, 0 where the episode ends.
    """
    hyper, sac, spec, agent = ctx.hyper, ctx.sac, ctx.spec, ctx.agent
    n, size = source.observation.shape
    # Behind the barrier a GPU does not imagine every state over again inside `goes_on`, one thread for a whole row.
    reward, after = jax.lax.optimization_barrier(imagine(source, noise, ctx))
    # The members' states and the transition's own go through policy and critics as one batch.
    states = jnp.concatenate((after.reshape(-1, size), source.next_observation))
    goes = jnp.concatenate((ensemble.goes_on(after, ctx), source.terminated[None] == 0))
    if hyper.compared == "next value":
        action, _ = act(agent.actor.value, states, ctx.key, sac, spec)
    else:
        imagined, _ = act(agent.actor.value, states[:-n], None, sac, spec)
        actual, _ = act(agent.actor.value, states[-n:], ctx.key, sac, spec)
        action = jnp.concatenate((imagined, actual))
    value = values(agent.target_critic, states, action, sac, spec).min(0).reshape(-1, n)
    value = jnp.where(goes, value, 0.0)
    if hyper.compared == "backup":
        value = jnp.concatenate((reward, source.reward[None])) + sac.discount * value
    return value[:-1], value[-1]


def log_likelihood(fictitious: Array, actual: Array) -> tuple[Array, Array]:
    """[n]: log N(v; mean_k V_k, std_k V_k), and that deviation."""
    deviation = fictitious.std(0, ddof=1) + 1e-8
    off = (actual - fictitious.mean(0)) / deviation
    return -0.5 * jnp.square(off) - jnp.log(deviation) - 0.5 * LOG_2PI, deviation


def correct(source: Batch, ctx: Context) -> tuple[Batch, Metrics]:
    """Weight 1 for the `kept_share` of the transitions whose values are likeliest in the target, 0 for the others."""
    outcome_key, action_key = jax.random.split(ctx.key)
    n, size = source.observation.shape
    # Outside the branch, that a tick's may be drawn in one piece.
    noise = jax.random.normal(outcome_key, (ctx.hyper.members, n, 1 + size))

    def keep_all(source: Batch) -> tuple[Array, Array, Array]:
        return jnp.ones_like(source.weight), jnp.zeros(()), jnp.zeros(())

    def keep_likely(source: Batch) -> tuple[Array, Array, Array]:
        likelihood, deviation = log_likelihood(*compare(source, noise, ctx._replace(key=action_key)))
        least = jnp.quantile(likelihood, 1 - ctx.hyper.kept_share)
        kept = likelihood >= least
        if ctx.hyper.least_log_likelihood is not None:
            kept &= likelihood > ctx.hyper.least_log_likelihood
        return kept.astype(source.weight.dtype), least, deviation.mean()

    own, least, std = jax.lax.cond(ctx.step < ctx.hyper.warm_up, keep_all, keep_likely, source)
    weight = controls.mixed(own, ctx.hyper.weight_shuffled, ctx.hyper.weight_averaged)
    metrics = {
        "mean weight of source transitions": weight.mean(),
        "least log likelihood kept": least,
        "std of imagined values": std,
    }
    return source._replace(weight=source.weight * weight), metrics


def critic_loss(loss: Array, critic: Parameters, source: Batch, ctx: Context) -> Array:
    """Official: a mean per domain, the two of them added."""
    return ctx.hyper.loss_scale * loss


def explore(observation: Array, ctx: Context) -> Array:
    optimist = ctx.learned.optimist
    if optimist is None:
        return act(ctx.agent.actor.value, observation, ctx.key, ctx.sac, ctx.spec)[0]
    return act(optimist.value, observation, ctx.key, optimists_sac(ctx), ctx.spec)[0]


def diagnose(source: Replay, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Metrics:
    return cloning.diagnose(source, ctx) | ensemble.diagnose(ctx.learned.ensemble, target, newest, held_out, ctx)


VGDF = Method(
    "vgdf",
    "SAC on both domains, source transitions kept where their values are likely in the target",
    Hyper,
    compares_domains=True,
    pads=True,
    presets=PRESETS,
    init=init,
    learn=learn,
    correct=correct,
    critic_loss=critic_loss,
    actor_loss=cloning.actor_loss,
    explore=explore,
    diagnose=diagnose,
)
