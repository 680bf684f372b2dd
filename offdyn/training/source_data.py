"""A dataset in the place of the source: found, looked at by the doctor, and packed for the device."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._util.errors import OffdynError
from ..data.datasets import Dataset, open_dataset
from ..data.doctor import diagnose_dataset, fatal
from ..envs import custom, pairs
from .config import RunConfig
from .progress import Progress


class SourceData(NamedTuple):
    """The rows of a dataset as the device takes them."""

    name: str
    rows: np.ndarray  # [n, width] float32
    sha256: str  # of the rows

    @property
    def about(self) -> dict[str, Any]:
        """For a run's provenance."""
        return {"name": self.name, "rows": len(self.rows), "sha256": self.sha256}


def open_source(run: RunConfig) -> SourceData:
    """The dataset that the run names."""
    dataset = _open(run)
    rows = dataset.rows()
    name = str(dataset.card.get("name") or Path(str(run.schedule.source_data)).stem)
    return SourceData(name, rows, hashlib.sha256(rows.tobytes()).hexdigest())


def check(runs: Sequence[RunConfig], progress: Progress) -> None:
    """Refuse, before anything is trained, a dataset that is not there or in which something is fatally wrong."""
    asked = {(run.schedule.source_data, pairs.family_of(run.task)): run for run in runs if run.schedule.source_data}
    for (wanted, _), run in asked.items():
        dataset = _open(run)
        reading = dataset.card.get("reading") or {}
        for what in ("actions", "ends", "ignored"):
            if said := reading.get(what):
                progress.say(f"{wanted}: {what} are {said}")
        findings = diagnose_dataset(dataset, target=run.task)
        for finding in findings:
            progress.say(f"{wanted}: {finding.name}: {finding.what}")
        if fatal(findings) and not run.schedule.allow_faulty_data:
            named = ", ".join(finding.name for finding in fatal(findings))
            raise OffdynError(
                f"{wanted}: not fit to learn from ({named}); `offdyn check {_arguments(run)}` says more, and "
                "--allow-faulty-data trains on it all the same"
            )


def _arguments(run: RunConfig) -> str:
    """For a command that looks at the dataset as this run does; of a function from Python no name tells."""
    target = run.task.target if isinstance(run.task, pairs.OwnPair) else run.task.name
    for_it = "" if target.startswith(custom.FROM_PYTHON) else f" --target {target}"
    return f"{run.schedule.source_data}{for_it}"


def _open(run: RunConfig) -> Dataset:
    assert run.schedule.source_data is not None
    return open_dataset(run.schedule.source_data, target=run.task)
