"""Runs as a report reads them from the disk: whole or half-finished, and a damaged file is a complaint, not an end."""

import contextlib
import csv
import dataclasses
import functools
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from .._util.errors import OffdynError, check_format
from .._util.files import content
from ..training.config import OLDER, Schedule, renamed
from ..training.run_folder import todays_column
from .folders import run_folders, standing_apart
from .statistics import late_mean

STATES = ("finished", "running", "stopped", "failed", "not started", "damaged")
ONLINE = "online"
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError, csv.Error)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C where it was built: ten times as fast


@dataclass(frozen=True)
class Run:
    """One run's folder, as far as it can be read."""

    path: Path
    shown_as: str  # its path as the user named it
    task: str = ""
    method: str = ""
    preset: str = ""
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    final: dict[str, Any] | None = None
    curve: dict[str, np.ndarray] = field(default_factory=dict)  # a column per name
    state: str = "damaged"
    complaints: tuple[str, ...] = ()

    @property
    def final_return(self) -> float | None:
        return self.final["final_mean"] if self.final and self.state == "finished" else None

    @property
    def last_return(self) -> float | None:
        """Of the latest evaluation."""
        returns = self.column("target_return_mean")
        return float(returns[-1]) if len(returns) and math.isfinite(returns[-1]) else None

    @property
    def late_return(self) -> float:
        """The mean of the last fifth's evaluations: steadier than a final policy. NaN where no curve is left."""
        returns = self.column("target_return_mean")
        return late_mean(self.column("target_steps"), returns) if len(returns) else math.nan

    @property
    def target_steps(self) -> int:
        steps = self.column("target_steps")
        return int(self.provenance.get("target_steps", steps[-1] if len(steps) else 0))

    @property
    def target_budget(self) -> int:
        """Target steps of the whole run."""
        if self.settings.get("collects") in ("source", "none") or self.settings.get("tested_only"):
            return 0
        return int(self.settings["target_steps"])

    @property
    def source(self) -> str:
        """`online`, or the name of the dataset that is in the source's place."""
        data = self.settings.get("source_data")
        if not data:
            return ONLINE
        return str((self.provenance.get("source_data") or {}).get("name") or Path(str(data)).stem)

    @property
    def failure(self) -> str:
        """Why it failed, in words."""
        said = self.provenance.get("failure")
        if self.state != "failed":
            return ""
        if not isinstance(said, dict):
            return str(said or "no reason was recorded")
        return f"{said.get('quantity')} not finite at source step {said.get('step')}"

    @property
    def device(self) -> str:
        return str((self.provenance.get("device") or {}).get("kind", ""))

    @property
    def tuning_steps(self) -> int | None:
        """Target steps that a search for its settings used, where that was recorded."""
        return self.provenance.get("tuning_target_steps")

    def column(self, name: str) -> np.ndarray:
        return self.curve.get(name, np.empty(0))

    def version(self, package: str) -> str:
        packages = self.provenance.get("packages") or {}
        return str(self.provenance.get(package) or packages.get(package) or "")


def gather(folders: Iterable[Path]) -> list[Run]:
    """Every run below the folders, each once."""
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise OffdynError(f"{folder}: no such folder; name one that holds runs")
        before = len(found)
        for path in run_folders(folder):
            found.setdefault(path.resolve(), read_run(path))
        if len(found) == before and not any(path.is_relative_to(folder.resolve()) for path in found):
            hidden = [left.folder.name for left in standing_apart([folder])]
            hint = f"; {', '.join(hidden)} in it stand apart, name one of them" if hidden else ""
            raise OffdynError(f"{folder}: no run below it (a run's folder holds a config.yaml){hint}")
    return list(found.values())


def planned(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Of every study that was run into the folders, its runs' names; a record that cannot be read says nothing."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("**/studies/*.yaml")):
        with contextlib.suppress(*DAMAGED):
            read = yaml.safe_load(content(path))
            found.setdefault(str(read["name"]), []).extend(map(str, read["runs"]))
    return {study: list(dict.fromkeys(names)) for study, names in found.items()}


def read_run(path: Path) -> Run:
    """What can be read of a run; what cannot is named in its complaints."""
    complaints: list[str] = []

    def attempt(name: str, read: Any, otherwise: Any) -> Any:
        try:
            return read(path / name)
        except FileNotFoundError:
            if name == "config.yaml":
                complaints.append(f"{path / name} is missing")
        except DAMAGED as error:
            complaints.append(f"{path / name} is damaged: {' '.join(str(error).split())[:200]}")
        return otherwise

    config = attempt("config.yaml", _config, None)
    curve = attempt("curve.csv", _curve, {})
    provenance = attempt("provenance.json", _provenance, None)
    final = attempt("final.json", _final, None)
    if config is None:
        return Run(path, str(path), provenance=provenance or {}, curve=curve, complaints=tuple(complaints))
    if provenance is None and (curve or final) and not complaints:
        complaints.append(f"{path / 'provenance.json'} is missing")
    damaged = any(complaint.startswith(str(path / "provenance.json")) for complaint in complaints)
    state = "damaged" if damaged else "not started" if provenance is None else provenance["state"]
    # A run that never acts in the target and is not evaluated there either has no return to tell.
    if state == "finished" and final is None and config["settings"].get("final_episodes") != 0:
        if not complaints:
            complaints.append(f"{path} is finished but has no final.json")
        state = "damaged"
    return Run(
        path, str(path), **config, provenance=provenance or {}, final=final, curve=curve, state=state,
        complaints=tuple(complaints),
    )  # fmt: skip


def _config(path: Path) -> dict[str, Any]:
    read = yaml.load(content(path), Loader=LOADER)
    check_format(read["format"], 1, path)
    task = read["task"]
    known = renamed(read["settings"])
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in known.items()}
    for name in ("target_steps", "source_steps_per_target_step"):
        steps = settings[name]
        if not isinstance(steps, int) or steps < 1:
            raise ValueError(f"{name} should be a positive whole number, found {settings[name]!r}")
    return {
        "task": _task_name(task),
        "method": str(read["method"]),
        "preset": str(read["preset"]),
        "seed": int(read["seed"]),
        # A setting younger than the run was what its default says, as far as anyone can tell.
        "settings": _defaults(str(read["method"])) | settings,
        "chosen": tuple(OLDER.get(name, name) for name in read["chosen"]),
    }


def _task_name(task: Mapping[str, Any]) -> str:
    """Custom environments with the name of a robot's task are told apart from it: scores go by names."""
    from ..envs.tasks import TASKS

    name = str(task.get("name") or task.get("world"))
    return f"{name} (custom)" if "robot" not in task and name in TASKS else name


@functools.cache
def _defaults(method: str) -> dict[str, Any]:
    from ..algos.registry import RECIPES
    from ..algos.sac import Sac

    parts: list[Any] = [Schedule, Sac, *([RECIPES[method].method.hyper] if method in RECIPES else [])]
    fields = [field for part in parts for field in dataclasses.fields(part)]
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


def _curve(path: Path) -> dict[str, np.ndarray]:
    rows = list(csv.reader(io.StringIO(content(path).decode(), newline="")))
    if not rows:
        return {}
    head, lines = rows[0], rows[1:]
    if "target_steps" not in head or "target_return_mean" not in head:
        raise ValueError("it has no columns target_steps and target_return_mean")
    if lines and len(lines[-1]) < len(head):
        lines.pop()  # a line that is being written, or that a kill cut short
    for number, line in enumerate(lines, 2):
        if len(line) != len(head):
            raise ValueError(f"line {number} has {len(line)} cells, the first line {len(head)}")
    cells = np.array([[float(cell) if cell else np.nan for cell in line] for line in lines])
    columns = dict(zip(map(todays_column, head), cells.reshape(-1, len(head)).T, strict=True))
    if not np.all(np.diff(columns["target_steps"]) >= 0):
        raise ValueError("its target_steps do not ascend")
    return columns


def _json(path: Path) -> dict[str, Any]:
    read = json.loads(content(path))
    check_format(read["format"], 1, path)
    return read


def _provenance(path: Path) -> dict[str, Any]:
    read = _json(path)
    if read["state"] not in STATES[:4]:
        raise ValueError(f"unknown state {read['state']!r}")
    for name in ("packages", "device", "machine", "models", "source_data"):
        if not isinstance(read.get(name) or {}, dict):
            raise ValueError(f"{name} should be a mapping, found {read[name]!r}")
    for name in ("wall_seconds", "updates", "target_steps", "lanes_in_cohort", "tuning_target_steps"):
        if not isinstance(read.get(name) or 0, int | float):
            raise ValueError(f"{name} should be a number, found {read[name]!r}")
    return read


def _final(path: Path) -> dict[str, Any]:
    read = _json(path)
    read["final_mean"] = float(read["final_mean"])
    if not math.isfinite(read["final_mean"]):
        raise ValueError(f"final_mean is {read['final_mean']}")
    return read
