"""A demonstration of three minutes: PAR and its baselines on a toy environment, with a verdict computed from the seeds.

    python -m offdyn.studies.demo [--out demo] [--seeds 0 1 2 3 4] [--quick]

The world is offdyn/envs/jetpack.py; docs/getting-started.md says what was measured with it.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.errors import OffdynError
from ..training.progress import stop_on_signals

if TYPE_CHECKING:
    from ..training.config import RunConfig
    from ..training.progress import Progress, Stop
    from ..training.run_folder import RunFolder

REASON = (
    "In the source a jet carries the walker three strides at once, in the target it is broken and firing it wastes the "
    "step: no target row ever shows a flight, so PAR penalises the source transitions that do, and learns to walk."
)
RULE = (
    "the returns of two methods are dealt anew in every possible way; they differ where at most 5 % of the deals give "
    "means as far apart as those seen (an exact permutation test over the seeds, either direction)"
)
LEVEL = 0.05
# Halves the time to compile, and small products are faster on one thread.
COMPILER = "--xla_backend_optimization_level=1 --xla_cpu_multi_thread_eigen=false"
PENALTY = 2.0
INTERVAL = 150  # source steps per target step
SCHEDULE = {
    "source_steps_per_target_step": INTERVAL,
    "source_envs": 10,
    "learning_starts": 20,
    "eval_episodes": 20,
    "eval_source_episodes": 2,
    "final_episodes": 50,
}
FULL = {"target_steps": 120, "eval_interval": 1_800, "log_interval": 450, "checkpoint_interval": 18_000}
QUICK = {"target_steps": 25, "eval_interval": 750, "log_interval": 750, "checkpoint_interval": 3_750}
AGENT = {
    "actor_widths": (32, 32),
    "critic_widths": (32, 32),
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 2e-3,
    "target_rate": 0.02,
    "discount": 0.95,
    "temperature": 0.02,
}
ROWS = 32  # per domain and update
ENCODERS = {"encoder_widths": (32, 32), "code_size": 16, "encoder_batch": ROWS, "encoder_learning_rate": 3e-3}


@dataclass(frozen=True)
class Entrant:
    """One of the methods compared: what to build, and how to show it."""

    label: str
    method: str
    settings: Mapping[str, Any]
    colour: str  # Okabe and Ito's: told apart by the colour-blind too


PAR = Entrant("PAR", "par", {"batch_size": ROWS, **ENCODERS, "penalty": PENALTY}, "#0072B2")
BASELINES = (
    Entrant("PAR with penalty 0", "par", {"batch_size": ROWS, **ENCODERS, "penalty": 0.0}, "#D55E00"),
    Entrant("target-only SAC", "sac-tar", {"batch_size": 2 * ROWS}, "#000000"),
    Entrant(
        "target-only SAC with PAR's updates",
        "sac-tar-10",
        {"batch_size": 2 * ROWS, "updates_per_target_step": INTERVAL},
        "#009E73",
    ),
)


@dataclass(frozen=True)
class Comparison:
    """PAR against one baseline, over the seeds."""

    baseline: str
    difference: float  # of mean final returns, PAR's minus the baseline's
    p: float  # share of all deals with means at least as far apart

    @property
    def chance(self) -> str:
        return f"p = {self.p:.3f}" if self.p >= 0.0005 else "p < 0.001"

    @property
    def verdict(self) -> str:
        if self.p > LEVEL:
            return "no difference"
        return "PAR is better" if self.difference > 0 else "PAR is worse"


def compare(baseline: str, ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """An exact permutation test of the difference of means."""
    together = np.array([*ours, *theirs], float)
    difference = float(np.mean(ours) - np.mean(theirs))
    dealt = np.array([together[list(hand)].sum() for hand in combinations(range(len(together)), len(ours))])
    means = dealt / len(ours) - (together.sum() - dealt) / len(theirs)
    # Sums in another order differ in their last bits: an equal deal must count as equal.
    slack = 1e-9 * max(1.0, float(np.abs(together).max()))
    return Comparison(baseline, difference, float(np.mean(np.abs(means) >= abs(difference) - slack)))


def conclude(comparisons: Sequence[Comparison]) -> str:
    """All comparisons in one sentence."""
    parts = []
    for verdict in ("PAR is better", "no difference", "PAR is worse"):
        names = [c.baseline for c in comparisons if c.verdict == verdict]
        if names:
            link = {"PAR is better": "better than", "no difference": "not different from", "PAR is worse": "worse than"}
            parts.append(f"{link[verdict]} {' and '.join(', '.join(names).rsplit(', ', 1))}")
    return f"PAR is {', '.join(parts)}."


def plan(baseline: Entrant, seeds: Sequence[int], quick: bool) -> "list[RunConfig]":
    """The runs of one method, one lane per seed."""
    from ..envs.jetpack import JETPACK
    from ..training.config import build

    settings = {**SCHEDULE, **(QUICK if quick else FULL), **AGENT, **baseline.settings}
    runs = [build(JETPACK, baseline.method, seed=seed, settings=settings)[0] for seed in seeds]
    told_apart_by = ("penalty",) if "penalty" in baseline.settings else ()
    return [replace(run, chosen=told_apart_by) for run in runs]  # short folder names


def train(
    out: Path, seeds: Sequence[int], quick: bool, progress: "Progress", stop: "Stop"
) -> "dict[str, list[RunFolder]]":
    """All runs of all methods; PAR with and without penalty share a program."""
    from ..training.trainer import start

    runs = {baseline.label: plan(baseline, seeds, quick) for baseline in (PAR, *BASELINES)}
    every = [run for some in runs.values() for run in some]
    folders = {folder.config.name: folder for folder in start(every, out, progress=progress, stop=stop)}
    for folder in folders.values():
        if folder.state != "finished":
            raise OffdynError(f"{folder.config.name} {folder.state}: {folder.provenance.get('failure')}")
    return {label: [folders[run.name] for run in some] for label, some in runs.items()}


def results(trained: "Mapping[str, Sequence[RunFolder]]") -> dict[str, list[float]]:
    """Each method's final returns: means over fresh target episodes, one per seed."""
    read = {label: [json.loads((f.path / "final.json").read_text()) for f in some] for label, some in trained.items()}
    return {label: [final["final_mean"] for final in finals] for label, finals in read.items()}


