"""Multi-layer perceptrons as plain tuples of arrays, and Adam whose rate may differ by lane."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from .activations import ACTIVATIONS, SLOPES

Parameters = tuple[jax.Array, ...]
PRECISIONS = ("float32", "full", "bfloat16")  # the first as the device computes products; `full`: those in float32 too
ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)  # PyTorch's defaults; the rate is ours to apply


class Inputs(NamedTuple):
    """Which of a network's inputs there are, where some only fill up."""

    present: jax.Array  # [input], 1 or 0
    fan_in: jax.Array  # [], for the size of the first weights


class Layout(NamedTuple):
    """The shape of an MLP, whose parameters are the tuple of its arrays.

    For each layer a weight [in, out] and a bias [out] and, under LayerNorm, a scale and a shift [out].
    """

    sizes: tuple[int, ...]  # input, hidden ..., output
    initial_fan_in: int  # of the first layer, for the size of its first weights only
    layer_norm: bool = False  # after each hidden activation
    activation: str = "relu"
    precision: str = "float32"  # of activations, of what enters a product and of its gradient; sums are float32

    @property
    def length(self) -> int:
        """Numbers in all arrays."""
        layers = sum(a * b + b for a, b in zip(self.sizes[:-1], self.sizes[1:], strict=True))
        return layers + (2 * sum(self.sizes[1:-1]) if self.layer_norm else 0)

    def init(self, key: jax.Array, inputs: "Inputs | None" = None) -> Parameters:
        """PyTorch's default: weights and biases uniform in +-1/sqrt(fan_in); LayerNorm 1 and 0.

        `inputs`: those there are, where some only fill up; weights of the others are 0, and no gradient moves them.
        """
        arrays: list[jax.Array] = []
        last = len(self.sizes) - 2
        layers = list(zip(self.sizes[:-1], self.sizes[1:], strict=True))
        # One draw for the whole network: compiling one per array took four times as long.
        numbers = jax.random.uniform(key, (sum(a * b + b for a, b in layers),), minval=-1.0, maxval=1.0)
        start = 0
        for layer, (fan_in, fan_out) in enumerate(layers):
            bound: Any = 1 / math.sqrt(self.initial_fan_in if layer == 0 else fan_in)
            if layer == 0 and inputs is not None:
                bound = jax.lax.rsqrt(inputs.fan_in)
            for shape in ((fan_in, fan_out), (fan_out,)):
                drawn = numbers[start : start + math.prod(shape)]
                arrays.append(bound * drawn.reshape(shape))
                start += math.prod(shape)
            if self.layer_norm and layer < last:
                arrays += [jnp.ones(fan_out), jnp.zeros(fan_out)]
        if inputs is not None:
            arrays[0] = arrays[0] * inputs.present[:, None]
        return tuple(arrays)

    def apply(self, parameters: Parameters, x: jax.Array, learning_rows: int | None = None) -> jax.Array:
        """[n, input] -> [n, output]; where `learning_rows` is given, no gradient comes from the rows after those."""
        if self.activation in SLOPES and not self.layer_norm:
            # Rounded out here, in sight of `scan_ahead`, which carries rounded weights from step to step.
            return perceptron(self, learning_rows, parameters, tuple(map(self.rounded, parameters[::2])), x)
        arrays = iter(parameters)
        activation = ACTIVATIONS[self.activation]
        for _ in self.sizes[1:-1]:
            x = activation(self.product(x, next(arrays)) + next(arrays))
            if self.layer_norm:
                scale, shift = next(arrays), next(arrays)
                x = layer_norm(x) * scale + shift
        y = self.product(x, next(arrays)) + next(arrays)
        return y if learning_rows is None else y.at[learning_rows:].set(jax.lax.stop_gradient(y[learning_rows:]))

    def product(self, a: jax.Array, b: jax.Array, inner: bool = False) -> jax.Array:
        """a @ b, its factors rounded to the layout's precision, summed in float32; `inner`: the result rounded too."""
        a, b = self.rounded(a), self.rounded(b)
        if a.dtype != jnp.bfloat16:
            return self.rounded(a @ b) if inner else a @ b
        return jnp.matmul(a, b, preferred_element_type=a.dtype if inner else jnp.float32)

    def with_rounded_weights(self, parameters: Parameters) -> Parameters:
        """The parameters, each weight as a product takes it, in float32 again."""
        return tuple(self.rounded(array).astype(array.dtype) if array.ndim == 2 else array for array in parameters)

    def hidden(self, x: jax.Array, weight: jax.Array, bias: jax.Array, as_kernel: bool = True) -> jax.Array:
        """What a hidden layer makes of its rounded inputs: the rounded inputs of the next."""
        if as_kernel and x.dtype == jnp.bfloat16:
            from . import kernels  # which need Triton, and that JAX does not have on every system

            if kernels.can_layer(x, weight):
                return kernels.layer(x, weight, bias, self.activation)
        return self.rounded(ACTIVATIONS[self.activation](self.product(x, weight, inner=True) + bias))

    def back(self, delta: jax.Array, weight: jax.Array, entered: jax.Array) -> jax.Array:
        """From a gradient by what leaves a layer to that by what left the one before, ahead of its activation."""
        if delta.dtype == jnp.bfloat16:
            from . import kernels

            if kernels.can_pull(delta, weight):
                return kernels.pull(delta, weight, entered, self.activation)
        before = self.product(delta, weight.T, inner=True)
        wide = jnp.promote_types(before.dtype, jnp.float32)
        return self.rounded(before.astype(wide) * SLOPES[self.activation](entered).astype(wide))

    def sum_of_rows(self, x: jax.Array) -> jax.Array:
        """x.sum(0), never in less than float32."""
        if x.dtype != jnp.bfloat16:
            return x.sum(0)
        # As a product, since a GPU's sums down the columns are slow; of eight rows, lest XLA make one row a sum again.
        return jnp.matmul(jnp.ones((8, len(x)), x.dtype), x, preferred_element_type=jnp.float32)[0]

    def rounded(self, x: jax.Array) -> jax.Array:
        if self.precision != "bfloat16":
            return x
        if jax.default_backend() == "cpu":  # which cannot sum such products in float32: the same numbers, in float32
            return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)
        return x.astype(jnp.bfloat16)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def perceptron(
    layout: Layout, learning_rows: int | None, parameters: Parameters, weights: Parameters, x: jax.Array
) -> jax.Array:
    """A network without LayerNorm, whose gradient is written out; `weights` are those of `parameters`, rounded.

    Written out, it keeps one value per activation, rounds what it keeps to the layout's precision, and leaves rows
    that do not learn out of the backward pass.
    """
    return _layers(layout, parameters, weights, x)[1]


