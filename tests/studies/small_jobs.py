"""A small study as jobs that any backend can run, and what of its results must be the same wherever they ran."""

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from offdyn.algos.registry import RECIPES
from offdyn.data.datasets import save
from offdyn.envs.pairs import find as find_pair
from offdyn.studies import job as jobs_of
from offdyn.studies.backends import Backend, Options, find
from offdyn.studies.job import Job
from offdyn.studies.plan import plan
from offdyn.training.config import RunConfig, build
from offdyn.training.preparation import with_first_phases
from offdyn.training.progress import Stop

from ..training.small import outcome, rows_of, small

WORLD = "jetpack"  # a world that a worker's process knows by name


def runs_of(methods: Sequence[str], seeds: Sequence[int], data: Path | None = None, **settings: Any) -> list[RunConfig]:
    """Short runs with tiny networks, and those they continue from; `data`: where a dataset for some of them is put."""
    if data is not None:
        save(rows_of(find_pair(WORLD), 400), data)
    built = []
    for method in methods:
        on_data = {"source_data": str(data), "source_envs": None} if RECIPES[method].offline else {}
        built += [build(WORLD, method, "paper", seed, small(method) | settings | on_data)[0] for seed in seeds]
    return with_first_phases(built)


def write_jobs(study: Path, runs: Sequence[RunConfig]) -> list[Job]:
    """The jobs of these runs, in the study's folder, those that others need first."""
    jobs = plan(runs, study, threads=1).left
    for job in jobs:
        jobs_of.write(job)
    return jobs


class Told(list[str]):
    """What a backend said."""

    def __call__(self, text: str) -> None:
        self.append(text)


def bring_to_end(backend: Backend, jobs: Sequence[Job], stop: Stop | None = None) -> Told:
    """Run the jobs; says what was said."""
    told = Told()
    backend.run(jobs, jobs[0].path.parent.parent, told, stop or Stop())
    return told


def locally(study: Path, runs: Sequence[RunConfig]) -> dict[str, Any]:
    """The results of the same runs from processes of this machine."""
    bring_to_end(find("local", Options()), write_jobs(study, runs))
    return outcome(study)


def states(jobs: Sequence[Job]) -> dict[str, str]:
    """By the jobs' methods."""
    return {method_of(job): jobs_of.status(job.path).state for job in jobs}


def method_of(job: Job) -> str:
    return job.runs[0].method


def starts(jobs: Sequence[Job]) -> dict[str, int]:
    """How often a process began to train each job, by the lines in its log."""
    return {method_of(job): len(re.findall("at work on", job.log.read_text())) for job in jobs}


def written(study: Path) -> dict[str, int]:
    """When each run's end was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in study.glob("*/final.json")}


def process_of(job: Job) -> int:
    """The newest process at work on the job, by its log."""
    return int(job.log.read_text().split("process ")[-1].split()[0])


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def when(happened: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    """Do something as soon as something else has happened."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while not happened() and time.monotonic() < deadline:
            time.sleep(0.02)
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def hurried_jobs(shared_programs: None) -> Iterator[None]:
    """Jobs compile each program once, in whichever process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield
