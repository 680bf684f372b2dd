"""How fast the simulator steps each robot, next to what one core could do if it did nothing but physics.

    python benchmarks/physics.py [--robots hopper ant] [--out FILE.json]

What is measured: offdyn/bench/physics.py. Here all variants of all robots take turns.
"""

import argparse
import json
import os
import platform
from pathlib import Path

import mujoco
import numpy as np

from offdyn.bench.physics import best_turns, replay_of, stepping_of
from offdyn.bench.update_loop import TASKS

EXPECTED = {1: 0.85, 2: 1.4}  # of the limit at 40 bodies, by the number of threads
EXPECTED_OF_HOPPER = {1: 0.80, 2: 1.4}  # under random actions it starts anew every 20 steps


def measure(robots: list[str], bodies: int, repeats: int, seconds: float) -> dict[str, dict[str, float]]:
    """Steps per second of each robot: the limit of one core, and with one and two threads."""
    variants = {}
    for robot in robots:
        variants[f"{robot} limit"] = replay_of(robot, bodies, 1, seconds)
        for threads in (1, 2):
            variants[f"{robot} threads_{threads}"] = stepping_of(robot, bodies, threads, seconds)
    best = best_turns(variants, repeats)
    rates = {robot: {name: best[f"{robot} {name}"] for name in ("limit", "threads_1", "threads_2")} for robot in robots}
    for rate in rates.values():
        rate |= {f"ratio_{threads}": rate[f"threads_{threads}"] / rate["limit"] for threads in (1, 2)}
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--bodies", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=40, help="turns of each variant")
    parser.add_argument("--seconds", type=float, default=0.1, help="of one turn")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    asked = parser.parse_args()

    print(f"environment steps per second, {asked.bodies} bodies, half source, half target")
    print("ratio: to the one-core limit; expected: the least ratio, at 40 bodies")
    print("robot           limit  1 thread  ratio  expected  2 threads  ratio  expected")
    results = measure(asked.robots, asked.bodies, asked.repeats, asked.seconds)
    for robot, rates in results.items():
        one, two = (EXPECTED_OF_HOPPER if robot == "hopper" else EXPECTED).values()
        print(
            f"{robot:12} {rates['limit']:8.0f} {rates['threads_1']:9.0f} {rates['ratio_1']:6.2f} {one:9.2f} "
            f"{rates['threads_2']:10.0f} {rates['ratio_2']:6.2f} {two:9.2f}"
        )
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        facts = {
            "format": 1,
            "bodies": asked.bodies,
            "repeats": asked.repeats,
            "seconds": asked.seconds,
            "mujoco": mujoco.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "environment_steps_per_second": results,
        }
        asked.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
