"""PAR: penalise a source reward by how far the next state is from what the target's dynamics would give.

Lyu et al. 2024, "Cross-Domain Policy Adaptation by Capturing Representation Mismatch". Two encoders are trained on
target transitions only: f codes a state, g predicts the next state's code (section 4). How far the prediction is off
on a source transition says how far its dynamics are from the target's. Presets: docs/methods/par.md and offline.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._util.fields import WIDEST, lanewise, setting
from .._util.types import Array, Batch, Context, Spec
from ..data.replay import Replay
from .common import cloning, controls
from .common.cloning import Cloning
from .method import Method, Metrics, Preset
from .networks import ACTIVATIONS, Inputs, Parameters, Trained, descend, drift, fresh, mlp
from .sac import pair_inputs, state_inputs


@lanewise
@dataclass(frozen=True)
class Hyper(Cloning):
    """The encoders' choices and the penalty's weight; the defaults are preset `paper`."""

    penalty: float = setting(0.5, least=0)  # beta: weight of the deviation in the source reward
    encoder_learning_rate: float = setting(3e-4, above=0)
    slow_rate: float = setting(0.005, above=0, most=1)  # Polyak rate of the slow encoders
    objective: str = setting("par", choices=("par", "par-b"))  # below
    encoder_interval: int = 1  # updates per encoder step
    encoder_batch: int = setting(128, most=10**6)  # target transitions per encoder step
    slow_encoder: bool = False  # measure deviations with slow copies of f and g
    encoder_widths: tuple[int, ...] = (256, 256)
    code_size: int = setting(256, most=WIDEST)
    encoder_activation: str = setting("elu", choices=tuple(ACTIVATIONS))
    normalise_code: bool = True  # AvgL1Norm on f
    weigh: bool = False  # source transitions count min(1, usual / deviation) in place of a penalty
    # Controls: does it matter which transitions are penalised? How much of a transition's deviation is not its own ...
    deviation_shuffled: float = setting(0.0, least=0, most=1)  # ... but that of another transition of the batch
    deviation_averaged: float = setting(0.0, least=0, most=1)  # ... but the mean of the batch


class Networks(NamedTuple):
    """Both encoders: their parameters, or their shapes."""

    f: Any
    g: Any


class Encoders(NamedTuple):
    """f and g under one optimiser, and the slow copies, where they measure."""

    live: Trained  # of Networks
    slow: Networks | None
    usual: Array = 0.0  # [], the deviation in the target, averaged over some 200 updates; 0 where nothing is weighed


def shapes(hyper: Hyper, spec: Spec) -> Networks:
    """f's and g's. PAR's g sees a code, PAR-B's the state itself."""
    state = spec.observation_size, spec.initial_fan_in
    seen, fan_in = (hyper.code_size,) * 2 if hyper.objective == "par" else state
    build = partial(mlp, activation=hyper.encoder_activation)
    f = build((spec.observation_size, *hyper.encoder_widths, hyper.code_size), spec.initial_fan_in)
    g = build((seen + spec.action_size, *hyper.encoder_widths, hyper.code_size), fan_in + spec.action_size)
    return Networks(f, g)


def prediction_inputs(hyper: Hyper, spec: Spec) -> Inputs | None:
    """What g sees, where the robot is padded."""
    if spec.present is None or hyper.objective == "par-b":
        return pair_inputs(spec)
    action = spec.present.action
    return Inputs(jnp.concatenate((jnp.ones(hyper.code_size), action)), hyper.code_size + action.sum())


def init(key: jax.Array, hyper: Hyper, spec: Spec, sac: Any = None) -> Encoders:
    (f_key, g_key), (f, g) = jax.random.split(key), shapes(hyper, spec)
    networks = Networks(f.init(f_key, state_inputs(spec)), g.init(g_key, prediction_inputs(hyper, spec)))
    slow = jax.tree.map(jnp.array, networks) if hyper.slow_encoder else None
    return Encoders(fresh(networks), slow, jnp.zeros(()))


def code(f: Parameters, observation: Array, hyper: Hyper, spec: Spec) -> Array:
    """f(s), divided by its mean absolute entry (AvgL1Norm): without it f could shrink to zero."""
    z = shapes(hyper, spec).f.apply(f, observation)
    return z / jnp.maximum(jnp.abs(z).mean(-1, keepdims=True), 1e-8) if hyper.normalise_code else z


def deviation(networks: Networks, batch: Batch, hyper: Hyper, spec: Spec) -> Array:
    """[n]: D(s, a, s'), the mean squared distance of the code that g predicts from the code of what came.

    par:    g(f(s), a) against f(s'), which gets no gradient (equation 1)
    par-b:  g(s, a) against f(s'), both trained (section 6.1); a constant f with g equal to it is a global minimum
    """
    actual = code(networks.f, batch.next_observation, hyper, spec)
    seen = batch.observation
    if hyper.objective == "par":
        seen, actual = code(networks.f, seen, hyper, spec), jax.lax.stop_gradient(actual)
    predicted = shapes(hyper, spec).g.apply(networks.g, jnp.concatenate((seen, batch.action), axis=-1))
    return jnp.square(predicted - actual).mean(-1)


def measure(batch: Batch, ctx: Context) -> Array:
    """[n]: the deviation by the encoders that the penalty uses."""
    encoders: Encoders = ctx.learned
    return deviation(encoders.live.value if encoders.slow is None else encoders.slow, batch, ctx.hyper, ctx.spec)


def learn(source: Replay, target: Replay, ctx: Context) -> tuple[Encoders, Metrics]:
    """One encoder step on fresh target transitions, every `encoder_interval` updates; the slow copies drift in all."""
    encoders, hyper = ctx.learned, ctx.hyper
    if encoders.slow is not None:
        encoders = encoders._replace(slow=drift(encoders.slow, encoders.live.value, hyper.slow_rate))

    def train(live: Trained) -> tuple[Trained, Array]:
        batch = target.sample(ctx.key, hyper.encoder_batch)
        live, value, _ = descend(
            lambda networks: (deviation(networks, batch, hyper, ctx.spec).mean(), None),
            live,
            hyper.encoder_learning_rate,
        )
        return live, value

    if hyper.encoder_interval == 1:
        live, value = train(encoders.live)
    else:
        live, value = jax.lax.cond(
            ctx.step % hyper.encoder_interval == 0, train, lambda live: (live, jnp.zeros(())), encoders.live
        )
    encoders = encoders._replace(live=live)
    if hyper.weigh:
        seen = target.sample(jax.random.fold_in(ctx.key, 1), hyper.encoder_batch)
        encoders = encoders._replace(
            usual=drift(encoders.usual, measure(seen, ctx._replace(learned=encoders)).mean(), 0.005)
        )
    # Updates without an encoder step report 0: the factor keeps the mean over updates right.
    return encoders, {"encoder loss": value * hyper.encoder_interval}


def correct(source: Batch, ctx: Context) -> tuple[Batch, Metrics]:
    """r <- r - penalty * deviation (equation 2), or weight <- min(1, usual / deviation)."""
    away = controls.mixed(measure(source, ctx), ctx.hyper.deviation_shuffled, ctx.hyper.deviation_averaged)
    metrics = {"deviation on source transitions": away.mean(), "source reward size": jnp.abs(source.reward).mean()}
    if ctx.hyper.weigh:
        weight = jnp.minimum(1.0, ctx.learned.usual / jnp.maximum(away, 1e-8))
        return source._replace(weight=weight), metrics | {"mean weight of source transitions": weight.mean()}
    penalty = ctx.hyper.penalty * away
    return source._replace(reward=source.reward - penalty), metrics | {"reward penalty": penalty.mean()}


@jax.custom_batching.sequential_vmap
def _eigenvalues_one_by_one(symmetric: Array) -> Array:
    return jnp.linalg.eigvalsh(symmetric)


def eigenvalues(symmetric: Array) -> Array:
    """Of one matrix per lane.

    On a CPU, XLA hands out a batch of decompositions among its threads and waits for them on one of these threads:
    with lanes on as many devices as there are threads, each of them waited for the others, for ever.
    """
    return (_eigenvalues_one_by_one if jax.default_backend() == "cpu" else jnp.linalg.eigvalsh)(symmetric)


def diagnose(source: Replay, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Metrics:
    """What tells a collapsed code from a good prediction."""
    codes = code(ctx.learned.live.value.f, newest.observation, ctx.hyper, ctx.spec)
    codes = codes - codes.mean(0)
    variance = jnp.square(codes).mean()
    # exp of the entropy of the normalised squared singular values: 1 for a line, code_size for a ball.
    spectrum = jnp.maximum(eigenvalues(codes @ codes.T), 0.0)
    share = spectrum / jnp.maximum(spectrum.sum(), 1e-12)
    rank = jnp.exp(-(share * jnp.log(jnp.maximum(share, 1e-12))).sum())
    rank = jnp.where(variance > 1e-10, rank, 1.0)  # below that the spectrum is rounding noise
    weight = held_out.weight / held_out.weight.sum()  # not a number before there are any
    return {
        "deviation on fresh target transitions": measure(newest, ctx).mean(),
        "deviation on held-out target transitions": (measure(held_out, ctx) * weight).sum(),
        "variance of the code": variance,
        "effective rank of the code": rank,
    } | cloning.diagnose(source, ctx)


# beta by task: the paper's table, and the released code's README, the first-named where it names two.
PENALTIES = {  # task: paper, released
    "halfcheetah-broken-back-thigh": (1.0, 5.0),
    "halfcheetah-no-thighs": (2.0, 5.0),
    "hopper-broken-joints": (0.5, 0.05),
    "hopper-big-head": (0.5, 0.05),
    "walker-broken-right-foot": (0.5, 0.1),
    "walker-no-right-thigh": (0.5, 0.1),
    "ant-broken-hips": (0.1, 0.01),
    "ant-short-feet": (0.1, 0.01),
    "jetpack": (2.0, 2.0),  # ours, for the toy environment
}
PENALTY_ELSEWHERE = 0.5
# Where the source is a dataset: one beta and one nu for all tasks.
PAPER_OFFLINE = {"cloning": True, "balance": 5.0, "penalty": 1.0}
RELEASED_OFFLINE = {"cloning": True, "balance": 2.5, "penalty": 1.0, "encoder_batch": 128, "slow_encoder": False}
REPORTED_OFFLINE = RELEASED_OFFLINE | {"balance": 5.0, "critic_layer_norm": True}  # the released code's own command


def _preset(column: int, offline: Mapping[str, object], **fields: object) -> Preset:
    by_task = {task: {"penalty": penalties[column]} for task, penalties in PENALTIES.items()}
    return Preset(fields, by_task, otherwise={"penalty": PENALTY_ELSEWHERE}, offline=offline)


def _presets(**fields: object) -> dict[str, Preset]:
    released = {"encoder_interval": 200, "encoder_batch": 64, "slow_encoder": True, "source_noise": 0.2}
    return {
        "reported": _preset(0, REPORTED_OFFLINE, **released, **fields),  # what the paper's figures are most likely of
        "paper": _preset(0, PAPER_OFFLINE, **fields),
        "released": _preset(1, RELEASED_OFFLINE, **released, **fields),
        "printed": _preset(0, PAPER_OFFLINE, encoder_activation="relu", normalise_code=False, **fields),
    }


PRESETS = _presets()
PAR = Method(
    "par",
    "SAC on both domains, source rewards penalised by representation mismatch",
    Hyper,
    compares_domains=True,
    pads=True,
    presets=PRESETS,
    init=init,
    learn=learn,
    correct=correct,
    actor_loss=cloning.actor_loss,
    diagnose=diagnose,
)
PAR_B = replace(
    PAR,
    name="par-b",
    summary="PAR with the paper's alternative encoder objective, which can collapse",
    presets=_presets(objective="par-b"),
)
