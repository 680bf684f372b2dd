"""offdyn from Python: train, resume, and load what was trained."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .domains.pairs import Pair
from .errors import OffdynError
from .experiments import train as training
from .experiments.config import RunConfig, build, lists_of_floats, with_first_phases
from .experiments.evaluate import Policy
from .experiments.progress import Progress
from .experiments.record import RunFolder

Wanted = str | Path | Mapping[str, Any] | Pair


def plan(
    task: Wanted | Sequence[Wanted],
    method: str | Sequence[str] = "par",
    preset: str = "paper",
    seeds: Iterable[int] = (0,),
    *,
    allow_no_shift: bool = False,
    **settings: Any,
) -> tuple[list[RunConfig], list[str]]:
    """Every run of the grid tasks x methods x listed values x seeds, and what its user should be told.

    A setting that may differ by lane (a float: penalty, temperature ...) may be a list, each value of which is a run.
    """
    tasks: list[Any] = list(task) if isinstance(task, list | tuple) else [task]
    methods = list(method) if isinstance(method, list | tuple) else [method]
    seeds = [int(seed) if isinstance(seed, np.integer) else seed for seed in _several(seeds)]
    if not tasks or not methods or not seeds:
        raise OffdynError("expected at least one task, one method and one seed")
    for name in (*methods, preset):
        if not isinstance(name, str):
            raise OffdynError(f"expected the name of a method or preset, got {name!r}")
    for wanted in tasks:
        if not isinstance(wanted, str | Path | Mapping | Pair):
            raise OffdynError(f"expected the name of a task, got {wanted!r}")
    runs, notices = [], []
    for one_task, one_method in itertools.product(tasks, methods):
        for values in lists_of_floats(one_method, settings):
            for seed in seeds:
                config, said = build(one_task, one_method, preset, seed, values, allow_no_shift=allow_no_shift)
                runs.append(config)
                notices += [text for text in said if text not in notices]
    return with_first_phases(runs), notices


def _several(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def train(
    task: Wanted | Sequence[Wanted],
    method: str | Sequence[str] = "par",
    preset: str = "paper",
    seeds: Iterable[int] = (0,),
    *,
    out: str | Path,
    threads: int | None = None,
    keep_replay: bool = False,
    allow_no_shift: bool = False,
    progress: Progress | None = None,
    stop: training.Stop | None = None,
    **settings: Any,
) -> list[RunFolder]:
    """Train every run of the grid and return their records; `settings` are named as in `offdyn train --set`."""
    runs, notices = plan(task, method, preset, seeds, allow_no_shift=allow_no_shift, **settings)
    for text in notices:
        if progress is not None:
            progress.say(text)
    return training.start(runs, Path(out), threads=threads, keep_replay=keep_replay, progress=progress, stop=stop)


def resume(
    out: str | Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    stop: training.Stop | None = None,
) -> list[RunFolder]:
    """Continue every unfinished run below a folder, exactly where its last checkpoint was."""
    return training.resume(Path(out), threads=threads, progress=progress, stop=stop)


def load_policy(run: str | Path | RunFolder) -> Policy:
    """The policy of a run: call it with an observation [..., S] to get the mean action [..., A]."""
    folder = run.path if isinstance(run, RunFolder) else Path(run)
    return Policy(folder / "policy.safetensors")
