"""How much several lanes gain from several cores: all on one core, all sharing the cores, each on a core of its own.

    python benchmarks/cores.py [--lanes 1 2 4 8] [--rounds 60] [--out FILE.json]

The variants take turns in one process, in short turns, and each counts with its best and with its median: on a machine
that does other things as well the best turn is the one that was least disturbed.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax

from offdyn.bench.update_loop import UpdateLoop, seconds_of
from offdyn.experiments.devices import count_for, offer_every_core
from offdyn.experiments.record import surroundings

UPDATES = 2  # in a turn, about 30 ms


class Variant(NamedTuple):
    lanes: int
    devices: int
    cores: int


def pin(cores: set[int]) -> None:
    """Let every thread of this process run there only."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cores)
        except ProcessLookupError:
            continue


def measure(lanes: list[int], rounds: int) -> list[dict[str, Any]]:
    every = sorted(os.sched_getaffinity(0))
    learners: dict[Variant, UpdateLoop] = {}
    for count in lanes:
        together = UpdateLoop(count, updates=UPDATES, devices=1)
        learners[Variant(count, 1, 1)] = learners[Variant(count, 1, len(every))] = together
        if count_for(count) > 1:
            learners[Variant(count, count_for(count), len(every))] = UpdateLoop(count, updates=UPDATES)
    taken: dict[Variant, list[float]] = {variant: [] for variant in learners}
    for number in range(rounds):
        for variant, learner in learners.items():
            pin({every[number % len(every)]} if variant.cores == 1 else set(every))
            taken[variant].append(1e3 * seconds_of(learner.tick) / UPDATES)
    pin(set(every))
    found = []
    for variant, times in taken.items():
        alone = taken[Variant(variant.lanes, 1, 1)]
        found.append(
            variant._asdict()
            | {"best_milliseconds": min(times), "median_milliseconds": statistics.median(times)}
            | {"times_one_core_best": min(alone) / min(times)}
            | {"times_one_core_median": statistics.median(alone) / statistics.median(times)}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    offer_every_core()
    before = os.getloadavg()[0]
    found = measure(asked.lanes, asked.rounds)
    print(
        "PAR, preset paper, halfcheetah; times one core: speed beside the same lanes on one core, best and median turn"
    )
    print("lanes   devices   cores   best ms/update   median   times one core")
    for row in found:
        print(
            f"{row['lanes']:5d}   {row['devices']:7d}   {row['cores']:5d}   {row['best_milliseconds']:14.2f}   "
            f"{row['median_milliseconds']:6.2f}   {row['times_one_core_best']:.2f} {row['times_one_core_median']:.2f}"
        )
    if asked.out:
        command = " ".join(["python", "benchmarks/cores.py", *sys.argv[1:]])
        load = {"before": before, "after": os.getloadavg()[0]}
        about = {"command": command, "load": load, "rows": found, "surroundings": surroundings(None)}
        asked.out.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
