"""The command `offdyn bench`: how fast this machine is, and how fast it could be."""

import argparse
import json
import sys
from pathlib import Path

from .._util.errors import OffdynError

DONE, INTERRUPTED = 0, 130


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quick", action="store_true", help="fewer lanes and turns: half the time, noisier")
    more = "updates of SAC on these, too, at several widths: classic, simba, ensemble"
    command.add_argument("--backbone", nargs="+", default=[], metavar="NAME", help=more)
    sources = "steps of batched sources, too: two pendulums, and what --source names in `offdyn train`"
    command.add_argument("--source", nargs="*", metavar="S", help=sources)
    command.add_argument("--out", type=Path, metavar="FILE.json", help="all figures, with machine and versions")
    command.add_argument("--json", action="store_true", help="print one object in place of the tables")


def run(asked: argparse.Namespace) -> int:
    if asked.out is not None and (asked.out.is_dir() or not asked.out.absolute().parent.is_dir()):
        raise OffdynError(f"--out {asked.out}: expected a file to write, in a folder that exists")
    from ..algos.backbones import backbone
    from ..bench.table import table
    from ..bench.whole import describe, measure, say

    for name in asked.backbone:
        backbone(name)  # refuses one that is not there before anything is measured
    found, code = describe(), DONE
    try:
        measure(found, asked.quick, say, asked.backbone, asked.source)
    except KeyboardInterrupt:
        print("interrupted: this is what was measured so far", file=sys.stderr)
        code = INTERRUPTED
    text = json.dumps(found, indent=2)
    if asked.out is not None:
        asked.out.write_text(text + "\n")
    print(text if asked.json else table(found))
    return code
