"""PAR's two encoders: f codes a state, g predicts the next state's code (Lyu et al. 2024, section 4).

Trained on target rows only. How far the prediction is off on a source row says how far that row's dynamics are from
the target's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...data.replay import Replay
from ...fields import lanewise
from ...learning.networks import Inputs, Layout, Parameters, Trained, descend, drift, fresh
from ...learning.sac import state_inputs
from ...types import Array, Batch, Context, Spec
from ..method import Method, Notes, Preset
from . import cloning, controls
from .cloning import Cloning


@lanewise
@dataclass(frozen=True)
class Hyper(Cloning):
    """The encoders' choices and the penalty's weight; the defaults are preset `paper`."""

    penalty: float = 0.5  # beta: weight of the deviation in the source reward
    encoder_learning_rate: float = 3e-4
    slow_rate: float = 0.005  # Polyak rate of the slow encoders
    encoder_interval: int = 1  # updates per encoder step
    encoder_batch: int = 128  # target rows per encoder step
    slow_encoder: bool = False  # measure deviations with slow copies of f and g
    encoder_widths: tuple[int, ...] = (256, 256)
    code_size: int = 256
    encoder_activation: str = "elu"
    normalise_code: bool = True  # AvgL1Norm on f
    # Controls, to see whether it matters which rows are penalised: how much of a row's deviation is not its own ...
    deviation_shuffled: float = 0.0  # ... but that of another row of the batch
    deviation_averaged: float = 0.0  # ... but the mean of the batch


class Networks(NamedTuple):
    """Parameters of the two encoders."""

    f: Parameters
    g: Parameters


class Slow(NamedTuple):
    """Slow copies of f and g, which drift towards the live ones in every update.

    Between two encoder steps the live ones stand still, and k updates make one drift of 1 - (1 - rate)^k: written to
    memory once per encoder step.
    """

    start: Networks  # the copies at the last encoder step
    moved: Array  # [], how much of the way to the live ones they have gone since


class Encoders(NamedTuple):
    """f and g under one optimiser."""

    live: Trained  # of Networks
    slow: Slow | None  # None where no slow copy is kept

    @property
    def measuring(self) -> Networks:
        """Those that the penalty uses."""
        return self.live.value if self.slow is None else drift(self.slow.start, self.live.value, self.slow.moved)

    def rounded(self, pair: "Pair") -> Networks:
        """The same where products round: the slow copies as the mean of rounded ones, which take half the memory."""
        if self.slow is None:
            return self.live.value
        start, live = (
            Networks(pair.state.with_rounded_weights(each.f), pair.prediction.with_rounded_weights(each.g))
            for each in (self.slow.start, self.live.value)
        )
        return drift(start, live, self.slow.moved)


class Pair(NamedTuple):
    """Layouts of f and g."""

    state: Layout  # f
    prediction: Layout  # g

    def at(self, precision: str) -> "Pair":
        return Pair(self.state._replace(precision=precision), self.prediction._replace(precision=precision))


Layouts = Callable[[Hyper, Spec], Pair]
PredictionInputs = Callable[[Hyper, Spec], Inputs | None]  # what g sees, where the robot is padded
# (networks, rows, hyper, layouts) -> code of the next state as predicted, and as it is.
Predict = Callable[[Networks, Batch, Hyper, Pair], tuple[Array, Array]]


def state_layout(hyper: Hyper, spec: Spec) -> Layout:
    sizes = (spec.observation_size, *hyper.encoder_widths, hyper.code_size)
    return Layout(sizes, spec.initial_fan_in, activation=hyper.encoder_activation)


def init(key: jax.Array, hyper: Hyper, pair: Pair, f_inputs: Inputs | None, g_inputs: Inputs | None) -> Encoders:
    f_key, g_key = jax.random.split(key)
    networks = Networks(pair.state.init(f_key, f_inputs), pair.prediction.init(g_key, g_inputs))
    slow = Slow(jax.tree.map(jnp.array, networks), jnp.zeros(())) if hyper.slow_encoder else None
    return Encoders(fresh(networks), slow)


def code(f: Parameters, observation: Array, hyper: Hyper, pair: Pair, learning_rows: int | None = None) -> Array:
    """f(s), divided by its mean absolute entry (AvgL1Norm): without it f could shrink to zero."""
    z = pair.state.apply(f, observation, learning_rows)
    if hyper.normalise_code:
        z = z / jnp.maximum(jnp.abs(z).mean(-1, keepdims=True), 1e-8)
    return z


def deviation(predicted: Array, actual: Array) -> Array:
    """[n]: the squared distance of the two codes, averaged over the code's dimensions."""
    return jnp.square(predicted - actual).mean(-1)


