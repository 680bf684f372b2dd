"""The command `offdyn tune`: search scalars of a method on a task, and say what the search cost."""

import argparse
import sys
from pathlib import Path

from ..training.progress import stop_on_signals
from .collect import _pair
from .parser import COUNT, SEED, THREADS
from .train import add_pair

DONE, FAILED, STOPPED = 0, 1, 75


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("task", nargs="?", metavar="TASK", help="a name of `offdyn list`")
    add_pair(command)
    command.add_argument("--method", default="par", metavar="M", help="default par")
    command.add_argument("--preset", metavar="P", help="of everything else; default: the method's first")
    command.add_argument(
        "--search", nargs="+", required=True, metavar="NAME=LOW:HIGH[:log]", help="such as penalty=0.01:5:log"
    )
    command.add_argument(
        "--budget-target-steps", type=COUNT, required=True, metavar="N", help="that all trials together may use"
    )
    command.add_argument("--trials", type=COUNT, default=16, metavar="N", help="default 16")
    command.add_argument("--rounds", type=COUNT, default=1, metavar="N", help="later learn from earlier; default 1")
    command.add_argument("--seeds", nargs="+", type=SEED, default=[0], metavar="N", help="of each trial; default 0")
    command.add_argument("--search-seed", type=SEED, default=0, metavar="N", help="of the search itself; default 0")
    command.add_argument("--out", type=Path, default=Path("runs/tune"), metavar="DIR", help="default runs/tune")
    command.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="any other setting"
    )
    command.add_argument("--threads", type=THREADS, metavar="N", help="for the physics; changes no result")
    command.add_argument("-v", "--verbose", action="store_true", help="details")


def run(asked: argparse.Namespace) -> int:
    from ..envs import pairs
    from ..studies.tune import BEST, Range, Search, search, spent
    from ..training.progress import Stopped, for_people

    task, of_source = pairs.asked(asked.task, asked.source, asked.target, asked.time_limit)
    wanted = Search(
        task,
        tuple(Range.parse(text) for text in asked.search),
        asked.budget_target_steps,
        asked.method,
        asked.preset,
        asked.trials,
        asked.rounds,
        tuple(dict.fromkeys(asked.seeds)),
        asked.search_seed,
        of_source | dict(_pair(text, "--set", "NAME=VALUE") for text in asked.set),
    )
    progress = for_people(asked.verbose)
    try:
        trials = search(wanted, asked.out, threads=asked.threads, progress=progress, stop=stop_on_signals())
    except Stopped:
        print("stopped and saved; the same command continues from here", file=sys.stderr)
        return STOPPED
    finally:
        progress.close()
    for trial in trials:
        values = " ".join(f"{name}={value:g}" for name, value in trial.values.items())
        found = "a run failed" if trial.target_return is None else f"target return {trial.target_return:.1f}"
        print(f"{values}   {found}")
    print(
        f"the search used {spent(asked.out)} target steps of {asked.budget_target_steps}; evaluations are not counted"
    )
    if (asked.out / BEST).exists():
        print(f"train with the best, its price on record: offdyn train --config {asked.out / BEST} --seeds 0 1 2 3 4")
    return FAILED if all(trial.target_return is None for trial in trials) else DONE
