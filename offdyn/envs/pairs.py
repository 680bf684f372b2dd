"""A source and a target, whatever simulates them: a shifted robot with its stock body, a toy, or custom ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._util.errors import OffdynError, unknown
from .._util.types import Spec
from . import custom, tasks
from .custom import OwnPair
from .custom_batch import OwnBodies
from .domain import Domain
from .effects import NONE, EffectBodies
from .jetpack import JETPACK
from .padding import PaddedBodies
from .residual import ResidualBodies
from .simulator import Simulator
from .tasks import Task
from .toy import World, WorldBodies

Pair = Task | World | OwnPair
WORLDS: dict[str, World] = {world.name: world for world in (JETPACK,)}  # built-in worlds by name
REGISTERED: dict[str, OwnPair] = {}  # custom pairs that users gave a name


def find(wanted: "str | Path | Mapping[str, Any] | Pair") -> Pair:
    """The pair a user means: a task's name, file or mapping, a world, or custom environments."""
    if isinstance(wanted, World | OwnPair):
        return wanted
    if isinstance(wanted, Mapping) and "target" in wanted:
        return custom.from_mapping(wanted)
    if isinstance(wanted, Mapping) and "world" in wanted:
        wanted = wanted["world"]
        if wanted not in WORLDS:
            raise unknown("world", str(wanted), WORLDS)
    if isinstance(wanted, str) and wanted in WORLDS:
        return WORLDS[wanted]
    if isinstance(wanted, str) and wanted in REGISTERED:
        return REGISTERED[wanted]
    if custom.names_environment(wanted):
        raise OffdynError(
            f"{wanted!r} is an environment, not a task; name a source and a target, such as --source Pendulum-v1 "
            f"--target {custom.EXAMPLE} (in Python source=..., target=...)"
        )
    return tasks.resolve(wanted)


def asked(
    task: Any, source: "str | Path | custom.Factory | None", target: "str | custom.Factory | None", limit: Any
) -> tuple[Any, dict[str, Any]]:
    """The task that is named, or the pair of `source` and `target`, and what a dataset as the source is set to."""
    settings = {}
    if target is not None:
        if task is not None:
            raise OffdynError("expected either a task or source and target, got both")
        if source is not None and custom.is_dataset(source):
            source, settings = None, {"source_data": str(source)}
        task = custom.pair_of(source, target, limit)  # type: ignore[arg-type]  # no Path: that is a dataset
    elif source is not None or limit is not None:
        raise OffdynError("source and time_limit are for a custom target: name it, too")
    if task is None:
        raise OffdynError(
            "which task? Say --task NAME (`offdyn list` prints them all), or --source and --target for environments "
            "of your own"
        )
    return task, settings


def meant(target: "str | Path | Mapping[str, Any] | Pair | custom.Factory") -> Pair:
    """The target a user means where both a task and an environment, alone, may stand."""
    if custom.names_environment(target):
        return custom.alone(target)  # type: ignore[arg-type]  # then it is a reference or a function
    try:
        return find(target)  # type: ignore[arg-type]  # no function: that is an environment
    except OffdynError as no_task:
        raise OffdynError(f"{no_task}; nor is it the id of a Gymnasium environment, or module:function") from None


def spec_of(pair: Pair) -> Spec:
    return pair.robot.spec if isinstance(pair, Task) else pair.spec


def modern_name(pair: Pair) -> str:
    """The name by which tables know it: that of a task with legacy inertia is its modern one's."""
    return pair.modern_name if isinstance(pair, Task) else pair.name


def family_of(pair: Pair) -> str:
    """Pairs of one family have the same bodies but for their shifts: their runs may share a cohort."""
    return pair.robot.name if isinstance(pair, Task) else pair.name


