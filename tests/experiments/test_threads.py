"""Who gets which cores where nobody says: half of them the bodies, the rest evaluation, shared among jobs at once."""

import os

import pytest

from offdyn.experiments.cores import JOBS_AT_ONCE, default_threads, left_for_evaluation


@pytest.mark.parametrize(
    ("cores", "jobs", "threads"), [(1, 1, 1), (2, 1, 1), (16, 1, 8), (16, 2, 4), (16, 4, 4), (64, 4, 8), (4, 4, 2)]
)
def test_half_of_the_cores_and_a_few_at_least(cores, jobs, threads, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setenv(JOBS_AT_ONCE, str(jobs))
    assert default_threads() == threads


@pytest.mark.parametrize(
    ("cores", "jobs", "threads", "left"), [(1, 1, 1, 1), (16, 1, 8, 8), (16, 1, 10, 6), (16, 1, 16, 4), (16, 4, 4, 4)]
)
def test_evaluation_gets_what_the_bodies_leave_and_a_few_at_least(cores, jobs, threads, left, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setenv(JOBS_AT_ONCE, str(jobs))
    assert left_for_evaluation(threads) == left
