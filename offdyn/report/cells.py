"""Which runs belong together: a row is a source and a task, a column a method as it was set, a cell their seeds."""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import published
from .runs import ONLINE, Run

# The order of columns: PAR, then the others as in the paper, and ours behind SAC.
METHODS = (
    "head-start", "par", "par-b", "sac-tar", "sac-tar-10", "sac-tune", "sac-src", "sac", "duo", "cql-src", "cql-0",
    "cql+sac", "sac+bc", "h2o", "darc", "darc-weight", "vgdf", "vgdf+bc",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A task with what is in its source's place."""

    source: str
    task: str

    @property
    def kind(self) -> str:
        return ONLINE if self.source == ONLINE else "offline"

    @property
    def name(self) -> str:
        return self.task if self.source == ONLINE else f"{self.task}, {self.source}"

    @property
    def order(self) -> tuple[Any, ...]:
        quality = published.quality_of(self.source) or ""
        qualities, tasks = published.qualities(), published.tasks()
        at = qualities.index(quality) if quality in qualities else len(qualities)
        return at, tasks.index(self.task) if self.task in tasks else len(tasks), self.task, self.source


@dataclass(frozen=True)
class Cell:
    """Runs that differ in nothing but their seed."""

    row: Row
    method: str
    preset: str
    label: str
    runs: tuple[Run, ...]

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.final_return is not None]

    @property
    def finals(self) -> np.ndarray:
        """Final returns [finished runs]."""
        return np.array([run.final_return for run in self.finished], float)

    @property
    def lates(self) -> np.ndarray:
        """Returns over the last fifth of training [finished runs]; NaN where a run has lost its curve."""
        return np.array([run.late_return for run in self.finished], float)

    @property
    def seeds(self) -> list[int]:
        return sorted(run.seed for run in self.runs)

    @property
    def settings(self) -> dict[str, Any]:
        return comparable(self.runs[0])

    @property
    def chosen(self) -> set[str]:
        return {name for run in self.runs for name in run.chosen}


