"""Before a training: what it takes in is there and fits, and its folders are made, all of them or none.

What a run takes in: a dataset in the place of its source, the networks of an earlier run, the log of a custom target.
"""

import dataclasses
import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes

from .._util import files
from .._util.errors import OffdynError
from .._util.files import read_json, write_atomically
from ..algos.registry import recipe
from ..algos.sac import Sac
from ..envs import custom, pairs
from ..envs.custom_batch import Row
from ..policies.base import Asked, as_chosen
from .checkpoint import COHORTS, CohortFolder, check_record, checked_runs, to_record
from .config import RunConfig, Schedule, build, residuals_of
from .hardware import check_memory
from .progress import Progress, check_wandb
from .run_folder import RunFolder, to_yaml

if TYPE_CHECKING:
    from ..data.datasets.target_log import TargetLog
    from .cohort import Cohort

FORMAT = 1  # of the record of folders that are being made
# What a kill may leave: of a cohort whose runs no file names yet, and, where the record is there, of anything.
UNNAMED = {"cohort.json.tmp", "lock"}
BEGUN = UNNAMED | {"cohort.json", "config.yaml", "config.yaml.tmp"}
FAILED = "run it continues from"  # the quantity, where that run broke
SHAPING = (  # must agree
    "backbone",
    "domain_input",
    "actor_widths",
    "critic_widths",
    "critic_layer_norm",
    "critics",
    "temperature_per_domain",
    "normalise_observations",
    "residual",
    "base_sha256",
)

Runs = list[RunConfig]


def first_phase(config: RunConfig) -> RunConfig | None:
    """The run that has to be trained before this one, where its recipe says so and the user has none to start from."""
    first = config.recipe.first
    if first is None or config.schedule.start_from is not None:
        return None
    names = {f.name for part in (Schedule, Sac, recipe(first).method.hyper) for f in dataclasses.fields(part)}
    settings = config.settings()
    chosen = {name: settings[name] for name in config.chosen if name in names and name not in config.recipe.fixed}
    return build(pairs.source_of(config.task), first, config.preset, config.seed, chosen)[0]


def with_first_phases(runs: Iterable[RunConfig]) -> list[RunConfig]:
    """The runs, before each the one it continues from; one such run serves all that need the same."""
    runs = list(runs)
    listed = {run.name for run in runs}
    together: list[RunConfig] = []
    for run in runs:
        first = first_phase(run)
        if first is not None:
            if first.name not in listed:
                listed.add(first.name)
                together.append(first)
            run = dataclasses.replace(run, schedule=dataclasses.replace(run.schedule, start_from=first.name))
        together.append(run)
    return sorted(together, key=lambda run: run.schedule.start_from in listed)


