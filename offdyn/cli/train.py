"""The commands `offdyn train` and `offdyn resume`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._util.errors import OffdynError
from ..training.progress import stop_on_signals
from .parser import SEED, THREADS

if TYPE_CHECKING:
    from ..training.config import RunConfig

DONE, FAILED, STOPPED = 0, 1, 75


def add_arguments(train: argparse.ArgumentParser, resume: argparse.ArgumentParser) -> None:
    train.add_argument("--task", nargs="+", metavar="T", help="names of `offdyn list`, ROBOT-FAMILY-FACTOR, or YAML")
    add_pair(train)
    train.add_argument("--method", nargs="+", metavar="M", help="head-start (default), par ...: `offdyn list`")
    train.add_argument("--preset", metavar="P", help="of `offdyn list`; default: the method's first")
    train.add_argument("--seeds", nargs="+", type=SEED, metavar="N", help="default 0")
    train.add_argument("--out", type=Path, help="folder for the runs; default runs")
    train.add_argument("--backbone", metavar="B", help="classic, simba or ensemble: what the method stands on")
    train.add_argument("--domain-input", metavar="D", help="actor and critics see the domain: none, flag, embedding")
    train.add_argument("--target-steps", metavar="N", help="default 100000")
    train.add_argument("--head-start", metavar="N", help="source steps before the first target step")
    train.add_argument("--source-steps-per-target-step", metavar="F", help="default 10 (classic)")
    train.add_argument("--updates-per-target-step", metavar="U", help="default: one per source step (classic)")
    train.add_argument("--source-steps", metavar="N", help="the length in source steps, in place of --target-steps")
    train.add_argument("--target-interval", metavar="F", help="older name of --source-steps-per-target-step")
    train.add_argument("--source-envs", "--bodies", metavar="N", help="per run; default 10, a divisor of F")
    train.add_argument("--eval-interval", metavar="N", help="source steps between evaluations; default 10000")
    train.add_argument("--eval-episodes", metavar="N", help="target episodes per evaluation; default 10; 0: none ever")
    train.add_argument("--target-mode", metavar="M", help="steps (default), or episodic: no updates inside an episode")
    train.add_argument("--target-log", metavar="DIR", help="write down every step of --target as it happens")
    train.add_argument("--env-processes", metavar="P", help="each --source in a process: on, off, auto (default)")
    train.add_argument("--checkpoint-interval", metavar="N", help="source steps; default 50000")
    train.add_argument("--source-data", metavar="D", help="a dataset, by name or file, in place of a live source")
    train.add_argument(
        "--start-from", metavar="RUN", help="continue from a run's networks; may name {seed} and {robot}"
    )
    base = "a frozen policy whose actions are only moved: an ONNX file, a run's folder, module:function"
    train.add_argument("--base-policy", metavar="FILE", help=base)
    train.add_argument("--residual", metavar="R", help="how far, as a share of half an action's range; default 0.3")
    several = "PAR's beta; several values are several runs; `preset 0`: each beside its ablation"
    train.add_argument("--penalty", "--beta", nargs="+", metavar="B", help=several)
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="any other setting")
    train.add_argument("--config", type=Path, metavar="FILE.yaml", help="the same names as keys; flags win over it")
    train.add_argument("--allow-no-shift", action="store_true", help="train although source and target are the same")
    train.add_argument("--allow-faulty-data", action="store_true", help="whatever `offdyn check` says of it")
    train.add_argument("--wandb", metavar="PROJECT", help="send the numbers to Weights & Biases as well")
    train.add_argument("--dry-run", action="store_true", help="say what would be trained, and write nothing")
    train.add_argument("--keep-replay", action="store_true", help="keep the transitions when the runs are done")

    resume.add_argument("out", type=Path, metavar="DIR", help="the --out of an earlier training")
    resume.add_argument("--drop-damaged", action="store_true", help="go on without transitions whose file is damaged")
    for command in (train, resume):
        command.add_argument("--threads", type=THREADS, metavar="N", help="for the physics; changes no result")
        command.add_argument("-v", "--verbose", action="store_true", help="details")


def add_pair(command: argparse.ArgumentParser) -> None:
    """Custom environments in place of a task."""
    environment = "of your own instead: a Gymnasium id or module:function"
    batched = "vec:ID and playground:NAME step many at once"
    command.add_argument("--source", metavar="S", help=f"environment {environment}, or a dataset; {batched}")
    command.add_argument("--target", metavar="T", help=f"environment {environment}; late: 'Pendulum-v1?delay=2'")
    command.add_argument("--time-limit", metavar="N", help="of its episodes; default: as the environments say")


def train(asked: argparse.Namespace) -> int:
    from ..api import plan
    from ..training import trainer as training

    wanted = _read_config(asked.config) if asked.config else {}
    heads = ("task", "source", "target", "time_limit", "method", "preset", "seeds", "out")
    flags = {name: getattr(asked, name) for name in heads}
    wanted |= {name: value for name, value in flags.items() if value is not None}
    named = (
        "backbone",
        "domain_input",
        "target_steps",
        "head_start",
        "source_steps_per_target_step",
        "updates_per_target_step",
        "source_steps",
        "target_interval",
        "source_envs",
        "eval_interval",
        "eval_episodes",
        "checkpoint_interval",
        "target_mode",
        "target_log",
        "env_processes",
        "source_data",
        "start_from",
        "base_policy",
        "residual",
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
    if asked.dry_run:
        return _say_what_would_be_trained(runs, out, notices, asked.threads)
    folders = _until_done_or_stopped(asked, out, notices, partial(training.start, runs, keep_replay=keep_replay))
    return STOPPED if folders is None else _print_results(folders)


def _say_what_would_be_trained(
    runs: Sequence["RunConfig"], out: Path, notices: Sequence[str], threads: int | None
) -> int:
    from ..studies.overview import table
    from ..training.preparation import checked, methods_of
    from ..training.progress import Lines

    progress = Lines()
    for text in notices:
        progress.say(text)
    cohorts = checked(runs, out, progress)
    print(f"{sum(map(len, cohorts))} runs in {len(cohorts)} cohorts, below {out}:")
    for run in (run for members in cohorts for run in members):
        print(f"  {run.name}")
    named = {f"{number} {methods_of(members)}": members for number, members in enumerate(cohorts, start=1)}
    for line in table("cohort", named, threads):
        print(line)
    print("nothing was trained or written")
    return DONE


def resume(asked: argparse.Namespace) -> int:
    from ..training import trainer as training
    from ..training.run_folder import RunFolder

    folders = _until_done_or_stopped(asked, asked.out, [], partial(training.resume, drop_damaged=asked.drop_damaged))
    if folders is None:
        return STOPPED
    if folders:
        return _print_results(folders)
    ended = [RunFolder.open(path.parent) for path in sorted(asked.out.glob("*/config.yaml"))]
    failed = [folder for folder in ended if folder.state == "failed"]
    print(f"{asked.out}: every run has ended already" + f", {len(failed)} of {len(ended)} failed" * bool(failed))
    return _print_results(failed)


def _until_done_or_stopped(
    asked: argparse.Namespace, out: Path, notices: Sequence[str], train_in: Callable[..., list[Any]]
) -> list[Any] | None:
    """Train with progress shown, until the runs are done or, with None, until a signal stopped them."""
    from ..training.progress import Stopped, for_people

    stop, progress = stop_on_signals(), for_people(asked.verbose)
    try:
        for text in notices:
            progress.say(text)
        return train_in(out=out, threads=asked.threads, progress=progress, stop=stop)
    except Stopped:
        progress.close()
        print(f"stopped and saved; continue with: offdyn resume {out}", file=sys.stderr)
        return None
    finally:
        progress.close()


def _read_config(path: Path) -> dict[str, Any]:
    from .._util import files

    read = files.read(path)
    if not isinstance(read, dict) or not all(isinstance(name, str) for name in read):
        raise OffdynError(f"{path}: expected names and values, such as `task: hopper-big-head`")
    return read


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OffdynError(f"{name}: expected true or false, got {value!r}")
    return value


def _print_results(folders: Sequence[Any]) -> int:
    for folder in folders:
        if folder.state == "failed":
            failure = folder.provenance["failure"]
            print(f"{folder.path}   FAILED: {failure['quantity']} not finite at step {failure['step']}")
        elif (read := folder.final) is not None:
            score = read.get("final_normalised")
            shown = "" if score is None else f"   normalised {score:.1f}"
            shown += f" ({read['final_of']})" if "final_of" in read else ""
            print(f"{folder.path}   target return {read['final_mean']:.1f} +- {read['final_std']:.1f}{shown}")
        else:
            print(f"{folder.path}   {folder.state}")
    return FAILED if any(folder.state == "failed" for folder in folders) else DONE
