"""One job: a cohort that any process on any machine brings to its end, given only the path of its file.

    python -m offdyn.studies.job STUDY/jobs/ID.yaml [--while-stdin-is-open]

    STUDY/jobs/ID.yaml    what it is: complete configurations of its runs, and the jobs it needs
    STUDY/jobs/ID.json    how it stands, from its first start on
    STUDY/jobs/ID.lock    held by the process that is at work on it
    STUDY/<run>/          its runs, and STUDY/cohorts/ what a resume needs

It may be killed at any moment and started again anywhere: it goes on where its last checkpoint was, and once it is done
it does nothing. With the option it saves and stops when whoever holds the other end of its standard input is gone,
however that ended. Exit codes: 0 done, 1 it or one of its runs failed, 2 not a job, 75 stopped and saved, or another
process is at work on it.
"""

import contextlib
import fcntl
import json
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .._util import files
from .._util.errors import OffdynError, check_format
from .._util.files import write_atomically
from ..training.config import RunConfig
from ..training.preparation import methods_of
from ..training.progress import Lines, Progress, Quiet, stop_on_signals
from ..training.run_folder import RunFolder, from_yaml, to_yaml

if TYPE_CHECKING:
    from ..training.progress import Stop

FORMAT = 1  # of ID.yaml and ID.json
JOBS = "jobs"  # below STUDY
DONE, FAILED, MISTAKE, STOPPED = 0, 1, 2, 75
ENDED = ("finished", "failed")  # states of a run that nothing is left to do for
WATCHED = "--while-stdin-is-open"
PATIENCE = 5.0  # seconds for the lock of a process that is just ending


class Busy(OffdynError):
    """Another process is at work on the job."""


@dataclass(frozen=True)
class Job:
    """Runs of one cohort, and where they go."""

    path: Path
    runs: tuple[RunConfig, ...]
    needs: tuple[str, ...] = ()  # ids of jobs whose runs these continue from
    out: str = "."  # below STUDY
    threads: int | None = None

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def summary(self) -> str:
        return f"{len(self.runs)} runs of {methods_of(self.runs)}"

    @property
    def folder(self) -> Path:
        """Of the runs."""
        return self.path.parent.parent / self.out

    @property
    def log(self) -> Path:
        """Where a backend sends what the job prints."""
        return self.path.with_suffix(".log")

    def states(self) -> dict[str, str]:
        """Of its runs by name; one that has no folder yet is waiting."""
        folders = {run.name: self.folder / run.name for run in self.runs}
        return {name: RunFolder.open(path).state if path.exists() else "waiting" for name, path in folders.items()}

    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return all(state in ENDED for state in self.states().values())


@dataclass(frozen=True)
class Status:
    """How a job stands, as ID.json says."""

    state: str = "waiting"  # then perhaps queued; running; stopped, failed or done
    error: str | None = None
    starts: int = 0  # times that a process began to train it
    seconds: float = 0.0  # that the newest of them took
    machine: str | None = None


def write(job: Job) -> None:
    """Put the job's file where workers find it."""
    runs = [yaml.safe_load(to_yaml(run)) for run in job.runs]
    content = {"format": FORMAT, "out": job.out, "threads": job.threads, "needs": list(job.needs), "runs": runs}
    job.path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(job.path, yaml.safe_dump(content, sort_keys=False).encode())


def read(path: Path) -> Job:
    """The job of a file that `write` wrote."""
    try:
        content: dict[str, Any] = yaml.safe_load(files.content(path))
        check_format(content["format"], FORMAT, path)
        runs = tuple(from_yaml(yaml.safe_dump(run), path) for run in content["runs"])
        return Job(path.absolute(), runs, tuple(content["needs"]), content["out"], content["threads"])
    except OSError as error:
        raise OffdynError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise OffdynError(f"{path}: not a job's file ({' '.join(repr(error).split())})") from None


