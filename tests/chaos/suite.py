"""All parts of the suite in turn, each its share of the time."""

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from . import inputs, runner
from .inputs import Base
from .runner import Case, Clock
from .trainings import Training, Trainings, command, make_data, outcome

# Of the time; kills cost seconds each, the others fractions.
SHARES = {"kills": 44, "starved": 5, "studies": 5, "folders": 22, "datasets": 11, "commands": 13}
BATCH = {"folders": 20, "datasets": 25, "commands": 40}  # cases in one process
EVERY = 60.0  # seconds between two lines of progress
MOST = 30  # trainings that are drawn
BAD = ("differ", "tracebacks", "hangs", "crashes", "dead ends", "escapes", "undisturbed")
TRAINED = ("--task", "jetpack", "--method", "sac", "--seeds", "0", "1", "--threads", "1", "--set",
           "source_steps=480", "source_envs=5", "eval_interval=120", "log_interval=40", "checkpoint_interval=100",
           "eval_episodes=2", "eval_source_episodes=1", "final_episodes=3", "learning_starts=4", "batch_size=8",
           "actor_widths=8", "critic_widths=8")  # fmt: skip


class Suite:
    """What is tried, in how long, and what came of it."""

    def __init__(self, work: Path, seed: int, seconds: float, jobs: int, say: Callable[[str], None]) -> None:
        self.work, self.seed, self.jobs, self.say = work, seed, jobs, say
        self.seconds, self.clock = seconds, Clock(seconds)
        self.trainings = Trainings(work / "bases", seed)
        self.spent, self.cases = Counter[str](), Counter[str]()
        self.totals = Counter[str]()
        self.findings: list[str] = []
        self._lock, self._told = threading.Lock(), 0.0

    def prepare(self) -> None:
        """Datasets, and folders to damage: one that was stopped late, one that is done, one hardly begun."""
        bases = self.work / "bases"
        runner.end(runner.begin(_make, bases / "made.txt", bases))
        self.datasets = [
            bases / "datasets" / name for name in ("d4rl.hdf5", "random-v0", "native.safetensors", "lerobot")
        ]
        if not self.datasets[1].exists():
            shutil.copytree(bases / "datasets" / "minari" / "offdyn" / "hopper" / "random-v0", self.datasets[1])
        self.folders = list(self._bases(bases))

    def _bases(self, bases: Path) -> Iterator[Base]:
        done, note, said = bases / "done", bases / "count.txt", bases / "bases.txt"
        words = ["train", *TRAINED, "--keep-replay", "--out"]
        code = runner.end(runner.begin(command, said, [*words, str(done)], done, None, note), 600)
        assert code == 0, said.read_text()
        expected, changes = inputs.comparable(outcome(done)), int(note.read_text())
        for name, last in (("late", 0.8), ("early", 0.12)):
            out = bases / name
            runner.end(runner.begin(command, said, [*words, str(out)], out, int(last * changes)), 600)
            yield Base(out, TRAINED, expected)
        yield Base(done, TRAINED, None)

    def run(self, only: str | None = None, number: int | None = None) -> None:
        """Until the time is over, or one case of one part."""
        self.prepare()
        self.clock = Clock(self.seconds)
        if number is not None:
            assert only is not None
            if only in BATCH:
                self._note(next(self._batch(only, [number])))
                return
            self.clock.seconds = 0.0
            for another in range(min(MOST, 2 + number // 4)):
                self.trainings.another(another, Case("training", another))
            self.trainings.tried = MOST
            self._one(only, number)
            return
        workers = [threading.Thread(target=self._work, args=(only,)) for _ in range(self.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def run_some(self, wanted: Mapping[str, int]) -> None:
        """So many cases of each part; what is killed is the training whose folders are damaged, twice, at a change."""
        self.prepare()
        self.trainings.given, self.trainings.kills = [Training("short", TRAINED)], (2, 2)
        self.trainings.by_time = 0.0  # on another machine another moment, or none
        self.clock = Clock(self.seconds)
        for part, count in wanted.items():
            if part in BATCH:
                for case in self._batch(part, list(range(count))):
                    self._note(case)
            else:
                for number in range(count):
                    self._one(part, number)

    def _work(self, only: str | None) -> None:
        while not self.clock.over:
            with self._lock:
                part = only or min(SHARES, key=lambda name: self.spent[name] / SHARES[name])
                self.spent[part] += 0.001
                size = BATCH.get(part, 1)
                first = self.cases[part]
                self.cases[part] += size
            began = time.monotonic()
            if part in BATCH:
                for case in self._batch(part, list(range(first, first + size))):
                    self._note(case)
            else:
                self._one(part, first)
            with self._lock:
                self.spent[part] += time.monotonic() - began

    def _batch(self, part: str, numbers: list[int]) -> Iterator[Case]:
        play: dict[str, Any] = {
            "folders": partial(inputs.damaged_folder, self.folders),
            "datasets": partial(inputs.damaged_dataset, self.datasets),
            "commands": partial(inputs.command_line, self.folders[-1], self.datasets),
        }
        return runner.in_processes(play[part], part, self.seed, numbers, self.work / "cases")

    def _one(self, part: str, number: int) -> None:
        place = self.work / "cases" / f"{part}-{number}"
        case = Case(part, number)
        with self._lock:
            another = self.trainings.tried
            more = part != "studies" and self._wants_another(number)
            self.trainings.tried += more
        if more:
            self.trainings.another(another, case)
        if not case.findings and (self.trainings.ready or part == "studies"):
            play = {"kills": self.trainings.kill, "starved": self.trainings.starve, "studies": self.trainings.study}
            play[part](runner.draws(self.seed, part, number), place, case)
        self._note(case)

    def _wants_another(self, number: int) -> bool:
        """A training costs a compilation: a new one now and then."""
        tried = self.trainings.tried
        return tried < MOST and (tried < 2 + number // 4 if self.trainings.given is None else not tried)

    def _note(self, case: Case) -> None:
        with self._lock:
            self.totals += case.counts
            self.totals[f"{case.part} tried"] += 1
            for text in case.findings:
                self.findings.append(f"{case.part}:{case.number} {text}")
                self.say(f"FOUND {case.part}:{case.number} {text}")
            if self.clock.spent > self._told + EVERY:
                self._told = self.clock.spent
                tried = ", ".join(f"{self.totals[f'{part} tried']} {part}" for part in BATCH)
                self.say(f"{self._told:.0f} s: {self.totals['kills']} kills, {tried}, {len(self.findings)} findings")
        if not case.findings:
            shutil.rmtree(self.work / "cases" / f"{case.part}-{case.number}", ignore_errors=True)

    def counts(self) -> dict[str, Any]:
        """For people and for the docs."""
        return {
            "seed": self.seed,
            "seconds": round(self.clock.spent),
            "trainings": len(self.trainings.ready),
            **{name: self.totals[name] for name in ("kills", "stops", *BAD)},
            **{name: self.totals[name] for name in sorted(self.totals) if name not in ("kills", "stops", *BAD)},
            "findings": self.findings,
        }


def _make(bases: Path) -> int:
    make_data(bases / "data")
    inputs.make_datasets(bases / "datasets")
    return 0
