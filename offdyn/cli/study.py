"""The commands `offdyn study run | plan | list`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..training.progress import stop_on_signals
from .parser import COUNT, SEED, THREADS, whole

if TYPE_CHECKING:
    from ..studies.run import Wanted

DONE, FAILED, STOPPED = 0, 1, 75


def add_arguments(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the studies that come with offdyn")
    run = actions.add_parser("run", help="train all that is left of a study; again: go on where it was")
    plan = actions.add_parser("plan", help="runs, cohorts, memory and time of what is left; trains nothing")
    for action in (run, plan):
        action.add_argument("study", metavar="FILE|NAME", help="a YAML file, or a name of `offdyn study list`")
        action.add_argument("--out", type=Path, metavar="DIR", help="default runs/NAME, at a scale runs/NAME-SCALE")
        action.add_argument("--scale", type=float, default=1.0, metavar="S", help="of all lengths, such as 0.01")
        action.add_argument("--quick", action="store_true", help="few and short evaluations: to see that it runs")
        action.add_argument("--seeds", nargs="+", type=SEED, metavar="N", help="in place of the study's own")
        action.add_argument("--only", nargs="+", default=[], metavar="NAME", help="tasks, robots, methods, qualities")
        action.add_argument("--lanes", type=COUNT, metavar="N", help="most runs in one job; default: all that fit it")
        action.add_argument("--threads", type=THREADS, metavar="N", help="per job, for the physics; changes no result")
    run.add_argument("--backend", default="local", metavar="B", help="local (default), ray, submitit")
    run.add_argument("--workers", type=COUNT, metavar="N", help="local: jobs at once; default 4 on a GPU, else 1")
    run.add_argument("--address", metavar="A", help="ray: of the cluster to join; default: one of this machine")
    run.add_argument("--cpus", type=COUNT, metavar="N", help="ray, submitit: per job")
    run.add_argument("--gpus", type=float, metavar="N", help="ray, submitit: per job")
    run.add_argument(
        "--retries", type=whole(0, 1000), default=2, metavar="N", help="ray, submitit: after a lost machine"
    )
    run.add_argument("--minutes", type=COUNT, default=24 * 60, metavar="N", help="submitit: per job; default a day")
    run.add_argument("--partition", metavar="P", help="submitit: of Slurm")


def run(asked: argparse.Namespace) -> int:
    """One of the actions."""
    return {"list": _list, "run": _run, "plan": _plan}[asked.action](asked)


def _list(asked: argparse.Namespace) -> int:
    from ..studies.study import load, shipped

    for name in shipped():
        print(f"{name:<17}{load(name).what}")
    return DONE


def _run(asked: argparse.Namespace) -> int:
    from ..studies import backends, stages
    from ..studies.run import run as run_study

    study, wanted, folder = _asked_for(asked)
    stop = stop_on_signals()
    options = backends.Options(
        asked.workers, asked.address, asked.cpus, asked.gpus, asked.retries, asked.minutes, asked.partition
    )
    backend = backends.find(asked.backend, options)
    known = 0
    for known, (stage, of_it, where) in enumerate(stages.of(study, wanted, folder), 1):  # noqa: B007
        outcome = run_study(stage, of_it, where, backend, _say, stop)
        print(outcome if stage is study else f"{stage.name}: {outcome}")
        if outcome.stopped or outcome.troubles:
            break
    for line in stages.later(study, known):
        print(line)
    if outcome.stopped and not outcome.finished:
        print("stopped and saved; the same command continues from here", file=sys.stderr)
        return STOPPED
    print(f"all in {folder}")
    return DONE if outcome.finished else FAILED


def _plan(asked: argparse.Namespace) -> int:
    from ..studies import stages
    from ..studies.overview import of_study
    from ..studies.run import planned

    study, wanted, folder = _asked_for(asked)
    known = 0
    for known, (stage, of_it, where) in enumerate(stages.of(study, wanted, folder), 1):  # noqa: B007
        todo, notices = planned(stage, of_it, where)
        for text in notices:
            _say(text)
        print(f"{stage.name}: {stage.what}" if stage.what else stage.name)
        for line in of_study(todo, wanted.threads):
            print(line, flush=True)
    for line in stages.later(study, known):
        print(line)
    return DONE


def _asked_for(asked: argparse.Namespace) -> tuple[Any, "Wanted", Path]:
    from ..studies.run import Wanted, default_folder
    from ..studies.study import load

    study = load(asked.study)
    seeds = None if asked.seeds is None else tuple(dict.fromkeys(asked.seeds))
    wanted = Wanted(seeds, tuple(asked.only), asked.scale, asked.quick, asked.threads, asked.lanes)
    return study, wanted, asked.out or default_folder(study, asked.scale)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
