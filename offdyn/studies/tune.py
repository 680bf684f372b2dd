"""Searches scalars of a method on a task under a declared budget of target steps: trials are lanes of one cohort."""

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .._util.errors import OffdynError, unknown
from .._util.files import read_json, write_atomically
from ..algos.registry import recipe
from ..algos.sac import Sac
from ..envs.custom import OwnPair
from ..training.config import ALSO, RunConfig, Schedule, build
from ..training.preparation import with_first_phases
from ..training.progress import Progress, Quiet, Stop, Stopped
from ..training.run_folder import RunFolder
from . import job as jobs
from .backends import Order
from .plan import plan
from .scale import all_scaled

# Below OUT: what Optuna knows; what the search found and what it cost; the best settings, for `offdyn train --config`.
JOURNAL, SUMMARY, BEST = "trials.log", "tune.json", "best.yaml"
FORMAT = 1  # of tune.json
DIGITS = 6  # significant ones of a tried value, as many as a run's name shows


@dataclass(frozen=True)
class Range:
    """Where a setting is looked for."""

    name: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def parse(cls, text: str) -> "Range":
        """From NAME=LOW:HIGH or NAME=LOW:HIGH:log."""
        name, _, rest = text.partition("=")
        low, *others = rest.split(":")
        try:
            high, *scale = others
            made = cls(name, float(low), float(high), scale == ["log"])
            if scale not in ([], ["log"]) or not name:
                raise ValueError
        except ValueError:
            raise OffdynError(f"--search {text}: expected NAME=LOW:HIGH or NAME=LOW:HIGH:log") from None
        if not (math.isfinite(made.low) and math.isfinite(made.high) and made.low < made.high):
            raise OffdynError(f"--search {text}: expected a lower value first, then a higher one")
        if made.log and made.low <= 0:
            raise OffdynError(f"--search {text}: expected more than 0 where the scale is logarithmic")
        return made


@dataclass(frozen=True)
class Search:
    """What is looked for, and for how much."""

    task: Any
    ranges: tuple[Range, ...]
    budget: int  # target steps that all trials together may use
    method: str = "par"
    preset: str | None = None
    trials: int = 16
    rounds: int = 1  # cohorts, one after another: later ones look where earlier ones found more
    seeds: tuple[int, ...] = (0,)
    seed: int = 0  # of the search itself
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        parts = (Schedule, Sac, recipe(self.method).method.hyper)
        floats = {f.name for part in parts for f in dataclasses.fields(part) if f.type is float}
        for each in self.ranges:
            if not {each.name, ALSO.get(each.name)} & floats:
                raise unknown(f"scalar setting of method '{self.method}'", each.name, floats)
        for name, value in (("trials", self.trials), ("rounds", self.rounds), ("budget-target-steps", self.budget)):
            if value < 1:
                raise OffdynError(f"--{name}: expected at least 1, got {value}")
        if self.rounds > self.trials or not self.ranges or not self.seeds:
            raise OffdynError("expected something to --search, at least one seed, and no more rounds than trials")

    def runs(self, values: Mapping[str, float]) -> list[RunConfig]:
        """Of one trial: as long as the budget allows, and in small what a whole run is."""
        made = [build(self.task, self.method, self.preset, seed, {**self.settings, **values})[0] for seed in self.seeds]
        whole = made[0].schedule.target_budget
        if whole == 0:
            raise OffdynError(f"method '{self.method}' takes no target steps: there is no budget to search under")
        share = self.budget / (self.trials * len(self.seeds) * whole)
        try:
            small = all_scaled(with_first_phases(made), min(share, 1.0))
        except OffdynError as error:
            raise OffdynError(f"{self.budget} target steps are too few for {self.trials} trials: {error}") from None
        spent = sum(run.schedule.target_budget for run in small)
        if spent * self.trials > self.budget:  # rounded up to whole ticks
            raise OffdynError(f"--budget-target-steps {self.budget}: {self.trials} trials need {spent * self.trials}")
        return small


@dataclass(frozen=True)
class Trial:
    """Values that were tried, and what came of them."""

    values: dict[str, float]
    target_return: float | None  # mean of the final returns over seeds; None: a run failed


