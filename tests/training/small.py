"""Tiny worlds, short runs of them, and what of a run folder must be equal byte for byte."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from offdyn._util.types import Spec
from offdyn.algos.registry import recipe
from offdyn.data.datasets import Dataset
from offdyn.envs.pairs import open_bodies
from offdyn.envs.toy import World
from offdyn.training import trainer as training
from offdyn.training.config import RunConfig, build
from offdyn.training.progress import Quiet, Stop, Stopped
from offdyn.training.run_folder import RunFolder

BRIEF = {
    "source_steps": 480,
    "source_envs": 5,
    "eval_interval": 120,
    "log_interval": 40,
    "checkpoint_interval": 100,
    "eval_episodes": 2,
    "eval_source_episodes": 1,
    "final_episodes": 3,
    "learning_starts": 4,
    "batch_size": 8,
}
# Arguments of a short training of a robot.
SHORT = (
    "--source-steps 2000 --eval-interval 500 --eval-episodes 2 "
    "--checkpoint-interval 50 --set actor_widths=8 critic_widths=8 encoder_widths=8 code_size=8 encoder_batch=8 "
    "batch_size=8 learning_starts=8 log_interval=100 final_episodes=2 eval_source_episodes=1"
)
SMALL_NETWORKS = {"actor_widths": (8,), "critic_widths": (8,)}


def _start(generator: np.random.Generator) -> np.ndarray:
    return generator.uniform(-1.0, 1.0, 2)


def _fallen(after: Any) -> Any:
    return after[..., 0] > 1.6


def _push(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    after = np.clip(state + np.where(shifted, -0.4, 0.5)[:, None] * action, -2.0, 2.0)
    return after, 1.0 - np.square(after).sum(1), _fallen(after)


# A point that is pushed about, backwards in the target; it falls off one edge, and episodes are cut after 17 steps.
PUSH = World("push", Spec(2, 2, 2, 17, _fallen), _start, _push)


def small(method: str) -> dict[str, Any]:
    """Settings of a short run with tiny networks."""
    fields = dataclasses.fields(recipe(method).method.hyper)
    own: dict[str, Any] = {field.name: (8,) for field in fields if field.name.endswith("_widths")}
    own |= {field.name: 8 for field in fields if field.name.endswith("_batch") or field.name == "code_size"}
    # A warm-up ends early, so that what follows it is tested too.
    own |= {field.name: 100 for field in fields if field.name == "warm_up"}
    own |= {"head_start": 60, "source_steps_per_target_step": 5} if method == "head-start" else {}
    return BRIEF | SMALL_NETWORKS | own


def run(method: str = "par", seed: int = 0, world: Any = PUSH, preset: str | None = None, **settings: Any) -> RunConfig:
    """A short run with tiny networks."""
    preset = preset or ("paper" if "paper" in recipe(method).method.presets else None)
    return build(world, method, preset, seed, small(method) | settings)[0]


class StopAt(Quiet):
    """Asks training to stop when it has come so far, as a signal would; keeps what was said."""

    def __init__(self, clock: int | None = None) -> None:
        self.clock, self.stop, self.said = clock, Stop(), list[str]()

    def say(self, text: str, detail: bool = False) -> None:
        self.said.append(text)

    def advanced(self, clock: int, total: int, wall: float) -> None:
        if self.clock is not None and clock >= self.clock:
            self.stop.wanted = True


def train(runs: list[RunConfig], out: Path, stop_at: int | None = None, **options: Any) -> StopAt:
    """Train, perhaps only so far; says what was said."""
    watcher = StopAt(stop_at)
    try:
        training.start(runs, out, progress=watcher, stop=watcher.stop, threads=1, **options)
    except Stopped:
        assert stop_at is not None
    return watcher


def resume(out: Path, stop_at: int | None = None) -> StopAt:
    """Go on where the last checkpoint was, perhaps only so far; says what was said."""
    watcher = StopAt(stop_at)
    try:
        training.resume(out, progress=watcher, stop=watcher.stop, threads=1)
    except Stopped:
        assert stop_at is not None
    return watcher


def curve(folder: Path) -> list[dict[str, str]]:
    """The lines of curve.csv as text, the wall clock aside."""
    with open(folder / "curve.csv", newline="") as file:
        return [{name: cell for name, cell in line.items() if name != "wall_seconds"} for line in csv.DictReader(file)]


def outcome(out: Path) -> dict[str, Any]:
    """All that a resume must reproduce: curves, metrics, parameters and final returns of every run."""
    kept: dict[str, Any] = {}
    for folder in sorted(path.parent for path in out.glob("*/config.yaml")):
        kept[f"{folder.name}/curve.csv"] = curve(folder)
        for name in ("config.yaml", "metrics.jsonl", "policy.safetensors", "agent.safetensors", "final.json"):
            kept[f"{folder.name}/{name}"] = (folder / name).read_bytes()
    assert kept, f"no runs in {out}"
    return kept


def cohort_of(out: Path) -> Path:
    """The folder of a training's one cohort."""
    (path,) = (out / "cohorts").glob("*/")
    return path


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of what is not the same."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def two_runs() -> list[RunConfig]:
    """Two lanes of PAR, which most tests use: their program is compiled once."""
    return [run(seed=0), run(seed=1)]


def rows_of(world: Any, steps: int, seed: int = 0) -> Dataset:
    """What some bodies of the world's source do under random actions, one body after the other."""
    bodies = 4
    domain = open_bodies([(world, "source")] * bodies, [(seed, body) for body in range(bodies)])
    generator, ids = np.random.default_rng(seed), np.arange(bodies)
    played = [
        domain.step(ids, generator.uniform(-1, 1, (bodies, world.spec.action_size))) for _ in range(steps // bodies)
    ]
    columns = [np.stack([getattr(rows, name) for rows in played], 1) for name in played[0]._fields[:6]]
    columns[5][:, -1] = ~columns[4][:, -1]  # where a body's recording stops
    return Dataset(*(column.reshape(-1, *column.shape[2:]) for column in columns), card={"robot": world.name})


def find_runs(out: Path) -> list[RunFolder]:
    """Every run of a training."""
    return [RunFolder.open(path.parent) for path in sorted(out.glob("*/config.yaml"))]
