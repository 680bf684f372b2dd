"""Drives jobs that run on other machines: begins each when it may, and again when its machine is lost."""

import contextlib
import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from .._util.files import write_atomically
from ..data.datasets.opening import folder as datasets
from ..training.progress import Stop
from .backends import EVERY, Order, Say, _last_line
from .job import Busy, Job, locked, status, write_status
from .worker import token_file

POLL = 0.5  # seconds between two looks at the jobs


class Handle(Protocol):
    """A job that was handed to a cluster."""

    def end(self) -> str | None:
        """None while it is queued or at work; then why nothing came back from its machine, empty where all is well."""
        ...

    def ask_to_stop(self) -> None:
        """Have it save and stop, or leave the queue."""
        ...


@contextlib.contextmanager
def token(study: Path) -> Iterator[str]:
    """A secret in the study's folder, by which a worker on another machine proves that it sees the same one."""
    secret = secrets.token_hex(8)
    path = token_file(study, secret)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, secret.encode())
    try:
        yield secret
    finally:
        path.unlink(missing_ok=True)


def environment(study: Path) -> dict[str, str | None]:
    """Variables that must be the same for a job on every machine; None: unset."""
    return {
        "OFFDYN_DATA": str(datasets().absolute()),
        # On a GPU, programs compiled for a job are found again when it goes on elsewhere: see keep_programs.
        "XDG_CACHE_HOME": str(study.absolute() / "cache"),
        # Ray sets it to a task's CPUs, and LAPACK's last bits depend on it.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }


def drive(
    jobs: Sequence[Job], begin: Callable[[Job], Handle], retries: int, say: Say, stop: Stop, token_path: Path
) -> None:
    """Bring the jobs to their ends: what a Backend promises."""
    order = Order(jobs)
    handles: dict[str, Handle] = {}
    starts: dict[str, int] = {}  # of the job when it was handed over
    losses = dict.fromkeys((job.id for job in jobs), 0)
    asked, told = False, time.monotonic()

    def hand_over(job: Job) -> None:
        starts[job.id] = status(job.path).starts
        handles[job.id] = begin(job)

    try:
        while order.left and not (stop.wanted and not handles):
            while not stop.wanted and (job := order.next()) is not None:
                say(f"{job.id}: {job.summary}")
                hand_over(job)
            if stop.wanted and not asked:
                asked = True
                # A cluster's own word reaches a job that waits, and now and then (Ray's) not one that is at work.
                token_path.unlink(missing_ok=True)
                for handle in handles.values():
                    handle.ask_to_stop()
            for job in list(order.at_work.values()):
                why = handles[job.id].end()
                if why is None:
                    continue
                del handles[job.id]
                now = status(job.path)
                if now.state == "done" or (now.state == "failed" and now.starts > starts[job.id]) or stop.wanted:
                    order.ended(job)
                    say(f"{job.id}: {now.state}" + (f": {now.error}" if now.error else ""))
                elif losses[job.id] < retries:
                    losses[job.id] += 1
                    say(f"{job.id}: lost ({why or now.state}); begun again, {losses[job.id]} of {retries} times")
                    hand_over(job)
                else:
                    order.ended(job)
                    say(f"{job.id}: {_give_up(job, why or f'it ended while {now.state}', losses[job.id])}")
            if time.monotonic() - told > EVERY:
                told = time.monotonic()
                for job in order.at_work.values():
                    at_work = status(job.path).state == "running"
                    say(f"{job.id}: {_last_line(job.log) if at_work else 'waits for a machine'}")
            time.sleep(POLL)
    finally:
        for handle in handles.values():  # only where this process itself breaks
            handle.ask_to_stop()


def _give_up(job: Job, why: str, losses: int) -> str:
    """Say in the job's status that it failed, unless a process turns up that is at work on it."""
    reason = f"lost {losses + 1} times, the last time because: {why}"
    try:
        with locked(job.path):
            write_status(job.path, dataclasses.replace(status(job.path), state="failed", error=reason))
    except Busy as error:
        return str(error)
    return f"failed: {reason}"
