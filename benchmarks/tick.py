"""Where the time of a training's tick goes, part by part, alone and beside an evaluation.

    python benchmarks/tick.py [--preset paper] [--tasks TASK ...] [--seeds 5] [--threads N ...] [--seconds 10]
        [--set precision=bfloat16] [--out FILE.json]

One cohort of PAR, all tasks and seeds in one program: robots of different sizes need padded=true, as by default here.
A tick is ten source steps of every run; parts that wait for the device say so. What a tick takes beyond `updates
alone`, the device waits for the host. Updates are sent by a thread of their own, while actions are waited for and
bodies step. With several --threads the columns come once for each; evaluation has the cores that they leave.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from offdyn.cores import default_threads
from offdyn.domains.tasks import TASKS, reference
from offdyn.experiments import cohort_state
from offdyn.experiments.cohorts import Cohort
from offdyn.experiments.config import build, group
from offdyn.experiments.devices import beside_a_gpu, offer_every_core
from offdyn.experiments.evaluator import Evaluator
from offdyn.experiments.record import surroundings

PUBLISHED = [name for name, task in TASKS.items() if reference(task)]
ORDER = ("tick", "send observations, draw actions", "wait for actions", "step", "count and store")
ORDER += ("of all, wait for the sender", "beside: send rows and updates", "updates alone", "evaluation, s")
ORDER += ("cores busy", "cores taken away")
PARTS = {"_choose": "send observations, draw actions", "_act": "step", "_take_in": "count and store"}
SENDER = {"_wait_until_sent": "of all, wait for the sender", "_learn": "beside: send rows and updates"}


class Parts:
    """Seconds spent in parts of a tick, each named once."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def time(self, owner: Any, name: str, label: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.spent[label] += time.perf_counter() - started

        setattr(owner, name, timed)


def cores() -> np.ndarray:
    """Seconds so far that this machine's cores were busy, and that another machine on the same cores took; on Linux."""
    user, nice, system, _, _, interrupts, soft, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return np.array([user + nice + system + interrupts + soft, stolen]) / os.sysconf("SC_CLK_TCK")


def ticks(cohort: Cohort, parts: Parts, seconds: float) -> dict[str, float]:
    """Milliseconds of a tick and of its parts, the mean over so many seconds."""
    parts.spent.clear()
    started, count, before = time.perf_counter(), 0, cores()
    while time.perf_counter() - started < seconds:
        cohort.tick()
        count += 1
    jax.block_until_ready(cohort.learner.lanes)
    whole = time.perf_counter() - started
    busy, taken = (cores() - before) / whole
    found = {"tick": 1e3 * whole / count, "cores busy": busy, "cores taken away": taken}
    return found | {name: 1e3 * spent / count for name, spent in parts.spent.items()}


def beside_evaluations(cohort: Cohort, parts: Parts, evaluator: Evaluator, seconds: float) -> dict[str, float]:
    """The same while policies are evaluated again and again, and the seconds that one evaluation took."""
    plan, policies, over = cohort.plan, cohort_state.policies(cohort), threading.Event()
    took: list[float] = []

    def evaluate() -> None:
        while not over.is_set():
            started = time.perf_counter()
            evaluator(policies, plan.eval_episodes, plan.eval_source_episodes, index=len(took))
            took.append(time.perf_counter() - started)

    evaluation = threading.Thread(target=evaluate)
    evaluation.start()
    found = ticks(cohort, parts, seconds)
    over.set()
    while evaluation.is_alive():  # the last one has company to its end, too
        cohort.tick()
    return found | {"evaluation, s": sum(took) / len(took)}


def updates_alone(cohort: Cohort, seconds: float) -> float:
    """Milliseconds that the device needs for the updates of a tick, sent without waiting for any; the fastest turn."""
    started, turns = time.perf_counter(), []
    while time.perf_counter() - started < seconds or not turns:
        began = time.perf_counter()
        for _ in range(5):
            cohort.learn()
        jax.block_until_ready(cohort.learner.lanes)
        turns.append(time.perf_counter() - began)
    return 1e3 * min(turns) / 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--tasks", nargs="+", default=PUBLISHED)
    parser.add_argument("--seeds", type=int, default=5, help="of each task")
    parser.add_argument("--threads", type=int, nargs="+", help="for the bodies; default: what a training takes")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--set", nargs="*", default=[], metavar="SETTING=VALUE")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    offer_every_core()
    settings = {"padded": "true"} | dict(each.split("=") for each in asked.set)
    runs = [build(task, "par", asked.preset, seed, settings)[0] for task in asked.tasks for seed in range(asked.seeds)]
    if len(group(runs)) > 1:
        parser.error("these runs cannot share a program: name tasks of one robot, or leave padded=true")
    several = asked.threads or [default_threads(beside_a_gpu())]
    cohort = Cohort(runs, several[0])
    while not cohort.updates:
        cohort.tick()
    learner = cohort.learner
    learner.kept = learner.programs.keep(
        learner.lanes, learner.kept, cohort.alive
    )  # compiled now, not while it is timed
    parts = Parts()
    for name, label in PARTS.items():
        parts.time(cohort, name, label)
    for name, label in SENDER.items():
        parts.time(learner, name, label)
    parts.time(jax, "device_get", "wait for actions")
    found: dict[str, dict[str, float]] = {}
    for threads in several:
        cohort.domain.close()
        cohort.domain = cohort._open_bodies(threads)
        found[f"{threads} alone"] = ticks(cohort, parts, asked.seconds)
        evaluator = Evaluator(cohort.tasks, cohort.seeds, threads, cohort.plan.padded)
        found[f"{threads} beside"] = beside_evaluations(cohort, parts, evaluator, asked.seconds)
        evaluator.close()
    cohort.domain.close()
    found[f"{several[0]} alone"]["updates alone"] = updates_alone(cohort, asked.seconds / 3)
    print(f"{len(runs)} runs; ms of a tick by threads of the bodies:")
    print(34 * " " + "".join(f"{column:>12s}" for column in found))
    for name in ORDER:
        values = (found[column].get(name) for column in found)
        print(f"{name:34s}" + "".join(f"{value:12.2f}" if value is not None else 12 * " " for value in values))
    if asked.out:
        about = {"command": " ".join(["benchmarks/tick.py", *sys.argv[1:]]), "runs": len(runs), "milliseconds": found}
        about |= {"surroundings": surroundings(several[0])}
        asked.out.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
