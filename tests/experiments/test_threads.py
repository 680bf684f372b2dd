"""How many threads step the bodies where nobody says: half of the cores, shared among jobs that train side by side."""

import os

import pytest

from offdyn.experiments.train import JOBS_AT_ONCE, default_threads


@pytest.mark.parametrize(
    ("cores", "jobs", "threads"), [(1, 1, 1), (2, 1, 1), (16, 1, 8), (16, 2, 4), (16, 4, 4), (64, 4, 8), (4, 4, 2)]
)
def test_half_of_the_cores_and_a_few_at_least(cores, jobs, threads, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setenv(JOBS_AT_ONCE, str(jobs))
    assert default_threads() == threads
