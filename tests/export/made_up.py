"""Runs' folders with a policy of random numbers, as training would leave them, without the training."""

from pathlib import Path
from typing import Any

import numpy as np

from offdyn.algos.backbones import residual
from offdyn.algos.networks import mlp
from offdyn.envs import pairs
from offdyn.policies.trained import Policies
from offdyn.training.config import build
from offdyn.training.run_folder import RunFolder

WIDTHS, BLOCKS = (24, 16), (12, 12)
SIMBA = {
    "backbone": "simba",
    "domain_input": "flag",
}  # settings of a run whose policy is residual and was told its domain


def random_policies(
    observation_size: int, action_size: int, normalised: bool, seed: int = 0, backbone: str = "classic"
) -> Policies:
    """One policy; its observations are far from mean 0 and deviation 1 where they are normalised.

    A residual one was told its domain: it has a source's side.
    """
    generator = np.random.default_rng(seed)
    build, widths = {"classic": (mlp, WIDTHS), "simba": (residual, BLOCKS)}[backbone]
    network = build((observation_size, *widths, action_size), observation_size)
    arrays: list[np.ndarray] = []
    shapes, norms = iter(network.shapes), iter(network.norms)
    for step in network.steps:
        if step == "linear":
            fan_in, fan_out = next(shapes)
            arrays.append(generator.normal(0, 1 / np.sqrt(fan_in), (1, fan_in, fan_out)))
            arrays.append(generator.normal(0, 0.1, (1, 1, fan_out)))
        elif step == "norm":
            size = next(norms)
            arrays += [generator.uniform(0.5, 2, (1, 1, size)), generator.normal(0, 0.5, (1, 1, size))]
    mean = deviation = source_bias = None
    if normalised:
        mean = generator.normal(3, 2, (1, 1, observation_size)).astype(np.float32)
        deviation = generator.uniform(0.01, 5, (1, 1, observation_size)).astype(np.float32)
    if backbone == "simba":
        source_bias = generator.normal(0, 1, arrays[1].shape).astype(np.float32)
    plain = tuple(array.astype(np.float32) for array in arrays)
    return Policies(network.steps, plain, mean, deviation, source_bias=source_bias)


def write(folder: RunFolder, policies: Policies) -> None:
    """As training writes it."""
    folder.write_policy(policies.named(), policies.steps)


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
    config = build(task, method, settings=settings)[0]
    folder = RunFolder.begin(out / config.name, config)
    spec = pairs.spec_of(folder.config.task)
    backbone = folder.config.sac.backbone
    write(folder, random_policies(spec.observation_size, spec.action_size, normalised, backbone=backbone))
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
