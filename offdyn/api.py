"""offdyn from Python: train, resume, and load what was trained."""

import contextlib
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from ._util.errors import OffdynError, unknown
from .algos.backbones import BACKBONES, Backbone
from .algos.method import Method
from .algos.registry import DEFAULT, METHODS, RECIPES, Recipe
from .envs import custom, pairs
from .envs.pairs import Pair
from .policies import base as base_policies
from .policies.trained import Policy
from .training import evaluation
from .training import progress as progresses
from .training import trainer as training
from .training.config import RunConfig, build, lists_of_floats
from .training.preparation import with_first_phases
from .training.progress import Callbacks, OnCheckpoint, OnEvaluation, Progress
from .training.run_folder import RunFolder

Environment = str | custom.Factory
Wanted = str | Path | Mapping[str, Any] | Pair
BaseFunction = Callable[[np.ndarray], Any]  # observations [n, S] to actions [n, A]


def plan(
    task: Wanted | Sequence[Wanted] | None = None,
    method: str | Sequence[str] = DEFAULT,
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

    In place of a task, `source` and `target` name custom environments: a Gymnasium id, module:function, or a
    function that returns an environment; the source may be a dataset. A setting that may differ by lane (a float:
    penalty, temperature ...) may be a list, each value of which is a run. `base_policy`, an ONNX file, a run's folder
    or a function, stays as it is: what is learned moves its actions, by at most `residual`.
    """
    if settings.get("base_policy") is not None:
        settings = {**settings, "base_policy": base_policies.reference_of(settings["base_policy"])}
    task, of_source = pairs.asked(task, source, target, time_limit)
    settings = of_source | settings
    tasks: list[Any] = list(task) if isinstance(task, list | tuple) else [task]
    methods = list(method) if isinstance(method, list | tuple) else [method]
    given: list[Any] = list(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str) else [seeds]
    seeds = [int(seed) if isinstance(seed, np.integer) else seed for seed in given]
    if not tasks or not methods or not seeds:
        raise OffdynError("expected at least one task, one method and one seed")
    for wanted in tasks:
        if not isinstance(wanted, str | Path | Mapping | Pair):
            raise OffdynError(
                f"expected the name of a task, got {wanted!r}; custom environments are named source=..., target=..."
            )
    for name in methods if preset is None else (*methods, preset):
        if not isinstance(name, str):
            raise OffdynError(f"expected the name of a method or preset, got {name!r}")
    runs, notices = [], []
    for one_task, one_method in itertools.product(tasks, methods):
        for values in lists_of_floats(one_method, settings):
            for seed in seeds:
                config, said = build(one_task, one_method, preset, seed, values, allow_no_shift=allow_no_shift)
                runs.append(config)
                notices += [text for text in said if text not in notices]
    return with_first_phases(runs), notices


def _give_base_policy(function: BaseFunction | None) -> None:
    """Keep in mind what a run's record can only name."""
    if function is not None:
        base_policies.reference_of(function)


def train(
    task: Wanted | Sequence[Wanted] | None = None,
    method: str | Sequence[str] = DEFAULT,
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
    on_evaluation: OnEvaluation | None = None,
    on_checkpoint: OnCheckpoint | None = None,
    progress: Progress | bool | None = None,
    stop: progresses.Stop | None = None,
    **settings: Any,
) -> list[RunFolder]:
    """Train every run of the grid and return their records, in the order of `plan`; one that fails stops no other.

    Example: `offdyn.train("hopper-big-head", "sac", out="runs", on_evaluation=print)`.

    Args:
        task: names, YAML files or mappings of tasks, a `Task` or a `World`; several are several runs.
        method: names of `offdyn list`.
        preset: of each method; None: its first.
        seeds: each is a run.
        out: folder for the runs; a run that is there already is refused.
        source: with `target`, in place of a task: see `plan`.
        target: a custom environment: see `plan`.
        time_limit: steps of an episode there, where the environment does not say.
        threads: for the physics; changes no result.
        keep_replay: keep the collected rows when the runs are done.
        allow_no_shift: train although source and target are the same.
        on_evaluation: called with an `Evaluated` after each evaluation of each run; where it raises, the training
            saves and stops.
        on_checkpoint: called with a run's folder and its target steps whenever the run was saved; likewise.
        progress: False: show nothing; None: show it in a terminal or a notebook; or an object that is told.
        stop: set its `wanted` from elsewhere to save and stop; `Stopped` is raised then.
        settings: named as in `offdyn train --set`; a list for a float makes a run of each value.
    """
    pair: dict[str, Any] = {"source": source, "target": target, "time_limit": time_limit}
    callbacks = Callbacks(on_evaluation, on_checkpoint)
    runs, notices = plan(task, method, preset, seeds, allow_no_shift=allow_no_shift, **pair, **settings)
    with contextlib.closing(progresses.chosen(progress)) as shown:
        for text in notices:
            shown.say(text)
        options: dict[str, Any] = {"threads": threads, "keep_replay": keep_replay, "callbacks": callbacks}
        return training.start(runs, Path(out), progress=shown, stop=stop, **options)


def resume(
    out: str | Path,
    *,
    source: Environment | None = None,
    target: Environment | None = None,
    base_policy: BaseFunction | None = None,
    drop_damaged: bool = False,
    threads: int | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_checkpoint: OnCheckpoint | None = None,
    progress: Progress | bool | None = None,
    stop: progresses.Stop | None = None,
) -> list[RunFolder]:
    """Continue every unfinished run below a folder, exactly where its last checkpoint was; returns those continued.

    Args:
        out: the `out` of an earlier training.
        source: the function the training was given, where no name leads to it.
        target: likewise.
        base_policy: likewise.
        drop_damaged: go on without transitions whose file is damaged in every checkpoint.
        threads: for the physics; changes no result.
        on_evaluation: as in `train`.
        on_checkpoint: likewise.
        progress: likewise.
        stop: likewise.
    """
    callbacks = Callbacks(on_evaluation, on_checkpoint)
    for role, wanted in (("source", source), ("target", target)):
        if wanted is not None:
            custom.reference_of(wanted, role)
    _give_base_policy(base_policy)
    with contextlib.closing(progresses.chosen(progress)) as shown:
        options: dict[str, Any] = {"drop_damaged": drop_damaged, "threads": threads, "callbacks": callbacks}
        return training.resume(Path(out), progress=shown, stop=stop, **options)


def load_policy(
    run: str | Path | RunFolder,
    *,
    domain: str = "target",
    normalised: bool = False,
    base_policy: BaseFunction | None = None,
) -> Policy:
    """The policy of a run: call it with what the environment shows to get the mean action [..., A], in its own units.

    It needs NumPy alone. A run has one from its first checkpoint on; `run` is its folder, or its record. An observation
    is flat [..., S] or, of a custom environment, as its space has it: a Dict, or an array of several axes.

    Args:
        run: its folder, or its record.
        domain: "target", or "source" for the source's side of a policy that was trained with `domain_input`.
        normalised: observations flat and actions in [-1, 1], as training has them.
        base_policy: the function the training was given, where no name leads to it.
    """
    _give_base_policy(base_policy)
    folder = run if isinstance(run, RunFolder) else RunFolder.open(Path(run))
    policy = folder.policy(domain, normalised=normalised)
    if domain == "source" and folder.config.sac.domain_input != "none" and not policy.of_source:
        raise OffdynError(f"{policy.path}: was saved without its source's side: only the target's is known")
    return policy


def evaluate(
    run: str | Path | RunFolder,
    episodes: int = 50,
    *,
    seed: int = 1_000_000,
    domain: str = "target",
    base_policy: BaseFunction | None = None,
) -> dict[str, np.ndarray]:
    """Returns of fresh episodes of a run's policy, by role: the target's and, where there is one, the source's.

    Args:
        run: its folder, or its record.
        episodes: in each.
        seed: of the episodes' starts.
        domain: whose side of a policy that was trained with `domain_input` plays.
        base_policy: the function the training was given, where no name leads to it.
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OffdynError(f"{name}: expected a whole number from {least} on, got {value!r}")
    folder = run if isinstance(run, RunFolder) else RunFolder.open(Path(run))
    task = folder.config.task
    policy = load_policy(folder, domain=domain, normalised=True, base_policy=base_policy)
    sources = episodes if pairs.plays_source(task) else 0
    residuals = [policy.residual]
    result = evaluation.evaluate(policy.policies, [task], [seed], episodes, sources, index=0, residuals=residuals)
    returns = {"target": result.target_returns[0]}
    return returns | {"source": result.source_returns[0]} if sources else returns


def make_env(task: Wanted | custom.Factory, role: str = "target", **options: Any) -> gymnasium.Env:
    """A task's source or target as an ordinary Gymnasium environment, in its own units.

    Example: `offdyn.make_env("hopper-big-head", render_mode="rgb_array")`.

    Args:
        task: a name of `offdyn list`, of `register_env`, a YAML file, a mapping or a `Task`; or an environment alone,
            such as "Pendulum-v1?delay=2".
        role: "target" or "source".
        options: of our robots render_mode, width and height; of a custom environment what makes it takes.
    """
    if role not in ("target", "source"):
        raise unknown("role", str(role), ["target", "source"])
    pair = pairs.meant(task)
    if isinstance(pair, custom.OwnPair):
        env = custom.make(pair.reference(role), role, **options)
        return gymnasium.wrappers.TimeLimit(env, pair.time_limit)
    if isinstance(pair, pairs.World):
        raise OffdynError(f"{pair.name} is a toy environment for trainings: Gymnasium has no environment of it")
    from .envs.gym import RobotEnv

    return RobotEnv(pair if role == "target" else pairs.source_of(pair), **options)  # type: ignore[arg-type]


class Runs(NamedTuple):
    """Columns of equal length, by name: `pandas.DataFrame(runs.curves)` or `polars.DataFrame(runs.curves)`."""

    curves: dict[str, np.ndarray]  # a line for each evaluation of each run
    finals: dict[str, np.ndarray]  # a line for each run

    def __repr__(self) -> str:
        lines = len(self.curves.get("run", ()))
        return f"Runs(finals of {len(self.finals['run'])} runs, curves of {lines} lines and {len(self.curves)} columns)"


def load_runs(*folders: str | Path) -> Runs:
    """Curves and final returns of every run below some folders, finished or not, as columns for a data frame."""
    from .report.runs import gather

    found = [run for run in gather(map(Path, folders)) if run.state != "damaged"]
    if not found:
        raise OffdynError(f"no runs below {', '.join(map(str, folders)) or 'no folder'}")
    about = [
        {
            "run": str(run.path),
            "task": run.task,
            "method": run.method,
            "preset": run.preset,
            "backbone": run.settings.get("backbone", "classic"),
            "seed": run.seed,
            "state": run.state,
        }
        for run in found
    ]
    ends = [(run.final or {}).get("final_mean") for run in found]
    finals = [said | {"final_return": end} for said, end in zip(about, ends, strict=True)]
    lines = [
        said | {name: column[at] for name, column in run.curve.items()}
        for said, run in zip(about, found, strict=True)
        for at in range(len(run.curve.get("target_steps", ())))
    ]
    return Runs(_columns(lines), _columns(finals))


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """What a line lacks of a column is not a number."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    return {name: np.array([np.nan if line.get(name) is None else line[name] for line in lines]) for name in names}


def register_method(method: Method) -> Method:
    """Make a method known by its name; returns it, so that it can stand around the record.

    Example: `register_method(Method("halved", "SAC with half the source rewards", correct=halve))`.
    """
    _must_be_new("method", method.name, RECIPES)
    METHODS[method.name] = method
    RECIPES[method.name] = Recipe(method, method.summary)
    return method


def register_backbone(backbone: Backbone) -> Backbone:
    """Make a backbone known by its name.

    Example: `register_backbone(dataclasses.replace(SIMBA, name="mine", settings=SIMBA.settings | {"discount": 0.98}))`.
    """
    _must_be_new("backbone", backbone.name, BACKBONES)
    BACKBONES[backbone.name] = backbone
    return backbone


def register_env(
    name: str, source: str | custom.Factory | None, target: str | custom.Factory, time_limit: int | None = None
) -> custom.OwnPair:
    """Make a pair of environments known by a name, which is then a task; each is made once and looked at.

    Example: `register_env("my-arm", source=make_simulator, target=make_robot, time_limit=200)`.
    """
    _must_be_new("task", name, {**pairs.WORLDS, **pairs.REGISTERED})
    pairs.REGISTERED[name] = custom.pair_of(source, target, time_limit, name)
    return pairs.REGISTERED[name]


def _must_be_new(kind: str, name: str, known: Container[str]) -> None:
    if not name or not isinstance(name, str):
        raise OffdynError(f"a {kind} needs a name, got {name!r}")
    if name in known:
        raise OffdynError(f"there is a {kind} '{name}' already: choose another name")
