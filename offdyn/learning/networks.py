"""Multi-layer perceptrons as plain tuples of arrays, and Adam whose rate may differ by lane."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Parameters = tuple[jax.Array, ...]
Activation = Callable[[jax.Array], jax.Array]
ACTIVATIONS: dict[str, Activation] = {"relu": jax.nn.relu, "elu": jax.nn.elu, "swish": jax.nn.swish}
ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)  # PyTorch's defaults; the rate is ours to apply


class Layout(NamedTuple):
    """The shape of an MLP, whose parameters are the tuple of its arrays.

    For each layer a weight [in, out] and a bias [out] and, under LayerNorm, a scale and a shift [out].
    """

    sizes: tuple[int, ...]  # input, hidden ..., output
    initial_fan_in: int  # of the first layer, for the size of its first weights only
    layer_norm: bool = False  # after each hidden activation
    activation: str = "relu"

    @property
    def length(self) -> int:
        """Numbers in all arrays."""
        layers = sum(a * b + b for a, b in zip(self.sizes[:-1], self.sizes[1:], strict=True))
        return layers + (2 * sum(self.sizes[1:-1]) if self.layer_norm else 0)

    def init(self, key: jax.Array) -> Parameters:
        """PyTorch's default: weights and biases uniform in +-1/sqrt(fan_in); LayerNorm 1 and 0."""
        arrays: list[jax.Array] = []
        last = len(self.sizes) - 2
        layers = list(zip(self.sizes[:-1], self.sizes[1:], strict=True))
        # One draw for the whole network: compiling one per array took four times as long.
        numbers = jax.random.uniform(key, (sum(a * b + b for a, b in layers),), minval=-1.0, maxval=1.0)
        start = 0
        for layer, (fan_in, fan_out) in enumerate(layers):
            bound = 1 / math.sqrt(self.initial_fan_in if layer == 0 else fan_in)
            for shape in ((fan_in, fan_out), (fan_out,)):
                drawn = numbers[start : start + math.prod(shape)]
                arrays.append(bound * drawn.reshape(shape))
                start += math.prod(shape)
            if self.layer_norm and layer < last:
                arrays += [jnp.ones(fan_out), jnp.zeros(fan_out)]
        return tuple(arrays)

    def apply(self, parameters: Parameters, x: jax.Array) -> jax.Array:
        """[n, input] -> [n, output]."""
        arrays = iter(parameters)
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
