"""Microseconds per update and run of each backbone, by lanes: python benchmarks/backbones.py --lanes 1 40"""

import argparse
import json
import sys
from pathlib import Path

import jax


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--lanes", type=int, nargs="+", default=[1])
    asked.add_argument("--methods", nargs="+", default=["sac", "par"])
    asked.add_argument("--backbones", nargs="+", default=["classic", "simba"])
    asked.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    asked.add_argument("--updates", type=int, default=5, help="per dispatch")
    asked.add_argument("--repeats", type=int, default=5)
    asked.add_argument("--package", type=Path, help="the folder of another version of offdyn, to compare with")
    asked = asked.parse_args()
    sys.path.insert(0, str(asked.package or Path(__file__).parents[1]))
    from offdyn.bench.update_loop import UpdateLoop

    device = jax.devices()[0]
    for lanes in asked.lanes:
        for method in asked.methods:
            for backbone in asked.backbones:
                settings = dict(each.split("=") for each in asked.set)
                if backbone != "classic":
                    settings |= {"backbone": backbone, "domain_input": "flag"}
                loop = UpdateLoop(lanes, method=method, settings=settings, updates=asked.updates)
                seconds = loop.seconds_per_update(asked.repeats)
                found = {
                    "device": device.device_kind,
                    "package": str(asked.package or "this"),
                    "lanes": lanes,
                    "method": method,
                    "backbone": backbone,
                    "settings": settings,
                    "microseconds_per_run_update": 1e6 * seconds / lanes,
                    "compile_seconds": loop.compile_seconds,
                }
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
