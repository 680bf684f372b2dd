"""Small trainings, what disturbs them, and whether that made a difference."""

import csv
import json
import os
import resource
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load

from offdyn.algos.backbones import BACKBONES
from offdyn.algos.registry import RECIPES
from offdyn.cli.main import main
from offdyn.data.datasets import save
from offdyn.envs import pairs

from ..data.simulated import simulated
from ..training.full_disk import FullDisk
from ..training.small import rows_of, small
from . import runner
from .runner import Case, begin, end

LIVE = ("jetpack", "jetpack", "jetpack", "hopper-big-head", "walker-no-right-thigh")
OWN = ("tests.custom.environments:source", "tests.custom.environments:target")
FINISHED, FAILED, MISTAKE, STOPPED = 0, 1, 2, 75
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
CREATED = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SAME = ("config.yaml", "metrics.jsonl", "policy.safetensors", "agent.safetensors", "final.json")


@dataclass(frozen=True)
class Training:
    """What is asked for, and whether a resume gives the very same bytes: people's own environments begin anew."""

    name: str
    arguments: tuple[str, ...]
    exact: bool = True
    fails: bool = False  # one of its lanes does

    def ended(self, code: int | None) -> bool:
        """Whether this is the end of it: a resume of what is left tells of no lane that had failed before."""
        return code == FINISHED or (self.fails and code == FAILED)


def drawn(draw: Random, number: int, data: Path) -> Training:
    """A short training with tiny networks, of any method and backbone, from any kind of source."""
    kind = draw.choice(("live", "live", "live", "data", "own", "failing"))
    offline = [name for name, recipe in RECIPES.items() if recipe.offline]
    online = [name for name in RECIPES if name not in offline]
    method = draw.choice(offline if kind == "data" else online)
    settings: dict[str, Any] = small(method) | {"source_envs": 5}
    settings["source_steps"] = 240 if kind == "data" else draw.choice((240, 360, 480))
    settings["checkpoint_interval"] = draw.choice((40, 60, 100))
    words = ["--method", method]
    if kind == "own":
        words += ["--source", OWN[0], "--target", OWN[1], "--env-processes", "off"]
    else:
        task = draw.choice(LIVE)
        words += ["--task", task]
        if kind == "data":
            file = data / f"{task}.safetensors"
            words += ["--source-data", str(file)]
            settings.pop("source_envs")
    if kind in ("live", "own") and method in ("sac", "par", "darc"):
        backbone = draw.choice(("classic", *BACKBONES))
        words += ["--backbone", backbone]
        if backbone != "classic":
            settings |= {"updates_per_target_step": draw.choice((1, 3)), "random_steps": 2}
            if backbone == "simba":
                settings |= {"source_steps_per_target_step": 10}
        if draw.random() < 0.3:
            words += ["--domain-input", draw.choice(("flag", "embedding"))]
    seeds = ["0"] if kind in ("own",) else draw.choice((["0"], ["0", "1"], ["3", "4", "5"]))
    if kind == "failing":  # a lane that explodes, beside one that does not
        settings["critic_learning_rate"] = "1e-3,1e30"
    words += ["--seeds", *seeds, "--threads", "1", "--set"]
    words += [f"{name}={_said(value)}" for name, value in settings.items()]
    label = " ".join(words[: words.index("--threads")])
    return Training(f"{number}: {label}", tuple(words), exact=kind != "own", fails=kind == "failing")


def _said(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def make_data(folder: Path) -> None:
    """A dataset for every task."""
    for task in set(LIVE):
        source = pairs.source_of(pairs.find(task))
        rows = rows_of(source, 400) if task == "jetpack" else simulated(source.name)
        save(rows, folder / f"{task}.safetensors")


class Counting:
    """Counts what this process does to files below a folder, and kills it before number `last`."""

    def __init__(self, folder: Path, last: int | None, note: Path | None = None) -> None:
        self.folder, self.last, self.count, self.note = str(folder), last, 0, note
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CREATED or not arguments or not str(arguments[0]).startswith(self.folder):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES):
            return
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def command(words: list[str], out: Path, last: int | None = None, note: Path | None = None) -> int:
    """Run it here, killed before number `last` of its changes to OUT; how many those were goes into the note."""
    counting = Counting(out, last)
    code = main(words)
    if note is not None:
        note.write_text(str(counting.count))
    return code


