"""The contract of an exported policy: what goes in, what comes out, how often, and how it was made."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from .. import __version__
from .._util.files import content
from ..data.datasets import target_log
from ..envs import pairs
from ..envs.custom import OwnPair
from ..envs.tasks import Task
from ..policies.trained import Policy
from ..training.checkpoint import kept_rows
from ..training.run_folder import RunFolder
from .parts import Parts

FORMAT = 1  # of contract.yaml
PROMISE = (
    "action = middle + half * tanh(mean of the actor), where middle and half come from the action's range; "
    "the observation is normalised inside: hand it over as the environment gives it, its parts flattened in order"
)
DOMAIN = "target: the policy was told its domain in training, and the target's share is in the first layer's bias"
MOVED = (
    "tanh(...) moves the action of a base policy: clip(clip((base(observation) - middle) / half) + residual * "
    "tanh(...)), clipped to [-1, 1] each, stands in its place"
)
NOT_FINITE = "undefined: check observations before they go in (policy.py refuses them)"


def contract(run: RunFolder, policy: Policy, parts: Parts, kind: str, files: Mapping[str, bytes]) -> str:
    """All of it as YAML; the same run gives the same text."""
    (observation_size, action_size), task = parts.sizes, run.config.task
    said = {
        "format": FORMAT,
        "policy": PROMISE if parts.reach is None else f"{PROMISE}; {MOVED}",
        **({} if run.config.sac.domain_input == "none" else {"domain": DOMAIN}),
        **({} if parts.reach is None else {"base": _base(run, parts, files)}),
        "input": {
            "name": "observation",
            "shape": ["batch", observation_size],
            "dtype": "float32",
            "units": "unknown",
            "parts": _parts(task),
            "observed": _observed(run, observation_size),
            "normalised_inside": _normalisation(policy, parts),
            "not_finite": NOT_FINITE,
        },
        "output": {
            "name": "action",
            "shape": ["batch", action_size],
            "dtype": "float32",
            "units": "unknown",
            "low": numbers(parts.low),
            "high": numbers(parts.high),
        },
        "seconds_per_step": task.robot.seconds_per_step if isinstance(task, Task) else None,
        "steps_per_episode": pairs.spec_of(task).time_limit,
        "examples": _examples(policy, parts),
        "made": _made(run, policy),
        "export": {"format": kind, "offdyn": __version__, "sha256": {name: _sha256(c) for name, c in files.items()}},
    }
    return yaml.safe_dump(said, sort_keys=False, default_flow_style=None, width=120)


def _base(run: RunFolder, parts: Parts, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The base policy, and where it is now: null where whoever runs the policy has to hand it over."""
    plan = run.config.schedule
    beside = next((name for name in ("base.safetensors", "base.onnx") if name in files), None)
    inside = "policy" if beside is None and parts.base is not None else beside
    name = re.sub(r".*/", "", str(plan.base_policy))  # of a file or folder without where it lies
    return {"policy": name, "sha256": plan.base_sha256, "residual": plan.residual, "file": inside}


def _parts(pair: pairs.Pair) -> list[dict[str, Any]] | None:
    """What stands where in a flat observation, where the pair says so."""
    if not isinstance(pair, OwnPair):
        return None
    return [{"name": name, "size": size} for name, size in pair.observation]


def numbers(array: np.ndarray) -> list[float]:
    """The shortest decimals that give back the same float32."""
    return [float(str(value)) for value in np.asarray(array, np.float32)]


def _observed(run: RunFolder, size: int) -> dict[str, Any] | None:
    """The range of what the run saw in the target, where those rows are still stored."""
    rows = stored_target_rows(run)
    if rows is None or not len(rows):
        return None
    seen = np.concatenate((rows[:, :size], rows[:, -1 - size : -1]))  # the row's observation, and the one after it
    return {"rows": len(rows), "domain": "target", "low": numbers(seen.min(0)), "high": numbers(seen.max(0))}


def stored_target_rows(run: RunFolder) -> np.ndarray | None:
    """[n, width] packed rows: of a run with a target log, that is under way, or was trained with --keep-replay."""
    folder = run.config.schedule.target_log
    if folder is not None and (log := target_log.path_of(folder, run.config.name)).exists():
        return target_log.read(log).rows()
    found = [rows for (rows,) in kept_rows(run.path, "target")]
    return np.concatenate(found) if found else None


def _normalisation(policy: Policy, parts: Parts) -> dict[str, list[float]] | None:
    if policy.policies.mean is None:
        return None
    return {"mean": numbers(parts.mean), "deviation": numbers(parts.deviation)}


def _examples(policy: Policy, parts: Parts) -> list[dict[str, list[float]]]:
    """What the policy of the run itself does, for whoever wants to compare."""
    seen = np.stack([parts.mean + factor * parts.deviation for factor in (0, 1, -2)])
    actions = parts.middle + parts.half * policy(seen)
    return [{"observation": numbers(o), "action": numbers(a)} for o, a in zip(seen, actions, strict=True)]


def _made(run: RunFolder, policy: Policy) -> dict[str, Any]:
    config, provenance = run.config, run.provenance
    hashes = {file.name: _sha256(content(file)) for file in (policy.path, run.path / "config.yaml")}
    steps = {name: provenance.get(name) for name in ("source_steps", "target_steps", "updates")}
    return {
        "run": config.name,
        "task": config.task.to_mapping(),
        "method": config.method,
        "backbone": config.sac.backbone,
        "preset": config.preset,
        "seed": config.seed,
        "state": provenance["state"],
        **steps,
        "target_return": _score(run.path / "final.json"),
        "offdyn": provenance.get("offdyn"),
        "packages": provenance.get("packages"),
        "models": provenance.get("models"),
        "sha256": hashes,
    }


def _score(path: Path) -> dict[str, Any] | None:
    """Fresh episodes of the final policy, where the run is finished."""
    try:
        final = json.loads(content(path))
        return {"mean": final["final_mean"], "deviation": final["final_std"], "episodes": len(final["final_returns"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
