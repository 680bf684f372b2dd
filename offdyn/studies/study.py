"""A study: the runs behind one table or figure, as a YAML file says them; checked here in words."""

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._util import files
from .._util.errors import OffdynError, unknown
from ..algos.registry import recipe
from ..envs import pairs
from ..training.config import PRESETS_OWN, RunConfig, build
from ..training.preparation import with_first_phases

SHIPPED = Path(__file__).parent  # with the YAML files of the paper's tables and figures
INTERVAL = "source_steps_per_target_step"  # F: it changes the length of runs of one budget of target steps
EVALUATIONS, LOGS, CHECKPOINTS = 100, 200, 20  # of a run in such a grid, as in any run of the default length


@dataclass(frozen=True)
class Entry:
    """A method of a study."""

    method: str  # a recipe's name
    preset: str
    label: str = ""  # how tables and --only call it; "": the method's name
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.label or self.method


@dataclass(frozen=True)
class Stage:
    """A part of a study that is run by itself, in its turn (stages.py); what it does not say, the study does."""

    best: int | None = None  # methods of the stage before that go on; None: all of the study's
    tasks: tuple[Any, ...] = ()
    seeds: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Every combination of its tasks, methods, values, qualities and seeds is a run."""

    name: str
    what: str  # which table or figure, and what it shows
    tasks: tuple[Any, ...]  # names or mappings
    methods: tuple[Entry, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # of every run
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # settings and the values each takes
    target_steps: int | None = None  # the budget of every run of a grid over F
    source_data: str | None = None  # a dataset in place of the source; may name {robot} and {quality}
    qualities: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()

    def runs(self, seeds: Sequence[int] | None = None, only: Sequence[str] = ()) -> tuple[list[RunConfig], list[str]]:
        """The runs, before each the one it continues from, and what their user should be told."""
        wanted = self.part(only)
        runs: list[RunConfig] = []
        notices: list[str] = []
        for task, entry, quality in itertools.product(wanted.tasks, wanted.methods, wanted.qualities or ("",)):
            for values in self._values(entry):
                if self.source_data is not None:
                    values |= {"source_data": _filled(self.source_data, task, quality)}
                made, said = _of_all_seeds(task, entry, self.seeds if seeds is None else seeds, values)
                runs += made
                notices += [text for text in said if text not in notices]
        return with_first_phases(runs), notices

    def _values(self, entry: Entry) -> list[dict[str, Any]]:
        """One set of settings for each point of the grid; a value "preset" leaves that setting to the preset."""
        points = []
        for values in itertools.product(*self.grid.values()):
            point = {name: value for name, value in zip(self.grid, values, strict=True) if value != PRESETS_OWN}
            every = point.get(INTERVAL)
            of_interval = {} if every is None else _of_interval(every, self.target_steps or 0)
            points.append(of_interval | {**self.settings, **entry.settings} | point)
        return points

    def part(self, only: Sequence[str]) -> "Study":
        """The part of the study that some names leave: tasks, robots, methods, labels and qualities."""
        if not only:
            return self
        options = {name for tasks in self._task_lists for task in tasks for name in _names_of(task)}
        methods = {name for entry in self.methods for name in (entry.method, entry.name)}
        known = options | methods | set(self.qualities)
        for name in only:
            if name not in known:
                raise unknown(f"task, robot, method or quality in study '{self.name}'", name, known)
        chosen = set(only)
        entries = [entry for entry in self.methods if {entry.method, entry.name} & chosen]
        qualities = [quality for quality in self.qualities if quality in chosen]
        part = self._with_tasks(chosen) if options & chosen else self
        return replace(part, methods=tuple(entries) or self.methods, qualities=tuple(qualities) or self.qualities)

    @property
    def _task_lists(self) -> list[tuple[Any, ...]]:
        return [self.tasks, *(stage.tasks for stage in self.stages)]

    def _with_tasks(self, chosen: Container[str]) -> "Study":
        """Those of its tasks, and the stages that have any."""
        mine, *of_stages = (
            tuple(task for task in tasks if any(name in chosen for name in _names_of(task)))
            for tasks in self._task_lists
        )
        left = [(stage, tasks) for stage, tasks in zip(self.stages, of_stages, strict=True) if tasks or not stage.tasks]
        stages = tuple(replace(stage, tasks=tasks) for stage, tasks in left if tasks or mine)
        return replace(self, tasks=mine, stages=stages)


def _names_of(task: Any) -> tuple[str, str]:
    pair = pairs.find(task)
    return pair.name, pairs.family_of(pair)


def _of_all_seeds(
    task: Any, entry: Entry, seeds: Sequence[int], values: Mapping[str, Any]
) -> tuple[list[RunConfig], list[str]]:
    first, said = build(task, entry.method, entry.preset, seeds[0], values)
    if "start_from" in values:  # may name {seed}
        return [first, *(build(task, entry.method, entry.preset, seed, values)[0] for seed in seeds[1:])], said
    # Its seed aside, the same run: to build each one would compile the bodies again to compare them.
    return [first, *(replace(first, seed=_whole("seeds", seed, least=0)) for seed in seeds[1:])], said


def _of_interval(every: int, target_steps: int) -> dict[str, Any]:
    """F and what follows from it: the run's length, and that it is watched at the same target steps whatever F is."""
    length = every * target_steps
    watched = {"eval_interval": EVALUATIONS, "log_interval": LOGS, "checkpoint_interval": CHECKPOINTS}
    times = {name: max(every, round(length / count / every) * every) for name, count in watched.items()}
    return {INTERVAL: every, "target_steps": target_steps, **times}


