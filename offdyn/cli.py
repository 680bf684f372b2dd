"""The command line: offdyn list | train | resume | evaluate | check | collect | study | tune | report | bench.

Exit codes: 0 done, 1 a run or a check failed, 2 a mistake in what was asked for, 75 stopped and saved (resume
continues).
"""

import argparse
import json
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from . import __version__, bench_command, collect_command, export_command, study_command, tune_command, video_command
from .errors import OffdynError

DONE, FAILED, MISTAKE, STOPPED = 0, 1, 2, 75
LEARNING = ("train", "resume", "collect", "tune", "bench")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; `{self.prog} --help` shows what can be asked for", file=sys.stderr)
        sys.exit(MISTAKE)


def parser() -> argparse.ArgumentParser:
    root = Parser("offdyn", description="Off-dynamics reinforcement learning.")
    root.add_argument("--version", action="version", version=f"offdyn {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    lists = commands.add_parser("list", help="robots, tasks and methods")
    lists.add_argument("--json", action="store_true", help="one object with the keys robots, tasks, methods")
    lists.add_argument("--picture", metavar="FILE.png", type=Path, help="draw the sources over their targets")

    train = commands.add_parser("train", help="train runs, all seeds at once")
    train.add_argument("--task", nargs="+", metavar="T", help="names of `offdyn list`, ROBOT-FAMILY-FACTOR, or YAML")
    environment = "of your own instead: a Gymnasium id or module:function"
    train.add_argument("--source", metavar="S", help=f"environment {environment}, or a dataset")
    train.add_argument("--target", metavar="T", help=f"environment {environment}")
    train.add_argument("--time-limit", metavar="N", help="of its episodes; default: as the environments say")
    train.add_argument("--method", nargs="+", metavar="M", help="par (default), sac ...: `offdyn list`")
    train.add_argument("--preset", metavar="P", help="paper (default), released, printed")
    train.add_argument("--seeds", nargs="+", type=int, metavar="N", help="default 0")
    train.add_argument("--out", type=Path, help="folder for the runs; default runs")
    train.add_argument("--source-steps", metavar="N", help="default 1000000")
    train.add_argument("--target-interval", metavar="F", help="source steps per target step; default 10")
    train.add_argument("--bodies", metavar="N", help="source bodies per run; default 10, a divisor of F")
    train.add_argument("--eval-interval", metavar="N", help="source steps between evaluations; default 10000")
    train.add_argument("--eval-episodes", metavar="N", help="target episodes per evaluation; default 10; 0: none ever")
    train.add_argument("--target-mode", metavar="M", help="steps (default), or episodic: no updates inside an episode")
    train.add_argument("--target-log", metavar="DIR", help="write down every step of --target as it happens")
    train.add_argument("--env-processes", metavar="P", help="bodies of --source in processes: on, off, auto (default)")
    train.add_argument("--checkpoint-interval", metavar="N", help="source steps; default 50000")
    train.add_argument("--source-data", metavar="D", help="a dataset, by name or file, in place of a live source")
    train.add_argument("--start-from", metavar="RUN", help="go on from a run's networks; may name {seed} and {robot}")
    several = "PAR's beta; several values are several runs; `preset 0`: each with its twin"
    train.add_argument("--penalty", nargs="+", metavar="B", help=several)
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="any other setting")
    train.add_argument("--config", type=Path, metavar="FILE.yaml", help="the same names as keys; flags win over it")
    train.add_argument("--allow-no-shift", action="store_true", help="train although source and target are the same")
    train.add_argument("--allow-faulty-data", action="store_true", help="whatever `offdyn check` says of it")
    train.add_argument("--wandb", metavar="PROJECT", help="send the numbers to Weights & Biases as well")
    train.add_argument("--keep-replay", action="store_true", help="keep the collected rows when the runs are done")

    resume = commands.add_parser("resume", help="continue what was interrupted")
    resume.add_argument("out", type=Path, metavar="DIR", help="the --out of an earlier training")
    for command in (train, resume):
        command.add_argument("--threads", type=int, metavar="N", help="for the physics; changes no result")
        command.add_argument("-v", "--verbose", action="store_true", help="details")

    evaluate = commands.add_parser("evaluate", help="fresh episodes of a trained policy")
    evaluate.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    evaluate.add_argument("--episodes", type=int, default=50, metavar="N", help="in each domain; default 50")
    evaluate.add_argument("--seed", type=int, default=1_000_000, metavar="N", help="of the episodes' starts")
    evaluate.add_argument("--json", action="store_true", help="all returns as one object")

    check = commands.add_parser("check", help="what is wrong with a dataset or a task")
    check.add_argument("wanted", metavar="FILE|NAME|TASK", help="a dataset's file or name, or a task")
    check.add_argument("--robot", metavar="R", help="the robot, or the task, that made the data")
    check.add_argument("--json", action="store_true", help="all findings as one object")

    report = commands.add_parser("report", help="a page with tables and figures of all runs below some folders")
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="folders of runs, finished or not")
    report.add_argument("--out", type=Path, required=True, metavar="REPORT", help="folder for index.html and its files")

    export_command.add_arguments(commands.add_parser("export", help="a policy as files that need no offdyn"))
    video_command.add_arguments(commands.add_parser("video", help="a policy in source and target side by side"))
    collect_command.add_arguments(commands.add_parser("collect", help="make datasets, by name or of any policy"))
    study_command.add_arguments(commands.add_parser("study", help="all runs of a table or figure, in one command"))
    tune_command.add_arguments(commands.add_parser("tune", help="search scalars of a method under a target budget"))
    bench_command.add_arguments(commands.add_parser("bench", help="how fast this machine is, how fast it could be"))
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake is a sentence, not a traceback."""
    asked = parser().parse_args(arguments)
    commands = {"list": list_all, "train": train, "resume": resume, "evaluate": evaluate, "check": check}
    commands |= {"bench": bench_command.run, "export": export_command.run, "video": video_command.run}
    commands |= {"collect": collect_command.run, "study": study_command.run, "report": report, "tune": tune_command.run}
    try:
        if asked.command in LEARNING or getattr(asked, "action", None) in ("run", "plan"):
            from .experiments.devices import offer_every_core

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


def list_all(asked: argparse.Namespace) -> int:
    from .domains.pairs import WORLDS
    from .domains.robots import ROBOTS
    from .domains.tasks import FAMILIES, table

    if asked.picture is not None:
        from .domains.picture import draw

        draw(asked.picture)
        print(f"wrote {asked.picture}")
        return DONE
    from .methods.recipes import RECIPES

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
        _print_entry(f"  {world.name}", f"a small world, for demonstrations: {world.description}", 39)
    print("\nFAMILIES, any factor")
    for family, (what, _) in FAMILIES.items():
        _print_entry(f"  ROBOT-{family}-2.0", f"{what}, times 2", 39)
    print("\nMETHODS")
    for name, recipe in RECIPES.items():
        _print_entry(f"  {name}", f"{recipe.summary} (presets: {', '.join(recipe.method.presets)})", 15)
    return DONE


def _print_entry(name: str, text: str, column: int) -> None:
    """A name and its text from that column on, wrapped to the terminal."""
    width = max(column + 30, min(120, shutil.get_terminal_size().columns))
    print(textwrap.fill(text, width, initial_indent=name.ljust(column), subsequent_indent=" " * column))


def train(asked: argparse.Namespace) -> int:
    from .api import plan
    from .experiments import train as training

    wanted = _read_config(asked.config) if asked.config else {}
    heads = ("task", "source", "target", "time_limit", "method", "preset", "seeds", "out")
    flags = {name: getattr(asked, name) for name in heads}
    wanted |= {name: value for name, value in flags.items() if value is not None}
    named = (
        "source_steps",
        "target_interval",
        "bodies",
        "eval_interval",
        "eval_episodes",
        "checkpoint_interval",
        "target_mode",
        "target_log",
        "env_processes",
        "source_data",
        "start_from",
        "wandb",
    )
    wanted |= {name: getattr(asked, name) for name in (*named, "penalty") if getattr(asked, name) is not None}
    if asked.allow_faulty_data:
        wanted["allow_faulty_data"] = True
    for pair in asked.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OffdynError(f"--set {pair}: expected NAME=VALUE")
        wanted[name] = value
    out = Path(str(wanted.pop("out", "runs")))
    allow_no_shift = _switch("allow_no_shift", wanted.pop("allow_no_shift", False)) or asked.allow_no_shift
    keep_replay = _switch("keep_replay", wanted.pop("keep_replay", False)) or asked.keep_replay
    runs, notices = plan(allow_no_shift=allow_no_shift, **wanted)
    folders = _until_done_or_stopped(asked, out, notices, partial(training.start, runs, keep_replay=keep_replay))
    return STOPPED if folders is None else _print_results(folders)


def resume(asked: argparse.Namespace) -> int:
    from .experiments import train as training

    folders = _until_done_or_stopped(asked, asked.out, [], training.resume)
    if folders is None:
        return STOPPED
    if not folders:
        print(f"{asked.out}: every run is finished already")
    return _print_results(folders)


def _until_done_or_stopped(
    asked: argparse.Namespace, out: Path, notices: Sequence[str], train_in: Callable[..., list[Any]]
) -> list[Any] | None:
    """Train with progress shown, until the runs are done or, with None, until a signal stopped them."""
    from .experiments import train as training
    from .experiments.progress import for_people

    stop, progress = _stop_on_signals(), for_people(asked.verbose)
    try:
        for text in notices:
            progress.say(text)
        return train_in(out=out, threads=_threads(asked), progress=progress, stop=stop)
    except training.Stopped:
        progress.close()
        print(f"stopped and saved; continue with: offdyn resume {out}", file=sys.stderr)
        return None
    finally:
        progress.close()


def evaluate(asked: argparse.Namespace) -> int:
    from .api import load_policy
    from .domains import pairs
    from .experiments.evaluate import evaluate as run_episodes
    from .experiments.record import RunFolder

    if asked.episodes < 1:
        raise OffdynError(f"--episodes: expected at least 1, got {asked.episodes}")
    if asked.seed < 0:
        raise OffdynError(f"--seed: expected 0 or more, got {asked.seed}")
    folder = RunFolder.open(asked.run)
    task = folder.config.task
    policy = load_policy(folder)
    sources = asked.episodes if pairs.has_source(task) else 0
    result = run_episodes(policy.policies, [task], [asked.seed], asked.episodes, sources, index=0)
    returns = {"target": result.target_returns[0]}
    if sources:
        returns["source"] = result.source_returns[0]
    if asked.json:
        print(json.dumps({"run": folder.config.name, **{k: list(map(float, v)) for k, v in returns.items()}}))
        return DONE
    for role, values in returns.items():
        score = pairs.normalised(task, float(values.mean())) if role == "target" else None
        shown = "" if score is None else f"   normalised {score:.1f}"
        print(f"{role}: {values.mean():.1f} +- {values.std():.1f} over {asked.episodes} episodes{shown}")
    return DONE


def check(asked: argparse.Namespace) -> int:
    from .data.doctor.report import examine

    report = examine(asked.wanted, asked.robot)
    print(report.to_json() if asked.json else report)
    return FAILED if report.fatal else DONE


def report(asked: argparse.Namespace) -> int:
    from .report.write import write

    summary, notices = write(asked.folders, asked.out)
    print(summary)
    for notice in notices:
        print(f"  {notice.what}")
    print(f"Look at {asked.out / 'index.html'}")
    return DONE


def _read_config(path: Path) -> dict[str, Any]:
    from . import yaml_file

    read = yaml_file.read(path)
    if not isinstance(read, dict) or not all(isinstance(name, str) for name in read):
        raise OffdynError(f"{path}: expected names and values, such as `task: hopper-big-head`")
    return read


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OffdynError(f"{name}: expected true or false, got {value!r}")
    return value


def _threads(asked: argparse.Namespace) -> int | None:
    if asked.threads is not None and asked.threads < 1:
        raise OffdynError(f"--threads: expected at least 1, got {asked.threads}")
    return asked.threads


def _stop_on_signals() -> Any:
    """The first Ctrl-C or SIGTERM saves and stops; a second one of either ends the process at once."""
    from .experiments.train import Stop

    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.wanted:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.wanted = True
        print("saving and stopping ...", file=sys.stderr)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop


def _print_results(folders: Sequence[Any]) -> int:
    for folder in folders:
        final = folder.path / "final.json"
        if folder.state == "failed":
            failure = folder.provenance["failure"]
            print(f"{folder.path}   FAILED: {failure['quantity']} not finite at step {failure['step']}")
        elif final.exists():
            read = json.loads(final.read_text())
            score = read["final_normalised"]
            shown = "" if score is None else f"   normalised {score:.1f}"
            shown += f" ({read['final_of']})" if "final_of" in read else ""
            print(f"{folder.path}   target return {read['final_mean']:.1f} +- {read['final_std']:.1f}{shown}")
        else:
            print(f"{folder.path}   {folder.state}")
    return FAILED if any(folder.state == "failed" for folder in folders) else DONE


if __name__ == "__main__":
    sys.exit(main())
