"""Milliseconds per update at several numbers of lanes, beside what this device's arithmetic and memory allow.

    python benchmarks/update.py [--robot halfcheetah] [--preset paper] [--lanes 1 5 10 40] [--out FILE.json]

The floors: the products an update must compute over the rate of a 256x256x256 float32 product measured in the same
run (40 side by side on a GPU), and the bytes its optimisers and target networks must move over the
rate of a large copy. No version can be faster than the larger of the two.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from offdyn.data.replay import row_width
from offdyn.domains.robots import ROBOTS
from offdyn.experiments.config import build
from offdyn.experiments.programs import Programs, run_keys, stack
from offdyn.experiments.record import surroundings
from offdyn.learning.networks import Layout
from offdyn.learning.sac import actor_layout, critic_layout
from offdyn.methods.par import layouts

UPDATES = 10  # per dispatch, as in training
TASKS = {"halfcheetah": "halfcheetah-no-thighs", "hopper": "hopper-big-head"}
TASKS |= {"walker": "walker-no-right-thigh", "ant": "ant-short-feet"}


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    """The fastest of several timed calls after a warm-up."""
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - started)
    return min(times)


def products(layout: Layout) -> int:
    """Floating-point operations of one row's way through the network."""
    return 2 * sum(a * b for a, b in zip(layout.sizes[:-1], layout.sizes[1:], strict=True))


def first(layout: Layout) -> int:
    return 2 * layout.sizes[0] * layout.sizes[1]


def floors(config: Any, spec: Any) -> tuple[float, float]:
    """(operations, bytes) one PAR update cannot do without, for one run."""
    sac, hyper = config.sac, config.hyper
    rows, n = 2 * sac.batch_size, hyper.encoder_batch
    actor, critic = actor_layout(sac, spec), critic_layout(sac, spec)
    f, g = layouts(hyper, spec)
    share = 1 / hyper.encoder_interval
    # Forward, gradient of the weights, gradient of the inputs where something before them is trained.
    encoders = n * (2 * products(f) + products(g)) + n * (2 * products(f) - first(f)) + n * 2 * products(g)
    penalty = sac.batch_size * (2 * products(f) + products(g))
    backup = rows * (products(actor) + 2 * products(critic))
    critics = rows * 2 * (3 * products(critic) - first(critic))
    actors = rows * (3 * products(actor) - first(actor) + 2 * 2 * products(critic))
    operations = share * encoders + penalty + backup + critics + actors
    trained = actor.length + 2 * critic.length + share * (f.length + g.length)
    slow = 2 * critic.length + (f.length + g.length if hyper.slow_encoder else 0)
    # Adam reads value, two moments and gradient and writes value and moments; a slow copy is read and written.
    return operations, 4 * (7 * trained + 2 * slow)


def rates() -> tuple[float, float]:
    """(operations per second of 256-cubed products, bytes per second of a copy), as measured here.

    On a GPU many products run side by side: one alone would measure the launch of its kernel, which is no floor.
    """
    on_gpu = jax.default_backend() == "gpu"
    repeats, side_by_side = 50, 40 if on_gpu else 1
    a = jax.random.normal(jax.random.key(0), (side_by_side, 256, 256)) / 16
    chain = jax.jit(lambda a: jax.lax.fori_loop(0, repeats, lambda _, b: a @ b, a))
    operations = 2 * 256**3 * side_by_side * repeats / best_seconds(lambda: chain(a), 5)
    big = jnp.zeros(2**28 if on_gpu else 2**25)
    copy = jax.jit(lambda x: x + 1)
    return operations, 2 * big.nbytes / best_seconds(lambda: copy(big), 5)


def measure(robot: str, preset: str, lanes: int, repeats: int) -> dict[str, float]:
    """One number of lanes."""
    spec = ROBOTS[robot].spec
    configs = [build(TASKS[robot], "par", preset, seed)[0] for seed in range(lanes)]
    config = configs[0]
    programs = Programs(config.recipe.method, spec, config.sac, config.hyper, "both", UPDATES)
    keys = run_keys(list(range(lanes)))
    state = programs.init(keys, stack([c.sac for c in configs]), stack([c.hyper for c in configs]))
    size = 20_000
    rows = jax.jit(lambda: jax.random.normal(jax.random.key(1), (lanes, size, row_width(spec))) * 0.1)()
    alive = np.ones(lanes, bool)
    started = time.perf_counter()
    step = 0

    def tick() -> Any:
        nonlocal state, step
        state = programs.learn(keys, state, rows, rows, np.int32(size), np.int32(size), np.int32(step), alive)
        step += UPDATES
        return state.sums

    jax.block_until_ready(tick())
    compiled = time.perf_counter() - started
    seconds = best_seconds(tick, repeats) / UPDATES
    operations, moved = floors(config, spec)
    product_rate, copy_rate = rates()
    arithmetic, memory = lanes * operations / product_rate, lanes * moved / copy_rate
    return {
        "lanes": lanes,
        "milliseconds": 1e3 * seconds,
        "run_updates_per_second": lanes / seconds,
        "arithmetic_floor_milliseconds": 1e3 * arithmetic,
        "memory_floor_milliseconds": 1e3 * memory,
        "times_the_floor": seconds / max(arithmetic, memory),
        "product_gflops": product_rate / 1e9,
        "copy_gbytes": copy_rate / 1e9,
        "compile_seconds": compiled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", choices=TASKS, default="halfcheetah")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 5, 10, 40])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, PAR, preset {asked.preset}, {asked.robot}")
    print("lanes   ms/update   run-updates/s   arithmetic floor   memory floor   times the larger floor")
    found = []
    for lanes in asked.lanes:
        row = measure(asked.robot, asked.preset, lanes, asked.repeats)
        found.append(row)
        print(
            f"{lanes:5d}   {row['milliseconds']:9.3f}   {row['run_updates_per_second']:13.0f}   "
            f"{row['arithmetic_floor_milliseconds']:13.3f} ms   {row['memory_floor_milliseconds']:9.3f} ms   "
            f"{row['times_the_floor']:.2f}   (products {row['product_gflops']:.0f} GFLOP/s)",
            flush=True,
        )
    if asked.out:
        about = {"command": f"benchmarks/update.py --robot {asked.robot} --preset {asked.preset}", "rows": found}
        asked.out.write_text(json.dumps(about | {"surroundings": surroundings(None)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
