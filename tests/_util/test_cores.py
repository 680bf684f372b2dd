"""Who gets which cores where nobody says, and that bodies keep theirs to themselves."""

import os
import subprocess
import sys

import pytest

from offdyn._util import cores
from offdyn._util.cores import JOBS_AT_ONCE, default_threads, left_for_evaluation

needs_cores = pytest.mark.skipif(len(cores.every()) < 2, reason="one core cannot be shared out")


@pytest.fixture
def machine(monkeypatch):
    def has(count: int, jobs: int = 1) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))
        monkeypatch.setenv(JOBS_AT_ONCE, str(jobs))

    return has


@pytest.fixture
def alone(monkeypatch):
    """No other job is at work on the machine."""
    monkeypatch.delenv(JOBS_AT_ONCE, raising=False)
    yield
    cores.give_back()


@pytest.mark.parametrize(
    ("count", "jobs", "alone", "beside"),
    [(1, 1, 1, 1), (2, 1, 1, 1), (16, 1, 8, 10), (16, 2, 4, 4), (16, 4, 4, 4), (64, 4, 8, 8), (4, 4, 2, 2)],
)
def test_the_physics_gets_half_of_the_cores_more_beside_a_gpu_and_a_few_at_least(machine, count, jobs, alone, beside):
    machine(count, jobs)
    assert default_threads(beside_a_gpu=False) == alone
    assert default_threads(beside_a_gpu=True) == beside


@pytest.mark.parametrize(
    ("count", "jobs", "threads", "left"), [(1, 1, 1, 1), (16, 1, 8, 8), (16, 1, 10, 6), (16, 1, 16, 4), (16, 4, 4, 4)]
)
def test_evaluation_gets_what_the_bodies_leave_and_a_few_at_least(machine, count, jobs, threads, left):
    machine(count, jobs)
    assert left_for_evaluation(threads) == left


@needs_cores
def test_cores_that_are_taken_are_left_by_every_thread_and_given_back(alone):
    before = cores.every()
    evaluating = left_for_evaluation(1)
    assert cores.take(1) == before[:1]
    assert all(os.sched_getaffinity(int(thread)) == set(before[1:]) for thread in os.listdir("/proc/self/task"))
    assert cores.taken()
    assert cores.every() == before  # of the training, its bodies' included
    assert left_for_evaluation(1) >= evaluating
    assert cores.take(1) == []  # one set of bodies at a time
    assert cores.taken()
    cores.give_back()
    assert all(os.sched_getaffinity(int(thread)) == set(before) for thread in os.listdir("/proc/self/task"))
    assert not cores.taken()


@pytest.mark.parametrize("why", ["jobs", "few"])
def test_no_core_is_taken_where_others_would_suffer(alone, monkeypatch, why):
    if why == "jobs":
        monkeypatch.setenv(JOBS_AT_ONCE, "2")
    assert cores.take(len(cores.every()) if why == "few" else 1) == []
    assert not cores.taken()


@needs_cores
def test_where_a_process_may_not_choose_its_cores_none_are_taken(alone, monkeypatch):
    def refused(thread: int, wanted: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    assert cores.take(1) == []
    assert not cores.taken()


def test_who_stands_back_runs_on_the_cores_it_is_given_at_the_lowest_priority():
    last = cores.every()[-1]
    said = f"import os; from offdyn._util import cores; cores.stand_back([{last}]); print(os.sched_getaffinity(0), "
    said += "os.sched_getscheduler(0) == os.SCHED_IDLE)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"{{{last}}}", "True"]
