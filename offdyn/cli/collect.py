"""The command `offdyn collect`: datasets by name, of any policy, and the training of the policies themselves."""

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from .._util.errors import OffdynError
from ..training.progress import stop_on_signals
from .parser import COUNT, SEED, THREADS

DONE, STOPPED, INTERRUPTED = 0, 75, 130


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("names", nargs="*", metavar="NAME", help="ROBOT-random, -medium, -expert, -medium-replay, "
                         "-medium-expert, or -all of these")  # fmt: skip
    command.add_argument("--out", type=Path, metavar="DIR", help="default: $OFFDYN_DATA, else data")
    command.add_argument(
        "--steps", type=COUNT, metavar="N", help="transitions; default 1000000, of medium-replay all; fewer: the newest"
    )
    command.add_argument("--seed", type=SEED, default=0, metavar="N", help="of starts and actions; default 0")
    command.add_argument("--behaviours", type=Path, metavar="DIR", help="policies to use in place of the shipped ones")
    command.add_argument("--policy", type=Path, metavar="RUN|FILE", help="collect with any policy, as --name")
    command.add_argument("--name", metavar="NAME", help="of the dataset that --policy makes")
    command.add_argument("--task", metavar="T", help="the body --policy acts in; default: that of its run")
    training = command.add_argument_group("training the policies first")
    training.add_argument("--train", type=Path, metavar="DIR", help="train and pick; again: go on where it was")
    training.add_argument("--robots", nargs="+", metavar="R", help="default: those of the names, else all four")
    training.add_argument("--seeds", nargs="+", type=SEED, default=[0], metavar="N", help="the best one is picked from")
    training.add_argument("--source-steps", metavar="N", help="default 1000000")
    training.add_argument("--medium", nargs="+", default=[], metavar="R=RETURN", help="the medium level of a robot")
    training.add_argument("--unfinished", action="store_true", help="do not train: pick from what is there")
    training.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="any other setting"
    )
    command.add_argument("--threads", type=THREADS, metavar="N", help="for the physics; changes no result")
    command.add_argument("-v", "--verbose", action="store_true", help="details")


def run(asked: argparse.Namespace) -> int:
    """Train, where asked to, then collect."""
    _check(asked)
    if asked.train is not None and (code := _train(asked)) != DONE:
        return code
    if not asked.names and asked.policy is None:
        return DONE
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        return _collect(asked)
    except KeyboardInterrupt:
        print("offdyn: stopped; the dataset under way was not written, those before it are whole", file=sys.stderr)
        return INTERRUPTED


def _check(asked: argparse.Namespace) -> None:
    if not asked.names and asked.policy is None and asked.train is None:
        raise OffdynError("collect what? Say a NAME such as hopper-medium, or --policy RUN --name NAME, or --train DIR")
    if (asked.policy is None) != (asked.name is None) or (asked.task is not None and asked.policy is None):
        raise OffdynError("--policy RUN|FILE and --name NAME belong together, and --task T goes with them")


def _collect(asked: argparse.Namespace) -> int:
    from ..data.collect.qualities import Collector, expand
    from ..data.datasets import folder
    from ..training.progress import for_people

    behaviours = asked.behaviours
    if behaviours is None and asked.train is not None:
        behaviours = asked.train / "behaviours"
    progress = for_people(asked.verbose)
    try:
        out = folder() if asked.out is None else asked.out
        collector = Collector(out, asked.steps, asked.seed, behaviours, asked.threads, progress)
        written = collector.collect(*expand(asked.names))
        if asked.policy is not None:
            written.append(collector.collect_policy(asked.policy, asked.name, asked.task))
    finally:
        progress.close()
    print("\n".join(map(str, written)))
    return DONE


def _train(asked: argparse.Namespace) -> int:
    from functools import partial

    from ..data.collect import policies
    from ..data.collect.qualities import expand, split
    from ..envs.robots import ROBOTS
    from ..training.progress import Stopped, for_people

    settings: dict[str, Any] = dict(_pair(text, "--set", "NAME=VALUE") for text in asked.set)
    if asked.source_steps is not None:
        settings["source_steps"] = asked.source_steps
    try:
        written = policies.train(
            asked.train,
            asked.robots or list(dict.fromkeys(split(name)[0] for name in expand(asked.names))) or list(ROBOTS),
            seeds=asked.seeds,
            levels=dict(map(_level, asked.medium)),
            settings=settings,
            unfinished=asked.unfinished,
            threads=asked.threads,
            progress=partial(for_people, asked.verbose),
            stop=stop_on_signals(),
        )
    except Stopped:
        print("stopped and saved; the same command continues from here", file=sys.stderr)
        return STOPPED
    print("\n".join(map(str, written)))
    return DONE


def _pair(text: str, flag: str, expected: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise OffdynError(f"{flag} {text}: expected {expected}")
    return name, value


def _level(text: str) -> tuple[str, float]:
    name, value = _pair(text, "--medium", "ROBOT=RETURN, such as hopper=1400")
    try:
        return name, float(value)
    except ValueError:
        raise OffdynError(f"--medium {text}: expected a number after =, got {value!r}") from None
