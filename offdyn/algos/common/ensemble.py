"""Several networks that each predict reward and next state with a variance, trained in the target (VGDF's model)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._util.fields import setting
from ..._util.types import Array, Batch, Context, Spec
from ...data.replay import Replay
from ..method import Metrics
from ..networks import Network, Parameters, Trained, descend, fresh, mlp
from ..sac import pair_inputs
from . import scaling
from .scaling import Scale

LOG_VARIANCE = (-10.0, 0.5)  # soft bounds; the released code freezes them too
LOG_2PI = 1.8378770664093453


@dataclass(frozen=True)
class Modelling:
    """Settings of the ensemble, for the Hyper of a method that has one."""

    ensemble_learning_rate: float = setting(1e-3, above=0)
    ensemble_decay: float = setting(1.0, least=0)  # times the released code's decay of each layer
    members: int = setting(7, least=2, most=1000)
    ensemble_widths: tuple[int, ...] = (200, 200, 200, 200)
    ensemble_interval: int = 10  # updates per ensemble step: one step per target step, at the usual ten updates
    ensemble_batch: int = setting(256, most=10**6)  # target transitions per member and ensemble step


class Ensemble(NamedTuple):
    """The members under one optimiser, and what their inputs are divided by."""

    live: Trained  # every array has a leading axis of members
    scale: Scale


class Prediction(NamedTuple):
    """What each member expects of [r, s' - s], [members, n, 1 + S]."""

    mean: Array
    log_variance: Array


def network(hyper: Any, spec: Spec) -> Network:
    inputs = spec.observation_size + spec.action_size
    return mlp((inputs, *hyper.ensemble_widths, 2 * (1 + spec.observation_size)), inputs, activation="swish")


def init(key: jax.Array, hyper: Any, spec: Spec) -> Ensemble:
    """Weights normal with deviation 1 / (2 sqrt(fan_in)), biases 0; all 0 for what a padded robot does not have."""
    layers = network(hyper, spec).shapes
    numbers = jax.random.normal(key, (hyper.members, sum(a * b for a, b in layers)))
    arrays: list[Array] = []
    start = 0
    for rows, columns in layers:
        drawn = numbers[:, start : start + rows * columns]
        arrays.append(drawn.reshape(-1, rows, columns) / (2 * math.sqrt(rows)))
        arrays.append(jnp.zeros((hyper.members, columns)))
        start += rows * columns
    if (seen := pair_inputs(spec)) is not None:
        arrays[0] = arrays[0] * seen.present[:, None] * jnp.sqrt(layers[0][0] / seen.present.sum())
        arrays[-2] = arrays[-2] * jnp.tile(own_outcomes(spec), 2)
    return Ensemble(fresh(tuple(arrays)), scaling.no_scale(layers[0][0]))


def own_outcomes(spec: Spec) -> Array:
    """[1 + S]: 1 for r and the entries of s' - s that the robot has, 0 for those that only fill up."""
    return jnp.ones(1 + spec.observation_size) if spec.present is None else jnp.append(1.0, spec.present.observation)


def mean_of_own(outcomes: Array, spec: Spec) -> Array:
    """[..., 1 + S] -> [...]: the mean over the entries that the robot has."""
    own = own_outcomes(spec)
    return (outcomes * own).sum(-1) / own.sum()


def inputs_of(batch: Batch) -> Array:
    return jnp.concatenate((batch.observation, batch.action), axis=-1)


def outcomes_of(batch: Batch) -> Array:
    """[..., 1 + S]: r and s' - s."""
    return jnp.concatenate((batch.reward[..., None], batch.next_observation - batch.observation), axis=-1)


def predict(members: Parameters, scaled: Array, hyper: Any, spec: Spec) -> Prediction:
    """Of scaled inputs [n, S + A], the same for all members, or [members, n, S + A], each its own."""
    axes = (0, None if scaled.ndim == 2 else 0)
    mean, raw = jnp.split(jax.vmap(network(hyper, spec).apply, in_axes=axes)(members, scaled), 2, axis=-1)
    low, high = LOG_VARIANCE
    below = high - jax.nn.softplus(high - raw)
    return Prediction(mean, low + jax.nn.softplus(below - low))


def decays(layers: int) -> list[float]:
    """Weight decay of each layer: the released code's five; other depths have more or fewer of the middle ones."""
    return [*[2.5e-5, 5e-5, *[7.5e-5] * (layers - 3)][: layers - 1], 1e-4]


def loss(members: Parameters, scaled: Array, outcomes: Array, hyper: Any, spec: Spec) -> Array:
    """sum over members of mean((mean - y)^2 / variance) + mean(log variance), plus the decay of the weights."""
    guess = predict(members, scaled, hyper, spec)
    errors = jnp.square(guess.mean - outcomes) * jnp.exp(-guess.log_variance)
    fit = mean_of_own(errors + guess.log_variance, spec).mean(1).sum()
    weights = members[0::2]
    decay = sum(rate * jnp.square(weight).sum() for rate, weight in zip(decays(len(weights)), weights, strict=True))
    return fit + 0.5 * hyper.ensemble_decay * decay


def learn(ensemble: Ensemble, target: Replay, ctx: Context) -> tuple[Ensemble, Array]:
    """A fixed amount of training: one step, each member on its own transitions, every `ensemble_interval` updates."""
    hyper, spec = ctx.hyper, ctx.spec

    def refit(_: Scale) -> Scale:
        return scaling.fit_joined(*((inputs_of(batch), size) for batch, size in target.stored()))

    def train(ensemble: Ensemble) -> tuple[Ensemble, Array]:
        # At the first step of every 250 updates; inside this branch, as each branch costs a GPU a pause.
        due = ctx.step % scaling.INTERVAL < hyper.ensemble_interval
        scale = jax.lax.cond(due, refit, lambda scale: scale, ensemble.scale)
        batch = target.sample(ctx.key, hyper.members * hyper.ensemble_batch)
        inputs, outcomes = (
            x.reshape(hyper.members, hyper.ensemble_batch, -1)
            for x in (scale.apply(inputs_of(batch)), outcomes_of(batch))
        )
        live, value, _ = descend(
            lambda members: (loss(members, inputs, outcomes, hyper, spec), None),
            ensemble.live,
            hyper.ensemble_learning_rate,
        )
        return Ensemble(live, scale), value

    if hyper.ensemble_interval == 1:
        return train(ensemble)
    ensemble, value = jax.lax.cond(
        ctx.step % hyper.ensemble_interval == 0, train, lambda ensemble: (ensemble, jnp.zeros(())), ensemble
    )
    # Updates without a step report 0: the factor keeps the mean over updates right.
    return ensemble, value * hyper.ensemble_interval


def goes_on(next_observation: Array, ctx: Context) -> Array:
    """Whether an imagined next state is none that ends an episode; ends are defined on raw observations."""
    raw = next_observation if ctx.moments is None else ctx.moments.restore(next_observation)
    return ~ctx.spec.ends(raw) & jnp.isfinite(raw).all(-1)


def diagnose(ensemble: Ensemble, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Metrics:
    """How well the ensemble knows the target: 1 is the error of always saying the mean change."""
    stored = target.view(target.packed)
    unit = scaling.fit(stored.next_observation - stored.observation, target.size).deviation
    metrics: Metrics = {}
    for name, batch in (("fresh", newest), ("held-out", held_out)):
        error, likelihood = errors(ensemble, batch, unit, ctx.hyper, ctx.spec)
        metrics[f"ensemble error on {name} target transitions"] = error
        metrics[f"ensemble log likelihood on {name} target transitions"] = likelihood
    return metrics


def errors(ensemble: Ensemble, batch: Batch, unit: Array, hyper: Any, spec: Spec) -> tuple[Array, Array]:
    """(RMS error of s' - s in `unit`s, log-likelihood per dimension of [r, s' - s]), over the transitions' weights.

    The error is that of the members' mean; the likelihood is each member's own, averaged.
    """
    guess = predict(ensemble.live.value, ensemble.scale.apply(inputs_of(batch)), hyper, spec)
    outcomes = outcomes_of(batch)
    weight = batch.weight / batch.weight.sum()  # not a number where there are no transitions
    off = (guess.mean.mean(0) - outcomes)[:, 1:] / unit  # 0 for what only fills up
    likelihood = -0.5 * (
        jnp.square(guess.mean - outcomes) * jnp.exp(-guess.log_variance) + guess.log_variance + LOG_2PI
    )
    error = jnp.square(off).sum(-1) / own_outcomes(spec)[1:].sum()
    return jnp.sqrt((error * weight).sum()), (mean_of_own(likelihood, spec).mean(0) * weight).sum()
