"""Jobs handed to submitit, whose local executor stands for Slurm: results, preemption, losses, stops."""

import os
import signal
import threading
import time

import pytest

from offdyn._util.errors import OffdynError
from offdyn.studies import job as jobs_of
from offdyn.studies import worker
from offdyn.studies.backends import Options, find
from offdyn.studies.backends_slurm import Requeued, Slurm, Submitted
from offdyn.training.progress import Stop

from ..training.small import differing, outcome
from .small_jobs import (
    bring_to_end,
    locally,
    parent_of,
    process_of,
    runs_of,
    starts,
    states,
    when,
    write_jobs,
)

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'offdyn[slurm]'")
pytestmark = pytest.mark.usefixtures("hurried_jobs")
LONG = 2000  # source steps, so that there is time to interrupt


def test_a_preempted_job_saves_itself_and_goes_on_and_results_are_those_of_local_processes(tmp_path):
    runs = runs_of(["sac-tune"], [0], source_steps=LONG, checkpoint_interval=LONG)
    expected = locally(tmp_path / "local", runs)
    study = tmp_path / "slurm"
    jobs = write_jobs(study, runs)
    has_evaluated = (study / runs[0].name / "curve.csv").exists
    # What Slurm would tell submitit; the job's only checkpoint is the one it writes when asked to stop.
    preemption = when(has_evaluated, lambda: os.kill(parent_of(process_of(jobs[0])), signal.SIGUSR2))
    bring_to_end(Slurm(Options(retries=0), "local"), jobs)
    preemption.join()
    assert states(jobs) == {"sac-src": "done", "sac-tune": "done"}
    assert starts(jobs) == {"sac-src": 2, "sac-tune": 1}
    assert "resumed at step" in jobs[0].log.read_text()
    assert differing(expected, outcome(study)) == []


def test_a_job_that_is_lost_again_and_again_is_given_up(tmp_path):
    jobs = write_jobs(tmp_path, runs_of(["sac-tune"], [0], source_steps=LONG, checkpoint_interval=LONG))
    ended = threading.Event()

    def kill_every_process_of_the_first() -> None:
        killed = set()
        while not ended.wait(0.02):
            if jobs[0].log.exists() and "process " in jobs[0].log.read_text():
                process = process_of(jobs[0])
                if process not in killed:
                    killed.add(process)
                    os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill_every_process_of_the_first, daemon=True)
    killer.start()
    told = bring_to_end(Slurm(Options(retries=1), "local"), jobs)
    ended.set()
    killer.join()
    assert states(jobs) == {"sac-src": "failed", "sac-tune": "waiting"}
    assert starts(jobs[:1]) == {"sac-src": 2}
    assert "lost 2 times" in (jobs_of.status(jobs[0].path).error or "")
    assert any("begun again, 1 of 1" in line for line in told)


def test_asked_to_stop_jobs_save_themselves_and_no_other_begins(tmp_path):
    runs = runs_of(["sac-tune"], [0], source_steps=LONG, checkpoint_interval=LONG)
    jobs = write_jobs(tmp_path, runs)
    stop = Stop()
    has_evaluated = (tmp_path / runs[0].name / "curve.csv").exists
    stopping = when(has_evaluated, lambda: setattr(stop, "wanted", True))
    bring_to_end(Slurm(Options(), "local"), jobs, stop)
    stopping.join()
    deadline = time.monotonic() + 60
    while states(jobs)["sac-src"] == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert states(jobs) == {"sac-src": "stopped", "sac-tune": "waiting"}
    assert list(tmp_path.glob("cohorts/*/manifest.json"))


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path):
    (tmp_path / "jobs").mkdir()
    worker.token_file(tmp_path, "abc").write_text("abd")
    with pytest.raises(worker.Unseen, match=r"does not see the folder .* choose an --out that all share"):
        worker.check_folder(tmp_path, "abc", patience=0.1)
    with pytest.raises(worker.Unseen):
        worker.check_folder(tmp_path / "elsewhere", "abc", patience=0.1)


def test_slurm_is_asked_for_time_cpus_gpus_a_warning_and_a_requeue(tmp_path, monkeypatch):
    for name, text in {"srun": "", "sbatch": "echo Submitted batch job 17"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    jobs = write_jobs(tmp_path / "study", runs_of(["sac"], [0]))
    slurm = find("submitit", Options(cpus=8, gpus=2.0, minutes=90, partition="long"))
    Submitted(slurm._executor(tmp_path / "study"), Requeued("token", {}), jobs[0])
    (sent,) = (tmp_path / "study" / "jobs" / "submitit").glob("*_submission.sh")
    lines = {line.removeprefix("#SBATCH --") for line in sent.read_text().splitlines() if line.startswith("#SBATCH")}
    asked = {"cpus-per-task=8", "gpus-per-node=2", "time=90", "partition=long", "job-name=offdyn-study", "requeue"}
    assert asked <= lines
    assert any(line.startswith("signal=") and line.endswith("@120") for line in lines)


def test_a_mistake_is_said_in_words(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OffdynError, match=r"no Slurm here \(srun is not found\)"):
        find("submitit", Options())
    with pytest.raises(OffdynError, match="whole GPUs"):
        Slurm(Options(gpus=0.5), "local")
    with pytest.raises(OffdynError, match="--minutes: expected 1 or more"):
        Slurm(Options(minutes=0), "local")