def _filled(pattern: str, task: Any, quality: str) -> str:
    return pattern.replace("{robot}", pairs.family_of(pairs.find(task))).replace("{quality}", quality)


def shipped() -> list[str]:
    """Names of the studies that come with offdyn."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def load(wanted: str | Path) -> Study:
    """The study of a file, or of that name among those that come with offdyn."""
    path = Path(wanted)
    if not path.is_file() and path.suffix not in (".yaml", ".yml"):
        if str(wanted) not in shipped():
            raise unknown("study", str(wanted), shipped())
        path = SHIPPED / f"{wanted}.yaml"
    content = files.read(path)
    try:
        return parse(content, path.stem)
    except OffdynError as error:
        raise OffdynError(f"{path}: {error}") from None


KEYS = (
    "name", "what", "tasks", "methods", "seeds", "settings", "grid", "target_steps", "source_data", "qualities",
    "stages",
)  # fmt: skip
STAGE_KEYS = ("best", "tasks", "seeds", "settings")
ENTRY_KEYS = ("method", "preset", "label", "settings")


def parse(content: Any, name: str) -> Study:
    """The study that a mapping says; whether its tasks and settings exist is seen when its runs are made."""
    _mapping(content, "a study", KEYS)
    for key in ("tasks", "methods"):
        if key not in content:
            raise OffdynError(f"expected {key}: a list of them")
    study = Study(
        name=_text("name", content.get("name", name)),
        what=_text("what", content.get("what", "")),
        tasks=_tasks(content["tasks"]),
        methods=tuple(_entry(each) for each in _list("methods", content["methods"])),
        seeds=_seeds(content.get("seeds", [0])),
        settings=_mapping(content.get("settings", {}), "settings"),
        grid=_grid(content.get("grid", {})),
        target_steps=_whole("target_steps", content["target_steps"]) if "target_steps" in content else None,
        source_data=_text("source_data", content["source_data"]) if "source_data" in content else None,
        qualities=tuple(_text("qualities", each) for each in content.get("qualities", [])),
        stages=tuple(_stage(each) for each in _list("stages", content["stages"])) if "stages" in content else (),
    )
    _check(study)
    return study


def _check(study: Study) -> None:
    """What belongs together is there together, and every name is known."""
    if (INTERVAL in study.grid) != (study.target_steps is not None):
        raise OffdynError(f"a grid over {INTERVAL} and target_steps (the budget of each of its runs) belong together")
    for every in study.grid.get(INTERVAL, ()):
        _whole(f"grid {INTERVAL}", every)
    if study.qualities and "{quality}" not in (study.source_data or ""):
        raise OffdynError("qualities: expected source_data with {quality} in it, such as '{robot}-{quality}'")
    if "{quality}" in (study.source_data or "") and not study.qualities:
        raise OffdynError("source_data names {quality}: expected qualities, a list such as [medium, medium-expert]")
    seeds = [("seeds", study.seeds), *(("seeds", stage.seeds) for stage in study.stages)]
    for kind, values in (*seeds, ("methods", [entry.name for entry in study.methods])):
        repeated = [value for value in values if list(values).count(value) > 1]
        if repeated:
            hint = "; give each a label of its own" if kind == "methods" else ""
            raise OffdynError(f"{kind}: {repeated[0]} stands there twice{hint}")
    for entry in study.methods:
        presets = recipe(entry.method).method.presets
        if entry.preset not in presets:
            raise unknown(f"preset of method '{entry.method}'", entry.preset, presets)
    for task in (*study.tasks, *(task for stage in study.stages for task in stage.tasks)):
        pairs.find(task)
    left = len(study.methods)
    for number, stage in enumerate(study.stages, 1):
        if stage.best is not None and (number == 1 or stage.best > left):
            before = "of the stage before" if number > 1 else "that are left: the first stage has all of them"
            raise OffdynError(f"stages: stage {number} wants the best {stage.best} of {left} methods {before}")
        left = stage.best or len(study.methods)


def _stage(content: Any) -> Stage:
    _mapping(content, "a stage", STAGE_KEYS)
    return Stage(
        best=_whole("best", content["best"]) if "best" in content else None,
        tasks=_tasks(content["tasks"]) if "tasks" in content else (),
        seeds=_seeds(content["seeds"]) if "seeds" in content else (),
        settings=_mapping(content.get("settings", {}), "settings"),
    )


def _seeds(content: Any) -> tuple[int, ...]:
    return tuple(_whole("seeds", seed, least=0) for seed in _list("seeds", content))


def _entry(content: Any) -> Entry:
    if isinstance(content, str):
        content = {"method": content}
    _mapping(content, "a method", ENTRY_KEYS)
    if "method" not in content:
        raise OffdynError(f"methods: expected a name or a mapping with the key method, got {content!r}")
    texts = {key: _text(key, content[key]) for key in ("method", "preset", "label") if key in content}
    texts.setdefault("preset", next(iter(recipe(texts["method"]).method.presets)))
    return Entry(**texts, settings=_mapping(content.get("settings", {}), "settings"))


def _tasks(content: Any) -> tuple[Any, ...]:
    tasks = _list("tasks", content)
    for task in tasks:
        if not isinstance(task, str | Mapping):
            raise OffdynError(f"tasks: expected names of tasks, got {task!r}")
    return tuple(tasks)


def _grid(content: Any) -> dict[str, tuple[Any, ...]]:
    grid = {name: tuple(_list(f"grid {name}", values)) for name, values in _mapping(content, "grid").items()}
    return {INTERVAL if name == "target_interval" else name: values for name, values in grid.items()}


def _mapping(content: Any, where: str, known: Iterable[str] | None = None) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise OffdynError(f"{where}: expected names and values, got {content!r}")
    for name in content:
        if known is not None and name not in known:
            raise unknown(f"key of {where}", name, known)
    return content


def _list(where: str, content: Any) -> list[Any]:
    if not isinstance(content, list) or not content:
        raise OffdynError(f"{where}: expected a list of one or more, got {content!r}")
    return content


def _text(where: str, content: Any) -> str:
    if not isinstance(content, str):
        raise OffdynError(f"{where}: expected text, got {content!r}")
    return content


def _whole(where: str, content: Any, least: int = 1) -> int:
    if isinstance(content, bool) or not isinstance(content, int) or content < least:
        raise OffdynError(f"{where}: expected whole numbers from {least} on, got {content!r}")
    return content
