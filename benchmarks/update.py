"""Milliseconds per update at several numbers of lanes, beside what this device's arithmetic and memory allow.

    python benchmarks/update.py [--robot halfcheetah] [--preset paper] [--lanes 1 5 10 40]
        [--set precision=bfloat16 padded=true] [--out FILE.json]

The floors: the products an update must compute over the rate of a 256x256x256 product of that precision measured in
the same run (40 side by side on a GPU), and the bytes its optimisers and target networks must move over the
rate of a large copy. No version can be faster than the larger of the two.
"""

import argparse
import json
import sys
from pathlib import Path

import jax

from offdyn.bench import floors, updates
from offdyn.bench.update_loop import TASKS, UpdateLoop
from offdyn.experiments.devices import offer_every_core
from offdyn.experiments.record import surroundings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", choices=TASKS, default="halfcheetah")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 5, 10, 40])
    parser.add_argument("--set", nargs="*", default=[], metavar="SETTING=VALUE")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    offer_every_core()
    print(f"{jax.devices()[0].device_kind}, PAR, preset {asked.preset}, {asked.robot} {' '.join(asked.set)}")
    print("lanes   ms/update   run-updates/s   arithmetic floor   memory floor   times the larger floor")
    found = []
    for lanes in asked.lanes:
        settings = dict(each.split("=") for each in asked.set)
        learner = UpdateLoop(lanes, robot=asked.robot, preset=asked.preset, settings=settings)
        row = updates.measure(learner, floors.rates(precision=learner.config.sac.precision), asked.repeats)
        found.append(row)
        print(
            f"{lanes:5d}   {row['milliseconds']:9.3f}   {row['run_updates_per_second']:13.0f}   "
            f"{row['arithmetic_floor_milliseconds']:13.3f} ms   {row['memory_floor_milliseconds']:9.3f} ms   "
            f"{row['times_the_floor']:.2f}   (products {row['product_gflops']:.0f} GFLOP/s)",
            flush=True,
        )
    if asked.out:
        about = {"command": " ".join(["benchmarks/update.py", *sys.argv[1:]]), "rows": found}
        asked.out.write_text(json.dumps(about | {"surroundings": surroundings(None)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
