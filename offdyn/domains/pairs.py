"""A source and a target, whatever simulates them: a shifted robot with its stock body, or a small world."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import OffdynError, unknown
from ..types import Spec
from . import tasks
from .domain import Domain
from .jetpack import JETPACK
from .simulator import Simulator
from .tasks import Task
from .worlds import World, WorldBodies

Pair = Task | World
WORLDS: dict[str, World] = {world.name: world for world in (JETPACK,)}  # built-in worlds by name


def find(wanted: "str | Path | Mapping[str, Any] | Pair") -> Pair:
    """The pair a user means: a task's name, file or mapping, or a world."""
    if isinstance(wanted, World):
        return wanted
    if isinstance(wanted, Mapping) and "world" in wanted:
        wanted = wanted["world"]
        if wanted not in WORLDS:
            raise unknown("world", str(wanted), WORLDS)
    if isinstance(wanted, str) and wanted in WORLDS:
        return WORLDS[wanted]
    return tasks.resolve(wanted)


def spec_of(pair: Pair) -> Spec:
    return pair.spec if isinstance(pair, World) else pair.robot.spec


def family_of(pair: Pair) -> str:
    """Pairs of one family have the same bodies but for their shifts: their runs may share a cohort."""
    return pair.name if isinstance(pair, World) else pair.robot.name


def source_of(pair: Pair) -> Pair:
    """The pair whose target is this one's source; a world, which is both in one, is its own."""
    return pair if isinstance(pair, World) else tasks.source_of(pair)


def check(pair: Pair, allow_no_shift: bool) -> None:
    """Refuse a target that is its source, unless that is meant."""
    if isinstance(pair, Task):
        tasks.check_pair(tasks.source_of(pair), pair, allow_no_shift)


def open_bodies(
    bodies: Sequence[tuple[Pair, str]], seeds: Sequence[tuple[int, ...]], threads: int | None = None
) -> Domain:
    """Bodies of one family, each the "source" or the "target" of its pair, built afresh."""
    pair = bodies[0][0]
    if len({family_of(p) for p, _ in bodies}) > 1:
        raise OffdynError("bodies of one domain must be of one robot")
    if isinstance(pair, World):
        return WorldBodies(pair, [role == "target" for _, role in bodies], seeds)
    robots = [p if role == "target" else tasks.source_of(p) for p, role in bodies if isinstance(p, Task)]
    return Simulator(robots, seeds, threads=threads)


def fingerprints(pair: Pair) -> dict[str, str]:
    """What identifies the two bodies in a result: hashes of the compiled models."""
    if isinstance(pair, World):
        return {}
    source = tasks.source_of(pair)
    return {"source": tasks.model_hash(source.model()), "target": tasks.model_hash(pair.model())}


def normalised(pair: Pair, episode_return: float) -> float | None:
    return None if isinstance(pair, World) else tasks.normalised(pair, episode_return)
