"""Run folders written by the library's own functions, with returns made up."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from offdyn.training.config import build
from offdyn.training.run_folder import RunFolder

ABOUT: dict[str, Any] = {
    "format": 1,
    "offdyn": "0.1.0",
    "packages": {"jax": "0.10.2", "mujoco-core": "4.0.0"},
    "device": {"platform": "cpu", "kind": "cpu", "count": 1},
    "machine": {"processor": "abacus", "cores": 2},
    "models": {"source": "aa", "target": "bb"},
    "lanes_in_cohort": 3,
    "wall_seconds": 100.0,
    "updates": 5000,
}


def make_run(
    out: Path,
    task: Any = "hopper-big-head",
    method: str = "par",
    seed: int = 0,
    final: float | None = None,
    *,
    state: str | None = None,
    preset: str = "paper",
    points: int = 5,
    begin: float = 0.0,
    penalty_begin: float = 0.5,
    provenance: dict[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A run of 400 target steps, finished if it has a final return, evaluated at 0, 100, 200 ... target steps.

    Its returns rise from `begin` in a line.
    """
    config, _ = build(task, method, preset, seed, {"target_steps": 400, **settings})
    folder = RunFolder.begin(out / config.name, config)
    for index in range(points):
        folder.append_curve(
            {
                "source_steps": 1000 * index,
                "target_steps": 100 * index if config.schedule.acts_in_target else 0,
                "updates": 1000 * index,
                "target_return_mean": begin + index * ((final or 40.0) - begin) / 4,
                "reward_penalty": penalty_begin / (1 + index) if method.startswith("par") else 0.0,
                "wall_seconds": 25.0 * index,
            }
        )
    state = state or ("running" if final is None else "finished")
    if state == "finished":
        folder.write_json("final.json", folder.summary(np.array([final, final], float)))
    if state != "not started":
        steps = {"state": state, "target_steps": max(0, 100 * (points - 1))}
        folder.write_json("provenance.json", ABOUT | steps | (provenance or {}))
    return folder.path


def make_seeds(out: Path, finals: Sequence[float], *arguments: Any, **options: Any) -> list[Path]:
    """Finished runs with the seeds 0, 1, 2 ..."""
    return [make_run(out, *arguments, seed=seed, final=final, **options) for seed, final in enumerate(finals)]