def table(returns: Mapping[str, Sequence[float]], comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Rows of text: method, mean, every seed, and the verdict."""
    verdicts = {c.baseline: f"{c.verdict} (by {c.difference:+.1f}, {c.chance})" for c in comparisons}
    return [
        [label, f"{np.mean(values):.1f}", "  ".join(f"{v:.1f}" for v in values), verdicts.get(label, "")]
        for label, values in returns.items()
    ]


def demonstrate(out: Path, seeds: Sequence[int], quick: bool, progress: "Progress", stop: "Stop") -> str:
    """Train, judge, write the page; what to print. What was in the folder stays until the new runs are done."""
    from .demo_page import write

    mark = out / "demo.json"
    if out.exists() and any(out.iterdir()) and not mark.exists():
        raise OffdynError(f"{out} exists and is no demo's folder: name another one with --out")
    if mark.exists():
        progress.say(f"{out} holds an earlier demo, which stays until this one is done and takes its place")
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    fresh = Path(tempfile.mkdtemp(prefix="unfinished-", dir=out))
    try:
        trained = train(fresh, seeds, quick, progress, stop)
        returns = results(trained)
        comparisons = [compare(baseline.label, returns[PAR.label], returns[baseline.label]) for baseline in BASELINES]
        curves = {label: [folder.curve() for folder in some] for label, some in trained.items()}
        shutil.rmtree(out / "runs", ignore_errors=True)
        fresh.rename(out / "runs")
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        if not any(out.iterdir()):
            out.rmdir()
        raise
    seconds = time.perf_counter() - began
    verdict = conclude(comparisons)
    rows = table(returns, comparisons)
    write(out, verdict, rows, curves, seeds, quick, seconds)
    said = {"format": 1, "verdict": verdict, "rule": RULE, "seeds": list(seeds), "quick": quick, "final": returns}
    mark.write_text(json.dumps(said | {"comparisons": [vars(c) for c in comparisons]}, indent=2) + "\n")
    width = max(len(row[0]) for row in rows)
    lines = [f"{label:<{width}}  {mean:>5}   {each}   {said}".rstrip() for label, mean, each, said in rows]
    head = f"{'Final return in the target':<{width}}  {'mean':>5}   each seed ({' '.join(map(str, seeds))})"
    end = f"{verdict}\n{seconds:.0f} seconds. Look at {out / 'index.html'}"
    return "\n".join(["", REASON, "", head, *lines, "", end])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m offdyn.studies.demo", description="PAR against its baselines, in small."
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the page; default demo")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], metavar="N", help="default 0 to 4")
    parser.add_argument("--quick", action="store_true", help="a fifth of the steps: shows that all turns, no more")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; a mistake is a sentence, and Ctrl-C leaves nothing behind."""
    asked = parse(arguments)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # networks this small are slower anywhere else
    os.environ.setdefault("XLA_FLAGS", COMPILER)
    try:
        from ..training.progress import Lines, Stopped, for_people

        class Brief(Lines):
            """Lines without one for every evaluation of every run."""

            def evaluated(self, run: str, target_return: float, penalty: float | None) -> None: ...

        # From here on a flag: an exception that a signal raises may be swallowed where it lands.
        stop, progress = stop_on_signals("stopping ..."), for_people()
        shown = Brief() if isinstance(progress, Lines) else progress
        try:
            print(demonstrate(asked.out, asked.seeds, asked.quick, shown, stop))
        except Stopped:
            raise KeyboardInterrupt from None
        return 0
    except OffdynError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: interrupted; nothing was changed", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
