"""Two domain classifiers whose difference is the log ratio of the dynamics (Eysenbach et al. 2021, section 4.2).

One looks at (s, a), "SA", the other at (s, a, s'), "SAS"; each gives two logits, source first. By Bayes' rule what the
second knows beyond the first is log p_target(s'|s, a) - log p_source(s'|s, a).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._util.fields import lanewise, setting
from ..._util.types import Array, Batch, Context, Spec
from ...data.replay import Replay
from ..method import Metrics
from ..networks import Inputs, Network, Parameters, Trained, descend, fresh, mlp
from . import scaling
from .scaling import Scale


@lanewise
@dataclass(frozen=True)
class Hyper:
    """The classifiers' choices; the defaults are preset `paper`."""

    classifier_learning_rate: float = setting(3e-4, above=0)
    classifier_noise: float = setting(1.0, least=0)  # std of the noise on inputs, in training only
    classifier_widths: tuple[int, ...] = (256, 256)
    classifier_batch: int = setting(128, most=10**6)  # transitions per domain and classifier step
    classifier_interval: int = 1  # updates per classifier step
    warm_up: int = setting(100_000, least=0)  # updates before the first correction; the classifiers learn all the while
    join_logits: bool = True  # the SAS logits are the SA logits plus the SAS network's
    join_same_noise: bool = True  # the SA logits so added see the SAS network's noisy (s, a), not their own
    classifier_bound: float | None = setting(None, above=0)  # logits are this times tanh of what a network gives
    standardise_inputs: bool = False  # to mean 0 and deviation 1 over both replays, before the noise


class Networks(NamedTuple):
    """Parameters of the two classifiers."""

    sa: Parameters
    sas: Parameters


class Classifiers(NamedTuple):
    """Both under one optimiser."""

    live: Trained  # of Networks
    scale: Scale | None  # of [s, a, s']; None where inputs are taken as they are


def shapes(hyper: Hyper, spec: Spec) -> tuple[Network, Network]:
    """Of SA and SAS."""
    s, a, fan_in = spec.observation_size, spec.action_size, spec.initial_fan_in
    return (
        mlp((s + a, *hyper.classifier_widths, 2), fan_in + a),
        mlp((2 * s + a, *hyper.classifier_widths, 2), 2 * fan_in + a),
    )


def init(key: jax.Array, hyper: Hyper, spec: Spec, sac: Any = None) -> Classifiers:
    sa, sas = shapes(hyper, spec)
    sa_key, sas_key = jax.random.split(key)
    scale = scaling.no_scale(sas.shapes[0][0]) if hyper.standardise_inputs else None
    sa_inputs, sas_inputs = own_inputs(spec)
    return Classifiers(fresh(Networks(sa.init(sa_key, sa_inputs), sas.init(sas_key, sas_inputs))), scale)


def own_inputs(spec: Spec) -> tuple[Inputs, Inputs] | tuple[None, None]:
    """What SA and SAS see, where the robot is padded."""
    if spec.present is None:
        return None, None
    observation, action, fan_in, _ = spec.present
    both = jnp.concatenate((observation, action, observation))
    return Inputs(both[: -len(observation)], fan_in + action.sum()), Inputs(both, 2 * fan_in + action.sum())


def inputs_of(batch: Batch) -> Array:
    """[n, 2S + A]: (s, a, s') side by side."""
    return jnp.concatenate((batch.observation, batch.action, batch.next_observation), axis=-1)


def bounded(logits: Array, hyper: Hyper) -> Array:
    """Within +-classifier_bound, so that no ratio can be larger than exp(2 classifier_bound)."""
    return logits if hyper.classifier_bound is None else hyper.classifier_bound * jnp.tanh(logits)


def margin(logits: Array) -> Array:
    """log p(target) - log p(source): what a softmax over the two would give, exactly."""
    return logits[..., 1] - logits[..., 0]


