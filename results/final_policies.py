"""Plays the final policies of runs again, in either body."""

from collections.abc import Iterator

import numpy as np

from offdyn.domains import pairs, tasks
from offdyn.domains.domain import Rows
from offdyn.experiments.evaluate import EVALUATION, Policy, steps
from offdyn.report.runs import Run

EPISODES, INDEX = 10, 1000  # an evaluation number that training never reaches


def played(run: Run, body: str) -> Iterator[tuple[np.ndarray, Rows]]:
    """Step by step, the episodes of the mean action that still run, and their rows."""
    starts = [(run.seed, EVALUATION, INDEX, episode) for episode in range(EPISODES)]
    domain = pairs.open_bodies([(tasks.resolve(run.task), body)] * EPISODES, starts, None)
    yield from steps(domain, Policy(run.path / "policy.safetensors").policies, 1, EPISODES)
    domain.close()
