"""The command `offdyn export`: a run's policy, or a dataset, as files that need no offdyn."""

import argparse
import sys
from pathlib import Path

from .._util.errors import OffdynError
from ..export import FORMATS

LAYOUTS = {"lerobot": "v3.0", "lerobot-v2.1": "v2.1"}  # of LeRobot, by format


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("run", type=Path, metavar="RUN|DATA", help="a run's folder; for lerobot a dataset")
    what = "numpy: needs NumPy alone; onnx: one file; stablehlo: for jax.export, and as text; lerobot: of a dataset"
    command.add_argument("--format", choices=(*FORMATS, *LAYOUTS), required=True, help=what)
    command.add_argument("--out", type=Path, metavar="DIR", help="a new folder; default RUN/export/FORMAT")
    command.add_argument("--fps", type=int, metavar="N", help="for lerobot: steps per second, where no robot of ours")


def run(asked: argparse.Namespace) -> int:
    """Write the files, and say what of them a user should know."""
    if asked.format in LAYOUTS:
        return _write_dataset(asked)
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
        notes.append("no target transitions of this run are stored (--keep-replay keeps them): no observation ranges")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0


def _write_dataset(asked: argparse.Namespace) -> int:
    from ..data.datasets import open_dataset, write_lerobot

    if asked.out is None:
        raise OffdynError(f"--format {asked.format} needs a new folder: say --out DIR")
    print(write_lerobot(open_dataset(str(asked.run)), asked.out, asked.fps, LAYOUTS[asked.format]))
    return 0
