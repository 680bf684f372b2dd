"""What an update of PAR cannot be faster than: its products and its memory traffic at this device's measured rates."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._util.types import Spec
from ..algos.networks import Network
from ..algos.par import shapes
from ..algos.sac import actor_network, critic_network
from ..training.config import RunConfig


class Rates(NamedTuple):
    """Of all devices that take part, per second."""

    operations: float  # of products of 256x256 matrices
    bytes: float  # read and written, of a large copy


class Floor(NamedTuple):
    """Seconds of one update."""

    arithmetic: float
    memory: float

    @property
    def seconds(self) -> float:
        return max(self)


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    """The fastest of several timed calls after a warm-up."""
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - started)
    return min(times)


def rates(repeats: int = 40) -> Rates:
    """Of one GPU, or of all cores."""
    on_gpu = jax.default_backend() == "gpu"
    big = jnp.zeros(2**28 if on_gpu else 2**25)
    copy = jax.jit(lambda x: x + 1)
    operations = _product_rate(40, jax.local_devices()[:1], repeats) if on_gpu else _rate_of_all_cores(repeats)
    return Rates(operations, 2 * big.nbytes / best_seconds(lambda: copy(big), repeats))


def _rate_of_all_cores(repeats: int) -> float:
    """Sharing one product, or each at its own: the faster way differs between machines."""
    devices = jax.local_devices()
    return max(_product_rate(1, devices[:1], repeats), _product_rate(1, devices, repeats))


def _product_rate(side_by_side: int, devices: list[Any], repeats: int) -> float:
    """Operations per second of 256x256x256 products on these devices at once.

    On a GPU many run side by side: one alone would measure the launch of its kernel, which is no floor.
    """
    chained = 50
    factor = jax.random.normal(jax.random.key(0), (side_by_side, 256, 256)) / 16
    chain = jax.jit(lambda a: jax.lax.fori_loop(0, chained, lambda _, b: a @ b, a))
    factors = [jax.device_put(factor, device) for device in devices]
    seconds = best_seconds(lambda: [chain(a) for a in factors], repeats)
    return 2 * 256**3 * side_by_side * chained * len(devices) / seconds


def floor(config: RunConfig, spec: Spec, lanes: float, measured: Rates) -> Floor:
    operations, moved = needed(config, spec)
    return Floor(lanes * operations / measured.operations, lanes * moved / measured.bytes)


def needed(config: RunConfig, spec: Spec) -> tuple[float, float]:
    """(operations, bytes) one PAR update cannot do without, for one run."""
    sac, hyper = config.sac, config.hyper
    rows, n = 2 * sac.batch_size, hyper.encoder_batch
    actor, critic = actor_network(sac, spec), critic_network(sac, spec)
    f, g = shapes(hyper, spec)
    share = 1 / hyper.encoder_interval
    # Forward, gradient of the weights, gradient of the inputs where something before them is trained.
    encoders = n * (2 * _products(f) + _products(g)) + n * (2 * _products(f) - _first(f)) + n * 2 * _products(g)
    penalty = sac.batch_size * (2 * _products(f) + _products(g))
    backup = rows * (_products(actor) + 2 * _products(critic))
    critics = rows * 2 * (3 * _products(critic) - _first(critic))
    actors = rows * (3 * _products(actor) - _first(actor) + 2 * 2 * _products(critic))
    operations = share * encoders + penalty + backup + critics + actors
    trained = actor.length + 2 * critic.length + share * (f.length + g.length)
    slow = 2 * critic.length + (f.length + g.length if hyper.slow_encoder else 0)
    # Adam reads value, two moments and gradient and writes value and moments; a slow critic is read and
    # written, a slow encoder read beside the live one.
    return operations, 4 * (7 * trained + 2 * slow)


def _products(network: Network) -> int:
    """Floating-point operations of one row's way through the network."""
    return 2 * sum(a * b for a, b in network.shapes)


def _first(network: Network) -> int:
    return 2 * math.prod(network.shapes[0])
