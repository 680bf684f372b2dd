"""From the runs of a study to jobs: what is done already, what an earlier job goes on with, and what is new."""

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._util.errors import OffdynError
from ..envs import pairs
from ..training.config import RunConfig
from ..training.preparation import group
from ..training.run_folder import RunFolder
from . import job as jobs
from .job import ENDED, JOBS, Job


@dataclass(frozen=True)
class Plan:
    """What a study comes to in its folder."""

    folder: Path
    runs: list[RunConfig]
    left: list[Job]  # with runs to do, those that others need first
    unbegun: list[Path]  # files of jobs that never began and are not among those left: planned otherwise by now

    def state_of(self, run: RunConfig) -> str:
        path = self.folder / run.name
        return RunFolder.open(path).state if path.exists() else "waiting"


def plan(runs: Sequence[RunConfig], folder: Path, threads: int | None = None, lanes: int | None = None) -> Plan:
    """Jobs for all that is left to do, at most `lanes` runs in each; nothing is written.

    A run belongs to one job for ever, once that has begun: its checkpoints hold all runs of the job.
    """
    if lanes is not None and lanes < 1:
        raise OffdynError(f"--lanes: expected at least 1, got {lanes}")
    begun, unbegun = _known_jobs(folder)
    owners = {run.name: (job, run) for job in begun for run in job.runs}
    left: dict[str, Job] = {}
    new: list[RunConfig] = []
    for run in runs:
        state = _state(run, folder, owners.get(run.name, (None, None))[1])
        if state in ENDED:
            continue
        if run.name in owners:
            job = owners[run.name][0]
            left[job.id] = dataclasses.replace(job, threads=threads)
        elif state == "waiting":
            new.append(run)
        else:
            raise OffdynError(
                f"{folder / run.name} is {state} and belongs to no job of a study: finish it with "
                f"`offdyn resume {folder}`, choose another --out, or delete it"
            )
    fresh = _new_jobs(new, folder, threads, lanes)
    owners |= {run.name: (job, run) for job in fresh for run in job.runs}
    for job in fresh:
        needs = {owners[start][0].id for run in job.runs if (start := run.schedule.start_from or "") in owners}
        left[job.id] = dataclasses.replace(job, needs=tuple(sorted(needs)))
    ordered = sorted(left.values(), key=lambda job: bool(job.needs))
    return Plan(folder, list(runs), ordered, [path for path in unbegun if path.stem not in left])


def _known_jobs(folder: Path) -> tuple[list[Job], list[Path]]:
    """Jobs that have begun, and the files of those that have not."""
    files = sorted((folder / JOBS).glob("*.yaml"))
    begun = [path for path in files if jobs.status(path).state != "waiting"]
    return [jobs.read(path) for path in begun], [path for path in files if path not in begun]


def _state(run: RunConfig, folder: Path, known: RunConfig | None) -> str:
    """The run's state in the folder, where it must be what it was when it began."""
    path = folder / run.name
    if path.exists():
        earlier = RunFolder.open(path)
        known, state = earlier.config, earlier.state
    else:
        state = "waiting"
    if known is not None and not _beside(run).computes_as(_beside(known)):
        raise OffdynError(
            f"{path} was begun with other settings than now asked for (another --scale?): choose another --out"
        )
    return state


def _beside(run: RunConfig) -> RunConfig:
    """What a run continues from by its name alone, wherever the folder is."""
    start = run.schedule.start_from
    name = None if start is None else Path(start).name
    return dataclasses.replace(run, schedule=dataclasses.replace(run.schedule, start_from=name))


def _new_jobs(runs: Sequence[RunConfig], folder: Path, threads: int | None, lanes: int | None) -> list[Job]:
    # Runs that continue from others wait for them; those that do not need not wait with them.
    alone = [run for run in runs if run.schedule.start_from is None]
    later = [run for run in runs if run.schedule.start_from is not None]
    made = []
    for members in (*group(alone), *group(later)):
        size = lanes or len(members)
        for at in range(0, len(members), size):
            part = members[at : at + size]
            made.append(Job((folder / JOBS / f"{_id(part)}.yaml").absolute(), tuple(part), threads=threads))
    return made


def _id(members: Sequence[RunConfig]) -> str:
    names = "\n".join(run.name for run in members)
    words = re.sub(r"[^A-Za-z0-9+-]", "_", f"{members[0].method}-{pairs.family_of(members[0].task)}")
    return f"{words}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
