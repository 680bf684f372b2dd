"""Policies on disk: those a run kept on its way, and those that datasets are collected with, each with its card."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save as to_bytes

from ..._util import files
from ..._util.errors import OffdynError, check_format
from ..._util.files import write_atomically
from ...envs import pairs
from ...envs.pairs import Pair
from ...policies.trained import Policies, Policy
from ...training import evaluation
from ...training.run_folder import RunFolder
from .episodes import NOISE, role_of

FORMAT = 1
PICKING = 3  # the role in (seed, role, ...) that seeds starts; training and evaluation use 0 to 2
TOGETHER = 32  # snapshots whose episodes are stepped at the same time
# Rows a policy is asked for in one multiplication: so few that BLAS does not share them among threads, which costs ten
# times what it brings here, and would let the number of cores decide the last bits.
ROWS_AT_ONCE = 4


@dataclass(frozen=True)
class Behaviour:
    """A policy that plays, with what its file says of it."""

    policies: Policies
    about: Mapping[str, Any]
    sha256: str  # of the file


def kept(run: RunFolder) -> dict[int, Path]:
    """The snapshots of a run by training step, those whose evaluation is in its curve."""
    evaluated = {int(line["source_steps"]) for line in run.curve()}
    found = sorted((run.path / "policies").glob("step-*.safetensors"))
    by_step = {int(match[1]): path for path in found if (match := re.fullmatch(r"step-(\d+)", path.stem))}
    return {step: path for step, path in by_step.items() if step in evaluated}


def stacked(policies: Sequence[Policies]) -> Policies:
    """Policies of equal networks, a lane each."""
    first, lanes = policies[0], [policy.stacked(np.arange(policy.lanes)) for policy in policies]
    if any(policy.steps != first.steps for policy in policies):
        raise OffdynError("policies of different networks cannot be played together")
    shared = set.intersection(*map(set, lanes)) - {"steps"}
    joined = {name: np.concatenate([lane[name] for lane in lanes]) for name in shared}
    return Policies.from_stacked(joined | {"steps": lanes[0]["steps"]})


def stochastic_returns(
    policies: Policies, task: Pair, episodes: int, seed: int = 0, threads: int | None = None
) -> np.ndarray:
    """[lanes, episodes]: returns of actions drawn as training draws them; starts and noise are common to all lanes."""
    lanes = policies.lanes
    starts = [(seed, PICKING, episode) for _ in range(lanes) for episode in range(episodes)]
    domain = pairs.open_bodies([(task, role_of(task))] * len(starts), starts, threads)
    generator, returns = np.random.default_rng([seed, PICKING, NOISE]), np.zeros(len(starts))
    some = [slice(first, first + ROWS_AT_ONCE) for first in range(0, episodes, ROWS_AT_ONCE)]

    def drawn(observation: np.ndarray) -> np.ndarray:
        noise = generator.standard_normal((episodes, domain.spec.action_size), np.float32)
        seen = observation.reshape(lanes, episodes, -1)
        return np.concatenate([policies.sample(seen[:, part], noise[part]) for part in some], axis=1)

    try:
        for running, rows in evaluation.episodes(domain, drawn, len(starts)):
            returns[running] += rows.reward
    finally:
        domain.close()
    return returns.reshape(lanes, episodes)


def draw(policy: Policies, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """[n, S], [n, A] -> [n, A]: the actions of one policy, as training draws them."""
    n, missing = len(observation), -len(observation) % ROWS_AT_ONCE
    groups = [np.pad(a, ((0, missing), (0, 0))).reshape(-1, ROWS_AT_ONCE, a.shape[1]) for a in (observation, noise)]
    return policy.sample(*groups).reshape(n + missing, -1)[:n]


def write_behaviour(path: Path, policies: Policies, about: Mapping[str, Any]) -> None:
    """One policy, which `Policy` reads too."""
    arrays = policies.lane(0).named()
    path.parent.mkdir(parents=True, exist_ok=True)
    # One entry: safetensors writes several in an order of its own, other bytes every time.
    write_atomically(
        path, to_bytes(arrays, {"about": json.dumps({"format": FORMAT, "steps": list(policies.steps), **about})})
    )


def read_behaviour(path: Path) -> Behaviour:
    """What `write_behaviour` wrote, or the policy of any run."""
    try:
        content = files.content(path)
        policy = Policy(path)
        about = json.loads(policy.metadata["about"])
        check_format(about["format"], FORMAT, path)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, OffdynError):
            raise
        raise OffdynError(f"{path}: not a readable policy ({error!r})") from None
    return Behaviour(policy.policies, about, hashlib.sha256(content).hexdigest())
