"""A whole study in processes: one job fails, a signal stops it, and the same command brings it to the same results."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.studies import backends
from offdyn.studies import job as jobs
from offdyn.studies.backends import BACKENDS, Options, find
from offdyn.studies.study import load

from ..training.small import find_runs
from .tiny import BROKEN, PAR, run_here, study, write

PATIENCE = 240.0  # seconds for a process on a busy machine
METHODS = (PAR, "sac-tune", BROKEN)
FILES = ("metrics.jsonl", "policy.safetensors", "agent.safetensors", "final.json")


def test_the_demo_in_small_ends_with_a_report_that_says_who_leads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, _ = run_here(load("demo"), tmp_path / "demo", seeds=(0, 1, 2), scale=0.1, quick=True)
    assert str(outcome) == "15 runs: 15 finished"
    assert main(["report", str(tmp_path / "demo"), "--out", str(tmp_path / "demo" / "report")]) == 0
    assert "15 runs: 15 finished. 1 task, 4 methods, 3 seeds." in capsys.readouterr().out
    page = (tmp_path / "demo" / "report" / "index.html").read_text()
    assert re.search(r">[^<]*\b(wins|are level) on jetpack: IQM of the return", page)
    assert not (tmp_path / "demo" / "report" / "cohorts").exists()


def begin(folder: Path, *options: str) -> "subprocess.Popen[str]":
    asked = ["study", "run", "mine.yaml", "--out", "out", "--threads", "1", *options]
    chosen = {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "offdyn", *asked], cwd=folder, env=os.environ | chosen, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def results(out: Path) -> dict[str, bytes]:
    finished = [run for run in find_runs(out) if run.state == "finished"]
    return {f"{run.config.name}/{name}": (run.path / name).read_bytes() for run in finished for name in FILES}


def starts(out: Path) -> dict[str, int]:
    """How often each job began, by its method."""
    return {path.stem.rsplit("-", 2)[0]: jobs.status(path).starts for path in (out / "jobs").glob("*.yaml")}


def wait_for(happened: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    """`process` must live on meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_when_a_study_is_killed_its_jobs_save_themselves_and_stop(tmp_path: Path) -> None:
    write(tmp_path / "mine.yaml", PAR, settings={"source_steps": 200_000, "checkpoint_interval": 50_000})
    process = begin(tmp_path)
    jobs_in = tmp_path / "out" / "jobs"
    wait_for(lambda: any(jobs.status(path).state == "running" for path in jobs_in.glob("*.yaml")), process)
    wait_for(lambda: "step" in "".join(path.read_text() for path in jobs_in.glob("*.log")), process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    wait_for(lambda: all(jobs.status(path).state == "stopped" for path in jobs_in.glob("*.yaml")))
    assert list(tmp_path.glob("out/cohorts/*/manifest.json")), "it did not save itself"


def test_a_study_with_a_failing_job_stopped_and_continued_ends_as_one_that_was_left_alone(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    outcome, _ = run_here(study(*METHODS[:2]), alone)
    assert outcome.finished
    assert len(results(alone)) == 6 * len(FILES)

    write(tmp_path / "mine.yaml", *METHODS)
    out, process = tmp_path / "out", begin(tmp_path)
    wait_for(lambda: bool(list(out.glob("cohorts/*/manifest.json"))), process)  # its first checkpoint
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 75, said
    assert "the same command continues from here" in said
    assert len(results(out)) < len(results(alone))

    process = begin(tmp_path, "--workers", "2")
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1, said
    assert "8 runs: 6 finished, 2 waiting" in said
    assert "failed (2 runs): nowhere: not a run's folder" in said
    assert results(out) == results(alone)
    assert {job: count for job, count in starts(out).items() if job != "sac"} == {
        "par": 2, "sac-src": 1, "sac-tune": 1
    }  # fmt: skip

    # What the failing job lacked is there now: it alone is left.
    shutil.copytree(next(out.glob("*.sac-src.*seed-0")), tmp_path / "nowhere")
    process = begin(tmp_path)
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    assert "8 runs: 8 finished" in said
    assert "jobs left: 1" in said
    assert starts(out) | {"sac": 0} == {"par": 2, "sac-src": 1, "sac-tune": 1, "sac": 0}
    assert results(alone).items() <= results(out).items()


def test_what_is_finished_is_skipped_and_more_seeds_are_added(tmp_path: Path) -> None:
    outcome, begun = run_here(study("sac-tune"), tmp_path, seeds=(0,))
    assert outcome.finished
    before = results(tmp_path)
    assert len(begun) == 2
    assert run_here(study("sac-tune"), tmp_path, seeds=(0,))[1] == []
    outcome, begun = run_here(study("sac-tune"), tmp_path)
    assert (len(outcome.states), len(begun)) == (4, 2)
    assert results(tmp_path).items() >= before.items()
    record = yaml.safe_load((tmp_path / "studies/tiny.yaml").read_text())
    assert sorted(record["runs"]) == sorted(run.config.name for run in find_runs(tmp_path))


def test_a_job_whose_need_failed_never_begins_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "cohorts").mkdir()
    blocked = study("sac-tune")
    (job, _) = (job for job in run_plan(tmp_path, blocked))
    cohort = tmp_path / "cohorts" / job
    cohort.write_text("in the way")
    outcome, begun = run_here(blocked, tmp_path)
    assert (len(begun), outcome.finished, outcome.stopped) == (1, False, False)
    failed, waiting = outcome.troubles
    assert "sac-src-jetpack" in failed
    assert "it needs sac-src-jetpack" in waiting


def run_plan(folder: Path, what: object) -> list[str]:
    """Names of the cohorts' folders."""
    from offdyn.studies.plan import plan
    from offdyn.training.preparation import cohort_folder

    return [cohort_folder((run.name for run in job.runs), folder).name for job in plan(what.runs()[0], folder).left]


def test_a_run_that_breaks_is_named_and_the_study_is_not_whole(tmp_path: Path) -> None:
    breaking = {"method": "sac", "settings": {"critic_learning_rate": 1e30}}
    outcome, _ = run_here(study(breaking, seeds=[0]), tmp_path)
    assert not outcome.finished
    assert "1 runs: 1 failed" in str(outcome)
    assert "not finite at step" in outcome.troubles[0]


def test_a_job_whose_process_never_gets_to_it_has_failed_and_names_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backends, "command", lambda job: [sys.executable, "-c", "import nothing_of_that_name"])
    mine = write(tmp_path / "mine.yaml", "sac")
    assert main(["study", "run", str(mine), "--out", str(tmp_path / "out"), "--workers", "1"]) == 1
    (path,) = (tmp_path / "out" / "jobs").glob("*.yaml")
    told = f"job {path.stem} failed (2 runs): its process ended with exit code 1; {path.with_suffix('.log')} says more"
    assert told in capsys.readouterr().out
    assert "nothing_of_that_name" in path.with_suffix(".log").read_text()
    assert jobs.status(path).state == "failed"


