"""Milliseconds per update of every method beside PAR's, timed in turn in one process, with all warm-ups over.

    python benchmarks/methods.py [--robot halfcheetah] [--preset paper] [--methods sac vgdf] [--lanes 1 12] [--out FILE]

Each round times one call of every method; a method's number is the median of its rounds, so that a machine that slows
down slows all of them.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from offdyn.data.replay import row_width
from offdyn.domains.robots import ROBOTS
from offdyn.experiments.config import build
from offdyn.experiments.programs import Programs, run_keys, stack
from offdyn.experiments.record import surroundings
from offdyn.methods.recipes import METHODS

UPDATES = 10  # per dispatch, as in training
ROWS = 20_000  # in each replay
TASKS = {"halfcheetah": "halfcheetah-no-thighs", "hopper": "hopper-big-head"}
TASKS |= {"walker": "walker-no-right-thigh", "ant": "ant-short-feet"}
REFERENCE = "par"


def start(method: str, robot: str, preset: str, lanes: int) -> tuple[Callable[[], Any], float]:
    """(a tick's updates of these lanes, to be called again and again; seconds to compile them)."""
    known = preset if preset in METHODS[method].presets else "paper"
    configs = [build(TASKS[robot], method, known, seed)[0] for seed in range(lanes)]
    config, spec = configs[0], ROBOTS[robot].spec
    programs = Programs(config.recipe.method, spec, config.sac, config.hyper, "both", UPDATES)
    keys = run_keys(list(range(lanes)))
    state = programs.init(keys, stack([c.sac for c in configs]), stack([c.hyper for c in configs]))
    rows = jax.jit(lambda: jax.random.normal(jax.random.key(1), (lanes, ROWS, row_width(spec))) * 0.1)()
    alive = np.ones(lanes, bool)
    step = getattr(config.hyper, "warm_up", 0)
    step += -step % UPDATES

    def tick() -> Any:
        nonlocal state, step
        state = programs.learn(keys, state, rows, rows, np.int32(ROWS), np.int32(ROWS), np.int32(step), alive)
        step += UPDATES
        return jax.block_until_ready(state.sums)

    started = time.perf_counter()
    tick()
    return tick, time.perf_counter() - started


def measure(methods: list[str], robot: str, preset: str, lanes: int, rounds: int) -> list[dict[str, Any]]:
    """One number of lanes."""
    ticks, compiled = {}, {}
    for method in methods:
        ticks[method], compiled[method] = start(method, robot, preset, lanes)
    taken: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method, tick in ticks.items():
            started = time.perf_counter()
            tick()
            taken[method].append((time.perf_counter() - started) / UPDATES)
    median = {method: statistics.median(times) for method, times in taken.items()}
    return [
        {
            "method": method,
            "lanes": lanes,
            "milliseconds": 1e3 * median[method],
            "fastest_milliseconds": 1e3 * min(taken[method]),
            f"times_{REFERENCE}": median[method] / median[REFERENCE],
            "compile_seconds": compiled[method],
        }
        for method in methods
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", choices=TASKS, default="halfcheetah")
    parser.add_argument("--preset", default="paper", help="of the methods that have it; the others take theirs, paper")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 12])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    methods = [REFERENCE, *(name for name in asked.methods if name != REFERENCE)]
    print(f"{jax.devices()[0].device_kind}, preset {asked.preset}, {asked.robot}")
    print("lanes   method          ms/update   times PAR   compiled in")
    found: list[dict[str, Any]] = []
    for lanes in asked.lanes:
        for row in measure(methods, asked.robot, asked.preset, lanes, asked.rounds):
            found.append(row)
            print(
                f"{lanes:5d}   {row['method']:14s}  {row['milliseconds']:9.3f}   {row[f'times_{REFERENCE}']:9.2f}   "
                f"{row['compile_seconds']:9.1f} s",
                flush=True,
            )
        if asked.out:
            command = " ".join(["benchmarks/methods.py", *sys.argv[1:]])
            about = {"command": command, "rows": found, "surroundings": surroundings(None)}
            asked.out.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
