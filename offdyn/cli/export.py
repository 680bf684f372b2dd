"""The command `offdyn export`: a run's policy as files that need no offdyn."""

import argparse
import sys
from pathlib import Path

from ..export import FORMATS


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    what = "numpy: needs NumPy alone; onnx: one file; stablehlo: for jax.export, and as text"
    command.add_argument("--format", choices=FORMATS, required=True, help=what)
    command.add_argument("--out", type=Path, metavar="DIR", help="a new folder; default RUN/export/FORMAT")


def run(asked: argparse.Namespace) -> int:
    """Write the files, and say what of them a user should know."""
    import yaml

    from ..export.write import export

    out = export(asked.run, asked.format, asked.out)
    contract = yaml.safe_load((out / "contract.yaml").read_text())
    for path in sorted(out.iterdir()):
        print(path)
    notes = []
    if contract["made"]["state"] != "finished":
        notes.append(f"the run is {contract['made']['state']}: this is its policy at the last checkpoint")
    if contract["input"]["observed"] is None:
        notes.append("no target rows of this run are stored (--keep-replay keeps them): no ranges of observations")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0
