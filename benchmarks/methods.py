"""Milliseconds per update of every method beside PAR's, timed in turn in one process, with all warm-ups over.

    python benchmarks/methods.py [--robot halfcheetah] [--preset paper] [--methods sac vgdf] [--lanes 1 12] [--out FILE]

Each round times one call of every method; a method's number is the median of its rounds, so that a machine that slows
down slows all of them.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import jax

from offdyn.algos.registry import METHODS
from offdyn.bench.update_loop import TASKS, UPDATES, UpdateLoop, seconds_of
from offdyn.training.hardware import offer_every_core, surroundings

REFERENCE = "par"


def measure(methods: list[str], robot: str, preset: str, lanes: int, rounds: int) -> list[dict[str, Any]]:
    """One number of lanes."""
    learners = {method: UpdateLoop(lanes, method=method, robot=robot, preset=preset) for method in methods}
    taken: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method, learner in learners.items():
            taken[method].append(seconds_of(learner.tick) / UPDATES)
    median = {method: statistics.median(times) for method, times in taken.items()}
    return [
        {
            "method": method,
            "lanes": lanes,
            "milliseconds": 1e3 * median[method],
            "fastest_milliseconds": 1e3 * min(taken[method]),
            f"times_{REFERENCE}": median[method] / median[REFERENCE],
            "compile_seconds": learners[method].compile_seconds,
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
    offer_every_core()
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
