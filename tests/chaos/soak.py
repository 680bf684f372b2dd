"""One process for long: memory, descriptors, threads and pace over many steps, then over many cohorts.

`python -m tests.chaos.soak --out results/tables/soak.csv --figure results/figures/soak.png`
"""

import argparse
import csv
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from offdyn.api import plan
from offdyn.training import trainer
from offdyn.training.progress import Quiet

COLUMNS = ("part", "done", "seconds", "rss_mib", "descriptors", "threads", "per_second")
TINY = {
    "source_envs": 5,
    "actor_widths": (8,),
    "critic_widths": (8,),
    "batch_size": 8,
    "learning_starts": 8,
    "eval_episodes": 2,
    "eval_source_episodes": 1,
    "final_episodes": 2,
}


class Watch(Quiet):
    """Takes a line every so many steps."""

    def __init__(self, lines: list[dict[str, Any]], every: int) -> None:
        self.lines, self.every, self.last, self.began = lines, every, 0, time.perf_counter()
        self.newest = self.began

    def advanced(self, clock: int, total: int, wall: float) -> None:
        if clock - self.last >= self.every:
            now = time.perf_counter()
            self.lines.append(measured("steps", clock, now - self.began, (clock - self.last) / (now - self.newest)))
            self.last, self.newest = clock, now


def measured(part: str, done: int, seconds: float, pace: float) -> dict[str, Any]:
    """What this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    values = (
        part,
        done,
        round(seconds, 1),
        round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        round(pace, 2),
    )
    return dict(zip(COLUMNS, values, strict=True))


def over_steps(steps: int, folder: Path) -> list[dict[str, Any]]:
    """One training of a toy, all rows kept for learning, with logs, evaluations and checkpoints."""
    lines: list[dict[str, Any]] = []
    every = {"log_interval": 1000, "eval_interval": 5000, "checkpoint_interval": 10_000, "replay_size": 20_000}
    runs, _ = plan("jetpack", "sac", seeds=[0], source_steps=steps, **every, **TINY)
    trainer.start(runs, folder / "long", threads=1, progress=Watch(lines, max(1, steps // 100)))
    return lines


def over_cohorts(count: int, folder: Path) -> list[dict[str, Any]]:
    """Short trainings one after the other, of five programs in turn."""
    lines, began = [], time.perf_counter()
    for number in range(count):
        before = time.perf_counter()
        lengths = {"source_steps": 200, "eval_interval": 100, "log_interval": 100}
        settings = TINY | lengths | {"actor_widths": (8 + number % 5,)}
        runs, _ = plan("jetpack", "sac-tar-10", seeds=[number], **settings)
        trainer.start(runs, folder / f"cohort-{number}", threads=1)
        now = time.perf_counter()
        lines.append(measured("cohorts", number + 1, now - began, 1 / (now - before)))
    return lines


def growth(lines: list[dict[str, Any]], part: str) -> float:
    """MiB per step or per cohort from the middle on: what is made once is made by then."""
    late = [line for line in lines if line["part"] == part]
    late = late[len(late) // 2 :]
    return (late[-1]["rss_mib"] - late[0]["rss_mib"]) / max(1, late[-1]["done"] - late[0]["done"])


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = {"rss_mib": "memory (MiB)", "descriptors": "open descriptors", "per_second": "steps or cohorts per second"}
    figure, axes = pyplot.subplots(len(names), 2, figsize=(8, 6), sharex="col", layout="constrained")
    for column, part in enumerate(("steps", "cohorts")):
        mine = [line for line in lines if line["part"] == part]
        for row, (name, label) in enumerate(names.items()):
            axis = axes[row, column]
            axis.plot([line["done"] for line in mine], [line[name] for line in mine], linewidth=1.2)
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
            if column == 0:
                axis.set_ylabel(label)
        axes[-1, column].set_xlabel("source steps of one training" if part == "steps" else "cohorts in one process")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--cohorts", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("build/soak.csv"))
    parser.add_argument("--figure", type=Path)
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    try:
        lines = over_cohorts(asked.cohorts, folder) + over_steps(asked.steps, folder)
    finally:
        shutil.rmtree(folder)
    with open(asked.out, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    for part in ("steps", "cohorts"):
        mine = [line for line in lines if line["part"] == part]
        print(f"{part}: {mine[-1]}; {growth(lines, part):+.4f} MiB each from the middle on")
    if asked.figure is not None:
        draw(lines, asked.figure)


if __name__ == "__main__":
    main()
