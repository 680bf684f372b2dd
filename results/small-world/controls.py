"""Does content matter where it can? Controls of PAR and VGDF on the demo's world: controls.csv, controls.json, a table.

    python results/small-world/controls.py [--seeds 0 1 2 3 4 5 6 7 8 9] [--work FOLDER]
    python results/small-world/controls.py --show    # the tables alone, from controls.csv

`--work` keeps the runs; the same command then goes on where it was stopped.
"""

import argparse
import csv
import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from run import BOTH, ENSEMBLE, HERE, PAR, PENALTY, WARM_UP, about, trained, write

from offdyn.demo import compare

TABLE = HERE / "controls.csv"
PENALISED, FILTERED = {**PAR, "penalty": PENALTY}, {**BOTH, **ENSEMBLE, **WARM_UP}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {  # the first of a method is what the others are compared with
    "PAR": ("par", PENALISED),
    "PAR, deviations shuffled": ("par", {**PENALISED, "deviation_shuffled": 1.0}),
    "PAR, mean deviation": ("par", {**PENALISED, "deviation_averaged": 1.0}),
    "PAR, no penalty": ("par", {**PAR, "penalty": 0.0}),
    "PAR, one source body": ("par", {**PENALISED, "bodies": 1}),
    "VGDF": ("vgdf", FILTERED),
    "VGDF, a quarter at random": ("vgdf", {**FILTERED, "weight_shuffled": 1.0}),
    "VGDF, all at a quarter of the weight": ("vgdf", {**FILTERED, "weight_averaged": 1.0}),
    "VGDF, all rows": ("vgdf", {**FILTERED, "kept_share": 1.0}),
}


def show(finals: Mapping[str, Sequence[float]]) -> None:
    """Every seed, and an exact permutation test of the difference of means from the method itself."""
    for kind, returns in finals.items():
        first = next(other for other, (method, _) in KINDS.items() if method == KINDS[kind][0])
        chance = compare(kind, finals[first], returns).chance if kind != first else "–"
        every = ", ".join(f"{value:.1f}" for value in returns)
        print(f"| {kind} | {every} | {np.mean(returns):.1f} | {chance} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    if not asked.show:
        with tempfile.TemporaryDirectory() as made:
            lines = []
            for kind, how in KINDS.items():
                for run in trained(kind, *how, asked.seeds, asked.work or Path(made)):
                    final = json.loads((run.path / "final.json").read_text())["final_mean"]
                    lines.append((kind, run.config.seed, round(final, 3)))
            write(TABLE.name, ("kind", "seed", "final_mean"), lines)
            about("controls.json", f"controls.py --seeds {' '.join(map(str, asked.seeds))}", KINDS)
    finals: dict[str, list[float]] = defaultdict(list)
    for row in csv.DictReader(TABLE.open()):
        finals[row["kind"]].append(float(row["final_mean"]))
    show(finals)


if __name__ == "__main__":
    main()
