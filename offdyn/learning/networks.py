"""Multi-layer perceptrons as one flat vector each, and Adam over such vectors.

One vector per network keeps a cohort's state to a few arrays and lets Adam run as a single pass over memory.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Activation = Callable[[jax.Array], jax.Array]
ACTIVATIONS: dict[str, Activation] = {"relu": jax.nn.relu, "elu": jax.nn.elu}
ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)  # the rate is ours to apply: it differs by lane


class Layout(NamedTuple):
    """How one vector holds an MLP: for each layer its weight, its bias and, under LayerNorm, a scale and a shift."""

    sizes: tuple[int, ...]  # input, hidden ..., output
    initial_fan_in: int  # of the first layer, for the size of its first weights only
    layer_norm: bool = False  # after each hidden activation
    activation: str = "relu"

    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of all arrays in the order in which the vector holds them."""
        shapes: list[tuple[int, ...]] = []
        last = len(self.sizes) - 2
        for layer, (fan_in, fan_out) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            shapes += [(fan_in, fan_out), (fan_out,)]
            if self.layer_norm and layer < last:
                shapes += [(fan_out,), (fan_out,)]
        return shapes

    @property
    def length(self) -> int:
        """Numbers in the vector."""
        return sum(math.prod(shape) for shape in self.shapes())

    def init(self, key: jax.Array) -> jax.Array:
        """PyTorch's default: weights and biases uniform in +-1/sqrt(fan_in); LayerNorm 1 and 0."""
        parts = []
        last = len(self.sizes) - 2
        for layer, (fan_in, fan_out) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            bound = 1 / math.sqrt(self.initial_fan_in if layer == 0 else fan_in)
            numbers = fan_in * fan_out + fan_out
            parts.append(jax.random.uniform(jax.random.fold_in(key, layer), (numbers,), minval=-bound, maxval=bound))
            if self.layer_norm and layer < last:
                parts += [jnp.ones(fan_out), jnp.zeros(fan_out)]
        return jnp.concatenate(parts)

    def split(self, vector: jax.Array) -> list[jax.Array]:
        """The arrays of the network."""
        shapes = self.shapes()
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + math.prod(shape))
        pieces = jnp.split(vector, ends[1:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def apply(self, vector: jax.Array, x: jax.Array) -> jax.Array:
        """[n, input] -> [n, output]."""
        arrays = iter(self.split(vector))
        activation = ACTIVATIONS[self.activation]
        for _ in self.sizes[1:-1]:
            weight, bias = next(arrays), next(arrays)
            x = activation(x @ weight + bias)
            if self.layer_norm:
                scale, shift = next(arrays), next(arrays)
                x = layer_norm(x) * scale + shift
        weight, bias = next(arrays), next(arrays)
        return x @ weight + bias


def layer_norm(x: jax.Array) -> jax.Array:
    """Zero mean and unit variance over the last axis (epsilon 1e-5, as PyTorch)."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)


class Trained(NamedTuple):
    """Parameters with their optimiser's memory."""

    value: jax.Array
    adam: Any


def fresh(value: jax.Array) -> Trained:
    """Parameters that no gradient has touched yet."""
    return Trained(value, ADAM.init(value))


def descend(
    loss: Callable[[jax.Array], tuple[jax.Array, Any]],
    trained: Trained,
    rate: jax.Array,
    clip: float | None = None,
) -> tuple[Trained, jax.Array, Any]:
    """One Adam step down `loss(value) -> (loss, extra)`; `clip` bounds the gradient's norm."""
    (value, extra), gradient = jax.value_and_grad(loss, has_aux=True)(trained.value)
    if clip is not None:
        norm = jnp.sqrt(jnp.square(gradient).sum())
        gradient = gradient * jnp.minimum(1.0, clip / (norm + 1e-6))
    direction, adam = ADAM.update(gradient, trained.adam)
    return Trained(trained.value - rate * direction, adam), value, extra


def drift(slow: jax.Array, live: jax.Array, rate: jax.Array) -> jax.Array:
    """Polyak averaging: slow <- (1 - rate) slow + rate live."""
    return slow + rate * (live - slow)
