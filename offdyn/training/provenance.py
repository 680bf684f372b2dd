"""Where a run's numbers come from: state, counts, models, machine and versions, as provenance.json has them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..envs import pairs
from .cohort import Cohort
from .run_folder import RunFolder, surroundings


def write(
    folders: Sequence[RunFolder],
    cohort: Cohort,
    state: str,
    *,
    threads: int,
    wall: float,
    started_from: Mapping[int, Mapping[str, Any]],
    evaluation_steps: np.ndarray,
    dropped: Mapping[str, Sequence[Sequence[int]]],
) -> None:
    """Into every run's folder; a run that failed is failed, whatever the state of the others."""
    about = surroundings(threads) | {"written_at": datetime.now(UTC).isoformat(timespec="seconds")}
    for lane, folder in enumerate(folders):
        failure = cohort.failures.get(lane)
        about_run: dict[str, Any] = {
            "state": "failed" if failure else state,
            "preset": folder.config.preset,
            "models": pairs.fingerprints(folder.config.task),
            "lanes_in_cohort": len(folders),
            "wall_seconds": round(wall, 1),
            "source_steps": cohort.source_rows,
            "target_steps": cohort.target_rows,
            "updates": cohort.updates,
        }
        if isinstance(folder.config.task, pairs.OwnPair):
            about_run["evaluation_target_steps"] = int(evaluation_steps[lane])
        if folder.config.schedule.tuning_target_steps is not None:
            about_run["tuning_target_steps"] = folder.config.schedule.tuning_target_steps
        if lane in started_from:
            about_run["start_from"] = dict(started_from[lane])
        if cohort.source_data is not None:
            about_run["source_data"] = cohort.source_data.about
        if any(dropped.values()):
            about_run["dropped_transitions"] = dict(dropped)  # each domain's ranges: first, and one after the last
        if failure:
            about_run["failure"] = {"quantity": failure[0], "step": failure[1]}
        folder.write_json("provenance.json", about | about_run)