def search(
    wanted: Search, out: Path, *, threads: int | None = None, progress: Progress | None = None, stop: Stop | None = None
) -> list[Trial]:
    """Every trial, the best first; again: goes on where it was. `Stopped` is raised after a stop was saved."""
    wanted.check()
    optuna = _optuna()
    wanted.runs({each.name: each.high for each in wanted.ranges})  # refused now, if at all
    out.mkdir(parents=True, exist_ok=True)
    _refuse_another(wanted, out)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(out / JOURNAL)))
    study = optuna.create_study(storage=storage, study_name="tune", direction="maximize", load_if_exists=True)
    kinds = {r.name: optuna.distributions.FloatDistribution(r.low, r.high, log=r.log) for r in wanted.ranges}
    done = optuna.trial.TrialState
    ends = [round(wanted.trials * (number + 1) / wanted.rounds) for number in range(wanted.rounds)]
    for begin, end in itertools.pairwise([0, *ends]):
        while len(study.trials) < end:
            # A sampler of its own for each trial: one that is asked for after a stop is the one it would have been.
            seed = wanted.seed * 100_003 + len(study.trials)
            study.sampler = optuna.samplers.TPESampler(n_startup_trials=ends[0], constant_liar=True, seed=seed)
            study.ask(kinds)
        open_trials = [trial for trial in study.trials[begin:end] if not trial.state.is_finished()]
        tried = {trial.number: wanted.runs(_rounded(trial.params)) for trial in open_trials}
        _train([run for runs in tried.values() for run in runs], out, threads, progress or Quiet(), stop or Stop())
        for number, runs in tried.items():
            found = _target_return(runs, out)
            study.tell(number, found, state=done.FAIL if found is None else done.COMPLETE)
    trials = [Trial(_rounded(trial.params), trial.value) for trial in study.trials]
    trials.sort(key=lambda trial: -math.inf if trial.target_return is None else trial.target_return, reverse=True)
    _write_summary(wanted, out, trials)
    return trials


def spent(out: Path) -> int:
    """Target steps that the runs of a search have used, for training; evaluations are not counted."""
    return sum(RunFolder.open(path.parent).provenance["target_steps"] for path in out.glob("*/provenance.json"))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise OffdynError("offdyn tune needs Optuna: pip install 'offdyn[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}


def _train(runs: Sequence[RunConfig], out: Path, threads: int | None, progress: Progress, stop: Stop) -> None:
    unique = {run.name: run for run in runs}  # a first phase that several trials share is one run
    left = plan(list(unique.values()), out, threads).left
    for job in left:
        jobs.write(job)
    order = Order(left)
    while (job := order.next()) is not None:  # type: ignore[assignment]
        end = jobs.run(job.path, progress=progress, stop=stop)
        order.ended(job)
        if end.state == "stopped":
            raise Stopped
        if end.state == "failed":
            raise OffdynError(f"job {job.id} of the search failed: {end.error}")


def _target_return(runs: Sequence[RunConfig], out: Path) -> float | None:
    """Of the runs that act in the target; first phases are not what is searched for."""
    finals = [RunFolder(out / run.name, run).final for run in runs if run.schedule.target_budget]
    means = [float(final["final_mean"]) for final in finals if final is not None]
    if len(means) < len(finals):
        return None
    return sum(means) / len(means)


def _about(wanted: Search) -> dict[str, Any]:
    task = (
        wanted.task.to_mapping() if isinstance(wanted.task, OwnPair) else str(getattr(wanted.task, "name", wanted.task))
    )
    fields = {field.name: getattr(wanted, field.name) for field in dataclasses.fields(wanted)}
    about = fields | {"task": task, "ranges": [vars(each) for each in wanted.ranges], "settings": dict(wanted.settings)}
    return json.loads(json.dumps(about))


def _refuse_another(wanted: Search, out: Path) -> None:
    """A folder holds one search: its values and budget are those it began with."""
    path, about = out / SUMMARY, _about(wanted)
    if path.exists():
        earlier = read_json(path, FORMAT).get("search")
        if not isinstance(earlier, dict):
            raise OffdynError(f"{path}: says nothing of a search; choose another --out")
        differing = sorted(key for key in about if earlier.get(key) != about[key])
        if differing:
            raise OffdynError(f"{out}: holds a search with another {', '.join(differing)}; choose another --out")
    else:
        write_atomically(path, json.dumps({"format": FORMAT, "search": about}, indent=2).encode())


def _write_summary(wanted: Search, out: Path, trials: Sequence[Trial]) -> None:
    about, steps = _about(wanted), spent(out)
    content = {"format": FORMAT, "search": about, "target_steps": steps, "trials": [vars(trial) for trial in trials]}
    write_atomically(out / SUMMARY, json.dumps(content, indent=2).encode())
    if trials[0].target_return is not None:
        best = {name: about[name] for name in ("task", "method", "preset")}
        if isinstance(wanted.task, OwnPair):
            pair = best.pop("task")
            best |= {name: pair[name] for name in ("source", "target", "time_limit") if pair[name] is not None}
        best |= {**about["settings"], **trials[0].values, "tuning_target_steps": steps}
        write_atomically(out / BEST, yaml.safe_dump(best, sort_keys=False).encode())
