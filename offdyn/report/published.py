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
QUALITIES_NOTE = (
    "As published, from datasets: the paper's Table 1, whose source is a D4RL dataset (medium / medium-replay / "
    "medium-expert). Another setting than a live source, for which the paper shows figures only: compare in kind."
)
# Target returns of PAR with a live source, as the project page of DADiff (IROS 2026) reports them.
RERUN = {"hopper-broken-joints": "2623", "walker-broken-right-foot": "2943"}
RERUN_NOTE = "Rerun by others: PAR with a live source as the DADiff project (IROS 2026) reports it, without a spread."


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


def all_qualities(task: str, method: str) -> str:
    """Means of a task and a method from every kind of dataset; "" where there are none."""
    found = [entry for quality in qualities() if (entry := table().get((quality, task, method)))]
    return " / ".join(f"{entry.mean:.0f}" for entry in found) + (MARKS[found[0].suspect] if found else "")