def _layers(
    layout: Layout, parameters: Parameters, weights: Parameters, x: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """(what enters each layer, the output)."""
    *hidden, last = zip(weights, parameters[1::2], strict=True)
    entered = [layout.rounded(x)]
    for depth, (weight, bias) in enumerate(hidden):
        # Ahead of a sum one number wide XLA bends and rounds within that sum, and a kernel of ours is a pass more.
        as_kernel = depth + 1 < len(hidden) or layout.sizes[-1] > 1
        entered.append(layout.hidden(entered[-1], weight, bias, as_kernel))
    return entered, layout.product(entered[-1], last[0]) + last[1]


def _forward(
    layout: Layout, learning_rows: int | None, parameters: Parameters, weights: Parameters, x: jax.Array
) -> tuple[jax.Array, Any]:
    entered, y = _layers(layout, parameters, weights, x)
    return y, (weights, [rows[:learning_rows] for rows in entered])


def _backward(
    layout: Layout, learning_rows: int | None, kept: Any, dy: jax.Array
) -> tuple[Parameters, None, jax.Array]:
    weights, entered = kept
    delta = layout.rounded(dy[:learning_rows])  # of the loss by what leaves the layer, before its activation
    gradients: list[jax.Array] = []
    for depth in reversed(range(len(weights))):
        of_weight = layout.product(entered[depth].T, delta, inner=True).astype(dy.dtype)
        gradients = [of_weight, layout.sum_of_rows(delta), *gradients]
        delta = layout.back(delta, weights[depth], entered[depth]) if depth else layout.product(delta, weights[0].T)
    return tuple(gradients), None, jnp.pad(delta, ((0, dy.shape[0] - delta.shape[0]), (0, 0)))


perceptron.defvjp(_forward, _backward)


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
    loss: Callable[[Any], tuple[jax.Array, Any]], trained: Trained, rate: Any, clip: float | None = None
) -> tuple[Trained, jax.Array, Any]:
    """One Adam step down `loss(value) -> (loss, extra)`; `clip` bounds the norm of the whole gradient."""
    (value, extra), gradient = jax.value_and_grad(loss, has_aux=True)(trained.value)
    if clip is not None:
        shrink = jnp.minimum(1.0, clip / (optax.tree.norm(gradient) + 1e-6))
        gradient = jax.tree.map(lambda g: g * shrink, gradient)
    direction, adam = ADAM.update(gradient, trained.adam)
    stepped = jax.tree.map(lambda x, d: x - rate * d, trained.value, direction)
    return Trained(stepped, adam), value, extra


def drift(slow: Any, live: Any, rate: Any) -> Any:
    """Polyak averaging: slow <- (1 - rate) slow + rate live."""
    return jax.tree.map(lambda s, x: s + rate * (x - s), slow, live)