def outcome(out: Path) -> dict[str, Any]:
    """All that must be the same: the files of every run, the wall clock aside, and which files there are."""
    kept: dict[str, Any] = {}
    for folder in sorted(path.parent for path in out.glob("*/config.yaml")):
        with open(folder / "curve.csv", newline="") as file:
            kept[f"{folder.name}/curve.csv"] = [
                {name: cell for name, cell in line.items() if name != "wall_seconds"} for line in csv.DictReader(file)
            ]
        for name in SAME:
            path = folder / name
            kept[f"{folder.name}/{name}"] = path.read_bytes() if path.exists() else None
        kept[f"{folder.name} files"] = sorted(path.name for path in folder.iterdir())
        about = json.loads((folder / "provenance.json").read_text())
        kept[f"{folder.name} state"] = about["state"], about.get("failure"), about["target_steps"], about["updates"]
    for cohort in sorted((out / "cohorts").iterdir()):
        kept[f"{cohort.name} files"] = sorted(path.name for path in cohort.iterdir())
        parts = [load(path.read_bytes()) for path in sorted((cohort / "segments").glob("*.safetensors"))]
        for name in sorted({name for part in parts for name in part}):
            rows = np.concatenate([part[name] for part in parts if name in part], 1)
            kept[f"{cohort.name} {name}"] = rows.tobytes()
    return kept


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def whole(out: Path, training: Training) -> str:
    """What is missing of a training that cannot be compared byte for byte."""
    for path in out.glob("*/provenance.json"):
        about = json.loads(path.read_text())
        if about["state"] != "finished" or not (path.parent / "final.json").exists():
            return f"{path.parent.name} is {about['state']}"
    return "" if list(out.glob("*/final.json")) else "no run is there"


