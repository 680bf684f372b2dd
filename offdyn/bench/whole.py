"""Everything `offdyn bench` measures, one part after the other; what is there when it is interrupted stays."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import jax

from .._util.cores import every
from ..training.hardware import keep_programs, surroundings
from ..training.progress import Lines
from . import backbones, floors, physics, sources, training, updates
from .update_loop import TASKS, UpdateLoop

FORMAT = 1
ROBOT = "halfcheetah"  # of the updates and the training
BODIES = 40  # of the physics


def describe() -> dict[str, Any]:
    """The machine, before anything is measured."""
    load = os.getloadavg()[0]  # processes at work in the last minute, those of others
    about = {"format": FORMAT, "complete": False, "seconds": 0.0, "load": load, "surroundings": surroundings(None)}
    return about | {part: [] for part in ("updates", "physics", "training", "backbones", "sources")}


def lanes_of(platform: str, quick: bool) -> list[int]:
    """As many as such a machine trains at a time."""
    return ([1, 2] if quick else [1, 2, 4]) if platform == "cpu" else ([1, 10] if quick else [1, 10, 40])


def measure(
    found: dict[str, Any],
    quick: bool,
    say: Callable[[str], None],
    names: Sequence[str] = (),
    batched: Sequence[str] | None = None,
) -> None:
    """Fill `found` part by part; `names`: of backbones, whose updates are timed as well; `batched`: sources."""
    keep_programs(Lines())
    began = time.perf_counter()
    for part, row in chain(
        _rows(found, quick, say), _on_backbones(names, quick, say), _of_sources(batched, quick, say)
    ):
        found[part].append(row)
        found["seconds"] = time.perf_counter() - began
    found["complete"] = True


def _on_backbones(
    names: Sequence[str], quick: bool, say: Callable[[str], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    one, *_, few = lanes_of(jax.default_backend(), quick)
    for name in names:
        say(f"updates on {name}")
        for row in backbones.measure(name, (one, few), 10 if quick else 30):
            yield "backbones", row


def _of_sources(
    names: Sequence[str] | None, quick: bool, say: Callable[[str], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    if names is not None:
        say("steps of batched sources")
        turns, seconds = (2, 0.5) if quick else (3, 2.0)
        for row in sources.measure((*sources.BUILT_IN, *names), sources.COUNTS, len(every()), turns, seconds):
            yield "sources", row


def _rows(found: dict[str, Any], quick: bool, say: Callable[[str], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    cores = len(every())
    turns, repeats = (3, 10) if quick else (10, 30)
    threads = sorted({1, cores})
    for robot in TASKS:
        say(f"physics of {robot}")
        rates = physics.measure(robot, BODIES, threads, turns, seconds=0.1)
        yield (
            "physics",
            {"robot": robot, "bodies": BODIES, "cores": cores}
            | rates
            | {f"share_of_limit_{count}": rates[f"threads_{count}"] / rates[f"limit_{count}"] for count in threads},
        )
    say("products and copies")
    measured = floors.rates()
    platform = jax.default_backend()
    for lanes in lanes_of(platform, quick):
        say(f"updates, {lanes} {'lane' if lanes == 1 else 'lanes'}")
        yield "updates", updates.measure(UpdateLoop(lanes), measured, repeats)
    trained = found["updates"][1]
    say(f"a training of {trained['lanes']} runs, evaluation included")
    stepped = next(row for row in found["physics"] if row["robot"] == ROBOT)
    seconds = 5.0 if quick else 15.0
    yield "training", training.measure(ROBOT, trained["lanes"], seconds, trained, stepped, cores)


def say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)
