"""Where a job runs: its attendant proves that the machine sees the study's folder, then stays with the job's process.

    python -m offdyn.studies.worker STUDY/jobs/ID.yaml

is `python -m offdyn.studies.job` for a process that has an attendant: it saves and stops when that one asks or dies.
"""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from .._util.errors import OffdynError

STOPPED = 75  # exit code of a job that saved and stopped, or that another process is at work on
SIGHT = 20.0  # seconds that a network file system may take to show a new file
AGAIN = 3.0  # seconds between two tries for a job whose former process still saves itself
HELD = 600.0  # seconds after which such a process is no longer waited for
POLL = 0.2  # seconds between two looks at the job's process
LOOK = 2.0  # seconds between two looks at the driver's token


class Unseen(OffdynError):
    """A machine that does not see the study's folder."""


def token_file(study: Path, token: str) -> Path:
    """What a driver writes there for its workers to read, and takes away when their jobs are to stop."""
    return study / "jobs" / f"{token}.token"


def check_folder(study: Path, token: str, patience: float = SIGHT) -> None:
    """Read back what the driver wrote: the same path on another machine may well be another folder."""
    path, deadline = token_file(study, token), time.monotonic() + patience
    while True:
        try:
            os.listdir(path.parent)  # makes a network file system look again
            if path.read_text() == token:
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise Unseen(
                f"{platform.node()} does not see the folder {study} of the machine that drives the study: every "
                "machine must reach it by that path (NFS, Lustre ...); choose an --out that all share"
            )
        time.sleep(POLL)


class Attendant:
    """Runs a job in a process of its own, which gives back all memory when it ends; given only the job's path."""

    def __init__(self, token: str, environment: Mapping[str, str | None]) -> None:
        self.token, self.environment = token, dict(environment)  # None: the variable is unset
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, path: str) -> int:
        """The exit code of the job's process; a KeyboardInterrupt asks it to save and stop."""
        job = Path(path)
        check_folder(job.parent.parent, self.token)
        deadline = time.monotonic() + HELD
        code = self._attend(job)
        while code == STOPPED and not _said_stopped(job) and time.monotonic() < deadline:
            time.sleep(AGAIN)  # a process whose machine was given up still holds the job
            code = self._attend(job)
        return code

    def ask_to_stop(self) -> None:
        """Let the job save itself, and wait until it has."""
        if self.process is not None:
            self.process.send_signal(signal.SIGUSR1)
            self.process.wait()

    def _attend(self, job: Path) -> int:
        command = [sys.executable, "-m", "offdyn.studies.worker", str(job)]
        variables = {**os.environ, **self.environment}
        with open(job.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen(
                command,
                env={name: value for name, value in variables.items() if value is not None},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        looked, missed = time.monotonic(), 0
        try:
            while (code := self.process.poll()) is None:
                time.sleep(POLL)
                if time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    missed = missed + 1 if self._is_dismissed(job) else 0
                if missed > 1:  # once may be a network file system's mistake
                    self.ask_to_stop()
            return code
        except BaseException:
            self.ask_to_stop()
            raise

    def _is_dismissed(self, job: Path) -> bool:
        """Whether the driver took its token away; a folder that cannot be read says nothing."""
        try:
            return token_file(job.parent.parent, self.token).name not in os.listdir(job.parent)
        except OSError:
            return False


def _said_stopped(job: Path) -> bool:
    from .job import status

    return status(job).state == "stopped"


def main(path: Path) -> int:
    """The job's process: asked to stop once or often, by whomever, it saves and stops."""
    from ..training.progress import Stop
    from . import job

    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.wanted = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, ask)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # Slurm tells every process of a job; the attendant passes it on
    job.stop_when_stdin_closes(stop)
    return job.work(path, stop)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
