"""A job can be started any number of times and anywhere: it goes on where it was, and does nothing twice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offdyn._util.cores import every
from offdyn.studies import job as jobs
from offdyn.studies.job import Busy, Job
from offdyn.studies.plan import plan
from offdyn.training import trainer as training
from offdyn.training.preparation import cohort_folder
from offdyn.training.progress import Quiet, Stop
from offdyn.training.run_folder import RunFolder

from .tiny import BROKEN, study


class StopAt(Quiet):
    """Asks to stop once training has come so far."""

    def __init__(self, clock: int) -> None:
        self.clock, self.stop = clock, Stop()

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.stop.wanted |= clock >= self.clock


def written(folder: Path, *methods: Any) -> list[Job]:
    left = plan(study(*methods, seeds=[0]).runs()[0], folder, threads=1).left
    for job in left:
        jobs.write(job)
    return left


def results(job: Job) -> dict[str, bytes]:
    files = ("metrics.jsonl", "policy.safetensors", "final.json")
    return {f"{run.name}/{name}": (job.folder / run.name / name).read_bytes() for run in job.runs for name in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job that nothing disturbed."""
    (job,) = written(tmp_path_factory.mktemp("whole"), "sac")
    assert jobs.run(job.path).state == "done"
    return job


def test_stopped_and_started_again_it_ends_with_the_same_bytes(whole: Job, tmp_path: Path) -> None:
    (job,) = written(tmp_path, "sac")
    watcher = StopAt(300)
    assert jobs.run(job.path, progress=watcher, stop=watcher.stop).state == "stopped"
    assert set(job.states().values()) == {"stopped"}
    end = jobs.run(job.path)
    assert (end.state, end.starts) == ("done", 2)
    assert results(job) == results(whole)


def test_once_done_it_does_nothing(whole: Job) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*") if path.suffix != ".lock"}
    assert jobs.run(whole.path).starts == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_kill_between_the_cohorts_folder_and_its_first_file_loses_nothing(whole: Job, tmp_path: Path) -> None:
    (job,) = written(tmp_path, "sac")
    cohort_folder((run.name for run in job.runs), job.folder).mkdir(parents=True)
    assert jobs.run(job.path).state == "done"
    assert results(job) == results(whole)


def test_two_processes_never_work_on_one_job(whole: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    with jobs.locked(whole.path), pytest.raises(Busy, match="another process"):
        jobs.run(whole.path)


def test_what_breaks_it_is_kept_in_words_and_a_later_start_tries_again(tmp_path: Path) -> None:
    (job,) = written(tmp_path, BROKEN)
    end = jobs.run(job.path)
    assert (end.state, end.starts) == ("failed", 1)
    assert "nowhere: not a run's folder" in (end.error or "")
    assert jobs.status(job.path) == end
    assert jobs.run(job.path).starts == 2


def test_an_unforeseen_error_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("out of memory")

    (job,) = written(tmp_path, "sac")
    monkeypatch.setattr(training, "complete", break_down)
    assert jobs.run(job.path).error == "RuntimeError: out of memory"


def test_it_does_not_begin_before_the_job_it_needs_is_done(tmp_path: Path) -> None:
    first, second = written(tmp_path, "sac-tune")
    end = jobs.run(second.path)
    assert (end.state, second.needs) == ("failed", (first.id,))
    assert f"continues from job {first.id}, which is waiting" in (end.error or "")
    assert jobs.run(first.path).state == jobs.run(second.path).state == "done"


def test_a_lost_process_is_said_to_be_lost(tmp_path: Path) -> None:
    (job,) = written(tmp_path, "sac")
    jobs.write_status(job.path, jobs.Status("running", starts=1))
    jobs.lost(job.path, "its machine went away")
    assert jobs.status(job.path) == jobs.Status("failed", "its machine went away", 1)


def test_only_the_runs_of_one_cohort_are_completed(whole: Job, tmp_path: Path) -> None:
    sac, other = written(tmp_path, "sac", "sac-tar")
    watcher = StopAt(200)
    jobs.run(other.path, progress=watcher, stop=watcher.stop)
    assert jobs.run(sac.path).state == "done"
    assert set(other.states().values()) == {"stopped"}
    assert [RunFolder.open(sac.folder / run.name).state for run in sac.runs] == ["finished"]
    assert results(sac) == results(whole)


def test_a_process_gives_each_run_a_core_of_its_own_where_there_are_as_many(tmp_path: Path) -> None:
    (job,) = plan(study("sac", seeds=[0, 1]).runs()[0], tmp_path, threads=1).left
    jobs.write(job)
    chosen = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    command = [sys.executable, "-m", "offdyn.studies.job", str(job.path)]
    ended = subprocess.run(command, env=chosen, capture_output=True, text=True, check=True)
    assert ("1 on each of 2 devices" in ended.stdout + ended.stderr) == (len(every()) > 1)


def test_a_process_says_what_is_wrong_with_what_it_was_given(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "offdyn.studies.job", str(tmp_path / "no.yaml")], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr
    assert "Traceback" not in ended.stderr
