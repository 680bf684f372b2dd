"""offdyn from Python: train, resume, and load what was trained."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .domains import own
from .domains.pairs import Pair
from .errors import OffdynError
from .experiments import train as training
from .experiments.config import RunConfig, build, lists_of_floats, with_first_phases
from .experiments.deployed import EnvironmentPolicy
from .experiments.policies import Policy
from .experiments.progress import Progress
from .experiments.record import RunFolder

Environment = str | own.Factory
Wanted = str | Path | Mapping[str, Any] | Pair


def plan(
    task: Wanted | Sequence[Wanted] | None = None,
    method: str | Sequence[str] = "par",
    preset: str | None = None,
    seeds: Iterable[int] = (0,),
    *,
    source: Environment | Path | None = None,
    target: Environment | None = None,
    time_limit: int | None = None,
    allow_no_shift: bool = False,
    **settings: Any,
) -> tuple[list[RunConfig], list[str]]:
    """Every run of the grid tasks x methods x listed values x seeds, and what its user should be told.

    In place of a task, `source` and `target` name environments of one's own: a Gymnasium id, module:function, or a
    function that returns an environment; the source may be a dataset. A setting that may differ by lane (a float:
    penalty, temperature ...) may be a list, each value of which is a run.
    """
    if target is not None:
        if task is not None:
            raise OffdynError("expected either a task or source and target, got both")
        if source is not None and own.is_dataset(source):
            source, settings = None, {"source_data": str(source), **settings}
        task = own.pair_of(source, target, time_limit)  # type: ignore[arg-type]  # no Path: that is a dataset
    elif source is not None or time_limit is not None:
        raise OffdynError("source and time_limit are for a target of one's own: name it, too")
    if task is None:
        raise OffdynError(
            "which task? Say --task NAME (`offdyn list` prints them all), or --source and --target for environments "
            "of your own"
        )
    tasks: list[Any] = list(task) if isinstance(task, list | tuple) else [task]
    methods = list(method) if isinstance(method, list | tuple) else [method]
    seeds = [int(seed) if isinstance(seed, np.integer) else seed for seed in _several(seeds)]
    if not tasks or not methods or not seeds:
        raise OffdynError("expected at least one task, one method and one seed")
    for name in methods if preset is None else (*methods, preset):
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
    task: Wanted | Sequence[Wanted] | None = None,
    method: str | Sequence[str] = "par",
    preset: str | None = None,
    seeds: Iterable[int] = (0,),
    *,
    out: str | Path,
    source: Environment | Path | None = None,
    target: Environment | None = None,
    time_limit: int | None = None,
    threads: int | None = None,
    keep_replay: bool = False,
    allow_no_shift: bool = False,
    progress: Progress | None = None,
    stop: training.Stop | None = None,
    **settings: Any,
) -> list[RunFolder]:
    """Train every run of the grid and return their records, in the order of `plan`; one that fails stops no other.

    Args:
        task: names, YAML files or mappings of tasks, a `Task` or a `World`; several are several runs.
        method: names of `offdyn list`.
        preset: of each method; None: its first.
        seeds: each is a run.
        out: folder for the runs; a run that is there already is refused.
        source: with `target`, in place of a task: see `plan`.
        target: an environment of one's own: see `plan`.
        time_limit: steps of an episode there, where the environment does not say.
        threads: for the physics; changes no result.
        keep_replay: keep the collected rows when the runs are done.
        allow_no_shift: train although source and target are the same.
        progress: told what happens; None: nobody is.
        stop: set its `wanted` from elsewhere to save and stop; `Stopped` is raised then.
        settings: named as in `offdyn train --set`; a list for a float makes a run of each value.
    """
    pair: dict[str, Any] = {"source": source, "target": target, "time_limit": time_limit}
    runs, notices = plan(task, method, preset, seeds, allow_no_shift=allow_no_shift, **pair, **settings)
    for text in notices:
        if progress is not None:
            progress.say(text)
    return training.start(runs, Path(out), threads=threads, keep_replay=keep_replay, progress=progress, stop=stop)


def resume(
    out: str | Path,
    *,
    source: Environment | None = None,
    target: Environment | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    stop: training.Stop | None = None,
) -> list[RunFolder]:
    """Continue every unfinished run below a folder, exactly where its last checkpoint was; returns those continued.

    Args:
        out: the `out` of an earlier training.
        source: the function the training was given, where no name leads to it.
        target: likewise.
        threads: for the physics; changes no result.
        progress: told what happens; None: nobody is.
        stop: as in `train`.
    """
    for role, wanted in (("source", source), ("target", target)):
        if wanted is not None:
            own.reference_of(wanted, role)
    return training.resume(Path(out), threads=threads, progress=progress, stop=stop)


def load_policy(run: str | Path | RunFolder, *, domain: str = "target", normalised: bool = False) -> Policy:
    """The policy of a run: call it with what the environment shows to get the mean action [..., A], in its own units.

    It needs NumPy alone. A run has one from its first checkpoint on; `run` is its folder, or its record. An observation
    is flat [..., S] or, of a custom environment, as its space has it: a Dict, or an array of several axes.

    Args:
        run: its folder, or its record.
        domain: "target", or "source" for the source's side of a policy that was trained with `domain_input`.
        normalised: observations flat and actions in [-1, 1], as training has them.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(Path(run))
    path, config = folder.path / "policy.safetensors", folder.config
    policy = Policy(path, domain) if normalised else EnvironmentPolicy(path, config.task, domain)
    if domain == "source" and config.sac.domain_input != "none" and not policy.of_source:
        raise OffdynError(f"{path}: was saved without its source's side: only the target's is known")
    return policy