@dataclass(frozen=True)
class Comparison:
    """All that stands in one table: online or offline."""

    kind: str
    cells: tuple[Cell, ...]

    @property
    def rows(self) -> list[Row]:
        return sorted({cell.row for cell in self.cells}, key=lambda row: row.order)

    @property
    def labels(self) -> list[str]:
        """Columns in their one order."""
        of = {cell.label: cell for cell in self.cells}

        def order(label: str) -> tuple[Any, ...]:
            cell = of[label]
            numbers = [float(text) for text in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", label[len(cell.method) :])]
            at = METHODS.index(cell.method) if cell.method in METHODS else len(METHODS)
            return at, cell.method, cell.preset, re.sub(r"\d.*", "", label), numbers, label

        return sorted(of, key=order)

    def cell(self, row: Row, label: str) -> Cell | None:
        return next((cell for cell in self.cells if (cell.row, cell.label) == (row, label)), None)

    def column(self, label: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.label == label]

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    def digits(self, row: Row) -> int:
        """Of the returns in a row, behind the point."""
        runs = [run for cell in self.cells if cell.row == row for run in cell.runs]
        finals = [run.final_return for run in runs if run.final_return is not None]
        return return_digits(row.task, finals or [run.last_return for run in runs if run.last_return is not None])


def return_digits(task: str, returns: Iterable[float]) -> int:
    """None of our robots' thousands; of other environments' so many that three digits are seen of the largest."""
    largest = max(map(abs, returns), default=0.0)
    if reference(task) is not None or not 0.0 < largest < 100.0:
        return 0
    return 1 if largest >= 10.0 else 2 if largest >= 1.0 else 3


def comparable(run: Run) -> dict[str, Any]:
    """The settings in which runs of one cell must agree."""
    from ..training.config import WATCHING

    elsewhere = (WATCHING - {"target_steps"}) | {"source_data"}  # how it was watched; the row
    settings = {name: value for name, value in run.settings.items() if name not in elsewhere}
    if settings.get("start_from"):
        settings["start_from"] = re.sub(r"seed-\d+", "seed-*", Path(str(settings["start_from"])).name)
    if re.search(r"seed-\d+", base := str(settings.get("base_policy"))):
        settings |= {"base_policy": re.sub(r"seed-\d+", "seed-*", base), "base_sha256": None}
    return settings


def first_phases(runs: Sequence[Run]) -> set[Path]:
    """Folders of runs that others continued from: not results themselves."""
    began = {Path(str(run.settings["start_from"])).name for run in runs if run.settings.get("start_from")}
    return {run.path for run in runs if run.path.name in began}


def once_each(runs: Iterable[Run]) -> tuple[list[Run], list[tuple[Run, Run]]]:
    """The runs without repetitions of one, of which a finished one stays; and (dropped, kept) for those."""
    kept: dict[Any, Run] = {}
    dropped = []
    for run in runs:
        key = (run.source, run.task, run.method, run.preset, run.seed, repr(sorted(comparable(run).items())))
        other = kept.get(key)
        if other is None:
            kept[key] = run
        elif other.state != "finished" and run.state == "finished":
            kept[key] = run
            dropped.append((other, run))
        else:
            dropped.append((run, other))
    return list(kept.values()), dropped


def compare(runs: Iterable[Run]) -> list[Comparison]:
    """The tables' contents: online first, then offline."""
    grouped: dict[Any, list[Run]] = defaultdict(list)
    for run in runs:
        grouped[Row(run.source, run.task), run.method, run.preset, repr(sorted(comparable(run).items()))].append(run)
    cells = [
        Cell(row, method, preset, method, tuple(sorted(some, key=lambda run: run.seed)))
        for (row, method, preset, _), some in grouped.items()
    ]
    kinds = [kind for kind in (ONLINE, "offline") if any(cell.row.kind == kind for cell in cells)]
    return [Comparison(kind, tuple(_labelled([c for c in cells if c.row.kind == kind]))) for kind in kinds]


def _labelled(cells: Sequence[Cell]) -> list[Cell]:
    """Each cell with a name no longer than it takes to tell it from the others of its row."""
    presets: dict[str, set[str]] = defaultdict(set)
    differing: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        presets[cell.method].add(cell.preset)
        alike = [c for c in cells if (c.row, c.method, c.preset) == (cell.row, cell.method, cell.preset)]
        differing[cell.method] |= differences(alike)
    named = []
    for cell in cells:
        told = [f"preset {cell.preset}"] if len(presets[cell.method]) > 1 else []
        told += [said(name, cell.settings[name]) for name in sorted(differing[cell.method] & cell.chosen)]
        named.append(replace(cell, label=", ".join([cell.method, *told])))
    return [_told_apart(cell, named) for cell in named]


def _told_apart(cell: Cell, cells: Sequence[Cell]) -> Cell:
    """Values that nobody chose (of another version or file) are told only where nothing else tells two cells apart."""
    same = [other for other in cells if (other.row, other.label) == (cell.row, cell.label)]
    told = [said(name, cell.settings.get(name)) for name in sorted(differences(same))]
    return replace(cell, label=", ".join([cell.label, *told]))


def differences(cells: Sequence[Cell]) -> set[str]:
    """Names of the settings in which the cells differ."""
    settings = [cell.settings for cell in cells]
    names = {name for some in settings for name in some}
    return {name for name in names if len({repr(some.get(name)) for some in settings}) > 1}


def said(name: str, value: Any) -> str:
    """A setting in words."""
    return f"{name.replace('_', ' ')} {number(value) if isinstance(value, int | float) else value}"


def number(value: float) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}" if abs(value) < 1e6 else f"{value:.7g}"


@functools.cache
def reference(task: str, kind: str = "published") -> tuple[float, float] | None:
    """The returns that count as 0 and as 100 on a task of our robots: published ones, or those we measured."""
    from ..envs import tasks

    known = tasks.TASKS.get(task.removesuffix(tasks.LEGACY))
    return None if known is None else tasks.reference(known, kind)
