"""An attendant and the job's process it stays with, without any cluster."""

import threading
from pathlib import Path

import pytest

from offdyn.studies import job as jobs_of
from offdyn.studies import remote, worker

from .small_jobs import runs_of, when, write_jobs

pytestmark = pytest.mark.usefixtures("hurried_jobs")


def test_a_job_saves_and_stops_when_its_driver_takes_the_token_away(tmp_path: Path) -> None:
    runs = runs_of(["sac"], [0], source_steps=400_000, checkpoint_interval=400_000)
    (job,) = write_jobs(tmp_path, runs)
    codes: list[int] = []
    with remote.token(tmp_path) as token:
        attendant = worker.Attendant(token, {})
        attending = threading.Thread(target=lambda: codes.append(attendant(str(job.path))), daemon=True)
        attending.start()
        gone = worker.token_file(tmp_path, token).unlink
        when((tmp_path / runs[0].name / "curve.csv").exists, gone).join()
        attending.join(timeout=60)
    assert codes == [worker.STOPPED]
    assert jobs_of.status(job.path).state == "stopped"
    assert list(tmp_path.glob("cohorts/*/manifest.json"))


def test_a_folder_that_cannot_be_read_for_a_while_stops_no_job(tmp_path: Path) -> None:
    attendant = worker.Attendant("secret", {})
    job = tmp_path / "jobs" / "some.yaml"
    assert not attendant._is_dismissed(job)
    job.parent.mkdir()
    assert attendant._is_dismissed(job)
    worker.token_file(tmp_path, "secret").touch()
    assert not attendant._is_dismissed(job)
