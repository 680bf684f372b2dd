"""Runs' folders with a policy of random numbers, as training would leave them, without the training."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from offdyn.domains import pairs
from offdyn.experiments.config import build
from offdyn.experiments.evaluate import Policies
from offdyn.experiments.record import RunFolder

WIDTHS = (24, 16)


def random_policies(observation_size: int, action_size: int, normalised: bool, seed: int = 0) -> Policies:
    """One policy; its observations are far from mean 0 and deviation 1 where they are normalised."""
    generator = np.random.default_rng(seed)
    sizes = (observation_size, *WIDTHS, action_size)
    shapes = list(itertools.pairwise(sizes))
    weights = [generator.normal(0, 1 / np.sqrt(shape[0]), (1, *shape)).astype(np.float32) for shape in shapes]
    biases = [generator.normal(0, 0.1, (1, 1, shape[1])).astype(np.float32) for shape in shapes]
    mean = deviation = None
    if normalised:
        mean = generator.normal(3, 2, (1, 1, observation_size)).astype(np.float32)
        deviation = generator.uniform(0.01, 5, (1, 1, observation_size)).astype(np.float32)
    return Policies(tuple(weights), tuple(biases), mean, deviation)


def run(
    out: Path,
    task: Any = "hopper-big-head",
    method: str = "par",
    *,
    normalised: bool = True,
    state: str = "finished",
    **settings: Any,
) -> RunFolder:
    """A run's folder with config.yaml, provenance.json and a policy."""
    folder = RunFolder.create(out, build(task, method, settings=settings)[0])
    spec = pairs.spec_of(folder.config.task)
    folder.write_policy(random_policies(spec.observation_size, spec.action_size, normalised).arrays())
    folder.write_json("provenance.json", {"format": 1, "state": state, "packages": {"jax": "1"}, "target_steps": 7})
    return folder


def observations(size: int) -> np.ndarray:
    """[n, size] ordinary and extreme ones."""
    generator = np.random.default_rng(1)
    ordinary = generator.normal(3, 3, (200, size))
    signs = generator.choice([-1.0, 1.0], (20, size))
    extremes = [scale * signs for scale in (1e-30, 1e3, 1e6, 1e9)]
    corners = np.concatenate((np.zeros((1, size)), 1e6 * np.eye(size), -1e6 * np.eye(size)))
    return np.concatenate((ordinary, *extremes, corners)).astype(np.float32)
