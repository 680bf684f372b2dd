"""Model backup: source transitions lead where an ensemble trained in the target says, and pay what it says.

The idea is that of Qiao et al. 2026, "Dual-Robust Cross-Domain Offline Reinforcement Learning Against Dynamics Shifts"
(DROCO), whose backups of source transitions take next states of a model of the target. What is ours:
docs/methods/sac.md.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._util.fields import lanewise, setting
from .._util.types import Array, Batch, Context, Spec
from ..data.replay import Replay
from .common import ensemble
from .common.ensemble import Ensemble, Modelling, Prediction
from .method import Method, Metrics, Preset
from .networks import drift

USUAL_RATE = 0.005  # per ensemble step, of the usual disagreement


@lanewise
@dataclass(frozen=True)
class Hyper(Modelling):
    """The ensemble's choices, and when it is trusted."""

    ensemble_interval: int = 5  # updates per ensemble step: one step per target step, at the five updates of `simba`
    warm_up: int = setting(10_000, least=0)  # updates before source transitions count


class Learned(NamedTuple):
    """The model of the target."""

    ensemble: Ensemble
    usual: Array  # [], how much the members disagree on target transitions, averaged over some 200 ensemble steps


def init(key: jax.Array, hyper: Hyper, spec: Spec, sac: Any = None) -> Learned:
    return Learned(ensemble.init(key, hyper, spec), jnp.zeros(()))


def expect(learned: Learned, batch: Batch, ctx: Context) -> Prediction:
    """What each member expects of the batch's states and actions."""
    model = learned.ensemble
    return ensemble.predict(model.live.value, model.scale.apply(ensemble.inputs_of(batch)), ctx.hyper, ctx.spec)


def disagreement(guess: Prediction, spec: Spec) -> Array:
    """[n]: the variance of the members' means, in units of the variance they expect, averaged over entries."""
    return ensemble.mean_of_own(guess.mean.var(0) / jnp.exp(guess.log_variance).mean(0), spec)


def learn(source: Replay, target: Replay, ctx: Context) -> tuple[Learned, Metrics]:
    """The ensemble's step, when one is due, and after it what disagreement is usual in the target."""
    model, value = ensemble.learn(ctx.learned.ensemble, target, ctx)
    learned = Learned(model, ctx.learned.usual)

    def measure(usual: Array) -> Array:
        seen = target.sample(jax.random.fold_in(ctx.key, 1), ctx.hyper.ensemble_batch)
        return drift(usual, disagreement(expect(learned, seen, ctx), ctx.spec).mean(), USUAL_RATE)

    due = ctx.step % ctx.hyper.ensemble_interval == 0
    usual = jax.lax.cond(due, measure, lambda usual: usual, learned.usual)
    return Learned(model, usual), {"ensemble loss": value, "disagreement on target transitions": usual}


def correct(source: Batch, ctx: Context) -> tuple[Batch, Metrics]:
    """[r, s' - s] <- a sample of one member, drawn for each transition; weight <- min(1, usual / disagreement).

    It ends where the imagined state ends an episode, and where the source's own did. Before the warm-up ends, and there
    is a model to speak of, no source transition counts.
    """
    member_key, noise_key = jax.random.split(ctx.key)
    n, size = source.observation.shape
    guess = expect(ctx.learned, source, ctx)
    member = jax.random.randint(member_key, (n,), 0, ctx.hyper.members)
    mean, log_variance = (of_all[member, jnp.arange(n)] for of_all in guess)
    noise = jax.random.normal(noise_key, (n, 1 + size))
    outcome = (mean + jnp.exp(0.5 * log_variance) * noise) * ensemble.own_outcomes(ctx.spec)
    reward, after = outcome[:, 0], source.observation + outcome[:, 1:]
    ended = jnp.maximum(source.terminated, ~ensemble.goes_on(after, ctx))
    apart = disagreement(guess, ctx.spec)
    trusted = jnp.minimum(1.0, ctx.learned.usual / jnp.maximum(apart, 1e-8))
    weight = jnp.where(ctx.step < ctx.hyper.warm_up, 0.0, trusted)
    imagined = source._replace(reward=reward, next_observation=after, terminated=ended, weight=source.weight * weight)
    return imagined, {
        "mean weight of source transitions": weight.mean(),
        "disagreement on source transitions": apart.mean(),
        "change of source rewards": jnp.abs(reward - source.reward).mean(),
    }


def diagnose(source: Replay, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Metrics:
    return ensemble.diagnose(ctx.learned.ensemble, target, newest, held_out, ctx)


MODEL_BACKUP = Method(
    "model-backup",
    "SAC on both domains, source transitions with the outcome that a model of the target expects",
    Hyper,
    compares_domains=True,
    pads=True,
    presets={"simba": Preset({"backbone": "simba"})},
    init=init,
    learn=learn,
    correct=correct,
    diagnose=diagnose,
)