def learn(predict: Predict, pair: Pair, target: Replay, ctx: Context) -> tuple[Encoders, Notes]:
    """One encoder step on fresh target rows, every `encoder_interval` updates."""
    encoders: Encoders = ctx.learned
    hyper: Hyper = ctx.hyper
    if encoders.slow is not None:
        # Moved at the end of every update, together with the target critics; the live encoders have not changed since.
        moved = drift(encoders.slow.moved, 1.0, hyper.slow_rate)
        encoders = encoders._replace(slow=encoders.slow._replace(moved=moved))

    def train(encoders: Encoders) -> tuple[Encoders, Array]:
        rows = target.sample(ctx.key, hyper.encoder_batch)

        def loss(networks: Networks) -> tuple[Array, None]:
            return deviation(*predict(networks, rows, hyper, pair)).mean(), None

        live, value, _ = descend(loss, encoders.live, hyper.encoder_learning_rate)
        slow = None if encoders.slow is None else Slow(encoders.measuring, jnp.zeros(()))
        return Encoders(live, slow), value

    if hyper.encoder_interval == 1:
        encoders, value = train(encoders)
    else:
        encoders, value = jax.lax.cond(
            ctx.step % hyper.encoder_interval == 0, train, lambda encoders: (encoders, jnp.zeros(())), encoders
        )
    # Updates without an encoder step report 0: the factor keeps the mean over updates right.
    return encoders, {"encoder loss": value * hyper.encoder_interval}


def measure(predict: Predict, pair: Pair, rows: Batch, ctx: Context) -> Array:
    """[n]: the deviation of each row, with the encoders that the penalty uses."""
    return deviation(*predict(ctx.learned.rounded(pair), rows, ctx.hyper, pair))


def correct(predict: Predict, pair: Pair, source: Batch, ctx: Context) -> tuple[Batch, Notes]:
    """r <- r - penalty * deviation (equation 4 of the paper)."""
    own = measure(predict, pair, source, ctx)
    away = controls.mixed(own, ctx.hyper.deviation_shuffled, ctx.hyper.deviation_averaged)
    deducted = ctx.hyper.penalty * away
    notes = {
        "reward penalty": deducted.mean(),
        "deviation on source rows": away.mean(),
        "source reward size": jnp.abs(source.reward).mean(),
    }
    return source._replace(reward=source.reward - deducted), notes


@jax.custom_batching.sequential_vmap
def _eigenvalues_one_by_one(symmetric: Array) -> Array:
    return jnp.linalg.eigvalsh(symmetric)


def eigenvalues(symmetric: Array) -> Array:
    """Of one matrix per lane.

    On a CPU, XLA hands out a batch of decompositions among its threads and waits for them on one of these threads:
    with lanes on as many devices as there are threads, each of them waited for the others, for ever.
    """
    return (_eigenvalues_one_by_one if jax.default_backend() == "cpu" else jnp.linalg.eigvalsh)(symmetric)


def diagnose(predict: Predict, pair: Pair, newest: Batch, held_out: Batch, ctx: Context) -> Notes:
    """What tells a collapsed code from a good prediction."""
    codes = code(ctx.learned.live.value.f, newest.observation, ctx.hyper, pair)
    codes = codes - codes.mean(0)
    variance = jnp.square(codes).mean()
    # exp of the entropy of the normalised squared singular values: 1 for a line, code_size for a ball.
    spectrum = jnp.maximum(eigenvalues(codes @ codes.T), 0.0)
    share = spectrum / jnp.maximum(spectrum.sum(), 1e-12)
    rank = jnp.exp(-(share * jnp.log(jnp.maximum(share, 1e-12))).sum())
    rank = jnp.where(variance > 1e-10, rank, 1.0)  # below that the spectrum is rounding noise
    weight = held_out.weight / held_out.weight.sum()  # not a number before there are any
    return {
        "deviation on fresh target rows": measure(predict, pair, newest, ctx).mean(),
        "deviation on held-out target rows": (measure(predict, pair, held_out, ctx) * weight).sum(),
        "variance of the code": variance,
        "effective rank of the code": rank,
    }


def mismatch_method(
    name: str,
    summary: str,
    presets: Mapping[str, Preset],
    layouts: Layouts,
    predict: Predict,
    prediction_inputs: PredictionInputs,
) -> Method:
    """SAC with the source rewards penalised by the deviation of these encoders."""

    def pair_of(ctx: Context) -> Pair:
        return layouts(ctx.hyper, ctx.spec).at(ctx.sac.precision)

    def init_lane(key: jax.Array, hyper: Hyper, spec: Spec) -> Encoders:
        return init(key, hyper, layouts(hyper, spec), state_inputs(spec), prediction_inputs(hyper, spec))

    def learn_lane(source: Replay, target: Replay, ctx: Context) -> tuple[Encoders, Notes]:
        return learn(predict, pair_of(ctx), target, ctx)

    def correct_lane(source: Batch, ctx: Context) -> tuple[Batch, Notes]:
        return correct(predict, pair_of(ctx), source, ctx)

    def diagnose_lane(source: Replay, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Notes:
        seen = diagnose(predict, pair_of(ctx), newest, held_out, ctx)
        return seen | cloning.diagnose(source, ctx)

    return Method(
        name,
        summary,
        Hyper,
        compares_domains=True,
        pads=True,
        presets=presets,
        init=init_lane,
        learn=learn_lane,
        correct=correct_lane,
        actor_loss=cloning.actor_loss,
        diagnose=diagnose_lane,
    )
