"""A study in stages: each may have tasks, seeds and lengths of its own, and take the best methods of the one before.

The rule, successive halving: of each method the interquartile mean of its runs' final scores, over all tasks and seeds
of the stage before; the largest go on. A score is the normalised return where the task has references, else 0 for the
worst run of the task in that stage and 100 for the best. A run that failed scores 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..envs import pairs
from ..report.statistics import iqm
from ..training.config import RunConfig
from ..training.run_folder import RunFolder
from .run import Wanted
from .scale import all_scaled
from .study import Entry, Stage, Study

FAILED = 0.0  # what a run that broke counts


def of(study: Study, wanted: Wanted, folder: Path) -> Iterator[tuple[Study, Wanted, Path]]:
    """The stages whose methods are known by now, each when it is asked for; a study without stages is its only one."""
    if not study.stages:
        yield study, wanted, folder
        return
    study, wanted = study.part(wanted.only), replace(wanted, only=())
    methods, before = study.methods, study
    for number, stage in enumerate(study.stages, 1):
        if stage.best is not None:
            scored = scores(before, wanted, _folder(folder, number - 1))
            if scored is None:
                return
            best = sorted(scored, key=lambda name: -iqm(scored[name]))[: stage.best]
            methods = tuple(entry for entry in methods if entry.name in best)
        before = _alone(study, stage, number, methods)
        yield before, wanted, _folder(folder, number)


def later(study: Study, known: int) -> Iterator[str]:
    """In words, the stages whose methods nobody knows yet."""
    for number, stage in enumerate(study.stages[known:], known + 1):
        seeds = ", ".join(map(str, stage.seeds or study.seeds))
        yield f"stage {number}: the best {stage.best} methods of stage {number - 1}, by IQM, with seeds {seeds}"


def scores(stage: Study, wanted: Wanted, folder: Path) -> dict[str, list[float]] | None:
    """Of each method its runs' final scores; None while one of them has not ended."""
    found: dict[str, list[tuple[str, float | None, float | None]]] = {}
    for entry in stage.methods:
        finals = [_final(run, folder) for run in _runs(stage, entry, wanted)]
        if None in finals:
            return None
        found[entry.name] = [final for final in finals if final is not None]
    return {name: [_score(*final, found) for final in finals] for name, finals in found.items()}


Final = tuple[str, float | None, float | None]  # task, mean return and its normalised score; None where it failed


def _final(run: RunConfig, folder: Path) -> Final | None:
    if not (folder / run.name).exists():
        return None
    ended = RunFolder.open(folder / run.name)
    if ended.state == "failed":
        return run.task.name, None, None
    if ended.state != "finished" or ended.final is None:
        return None
    mean = float(ended.final["final_mean"])
    return run.task.name, mean, pairs.normalised(run.task, mean)


def _score(task: str, mean: float | None, normalised: float | None, every: dict[str, list[Final]]) -> float:
    if mean is None:
        return FAILED
    if normalised is not None:
        return normalised
    means = [m for finals in every.values() for its_task, m, _ in finals if its_task == task and m is not None]
    return 100 * (mean - min(means)) / ((max(means) - min(means)) or 1.0)


def _runs(stage: Study, entry: Entry, wanted: Wanted) -> Sequence[RunConfig]:
    runs = replace(stage, methods=(entry,)).runs(wanted.seeds)[0]
    return [run for run in all_scaled(runs, wanted.scale, wanted.quick) if run.method == entry.method]


def _alone(study: Study, stage: Stage, number: int, methods: tuple[Entry, ...]) -> Study:
    return replace(
        study,
        name=f"{study.name}-{number}",
        what=f"{study.what} (stage {number} of {len(study.stages)})",
        tasks=stage.tasks or study.tasks,
        seeds=stage.seeds or study.seeds,
        methods=methods,
        settings={**study.settings, **stage.settings},
        stages=(),
    )


def _folder(folder: Path, number: int) -> Path:
    return folder / f"stage-{number}"
