"""Does rounding to bfloat16 cost return? PAR on the demo's small world in both precisions, twenty seeds each.

    python results/bfloat16/measure.py

writes returns.csv: the mean return of each seed's final policy, 50 fresh episodes in the target. On a CPU rounding is
imitated, number for number (`Layout.rounded`).
"""

import csv
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from offdyn import demo
from offdyn.experiments import train

HERE = Path(__file__).parent
SEEDS = range(20)
MARGIN = 1.0  # set beforehand: about a tenth of what PAR gains there over its rivals
NORMAL = 1.96


def final_returns(precision: str) -> list[float]:
    rival = replace(demo.PAR, settings={**demo.PAR.settings, "precision": precision})
    with tempfile.TemporaryDirectory() as folder:
        done = train.start(demo.plan(rival, SEEDS, quick=False), Path(folder) / "runs", threads=1)
        return [json.loads((run.path / "final.json").read_text())["final_mean"] for run in done]


def main() -> None:
    found = {precision: final_returns(precision) for precision in ("float32", "bfloat16")}
    with (HERE / "returns.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("seed", *found))
        for seed, *returns in zip(SEEDS, *found.values(), strict=True):
            writer.writerow((seed, *(round(value, 3) for value in returns)))
    exact, rounded = (np.array(returns) for returns in found.values())
    difference = rounded.mean() - exact.mean()
    error = np.sqrt(exact.var(ddof=1) / len(exact) + rounded.var(ddof=1) / len(rounded))
    low, high = difference - NORMAL * error, difference + NORMAL * error
    print(
        f"float32 {exact.mean():.2f}, bfloat16 {rounded.mean():.2f}: {difference:+.2f}, 95 % [{low:+.2f}, {high:+.2f}]"
    )
    print(f"within {MARGIN}: {'yes' if max(-low, high) < MARGIN else 'not shown'}")


if __name__ == "__main__":
    main()