def action_bounds(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest action [A] in the environment's own units; everything here acts in [-1, 1]."""
    ones = np.ones(spec_of(pair).action_size)
    return (np.array(pair.action_low), np.array(pair.action_high)) if isinstance(pair, OwnPair) else (-ones, ones)


def has_source(pair: Pair) -> bool:
    """Whether there is one to act in."""
    return not isinstance(pair, OwnPair) or pair.source is not None


def plays_source(pair: Pair) -> bool:
    """Whether episodes can be played there beside training: of a simulator that takes no number there is one alone."""
    return has_source(pair) and not (isinstance(pair, OwnPair) and pair.batch)


def source_of(pair: Pair) -> Pair:
    """The pair whose target is this one's source; a world, which is both in one, is its own."""
    if isinstance(pair, OwnPair):
        return custom.source_of(pair)
    return pair if isinstance(pair, World) else tasks.source_of(pair)


def check(pair: Pair, allow_no_shift: bool) -> None:
    """Refuse a target that is its source, unless that is meant."""
    if isinstance(pair, Task):
        tasks.check_pair(tasks.source_of(pair), pair, allow_no_shift)
    if isinstance(pair, OwnPair) and pair.source == pair.target and not allow_no_shift:
        raise OffdynError(
            f"source and target are both {pair.target}: there is no shift; --allow-no-shift trains all the same"
        )


def open_bodies(
    bodies: Sequence[tuple[Pair, str]],
    seeds: Sequence[tuple[int, ...]],
    threads: int | None = None,
    processes: str = "off",
    padded: bool = False,
) -> Domain:
    """Bodies of one family, each the "source" or the "target" of its pair, built afresh; `padded`: of all robots.

    `processes` is for custom sources: each body in a process of its own, "on", "off", or "auto" where that pays.
    """
    pair = bodies[0][0]
    if not padded and len({family_of(p) for p, _ in bodies}) > 1:
        raise OffdynError("bodies of one domain must be of one robot")
    if isinstance(pair, World):
        return WorldBodies(pair, [role == "target" for _, role in bodies], seeds)
    if isinstance(pair, OwnPair):
        return OwnBodies(pair, [role for _, role in bodies], seeds, processes)
    robots = [(p, role) for p, role in bodies if isinstance(p, Task)]
    return with_effects(open_robots(robots, seeds, threads, padded), robots, seeds)


def open_robots(
    bodies: Sequence[tuple[Task, str]],
    seeds: Sequence[tuple[int, ...]],
    threads: int | None = None,
    padded: bool = False,
) -> Domain:
    """Robots without their effects."""
    robots = [_body_of(task, role) for task, role in bodies]
    return PaddedBodies(robots, seeds, threads) if padded else Simulator(robots, seeds, threads=threads)


def with_effects(domain: Domain, bodies: Sequence[tuple[Task, str]], seeds: Sequence[tuple[int, ...]]) -> Domain:
    """These robots, just opened, with what stands between them and the agent."""
    robots = [_body_of(task, role) for task, role in bodies]
    if all(task.effects == NONE for task in robots):
        return domain
    sizes = [(task.robot.spec.observation_size, task.robot.spec.action_size) for task in robots]
    return EffectBodies(domain, [task.effects for task in robots], seeds, sizes)


def _body_of(task: Task, role: str) -> Task:
    return task if role == "target" else tasks.source_of(task)


def fingerprints(pair: Pair) -> dict[str, str]:
    """What identifies the two bodies in a result: hashes of the compiled models and of their effects."""
    if not isinstance(pair, Task):
        return {}
    return {"source": tasks.source_of(pair).fingerprint(), "target": pair.fingerprint()}


def normalised(pair: Pair, episode_return: float) -> float | None:
    return tasks.normalised(pair, episode_return) if isinstance(pair, Task) else None


def own_bodies(domain: Domain) -> OwnBodies | None:
    """Those of custom environments, with or without base policies in them."""
    inner = domain.inner if isinstance(domain, ResidualBodies) else domain
    return inner if isinstance(inner, OwnBodies) else None


def seen_by(domain: Domain, ids: np.ndarray) -> np.ndarray:
    """[bodies, S] what the bodies see, right for these: of custom environments no other begins an episode for it."""
    return domain.seen_by(ids) if isinstance(domain, OwnBodies | ResidualBodies) else domain.observation