def group(runs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Runs that can share one compiled program, together, in the order in which they were asked for."""
    cohorts: dict[str, list[RunConfig]] = {}
    names: set[str] = set()
    for run in runs:
        if run.name in names:
            raise OffdynError(f"run {run.name} is asked for twice")
        names.add(run.name)
        cohorts.setdefault(run.cohort_key(), []).append(run)
    return list(cohorts.values())


def methods_of(runs: Iterable[RunConfig]) -> str:
    """In words, for runs that share a program."""
    return " and ".join(dict.fromkeys(run.method for run in runs))


def checked(runs: Sequence[RunConfig], out: Path, progress: Progress) -> list[Runs]:
    """The cohorts that these runs come to, of which nothing is there yet and all could be trained here."""
    residuals_of(runs)  # which says what is amiss with a base policy
    _check_starts(runs, out)
    check_datasets(runs, progress)
    _check_logs(runs)
    if any(run.schedule.wandb for run in runs):
        check_wandb(runs)
    cohorts = group(_left_to_do(runs, out))
    _check_new(cohorts, out)
    for members in cohorts:
        check_memory(members)
    return cohorts


def _left_to_do(runs: Sequence[RunConfig], out: Path) -> list[RunConfig]:
    """The runs without those that others continue from and that an earlier training in this folder has finished."""
    needed = {run.schedule.start_from for run in runs}
    left = []
    for run in runs:
        folder = out / run.name
        if run.name in needed and (folder / "config.yaml").exists():
            earlier = RunFolder.open(folder)
            if not run.computes_as(earlier.config):
                raise OffdynError(f"{folder} was trained with other settings than now asked for: choose another --out")
            if earlier.state == "finished":
                continue
        left.append(run)
    return left


def check_datasets(runs: Sequence[RunConfig], progress: Progress) -> None:
    """Refuse, before anything is trained, a dataset that is not there or in which something is fatally wrong."""
    asked = _asked(runs)
    if not asked:
        return
    from ..data.datasets import folder, native, open_dataset
    from ..data.datasets.opening import SUFFIX, command_for, locate
    from ..data.doctor import diagnose_dataset, fatal

    names = list(dict.fromkeys(wanted for wanted, *_ in asked if _is_missing(wanted)))
    if names:
        missing = " ".join(names)
        raise OffdynError(f"no dataset {missing} in {folder()}, which OFFDYN_DATA can change: "
                          f"`{command_for(names)}` makes what is missing")  # fmt: skip
    for (wanted, *_), run in asked.items():
        path = locate(wanted)
        _check_body(native.card_of(path) if path.suffix == SUFFIX else {}, run)
    for (wanted, *_), run in asked.items():
        dataset = open_dataset(wanted, target=run.task)
        reading = dataset.card.get("reading") or {}
        for what in ("actions", "ends", "ignored"):
            if said := reading.get(what):
                progress.say(f"{wanted}: {what} are {said}")
        findings = diagnose_dataset(dataset, target=run.task)
        for finding in findings:
            progress.say(f"{wanted}: {finding.name}: {finding.what}")
        if fatal(findings) and not run.schedule.allow_faulty_data:
            named = ", ".join(finding.name for finding in fatal(findings))
            raise OffdynError(
                f"{wanted}: not fit to learn from ({named}); `offdyn check {_arguments(run)}` says more, and "
                "--allow-faulty-data trains on it all the same"
            )
        if run.base is not None:
            kept, left_out = as_chosen(dataset, wanted, run.base, run.task)
            progress.say(
                f"{wanted}: {left_out} of {len(kept) + left_out} transitions are left out: no residual of "
                f"{run.schedule.residual:g} on the base policy leads to their actions"
            )


def _asked(runs: Sequence[RunConfig]) -> dict[tuple[str, str, Asked | None], RunConfig]:
    """A run for each dataset, base policy, and what it stands for: a robot's source, which all its targets share."""
    asked = {}
    for run in runs:
        if run.schedule.source_data is not None:
            stands_for = run.task if isinstance(run.task, pairs.OwnPair) else pairs.source_of(run.task)
            asked[run.schedule.source_data, stands_for.name, run.base] = run
    return asked


def _is_missing(wanted: str) -> bool:
    """Whether it is a name that `offdyn collect` could make."""
    from ..data.datasets import folder
    from ..data.datasets.opening import SUFFIX

    plain = Path(wanted).name == wanted and ":" not in wanted and Path(wanted).suffix == ""
    return plain and not Path(wanted).exists() and not (folder() / f"{wanted}{SUFFIX}").is_file()


def _check_body(card: Mapping[str, Any], run: RunConfig) -> None:
    """A model compiled by another MuJoCo may differ in its last bits: there the doctor's simulation decides."""
    from ..data.datasets.opening import QUALITIES, command_for

    expected, found = pairs.fingerprints(run.task).get("source"), card.get("model")
    same_engine = card.get("mujoco") == metadata.version("mujoco-core")
    if expected in (None, found) or found is None or not same_engine or run.schedule.allow_faulty_data:
        return
    wanted, source = run.schedule.source_data, pairs.source_of(run.task).name
    made = card.get("shift") or card.get("robot")
    names = [name for quality in QUALITIES if (name := f"{source}-{quality}") == wanted] or [f"{source}-medium"]
    raise OffdynError(
        f"{wanted}: made with another body than {source} ({made}, model {str(found)[:12]}, expected {expected[:12]}); "
        f"`{command_for(names)} --out DIR` makes one of {source}"
    )


def _arguments(run: RunConfig) -> str:
    """For a command that looks at the dataset as this run does; of a function from Python no name tells."""
    target = run.task.target if isinstance(run.task, pairs.OwnPair) else run.task.name
    for_it = "" if target.startswith(custom.FROM_PYTHON) else f" --target {target}"
    return f"{run.schedule.source_data}{for_it}"


def _check_starts(runs: Sequence[RunConfig], out: Path) -> None:
    """Refuse a start that is not there or does not fit, before anything is trained."""
    asked = {run.name for run in runs}
    for run in runs:
        folder = _earlier(run, out)
        if folder is None or run.schedule.start_from in asked:
            continue
        earlier = RunFolder.open(folder)
        if not (folder / "agent.safetensors").exists():
            raise OffdynError(
                f"start_from {folder}: the run is {earlier.state}, and its networks (agent.safetensors) are written "
                "when it is done; finish it with `offdyn resume`"
            )
        spec, its_spec = pairs.spec_of(run.task), pairs.spec_of(earlier.config.task)
        if spec[:2] != its_spec[:2]:
            raise OffdynError(
                f"start_from {folder}: its robot has {its_spec[0]} observations and {its_spec[1]} actions, that of "
                f"{run.task.name} {spec[0]} and {spec[1]}"
            )
        for name in SHAPING:
            mine, its = run.settings()[name], earlier.config.settings()[name]
            if mine != its:
                raise OffdynError(f"start_from {folder}: was trained with {name}={its}, this run has {mine}")


def _earlier(run: RunConfig, out: Path) -> Path | None:
    """The folder a run continues from: one beside it, or one that its user named."""
    wanted = run.schedule.start_from
    if wanted is None:
        return None
    beside = out / wanted
    return beside if beside.exists() else Path(wanted)


class Start(NamedTuple):
    """The networks a run begins with."""

    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any]  # for the run's provenance


