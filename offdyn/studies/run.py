"""Runs a study: plans what is left, hands it to a backend, and says at the end what came of it."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from .. import __version__
from .._util import files
from .._util.errors import OffdynError
from .._util.files import write_atomically
from ..training.progress import Stop
from ..training.run_folder import RunFolder
from . import job as jobs
from .backends import Backend, Say
from .job import ENDED, JOBS, Busy, Job
from .plan import Plan, plan
from .scale import all_scaled
from .study import Study

STUDIES = "studies"  # below the folder: which studies were run there, and which runs are theirs


@dataclass(frozen=True)
class Wanted:
    """What of a study is asked for, and in which size."""

    seeds: tuple[int, ...] | None = None  # None: the study's own
    only: tuple[str, ...] = ()
    scale: float = 1.0
    quick: bool = False
    threads: int | None = None
    lanes: int | None = None  # the most runs in one job


@dataclass(frozen=True)
class Outcome:
    """What came of a study."""

    states: dict[str, str]  # of each run
    troubles: list[str]  # what failed, in words
    stopped: bool

    @property
    def finished(self) -> bool:
        return not self.troubles and set(self.states.values()) <= {"finished"}

    def __str__(self) -> str:
        counts = {state: list(self.states.values()).count(state) for state in dict.fromkeys(self.states.values())}
        said = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        return "\n".join([f"{len(self.states)} runs: {said}", *self.troubles])


def default_folder(study: Study, scale: float) -> Path:
    """Runs of two scales do not share a folder."""
    return Path("runs") / (study.name if scale == 1 else f"{study.name}-{scale:g}")


def planned(study: Study, wanted: Wanted, folder: Path) -> tuple[Plan, list[str]]:
    """The jobs that are left, and what their user should be told."""
    runs, notices = study.runs(wanted.seeds, wanted.only)
    return plan(all_scaled(runs, wanted.scale, wanted.quick), folder, wanted.threads, wanted.lanes), notices


def run(study: Study, wanted: Wanted, folder: Path, backend: Backend, say: Say, stop: Stop | None = None) -> Outcome:
    """Bring the study to its end from wherever it is; a job that fails stops no other."""
    stop = stop or Stop()
    with _alone_in(folder):
        todo, notices = planned(study, wanted, folder)
        for text in notices:
            say(text)
        for path in todo.unbegun:
            path.unlink(missing_ok=True)
        for job in todo.left:
            jobs.write(job)
        _write_record(study, wanted, todo)
        done = sum(todo.state_of(run) in ENDED for run in todo.runs)
        say(f"{study.name}: {len(todo.runs)} runs, {done} of them done already, jobs left: {len(todo.left)}")
        if todo.left:
            backend.run(todo.left, folder, say, stop)
        return outcome(todo, stopped=stop.wanted)


def outcome(todo: Plan, *, stopped: bool) -> Outcome:
    """How all runs and jobs stand now."""
    states = {run.name: todo.state_of(run) for run in todo.runs}
    troubles = [trouble for job in todo.left if (trouble := _trouble(job, stopped))]
    for name, state in states.items():
        if state == "failed":
            failure = RunFolder.open(todo.folder / name).provenance["failure"]
            troubles.append(f"run {name} failed: its {failure['quantity']} was not finite at step {failure['step']}")
    return Outcome(states, troubles, stopped)


def _trouble(job: Job, stopped: bool) -> str | None:
    end = jobs.status(job.path)
    if end.state == "failed":
        return f"job {job.id} failed ({len(job.runs)} runs): {end.error}; {job.log} says more"
    if end.state == "done" or stopped:
        return None
    if end.state in ("queued", "running"):
        return f"job {job.id} is {end.state} elsewhere"
    undone = [needed for needed in job.needs if jobs.status(job.path.with_name(f"{needed}.yaml")).state != "done"]
    return f"job {job.id} is {end.state}" + (f": it needs {', '.join(undone)}, which is not done" if undone else "")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two processes that plan in one folder would plan the same runs twice."""
    try:
        (folder / JOBS).mkdir(parents=True, exist_ok=True)
        with jobs.locked(folder / JOBS / "planning"):
            yield
    except Busy:
        raise OffdynError(f"{folder}: another `offdyn study run` is at work there; wait for it or stop it") from None
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise OffdynError(f"{folder}: cannot be written to ({error.strerror})") from None


def _write_record(study: Study, wanted: Wanted, todo: Plan) -> None:
    """For reports: what the study is, and which of the folder's runs are its own."""
    asked = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(wanted).items()}
    methods = [{"method": entry.method, "preset": entry.preset, "label": entry.name} for entry in study.methods]
    content = {
        "format": 1,
        "offdyn": __version__,
        "name": study.name,
        "what": study.what,
        "methods": methods,
        "asked": asked,
        "runs": _names(study, todo),
    }
    path = todo.folder / STUDIES / f"{study.name}.yaml"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, yaml.safe_dump(content, sort_keys=False).encode())


def _names(study: Study, todo: Plan) -> list[str]:
    """The study's runs in this folder, those asked for earlier too."""
    path = todo.folder / STUDIES / f"{study.name}.yaml"
    earlier: Sequence[str] = []
    with contextlib.suppress(OffdynError, KeyError, TypeError):
        earlier = list(map(str, files.read(path)["runs"]))
    return list(dict.fromkeys([*earlier, *(run.name for run in todo.runs)]))
