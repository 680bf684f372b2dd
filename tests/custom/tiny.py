"""Short trainings of tiny networks in tiny environments."""

import importlib
import json
from pathlib import Path
from typing import Any

import offdyn
from offdyn.training.progress import Quiet, Stop, Stopped
from offdyn.training.run_folder import RunFolder

HERE = "tests.custom.environments"
environments: Any = importlib.import_module(HERE)
SETTINGS: dict[str, Any] = {
    "source_steps": 480,  # and 48 target steps
    "source_envs": 5,
    "eval_interval": 120,
    "log_interval": 40,
    "checkpoint_interval": 160,
    "eval_episodes": 2,
    "eval_source_episodes": 1,
    "final_episodes": 3,
    "learning_starts": 4,
    "batch_size": 8,
    "actor_widths": (8,),
    "critic_widths": (8,),
}


def named(name: str) -> str:
    return f"{HERE}:{name}"


class Watcher(Quiet):
    """Keeps what was said; asks training to stop when the clock has come so far."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop, self.stop_at, self.said = Stop(), stop_at, list[str]()

    def say(self, text: str, detail: bool = False) -> None:
        self.said.append(text)

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.stop.wanted |= self.stop_at is not None and clock >= self.stop_at


def train(out: Path, watcher: Watcher | None = None, **asked: Any) -> list[RunFolder]:
    watcher = watcher or Watcher()
    asked = {"method": "sac", "source": named("source"), "target": named("target"), **SETTINGS, **asked}
    return offdyn.train(out=out, progress=watcher, stop=watcher.stop, threads=1, **asked)


def fails(out: Path, **asked: Any) -> tuple[str, Watcher]:
    """Train until it stops of itself; why, and what was said."""
    watcher = Watcher()
    try:
        train(out, watcher, **asked)
    except Stopped as stopped:
        return str(stopped), watcher
    raise AssertionError("it did not stop")


def resume(out: Path, **asked: Any) -> tuple[list[RunFolder], Watcher]:
    watcher = Watcher()
    return offdyn.resume(out, progress=watcher, stop=watcher.stop, threads=1, **asked), watcher


def read(run: RunFolder, name: str) -> dict[str, Any]:
    return json.loads((run.path / name).read_text())


def counts(run: RunFolder) -> tuple[int, int, int]:
    """Source steps, target steps and updates that were done."""
    done = run.provenance
    return done["source_steps"], done["target_steps"], done["updates"]
