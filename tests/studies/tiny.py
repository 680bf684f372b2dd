"""A study of a toy environment that trains within seconds, and a backend that does so in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from offdyn.studies import job as jobs
from offdyn.studies.backends import Order, Say
from offdyn.studies.job import Job
from offdyn.studies.run import Outcome, Wanted, run
from offdyn.studies.study import Study, parse
from offdyn.training.progress import Stop

SHORT = {
    "source_steps": 600,
    "eval_interval": 200,
    "log_interval": 100,
    "checkpoint_interval": 100,
    "eval_episodes": 2,
    "eval_source_episodes": 1,
    "final_episodes": 3,
    "learning_starts": 4,
    "batch_size": 8,
    "actor_widths": [8],
    "critic_widths": [8],
}
PAR = {"method": "par", "settings": {"encoder_widths": [8], "encoder_batch": 8, "code_size": 8}}
BROKEN = {"method": "sac", "label": "broken", "settings": {"start_from": "nowhere"}}  # until that run is there


def content(*methods: Any, settings: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """What the study's YAML file says."""
    said = {"name": "tiny", "tasks": ["jetpack"], "methods": list(methods), "seeds": [0, 1]}
    return said | {"settings": SHORT | (settings or {})} | others


def study(*methods: Any, **others: Any) -> Study:
    return parse(content(*methods, **others), "tiny")


def write(path: Path, *methods: Any, **others: Any) -> Path:
    path.write_text(yaml.safe_dump(content(*methods, **others)))
    return path


class InThisProcess:
    """Runs jobs one after another; may be asked to stop after so many."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after, self.begun = stop_after, list[str]()

    def run(self, jobs_left: Sequence[Job], study: Path, say: Say, stop: Stop) -> None:
        order = Order(jobs_left)
        while (job := order.next()) is not None and not stop.wanted:
            self.begun.append(job.id)
            jobs.run(job.path)
            order.ended(job)
            if len(self.begun) == self.stop_after:
                stop.wanted = True


def run_here(what: Study, folder: Path, *, stop_after: int | None = None, **wanted: Any) -> tuple[Outcome, list[str]]:
    """The outcome, and the jobs that began."""
    backend = InThisProcess(stop_after)
    outcome = run(what, Wanted(**wanted, threads=1), folder, backend, lambda text: None)
    return outcome, backend.begun