def test_two_studies_may_share_a_folder_and_what_they_share_is_trained_once(tmp_path: Path) -> None:
    run_here(study("sac", seeds=[0]), tmp_path)
    both = study("sac", "sac-tar", name="other", seeds=[0])
    assert len(run_here(both, tmp_path)[1]) == 1
    assert {path.stem for path in (tmp_path / "studies").glob("*.yaml")} == {"tiny", "other"}


def test_a_second_planner_in_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    (tmp_path / "jobs").mkdir()
    with jobs.locked(tmp_path / "jobs" / "planning"), pytest.raises(OffdynError, match="another `offdyn study run`"):
        run_here(study("sac"), tmp_path)


def test_backends_are_found_by_name() -> None:
    assert set(BACKENDS) == {"local", "ray", "submitit"}
    with pytest.raises(OffdynError, match="no backend 'slurm'"):
        find("slurm", Options())
    with pytest.raises(OffdynError, match="--workers"):
        find("local", Options(workers=0))


def test_a_mistake_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    path = str(write(tmp_path / "mine.yaml", "sac"))
    assert main(["study", "run", path, "--out", str(tmp_path / "file")]) == 2
    assert "cannot be written to" in capsys.readouterr().err
    assert main(["study", "run", path, "--scale", "7", "--out", str(tmp_path / "out")]) == 2
    assert "--scale" in capsys.readouterr().err
