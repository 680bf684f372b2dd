"""Starts and resumes trainings: what is on disk, and which cohorts are left to do."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..cores import default_threads
from ..errors import OffdynError
from . import devices, offline, own_target, starts, wandb
from .checkpoint import CohortFolder
from .config import RunConfig, group, methods_of, to_yaml
from .memory import check_memory
from .program_cache import keep_programs
from .progress import Progress, Quiet
from .record import RunFolder, exists_already
from .trainer import Stop, Stopped, Trainer

__all__ = ["Stop", "Stopped", "complete", "resume", "start"]
COHORTS = "cohorts"  # below OUT


def start(
    runs: Sequence[RunConfig],
    out: Path,
    *,
    threads: int | None = None,
    keep_replay: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[RunFolder]:
    """Train all runs, cohort by cohort; a run that fails says so in its folder and stops no other."""
    starts.check(runs, out)
    offline.check(runs, progress or Quiet())
    own_target.check(runs)
    wandb.check(runs)
    cohorts = group(_left_to_do(runs, out))
    taken = [path for path in _folders(cohorts, out) if path.exists()]
    if taken:
        raise exists_already(taken[0], out)
    for members in cohorts:
        check_memory(members)
    trainers = _create_folders(cohorts, out, keep_replay)
    return _train_all(trainers, threads, progress or Quiet(), stop or Stop())


def _left_to_do(runs: Sequence[RunConfig], out: Path) -> list[RunConfig]:
    """The runs without those that others go on from and that an earlier training in this folder has finished."""
    needed = {run.schedule.start_from for run in runs}
    left = []
    for run in runs:
        folder = out / run.name
        if run.name in needed and folder.exists():
            earlier = RunFolder.open(folder)
            if not run.computes_as(earlier.config):
                raise OffdynError(f"{folder} was trained with other settings than now asked for: choose another --out")
            if earlier.state == "finished":
                continue
        left.append(run)
    return left


def _create_folders(
    cohorts: list[list[RunConfig]], out: Path, keep_replay: bool
) -> list[tuple[list[RunFolder], CohortFolder]]:
    """The cohorts' folders first: they hold the runs' configurations, so that a kill in between loses no run."""
    disks: list[CohortFolder] = []
    try:
        for members in cohorts:
            configs = {run.name: to_yaml(run) for run in members}
            disks.append(CohortFolder.create(_cohort_folder(members, out), configs, keep_replay))
        folders = [[RunFolder.create(out, run) for run in members] for members in cohorts]
    except OSError as error:
        for disk in disks:
            disk.unlock()
        for path in _folders(cohorts, out):
            shutil.rmtree(path, ignore_errors=True)
        raise OffdynError(f"{out}: cannot be written to ({error}); nothing was started") from None
    return list(zip(folders, disks, strict=True))


def _cohort_folder(members: list[RunConfig], out: Path) -> Path:
    return out / COHORTS / hashlib.sha256("\n".join(run.name for run in members).encode()).hexdigest()[:12]


def _folders(cohorts: list[list[RunConfig]], out: Path) -> list[Path]:
    """All that these cohorts will make."""
    runs = [out / run.name for members in cohorts for run in members]
    return [*runs, *(_cohort_folder(members, out) for members in cohorts)]


def resume(
    out: Path, *, threads: int | None = None, progress: Progress | None = None, stop: Stop | None = None
) -> list[RunFolder]:
    """Continue every unfinished cohort of a folder where its last checkpoint was."""
    found = sorted((out / COHORTS).glob("*/cohort.json"))
    if not found:
        raise OffdynError(f"{out}: nothing to resume there (no {COHORTS}/*/cohort.json); name the --out of a training")
    return _train_all(_unfinished(found, out), threads, progress or Quiet(), stop or Stop())


def complete(
    runs: Sequence[RunConfig],
    out: Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[RunFolder]:
    """Train the runs of one cohort to their end from wherever they are, and no others of the folder.

    The caller sees to it that no other process begins the same cohort at the same time.
    """
    cohorts = group(runs)
    if len(cohorts) != 1:
        raise OffdynError(f"expected runs that can share one program, got {len(cohorts)} kinds of them")
    disk = _cohort_folder(cohorts[0], out)
    if not (disk / "cohort.json").exists():
        shutil.rmtree(disk, ignore_errors=True)  # what a kill before its first file may have left
        start(runs, out, threads=threads, progress=progress, stop=stop)
    else:
        trainers = _unfinished([disk / "cohort.json"], out)
        _train_all(trainers, threads, progress or Quiet(), stop or Stop())
    return [RunFolder.open(out / run.name) for run in runs]


def _unfinished(found: Sequence[Path], out: Path) -> list[tuple[list[RunFolder], CohortFolder]]:
    """The cohorts, by their cohort.json, that have runs left to do, locked."""
    trainers = []
    for path in found:
        cohort = CohortFolder(path.parent)
        folders = [RunFolder.restore(out / name, config) for name, config in cohort.runs().items()]
        if any(folder.state not in ("finished", "failed") for folder in folders):
            cohort.lock()
            trainers.append((folders, cohort))
        else:
            cohort.finish()  # what a kill at the very end may have left
    # A run that goes on from another comes after it.
    return sorted(trainers, key=lambda trainer: any(folder.config.schedule.start_from for folder in trainer[0]))


def _train_all(
    trainers: list[tuple[list[RunFolder], CohortFolder]], threads: int | None, progress: Progress, stop: Stop
) -> list[RunFolder]:
    done = []
    keep_programs(progress)
    try:
        for number, (folders, cohort) in enumerate(trainers, start=1):
            methods = methods_of(folder.config for folder in folders)
            runs = f"{len(folders)} runs of {methods}{devices.describe(len(folders))}"
            progress.say(f"cohort {number} of {len(trainers)}: {runs}")
            Trainer(folders, cohort, threads or default_threads(devices.beside_a_gpu()), progress, stop).run()
            done += folders
    finally:
        for _, cohort in trainers:
            cohort.unlock()
        progress.close()
    return done
