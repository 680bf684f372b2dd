"""How many threads step the bodies where nobody says: five of eight cores, shared among jobs side by side."""

import os

import pytest

from offdyn.experiments.train import JOBS_AT_ONCE, default_threads


@pytest.mark.parametrize(
    ("cores", "jobs", "threads"), [(1, 1, 1), (2, 1, 1), (16, 1, 10), (16, 2, 5), (16, 4, 4), (64, 4, 10), (4, 4, 2)]
)
def test_five_of_eight_cores_and_a_few_at_least(cores, jobs, threads, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setenv(JOBS_AT_ONCE, str(jobs))
    assert default_threads() == threads
