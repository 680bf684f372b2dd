"""Networks as a list of steps over a plain tuple of arrays, and Adam whose rate may differ by lane."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Parameters = tuple[jax.Array, ...]
PRECISIONS = ("float32", "full", "bfloat16")  # of products: as the device computes them; all in float32; rounded
ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)  # PyTorch's defaults; the rate is ours to apply
EMBEDDING = 32  # numbers that stand for a domain where it is embedded (BRC, Nauman et al. 2025)


def elu(x: jax.Array) -> jax.Array:
    """exp(x) - 1 below zero. Twice as fast as with expm1, whose gain, below 1e-7, an activation does not need."""
    return jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0.0)) - 1.0)


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": jax.nn.relu, "elu": elu, "swish": jax.nn.swish}
DOMAIN_INPUTS = {"none": 0, "flag": 1, "embedding": EMBEDDING}  # and how many inputs they are


class Inputs(NamedTuple):
    """Which of a network's inputs there are, where some only fill up."""

    present: jax.Array  # [input], 1 or 0
    fan_in: jax.Array  # [], for the size of the first weights


class Network(NamedTuple):
    """What becomes of an input, step by step. Its parameters are the arrays that the steps take, in their order.

    linear: a weight [in, out], a bias [out]     norm: LayerNorm, a scale and a shift [size]     relu, elu, swish
    keep, add: a residual connection             flag, embedding: append the domain, the latter by a table [2, size]
    """

    steps: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]  # of the weights
    initial_fan_in: int  # of the first layer, for the size of its first weights only
    initial: str = "uniform"  # or he: see `init`
    rounds: bool = False  # what products take and give is bfloat16, but for the last; their sums, and all else, float32

    @property
    def norms(self) -> list[int]:
        """The size of each LayerNorm."""
        size, layers, found = self.shapes[0][0], iter(self.shapes), []
        for step in self.steps:
            if step == "linear":
                size = next(layers)[1]
            elif step == "norm":
                found.append(size)
        return found

    @property
    def length(self) -> int:
        """Numbers in all arrays."""
        table = 2 * EMBEDDING if "embedding" in self.steps else 0
        return sum(a * b + b for a, b in self.shapes) + 2 * sum(self.norms) + table

    def sees_domain(self, how: str) -> "Network":
        """The same with the domain among its inputs."""
        if how == "none":
            return self
        (inputs, first), *rest = self.shapes
        more = DOMAIN_INPUTS[how]
        shapes = ((inputs + more, first), *rest)
        return self._replace(steps=(how, *self.steps), shapes=shapes, initial_fan_in=self.initial_fan_in + more)

    def init(self, key: jax.Array, inputs: Inputs | None = None) -> Parameters:
        """First parameters: LayerNorm 1 and 0, a table of domains normal, weights and biases by `initial`.

        uniform: PyTorch's default, both uniform in +-1/sqrt(fan_in)
        he: weights normal with variance 2/fan_in, the first and the last 1/fan_in; biases 0

        `inputs`: those there are, where some only fill up; weights of the others are 0, and no gradient moves them.
        """
        table_key, key = jax.random.split(key) if self.steps[0] == "embedding" else (key, key)
        layers, norms = iter(self._layers(key, inputs)), iter(self.norms)
        arrays: list[jax.Array] = []
        for step in self.steps:
            if step == "linear":
                arrays += next(layers)
            elif step == "norm":
                size = next(norms)
                arrays += [jnp.ones(size), jnp.zeros(size)]
            elif step == "embedding":
                arrays.append(jax.random.normal(table_key, (2, EMBEDDING)) / math.sqrt(EMBEDDING))
        return tuple(arrays)

    def _layers(self, key: jax.Array, inputs: Inputs | None) -> list[tuple[jax.Array, jax.Array]]:
        layers: list[tuple[jax.Array, jax.Array]] = []
        last = len(self.shapes) - 1
        # One draw for the whole network: compiling one per array took four times as long.
        count = (sum(a * b + b for a, b in self.shapes),)
        uniform = self.initial == "uniform"
        numbers = jax.random.uniform(key, count, minval=-1.0) if uniform else jax.random.normal(key, count)
        start = 0
        for layer, (fan_in, fan_out) in enumerate(self.shapes):
            fan: Any = self.initial_fan_in if layer == 0 else fan_in
            size: Any = 1 / math.sqrt(fan)
            if layer == 0 and inputs is not None:
                size = jax.lax.rsqrt(inputs.fan_in + fan_in - len(inputs.present))
            if not uniform and 0 < layer < last:
                size = size * math.sqrt(2)
            end = start + fan_in * fan_out
            weight, bias = numbers[start:end].reshape(fan_in, fan_out), numbers[end : end + fan_out]
            start = end + fan_out
            if layer == 0 and inputs is not None:  # the domain stands behind them
                weight = weight * jnp.append(inputs.present, jnp.ones(fan_in - len(inputs.present)))[:, None]
            layers.append((size * weight, size * bias if uniform else jnp.zeros(fan_out)))
        return layers

    def apply(self, parameters: Parameters, x: jax.Array, domain: Any = 0.0) -> jax.Array:
        """[n, input] -> [n, output]; `domain`, one number or [n]: 0 the target's, 1 the source's."""
        arrays, layers = iter(parameters), len(self.shapes)
        kept = x
        for step in self.steps:
            if step == "linear":
                layers -= 1
                x = self.product(x, next(arrays), last=layers == 0) + next(arrays)
            elif step == "norm":
                x = layer_norm(x) * next(arrays) + next(arrays)
            elif step == "keep":
                kept = x
            elif step == "add":
                # Behind the barrier nothing computes the sum over again: a fifth of an update on a GPU.
                x = jax.lax.optimization_barrier(x + kept)
            elif step in DOMAIN_INPUTS:
                of_row = jnp.broadcast_to(jnp.asarray(domain, x.dtype), x.shape[:-1])[..., None]
                if step == "embedding":
                    target, source = next(arrays)
                    of_row = target + of_row * (source - target)
                x = jnp.concatenate((x, of_row), axis=-1)
            else:
                x = ACTIVATIONS[step](x)
        return x

    def product(self, x: jax.Array, weight: jax.Array, last: bool) -> jax.Array:
        if self.rounds and not last:  # a value of 300 would be rounded to the next 2
            x, weight = x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
        return x @ weight