class Trainings:
    """Those of one suite, each trained once without being disturbed; compiled programs are shared by all."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.given: list[Training] | None = None  # None: they are drawn
        self.kills = (4, 12)  # of one training
        self.by_time = 0.3  # share of disturbances after some time, not before some change
        self.ready: list[tuple[Training, dict[str, Any], float, int]] = []
        self.tried = 0
        (folder / "data").mkdir(parents=True)

    def another(self, number: int, case: Case) -> None:
        """One more to draw from."""
        if self.given is not None:
            training = self.given[number]
        else:
            training = drawn(runner.draws(self.seed, "training", number), number, self.folder / "data")
        out = self.folder / f"whole-{number}"
        words = ["train", *training.arguments, "--keep-replay", "--out", str(out)]
        said, note = out.with_suffix(".txt"), out.with_suffix(".count")
        code = end(begin(command, said, words, out, None, note), 600)
        began = time.monotonic()
        if training.ended(code):  # again, now that its programs are compiled: that is how long it takes
            shutil.rmtree(out)
            code = end(begin(command, said, words, out, None, note), 600)
        if not training.ended(code):
            case.found("undisturbed", f"{training.name}: exit code {code}: {_last(said)}")
            return
        self.ready.append((training, outcome(out), time.monotonic() - began, int(note.read_text())))
        shutil.rmtree(out)

    def kill(self, draw: Random, place: Path, case: Case) -> None:
        """One training, killed or stopped several times and resumed, must end as if nothing had been."""
        training, expected, seconds, changes = draw.choice(self.ready)
        case.about = training.name
        out = place / "out"
        said = place / "said.txt"
        place.mkdir(parents=True)
        fresh = ["train", *training.arguments, "--keep-replay", "--out", str(out)]
        further = ["resume", str(out), "--threads", "1"]
        disturbances, moments, refused = draw.randint(*self.kills), [], 0
        while True:
            last, asked = None, None
            if disturbances:
                if draw.random() >= self.by_time:
                    last = draw.randint(1, max(2, changes // draw.choice((1, 2, 4, 8))))
                    moments.append(f"before change {last}")
                else:
                    asked = (draw.uniform(0.05, 1.0) * seconds, draw.choice((signal.SIGKILL,) * 4 + ASKING))
                    moments.append(f"{asked[1].name} after {asked[0]:.2f} s")
                disturbances -= 1
            begun = any((out / "cohorts").glob("*/cohort.json")) if draw.random() < 0.5 else refused % 2 == 0
            process = begin(command, said, further if begun and out.exists() else fresh, out, last)
            if asked is not None:
                runner.signal_after(process, asked[1], asked[0])
            code = end(process)
            if code == -signal.SIGKILL:
                case.counts["kills"] += 1
            elif code == STOPPED and asked is not None:
                case.counts["stops"] += 1
            elif code == MISTAKE and refused < 2 and _refused(said):
                refused += 1  # the other command, then
                continue
            elif training.ended(code):
                break
            elif code is not None and code < 0 and asked is not None and code == -asked[1]:
                case.counts["stops"] += 1  # before it listened
            else:
                kind = "hangs" if code is None else "dead ends"
                case.found(kind, f"{training.name}: exit code {code} after {moments}: {_last(said)}")
                return
            refused = 0
        self.compare(training, expected, out, case, ", ".join(moments), said)

    def compare(
        self, training: Training, expected: dict[str, Any], out: Path, case: Case, what: str, said: Path
    ) -> None:
        if "Traceback" in said.read_text(errors="replace"):
            case.found("tracebacks", f"{training.name}: {what}: {_last(said)}")
        if not training.exact:
            if missing := whole(out, training):
                case.found("differ", f"{training.name}: {missing} after {what}")
            return
        case.counts["bytes compared"] += sum(len(value) for value in expected.values() if isinstance(value, bytes))
        if names := differing(expected, outcome(out)):
            case.found("differ", f"{training.name}: {names} after {what}")

    def starve(self, draw: Random, place: Path, case: Case) -> None:
        """A training that meets a full disk or a small limit must be resumed to the same end without it."""
        training, expected, _, _ = draw.choice([one for one in self.ready if one[0].exact])
        out, said = place / "out", place / "said.txt"
        place.mkdir(parents=True)
        words = ["train", *training.arguments, "--keep-replay", "--out", str(out)]
        how = draw.choice(("disk", "disk", "files", "size", "memory"))
        limit: int = {
            "disk": lambda: draw.randint(1, 150),
            "files": lambda: draw.randint(24, 60),  # fewer, and libraries that JAX calls give up in their own way
            "size": lambda: draw.choice((100, 1000, 5000, 20_000, 60_000)),
            "memory": lambda: draw.randint(2**30, 3 * 2**30),
        }[how]()
        case.about = f"{how} {limit}: {training.name}"
        code = end(begin(starved, said, words, how, limit))
        case.counts[f"small {how}"] += 1
        if code is None:
            case.found("hangs", case.about)
            return
        if "Traceback" in (text := said.read_text(errors="replace")) and how != "memory":
            case.found("tracebacks", f"{case.about}: {text[-300:]}")
        if not training.ended(code):
            case.counts["starved"] += 1
            if how != "memory" and code not in (FAILED, MISTAKE, STOPPED):
                case.found("tracebacks", f"{case.about}: exit code {code}: {_last(said)}")
            further = ["resume", str(out), "--threads", "1"]
            code = end(begin(command, said, further, out))
            if code == MISTAKE and _refused(said):
                code = end(begin(command, said, words, out))
        if not training.ended(code):
            case.found("dead ends", f"{case.about}: then exit code {code}: {_last(said)}")
            return
        self.compare(training, expected, out, case, case.about, said)

    def study(self, draw: Random, place: Path, case: Case) -> None:
        """A study with a job that fails and a process that is killed: the others end, and again goes on."""
        place.mkdir(parents=True)
        base = {name: list(value) if isinstance(value, tuple) else value for name, value in small("sac").items()}
        base |= {"source_envs": 5, "source_steps": 240, "log_interval": 40}
        seeds = sorted(draw.sample(range(100), 2))
        about = {
            "name": "chaotic",
            "tasks": ["jetpack"],
            "methods": ["sac", "sac-tar"],
            "seeds": seeds,
            "settings": base,
        }
        about["grid"] = {"critic_learning_rate": [0.001, 1e30]}
        (place / "chaotic.yaml").write_text(yaml.safe_dump(about))
        case.about = f"a study of seeds {seeds}"
        ends = {}
        for name, kills in (("whole", 0), ("killed", 2)):
            out, said = place / name, place / f"{name}.txt"
            words = ["study", "run", str(place / "chaotic.yaml"), "--out", str(out), "--threads", "1"]
            for _ in range(kills):
                process = begin(main, said, words)
                runner.signal_after(process, signal.SIGKILL, draw.uniform(1.0, 20.0))
                if end(process) == -signal.SIGKILL:
                    case.counts["kills"] += 1
            code = end(begin(main, said, words), 600)
            if code is None:
                case.found("hangs", case.about)
                return
            if code not in (FINISHED, FAILED):
                case.found("dead ends", f"{case.about}: exit code {code}: {_last(said)}")
            found = {path.parent.name: json.loads(path.read_text())["state"] for path in out.rglob("provenance.json")}
            ends[name] = (
                found,
                {
                    f"{path.parent.name}/{path.name}": path.read_bytes()
                    for path in out.rglob("*.safetensors")
                    if path.name in ("policy.safetensors", "agent.safetensors")
                },
            )
        if ends["whole"][0] != ends["killed"][0] or differing(ends["whole"][1], ends["killed"][1]):
            names = differing(ends["whole"][1], ends["killed"][1])
            case.found("differ", f"{case.about}: {ends['whole'][0]} and {ends['killed'][0]}, {names}")
        case.counts["failing jobs"] += sum(state == "failed" for state in ends["whole"][0].values())


def starved(words: list[str], how: str, limit: int) -> int:
    """The command with little of something."""
    if how == "disk":
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, limit)
            return main(words)
    kind = {"files": resource.RLIMIT_NOFILE, "size": resource.RLIMIT_FSIZE, "memory": resource.RLIMIT_AS}[how]
    resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
    return main(words)


def _refused(said: Path) -> bool:
    return any(word in _last(said) for word in ("nothing to resume there", "exists already"))


def _last(said: Path) -> str:
    return said.read_text(errors="replace").strip()[-400:] if said.exists() else ""
