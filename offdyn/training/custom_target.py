"""What training does for a custom target: says when it waits, and writes every step down as it happens."""

from collections.abc import Sequence
from typing import Any

from .._util.errors import OffdynError
from ..data.datasets.target_log import TargetLog, path_of
from ..envs.custom_batch import OwnBodies, Row
from ..envs.pairs import OwnPair
from .cohort import Cohort
from .config import RunConfig
from .progress import Progress
from .run_folder import RunFolder


def check(runs: Sequence[RunConfig]) -> None:
    """Refuse a log that another training has begun, before anything is trained."""
    for run in runs:
        if run.schedule.target_log is not None and run.schedule.acts_in_target:
            path = path_of(run.schedule.target_log, run.name)
            if path.exists():
                raise OffdynError(f"{path} exists already: choose another --target-log, or move it away")


def attend(cohort: Cohort, folders: Sequence[RunFolder], progress: Progress) -> list[TargetLog]:
    """The logs, where there are to be any; steps they hold beyond the checkpoint are not made again."""
    domain, plan = cohort.domain, cohort.plan
    if not isinstance(domain, OwnBodies):
        return []
    domain.say = progress.say
    if plan.acts_in_target:
        progress.say(_price_of_evaluation(folders[0].config))
    if plan.target_log is None or not plan.acts_in_target:
        return []
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


def _card(run: RunConfig) -> dict[str, Any]:
    assert isinstance(run.task, OwnPair)
    return {
        "name": run.name,
        "robot": None,
        "made": {"environment": run.task.target, "policy": f"{run.method} while it learned", "run": run.name},
        "seed": run.seed,
        "action_low": list(run.task.action_low),
        "action_high": list(run.task.action_high),
        "time_limit": run.task.time_limit,
    }
