"""The command line: its parser, the short commands (list, evaluate, check, report) and the way to all others.

Exit codes: 0 done, 1 a run or a check failed, 2 a mistake in what was asked for, 70 an error that nobody foresaw, 75
stopped and saved (resume continues).
"""

import argparse
import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from .._util.errors import OffdynError
from . import bench, collect, crash, export, study, train, tune, video
from .parser import COUNT, MISTAKE, SEED, Parser

DONE, FAILED = 0, 1
LEARNING = ("train", "resume", "collect", "tune", "bench")


def parser() -> argparse.ArgumentParser:
    root = Parser("offdyn", description="Off-dynamics reinforcement learning.")
    root.add_argument("--version", action="version", version=f"offdyn {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    lists = commands.add_parser("list", help="robots, tasks and methods")
    lists.add_argument("--json", action="store_true", help="one object with the keys robots, tasks, methods")

    trains = commands.add_parser("train", help="train runs, all seeds at once")
    resumes = commands.add_parser("resume", help="continue what was interrupted")
    train.add_arguments(trains, resumes)

    evaluate = commands.add_parser("evaluate", help="fresh episodes of a trained policy")
    evaluate.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    evaluate.add_argument("--episodes", type=COUNT, default=50, metavar="N", help="in each domain; default 50")
    evaluate.add_argument("--seed", type=SEED, default=1_000_000, metavar="N", help="of the episodes' starts")
    side = "whose side of a policy that was told its domain: target (default), source"
    evaluate.add_argument("--domain", choices=("target", "source"), default="target", help=side)
    evaluate.add_argument("--json", action="store_true", help="all returns as one object")

    check = commands.add_parser("check", help="what is wrong with a dataset or a task")
    check.add_argument("wanted", metavar="FILE|NAME|TASK", help="a dataset's file or name, or a task")
    check.add_argument("--robot", metavar="R", help="the robot, or the task, that made the data")
    check.add_argument("--target", metavar="T", help="the task or environment that the data is for, as training asks")
    check.add_argument("--json", action="store_true", help="all findings as one object")

    report = commands.add_parser("report", help="a page with tables and figures of all runs below some folders")
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="folders of runs, finished or not")
    report.add_argument("--out", type=Path, required=True, metavar="REPORT", help="folder for index.html and its files")

    export.add_arguments(commands.add_parser("export", help="a policy as files that need no offdyn"))
    video.add_arguments(commands.add_parser("video", help="a policy in source and target side by side"))
    collect.add_arguments(commands.add_parser("collect", help="make datasets, by name or of any policy"))
    study.add_arguments(commands.add_parser("study", help="all runs of a table or figure, in one command"))
    tune.add_arguments(commands.add_parser("tune", help="search scalars of a method under a target budget"))
    bench.add_arguments(commands.add_parser("bench", help="how fast this machine is, how fast it could be"))
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a mistake is a sentence, and so is a crash, whose traceback goes into a file."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr has it: a file may hold what none can show
    try:
        asked = parser().parse_args(arguments)
    except SystemExit as ended:  # of --help, --version or a mistake
        return int(ended.code or DONE)
    commands = {"list": list_all, "evaluate": evaluate, "check": check, "report": report}
    commands |= {"train": train.train, "resume": train.resume, "tune": tune.run}
    commands |= {"collect": collect.run, "study": study.run, "bench": bench.run}
    commands |= {"export": export.run, "video": video.run}
    try:
        if asked.command in LEARNING or getattr(asked, "action", None) in ("run", "plan"):
            from ..training.hardware import offer_every_core

            offer_every_core()
        return commands[asked.command](asked)
    except OffdynError as error:
        print(f"offdyn: {error}", file=sys.stderr)
        return MISTAKE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        print("offdyn: interrupted before anything was trained", file=sys.stderr)
        return 130
    except OSError as error:
        if error.filename is None:
            return crash.report(error, arguments)
        print(f"offdyn: {error.filename}: {error.strerror}", file=sys.stderr)
        return MISTAKE
    except (Exception, SystemExit) as error:
        return crash.report(error, arguments)


def list_all(asked: argparse.Namespace) -> int:
    from ..algos.registry import RECIPES
    from ..envs.pairs import WORLDS
    from ..envs.robots import ROBOTS
    from ..envs.tasks import FAMILIES, table

    rows = table()
    if asked.json:
        robots = [
            {"robot": r.name, "observation size": r.spec.observation_size, "action size": r.spec.action_size}
            for r in ROBOTS.values()
        ]
        methods = [
            {"method": name, "summary": recipe.summary, "presets": list(recipe.method.presets)}
            for name, recipe in RECIPES.items()
        ]
        print(json.dumps({"robots": robots, "tasks": rows, "methods": methods}, indent=2))
        return DONE
    print("TASKS (a robot's name alone is its source)")
    for row in rows:
        if row["kind"] == "source":
            print(f"  {row['task']}: {row['observation size']} observations, {row['action size']} actions")
        else:
            _print_entry(f"    {row['task']}", f"{row['kind']}: {row['what changes']}", 39)
    for world in WORLDS.values():
        _print_entry(f"  {world.name}", f"a toy environment, for demonstrations: {world.description}", 39)
    print("\nFAMILIES, any number")
    for name, family in FAMILIES.items():
        _print_entry(f"  ROBOT-{name}-{family.example}", family.what.format(family.example), 39)
    _print_entry("  TASK-legacy", "any of these with capsule masses and inertias as before MuJoCo 2.1.1", 39)
    print("\nMETHODS")
    for name, recipe in RECIPES.items():
        _print_entry(f"  {name}", f"{recipe.summary} (presets: {', '.join(recipe.method.presets)})", 15)
    return DONE


def _print_entry(name: str, text: str, column: int) -> None:
    """A name and its text from that column on, wrapped to the terminal."""
    width = max(column + 30, min(120, shutil.get_terminal_size().columns))
    print(textwrap.fill(text, width, initial_indent=name.ljust(column), subsequent_indent=" " * column))


def evaluate(asked: argparse.Namespace) -> int:
    from ..api import evaluate as fresh_episodes
    from ..envs import pairs
    from ..training.run_folder import RunFolder

    returns = fresh_episodes(asked.run, asked.episodes, seed=asked.seed, domain=asked.domain)
    folder = RunFolder.open(asked.run)
    if asked.json:
        print(json.dumps({"run": folder.config.name, **{k: list(map(float, v)) for k, v in returns.items()}}))
        return DONE
    for role, values in returns.items():
        score = pairs.normalised(folder.config.task, float(values.mean())) if role == "target" else None
        shown = "" if score is None else f"   normalised {score:.1f}"
        print(f"{role}: {values.mean():.1f} +- {values.std():.1f} over {asked.episodes} episodes{shown}")
    return DONE


def check(asked: argparse.Namespace) -> int:
    from ..data.doctor.report import examine

    report = examine(asked.wanted, asked.robot, asked.target)
    print(report.to_json() if asked.json else report)
    return FAILED if report.fatal else DONE


def report(asked: argparse.Namespace) -> int:
    from ..report.write import write

    summary, notices = write(asked.folders, asked.out)
    print(summary)
    for notice in notices:
        print(f"  {notice.what}")
    print(f"Look at {asked.out / 'index.html'}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
