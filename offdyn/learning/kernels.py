"""A hidden layer as one GPU kernel each way: product, bias, activation and rounding in one pass over memory.

XLA computes the product in one kernel and the rest in another, which is bound by memory: docs/performance.md has what
these two gain. They are for bfloat16, whose products Triton computes well; those of float32 it does not.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .activations import ACTIVATIONS, SLOPES


class Tile(NamedTuple):
    """What one program of a kernel computes, and how: the fastest of eleven on an H200, 80 networks, 256 rows."""

    rows: int
    columns: int
    depth: int  # of the products that it sums
    warps: int
    stages: int


FORWARD, BACKWARD = Tile(128, 128, 32, 4, 4), Tile(128, 64, 64, 4, 3)


def can_layer(x: jax.Array, weight: jax.Array) -> bool:
    """Whether `layer` takes them; a width of x that its steps do not divide is filled up with zeros as it is read."""
    return _can_tile(x, weight.shape[1], FORWARD)


def can_pull(delta: jax.Array, weight: jax.Array) -> bool:
    return _can_tile(delta, weight.shape[0], BACKWARD) and delta.shape[1] % BACKWARD.depth == 0


def _can_tile(rows: jax.Array, columns: int, tile: Tile) -> bool:
    fits = len(rows) % tile.rows == 0 and columns % tile.columns == 0
    return fits and rows.dtype == jnp.bfloat16 and _has_bfloat16_units()


@cache
def _has_bfloat16_units() -> bool:
    device = jax.local_devices()[0]
    return device.platform == "gpu" and float(device.compute_capability) >= 8.0


def layer(x: jax.Array, weight: jax.Array, bias: jax.Array, activation: str) -> jax.Array:
    """activation(x @ weight + bias), rounded as x is: [n, in], [in, out], [out] -> [n, out]."""
    inputs, tile = x.shape[1], FORWARD

    def kernel(x_ref: Any, weight_ref: Any, bias_ref: Any, out_ref: Any) -> None:
        def add(step: Any, total: jax.Array) -> jax.Array:
            part = pl.ds(step * tile.depth, tile.depth)
            if inputs % tile.depth == 0:
                return total + triton.dot(x_ref[:, part], weight_ref[part, :])
            there = step * tile.depth + jnp.arange(tile.depth) < inputs
            some = jnp.broadcast_to(there[None, :], (tile.rows, tile.depth))
            by_row = triton.load(x_ref.at[:, part], mask=some, other=0.0)
            some = jnp.broadcast_to(there[:, None], (tile.depth, tile.columns))
            by_column = triton.load(weight_ref.at[part, :], mask=some, other=0.0)
            return total + triton.dot(by_row, by_column)

        total = jax.lax.fori_loop(0, pl.cdiv(inputs, tile.depth), add, jnp.zeros(out_ref.shape, jnp.float32))
        out_ref[...] = ACTIVATIONS[activation](total + bias_ref[...][None]).astype(out_ref.dtype)

    row, column, both = _places(weight.shape[1], tile)
    blocks = [
        pl.BlockSpec((tile.rows, inputs), row),
        pl.BlockSpec((inputs, tile.columns), lambda t: column(t)[::-1]),
        pl.BlockSpec((tile.columns,), lambda t: column(t)[:1]),
    ]
    return _call(kernel, blocks, both, (len(x), weight.shape[1]), tile)(x, weight, bias)


def pull(delta: jax.Array, weight: jax.Array, entered: jax.Array, activation: str) -> jax.Array:
    """(delta @ weight.T) * slope, rounded as delta is: [n, out], [in, out], [n, in] -> [n, in].

    A gradient's way back through a layer and through the activation before it, of which `entered` came.
    """
    outputs, tile = delta.shape[1], BACKWARD

    def kernel(delta_ref: Any, weight_ref: Any, entered_ref: Any, out_ref: Any) -> None:
        def add(step: Any, total: jax.Array) -> jax.Array:
            part = pl.ds(step * tile.depth, tile.depth)
            return total + triton.dot(delta_ref[:, part], weight_ref[:, part], trans_b=True)

        total = jax.lax.fori_loop(0, outputs // tile.depth, add, jnp.zeros(out_ref.shape, jnp.float32))
        slope = SLOPES[activation](entered_ref[...].astype(jnp.float32))
        out_ref[...] = (total * slope).astype(out_ref.dtype)

    row, column, both = _places(weight.shape[0], tile)
    blocks = [
        pl.BlockSpec((tile.rows, outputs), row),
        pl.BlockSpec((tile.columns, outputs), column),
        pl.BlockSpec((tile.rows, tile.columns), both),
    ]
    return _call(kernel, blocks, both, (len(delta), weight.shape[0]), tile)(delta, weight, entered)


Place = Callable[[Any], tuple[Any, ...]]


def _places(columns: int, tile: Tile) -> tuple[Place, Place, Place]:
    """Where a tile's rows, its columns and itself are, by its number: one axis only, since lanes and twins add two."""
    across = columns // tile.columns
    return lambda t: (t // across, 0), lambda t: (t % across, 0), lambda t: (t // across, t % across)


def _call(kernel: Any, blocks: list[Any], both: Place, shape: tuple[int, int], tile: Tile) -> Callable[..., jax.Array]:
    called: Callable[..., jax.Array] = pl.pallas_call(
        kernel,
        grid=(shape[0] // tile.rows * (shape[1] // tile.columns),),
        in_specs=blocks,
        out_specs=pl.BlockSpec((tile.rows, tile.columns), both),
        out_shape=jax.ShapeDtypeStruct(shape, jnp.bfloat16),
        compiler_params=triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=jax.default_backend() == "cpu",  # for tests: nothing else calls it there
    )
    return called
