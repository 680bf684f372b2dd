"""Inputs of a side network brought to mean 0 and deviation 1 over all transitions stored so far."""

from typing import NamedTuple

import jax.numpy as jnp

from ..._util.types import Array

SMALLEST_DEVIATION = 1e-3  # a constant input stays 0 instead of growing without bound
INTERVAL = 250  # updates between two fits


class Scale(NamedTuple):
    """What each of k inputs is shifted and divided by."""

    mean: Array  # [k]
    deviation: Array  # [k]

    def apply(self, inputs: Array) -> Array:
        """[..., k] -> [..., k]"""
        return (inputs - self.mean) / self.deviation


def no_scale(size: int) -> Scale:
    """Leaves inputs as they are."""
    return Scale(jnp.zeros(size), jnp.ones(size))


def fit(inputs: Array, size: Array) -> Scale:
    """The scale of the first `size` transitions of [capacity, k]."""
    return fit_joined((inputs, size))


def fit_joined(*parts: tuple[Array, Array]) -> Scale:
    """The scale of several padded arrays as if their filled transitions stood in one."""
    count = sum(size for _, size in parts)
    mean = sum(_filled(inputs, size).sum(0) for inputs, size in parts) / count
    spread = sum(_filled(jnp.square(inputs - mean), size).sum(0) for inputs, size in parts)
    return Scale(mean, jnp.maximum(jnp.sqrt(spread / count), SMALLEST_DEVIATION))


def _filled(values: Array, size: Array) -> Array:
    return jnp.where(jnp.arange(values.shape[0])[:, None] < size, values, 0.0)