def status(path: Path) -> Status:
    """How the job of this file stands."""
    beside = path.with_suffix(".json")
    try:
        content = json.loads(files.content(beside))
        check_format(content.pop("format"), FORMAT, beside)
        return Status(**content)
    except FileNotFoundError:
        return Status()
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise OffdynError(f"{beside}: not readable ({error}); delete it to have the job looked at anew") from None


def write_status(path: Path, new: Status) -> None:
    """Say how the job stands; while it is at work only its own process may."""
    write_atomically(path.with_suffix(".json"), (json.dumps({"format": FORMAT, **vars(new)}, indent=2) + "\n").encode())


def lost(path: Path, why: str) -> None:
    """Say that the job's process ended without a word, unless another one is at work on it by now."""
    with contextlib.suppress(Busy), locked(path):
        before = status(path)
        if before.state in ("waiting", "queued", "running"):
            write_status(path, Status("failed", why, before.starts, before.seconds, before.machine))


def run(path: Path, *, progress: Progress | None = None, stop: Any = None) -> Status:
    """Bring the job to its end from wherever it is; an error is kept in its status and not raised."""
    from ..training.progress import Stopped
    from ..training.trainer import complete

    job = read(path)
    with locked(job.path):
        began, before = time.monotonic(), status(job.path)
        if job.ended():
            done = Status("done", None, before.starts, before.seconds, before.machine)
            if done != before:
                write_status(job.path, done)
            return done

        def now(state: str, error: str | None = None) -> Status:
            seconds = round(time.monotonic() - began, 1)
            new = Status(state, error, before.starts + 1, seconds, platform.node())
            write_status(job.path, new)
            return new

        now("running")
        try:
            for needed in job.needs:
                if (at := status(job.path.with_name(f"{needed}.yaml")).state) != "done":
                    raise OffdynError(f"job {job.id} continues from job {needed}, which is {at}: that one comes first")
            complete(job.runs, job.folder, threads=job.threads, progress=progress or Quiet(), stop=stop)
        except Stopped:
            return now("stopped")
        except OffdynError as error:
            return now("failed", str(error))
        except Exception as error:
            traceback.print_exc()
            return now("failed", f"{type(error).__name__}: {error}")
        return now("done")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time works on a job; the lock goes with the process, however it ends."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise Busy(f"{path}: another process is at work on this job") from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def stop_when_stdin_closes(stop: "Stop") -> None:
    """Stdin is a pipe from whoever began this process, and closes with that one, however it ends."""

    def wait() -> None:
        os.read(0, 1)  # nothing is ever written; not sys.stdin, whose lock would break the end of the interpreter
        Lines().say("whoever began this job is gone: saving and stopping ...")
        stop.wanted = True

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: Sequence[str]) -> int:
    if arguments[1:] not in ([], [WATCHED]) or not arguments:
        print(f"usage: python -m offdyn.studies.job STUDY/jobs/ID.yaml [{WATCHED}]", file=sys.stderr)
        return MISTAKE
    from ..training.hardware import offer_every_core

    offer_every_core()  # as `offdyn train` does, so that a run is the same to the last bit by either
    stop = stop_on_signals()
    if WATCHED in arguments:
        stop_when_stdin_closes(stop)
    return work(Path(arguments[0]), stop)


def work(path: Path, stop: "Stop") -> int:
    """Run the job, say how it goes; the exit code."""
    say = Lines().say
    try:
        say(f"job {path.stem}: at work on {platform.node()}, process {os.getpid()}")
        end = run(path, progress=Lines(), stop=stop)
        failed = "failed" in read(path).states().values()
    except Busy as error:
        say(f"offdyn: {error}")
        return STOPPED
    except OffdynError as error:
        say(f"offdyn: {error}")
        return MISTAKE
    say(f"job {path.stem}: {end.state}" + (f": {end.error}" if end.error else ""))
    if end.state == "stopped":
        return STOPPED
    return DONE if end.state == "done" and not failed else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
