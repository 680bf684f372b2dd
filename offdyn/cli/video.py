"""The command `offdyn video`: a policy in its source and its target, side by side."""

import argparse
import sys
from pathlib import Path

from .parser import COUNT, SEED

DONE, INTERRUPTED = 0, 130


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="FILE.mp4 or FILE.gif; is replaced")
    command.add_argument("--episodes", type=COUNT, default=1, metavar="N", help="in each domain; default 1")
    command.add_argument("--steps", type=COUNT, metavar="N", help="of an episode at most; default: all of them")
    command.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the starts, the same in both; default 0")


def run(asked: argparse.Namespace) -> int:
    """Film, and say how the episodes went."""
    from ..export.video.record import record

    try:
        outcomes = record(asked.run, asked.out, seed=asked.seed, episodes=asked.episodes, steps=asked.steps)
    except KeyboardInterrupt:
        print("offdyn: stopped; no video was written", file=sys.stderr)
        return INTERRUPTED
    for number, episode in enumerate(outcomes, start=1):
        for role, steps, total, ending in episode:
            print(f"episode {number}   {role}: return {total:.1f} after {steps} steps ({ending})")
    print(asked.out)
    return DONE