def mlp(sizes: tuple[int, ...], initial_fan_in: int, activation: str = "relu", norm: str = "none") -> Network:
    """Input, hidden layers, output; LayerNorm in each hidden layer before its activation, after it, or none."""
    hidden = {"none": (activation,), "before": ("norm", activation), "after": (activation, "norm")}[norm]
    steps = ("linear", *hidden) * (len(sizes) - 2)
    return Network((*steps, "linear"), tuple(pairwise(sizes)), initial_fan_in)


def layer_norm(x: jax.Array) -> jax.Array:
    """Zero mean and unit variance over the last axis (epsilon 1e-5, as PyTorch)."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)


class Trained(NamedTuple):
    """Parameters with their optimiser's memory."""

    value: Any  # a pytree of arrays
    adam: Any


def fresh(value: Any) -> Trained:
    """Parameters that no gradient has touched yet."""
    return Trained(value, ADAM.init(value))


def descend(
    loss: Callable[[Any], tuple[jax.Array, Any]],
    trained: Trained,
    rate: Any,
    clip: float | None = None,
    decay: Any = 0.0,
) -> tuple[Trained, jax.Array, Any]:
    """One step of Adam down `loss(value) -> (loss, extra)`; `clip` bounds the norm of the whole gradient.

    With `decay` it is AdamW (Loshchilov and Hutter 2019): every parameter shrinks by rate * decay of itself as well.
    """
    (value, extra), gradient = jax.value_and_grad(loss, has_aux=True)(trained.value)
    if clip is not None:
        shrink = jnp.minimum(1.0, clip / (optax.tree.norm(gradient) + 1e-6))
        gradient = jax.tree.map(lambda g: g * shrink, gradient)
    direction, adam = ADAM.update(gradient, trained.adam)
    stepped = jax.tree.map(lambda x, d: x - rate * (d + decay * x), trained.value, direction)
    return Trained(stepped, adam), value, extra


def drift(slow: Any, live: Any, rate: Any) -> Any:
    """Polyak averaging: slow <- (1 - rate) slow + rate live."""
    return jax.tree.map(lambda s, x: s + rate * (x - s), slow, live)