def loss(
    networks: Networks, inputs: Array, noise: tuple[Array, Array], hyper: Hyper, spec: Spec
) -> tuple[Array, Metrics]:
    """Cross-entropy of SA plus that of SAS, over [2n, 2S + A] inputs: n source transitions, then n target transitions.

    `noise` is added to the inputs of SA, [2n, S + A], and of SAS, [2n, 2S + A].
    """
    sa_network, sas_network = shapes(hyper, spec)
    size = sa_network.shapes[0][0]
    sa_inputs, sas_inputs = inputs[:, :size] + noise[0], inputs + noise[1]
    sa = bounded(sa_network.apply(networks.sa, sa_inputs), hyper)
    sas = bounded(sas_network.apply(networks.sas, sas_inputs), hyper)
    if hyper.join_logits:
        # With the noise of SAS the sum can still be any function of SAS's inputs, so that the best sum is the
        # classifier of those inputs. With another noise it would be a classifier of two noisy copies of (s, a).
        same = bounded(sa_network.apply(networks.sa, sas_inputs[:, :size]), hyper)
        sas = sas + (same if hyper.join_same_noise else sa)
    sign = jnp.repeat(jnp.array((-1.0, 1.0)), inputs.shape[0] // 2)
    metrics: Metrics = {}
    total = jnp.zeros(())
    for name, logits in (("SA", sa), ("SAS", sas)):
        right = sign * margin(logits)
        entropy = jax.nn.softplus(-right).mean()
        total = total + entropy
        metrics |= {
            f"loss of the {name} classifier": entropy,
            f"accuracy of the {name} classifier": (right > 0).mean(dtype=jnp.float32),
        }
    return total, metrics


def learn(source: Replay, target: Replay, ctx: Context) -> tuple[Classifiers, Metrics]:
    """One classifier step on fresh transitions of both domains, every `classifier_interval` updates."""
    hyper: Hyper = ctx.hyper
    scale = _rescaled(ctx.learned.scale, source, target, ctx.step)

    def train(live: Trained) -> tuple[Trained, Metrics]:
        keys = jax.random.split(ctx.key, 4)
        drawn = (replay.sample(key, hyper.classifier_batch) for replay, key in ((source, keys[0]), (target, keys[1])))
        inputs = jnp.concatenate([inputs_of(batch) for batch in drawn])
        if scale is not None:
            inputs = scale.apply(inputs)
        count, size = inputs.shape
        noise = (
            hyper.classifier_noise * jax.random.normal(keys[2], (count, size - ctx.spec.observation_size)),
            hyper.classifier_noise * jax.random.normal(keys[3], (count, size)),
        )
        sa_inputs, sas_inputs = own_inputs(ctx.spec)
        if sa_inputs is not None and sas_inputs is not None:
            noise = noise[0] * sa_inputs.present, noise[1] * sas_inputs.present
        live, _, metrics = descend(
            lambda networks: loss(networks, inputs, noise, hyper, ctx.spec), live, hyper.classifier_learning_rate
        )
        return live, metrics

    if hyper.classifier_interval == 1:
        live, metrics = train(ctx.learned.live)
    else:
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(train, ctx.learned.live)[1])
        live, metrics = jax.lax.cond(
            ctx.step % hyper.classifier_interval == 0, train, lambda live: (live, nothing), ctx.learned.live
        )
    # Updates without a classifier step report 0: the factor keeps the mean over updates right.
    return Classifiers(live, scale), {name: value * hyper.classifier_interval for name, value in metrics.items()}


def _rescaled(scale: Scale | None, source: Replay, target: Replay, step: Array) -> Scale | None:
    if scale is None:
        return None

    def fit() -> Scale:
        return scaling.fit_joined(*((inputs_of(batch), size) for r in (source, target) for batch, size in r.stored()))

    rescaled: Scale = jax.lax.cond(step % scaling.INTERVAL == 0, fit, lambda: scale)
    return rescaled


def log_ratio(batch: Batch, ctx: Context) -> Array:
    """[n]: log p_target(s'|s, a) - log p_source(s'|s, a), without noise.

    The margin of SAS less that of SA; where logits are joined, that of SA cancels.
    """
    sa_network, sas_network = shapes(ctx.hyper, ctx.spec)
    networks: Networks = ctx.learned.live.value
    inputs = inputs_of(batch)
    if ctx.learned.scale is not None:
        inputs = ctx.learned.scale.apply(inputs)
    ratio = margin(bounded(sas_network.apply(networks.sas, inputs), ctx.hyper))
    if not ctx.hyper.join_logits:
        own = sa_network.apply(networks.sa, inputs[:, : sa_network.shapes[0][0]])
        ratio = ratio - margin(bounded(own, ctx.hyper))
    return ratio