def load_start(run: RunConfig, out: Path) -> Start | None:
    """What the run starts with; None where it starts afresh."""
    folder = _earlier(run, out)
    if folder is None:
        return None
    path = folder / "agent.safetensors"
    try:
        content = files.content(path)
        arrays = from_bytes(content)
    except (OSError, SafetensorError) as error:
        raise OffdynError(f"{path}: cannot be read ({error}); {run.name} starts from it") from None
    return Start(arrays, {"run": folder.name, "sha256": hashlib.sha256(content).hexdigest()})


def start_failed(run: RunConfig, out: Path) -> bool:
    """Whether the run it continues from broke."""
    folder = _earlier(run, out)
    return folder is not None and RunFolder.open(folder).state == "failed"


def _check_logs(runs: Sequence[RunConfig]) -> None:
    """Refuse a log that another training has begun, before anything is trained."""
    for run in runs:
        if run.schedule.target_log is not None and run.schedule.acts_in_target:
            from ..data.datasets.target_log import path_of

            path = path_of(run.schedule.target_log, run.name)
            if path.exists():
                raise OffdynError(f"{path} exists already: choose another --target-log, or move it away")


def attend_target(cohort: "Cohort", folders: Sequence[RunFolder], progress: Progress) -> list["TargetLog"]:
    """The logs, where there are to be any; steps they hold beyond the checkpoint are not made again."""
    domain, plan = pairs.own_bodies(cohort.domain), cohort.plan
    if domain is None:
        return []
    domain.say = progress.say
    if plan.acts_in_target:
        progress.say(_price_of_evaluation(folders[0].config))
    if plan.target_log is None or not plan.acts_in_target:
        return []
    from ..data.datasets.target_log import TargetLog, path_of

    sizes = cohort.spec.observation_size, cohort.spec.action_size
    logs = []
    for folder, body in zip(folders, cohort.target_ids, strict=True):
        path = path_of(plan.target_log, folder.config.name)
        log = TargetLog(path, sizes, _card(folder.config), cohort.target_rows)
        if log.steps < cohort.target_rows:
            raise OffdynError(
                f"{path}: holds {log.steps} target steps, the training has made {cohort.target_rows}: put the whole "
                "log back, or move it away and a new one begins"
            )
        made = log.since(cohort.target_rows)
        log.cut()
        domain.put_back(int(body), [Row(*row) for row in zip(*made.arrays().values(), strict=True)])
        if len(made):
            progress.say(
                f"{path}: {len(made)} target steps made after the checkpoint are taken from there, not made again"
            )
        logs.append(log)
    domain.heard = lambda number, row: logs[number].append(*row)
    return logs


