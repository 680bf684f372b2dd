"""A dataset in the place of the source: found, looked at by the doctor, and packed for the device."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._util.errors import OffdynError
from ..data.datasets import Dataset, folder, native, open_dataset
from ..data.datasets.opening import QUALITIES, SUFFIX, command_for, locate
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


def check_there(runs: Sequence[RunConfig]) -> None:
    """Refuse datasets that are not there, or whose cards say another body than the runs' source; no row is read."""
    asked = _asked(runs)
    names = list(dict.fromkeys(wanted for wanted, _ in asked if _is_missing(wanted)))
    if names:
        missing = " ".join(names)
        raise OffdynError(f"no dataset {missing} in {folder()}, which OFFDYN_DATA can change: "
                          f"`{command_for(names)}` makes what is missing")  # fmt: skip
    for (wanted, _), run in asked.items():
        path = locate(wanted)
        _check_body(native.card_of(path) if path.suffix == SUFFIX else {}, run)


def _asked(runs: Sequence[RunConfig]) -> dict[tuple[str, str], RunConfig]:
    """A run for each dataset and source."""
    wanted = [(run.schedule.source_data, run) for run in runs]
    return {(name, pairs.source_of(run.task).name): run for name, run in wanted if name is not None}


def _is_missing(wanted: str) -> bool:
    """Whether it is a name that `offdyn collect` could make."""
    plain = Path(wanted).name == wanted and ":" not in wanted and Path(wanted).suffix == ""
    return plain and not Path(wanted).exists() and not (folder() / f"{wanted}{SUFFIX}").is_file()


def _check_body(card: Mapping[str, Any], run: RunConfig) -> None:
    """A model compiled by another MuJoCo may differ in its last bits: there the doctor's simulation decides."""
    expected, found = pairs.fingerprints(run.task).get("source"), card.get("model")
    same_engine = card.get("mujoco") == metadata.version("mujoco-core")
    if expected in (None, found) or found is None or not same_engine or run.schedule.allow_faulty_data:
        return
    wanted, source = run.schedule.source_data, pairs.source_of(run.task).name
    made = card.get("shift") or card.get("robot")
    names = [name for quality in QUALITIES if (name := f"{source}-{quality}") == wanted] or [f"{source}-medium"]
    raise OffdynError(
        f"{wanted}: made with another body than {source} ({made}, model {str(found)[:12]}, expected {expected[:12]}); "
        f"`{command_for(names)} --out DIR` makes one of {source}"
    )


def check(runs: Sequence[RunConfig], progress: Progress) -> None:
    """Refuse, before anything is trained, a dataset that is not there or in which something is fatally wrong."""
    check_there(runs)
    for (wanted, _), run in _asked(runs).items():
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
