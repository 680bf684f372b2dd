"""Where jobs run: what a backend promises, the order in which jobs may begin, and processes of this machine."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .._util.errors import OffdynError, unknown
from ..training.progress import Stop
from .job import DONE, STOPPED, WATCHED, Job, lost, status
from .sharing import default_workers, shared

POLL = 0.2  # seconds between two looks at the processes
EVERY = 30.0  # seconds between two lines about a job that is at work

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What a user can ask of a backend; each takes what concerns it."""

    workers: int | None = None  # jobs at once (local; elsewhere the cluster decides); None: 4 on a GPU, else 1
    address: str | None = None  # of a Ray cluster to join; None: one of this machine
    cpus: int | None = None  # per job; None: the backend's own choice
    gpus: float | None = None
    retries: int = 2  # times that a job is begun anew when its machine is lost
    minutes: int = 24 * 60  # that Slurm gives a job at a time
    partition: str | None = None  # of Slurm


class Backend(Protocol):
    """Brings jobs to their ends wherever it likes, each by `python -m offdyn.studies.job PATH` or `job.run(PATH)`."""

    def run(self, jobs: Sequence[Job], study: Path, say: Say, stop: Stop) -> None:
        """Begin each job once all it needs are done, and return when none is at work and none can begin.

        A job that fails stops no other. How each ended stands in its status file, which the caller reads; a backend
        raises only where it cannot work at all. When `stop.wanted` turns true, jobs at work are asked to save and stop
        (SIGTERM does that), and no other begins.
        """
        ...


# Module and function by name; each function takes Options and gives a Backend. Loaded when asked for.
BACKENDS = {
    "local": ("offdyn.studies.backends", "local"),
    "ray": ("offdyn.studies.backends_ray", "ray"),
    "submitit": ("offdyn.studies.backends_slurm", "submitit"),
}


def find(name: str, options: Options) -> Backend:
    """The backend of this name."""
    if name not in BACKENDS:
        raise unknown("backend", name, BACKENDS)
    module, function = BACKENDS[name]
    return getattr(importlib.import_module(module), function)(options)


class Order:
    """Which jobs may begin: those whose needs are done; those whose needs failed never do."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = list(jobs)
        self.at_work: dict[str, Job] = {}

    def next(self) -> Job | None:
        """A job that may begin now; it counts as at work until `ended`."""
        for job in self.waiting:
            if _can_begin(job):
                self.waiting.remove(job)
                self.at_work[job.id] = job
                return job
        return None

    def ended(self, job: Job) -> None:
        del self.at_work[job.id]

    @property
    def left(self) -> bool:
        """Whether a job is at work or may still begin."""
        return bool(self.at_work) or any(_can_begin(job) for job in self.waiting)


def _can_begin(job: Job) -> bool:
    return all(status(job.path.with_name(f"{needed}.yaml")).state == "done" for needed in job.needs)


def command(job: Job) -> list[str]:
    """What a worker runs."""
    return [sys.executable, "-m", "offdyn.studies.job", str(job.path), WATCHED]


class Processes:
    """Processes of this machine, `workers` at a time."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, jobs: Sequence[Job], study: Path, say: Say, stop: Stop) -> None:
        with shared(min(self.workers, len(jobs)), say) as environment:
            self._run(jobs, environment, say, stop)

    def _run(self, jobs: Sequence[Job], environment: dict[str, str], say: Say, stop: Stop) -> None:
        order = Order(jobs)
        processes: dict[str, subprocess.Popen[Any]] = {}
        asked = False
        told = time.monotonic()
        try:
            while order.left and not (stop.wanted and not processes):
                while not stop.wanted and len(processes) < self.workers and (job := order.next()) is not None:
                    say(f"{job.id}: {job.summary}")
                    processes[job.id] = _begin(job, environment)
                if stop.wanted and not asked:
                    asked = True
                    for process in processes.values():
                        process.terminate()
                for job in [order.at_work[name] for name, process in processes.items() if process.poll() is not None]:
                    code = processes.pop(job.id).returncode
                    order.ended(job)
                    say(f"{job.id}: {_how_it_ended(job, code)}")
                if time.monotonic() - told > EVERY:
                    told = time.monotonic()
                    for job in order.at_work.values():
                        say(f"{job.id}: {_last_line(job.log)}")
                time.sleep(POLL)
        finally:
            for process in processes.values():  # only where this process itself breaks
                process.terminate()


def local(options: Options) -> Backend:
    """Processes of this machine."""
    workers = default_workers() if options.workers is None else options.workers
    if workers < 1:
        raise OffdynError(f"--workers: expected at least 1, got {workers}")
    return Processes(workers)


def _begin(job: Job, environment: dict[str, str]) -> "subprocess.Popen[Any]":
    """In a session of its own: Ctrl-C reaches this process alone, which then asks its jobs to stop, once.

    Its standard input is a pipe from this process, which closes even if that is killed: the job does not outlive it.
    """
    with open(job.log, "ab") as log:
        return subprocess.Popen(
            command(job),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | environment,
        )


def _how_it_ended(job: Job, code: int) -> str:
    if code not in (DONE, STOPPED):  # Python's own 1, of a process that never got to its job, means FAILED as well
        lost(job.path, f"its process ended with exit code {code}; {job.log} says more")
    end = status(job.path)
    if end.state == "running":
        return "another process is at work on it"
    return end.state + (f": {end.error}" if end.error else f" after {end.seconds:.0f} s")


def _last_line(log: Path) -> str:
    lines = log.read_bytes()[-400:].decode(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "at work"
