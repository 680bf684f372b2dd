"""Runs as a report reads them from the disk: whole or half-finished, and a damaged file is a complaint, not an end."""

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from .._util.errors import OffdynError
from .._util.files import content
from ..training import run_folder
from ..training.run_folder import DAMAGED, read_config, read_curve, read_final, read_provenance
from .statistics import late_mean

STATES = (*run_folder.STATES, "not started", "damaged")
ONLINE = "online"
NEVER_RUNS = {"cohorts", "tensorboard", "policies"}  # folders below which no run is looked for
ABOUT = "about.yaml"


def _curve(file: Path) -> dict[str, np.ndarray]:
    columns = read_curve(content(file))
    if columns and not {"target_steps", "target_return_mean"} <= columns.keys():
        raise ValueError("it has no columns target_steps and target_return_mean")
    return columns


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

    def attempt(name: str, read: Callable[[Path], Any], otherwise: Any) -> Any:
        try:
            if (path / name).exists():
                return read(path / name)
            if name == "config.yaml":
                complaints.append(f"{path / name} is missing")
        except DAMAGED as error:
            complaints.append(f"{path / name} is damaged: {_why(error, path / name)}")
        return otherwise

    config = attempt("config.yaml", read_config, None)
    curve = attempt("curve.csv", _curve, {})
    provenance = attempt("provenance.json", read_provenance, None)
    final = attempt("final.json", read_final, None)
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


def _why(error: Exception, path: Path) -> str:
    """In one line, without the path where that was said before."""
    return " ".join(str(error).removeprefix(f"{path}: ").split())[:200]


class Apart(NamedTuple):
    """A folder whose runs are left out of a report on a folder above it."""

    folder: Path
    reason: str
    runs: int


def run_folders(folder: Path) -> Iterator[Path]:
    """Folders of runs at or below one, less those in a folder below that stands apart."""
    for path, files in _walk(folder):
        # A curve or a provenance alone may be anyone's; the two together are a run that lost its configuration.
        if "config.yaml" in files or {"curve.csv", "provenance.json"} <= files:
            yield path


def standing_apart(folders: Iterable[Path], shown: Iterable[Path] = ()) -> list[Apart]:
    """What `run_folders` leaves out, less the runs that are shown all the same because their own folder was named."""
    seen = {path.resolve() for path in shown}
    found: dict[Path, Apart] = {}
    for path in (path for folder in folders for path, _ in _walk(folder, into_apart=True)):
        if (why := reason(path)) and path.resolve() not in found:
            left = [run for run in run_folders(path) if run.resolve() not in seen]
            found |= {path.resolve(): Apart(path, why, len(left))} if left else {}
    return list(found.values())


def reason(folder: Path) -> str:
    """Why its runs stand apart; "" where they do not. A file that cannot be read may have said so: apart, and told."""
    try:
        read = yaml.safe_load(content(folder / ABOUT))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        return f"its {ABOUT} cannot be read ({' '.join(str(error).split())[:200]})"
    return str(read.get("apart") or "") if isinstance(read, dict) else ""


def _walk(folder: Path, into_apart: bool = False) -> Iterator[tuple[Path, set[str]]]:
    """(folder, names of its files) for every folder that may hold runs, in order; nothing below a run."""
    been: set[str] = set()  # a link may lead back up
    for here, below, files in os.walk(folder, followlinks=True):
        path = Path(here)
        place = os.path.realpath(here)
        if place in been or (path != folder and not into_apart and ABOUT in files and reason(path)):
            below.clear()
            continue
        been.add(place)
        below[:] = sorted(name for name in below if name not in NEVER_RUNS and not name.startswith("."))
        if "config.yaml" in files:
            below.clear()
        yield path, set(files)
