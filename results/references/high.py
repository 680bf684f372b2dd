"""The high references, from the finished runs of high.yaml: high.csv, and the scale that offdyn ships.

    python results/references/high.py [DIR]

DIR is where the study was run (default results/references/high). A task counts only with all three of its seeds.
"""

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import offdyn
from offdyn.errors import OffdynError
from offdyn.experiments.config import RunConfig
from offdyn.experiments.record import RunFolder
from offdyn.studies.study import load

HERE = Path(__file__).parent
SCALE = Path(offdyn.__file__).parent / "domains" / "measured_scores.csv"
SCALE_HEAD = """\
# Reference returns per target task for normalised scores, as measured by us: low is a random policy in the target,
# high the best of three seeds of SAC with 1,000,000 target steps. Written by results/references/high.py; a task is
# not here before its high runs are finished.
"""


def finals(folder: Path, wanted: Iterable[RunConfig]) -> dict[str, dict[int, float]]:
    """By task and seed, the mean return of the final policy of those runs that are finished."""
    found: dict[str, dict[int, float]] = {}
    for run in wanted:
        path = folder / run.name
        if not path.exists():
            continue
        there = RunFolder.open(path)
        if not there.config.computes_as(run):
            raise OffdynError(
                f"{path}: not a run of high.yaml at full length (another --scale?); name the folder of those"
            )
        if there.state == "finished":
            final = json.loads((path / "final.json").read_text())
            found.setdefault(run.task.name, {})[run.seed] = final["final_mean"]
    return found


def rows(found: Mapping[str, Mapping[int, float]], seeds: Iterable[int]) -> list[dict[str, object]]:
    """A line for each task with all seeds: the best one, which says what the body allows, and every seed."""
    seeds = list(seeds)
    return [
        {
            "task": task,
            "high": round(max(of_seed.values()), 2),
            **{f"seed_{seed}": round(of_seed[seed], 2) for seed in seeds},
        }
        for task, of_seed in found.items()
        if set(seeds) <= set(of_seed)
    ]


def scale(low: Mapping[str, float], high: Iterable[Mapping[str, object]]) -> str:
    """The text of measured_scores.csv."""
    return SCALE_HEAD + "task,low,high\n" + "".join(f"{r['task']},{low[str(r['task'])]},{r['high']}\n" for r in high)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "high"
    study = load(HERE / "high.yaml")
    made = rows(finals(folder, study.runs()[0]), study.seeds)
    if not made:
        raise OffdynError(f"{folder}: no task with all of the seeds {list(study.seeds)} finished; run high.yaml first")
    with (HERE / "low.csv").open(newline="") as file:
        low = {line["task"]: float(line["low"]) for line in csv.DictReader(file)}
    with (HERE / "high.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)
    SCALE.write_text(scale(low, made))
    print((HERE / "high.csv").read_text(), end="")


if __name__ == "__main__":
    try:
        main()
    except OffdynError as error:
        sys.exit(f"error: {error}")
