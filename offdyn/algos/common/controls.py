"""Controls: does it matter which source transitions a method penalises or keeps, or only how much in all?"""

import jax.numpy as jnp

from ..._util.types import Array


def mixed(own: Array, shuffled: Array | float, averaged: Array | float) -> Array:
    """[n], of the same sum: a part of each transition's value is another's, a part the mean of the batch."""
    # Transitions are drawn independently of each other: the one before is as good as any.
    return (1 - shuffled - averaged) * own + shuffled * jnp.roll(own, 1) + averaged * own.mean()
