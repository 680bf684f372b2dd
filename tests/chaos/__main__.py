"""Disturb offdyn for some time and count what it survives: `python -m tests.chaos --seconds 600 --seed 0`."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from .suite import Suite


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="default 600")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn; default 0")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once; default 2")
    parser.add_argument("--work", type=Path, default=Path("build/chaos"), help="folder; cases with findings stay in it")
    parser.add_argument("--json", type=Path, help="where the counts go; default WORK/chaos.json")
    parser.add_argument("--only", metavar="PART[:N]", help="one part, or one case of it")
    asked = parser.parse_args()
    work = asked.work.absolute()
    for name in ("cases", "bases"):
        shutil.rmtree(work / name, ignore_errors=True)
    surroundings(work / "programs")
    suite = Suite(work, asked.seed, asked.seconds, asked.jobs, print)
    part, _, number = (asked.only or "").partition(":")
    suite.run(part or None, int(number) if number else None)
    text = json.dumps(suite.counts(), indent=2)
    (asked.json or work / "chaos.json").write_text(text + "\n")
    print(text)
    return 1 if suite.findings else 0


def surroundings(programs: Path) -> None:
    """For every process: no GPU, one thread, and programs that are compiled once."""
    programs.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(programs),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


if __name__ == "__main__":
    sys.exit(main())
