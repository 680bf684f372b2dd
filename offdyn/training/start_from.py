"""Continuing from an earlier run: which one it is, whether its networks fit, and what they are."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes

from .._util.errors import OffdynError
from ..envs import pairs
from .config import RunConfig
from .run_folder import RunFolder

SHAPING = (  # must agree
    "backbone",
    "domain_input",
    "actor_widths",
    "critic_widths",
    "critic_layer_norm",
    "critics",
    "temperature_per_domain",
    "normalise_observations",
)


FAILED = "run it continues from"  # the quantity, where that run broke


class Start(NamedTuple):
    """The networks a run begins with."""

    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any]  # for the run's provenance


def locate(run: RunConfig, out: Path) -> Path | None:
    """The folder a run continues from: one beside it, or one that its user named."""
    wanted = run.schedule.start_from
    if wanted is None:
        return None
    beside = out / wanted
    return beside if beside.exists() else Path(wanted)


def check(runs: Sequence[RunConfig], out: Path) -> None:
    """Refuse a start that is not there or does not fit, before anything is trained."""
    asked = {run.name for run in runs}
    for run in runs:
        folder = locate(run, out)
        if folder is None or run.schedule.start_from in asked:
            continue
        earlier = RunFolder.open(folder)
        if not (folder / "agent.safetensors").exists():
            raise OffdynError(
                f"start_from {folder}: the run is {earlier.state}, and its networks (agent.safetensors) are written "
                "when it is done; finish it with `offdyn resume`"
            )
        spec, its_spec = pairs.spec_of(run.task), pairs.spec_of(earlier.config.task)
        if spec[:2] != its_spec[:2]:
            raise OffdynError(
                f"start_from {folder}: its robot has {its_spec[0]} observations and {its_spec[1]} actions, that of "
                f"{run.task.name} {spec[0]} and {spec[1]}"
            )
        for name in SHAPING:
            mine, its = getattr(run.sac, name), getattr(earlier.config.sac, name)
            if mine != its:
                raise OffdynError(f"start_from {folder}: was trained with {name}={its}, this run has {mine}")


def load(run: RunConfig, out: Path) -> Start | None:
    """What the run starts with; None where it starts afresh."""
    folder = locate(run, out)
    if folder is None:
        return None
    path = folder / "agent.safetensors"
    try:
        content = path.read_bytes()
        arrays = from_bytes(content)
    except (OSError, SafetensorError) as error:
        raise OffdynError(f"{path}: cannot be read ({error}); {run.name} starts from it") from None
    return Start(arrays, {"run": folder.name, "sha256": hashlib.sha256(content).hexdigest()})


def failed(run: RunConfig, out: Path) -> bool:
    """Whether the run it continues from broke."""
    folder = locate(run, out)
    return folder is not None and RunFolder.open(folder).state == "failed"
