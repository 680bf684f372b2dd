"""The paper's own numbers, which of them are suspect, and why (published.csv, whose head says where they are from)."""

import csv
import functools
import re
from importlib import resources
from typing import NamedTuple

MARKS = {"likely": "†", "unclear": "‡", "": ""}
REASONS = {
    "likely": "† Probably not the return in the changed body: until December 2024 the released scripts evaluated on a "
    "copy of the environment that may have come back with the stock body, and these numbers are nearly those of the "
    "stock robot. A suspicion, not a proof; do not chase them.",
    "unclear": "‡ The same fault may have touched this number, but it lies below what the stock body would give.",
}
ONLINE_NOTE = "The paper shows its online results as figures only: there is no number of its own to stand beside ours."


class Published(NamedTuple):
    """One entry of the paper's Table 1, over five seeds."""

    mean: float
    std: float
    suspect: str  # likely, unclear or nothing

    def __str__(self) -> str:
        return f"{self.mean:.0f} ± {self.std:.0f}{MARKS[self.suspect]}"


@functools.cache
def table() -> dict[tuple[str, str, str], Published]:
    """By (quality of the dataset, task, method)."""
    text = (resources.files(__package__) / "published.csv").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {
        (row["quality"], row["task"], row["method"]): Published(float(row["mean"]), float(row["std"]), row["suspect"])
        for row in csv.DictReader(lines)
    }


@functools.cache
def qualities() -> list[str]:
    """In the paper's order, after which come ours."""
    return ["", *dict.fromkeys(quality for quality, _, _ in table())]


@functools.cache
def tasks() -> list[str]:
    return list(dict.fromkeys(task for _, task, _ in table()))


def quality_of(source: str) -> str | None:
    """The quality that a dataset's name says: hopper-medium, hopper_medium_replay-v2."""
    words = re.search(r"(?<![a-z])medium([-_](replay|expert))?(?![a-z])", source.lower())
    return words.group().replace("_", "-") if words else None


def find(source: str, task: str, method: str) -> Published | None:
    """The paper's number for a dataset, a task and a method."""
    return table().get((quality_of(source) or "online", task, method))
