"""Trains what datasets are made of: SAC in the source, its policy at a medium level and at its end, and its replay."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import __version__
from ..._util.errors import OffdynError
from ..._util.files import write_atomically
from ...envs import pairs
from ...envs.tasks import Task
from ...policies.trained import Policies, Policy
from ...training import trainer as training
from ...training.checkpoint import COHORTS
from ...training.config import RunConfig, build
from ...training.hardware import PACKAGES
from ...training.progress import Progress, Quiet, Stop, Stopped
from ...training.run_folder import RunFolder, to_yaml
from ..datasets import made_here, save
from . import replays, snapshots

METHOD = "sac-src"  # the run that SAC-tune starts from, too
# Stochastic returns at which a policy is of medium quality: near those of D4RL's medium sets (ant: our choice).
LEVELS = {"halfcheetah": 4770.0, "hopper": 1422.0, "walker": 2852.0, "ant": 3000.0}
EPISODES = 10  # of each snapshot, drawn as training draws actions
REPLAY = "medium-replay"
LAST = 5  # evaluations by whose mean the best of several seeds is found


class Choice(NamedTuple):
    """Which of a run's snapshots are used for what, by index."""

    medium: int
    reached: bool  # whether medium has the level that was wanted
    expert: int


def train(
    out: Path,
    robots: Sequence[str],
    *,
    seeds: Sequence[int] = (0,),
    levels: Mapping[str, float] | None = None,
    settings: Mapping[str, Any] | None = None,
    unfinished: bool = False,
    threads: int | None = None,
    progress: Callable[[], Progress] = Quiet,
    stop: Stop | None = None,
) -> list[Path]:
    """Train (or go on, or only pick, as far as an earlier call came), then write OUT/behaviours; its files."""
    levels = LEVELS | dict(levels or {})
    # A source is its own target here: no episodes are spent on the same body under its other name.
    chosen = {"eval_source_episodes": 0} | dict(settings or {}) | {"keep_policies": True}
    runs = [build(_source(robot), METHOD, seed=seed, settings=chosen)[0] for robot in robots for seed in seeds]
    folder = out / "runs"
    if not unfinished:
        _train_what_is_left(runs, folder, threads, progress, stop)
    stop, say, written = stop or Stop(), progress(), list[Path]()
    try:
        for robot in robots:
            mine = [RunFolder.open(folder / run.name) for run in runs if run.task == _source(robot)]
            best = _best([run for run in mine if unfinished or run.state == "finished"], robot)
            written += _pick(
                best, robot, levels.get(robot), out / "behaviours", _measure(best, threads, say, stop), say
            )
    finally:
        say.close()
    return written


def _source(robot: str) -> pairs.Pair:
    task = pairs.find(robot)
    if pairs.source_of(task) != task:
        raise OffdynError(
            f"--robots {robot}: a target; behaviours are trained in sources, here {pairs.family_of(task)}"
        )
    return task


def _train_what_is_left(
    runs: Sequence[RunConfig],
    folder: Path,
    threads: int | None,
    progress: Callable[[], Progress],
    stop: Stop | None,
) -> None:
    _check_same(runs, folder)
    if any((folder / COHORTS).glob("*/cohort.json")):
        training.resume(folder, threads=threads, progress=progress(), stop=stop)
        _check_same(runs, folder)
    new = [run for run in runs if not (folder / run.name).exists()]
    if new:
        training.start(new, folder, threads=threads, keep_replay=True, progress=progress(), stop=stop)


def _check_same(runs: Sequence[RunConfig], folder: Path) -> None:
    for run in runs:
        path = folder / run.name
        if path.exists() and to_yaml(RunFolder.open(path).config) != to_yaml(run):
            raise OffdynError(
                f"{path} was begun with other settings than now asked for: ask for the same, or train in another folder"
            )


def _best(runs: Sequence[RunFolder], robot: str) -> RunFolder:
    """The run whose last evaluations are the best; the first of equals."""
    usable = [run for run in runs if len(snapshots.kept(run)) > 1]
    if not usable:
        raise OffdynError(f"{robot}: no run there with policies to pick from: its training failed, or has not begun")
    return max(usable, key=lambda run: float(np.mean([line["target_return_mean"] for line in run.curve()[-LAST:]])))


def choose(steps: Sequence[int], returns: Sequence[float], level: float | None) -> Choice:
    """Medium is the first trained snapshot at the level, or the nearest to half the final return; expert the last."""
    at, reached = np.asarray(steps), np.asarray(returns, float)
    trained = np.flatnonzero(at > 0)
    if not len(trained):
        raise OffdynError("no snapshot of a trained policy: nothing to pick from")
    enough = trained[reached[trained] >= level] if level is not None else trained[:0]
    medium = enough[0] if len(enough) else trained[np.abs(reached[trained] - 0.5 * reached[-1]).argmin()]
    return Choice(int(medium), bool(len(enough)), len(at) - 1)


