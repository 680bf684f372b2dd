"""Makes each dataset of `offdyn collect`, counts it, and writes summary.csv: rows, episodes, returns, D4RL's beside."""

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

from offdyn.data.datasets import load
from offdyn.domains.robots import ROBOTS
from offdyn.experiments.progress import Lines
from offdyn.experiments.qualities import QUALITIES, Collector, split

SUMMARY = Path(__file__).with_name("summary.csv")
COUNTED = ("rows", "episodes", "return_mean", "return_std")
COLUMNS = ("dataset", *COUNTED, "d4rl_rows", "d4rl_return_mean", "level_wanted", "level_reached", "training_step",
           "seed", "mujoco", "offdyn", "sha256")  # fmt: skip
# D4RL's v2 sets: rows counted from file sizes; mean returns as commonly quoted, not recomputed from the files;
# of random and expert, the returns that its normalised scores call 0 and 100.
D4RL: dict[str, tuple[int | None, float | None]] = {
    "halfcheetah-random": (None, -280.18), "halfcheetah-medium": (1_000_000, 4770.0),
    "halfcheetah-expert": (None, 12135.0), "halfcheetah-medium-replay": (202_000, 3093.0),
    "halfcheetah-medium-expert": (2_000_000, 7713.0),
    "hopper-random": (None, -20.27), "hopper-medium": (1_000_000, 1422.0), "hopper-expert": (None, 3234.3),
    "hopper-medium-replay": (402_000, 467.0), "hopper-medium-expert": (2_000_000, 2090.0),
    "walker-random": (None, 1.63), "walker-medium": (1_000_000, 2852.0), "walker-expert": (None, 4592.3),
    "walker-medium-replay": (302_000, 683.0), "walker-medium-expert": (2_000_000, 3833.0),
    "ant-random": (None, -325.6), "ant-expert": (None, 3879.7), "ant-medium-replay": (302_000, None),
}  # fmt: skip


def main() -> None:
    asked = arguments()
    lines = read()
    for robot in asked.robots:
        with tempfile.TemporaryDirectory(dir=asked.data) as folder:
            collector = Collector(
                Path(folder), asked.steps, asked.seed, asked.behaviours, asked.threads, progress=Lines()
            )
            for quality in asked.qualities:
                name = f"{robot}-{quality}"
                lines[name] = line(name, load(collector.collect(name)).card)
                write(lines)
    print(SUMMARY.read_text())


def line(name: str, card: Any) -> dict[str, Any]:
    rows, mean = D4RL.get(name, (None, None))
    counted = {column: card["steps" if column == "rows" else column] for column in COUNTED}
    return {column: card.get(column) for column in COLUMNS} | counted | {
        "dataset": name,
        "d4rl_rows": rows,
        "d4rl_return_mean": mean,
    }  # fmt: skip


def read() -> dict[str, dict[str, Any]]:
    """What an earlier call measured, so that robots can be measured one by one."""
    if not SUMMARY.exists():
        return {}
    with open(SUMMARY, newline="") as file:
        return {row["dataset"]: dict(row) for row in csv.DictReader(file)}


def write(lines: dict[str, dict[str, Any]]) -> None:
    def place(name: str) -> tuple[int, int]:
        robot, quality = split(name)
        return list(ROBOTS).index(robot), QUALITIES.index(quality)

    with open(SUMMARY, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[name] for name in sorted(lines, key=place))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", nargs="+", choices=list(ROBOTS), default=list(ROBOTS))
    parser.add_argument("--qualities", nargs="+", choices=QUALITIES, default=QUALITIES)
    parser.add_argument("--steps", type=int, help="default 1000000, of medium-replay its own number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--behaviours", type=Path, help="default: the shipped policies")
    parser.add_argument("--data", type=Path, help="where a robot's datasets lie until counted: up to 2 GB")
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
