"""Where the time of an update goes on a GPU: its kernels, the dearest first.

    python benchmarks/kernels.py [--method par] [--preset paper] [--lanes 40] [--set precision=bfloat16 padded=true]

Traces ten calls of ten updates. A trace slows the GPU down by some percent, so the first line gives the time without
one as well, the mean of 500 updates in a row.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jax

from offdyn.bench.update_loop import UPDATES, UpdateLoop

CALLS = 10


def traced_kernels(learner: UpdateLoop) -> list[dict[str, Any]]:
    """Every kernel of CALLS ticks, as the profiler saw it."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(CALLS):
                learner.tick()
        [file] = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    named = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e.get("ph") == "M" and "name" in e["args"]}
    return [
        event
        for event in events
        if event.get("ph") == "X"
        and "GPU" in named.get((event["pid"], None), "")
        and "Stream" in named.get((event["pid"], event["tid"]), "")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="par")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--lanes", type=int, default=40)
    parser.add_argument("--set", nargs="*", default=[], metavar="SETTING=VALUE")
    asked = parser.parse_args()
    if jax.default_backend() != "gpu":
        parser.error("needs a GPU: on a processor the trace holds no kernels")
    learner = UpdateLoop(
        asked.lanes, method=asked.method, preset=asked.preset, settings=dict(each.split("=") for each in asked.set)
    )
    learner.tick()
    started = time.perf_counter()
    learner.tick(50)
    milliseconds = 1e3 * (time.perf_counter() - started) / (50 * UPDATES)
    kernels = traced_kernels(learner)
    updates = CALLS * UPDATES
    busy = sum(kernel["dur"] for kernel in kernels) / updates
    print(
        f"{' '.join((asked.method, asked.preset, *asked.set))}, {asked.lanes} lanes: {milliseconds:.3f} ms/update; "
        f"traced {len(kernels) / updates:.1f} kernels, {busy:.1f} us/update"
    )
    times, counts = Counter[str](), Counter[str]()
    for kernel in kernels:
        times[kernel["name"]] += kernel["dur"]
        counts[kernel["name"]] += 1
    for name, total in times.most_common():
        print(
            f"{total / updates:9.2f} us/update   {counts[name] / updates:6.2f} x {total / counts[name]:8.2f} us  {name}"
        )


if __name__ == "__main__":
    main()
