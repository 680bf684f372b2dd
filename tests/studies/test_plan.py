"""Runs become jobs: one for each cohort, after those they need, and never a run in two of them."""

import time
from pathlib import Path

import pytest

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.studies import cost
from offdyn.studies import job as jobs
from offdyn.studies.job import Status
from offdyn.studies.plan import plan
from offdyn.studies.run import Wanted, planned
from offdyn.studies.scale import scaled
from offdyn.studies.study import load
from offdyn.training.config import build

from .tiny import PAR, study, write


def test_the_online_study_is_one_job_for_each_robot_and_program_and_sac_tune_waits_for_sac_src(tmp_path: Path) -> None:
    todo = plan(load("online").runs()[0], tmp_path)
    assert len(todo.left) == 4 * 6  # six methods and sac-src, of which darc and darc-weight share a program
    found = {job.id: job for job in todo.left}
    for job in todo.left:
        (method, *others) = dict.fromkeys(run.method for run in job.runs)
        assert others == (["darc-weight"] if method == "darc" else [])
        assert len(job.runs) == {"sac-src": 5, "darc": 20}.get(method, 10)
        if method == "sac-tune":
            (needed,) = (found[name] for name in job.needs)
            assert {run.name for run in needed.runs} == {run.schedule.start_from for run in job.runs}
            assert todo.left.index(needed) < todo.left.index(job)
        else:
            assert job.needs == ()


def test_at_most_so_many_runs_share_a_job(tmp_path: Path) -> None:
    runs = study(PAR, seeds=[0, 1, 2, 3, 4]).runs()[0]
    assert [len(job.runs) for job in plan(runs, tmp_path, lanes=2).left] == [2, 2, 1]
    with pytest.raises(OffdynError, match="--lanes: expected at least 1"):
        plan(runs, tmp_path, lanes=0)


def test_a_job_that_began_keeps_its_runs_and_one_that_did_not_is_planned_anew(tmp_path: Path) -> None:
    both, more = (study(PAR, "sac", seeds=seeds).runs()[0] for seeds in ([0, 1], [1, 2]))
    par, sac = plan(both, tmp_path).left
    for job in (par, sac):
        jobs.write(job)
    jobs.write_status(par.path, Status("stopped"))
    todo = plan(more, tmp_path)
    assert todo.unbegun == [sac.path]
    by_runs = [[(run.method, run.seed) for run in job.runs] for job in todo.left]
    assert sorted(by_runs) == [[("par", 0), ("par", 1)], [("par", 2)], [("sac", 1), ("sac", 2)]]


def test_a_folder_of_another_scale_is_refused(tmp_path: Path) -> None:
    runs = load("online").runs([0], ["par", "hopper-big-head"])[0]
    (job,) = plan(runs, tmp_path).left
    jobs.write(job)
    jobs.write_status(job.path, Status("stopped"))
    assert plan(runs, tmp_path).left == [job]
    with pytest.raises(OffdynError, match=r"another --scale\?"):
        plan([scaled(run, 0.5) for run in runs], tmp_path)


def test_what_a_job_says_is_read_back_as_it_was(tmp_path: Path) -> None:
    for job in planned(study(PAR, "sac-tune"), Wanted(scale=0.5, threads=2), tmp_path)[0].left:
        jobs.write(job)
        assert jobs.read(job.path) == job
    bad = tmp_path / "jobs" / "bad.yaml"
    bad.write_text("format: 1")
    with pytest.raises(OffdynError, match="not a job's file"):
        jobs.read(bad)


def test_the_plan_prints_runs_cohorts_memory_and_time_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "mine.yaml", "sac-tune")
    assert main(["study", "plan", str(file), "--out", str(tmp_path / "out"), "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert "4 runs, 0 of them done already; what is left is 2 cohorts" in said
    (line,) = [line for line in said.splitlines() if line.startswith("sac-src-jetpack")]
    _, runs, source, target, memory, unit, seconds = line.split()
    assert (runs, source, target, unit) == ("2", "600", "0", "GiB")
    assert float(memory) == 0.0  # 2 lanes x 600 rows of a toy environment
    assert seconds.startswith("~")
    assert ":" in seconds
    assert "one cohort after another, on this machine" in said
    assert not (tmp_path / "out").exists()


def test_the_memory_of_a_plan_is_that_of_its_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "plan", "penalty", "--only", "hopper", "--out", str(tmp_path / "out")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("par-hopper")]
    rows = 2 * 5 * 5 * (1_000_000 + 100_000)  # tasks x penalties x seeds
    width = 11 + 3 + 1 + 11 + 1  # state, action, reward, next state, end
    assert line.split()[4] == f"{4 * width * rows / 2**30:.2f}"


def test_a_plan_of_every_cohort_is_there_in_five_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    assert main(["study", "plan", "online", "--out", str(tmp_path / "out")]) == 0
    assert time.process_time() - began < 5
    times = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "GiB" in line]
    assert len(times) == 24
    assert all(shown.startswith("~") and ":" in shown for shown in times)


@pytest.mark.parametrize(
    ("method", "settings", "milliseconds"),
    [
        ("par", {"preset": "paper"}, 8.3),
        ("vgdf", {}, 13.9),
        ("sac", {"backbone": "simba", "critic_widths": "256x256"}, 30.8),
        ("head-start", {}, 7.2),
    ],
)
def test_an_update_on_two_cores_is_thought_to_take_what_it_was_seen_to_take(
    method: str, settings: dict[str, str], milliseconds: float
) -> None:
    settings = dict(settings)
    run = build("halfcheetah-no-thighs", method, settings.pop("preset", None), settings=settings)[0]
    updates = run.schedule.updates_per_tick
    one, four = (cost.of_tick([run] * lanes, 2, 2) / updates for lanes in (1, 4))
    assert milliseconds / 2 < 1000 * one < 2 * milliseconds + 1  # physics comes on top
    assert four == pytest.approx(4 * one)


def test_the_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "list"]) == 0
    assert "online           Figure 2" in capsys.readouterr().out