def _price_of_evaluation(run: RunConfig) -> str:
    plan = run.schedule
    if not plan.eval_episodes and not plan.final_episodes:
        return (
            f"{plan.target_budget} target steps in all: the curve shows training episodes, nothing else is played there"
        )
    return (
        f"{plan.target_budget} target steps of training; beside them {plan.eval_episodes} target episodes every "
        f"{plan.eval_interval} source steps and {plan.final_episodes} at the end only measure (for a real machine: "
        "--eval-episodes 0)"
    )


def _policy(run: RunConfig) -> str:
    plan = run.schedule
    on_it = "" if plan.base_policy is None else f", a residual of {plan.residual:g} on {plan.base_policy}"
    return f"{run.method} while it learned{on_it}"


def _card(run: RunConfig) -> dict[str, Any]:
    assert isinstance(run.task, pairs.OwnPair)
    return {
        "name": run.name,
        "robot": None,
        "made": {"environment": run.task.target, "policy": _policy(run), "run": run.name},
        "seed": run.seed,
        "action_low": list(run.task.action_low),
        "action_high": list(run.task.action_high),
        "time_limit": run.task.time_limit,
    }


def cohort_folder(names: Iterable[str], out: Path) -> Path:
    return out / COHORTS / _id(names)


def _check_new(cohorts: Sequence[Runs], out: Path) -> None:
    """Refuse runs that are there already; what is left of making these very runs does not count."""
    leftovers = BEGUN if _record(cohorts, out).exists() else UNNAMED
    for path in _folders(cohorts, out):
        if path.exists() and not (path.is_dir() and {entry.name for entry in path.iterdir()} <= leftovers):
            raise OffdynError(
                f"{path} exists already: continue it with `offdyn resume {out}`, choose another --out, or delete it"
            )


def make_folders(cohorts: Sequence[Runs], out: Path, keep_replay: bool) -> list[tuple[list[RunFolder], CohortFolder]]:
    """The folders of these runs and cohorts, locked; a kill at any moment loses no run."""
    record, disks = _record(cohorts, out), list[CohortFolder]()
    configs = [{run.name: to_yaml(run) for run in members} for members in cohorts]
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "keep_replay": keep_replay, "cohorts": configs}
        write_atomically(record, to_record(content))
        for runs in configs:
            disks.append(CohortFolder.create(cohort_folder(runs, out), runs, keep_replay))
        folders = [[RunFolder.begin(out / run.name, run) for run in members] for members in cohorts]
        record.unlink()
    except OSError as error:
        for disk in disks:
            disk.unlock()
        for path in _folders(cohorts, out):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            record.unlink()
        raise OffdynError(f"{out}: cannot be written to ({error}); nothing was started") from None
    return list(zip(folders, disks, strict=True))


def finish_making(out: Path) -> None:
    """Name the runs of every cohort whose making was interrupted; whoever resumes them makes the rest."""
    for record in sorted((out / COHORTS).glob("begun-*.json")):
        said = read_json(record, FORMAT)
        if not isinstance(said.get("cohorts"), list):
            raise OffdynError(f"{record}: names no cohorts")
        cohorts = [checked_runs(runs, record) for runs in said["cohorts"]]
        check_record(said, record)
        for runs in cohorts:
            folder = cohort_folder(runs, out)
            if not (folder / "cohort.json").exists():
                CohortFolder.create(folder, runs, said.get("keep_replay") is True).unlock()
        record.unlink()


def _record(cohorts: Sequence[Runs], out: Path) -> Path:
    return out / COHORTS / f"begun-{_id(run.name for members in cohorts for run in members)}.json"


def _id(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def _folders(cohorts: Sequence[Runs], out: Path) -> list[Path]:
    """All that these cohorts will make."""
    cohort_folders = [cohort_folder((run.name for run in members), out) for members in cohorts]
    return [*(out / run.name for members in cohorts for run in members), *cohort_folders]