def _measure(run: RunFolder, threads: int | None, progress: Progress, stop: Stop) -> np.ndarray:
    """[snapshots, episodes]: the stochastic returns of every policy the run kept."""
    paths = list(snapshots.kept(run).values())
    returns: list[np.ndarray] = []
    for first in range(0, len(paths), snapshots.TOGETHER):
        if stop.wanted:
            raise Stopped
        some = _policies(paths[first : first + snapshots.TOGETHER])
        returns.append(snapshots.stochastic_returns(some, run.config.task, EPISODES, run.config.seed, threads))
        done = min(first + snapshots.TOGETHER, len(paths))
        progress.say(f"{run.config.name}: stochastic returns of {done} of {len(paths)} policies")
    return np.concatenate(returns)


def _policies(paths: Sequence[Path]) -> Policies:
    return snapshots.stacked([Policy(path).policies for path in paths])


def _pick(
    run: RunFolder, robot: str, level: float | None, out: Path, returns: np.ndarray, progress: Progress
) -> list[Path]:
    """Write what `choose` says of the returns [snapshots, episodes]."""
    kept = snapshots.kept(run)
    steps, paths = list(kept), list(kept.values())
    means = returns.mean(axis=1)
    choice = choose(steps, means.tolist(), level)
    wanted = "" if level is None else f", {level:g} was wanted"
    if level is not None and not choice.reached:
        progress.say(
            f"{robot}: no snapshot reached the medium level of {level:g}; taking the nearest to half the end's"
        )
    told = {"medium": choice.medium, "expert": choice.expert}
    written = []
    for quality, index in told.items():
        about = _about(run, robot, quality) | {
            "training_step": steps[index],
            "level_wanted": level if quality == "medium" else None,
            "level_met": choice.reached if quality == "medium" else None,
            "return_mean": float(means[index]),
            "return_std": float(returns[index].std()),
            "return_episodes": EPISODES,
            "picked": _rule(quality, choice, level),
        }
        written.append(out / f"{robot}-{quality}.safetensors")
        snapshots.write_behaviour(written[-1], _policies([paths[index]]), about)
        progress.say(f"{robot}-{quality}: step {steps[index]}, stochastic return {means[index]:.1f}{wanted}")
        wanted = ""
    if replays.kept(run):
        written.append(out / f"{robot}-{REPLAY}.safetensors")
        _write_replay(written[-1], run, robot, steps[choice.medium], float(means[choice.medium]), level, choice)
    written.append(out / f"{robot}-curve.csv")
    write_atomically(written[-1], _curve(run, steps, returns, choice).encode())
    return written


def _write_replay(
    path: Path, run: RunFolder, robot: str, steps: int, reached: float, level: float | None, choice: Choice
) -> None:
    """All that training had collected when it had medium's policy."""
    task, config = run.config.task, run.config
    body = made_here(task) if isinstance(task, Task) else {"robot": robot}
    said = f"the transitions that {config.name} collected in its first {steps} steps"
    about = {"quality": REPLAY, "stochastic": True, "seed": config.seed, "training_step": steps}
    about |= {"level_wanted": level, "level_met": choice.reached, "level_reached": reached}
    save(replays.collected(run, steps).described(name=f"{robot}-{REPLAY}", made=said, **body, **about), path)


def _rule(quality: str, choice: Choice, level: float | None) -> str:
    if quality == "expert":
        return "the last policy of the training"
    if choice.reached:
        return f"the first kept policy whose stochastic return reached {level:g}"
    missed = "" if level is None else f"none reached {level:g}: "
    return f"{missed}the kept policy whose stochastic return is nearest to half the last one's"


def _about(run: RunFolder, robot: str, quality: str) -> dict[str, Any]:
    """What the card of a behaviour says of its training."""
    spec, config, seen = pairs.spec_of(run.config.task), run.config, run.provenance
    settings = config.settings()
    return {
        "run": config.name,
        "activation": "relu",
        "output": "tanh",
        "observation_size": spec.observation_size,
        "action_size": spec.action_size,
        "robot": robot,
        "quality": quality,
        "method": config.method,
        "preset": config.preset,
        "seed": config.seed,
        "settings": {name: settings[name] for name in config.chosen},
        "training": run.state,
        "trained_steps": max(snapshots.kept(run)),
        "model": pairs.fingerprints(config.task).get("source"),
        "packages": {name: version for name, version in seen.get("packages", {}).items() if name in PACKAGES},
        "device": seen.get("device", {}).get("kind"),
        "offdyn": __version__,
    }


def _curve(run: RunFolder, steps: Sequence[int], returns: np.ndarray, choice: Choice) -> str:
    """The training curve: the mean action's returns, the drawn actions' returns, and what was picked where."""
    evaluated = {int(line["source_steps"]): line for line in run.curve()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("step", "return_mean", "return_std", "stochastic_return_mean", "stochastic_return_std", "picked"))
    for index, step in enumerate(steps):
        uses = {"medium": index == choice.medium, "expert": index == choice.expert}
        line = evaluated[step]
        numbers = (line["target_return_mean"], line["target_return_std"], returns[index].mean(), returns[index].std())
        picked = " ".join(name for name, used in uses.items() if used)
        writer.writerow((step, *(f"{number:.6g}" for number in numbers), picked))
    return text.getvalue()
